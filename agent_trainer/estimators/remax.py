"""ReMax: an episode's return against that of a greedy episode from the same start, the same for each of its tokens.

A_i = R_i - R(greedy). The greedy episode is played to its end through the same environment, with the same task and
seed, turn by turn. Source: arXiv 2310.10505, with episodes in place of single answers.

Deviation: where the greedy episode failed, the group has no baseline and gives zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agent_trainer.estimators.base import AdvantageInputs, Advantages, given
from agent_trainer.estimators.groups import SPREAD, on_every_token
from agent_trainer.estimators.sequences import make_sequences, to_advantages


@dataclass(frozen=True, slots=True)
class ReMax:
    """The estimator; it has no options."""

    needs: ClassVar[frozenset[str]] = frozenset({"baselines"})

    def __call__(self, inputs: AdvantageInputs) -> Advantages:
        """Advantages ``[B, T]``; an episode that did as well as the greedy one gets zero."""
        sequences = make_sequences(inputs)
        returns = sequences.take(inputs.rewards).sum(dim=1)
        scores = returns - sequences.take_last(given(inputs, "baselines")).double()
        scores = scores.where(scores.abs() > SPREAD, 0.0)  # zero where the baseline is NaN, too
        return to_advantages(inputs, sequences, on_every_token(sequences, scores))
