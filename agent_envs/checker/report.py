"""What a conformance check found: plain records, and the error that lists them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agent_envs.errors import AgentEnvError

Status = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One breach of a rule.

    Attributes:
        expected: what the rule asks for.
        got: what came instead.
        reproduce: how to see it again: the seed, the level, the actions.
    """

    expected: str
    got: str
    reproduce: str

    def __str__(self) -> str:
        return f"expected {self.expected}; got {self.got}; reproduce: {self.reproduce}"


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What became of one rule.

    Attributes:
        rule: its name.
        status: "passed", "failed" or "skipped".
        findings: the breaches; empty unless it failed.
        reason: why it was skipped; empty unless it was.
        seconds: how long it took, wall clock.
    """

    rule: str
    status: Status
    findings: tuple[Finding, ...] = ()
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """Every rule's result, in the order in which they ran."""

    subject: str
    results: tuple[RuleResult, ...]

    @property
    def ok(self) -> bool:
        """True where no rule failed."""
        return not self.failures

    @property
    def failures(self) -> tuple[RuleResult, ...]:
        """The rules that failed."""
        return tuple(result for result in self.results if result.status == "failed")

    @property
    def skipped(self) -> tuple[RuleResult, ...]:
        """The rules that could not be tried, each with its reason."""
        return tuple(result for result in self.results if result.status == "skipped")

    def __str__(self) -> str:
        passed = len(self.results) - len(self.failures) - len(self.skipped)
        head = f"{self.subject}: {passed} rules passed, {len(self.failures)} failed, {len(self.skipped)} skipped"
        lines = [f"  {result.rule}: {finding}" for result in self.failures for finding in result.findings]
        return "\n".join([head, *lines])


class ConformanceError(AgentEnvError, AssertionError):
    """An environment that breaks rules; the message lists them, ``report`` has them as data."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report
