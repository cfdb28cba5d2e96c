"""The nouns of an episode, frozen: what passes between the layers of the project.

An *episode* is one record from reset to end. It is a list of *turns* (one generation of the policy and the feedback on
it), laid out as one run of tokens that is cut into *segments* (append-only runs; one, unless a context rule rewrites
the context). Arrays that run along the tokens have shape ``[T]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Int32Array = NDArray[np.int32]
Float32Array = NDArray[np.float32]
BoolArray = NDArray[np.bool_]

Role = Literal["system", "user", "assistant", "tool"]


class StopReason(StrEnum):
    """Why an episode ended. ``answered`` terminates; every other reason truncates."""

    ANSWERED = "answered"  # the task's own end: the policy gave its final answer, or did the last thing it was asked
    MAX_TURNS = "max_turns"  # the last allowed turn ended without an answer
    TURN_TOKENS = "turn_tokens"  # one turn used up its token budget before it ended
    CONTEXT = "context"  # the context had no room for the next token or observation
    TOOL_FAILURE = "tool_failure"  # a tool's infrastructure failed: nobody's credit, nobody's blame
    WALL_CLOCK = "wall_clock"  # the episode's deadline passed

    @property
    def terminated(self) -> bool:
        """True where the task itself ended, so that no value is bootstrapped."""
        return self is StopReason.ANSWERED

    @property
    def failed(self) -> bool:
        """True where the infrastructure ended the episode: learners leave it out of baselines and losses."""
        return self in (StopReason.TOOL_FAILURE, StopReason.WALL_CLOCK)


class EventKind(StrEnum):
    """What the environment noticed in a turn."""

    CALL = "call"  # a well-formed call of a known tool with valid arguments
    MALFORMED_CALL = "malformed_call"  # a call that could not be parsed
    UNKNOWN_TOOL = "unknown_tool"  # a call of a tool that is not there
    INVALID_ARGUMENTS = "invalid_arguments"  # a call whose arguments do not fit the tool's schema
    TOOL_ERROR = "tool_error"  # the tool ran and reported a mistake of its caller
    TOOL_FAILURE = "tool_failure"  # the tool's infrastructure failed
    NO_ACTION = "no_action"  # a turn with neither a call nor an answer
    MESSAGE = "message"  # words without a call, in a task that takes them as said to its user
    ANSWER = "answer"  # the final answer
    OBSERVATION_CUT = "observation_cut"  # feedback was shortened to its token budget
    ASKED_FOR_ANSWER = "asked_for_answer"  # the next turn is the last one, and the policy was told so
    TEXT_DROPPED = "text_dropped"  # text that a driver sent after the end of a turn

    @property
    def is_malformed(self) -> bool:
        """True for calls that could not be run because of how the policy wrote them."""
        return self in (EventKind.MALFORMED_CALL, EventKind.UNKNOWN_TOOL, EventKind.INVALID_ARGUMENTS)


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message that the environment writes.

    Attributes:
        role: who speaks.
        content: what is said.
        name: of the tool whose result it is, else empty.
        max_tokens: of a tool's result, how many tokens it may take; None for no limit of its own.
    """

    role: Role
    content: str
    name: str = ""
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the policy wrote.

    Attributes:
        name: the tool's name as written.
        arguments: the arguments as parsed; empty where ``error`` is set.
        error: None, or why the call could not be read or run, in words for the policy.
        kind: the event that this call counts as.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    kind: EventKind = EventKind.CALL


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave back.

    Attributes:
        content: the text that the policy reads.
        data: plain data beside the text for graders and logs (such as the titles found); the policy never reads it.
        kind: ``CALL`` for success, or the kind of error.
        max_tokens: the tool's own limit on what the policy reads of it, or None.
    """

    content: str
    data: Mapping[str, Any] = field(default_factory=dict)
    kind: EventKind = EventKind.CALL
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """Something that the environment noticed, as plain data."""

    kind: EventKind
    turn: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class FeedResult:
    """What feeding tokens did.

    Attributes:
        consumed: how many of the ids were taken; fewer than given where the turn ended before.
        reward: the reward of the turn that ended, else 0.
        turn_ended: a turn ended with the last id taken.
    """

    consumed: int
    reward: float
    turn_ended: bool


@dataclass(frozen=True, slots=True)
class Turn:
    """One generation of the policy and the feedback on it.

    ``tokens[start:stop]`` are the policy's own; ``tokens[stop:feedback_stop]`` are the environment's reply. Where the
    reply opened a new segment, it stands in that segment's prompt and ``feedback_stop == stop``.

    Attributes:
        index: 0 for the first turn.
        text: the policy's tokens decoded, without the end-of-turn token.
        answer: the final answer, or None.
        answer_well_formed: there is exactly one answer and it isn't empty.
        calls: the tool calls in the order written, malformed ones included.
        results: one result per call, in the same order; empty where the episode ended before they ran.
        reward: what the environment gave for this turn.
    """

    index: int
    start: int
    stop: int
    feedback_stop: int
    text: str
    answer: str | None = None
    answer_well_formed: bool = False
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    reward: float = 0.0


@dataclass(frozen=True, slots=True)
class Segment:
    """An append-only run ``tokens[start:stop]`` of an episode; its first ``prompt_length`` tokens are its prompt."""

    start: int
    stop: int
    prompt_length: int


@dataclass(frozen=True, slots=True)
class Episode:
    """The whole record of an episode, token-exact: what was sampled is kept as sampled.

    Attributes:
        env_id: such as ``AgentR1/HotpotQA-v0``.
        task_id: which question or task of the data set.
        seed: the seed given to ``reset``, or None.
        tokens: int32 ``[T]``.
        action_mask: bool ``[T]``; True where the policy sampled the token.
        turn_ids: int32 ``[T]``; -1 on the prompt, j on the tokens of turn j and on the feedback to it.
        rewards: float32 ``[T]``; non-zero only on the last action token of a turn.
        sampler_logprobs: float32 ``[T]``; log-probabilities as the sampler gave them, NaN where unknown, 0 on the
            environment's tokens.
        turns: the turns so far.
        segments: the append-only runs; one under the default context rule.
        events: what the environment noticed, in order.
        terminated: the task ended.
        truncated: a budget or the infrastructure ended the episode.
        reason: why it ended, or None while it runs.
        metrics: scores by name, floats; empty while it runs.
    """

    env_id: str
    task_id: str
    seed: int | None
    tokens: Int32Array
    action_mask: BoolArray
    turn_ids: Int32Array
    rewards: Float32Array
    sampler_logprobs: Float32Array
    turns: tuple[Turn, ...]
    segments: tuple[Segment, ...]
    events: tuple[Event, ...]
    terminated: bool
    truncated: bool
    reason: StopReason | None
    metrics: Mapping[str, float]

    @property
    def total_reward(self) -> float:
        """The undiscounted sum of the rewards."""
        return float(sum(turn.reward for turn in self.turns))

    @property
    def answer(self) -> str | None:
        """The final answer, or None where none was given."""
        return self.turns[-1].answer if self.turns else None

    @property
    def failed(self) -> bool:
        """True where the infrastructure, not the policy, ended the episode."""
        return self.reason is not None and self.reason.failed
