"""The token MDP of the paper: a state is the tokens so far, an action is the next token.

An action that completes a turn (an end-of-turn token, or a closing tag of the tool format) is a command: the turn is
parsed, tools run, the task judges, and the environment's tokens join the state. Any other action is appended and
nothing else happens. Driven a token, a chunk or a turn at a time, the episode is the same.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from agent_envs.budgets import Budgets
from agent_envs.buffer import MAX_ID, TokenBuffer, as_ids
from agent_envs.chat import ChatRenderer
from agent_envs.errors import ConfigError, EpisodeOverError, InvalidActionError
from agent_envs.formats.base import ParsedTurn, ToolFormat
from agent_envs.tasks.base import Outcome, Task
from agent_envs.tokenizers import Tokenizer
from agent_envs.tools.executor import ToolExecutor
from agent_envs.turn_ends import TurnEnds
from agent_envs.types import (
    Episode,
    Event,
    EventKind,
    Int32Array,
    Message,
    Segment,
    StopReason,
    ToolCall,
    ToolResult,
    Turn,
)

ItemT = TypeVar("ItemT")

_MIN_OBSERVATION = 16  # tokens: an observation cut shorter than this tells nothing, so the context counts as full


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


class EpisodeCore(Generic[ItemT]):
    """One episode after another of one task. Knows nothing of Gymnasium."""

    def __init__(
        self,
        env_id: str,
        task: Task[ItemT],
        tokenizer: Tokenizer,
        tool_format: ToolFormat,
        budgets: Budgets,
        ask_final_answer: bool = True,
    ) -> None:
        """Prepares what all episodes share.

        Args:
            env_id: written into the records.
            task: items, prompt, tools and judgement.
            tokenizer: makes the ids.
            tool_format: how the policy writes calls and answers.
            budgets: what an episode may use.
            ask_final_answer: before the last turn, tell the policy that it is the last.
        """
        self.env_id = env_id
        self.task = task
        self.tokenizer = tokenizer
        self.format = tool_format
        self.budgets = budgets
        self.ask_final_answer = ask_final_answer
        self.renderer, self.turn_ends = _shared_parts(tokenizer, tool_format, tuple(task.tools))
        self._executor = ToolExecutor(task.tools)
        self._tag_pattern = re.compile("(" + "|".join(re.escape(tag) for tag in tool_format.tags) + ")")
        self._item: ItemT | None = None
        self._seed: int | None = None
        self._reason: StopReason | None = None
        self._pending: _EndedTurn | None = None
        self._turns: list[Turn] = []
        self._events: list[Event] = []
        self._messages: tuple[Message, ...] = ()
        self._metrics: dict[str, float] = {}
        self._buffer = TokenBuffer(0)
        self._index = -1
        self._turn_start = self._prompt_length = 0
        self._reward = 0.0
        self._running = False

    # The life of an episode

    def reset(self, index: int, seed: int | None = None) -> None:
        """Begins an episode on an item.

        Args:
            index: of the item in the task.
            seed: kept in the record.

        Raises:
            ConfigError: the prompt does not fit into the context.
        """
        item = self.task.item(index)
        prompt = self.renderer.prompt(self.task.system_prompt, self.task.user_prompt(item))
        if len(prompt) >= self.budgets.max_context:
            raise ConfigError(
                f"the prompt of {self.task.task_ids()[index]!r} takes {len(prompt)} tokens, so max_context="
                f"{self.budgets.max_context} has no room for a reply; raise max_context or shorten the system prompt"
            )
        self._begin(item, index, seed)
        self._buffer.append_environment(prompt, turn=-1)
        self._prompt_length = self._turn_start = len(prompt)
        self._running = True

    def feed(self, ids: Sequence[int], logprobs: Sequence[float] | None = None) -> FeedResult:
        """Appends sampled tokens up to the end of the turn, and answers it if it ended.

        Args:
            ids: sampled ids in order, at least one. Those after the end of the turn are not taken.
            logprobs: the sampler's log-probability of each id.

        Raises:
            EpisodeOverError: the episode is over, or hasn't begun.
            InvalidActionError: an id is no whole number, negative or above int32, there is none, or the lengths
                differ.
        """
        consumed = self.write(ids, logprobs)
        if self.pending is None:
            return FeedResult(consumed, self._take_reward(), turn_ended=not self._running)
        self.resolve(self._executor.run(self.pending))
        return FeedResult(consumed, self._take_reward(), turn_ended=True)

    def feed_one(self, token_id: int, logprob: float = math.nan) -> FeedResult:
        """``feed`` for a single token, without the cost of arrays."""
        ordinary = self._running and self._pending is None and self.max_new_tokens > 1
        if not ordinary or not 0 <= token_id <= MAX_ID or self.turn_ends.may_end(token_id):
            return self.feed((token_id,), None if math.isnan(logprob) else (logprob,))
        self._buffer.append_action(token_id, len(self._turns), logprob)
        return _ORDINARY

    def end_turn(self) -> FeedResult:
        """Ends the turn where it stands, for drivers whose turns end without a token that says so.

        Raises:
            EpisodeOverError: the episode is over, or hasn't begun.
            InvalidActionError: nothing was written in this turn.
        """
        self._require_running()
        if self._buffer.length == self._turn_start:
            raise InvalidActionError("a turn holds at least one token; this one is empty")
        self._finish_turn()
        if self.pending is not None:
            self.resolve(self._executor.run(self.pending))
        return FeedResult(0, self._take_reward(), turn_ended=True)

    def turn_length(self, ids: Sequence[int]) -> int:
        """How many of these ids the present turn would take, budgets aside. Changes nothing."""
        return self._find_end(np.asarray(ids, dtype=np.int64))[0]

    def encode_turn(self, text: str) -> list[int]:
        """A turn written as text, as the policy would have sampled it: the format's tags whole, the end included."""
        ids: list[int] = []
        for piece in self._tag_pattern.split(text):
            ids += self.tokenizer.encode(piece) if piece in self.format.tags else self.tokenizer.encode_plain(piece)
        ended = bool(ids) and self.turn_ends.ends(ids)
        return ids if ended else [*ids, self.renderer.end_of_turn_id]

    def note(self, kind: EventKind, detail: str) -> None:
        """Adds an event to the present turn."""
        self._events.append(Event(kind, len(self._turns), detail))

    # The two halves of ``feed``, for drivers that run the tools of many episodes together

    def write(self, ids: Sequence[int], logprobs: Sequence[float] | None = None) -> int:
        """Appends sampled tokens up to the end of the turn; afterwards ``pending`` holds the calls to run, if any."""
        self._require_running()
        array = as_ids(ids)
        probabilities = None if logprobs is None else np.asarray(logprobs, dtype=np.float32)
        if probabilities is not None and probabilities.shape != array.shape:
            raise InvalidActionError(f"{len(array)} ids came with log-probabilities of shape {probabilities.shape}")
        count, ended = self._find_end(array[: self.max_new_tokens])
        self._buffer.append_actions(
            array[:count], len(self._turns), None if probabilities is None else probabilities[:count]
        )
        if ended:
            self._finish_turn()
        elif self._buffer.length - self._turn_start >= self.budgets.max_turn_tokens:
            self._finish_turn(StopReason.TURN_TOKENS)
        elif self._buffer.room == 0:
            self._finish_turn(StopReason.CONTEXT)
        return count

    @property
    def pending(self) -> tuple[ToolCall, ...] | None:
        """The checked calls of a turn that has ended and waits for ``resolve``; empty for a turn without any."""
        return None if self._pending is None else self._pending.calls

    def resolve(self, results: Sequence[ToolResult]) -> None:
        """Gives the results of the pending calls, one each in order, and lets the episode go on.

        Raises:
            InvalidActionError: nothing is pending, or the number of results is wrong.
        """
        pending = self._pending
        if pending is None or len(results) != len(pending.calls):
            raise InvalidActionError(f"{len(results)} results came, but {self.pending!r} is pending")
        self._pending = None
        self._note_results(results)
        if any(result.kind is EventKind.TOOL_FAILURE for result in results):
            self._close_turn(pending, tuple(results), StopReason.TOOL_FAILURE)
            return
        self._close_turn(pending, tuple(results), self._append_feedback(results))

    # What drivers look at

    @property
    def done(self) -> bool:
        """The episode is over or hasn't begun."""
        return not self._running

    @property
    def reason(self) -> StopReason | None:
        """Why the episode ended, or None."""
        return self._reason

    @property
    def context(self) -> Int32Array:
        """int32 ``[T]``: what the policy sees now. A read-only view of the episode's own memory."""
        view = self._buffer.tokens[: self._buffer.length]
        view.flags.writeable = False
        return view

    @property
    def padded_context(self) -> Int32Array:
        """int32 ``[max_context]``: a fresh copy of the context, zeros behind it."""
        return self._buffer.tokens.copy()

    @property
    def length(self) -> int:
        """The number of tokens in the context."""
        return self._buffer.length

    @property
    def max_new_tokens(self) -> int:
        """How many more tokens this turn may take."""
        used = self._buffer.length - self._turn_start
        return min(self.budgets.max_turn_tokens - used, self._buffer.room)

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns that have ended."""
        return tuple(self._turns)

    @property
    def events(self) -> tuple[Event, ...]:
        """What the environment noticed so far."""
        return tuple(self._events)

    @property
    def messages(self) -> tuple[Message, ...]:
        """What the environment said last, as contents without glue (uncut); the prompt's messages after a reset."""
        return self._messages

    @property
    def metrics(self) -> dict[str, float]:
        """The task's scores, empty while the episode runs."""
        return dict(self._metrics)

    @property
    def item(self) -> ItemT:
        """The item being played.

        Raises:
            EpisodeOverError: no episode has begun.
        """
        if self._item is None:
            raise EpisodeOverError("no episode has begun: call reset() first")
        return self._item

    def stop_checker(self) -> Callable[[int], bool]:
        """A function for samplers: called with each id of one turn in order, True on the one that ends the turn."""
        written: list[int] = []

        def check(token_id: int) -> bool:
            written.append(token_id)
            return self.turn_ends.may_end(token_id) and self.turn_ends.ends(written)

        return check

    def snapshot(self) -> Episode:
        """The record so far, frozen and independent of what comes.

        Raises:
            EpisodeOverError: no episode has begun.
        """
        if self._item is None:
            raise EpisodeOverError("no episode has begun: call reset() first")
        buffer, length = self._buffer, self._buffer.length
        reason = self._reason
        return Episode(
            env_id=self.env_id,
            task_id=self.task.task_ids()[self._index],
            seed=self._seed,
            tokens=_frozen(buffer.tokens[:length]),
            action_mask=_frozen(buffer.action_mask[:length]),
            turn_ids=_frozen(buffer.turn_ids[:length]),
            rewards=_frozen(buffer.rewards[:length]),
            sampler_logprobs=_frozen(buffer.logprobs[:length]),
            turns=tuple(self._turns),
            segments=(Segment(0, length, self._prompt_length),),
            events=tuple(self._events),
            terminated=reason is not None and reason.terminated,
            truncated=reason is not None and not reason.terminated,
            reason=reason,
            metrics=dict(self._metrics),
        )

    def fork(self) -> EpisodeCore[ItemT]:
        """An independent core that stands where this one does, in time proportional to the episode's length."""
        twin: EpisodeCore[ItemT] = EpisodeCore.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._buffer = self._buffer.copy()
        twin._turns, twin._events = list(self._turns), list(self._events)
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> EpisodeCore[ItemT]:
        """A fork: the data set, tools and tokenizer never change, so copies share them."""
        return self.fork()

    # Inside

    def _begin(self, item: ItemT, index: int, seed: int | None) -> None:
        self._item, self._index, self._seed = item, index, seed
        self._buffer = TokenBuffer(self.budgets.max_context)
        self._turns, self._events, self._metrics = [], [], {}
        self._pending = self._reason = None
        self._reward = 0.0
        system, user = self.task.system_prompt, self.task.user_prompt(item)
        said = (Message("system", system), Message("user", user))
        self._messages = tuple(message for message in said if message.content)

    def _require_running(self) -> None:
        if not self._running:
            state = "has not begun" if self._item is None else f"is over ({self._reason})"
            raise EpisodeOverError(f"the episode {state}: call reset() before the next step")
        if self._pending is not None:
            raise EpisodeOverError("the turn's calls wait for their results: call resolve() before the next step")

    def _find_end(self, ids: NDArray[np.int64]) -> tuple[int, bool]:
        """How many ids belong to the turn, and whether the last of them ends it."""
        table = self.turn_ends.table
        hits = table[np.minimum(ids, len(table) - 1)] & (ids < len(table))
        written = self._buffer.tokens[self._turn_start : self._buffer.length]
        turn = np.concatenate([written, ids]) if hits.any() else ids
        for position in np.flatnonzero(hits):
            if self.turn_ends.ends(turn[: len(written) + int(position) + 1]):
                return int(position) + 1, True
        return len(ids), False

    def _finish_turn(self, cut_short: StopReason | None = None) -> None:
        """Parses the turn that has just ended; decides whether the episode ends with it."""
        ids = self._buffer.tokens[self._turn_start : self._buffer.length].tolist()
        spoken = ids[:-1] if ids[-1] in self.turn_ends.end_ids else ids
        text = self.tokenizer.decode(spoken)
        parsed = self.format.parse(self.renderer.turn_opening + text)
        calls = tuple(self._executor.check(call) for call in parsed.calls)
        index = len(self._turns)
        self._events += [Event(call.kind, index, call.error or call.name) for call in calls]
        ended = _EndedTurn(index, self._buffer.length, text, calls, parsed)
        if parsed.answer is not None and cut_short is None:
            self._events.append(Event(EventKind.ANSWER, index, parsed.answer))
            self._close_turn(ended, (), StopReason.ANSWERED)
            return
        if not calls:
            self._events.append(Event(EventKind.NO_ACTION, index))
        if cut_short is None and index + 1 >= self.budgets.max_turns:
            cut_short = StopReason.MAX_TURNS
        if cut_short is not None:  # nobody would read the results, so the calls are not run
            self._close_turn(ended, (), cut_short)
            return
        self._pending = ended

    def _note_results(self, results: Sequence[ToolResult]) -> None:
        index = len(self._turns)
        noted = (EventKind.TOOL_ERROR, EventKind.TOOL_FAILURE)
        self._events += [Event(result.kind, index, result.content) for result in results if result.kind in noted]

    def _append_feedback(self, results: Sequence[ToolResult]) -> StopReason | None:
        """Appends the environment's reply, or says that the context has no room for it."""
        index = len(self._turns)
        messages = [Message("tool", result.content) for result in results]
        hints = [] if results else [self.task.no_action_hint()]
        last_turn_is_next = self.ask_final_answer and index + 2 == self.budgets.max_turns
        if last_turn_is_next:
            hints.append(self.task.answer_request())
        if hints:
            messages.append(Message("user", "\n".join(hints)))
        last = int(self._buffer.tokens[self._buffer.length - 1])
        # One token is kept free: a feedback that fills the context would leave the policy nothing to say.
        room = self._buffer.room - self.renderer.frame_length(messages, last) - 1
        feedback = self.renderer.feedback(messages, last, min(self.budgets.max_observation_tokens, room))
        if len(feedback.ids) >= self._buffer.room or (feedback.was_cut and room < _MIN_OBSERVATION):
            return StopReason.CONTEXT
        self._buffer.append_environment(feedback.ids, index)
        self._messages = tuple(messages)
        if feedback.was_cut:
            self._events.append(Event(EventKind.OBSERVATION_CUT, index))
        if last_turn_is_next:
            self._events.append(Event(EventKind.ASKED_FOR_ANSWER, index))
        return None

    def _close_turn(self, ended: _EndedTurn, results: tuple[ToolResult, ...], reason: StopReason | None) -> None:
        """Records the turn, asks the task for its reward, and ends the episode if there is a reason."""
        answered = reason is StopReason.ANSWERED
        turn = Turn(
            index=ended.index,
            start=self._turn_start,
            stop=ended.stop,
            feedback_stop=self._buffer.length,
            text=ended.text,
            answer=ended.parsed.answer if answered else None,
            answer_well_formed=answered and ended.parsed.answer_well_formed,
            calls=ended.calls,
            results=results,
        )
        outcome = Outcome(self.item, (*self._turns, turn), tuple(self._events), reason)
        failed = reason is not None and reason.failed
        reward = 0.0 if failed else float(self.task.reward(outcome))
        turn = dataclasses.replace(turn, reward=reward)
        self._turns.append(turn)
        self._buffer.rewards[ended.stop - 1] = reward
        self._reward = reward
        self._turn_start = self._buffer.length
        self._reason = reason
        if reason is not None:
            self._running = False
            self._messages = ()
            self._metrics = self.task.metrics(Outcome(self.item, tuple(self._turns), tuple(self._events), reason))

    def _take_reward(self) -> float:
        reward, self._reward = self._reward, 0.0
        return reward


@dataclass(frozen=True, slots=True)
class _EndedTurn:
    index: int
    stop: int
    text: str
    calls: tuple[ToolCall, ...]
    parsed: ParsedTurn


_ORDINARY = FeedResult(consumed=1, reward=0.0, turn_ended=False)


@functools.lru_cache(maxsize=64)
def _shared_parts(
    tokenizer: Tokenizer, tool_format: ToolFormat, tools: tuple[Any, ...]
) -> tuple[ChatRenderer, TurnEnds]:
    """The renderer and the turn ends of these parts; a vector of environments makes them once."""
    renderer = ChatRenderer(tokenizer, tool_format, [tool.schema for tool in tools])
    opening = renderer.turn_opening

    def closes(text: str) -> bool:
        return tool_format.closes_turn(opening + text)

    return renderer, TurnEnds(tokenizer, renderer.end_of_turn_ids, tool_format.closing_tags, closes)


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    copy = array.copy()
    copy.flags.writeable = False
    return copy
