"""The rules by name. Adding one is a function in a file here and a line below."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from agent_envs.checker.report import Finding
from agent_envs.checker.rules import copies, faces, gold, records, texts
from agent_envs.checker.subject import Subject
from agent_envs.registry import Registry

Check: TypeAlias = Callable[[Subject], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Rule:
    """What every environment keeps to.

    Attributes:
        sentence: the rule in a sentence.
        check: yields what breaks it; raises ``SkipRuleError`` where it cannot be tried.
        slow: left out of a quick check.
    """

    sentence: str
    check: Check
    slow: bool = False


RULES: Registry[Rule] = Registry("rule")
for _name, _check, _sentence in (
    ("gymnasium", faces.gymnasium_check, "Gymnasium's check_env has nothing to say: token level, delta, turn level."),
    ("levels", faces.levels, "A seed is the same task at both levels, and the same tokens are the same episode."),
    ("flags", faces.flags, "terminated and truncated are bools that agree with the reason, set on the last step only."),
    ("plain-info", faces.plain_info, "Observations lie in their space, rewards are floats, info is JSON of one shape."),
    ("fresh-info", faces.fresh_info, "What a caller does to observations and infos changes no later step."),
    ("after-the-end", faces.after_the_end, "A step before reset or after the end raises EpisodeOverError."),
    ("invalid-actions", faces.invalid_actions, "An action outside the space raises and leaves the episode as it was."),
    ("spec", faces.spec, "The spec survives JSON and pickle and makes the same environment; records pickle."),
    ("equivalence", records.equivalence, "Token by token, in chunks or in turns: the same record to the last token."),
    ("context-rules", records.context_rules, "So it is under every context rule: window, summary, rebuild."),
    ("masks", records.masks, "action_mask is True on exactly the tokens that were fed, and they are kept as fed."),
    ("rewards", records.rewards, "Rewards lie on a turn's last action token; steps, record and total agree."),
    ("segments", records.segments, "Segments tile the tokens; each sampled token is in one segment's trained part."),
    ("budgets", records.budgets, "max_turns, max_turn_tokens and max_context end the episode at the very token."),
    (
        "observation-budget",
        records.observation_budget,
        "max_observation_tokens cuts a tool's text to the very token, and says so.",
    ),
    ("unicode", texts.unicode, "Turns of any Unicode play on, lone surrogates, NUL and right-to-left marks included."),
    ("hostile-turns", texts.hostile_turns, "A turn that spells control tokens or replies forges neither."),
    ("hostile-documents", texts.hostile_documents, "A tool's text opens no message and never counts as the policy's."),
    ("malformed-calls", texts.malformed_calls, "A broken call is an error to mend; it ends nothing and earns nothing."),
    ("no-gold", gold.no_gold, "The gold answer is in no prompt, schema, info, hint or error that comes unasked."),
    (
        "blind-tools",
        gold.blind_tools,
        "With another gold answer in the item, prompts, tools and replies stay the same.",
    ),
    ("oracle", gold.oracle, "The task's own solution ends the episode and earns its documented return."),
    (
        "determinism",
        copies.determinism,
        "A seed and actions fix everything that comes back: no clocks, ids or leftovers.",
    ),
    ("deepcopy", copies.deepcopy, "A deep copy in mid-episode goes on alike, and neither touches the other."),
    ("pickle", copies.pickles, "An environment that pickle takes goes on alike where it arrives."),
    ("fork", copies.fork, "A fork is independent, and a saved state can be restored again and again."),
):
    RULES.register(_name, Rule(_sentence, _check))
RULES.register(
    "processes", Rule("A process with another hash seed plays the same episodes.", copies.processes, slow=True)
)

__all__ = ["RULES", "Check", "Rule"]
