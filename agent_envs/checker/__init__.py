"""The conformance suite: what every environment of this family keeps to, for ours and for anyone's.

``check_agent_env("AgentR1/HotpotQA-v0")`` raises where a rule is broken; ``RULES`` lists them.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable, Mapping
from typing import Any

import gymnasium as gym

from agent_envs.checker.report import ConformanceError, Finding, Report, RuleResult, Status
from agent_envs.checker.rules import RULES, Rule
from agent_envs.checker.subject import SkipRuleError, Subject, subject_of
from agent_envs.errors import ConfigError

_MAX_FINDINGS = 5  # of one rule: more of the same teach nothing


def check_agent_env(
    env_or_id: gym.Env[Any, Any] | str,
    *,
    options: Mapping[str, Any] | None = None,
    seeds: Iterable[int] = (0, 1, 2),
    rules: Iterable[str] | None = None,
    skip: Iterable[str] = (),
    quick: bool = False,
    raise_error: bool = True,
) -> Report:
    """Tries every rule on an environment.

    Args:
        env_or_id: a registered id, or an ``AgentEnv`` as made or wrapped. A given environment is copied, never stepped.
        options: what ``gym.make`` gets beside an id.
        seeds: of the episodes to look at, at least one.
        rules: only these, by name; all by default.
        skip: not these.
        quick: the first seed only, and no rule that is slow.
        raise_error: False returns a report of failures too.

    Raises:
        ConformanceError: a rule is broken; its ``report`` has the findings.
        ConfigError: there is no seed, the environment has no episode core, or options go with no id.
        UnknownNameError: there is no rule of that name.
    """
    chosen, left_out = list(RULES if rules is None else rules), set(skip)
    for name in [*chosen, *left_out]:
        RULES.get(name)
    numbers = tuple(seeds)[: 1 if quick else None]
    if not numbers:
        raise ConfigError("seeds names the episodes to look at; expected at least one, got none")
    subject = subject_of(env_or_id, options or {}, numbers)
    results = [
        run_rule(name, RULES.get(name), subject)
        for name in chosen
        if name not in left_out and not (quick and RULES.get(name).slow)
    ]
    report = Report(subject.name, tuple(results))
    if raise_error and not report.ok:
        raise ConformanceError(report)
    return report


def run_rule(name: str, rule: Rule, subject: Subject) -> RuleResult:
    """Tries one rule. An exception within it is a finding: an environment that conforms raises none there."""
    start = time.perf_counter()
    findings: list[Finding] = []
    reason = ""
    try:
        for finding in rule.check(subject):
            if finding not in findings:
                findings.append(finding)
            if len(findings) == _MAX_FINDINGS:
                break
    except SkipRuleError as error:
        reason = str(error)
    except Exception as error:
        where = "".join(traceback.format_exception(error)[-4:])
        findings.append(Finding("no exception", f"{type(error).__name__}: {error}", f"the rule {name!r}\n{where}"))
    finally:
        subject.close()
    status: Status = "failed" if findings else "skipped" if reason else "passed"
    return RuleResult(name, status, tuple(findings), reason, time.perf_counter() - start)


__all__ = ["RULES", "ConformanceError", "Finding", "Report", "RuleResult", "check_agent_env"]
