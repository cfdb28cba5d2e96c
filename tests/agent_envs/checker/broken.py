"""A small environment that keeps to every rule, and one that breaks it for each rule."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from agent_envs.budgets import Budgets
from agent_envs.envs import AgentEnv, TokenEnv, TurnEnv
from agent_envs.episode import EpisodeCore
from agent_envs.formats import FORMATS
from agent_envs.formats.base import ParsedTurn
from agent_envs.replies import ReplyWriter
from agent_envs.tasks.base import Decision, OracleTurn, Outcome, SharedTools, Toolbox
from agent_envs.tokenizers import ByteTokenizer
from agent_envs.types import Episode, FeedResult, Segment, Turn
from tests.agent_envs.small_task import SmallTask, lookup_tool

_COUNTER = itertools.count()


class GoodTask(SmallTask):
    """Only the right answer earns anything, so that nothing is to be had by broken calls."""

    def reward(self, outcome: Outcome[str]) -> float:
        return 0.0 if outcome.reason is None else super().reward(outcome)


def core_of(
    task: SmallTask | None = None,
    kind: type[EpisodeCore[str]] = EpisodeCore,
    tokenizer: ByteTokenizer | None = None,
) -> EpisodeCore[str]:
    made = task or GoodTask()
    return kind("Test/Small-v0", made, tokenizer or ByteTokenizer(), FORMATS.get("hermes"), Budgets(max_context=4000))


def good_env(level: str = "turn") -> AgentEnv[Any, Any]:
    core = core_of(RiddleTask())
    return TurnEnv(core) if level == "turn" else TokenEnv(core)


def registered(env_id: str, maker: str) -> AgentEnv[Any, Any]:
    """An environment made through ``gym.make`` by a function of this module, so that it has a spec."""
    if env_id not in gym.registry:
        gym.register(env_id, entry_point=f"{__name__}:{maker}")
    made = gym.make(env_id).unwrapped
    assert isinstance(made, AgentEnv)
    return made


# Environments


class WideTokens(TokenEnv):
    """Gives int64 where its space says int32."""

    def _observe(self, new: Any) -> Any:
        observation = super()._observe(new)
        return observation | {"tokens": observation["tokens"].astype(np.int64)}


class OtherItem(TurnEnv):
    """Takes another item for a seed than the token level does."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        return super().reset(seed=None if seed is None else seed + 1, options=options)


class AlwaysTerminated(TurnEnv):
    """Calls every end a termination."""

    def _flags(self) -> tuple[bool, bool]:
        return (any(super()._flags()), False)


class NumpyInfo(TurnEnv):
    """Puts a numpy number into info."""

    def _turn_info(self) -> dict[str, Any]:
        return super()._turn_info() | {"turn": np.int64(0)}


class SharedInfo(TurnEnv):
    """Hands out the list that it goes on using."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=options)
        self._history = list[int]()
        return observation, info | {"history": self._history}

    def _turn_info(self) -> dict[str, Any]:
        self._history.append(len(self.core.turns))
        return super()._turn_info() | {"history": self._history}


class StepsOn(TurnEnv):
    """Repeats its last words after the end."""

    def step(self, action: Any) -> Any:
        return ("", 0.0, True, False, {}) if self.core.done else super().step(action)


class TakesAnything(TokenEnv):
    """Reads a bad action as the token 0."""

    def _check(self, action: Any) -> int:
        return action if isinstance(action, int) and 0 <= action < 259 else 0


class StrictText(TurnEnv):
    """Cannot take a lone surrogate."""

    def step(self, action: Any) -> Any:
        return super().step(action.encode().decode() if isinstance(action, str) else action)


class Counting(TurnEnv):
    """Puts an id into info that no seed fixes."""

    def _turn_info(self) -> dict[str, Any]:
        return super()._turn_info() | {"id": next(_COUNTER)}


class HintsInInfo(TurnEnv):
    """Has the gold answer in the info of each step."""

    def _turn_info(self) -> dict[str, Any]:
        return super()._turn_info() | {"hint": f"it is {self.core.item}"}


class ForgetsInPickle(TurnEnv):
    """Arrives as if nothing had been played."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _begun, ()


