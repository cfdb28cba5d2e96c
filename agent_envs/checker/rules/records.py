"""Rules on the record: one episode however it is driven, exact masks, rewards, segments and budgets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from agent_envs.checker.driving import drive_by_chunks, drive_by_token, drive_by_turns, logprob_of, plain, random_stream
from agent_envs.checker.report import Finding
from agent_envs.checker.subject import LEVELS, SkipRuleError, Subject, compare, ids_of, recipe, shown
from agent_envs.context_rules import ContextRule, make_rule
from agent_envs.episode import EpisodeCore
from agent_envs.reference_policies import malformed_turns
from agent_envs.types import Episode, EventKind, StopReason, ToolResult

_MAX_STREAM = 3000  # tokens of one random episode
_OTHER_RULES = (
    make_rule("window", 1, 0, None),
    make_rule("summary", 1, 0, None),
    make_rule("rebuild", 1, 0, None),
)


def equivalence(subject: Subject) -> Iterator[Finding]:
    """A random policy's tokens, fed one by one, in chunks, and in turns."""
    for seed in subject.seeds:
        yield from _equivalent(subject, seed, None)


def context_rules(subject: Subject) -> Iterator[Finding]:
    """The same, and the rules on masks and segments, where the context is written anew between turns."""
    for seed in subject.seeds:
        for rule in _OTHER_RULES:
            yield from _equivalent(subject, seed, rule)


def masks(subject: Subject) -> Iterator[Finding]:
    """What was fed is kept as it was fed, and it alone is masked as the policy's."""
    for seed in subject.seeds:
        core = subject.core(seed)
        stream, how = _random_episode(subject, core, seed)
        yield from _mask_findings(drive_by_turns(core, stream), stream, how)


def segments(subject: Subject) -> Iterator[Finding]:
    """Segments tile the tokens; a sampled token lies behind the prompt of exactly one."""
    for seed in subject.seeds:
        core = subject.core(seed)
        stream, how = _random_episode(subject, core, seed)
        yield from _segment_findings(drive_by_turns(core, stream), how)


def rewards(subject: Subject) -> Iterator[Finding]:
    """Rewards lie on the last action token of a turn; their sum is what the steps gave."""
    for level in LEVELS:
        for seed in subject.seeds:
            env, turns = subject.make(level), subject.turns(seed)
            actions: Sequence[Any] = turns if level == "turn" else ids_of(subject.env.core, turns)
            env.reset(seed=seed)
            given = [env.step(action)[1] for action in actions if not env.core.done]
            episode, how = env.episode, recipe(level, seed, actions)
            yield from _reward_findings(episode, how)
            if not math.isclose(math.fsum(given), episode.total_reward, abs_tol=1e-5):
                yield Finding(f"step rewards that sum to {episode.total_reward}", f"a sum of {math.fsum(given)}", how)


def budgets(subject: Subject) -> Iterator[Finding]:
    """Each budget of the policy ends the episode exactly where it says."""
    seed = subject.seeds[0]
    yield from _turn_tokens(subject, seed)
    yield from _context(subject, seed)
    yield from _turn_count(subject, seed)


def observation_budget(subject: Subject) -> Iterator[Finding]:
    """Replies under budgets that differ by 10 tokens differ by 10 tokens: the glue around them is the same."""
    seed, lengths = subject.seeds[0], []
    for budget in (40, 50):
        core = subject.core(seed, make_rule("append", 1, 0, None), max_observation_tokens=budget, max_turns=9)
        calls = pending_turn(core)
        if calls is None:
            raise SkipRuleError("the solution calls no tool whose reply could be cut")
        before, how = (
            core.length,
            f"max_observation_tokens={budget}, reset(seed={seed}), a call, resolved with 400 words",
        )
        core.resolve([ToolResult("word " * 400)] * calls)
        lengths.append(core.length - before)
        if core.done or EventKind.OBSERVATION_CUT not in [event.kind for event in core.events]:
            yield Finding(
                f"a reply cut to {budget} tokens, and an event", f"{lengths[-1]} tokens, reason {core.reason}", how
            )
            return
    if lengths[1] - lengths[0] != 10:
        how = f"max_observation_tokens=40 and 50, reset(seed={seed}), a call, resolved with 400 words"
        yield Finding("replies whose lengths differ by 10 tokens", f"lengths {lengths}", how)


def _equivalent(subject: Subject, seed: int, rule: ContextRule | None) -> Iterator[Finding]:
    small = {"max_turns": 4, "max_turn_tokens": 250}
    cores = [subject.core(seed, rule, **small) for _ in range(3)]
    stream, how = _random_episode(subject, cores[0], seed)
    how = f"{how} with max_turns=4, max_turn_tokens=250, context_rule={cores[0].context_rule.name!r}"
    by_token = drive_by_token(cores[0], stream)
    expected = "the same episode token by token and"
    yield from compare(f"{expected} in chunks", plain(by_token), plain(drive_by_chunks(cores[1], stream, seed)), how)
    yield from compare(f"{expected} turn by turn", plain(by_token), plain(drive_by_turns(cores[2], stream)), how)
    yield from _mask_findings(by_token, stream, how)
    yield from _segment_findings(by_token, how)
    yield from _reward_findings(by_token, how)


