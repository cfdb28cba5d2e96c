"""Samplers that play without a model: a policy that knows every answer, and one that errs where it is told to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from agent_envs.episode import EpisodeCore
from agent_trainer.sampler.base import SampledTurn, TurnRequest


class OracleSampler:
    """Finds the question in the context and writes what the task's oracle would; one turn per queued request and poll.

    ``rewrite`` may change a turn's text, by task id, turn number and text.
    """

    def __init__(
        self,
        core: EpisodeCore[Any],
        rewrite: Callable[[str, int, str], str] = lambda _task, _turn, text: text,
    ) -> None:
        self.core = core
        self.rewrite = rewrite
        self.turns: dict[int, int] = {}
        self._queue: list[TurnRequest] = []

    def submit(self, request: TurnRequest) -> None:
        self._queue.append(request)

    def poll(self) -> list[SampledTurn]:
        queued, self._queue = self._queue, []
        return [self._play(request) for request in queued]

    def release(self, key: int) -> None:
        self.turns.pop(key, None)

    def _play(self, request: TurnRequest) -> SampledTurn:
        turn = self.turns.get(request.key, 0)
        self.turns[request.key] = turn + 1
        said = self.core.tokenizer.decode(request.context.tolist())
        task = self.core.task
        index = next(i for i in range(len(task)) if task.user_prompt(task.item(i)) in said)
        step = task.oracle(task.item(index))[turn]
        text = self.core.write_turn(step)
        ids = self.core.encode_turn(self.rewrite(task.task_ids()[index], turn, text))
        taken: list[int] = []
        for token in ids[: request.max_new_tokens]:
            taken.append(token)
            if request.stop(token):
                break
        return SampledTurn(request.key, np.array(taken, dtype=np.int32), np.full(len(taken), -0.5, dtype=np.float32))
