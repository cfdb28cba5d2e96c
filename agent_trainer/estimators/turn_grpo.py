"""Turn-level GRPO: a turn's reward-to-go against those of the same turn of the group's other episodes.

G_ij = r_ij + gamma G_i(j+1), and A_ij = G_ij - mean(G_1j..G_nj), divided by their standard deviation or not, on each
token of turn j. Unlike GRPO, a turn is neither praised nor blamed for the rewards of the turns before it.
Source: the return-based turn advantages of arXiv 2511.14846; turn-level credit in groups: arXiv 2505.11821.

Deviation: episodes have different numbers of turns, so turn j is compared among the n valid members that reached it;
where that is fewer than two, or they are without spread, the turn gets zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agent_trainer.estimators.base import AdvantageInputs, Advantages, check_fraction
from agent_trainer.estimators.sequences import make_sequences, to_advantages
from agent_trainer.estimators.turns import relative_turns, turn_returns


@dataclass(frozen=True, slots=True)
class TurnRelative:
    """The estimator.

    Attributes:
        gamma: discount between one turn and the next, in [0, 1].
        divide_by_std: divide by the standard deviation of the turns compared.
    """

    gamma: float = 1.0
    divide_by_std: bool = True

    needs: ClassVar[frozenset[str]] = frozenset()

    def __post_init__(self) -> None:
        """Checks the range.

        Raises:
            ValueError: gamma lies outside [0, 1].
        """
        check_fraction("gamma", self.gamma)

    def __call__(self, inputs: AdvantageInputs) -> Advantages:
        """Advantages ``[B, T]``; zero for turns without a counterpart or without spread."""
        sequences = make_sequences(inputs)
        returns = turn_returns(sequences, inputs.rewards, self.gamma)
        advantages = relative_turns(sequences, returns, sequences.turns, divide_by_std=self.divide_by_std)
        return to_advantages(inputs, sequences, advantages)
