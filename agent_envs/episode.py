"""The token MDP of the paper: a state is the tokens so far, an action is the next token.

An action that completes a turn (an end-of-turn token, or a closing tag of the tool format) is a command: the turn is
parsed, tools run, the task judges, and the environment's tokens join the state. Any other action is appended and
nothing else happens. Driven a token, a chunk or a turn at a time, the episode is the same.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from agent_envs.budgets import Budgets
from agent_envs.buffer import MAX_ID, as_ids
from agent_envs.context_rules import ContextRecord, ContextRule
from agent_envs.episode_kit import FinishedTurn, make_kit, phrased
from agent_envs.episode_view import EpisodeView
from agent_envs.errors import ConfigError, EpisodeOverError, InvalidActionError, ToolFailureError
from agent_envs.formats.base import ParsedTurn, ToolFormat
from agent_envs.replies import EndedTurn, ReplyWriter
from agent_envs.tasks.base import OracleTurn, Outcome, Task, Toolbox
from agent_envs.tokenizers import Tokenizer
from agent_envs.trajectory import Trajectory
from agent_envs.types import Event, EventKind, FeedResult, Int32Array, Message, StopReason, ToolCall, ToolResult, Turn

ItemT = TypeVar("ItemT")


class EpisodeCore(EpisodeView[ItemT]):
    """One episode after another of one task. Knows nothing of Gymnasium."""

    def __init__(
        self,
        env_id: str,
        task: Task[ItemT],
        tokenizer: Tokenizer,
        tool_format: ToolFormat,
        budgets: Budgets,
        ask_final_answer: bool = True,
        context_rule: ContextRule = ContextRule(),  # noqa: B008 - frozen
    ) -> None:
        """Prepares what all episodes share.

        Args:
            env_id: written into the records.
            task: items, prompt, tools and judgement.
            tokenizer: makes the ids.
            tool_format: how the policy writes calls and answers.
            budgets: what an episode may use.
            ask_final_answer: before the last turn, tell the policy that it is the last.
            context_rule: what the policy sees after each turn.

        Raises:
            ConfigError: the format cannot call the task's tools.
        """
        super().__init__(env_id, task, tokenizer, tool_format, budgets)
        self.ask_final_answer = ask_final_answer
        self.context_rule = context_rule
        self._system_prompt = phrased(task.system_prompt, tool_format)
        self._use(task.begin(task.item(0)))  # so that a format or template that cannot serve is an error at once
        self._kit.toolbox.close()

    # The life of an episode

    def reset(self, index: int, seed: int | None = None) -> None:
        """Begins an episode on an item.

        Args:
            index: of the item in the task.
            seed: kept in the record.

        Raises:
            ConfigError: the prompt does not fit into the context.
        """
        self.close()
        item = self.task.item(index)
        self._use(self.task.begin(item))
        user_prompt = phrased(self.task.user_prompt(item), self.format)
        prompt = self.renderer.prompt(self._system_prompt, user_prompt)
        if len(prompt) >= self.budgets.max_context:
            raise ConfigError(
                f"the prompt of {self.task.task_ids()[index]!r} takes {len(prompt)} tokens, so max_context="
                f"{self.budgets.max_context} has no room for a reply; raise max_context or shorten the system prompt"
            )
        self._item, self._index, self._seed = item, index, seed
        self._turns, self._events, self._metrics = [], [], {}
        self._pending = self._reason = None
        self._reward = 0.0
        said = (Message("system", self._system_prompt), Message("user", user_prompt))
        self._messages = tuple(message for message in said if message.content)
        self._trajectory = Trajectory(self.budgets.max_context, prompt)
        self._buffer = self._trajectory.buffer
        self._turn_start, self._news_start = len(prompt), 0
        self._running = True

    def close(self) -> None:
        """Ends the episode without a word and gives back what its tools hold."""
        self._running = False
        self._kit.toolbox.close()

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
            return FeedResult(consumed, self.take_reward(), turn_ended=not self._running)
        self.resolve(self.run_tools(self.pending))
        return FeedResult(consumed, self.take_reward(), turn_ended=True)

    def feed_one(self, token_id: int, logprob: float = math.nan) -> FeedResult:
        """``feed`` for a single token, without the cost of arrays."""
        if self.append(token_id, logprob):
            return _ORDINARY
        return self.feed((token_id,), None if math.isnan(logprob) else (logprob,))

    def append(self, token_id: int, logprob: float = math.nan) -> bool:
        """Appends a token that cannot possibly end the turn; False, with nothing done, for every other one."""
        buffer = self._buffer
        # What ``max_new_tokens > 1`` says, without its calls: this runs once per token.
        last = min(self._turn_start + self.budgets.max_turn_tokens, buffer.capacity) - 1
        ordinary = self._running and self._pending is None and buffer.length < last
        if not ordinary or not 0 <= token_id <= MAX_ID or self.turn_ends.may_end(token_id):
            return False
        buffer.append_action(token_id, len(self._turns), logprob)
        return True

    def end_turn(self) -> FeedResult:
        """Ends the turn where it stands, for drivers whose turns end without a token that says so.

        Raises:
            EpisodeOverError: the episode is over, or hasn't begun.
            InvalidActionError: nothing was written in this turn.
        """
        self.close_turn()
        if self.pending is not None:
            self.resolve(self.run_tools(self.pending))
        return FeedResult(0, self.take_reward(), turn_ended=True)

    def turn_length(self, ids: Sequence[int]) -> int:
        """How many of these ids the present turn would take, budgets aside. Changes nothing."""
        return self.turn_ends.find(self._written, np.asarray(ids, dtype=np.int64))[0]

    def is_whole_turn(self, ids: Sequence[int]) -> bool:
        """True where these ids are what the present turn takes, to its end or to its budget. Changes nothing."""
        count, ended = self.turn_ends.find(self._written, np.asarray(ids, dtype=np.int64))
        return count == len(ids) and (ended or count == self.max_new_tokens)

    def encode_turn(self, text: str) -> list[int]:
        """A turn written as text, as the policy would have sampled it: the format's tags whole, the end included."""
        return self._kit.encode_turn(text, self.turn_ends)

    def write_turn(self, turn: OracleTurn) -> str:
        """A turn as text in the episode's format, ready for ``encode_turn``."""
        return self._kit.write_turn(turn)

    def note(self, kind: EventKind, detail: str) -> None:
        """Adds an event to the present turn."""
        self._events.append(Event(kind, len(self._turns), detail))

    # The two halves of ``feed``, for drivers that run the tools of many episodes together

    def write(self, ids: Sequence[int], logprobs: Sequence[float] | None = None) -> int:
        """Appends sampled tokens up to the end of the turn; afterwards ``pending`` holds the calls to run, if any."""
        return self._write(ids, logprobs, whole=False)

    def write_whole(self, ids: Sequence[int], logprobs: Sequence[float] | None = None) -> None:
        """``write`` for a whole turn: what stands behind its end is noted, and it ends where its ids do."""
        self._write(ids, logprobs, whole=True)
        if self._pending is None and self._running:
            self._finish_turn()

    def resolve(self, results: Sequence[ToolResult]) -> None:
        """Gives the results of the pending calls, one each in order, and lets the episode go on.

        Raises:
            InvalidActionError: nothing is pending, or the number of results is wrong.
        """
        pending = self._pending
        if pending is None or len(results) != len(pending.calls):
            raise InvalidActionError(f"{len(results)} results came, but {self.pending!r} is pending")
        noted = (EventKind.TOOL_ERROR, EventKind.TOOL_FAILURE)
        self._events += [
            Event(result.kind, pending.index, result.content) for result in results if result.kind in noted
        ]
        failed = any(result.kind is EventKind.TOOL_FAILURE for result in results)
        self._close_turn(pending, results, StopReason.TOOL_FAILURE if failed else self._reply(pending, results))

    def close_turn(self) -> None:
        """Ends the turn where it stands; afterwards ``pending`` holds the calls to run, if any.

        Raises:
            EpisodeOverError: the episode is over, or hasn't begun.
            InvalidActionError: nothing was written in this turn.
        """
        self._require_running()
        if self._buffer.length == self._turn_start:
            raise InvalidActionError("a turn holds at least one token; this one is empty")
        self._finish_turn()

    def run_tools(self, calls: Sequence[ToolCall]) -> tuple[ToolResult, ...]:
        """Runs checked calls with this episode's tools: one result each, in order. Changes nothing of the episode."""
        return self._kit.executor.run(calls)

    def take_reward(self) -> float:
        """The reward of the turn that ended last, once; then 0."""
        reward, self._reward = self._reward, 0.0
        return reward

    def abort(self, why: str, reason: StopReason = StopReason.TOOL_FAILURE) -> None:
        """Ends the episode as failed, for drivers that keep one episode's fault from the others.

        A turn whose calls wait for results is recorded without results; what the policy has written of an unfinished
        one, as a turn without calls. An episode that is over stays as it is.
        """
        if not self._running:
            return
        self._events.append(Event(EventKind.TOOL_FAILURE, len(self._turns), why))
        if self._pending is not None:
            self._close_turn(self._pending, (), reason)
        elif len(self._written):
            self._close_turn(self._unread_turn(), (), reason)
        else:
            self._reason = reason
            self._end()

    # What drivers need

    def stop_checker(self) -> Callable[[int], bool]:
        """A function for samplers: called with each id of one turn in order, True on the one that ends the turn."""
        return self.turn_ends.checker()

    def fork(self) -> EpisodeCore[ItemT]:
        """An independent core that stands where this one does, in time proportional to the episode's length."""
        twin: EpisodeCore[ItemT] = EpisodeCore.__new__(type(self))
        twin._take_state(self)
        return twin

    def renewed(self) -> EpisodeCore[ItemT]:
        """A core of the same parts in which no episode has begun.

        Runs none of the task's code, which may be what hangs. The first reset gives back what this one's tools hold.
        """
        twin: EpisodeCore[ItemT] = EpisodeCore.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        EpisodeView.__init__(twin, self.env_id, self.task, self.tokenizer, self.format, self.budgets)
        twin._open_turn(self.renderer.turn_opening)
        return twin

    def restore(self, saved: EpisodeCore[ItemT]) -> None:
        """Goes back to where a fork was taken; the fork stays as it is, to be restored again.

        Raises:
            InvalidActionError: the fork is of another task.
        """
        if saved.task is not self.task or saved.env_id != self.env_id:
            raise InvalidActionError(f"a state of {saved.env_id} cannot be restored in another {self.env_id}")
        self.close()
        self._take_state(saved)

    def __deepcopy__(self, memo: dict[int, Any]) -> EpisodeCore[ItemT]:
        """A fork: the data set, tools and tokenizer never change, so copies share them."""
        return self.fork()

    # Inside

    def _take_state(self, other: EpisodeCore[ItemT]) -> None:
        self.__dict__.update(other.__dict__)
        self._trajectory = other._trajectory.copy()
        self._buffer = self._trajectory.buffer
        self._turns, self._events = list(other._turns), list(other._events)
        if other._running:
            self._kit = other._kit.fork()

    def _use(self, toolbox: Toolbox) -> None:
        """Takes an episode's tools and what is made for them."""
        self._kit = make_kit(self.env_id, toolbox, self.tokenizer, self.format)
        self.renderer = self._kit.renderer
        self._open_turn(self.renderer.turn_opening)
        self._replies = ReplyWriter(self.renderer, self.budgets, self.context_rule, self._system_prompt)

    def _open_turn(self, opening: str) -> None:
        """Begins a turn of which so much has been written already."""
        self._opening = opening
        self.turn_ends = self._kit.turn_ends(opening)

    @property
    def _written(self) -> Int32Array:
        """The present turn's tokens so far."""
        return self._buffer.tokens[self._turn_start : self._buffer.length]

    def _write(self, ids: Sequence[int], logprobs: Sequence[float] | None, whole: bool) -> int:
        self._require_running()
        array = as_ids(ids)
        probabilities = None if logprobs is None else np.asarray(logprobs, dtype=np.float32)
        if probabilities is not None and probabilities.shape != array.shape:
            raise InvalidActionError(f"{len(array)} ids came with log-probabilities of shape {probabilities.shape}")
        within = array[: self.max_new_tokens]  # what lies beyond the budget would only cost time
        count, ended = self.turn_ends.find(self._written, within)
        if whole and count < len(within):
            self.note(EventKind.TEXT_DROPPED, f"{len(array) - count} tokens after the end of the turn")
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

    def _require_running(self) -> None:
        if not self._running:
            state = "has not begun" if self._item is None else f"is over ({self._reason})"
            raise EpisodeOverError(f"the episode {state}: call reset() before the next step")
        if self._pending is not None:
            raise EpisodeOverError("the turn's calls wait for their results: call resolve() before the next step")

    def _unread_turn(self) -> FinishedTurn:
        """What is written of the present turn, not read."""
        ids = self._written.copy()
        stop = len(ids) - (int(ids[-1]) in self.turn_ends.end_ids)
        tokens = EndedTurn(len(self._turns), ids, goes_on=False)
        text = self.tokenizer.decode(ids[:stop].tolist())
        parsed = ParsedTurn((), None, False)
        return FinishedTurn(self._trajectory.offset + self._turn_start, tokens, text, (), parsed, None)

    def _finish_turn(self, cut_short: StopReason | None = None) -> None:
        """Reads the turn that has just ended; decides whether the episode ends with it."""
        index = len(self._turns)
        tokens, text, calls, parsed = self._kit.read_turn(index, self._written.copy(), self._opening)
        decision = None if cut_short is not None else self.task.decide(self.item, self._turns, parsed)
        start = self._trajectory.offset + self._turn_start
        ended = FinishedTurn(start, tokens, text, calls, parsed, decision)
        self._events += [Event(call.kind, index, call.error or call.name) for call in calls]
        over = decision is not None and decision.over
        if over and parsed.answer is not None:
            self._events.append(Event(EventKind.ANSWER, index, parsed.answer))
        elif not calls:
            self._events.append(Event(EventKind.MESSAGE if ended.is_message else EventKind.NO_ACTION, index))
        if over:
            cut_short = StopReason.ANSWERED
        elif cut_short is None and index + 1 >= self.budgets.max_turns:
            cut_short = StopReason.MAX_TURNS
        if cut_short is not None:  # nobody would read the results, so the calls are not run
            self._close_turn(ended, (), cut_short)
            return
        self._pending = ended

    def _reply(self, ended: FinishedTurn, results: Sequence[ToolResult]) -> StopReason | None:
        """Answers the turn, or says that the context has no room for it."""
        messages = [
            Message("tool", result.content, call.name, result.max_tokens)
            for call, result in zip(ended.calls, results, strict=True)
        ]
        last_turn_is_next = self.ask_final_answer and ended.index + 2 == self.budgets.max_turns
        request = phrased(self.task.answer_request(), self.format) if last_turn_is_next else ""
        hint = "\n".join(text for text in (self._said_after(ended), request) if text)
        if hint or not messages:
            messages.append(Message("user", hint))
        segment, start = self.segment_index, self._buffer.length

        def record() -> ContextRecord:
            question = phrased(self.task.user_prompt(self.item), self.format)
            return ContextRecord(question, (*self._turns, ended.record(results, answered=False)), hint)

        reply = self._replies.write(self._trajectory, ended.tokens, messages, record)
        if not reply.written:
            return StopReason.CONTEXT
        self._open_turn(reply.opening)
        self._messages = tuple(messages)
        self._news_start = start if self.segment_index == segment else 0
        if reply.was_cut:
            self._events.append(Event(EventKind.OBSERVATION_CUT, ended.index))
        if request:
            self._events.append(Event(EventKind.ASKED_FOR_ANSWER, ended.index))
        return None

    def _said_after(self, ended: FinishedTurn) -> str:
        """What is said to a turn without calls."""
        if ended.calls:
            return ""
        said = None if ended.decision is None else ended.decision.message
        return phrased(self.task.no_action_hint(), self.format) if said is None else said

    def _close_turn(self, ended: FinishedTurn, results: Sequence[ToolResult], reason: StopReason | None) -> None:
        """Records the turn, asks the task for its reward, and ends the episode if there is a reason."""
        turn = ended.record(results, answered=reason is StopReason.ANSWERED)
        reward, reason = self._judge(turn, reason)
        trajectory = self._trajectory
        replied_here = trajectory.buffer is self._buffer
        stop = trajectory.offset + self._buffer.length if replied_here else turn.stop
        self._turns.append(dataclasses.replace(turn, reward=reward, feedback_stop=stop))
        trajectory.set_reward(turn.stop - 1, reward)
        self._reward = reward
        self._pending = None  # not before: where the task's code broke above, the turn can still be recorded as failed
        self._buffer = trajectory.buffer
        self._turn_start = self._buffer.length
        self._reason = reason
        if reason is not None:
            self._end()

    def _judge(self, turn: Turn, reason: StopReason | None) -> tuple[float, StopReason | None]:
        """The turn's reward; 0 and an end where the infrastructure failed, the judge's included.

        Raises:
            ConfigError: the reward is NaN or infinite, which no learner recovers from.
        """
        if reason is not None and reason.failed:
            return 0.0, reason
        try:
            outcome = Outcome(self.item, (*self._turns, turn), tuple(self._events), reason)
            reward = float(self.task.reward(outcome))
        except ToolFailureError as error:
            self._events.append(Event(EventKind.TOOL_FAILURE, turn.index, str(error)))
            return 0.0, StopReason.TOOL_FAILURE
        if not math.isfinite(reward):
            raise ConfigError(f"the reward of a turn is a finite number; the task of {self.env_id} gave {reward}")
        return reward, reason

    def _end(self) -> None:
        self._running = False
        self._messages, self._news_start = (), self._buffer.length
        self._kit.toolbox.close()
        try:
            self._metrics = self.task.metrics(Outcome(self.item, tuple(self._turns), tuple(self._events), self._reason))
        except ToolFailureError:  # of a judge; the episode counts for nothing
            self._metrics = {"reward": sum(turn.reward for turn in self._turns)}


_ORDINARY = FeedResult(consumed=1, reward=0.0, turn_ended=False)
