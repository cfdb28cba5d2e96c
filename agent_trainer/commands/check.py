"""``agentr1 check``: the conformance suite on an environment, ours or anyone's."""

from __future__ import annotations

import importlib
from typing import Annotated

import gymnasium as gym
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agent_envs.checker import RULES, Report, check_agent_env
from agent_envs.errors import ConfigError
from agent_envs.options import parse_assignments

_MARKS = {"passed": "[green]✓[/]", "failed": "[bold red]✗[/]", "skipped": "[yellow]skip[/]"}


def check(
    env_id: Annotated[
        str | None,
        typer.Argument(help="Such as AgentR1/HotpotQA-v0, or my_package:My/Env-v0, whose import registers it."),
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("-o", "--option", help="An option of the environment as key=value.")
    ] = None,
    rule: Annotated[list[str] | None, typer.Option(help="Only this rule; may come again.")] = None,
    skip: Annotated[list[str] | None, typer.Option(help="Not this rule; may come again.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many episodes to look at.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="One episode, and no rule that is slow.")] = False,
    list_rules: Annotated[bool, typer.Option("--list", help="Say what the rules are.")] = False,
) -> None:
    """Check that an environment keeps to every rule; exit code 1 where it doesn't.

    Examples: agentr1 check AgentR1/HotpotQA-v0, agentr1 check AgentR1/HotpotQA-v0 -o split=mini/test --rule budgets
    """
    console = Console()
    if list_rules:
        console.print(_rules_table())
        return
    if env_id is None:
        raise ConfigError("name an environment, such as AgentR1/HotpotQA-v0, or give --list to see the rules")
    _require_id(env_id)
    options = parse_assignments(option or [])
    with console.status(f"checking {env_id}"):
        report = check_agent_env(
            env_id,
            options=options,
            seeds=range(seeds),
            rules=rule or None,
            skip=skip or (),
            quick=quick,
            raise_error=False,
        )
    console.print(_report_table(report))
    raise typer.Exit(0 if report.ok else 1)


def _require_id(env_id: str) -> None:
    """Imports the module that an id names, and makes sure that the id is known.

    Raises:
        ConfigError: the module cannot be imported, or no environment has the id.
    """
    module, _, name = env_id.rpartition(":")
    try:
        if module:
            importlib.import_module(module)
        gym.spec(name)
    except (ImportError, gym.error.Error) as error:
        raise ConfigError(f"there is no environment {env_id!r}: {error}; agentr1 envs lists this package's") from error


def _rules_table() -> Table:
    table = Table("rule", "what it asks for", box=None, pad_edge=False)
    for name in RULES:
        table.add_row(name, escape(RULES.get(name).sentence) + (" (slow)" if RULES.get(name).slow else ""))
    return table


def _report_table(report: Report) -> Table:
    passed = len(report.results) - len(report.failures) - len(report.skipped)
    verdict = f"{passed} passed, {len(report.failures)} failed, {len(report.skipped)} skipped"
    table = Table("", "rule", "", "s", title=f"{report.subject}: {verdict}", title_justify="left", box=None)
    for result in report.results:
        notes = "\n\n".join(str(finding) for finding in result.findings) or result.reason
        notes = notes or RULES.get(result.rule).sentence
        table.add_row(_MARKS[result.status], result.rule, escape(notes), f"{result.seconds:.2f}")
    return table
