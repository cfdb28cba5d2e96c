"""When the optimizer leaves the weights alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


class SkipEmptyUpdates(TrainerCallback):  # type: ignore[misc]
    """Takes the gradients away where an update has nothing to learn from, because no group had spread.

    On a gradient of zero, momentum and weight decay move the weights all the same; parameters without a gradient are
    skipped. Steps are counted and the schedule goes on. DeepSpeed, which updates within its backward pass, is not
    reached; neither is fp16, whose loss scaler wants gradients.
    """

    def __init__(self, is_empty: Callable[[], bool]) -> None:
        """``is_empty`` is asked before each update, and says the same on every process."""
        self._is_empty = is_empty

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Decides about the update that is due."""
        if args.fp16 or not self._is_empty():
            return
        for group in kwargs["optimizer"].param_groups:
            for parameter in group["params"]:
                parameter.grad = None
