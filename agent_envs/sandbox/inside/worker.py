"""The process that runs the code: reads a cell, runs it as a REPL would, and sends back what came of it."""

from __future__ import annotations

import _random
import builtins
import os
import resource
import sys

from . import channel

TYPE_CHECKING = False  # as typing's, whose import would cost each run some milliseconds
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

ONLY_AST = 0x400  # ast.PyCF_ONLY_AST, without the cost of importing ast
SIGKILL = 9


def serve(link: int, config: dict[str, Any]) -> None:
    """Runs cells until the socket closes. Never returns."""
    me = os.getpid()
    _limit(config)
    _prepare(config)
    variables: dict[str, Any] = {"__name__": "__main__", "__builtins__": builtins}
    cells = 0
    channel.send(link, ["ready"])
    while True:
        message = channel.receive(link)
        if message is None:
            os._exit(0)
        cells += 1
        _renew_cpu(config["cpu_s"])
        record = _run(channel.unpack(message)[0], f"<cell {cells}>", variables)
        _flush()
        if os.getpid() != me:  # a child that the code forked must not go on as the worker
            os._exit(0)
        if config["namespaces"]:
            _kill_children()
        chars = config["output_chars"]
        channel.send(link, [_cut(text, chars) for text in record])


def _limit(config: dict[str, Any]) -> None:
    for name, amount in config["rlimits"].items():
        try:
            _set_limit(getattr(resource, name), amount)
        except (AttributeError, OSError, ValueError):
            if config["namespaces"]:
                raise  # elsewhere (macOS) some limits don't exist or can't be set


def _set_limit(kind: int, amount: int) -> None:
    hard = resource.getrlimit(kind)[1]
    capped = amount if hard == resource.RLIM_INFINITY else min(amount, hard)
    resource.setrlimit(kind, (capped, capped))


def _renew_cpu(seconds: int) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _prepare(config: dict[str, Any]) -> None:
    sys.argv = [""]
    sys.path[:] = ["", *sys.path, *config["sys_path"]]
    sys.set_int_max_str_digits(0)
    streams: tuple[Any, Any] = (sys.stdout, sys.stderr)
    for stream in streams:  # by lines, so that what was printed before a time-out is not lost
        stream.reconfigure(errors="backslashreplace", line_buffering=True)
    vars(builtins).update(exit=sys.exit, quit=sys.exit)  # which site would add
    vars(_random)["Random"] = _repeatable(_random.Random)


def _repeatable(kind: type) -> type:
    """A generator that seeds itself by how many came before it, so that a run can be repeated."""

    class Random(kind):  # type: ignore[misc]
        made = 0

        def seed(self, a: Any = None) -> None:
            if a is None:
                a = Random.made
                Random.made += 1
            super().seed(a)

    return Random


def _kill_children() -> None:
    """Kills every process of the namespace but this one and process 1: no child outlives its cell."""
    try:
        os.kill(-1, SIGKILL)
    except ProcessLookupError:  # there is none
        return


def _run(source: str, name: str, variables: dict[str, Any]) -> list[str]:
    """The record of one cell: status, value ("" for none), whether there is a value, error."""
    try:
        body, last = _compile(source, name)
        exec(body, variables)
        value = None if last is None else eval(last, variables)
        shown = "" if value is None else repr(value)
    except SystemExit as error:
        failed = error.code not in (None, 0)
        return ["error", "", "", f"SystemExit: {error.code}"] if failed else ["ok", "", "", ""]
    except MemoryError as error:
        return ["memory", "", "", _describe(error, source, name)]
    except BaseException as error:
        return ["error", "", "", _describe(error, source, name)]
    return ["ok", shown, "" if value is None else "value", ""]


def _compile(source: str, name: str) -> tuple[CodeType, CodeType | None]:
    """All statements, and a last expression by itself."""
    import _ast

    tree: Any = compile(source, name, "exec", ONLY_AST)
    if not tree.body or not isinstance(tree.body[-1], _ast.Expr):
        return compile(tree, name, "exec"), None
    last = _ast.Expression(tree.body.pop().value)
    return compile(tree, name, "exec"), compile(last, name, "eval")


def _describe(error: BaseException, source: str, name: str) -> str:
    """The traceback from the code's own first frame on."""
    try:
        import linecache
        import traceback

        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename != name:
            frames = frames.tb_next
        return "".join(traceback.format_exception(type(error), error, frames)).rstrip()
    except BaseException:  # no memory left, or an exception that can't show itself
        return type(error).__name__


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:  # closed or replaced by the code
            continue


def _cut(text: str, chars: int) -> str:
    if len(text) <= chars:
        return text
    half = chars // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters cut ...]\n{text[-half:]}"