class SharesItsCore(TurnEnv):
    """Copies share the episode."""

    def __deepcopy__(self, memo: dict[int, Any]) -> SharesItsCore:
        return copy.copy(self)


def _begun() -> TurnEnv:
    env = TurnEnv(core_of())
    env.reset(seed=0)
    return env


# Cores


class NoLogprobs(EpisodeCore[str]):
    """Forgets the log-probabilities of tokens fed one by one."""

    def feed_one(self, token_id: int, logprob: float = 0.0) -> FeedResult:
        return super().feed_one(token_id)


class NoLogprobsAfterRewriting(EpisodeCore[str]):
    """Forgets the log-probabilities of chunks, once a context rule has opened a second segment."""

    def write(self, ids: Sequence[int], logprobs: Sequence[float] | None = None) -> int:
        return super().write(ids, None if self.segment_index else logprobs)


class MasksThePrompt(EpisodeCore[str]):
    """Claims the prompt's last token for the policy."""

    def snapshot(self) -> Episode:
        episode = super().snapshot()
        mask = episode.action_mask.copy()
        mask[episode.segments[0].prompt_length - 1] = True
        return dataclasses.replace(episode, action_mask=mask)


class RewardsOnTheReply(EpisodeCore[str]):
    """Puts each reward one token late."""

    def snapshot(self) -> Episode:
        episode = super().snapshot()
        return dataclasses.replace(episode, rewards=np.roll(episode.rewards, 1))


class TrainsOnNothing(EpisodeCore[str]):
    """Calls the whole episode a prompt."""

    def snapshot(self) -> Episode:
        episode = super().snapshot()
        whole = len(episode.tokens)
        return dataclasses.replace(episode, segments=(Segment(0, whole, whole),))


class OneTokenMore(EpisodeCore[str]):
    """Takes a token beyond the budget."""

    @property
    def max_new_tokens(self) -> int:
        return min(super().max_new_tokens + 1, self.budgets.max_context - self.length)


class EndlessReplies(EpisodeCore[str]):
    """Cuts no reply."""

    def _use(self, toolbox: Toolbox) -> None:
        super()._use(toolbox)
        endless = dataclasses.replace(self.budgets, max_observation_tokens=10**6)
        self._replies = ReplyWriter(self.renderer, endless, self.context_rule, "")


class ControlTokensInText(EpisodeCore[str]):
    """Reads the control tokens that a turn's text spells."""

    def encode_turn(self, text: str) -> list[int]:
        return [*self.tokenizer.encode(text), self.renderer.end_of_turn_id]


class NeverRestores(EpisodeCore[str]):
    """Stays where it is."""

    def restore(self, saved: EpisodeCore[str]) -> None:
        pass


# Parts of an episode


class LooseTokenizer(ByteTokenizer):
    """Gives control tokens for content that spells them."""

    def encode_plain(self, text: str) -> list[int]:
        spells = any(special in text for special in self.SPECIALS)
        return self.encode(text) if spells else super().encode_plain(text)


class MistakesAreFatal(GoodTask):
    """Ends the episode at a call that cannot be read."""

    def decide(self, item: str, turns: Sequence[Turn], parsed: ParsedTurn) -> Decision:
        broken = any(call.error is not None for call in parsed.calls)
        return Decision(over=broken or parsed.answer is not None)


class TellsTheAnswer(GoodTask):
    """Has the gold answer in its prompt."""

    def user_prompt(self, item: str) -> str:
        return f"{super().user_prompt(item)} (Hint: {item})"


@dataclasses.dataclass(frozen=True)
class Riddle:
    question: str
    answer: str