def _random_episode(subject: Subject, core: EpisodeCore[Any], seed: int) -> tuple[list[int], str]:
    budgets = core.budgets
    length = min(budgets.max_turns * budgets.max_turn_tokens, budgets.max_context, _MAX_STREAM)
    stream = random_stream(core, subject.texts(seed), seed, length)
    return stream, f"reset(seed={seed}), then feed the core a random stream: {shown(stream[:40])}..."


def _mask_findings(episode: Episode, stream: Sequence[int], how: str) -> Iterator[Finding]:
    mine = episode.tokens[episode.action_mask].tolist()
    yield from compare("exactly the tokens that were fed under action_mask", stream[: len(mine)], mine, how)
    fed = sum(turn.stop - turn.start for turn in episode.turns)
    if episode.reason is not None and fed != len(mine):
        yield Finding(f"{fed} action tokens, as the turns hold", f"{len(mine)} under action_mask", how)
    known = [logprob_of(position) for position in range(len(mine))]
    got = episode.sampler_logprobs[episode.action_mask].tolist()
    yield from compare("log-probabilities that stay with their tokens", known, got, how)
    if episode.sampler_logprobs[~episode.action_mask].any():
        yield Finding("log-probability 0 on the environment's tokens", "another value", how)
    for turn in episode.turns:
        own, reply = slice(turn.start, turn.stop), slice(turn.stop, turn.feedback_stop)
        if not episode.action_mask[own].all() or episode.action_mask[reply].any():
            yield Finding(f"True on tokens[{turn.start}:{turn.stop}] and False on the reply", "another mask", how)
        if set(episode.turn_ids[turn.start : turn.feedback_stop].tolist()) != {turn.index}:
            yield Finding(f"turn id {turn.index} on the turn and its reply", "other ids", how)


def _segment_findings(episode: Episode, how: str) -> Iterator[Finding]:
    edge, trained = 0, np.zeros(len(episode.tokens), np.int64)
    for segment in episode.segments:
        if segment.start != edge or not 0 < segment.prompt_length <= segment.stop - segment.start:
            yield Finding(f"a segment that begins at {edge} with its prompt inside it", repr(segment), how)
        trained[segment.start + segment.prompt_length : segment.stop] += 1
        edge = segment.stop
    if edge != len(episode.tokens):
        yield Finding(f"segments that end at {len(episode.tokens)}, the number of tokens", f"an end at {edge}", how)
    if (trained[episode.action_mask] != 1).any():
        yield Finding("each sampled token in the trained part of one segment", "a token in none, or in several", how)


def _reward_findings(episode: Episode, how: str) -> Iterator[Finding]:
    wanted = np.zeros(len(episode.tokens), np.float32)
    for turn in episode.turns:
        wanted[turn.stop - 1] = turn.reward
    if not np.array_equal(wanted, episode.rewards):
        where = np.flatnonzero(wanted != episode.rewards).tolist()
        yield Finding("each turn's reward on its last action token, 0 elsewhere", f"others at {shown(where)}", how)


def _turn_tokens(subject: Subject, seed: int) -> Iterator[Finding]:
    core = subject.core(seed, max_turn_tokens=7)
    consumed = core.feed(_idle(core, 20)).consumed
    if (consumed, core.reason) != (7, StopReason.TURN_TOKENS):
        got = f"{consumed} tokens taken and reason {core.reason}"
        yield Finding(
            "7 tokens taken and reason turn_tokens", got, f"max_turn_tokens=7, reset(seed={seed}), feed 20 x a"
        )


def _context(subject: Subject, seed: int) -> Iterator[Finding]:
    prompt = subject.core(seed).length
    core = subject.core(seed, max_context=prompt + 9, max_turn_tokens=prompt + 8)
    consumed = core.feed(_idle(core, 20)).consumed
    if (consumed, core.length, core.reason) != (9, prompt + 9, StopReason.CONTEXT):
        how = f"max_context={prompt + 9} (the prompt and 9), reset(seed={seed}), feed 20 x a"
        yield Finding("9 tokens taken and reason context", f"{consumed} tokens taken and reason {core.reason}", how)


def _turn_count(subject: Subject, seed: int) -> Iterator[Finding]:
    """Broken calls fill the turns: nothing else is sure to leave an episode running in every task."""
    for text in malformed_turns(subject.core(seed)):
        core = subject.core(seed, max_turns=3)
        while not core.done and len(core.turns) < 5:
            core.feed(core.encode_turn(text))
        if core.reason in (StopReason.ANSWERED, StopReason.TURN_TOKENS):
            continue  # in this format the text is no broken call
        if (len(core.turns), core.reason) != (3, StopReason.MAX_TURNS):
            how = recipe("turn", seed, [text] * 5) + ", max_turns=3"
            yield Finding("3 turns and reason max_turns", f"{len(core.turns)} turns and reason {core.reason}", how)
        return


def pending_turn(core: EpisodeCore[Any]) -> int | None:
    """Writes the solution up to the first turn whose calls wait for results; gives their number, or None."""
    for turn in core.task.oracle(core.item):
        if core.done:
            return None
        core.write(core.encode_turn(core.write_turn(turn)))
        if core.pending:
            return len(core.pending)
        if core.pending is not None:
            core.resolve(())
    return None


def _idle(core: EpisodeCore[Any], count: int) -> list[int]:
    """Tokens that end nothing."""
    return (core.tokenizer.encode_plain("a") * count)[:count]
