"""The Gymnasium faces of an episode: one token per step, or one turn per step."""

from __future__ import annotations

import abc
import copy
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Self, TypeVar, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from agent_envs.episode import EpisodeCore
from agent_envs.errors import ConfigError, InvalidActionError
from agent_envs.pickling import state_of, take_state
from agent_envs.render import transcript
from agent_envs.spaces import TokenRun, TurnText, UnicodeText
from agent_envs.tasks.base import Task
from agent_envs.types import Episode, EventKind, StopReason, ToolCall, ToolResult, Turn

ObsT = TypeVar("ObsT")
ActT = TypeVar("ActT")

_BY_WEIGHT = (
    EventKind.TOOL_FAILURE,
    EventKind.ANSWER,
    EventKind.CALL,
    EventKind.MALFORMED_CALL,
    EventKind.UNKNOWN_TOOL,
    EventKind.INVALID_ARGUMENTS,
    EventKind.MESSAGE,
    EventKind.NO_ACTION,
)
_MAX_TEXT = 2**24  # characters: more than any context holds


class AgentEnv(gym.Env[ObsT, ActT], abc.ABC, Generic[ObsT, ActT]):
    """What both levels share. Learners read ``core`` and ``episode``; they never need the observations.

    Attributes:
        core: the episode being played, token by token.
        made_with: the arguments of ``make_env``, from which pickle makes the environment again; None where it was made
            in another way.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012 - as gym.Env declares it

    def __init__(self, core: EpisodeCore[Any], render_mode: str | None = None) -> None:
        """Takes a core that is this environment's own.

        Raises:
            ConfigError: an unknown render mode.
        """
        if render_mode not in (None, "ansi"):
            raise ConfigError(f'render_mode is None or "ansi", not {render_mode!r}')
        self.core = core
        self.render_mode = render_mode
        self.made_with: Mapping[str, Any] | None = None

    @property
    def episode(self) -> Episode:
        """The record of the current episode, frozen."""
        return self.core.snapshot()

    @property
    def task(self) -> Task[Any]:
        """The task with its items."""
        return self.core.task

    @property
    def may_block(self) -> bool:
        """True where the task's own code (a judge, say) may wait for something, so that a step belongs in a thread."""
        return bool(getattr(self.task, "may_block", False))

    def renewed(self) -> Self:
        """An environment of the same kind that shares no episode with this one, which may hang or be broken."""
        twin = copy.copy(self)
        twin.core = self.core.renewed()
        return twin

    @abc.abstractmethod
    def check_action(self, action: ActT) -> None:
        """Refuses an action that ``step`` would refuse. Changes nothing.

        Raises:
            InvalidActionError: the action is none of the action space, or does not fit the present turn.
        """

    @abc.abstractmethod
    def begin_step(self, action: ActT, logprobs: Sequence[float] | None = None) -> tuple[ToolCall, ...] | None:
        """The first half of ``step``, for drivers that run the tools of many episodes together.

        Takes the action up to the end of the turn, and the sampler's log-probability of each id where they are known.
        Gives the turn's checked calls, whose results ``finish_step`` wants (there may be none), or None where no turn
        waits for a reply.
        """

    @abc.abstractmethod
    def finish_step(self, results: Sequence[ToolResult] = ()) -> tuple[ObsT, float, bool, bool, dict[str, Any]]:
        """The second half of ``step``: one result per call, in order. Gives what ``step`` gives."""

    def fail_step(self, why: str, reason: StopReason) -> tuple[ObsT, float, bool, bool, dict[str, Any]]:
        """Ends the episode as failed in the place of ``finish_step``; gives what ``step`` gives."""
        self.core.abort(why, reason)
        return self.finish_step()

    def save_state(self) -> EpisodeCore[Any]:
        """The episode as it stands, for ``restore_state``: to sample a group from the middle, or search a tree."""
        return self.core.fork()

    def restore_state(self, state: EpisodeCore[Any]) -> None:
        """Goes back to a saved state, which may be restored again and again.

        Raises:
            InvalidActionError: it was saved by another environment.
        """
        self.core.restore(state)

    def close(self) -> None:
        """Gives back what the episode's tools hold. The environment can be reset again."""
        self.core.close()

    def render(self) -> str | None:
        """The episode so far as coloured text, in render mode ``ansi``."""
        return transcript(self.core.snapshot(), self.core.tokenizer) if self.render_mode == "ansi" else None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles options and state; see ``agent_envs.pickling``."""
        if self.made_with is None:
            raise TypeError(
                "this environment was not made by gym.make or make_env, so nothing says how to make it again; "
                "pickle the options that you made it with"
            )
        state = {"core": state_of(self.core), "np_random": self.np_random, "seed": self.np_random_seed}
        return _make_again, (dict(self.made_with), state)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """An independent environment in the same state, which shares data, tools and tokenizer with this one."""
        twin = copy.copy(self)
        memo[id(self)] = twin
        twin.__dict__.update({name: copy.deepcopy(value, memo) for name, value in self.__dict__.items()})
        return twin

    def __copy__(self) -> Self:
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
        """Chooses the item and begins its episode; gives the info of ``reset``."""
        options = dict(options or {})
        task_id = options.pop("task_id", None)
        if options:
            raise ConfigError(f'unknown reset options {sorted(options)}; the only one is "task_id"')
        if task_id is None:
            # The generator's raw stream is the same in every version of numpy; derived draws are not promised to be.
            index = int(self.np_random.bit_generator.random_raw()) % len(self.task)
        else:
            index = self.task.index_of(task_id)
        self.core.reset(index, seed)
        return {"task_id": self.task.task_ids()[index], "messages": self._messages()}

    def _messages(self) -> list[dict[str, str]]:
        return [{"role": message.role, "content": message.content} for message in self.core.messages]

    def _flags(self) -> tuple[bool, bool]:
        reason = self.core.reason
        return (False, False) if reason is None else (reason.terminated, not reason.terminated)

    def _turn_info(self) -> dict[str, Any]:
        """What happened at the end of a turn, as plain data of the same types every time."""
        turn = self.core.turns[-1] if self.core.turns else None
        index = 0 if turn is None else turn.index
        kinds = [event.kind for event in self.core.events if event.turn == index]
        return {
            "event": str(_main_event(kinds)),
            "events": [str(kind) for kind in kinds],
            "reason": str(self.core.reason or ""),
            "turn": index,
            "segment": self.core.segment_index,
            "error": next((event.detail for event in self.core.events if event.kind is EventKind.TOOL_FAILURE), ""),
            "tool_calls": [] if turn is None else _plain_calls(turn),
            "messages": self._messages(),
            "metrics": self.core.metrics,
        }


class TokenEnv(AgentEnv[Any, int]):
    """One token per step: the paper's MDP, fully observed.

    Observation: ``{"tokens": int32 [max_context], "length": int}``, the whole context with zeros behind it; with
    ``observation="delta"`` an int32 vector of the tokens that came since the last step (the action included), or the
    whole context where a context rule has written it anew (``info["segment"]`` has risen).
    Action: a token id, 0 <= id < vocab_size. Reward: the task's, on the step that ends a turn; 0 on the others.
    """

    def __init__(self, core: EpisodeCore[Any], observation: str = "full", render_mode: str | None = None) -> None:
        """``observation`` is "full" or "delta"."""
        super().__init__(core, render_mode)
        if observation not in ("full", "delta"):
            raise ConfigError(f'observation is "full" or "delta", not {observation!r}')
        self._delta = observation == "delta"
        self._before = self._turns_before = 0  # of the step that has begun
        self._vocab_size, capacity = core.tokenizer.vocab_size, core.budgets.max_context
        self.action_space = cast("spaces.Space[int]", spaces.Discrete(self._vocab_size))
        if self._delta:
            self.observation_space = TokenRun(self._vocab_size, capacity)
        else:
            tokens = spaces.Box(0, self._vocab_size - 1, (capacity,), np.int32)
            self.observation_space = spaces.Dict({"tokens": tokens, "length": spaces.Discrete(capacity + 1)})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode: on the item that the seed gives, or on ``options={"task_id": ...}``."""
        super().reset(seed=seed)
        info = self._begin(seed, options)
        return self._observe(0), info

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Appends one token; the environment answers if it completes the turn.

        Raises:
            InvalidActionError: the action is no id of the vocabulary.
            EpisodeOverError: the episode is over, or hasn't begun.
        """
        core = self.core
        before = core.length
        token_id = self._check(action)
        if core.append(token_id):  # all but a few tokens, so nothing more is looked at
            return self._observe(before), 0.0, False, False, {}
        result = core.feed((token_id,))
        return self._outcome(before, result.turn_ended, result.reward)

    def check_action(self, action: int) -> None:
        """An action is a token id."""
        self._check(action)

    def begin_step(self, action: int, logprobs: Sequence[float] | None = None) -> tuple[ToolCall, ...] | None:
        """Appends one token; see ``AgentEnv``."""
        token_id = self._check(action)
        self._before, self._turns_before = self.core.length, len(self.core.turns)
        self.core.write((token_id,), logprobs)
        return self.core.pending

    def finish_step(self, results: Sequence[ToolResult] = ()) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """What ``step`` gives for the token of ``begin_step``."""
        if self.core.pending is not None:
            self.core.resolve(results)
        ended = self.core.done or len(self.core.turns) > self._turns_before
        return self._outcome(self._before, ended, self.core.take_reward())

    def _outcome(self, before: int, turn_ended: bool, reward: float) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if not turn_ended:
            return self._observe(before), reward, False, False, {}
        terminated, truncated = self._flags()
        rewritten = len(self.core.news) == self.core.length
        return self._observe(0 if rewritten else before), reward, terminated, truncated, self._turn_info()

    def _check(self, action: int) -> int:
        try:
            token_id = operator.index(action)
        except TypeError as error:
            raise InvalidActionError(f"an action is one token id, not {action!r}") from error
        if not 0 <= token_id < self._vocab_size:
            raise InvalidActionError(f"the token id {token_id} is outside the vocabulary of {self._vocab_size}")
        return token_id

    def _observe(self, start: int) -> Any:
        """The whole context, or what of it stands from ``start`` on."""
        if self._delta:
            return self.core.context[start:].copy()
        return {"tokens": self.core.padded_context, "length": np.int64(self.core.length)}


class TurnEnv(AgentEnv[str, "str | Sequence[int]"]):
    """One turn per step.

    Observation: the text that the policy sees anew: the whole prompt after ``reset``, then each feedback (the whole
    context where a context rule has written it anew: ``info["segment"]`` has risen).
    Action: the turn's text, or its token ids as sampled. Reward: the task's, for the turn.
    """

    def __init__(self, core: EpisodeCore[Any], render_mode: str | None = None, observe: bool = True) -> None:
        """Takes a core that is this environment's own; ``observe=False`` gives no texts, for drivers that read it."""
        super().__init__(core, render_mode)
        self._observe = observe
        self.action_space = TurnText(max_length=_MAX_TEXT)
        self.observation_space = UnicodeText(max_length=_MAX_TEXT)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begins an episode: on the item that the seed gives, or on ``options={"task_id": ...}``."""
        super().reset(seed=seed)
        info = self._begin(seed, options)
        return self._news(), info

    def step(self, action: str | Sequence[int]) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays one turn. Text after the end of the turn is dropped and noted; surplus ids are an error.

        Raises:
            InvalidActionError: the action is empty, of another type, or has ids after the end of the turn.
            EpisodeOverError: the episode is over, or hasn't begun.
        """
        calls = self.begin_step(action)
        return self.finish_step(() if calls is None else self.core.run_tools(calls))

    def check_action(self, action: str | Sequence[int]) -> None:
        """An action is a turn: text, or ids of which none stands behind the turn's end."""
        if not self.action_space.contains(action):
            raise InvalidActionError("an action is a turn's text, or a non-empty sequence of token ids >= 0")
        if not isinstance(action, str):
            within = action[: self.core.max_new_tokens]
            length = self.core.turn_length(within)
            if length < len(within):
                raise InvalidActionError(f"the turn ends at id {length - 1} of the action, but {len(action)} ids came")

    def begin_step(
        self, action: str | Sequence[int], logprobs: Sequence[float] | None = None
    ) -> tuple[ToolCall, ...] | None:
        """Writes one turn; see ``AgentEnv``."""
        if self.core.done:
            self.core.close_turn()  # raises: the episode is over
        self.check_action(action)
        ids = self.core.encode_turn(action) if isinstance(action, str) else [int(token_id) for token_id in action]
        self.core.write_whole(ids, logprobs)
        return self.core.pending

    def finish_step(self, results: Sequence[ToolResult] = ()) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """What ``step`` gives for the turn of ``begin_step``."""
        if self.core.pending is not None:
            self.core.resolve(results)
        terminated, truncated = self._flags()
        return self._news(), self.core.take_reward(), terminated, truncated, self._turn_info()

    def _news(self) -> str:
        return self.core.tokenizer.decode(self.core.news.tolist()) if self._observe else ""


def _make_again(made_with: dict[str, Any], state: dict[str, Any]) -> AgentEnv[Any, Any]:
    from agent_envs.registration import make_env

    env = make_env(**made_with)
    take_state(env.core, state["core"])
    env.np_random = state["np_random"]
    env._np_random_seed = state["seed"]
    return env


def _main_event(kinds: Sequence[EventKind]) -> EventKind:
    """The one event that says most about a turn: every turn has an answer, a call or none of both."""
    return next(kind for kind in _BY_WEIGHT if kind in kinds)


def _plain_calls(turn: Turn) -> list[dict[str, Any]]:
    results = [result.content for result in turn.results] or [""] * len(turn.calls)
    return [
        {
            "name": call.name,
            "arguments": copy.deepcopy(dict(call.arguments)),
            "error": call.error or "",
            "result": result,
        }
        for call, result in zip(turn.calls, results, strict=True)
    ]
