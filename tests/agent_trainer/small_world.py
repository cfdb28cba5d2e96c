"""A very small environment and sampler, real but trivial: an echo game, and a policy that counts.

They have the interfaces of the project's own, so that tests of what stands between them need no model and no data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from agent_envs.types import Episode, Float32Array, Int32Array, Segment, StopReason, Turn
from agent_trainer.sampler.base import SampledTurn, TurnRequest

END = 2


class EchoCore:
    """An episode of ``num_turns`` turns; after each but the last the environment repeats what was said, plus one.

    ``before_feed`` runs in the environment's thread with the task's id and the turn's number, for tests that make a
    turn slow or broken.
    """

    segment_index = 0

    def __init__(self, num_turns: int, before_feed: Callable[[str, int], None]) -> None:
        self.num_turns = num_turns
        self.before_feed = before_feed
        self.task_id = ""
        self.seed: int | None = None
        self.ids: list[int] = []
        self.mask: list[bool] = []
        self.turn_of: list[int] = []
        self.logprobs: list[float] = []
        self.rewards: list[float] = []
        self.turns: list[Turn] = []
        self.prompt_length = 0

    def reset(self, task_id: str, seed: int | None) -> None:
        self.__init__(self.num_turns, self.before_feed)  # type: ignore[misc]
        self.task_id, self.seed = task_id, seed
        prompt = [10 + byte % 10 for byte in f"{task_id}/{seed}".encode()]
        self._append(prompt, action=False, turn=-1, logprobs=[0.0] * len(prompt))
        self.prompt_length = len(prompt)

    def _append(self, ids: Sequence[int], action: bool, turn: int, logprobs: Sequence[float]) -> None:
        self.ids += [int(token) for token in ids]
        self.mask += [action] * len(ids)
        self.turn_of += [turn] * len(ids)
        self.logprobs += [float(value) for value in logprobs]
        self.rewards += [0.0] * len(ids)

    @property
    def context(self) -> Int32Array:
        return np.array(self.ids, dtype=np.int32)

    @property
    def done(self) -> bool:
        return len(self.turns) == self.num_turns

    @property
    def max_new_tokens(self) -> int:
        return 12

    def turn_length(self, ids: Int32Array) -> int:
        return len(ids)

    def is_whole_turn(self, ids: Int32Array) -> bool:
        return True

    def stop_checker(self) -> Callable[[int], bool]:
        return lambda token: token == END

    def feed(self, ids: Int32Array, logprobs: Float32Array) -> None:
        self.before_feed(self.task_id, len(self.turns))
        turn, start = len(self.turns), len(self.ids)
        self._append(ids, action=True, turn=turn, logprobs=logprobs)
        stop = len(self.ids)
        self.rewards[-1] = 1.0
        if turn + 1 < self.num_turns:
            self._append([int(token) + 1 for token in ids], action=False, turn=turn, logprobs=[0.0] * len(ids))
        text = " ".join(str(token) for token in ids)
        self.turns.append(Turn(turn, start, stop, len(self.ids), text, reward=1.0))

    def snapshot(self) -> Episode:
        length = len(self.ids)
        return Episode(
            env_id="Echo-v0",
            task_id=self.task_id,
            seed=self.seed,
            tokens=np.array(self.ids, dtype=np.int32),
            action_mask=np.array(self.mask, dtype=np.bool_),
            turn_ids=np.array(self.turn_of, dtype=np.int32),
            rewards=np.array(self.rewards, dtype=np.float32),
            sampler_logprobs=np.array(self.logprobs, dtype=np.float32),
            turns=tuple(self.turns),
            segments=(Segment(0, length, self.prompt_length),),
            events=(),
            terminated=self.done,
            truncated=False,
            reason=StopReason.ANSWERED if self.done else None,
            metrics={"reward": float(len(self.turns))} if self.done else {},
        )


class EchoEnv(gym.Env[Any, Any]):
    """The echo game behind the interface of the project's environments; its steps run in threads."""

    may_block = True
    observation_space = gym.spaces.Discrete(1)
    action_space = gym.spaces.Discrete(1)
    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self, num_turns: int = 3, before_feed: Callable[[str, int], None] = lambda _task, _turn: None) -> None:
        self.core = EchoCore(num_turns, before_feed)
        self.closed = False

    def check_action(self, action: Int32Array) -> None:
        return None

    def begin_step(self, action: Int32Array, logprobs: Float32Array) -> None:
        self.core.feed(action, logprobs)

    def finish_step(self, _results: Sequence[Any] = ()) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return 0, 1.0, self.core.done, False, {}

    def fail_step(self, _why: str, _reason: StopReason) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return 0, 0.0, False, True, {}

    def renewed(self) -> EchoEnv:
        return EchoEnv(self.core.num_turns, self.core.before_feed)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.core.reset((options or {})["task_id"], seed)
        return self.core.context, {}

    @property
    def episode(self) -> Episode:
        return self.core.snapshot()

    def close(self) -> None:
        self.closed = True


class CountingSampler:
    """Writes tokens that are a hash of the turn's seed and the context; one token per poll for every queued turn."""

    def __init__(self) -> None:
        self.held: set[int] = set()
        self.requests: list[TurnRequest] = []
        self.polls = 0
        self._writing: dict[int, tuple[TurnRequest, list[int]]] = {}

    def submit(self, request: TurnRequest) -> None:
        self.held.add(request.key)
        self.requests.append(request)
        self._writing[request.key] = (request, [])

    def poll(self) -> list[SampledTurn]:
        self.polls += 1
        finished = []
        for key, (request, ids) in list(self._writing.items()):
            state = request.context.tobytes() + bytes(ids) + request.seed.to_bytes(8, "little")
            token = hashlib.sha256(state).digest()[0] % 9 + END
            ids.append(token)
            if request.stop(token) or len(ids) >= request.max_new_tokens:
                del self._writing[key]
                logprobs = np.full(len(ids), -np.log(9), dtype=np.float32)
                finished.append(SampledTurn(key, np.array(ids, dtype=np.int32), logprobs))
        return finished

    def release(self, key: int) -> None:
        self.held.discard(key)
        self._writing.pop(key, None)
