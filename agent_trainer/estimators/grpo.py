"""Group-relative advantages: an episode's return against those of its group, the same for each of its tokens.

A_i = R_i - mean(R_1..R_G), divided by their standard deviation or not. R is the undiscounted sum of an episode's
rewards. Source: arXiv 2402.03300, section 4.1.2 (with the standard deviation); arXiv 2503.20783, section 3.2 (without:
Dr. GRPO, whose other half is the loss aggregation "constant").

Deviations: (1) the standard deviation is the sample's (over G - 1), and nothing is added to it, since a group without
spread gives no signal instead of a division by almost zero; (2) episodes that the infrastructure ended are not members.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agent_trainer.estimators.base import AdvantageInputs, Advantages
from agent_trainer.estimators.groups import on_every_token, relative_to_group
from agent_trainer.estimators.sequences import make_sequences, to_advantages


@dataclass(frozen=True, slots=True)
class GroupRelative:
    """The estimator.

    Attributes:
        divide_by_std: divide by the group's standard deviation.
    """

    divide_by_std: bool = True

    needs: ClassVar[frozenset[str]] = frozenset()

    def __call__(self, inputs: AdvantageInputs) -> Advantages:
        """Advantages ``[B, T]``; a group of fewer than two valid episodes, or without spread, gives zero."""
        sequences = make_sequences(inputs)
        returns = sequences.take(inputs.rewards).sum(dim=1)
        scores = relative_to_group(returns, sequences.groups, divide_by_std=self.divide_by_std)
        return to_advantages(inputs, sequences, on_every_token(sequences, scores))
