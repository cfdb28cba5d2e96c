"""REINFORCE++: returns whitened over the whole update in place of a critic, with or without a group's baseline.

Without: A_k = G_k = r_k + gamma G_{k+1} over action tokens, so that a penalty on a token (such as -beta k1 inside the
rewards) counts for that token and those before it only. With: A_i = R_i - mean(R_1..R_G), the same for each token of an
episode. Both are then whitened over all action tokens. Source: arXiv 2501.03262.

Deviations: (1) the return goes on through observations and segments: environment tokens neither reset it nor discount
it; (2) with the baseline, groups that teach nothing (fewer than two members, or no spread) stay at zero and out of the
whitening, since they stay out of the loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from agent_trainer.estimators.base import AdvantageInputs, Advantages, check_fraction
from agent_trainer.estimators.groups import on_every_token, relative_to_group
from agent_trainer.estimators.recursion import discounted_sums
from agent_trainer.estimators.sequences import make_sequences, to_advantages
from agent_trainer.estimators.whitening import whiten


@dataclass(frozen=True, slots=True)
class ReinforcePlusPlus:
    """The estimator without a group's baseline.

    Attributes:
        gamma: discount between one action token and the next, in [0, 1].
    """

    gamma: float = 1.0

    needs: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        """Checks the range.

        Raises:
            ValueError: gamma lies outside [0, 1].
        """
        check_fraction("gamma", self.gamma)

    def __call__(self, inputs: AdvantageInputs) -> Advantages:
        """Advantages ``[B, T]``; zero where every token of the update has the same return."""
        sequences = make_sequences(inputs)
        rewards = sequences.take(inputs.rewards)
        returns = discounted_sums(rewards, torch.full_like(rewards, self.gamma))
        return to_advantages(inputs, sequences, whiten(returns, sequences.present))


@dataclass(frozen=True, slots=True)
class ReinforcePlusPlusBaseline:
    """The estimator with the group's mean as a baseline; it has no options."""

    needs: ClassVar[frozenset[str]] = frozenset()

    def __call__(self, inputs: AdvantageInputs) -> Advantages:
        """Advantages ``[B, T]``; a group of fewer than two valid episodes, or without spread, gives zero."""
        sequences = make_sequences(inputs)
        returns = sequences.take(inputs.rewards).sum(dim=1)
        scores = relative_to_group(returns, sequences.groups, divide_by_std=False)
        teaches = sequences.groups_with(scores != 0)[sequences.groups][:, None] & sequences.present
        return to_advantages(inputs, sequences, whiten(on_every_token(sequences, scores), teaches))
