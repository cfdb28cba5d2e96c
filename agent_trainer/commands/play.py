"""``agentr1 play``: an episode in the terminal, played by a person or by the oracle."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import gymnasium as gym
import typer
from rich.console import Console

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.envs import TurnEnv
from agent_envs.errors import ConfigError
from agent_envs.options import parse_assignments
from agent_envs.registration import require_id
from agent_envs.render import printable
from agent_envs.tasks.base import OracleTurn
from agent_envs.tools import Tool
from agent_envs.types import ToolCall

Policy = Callable[[TurnEnv], Iterator[str]]

HELP = """Write a turn. A line that is empty sends it.
  /TOOL ARGUMENTS   call a tool: a JSON object, or the bare value of its first parameter (/search the words)
  /answer TEXT      give the final answer
  /quit             leave
Anything else is sent as it stands, such as <tool_call>{"name": ...}</tool_call>."""


def play(
    env_id: Annotated[str, typer.Argument(help="Such as AgentR1/HotpotQA-v0; see agentr1 envs.")],
    options: Annotated[
        list[str] | None, typer.Argument(help="Options of the environment as key=value, such as split=mini/test.")
    ] = None,
    policy: Annotated[str, typer.Option(help='Who plays: "human" or "oracle".')] = "human",
    seed: Annotated[
        int, typer.Option(min=0, help="Which question: the same seed is the same question everywhere.")
    ] = 0,
    task_id: Annotated[str | None, typer.Option(help="Which question, by its id.")] = None,
    colour: Annotated[bool, typer.Option(help="Colour the text by who wrote it.")] = True,
) -> None:
    """Play one episode in the terminal, coloured by who wrote what.

    The prompt is dim, the policy green, the environment cyan.
    Examples: agentr1 play AgentR1/HotpotQA-v0, agentr1 play AgentR1/HotpotQA-v0 --policy oracle --seed 3
    """
    if policy not in _POLICIES:
        raise ConfigError(f"--policy is one of {', '.join(_POLICIES)}, not {policy!r}")
    require_id(env_id)
    given = parse_assignments(options or [])
    taken = given.keys() & {"id", "level", "task"}
    if taken:
        raise ConfigError(f"play sets {', '.join(sorted(taken))} itself (it plays a turn at a time); leave it out")
    env = gym.make(env_id, level="turn", **given)
    inner = env.unwrapped
    assert isinstance(inner, TurnEnv)  # what level="turn" makes
    console = Console(highlight=False, markup=False, no_color=not colour)
    text, _ = env.reset(seed=seed, options={"task_id": task_id} if task_id else None)
    _say(console, "prompt", text, "dim")
    for turn in _POLICIES[policy](inner):
        text, _, terminated, truncated, info = env.step(turn)
        played = inner.core.turns[-1]
        _say(console, f"policy, turn {played.index + 1}", played.text, "bold green")
        _say(console, "environment", text, "cyan")
        if terminated or truncated:
            _conclude(console, inner, info)
            return
    console.print("(left before the end)")


def _human(env: TurnEnv) -> Iterator[str]:
    typer.echo(HELP)
    while True:
        lines: list[str] = []
        while True:
            try:
                line = input("> " if not lines else "| ")
            except EOFError:
                return
            if line.strip() == "/quit":
                return
            if not line and lines:
                break
            lines.append(line)
            if line.startswith("/"):
                break
        yield "\n".join(_expand(env, line) for line in lines)


def _expand(env: TurnEnv, line: str) -> str:
    """Writes a short form out in the environment's tool format."""
    command, _, rest = line.partition(" ")
    if command == "/answer":
        return env.core.format.write_answer(rest.strip())
    tool = next((tool for tool in env.core.tools if command == f"/{tool.name}"), None)
    return line if tool is None else env.core.format.write_calls([_read_call(tool, rest.strip())])


def _read_call(tool: Tool, words: str) -> ToolCall:
    """Arguments as a JSON object, or the bare value of the tool's first parameter; no words are no arguments."""
    if not words:
        return ToolCall(tool.name, {})
    properties = tool.parameters.get("properties", {})
    first = next(iter(properties), "input")
    try:
        arguments = json.loads(words)
    except ValueError:
        arguments = words
    if not isinstance(arguments, dict):
        is_text = properties.get(first, {}).get("type") == "string"
        arguments = {first: words if is_text else arguments}
    return ToolCall(tool.name, arguments)


def _solution(env: TurnEnv) -> Sequence[OracleTurn]:
    return env.core.task.oracle(env.core.item)


def _oracle(env: TurnEnv) -> Iterator[str]:
    turns = _solution(env)
    for turn in itertools.chain(turns, itertools.repeat(turns[-1])):
        yield env.core.write_turn(turn)


_POLICIES: dict[str, Policy] = {"human": _human, "oracle": _oracle}


def _say(console: Console, who: str, text: str, style: str) -> None:
    if text:
        console.print(f"[{who}]", style=f"{style} reverse")
        console.print(printable(text).strip("\n"), style=style)


def _conclude(console: Console, env: TurnEnv, info: dict[str, Any]) -> None:
    gold = getattr(env.core.item, "answers", None) or [turn.answer for turn in _solution(env)[-1:] if turn.answer]
    scores = ", ".join(f"{name} {value:g}" for name, value in info["metrics"].items())
    console.print(f"[end] {info['reason']}: {scores}", style="bold")
    if gold:
        console.print(f"[gold] {' | '.join(gold)}", style="bold")