class RiddleTask(GoodTask):
    """The small task with items of named fields."""

    def item(self, index: int) -> Any:
        return Riddle(f"What is document {index}?", self.items[index])

    def user_prompt(self, item: Any) -> str:
        return str(item.question)

    def reward(self, outcome: Outcome[Any]) -> float:
        return 0.0 if outcome.reason is None else float(outcome.turns[-1].answer == outcome.item.answer)

    def oracle(self, item: Any) -> Sequence[OracleTurn]:
        return super().oracle(item.answer)


class ToolsThatKnow(RiddleTask):
    """Has a tool that gives the item's gold answer away."""

    def begin(self, item: Any) -> SharedTools:
        return SharedTools((lookup_tool((item.answer,)),))


class WrongSolution(GoodTask):
    """Believes something false."""

    def oracle(self, item: str) -> Sequence[OracleTurn]:
        return [OracleTurn(answer="delta")]


class NoSolution(GoodTask):
    """Fails at solving itself."""

    def oracle(self, item: str) -> Sequence[OracleTurn]:
        raise ZeroDivisionError("nothing solves this")


class HashedPrompt(GoodTask):
    """Says what differs in every process."""

    def user_prompt(self, item: str) -> str:
        return f"{super().user_prompt(item)} {hash(item)}"


def make_good(**options: Any) -> AgentEnv[Any, Any]:
    return good_env(**options)


def make_hashed() -> AgentEnv[Any, Any]:
    return TurnEnv(core_of(HashedPrompt()))


def make_wrong_solution() -> AgentEnv[Any, Any]:
    return TurnEnv(core_of(WrongSolution()))


def _changed_since_made() -> AgentEnv[Any, Any]:
    env = registered("Test/Good-v0", "make_good")
    env.core = core_of(TellsTheAnswer())
    return env


BROKEN: dict[str, Callable[[], AgentEnv[Any, Any]]] = {
    "gymnasium": lambda: WideTokens(core_of()),
    "levels": lambda: OtherItem(core_of()),
    "flags": lambda: AlwaysTerminated(core_of()),
    "plain-info": lambda: NumpyInfo(core_of()),
    "fresh-info": lambda: SharedInfo(core_of()),
    "after-the-end": lambda: StepsOn(core_of()),
    "invalid-actions": lambda: TakesAnything(core_of()),
    "spec": _changed_since_made,
    "equivalence": lambda: TurnEnv(core_of(kind=NoLogprobs)),
    "context-rules": lambda: TurnEnv(core_of(kind=NoLogprobsAfterRewriting)),
    "masks": lambda: TurnEnv(core_of(kind=MasksThePrompt)),
    "rewards": lambda: TurnEnv(core_of(kind=RewardsOnTheReply)),
    "segments": lambda: TurnEnv(core_of(kind=TrainsOnNothing)),
    "budgets": lambda: TurnEnv(core_of(kind=OneTokenMore)),
    "observation-budget": lambda: TurnEnv(core_of(kind=EndlessReplies)),
    "unicode": lambda: StrictText(core_of()),
    "hostile-turns": lambda: TurnEnv(core_of(kind=ControlTokensInText)),
    "hostile-documents": lambda: TurnEnv(core_of(tokenizer=LooseTokenizer())),
    "malformed-calls": lambda: TurnEnv(core_of(MistakesAreFatal())),
    "no-gold": lambda: TurnEnv(core_of(TellsTheAnswer())),
    "blind-tools": lambda: TurnEnv(core_of(ToolsThatKnow())),
    "oracle": lambda: TurnEnv(core_of(WrongSolution())),
    "determinism": lambda: Counting(core_of()),
    "deepcopy": lambda: SharesItsCore(core_of()),
    "pickle": lambda: ForgetsInPickle(core_of()),
    "fork": lambda: TurnEnv(core_of(kind=NeverRestores)),
    "processes": lambda: registered("Test/Hashed-v0", "make_hashed"),
}
