"""How long an update takes, and which part of it went into playing and which into learning."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


class PhaseClock(TrainerCallback):  # type: ignore[misc]
    """Measures each optimizer step; what is not playing counts as learning."""

    def __init__(self, log: Callable[[dict[str, list[float]]], None]) -> None:
        """``log`` takes the numbers of each step: seconds of both phases, and tokens that learning read per second."""
        self._log = log
        self._started = 0.0
        self._rollout_s = 0.0
        self._learner_tokens = 0

    def played(self, seconds: float) -> None:
        """Adds time that went into episodes."""
        self._rollout_s += seconds

    def learned(self, tokens: int) -> None:
        """Adds tokens that went through the model for the loss, context included."""
        self._learner_tokens += tokens

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Starts the clock."""
        self._started, self._rollout_s, self._learner_tokens = time.perf_counter(), 0.0, 0

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Reports the step."""
        learner_s = max(1e-9, time.perf_counter() - self._started - self._rollout_s)
        self._log(
            {
                "seconds/rollout": [self._rollout_s],
                "seconds/learner": [learner_s],
                "tokens_per_s/learner": [self._learner_tokens / learner_s],
            }
        )
