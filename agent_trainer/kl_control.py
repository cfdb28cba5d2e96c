"""The KL coefficient of a run: read by every update, steered once per update or generation, saved with checkpoints."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

from agent_trainer.batch import RowBatch
from agent_trainer.errors import NonFiniteError
from agent_trainer.losses import KLCoefficient, penalise_rewards


class KLControl(TrainerCallback, ExportableState):  # type: ignore[misc]
    """Holds the coefficient at hand. A run that is resumed goes on with the one that its checkpoint had.

    Attributes:
        coefficient: the one at hand.
    """

    def __init__(self, value: float, target: float | None = None) -> None:
        """Begins with ``value``; see ``KLCoefficient``."""
        self.coefficient = KLCoefficient(value, target)

    def observe(self, mean_kl: float) -> dict[str, list[float]]:
        """Steers the coefficient by the mean KL per token just measured.

        Returns:
            For the log: the coefficient that was in force, where it is steered at all.
        """
        used = self.coefficient
        self.coefficient = used.updated(mean_kl)
        return {} if used.target is None else {"kl_coef": [used.value]}

    def penalise(
        self, rows: RowBatch, logprobs: Tensor, ref_logprobs: Tensor, reduce: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, dict[str, list[float]]]:
        """The rows' rewards with the penalty in them, ``[B, T]``, and numbers for the log; then steers the coefficient.

        Args:
            rows: of this process.
            logprobs: ``[B, T]``, under the policy that played, by the learner's own account.
            ref_logprobs: ``[B, T]``.
            reduce: sums a tensor over all processes.

        Raises:
            NonFiniteError: the KL is NaN or infinite.
        """
        found = penalise_rewards(rows.rewards, logprobs, ref_logprobs, rows.action_mask, self.coefficient.value)
        counted = rows.action_mask & rows.valid[:, None]
        kl, tokens = reduce(torch.stack([(found.kl * counted).sum(), counted.sum()])).tolist()
        if not math.isfinite(kl):
            raise NonFiniteError(f"the KL to the reference is {kl}: the policy or the reference gave NaN or infinity")
        if tokens == 0:
            return found.rewards, {}
        return found.rewards, {"kl": [kl / tokens], **self.observe(kl / tokens)}

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"args": {"value": self.coefficient.value, "target": self.coefficient.target}, "attributes": {}}

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Takes the checkpoint's coefficient over, where it is steered; a fixed one is the option's."""
        saved = state.stateful_callbacks.setdefault(type(self).__name__, self.state())
        if self.coefficient.target is not None:
            self.coefficient = KLCoefficient(saved["args"]["value"], self.coefficient.target)
