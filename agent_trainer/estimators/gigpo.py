"""GiGPO: how well an episode did in its group, and how well each turn did among those from the same state.

A_ij = A_E(R_i) + w A_S(G_ij). A_E compares the episode's return with its group's, as GRPO does. A_S compares the turn's
discounted reward-to-go G_ij = r_ij + gamma G_i(j+1) with those of the group's turns that began in the same anchor
state, turns of the same episode included. Source: arXiv 2505.10978.

Deviations: those of GRPO, on both levels. A turn whose state nobody else visited, or whose fellows all did as well,
gets A_E alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agent_trainer.estimators.base import AdvantageInputs, Advantages, check_fraction, given
from agent_trainer.estimators.groups import on_every_token, relative_to_group
from agent_trainer.estimators.sequences import make_sequences, to_advantages
from agent_trainer.estimators.turns import relative_turns, turn_returns


@dataclass(frozen=True, slots=True)
class GroupInGroup:
    """The estimator.

    Attributes:
        gamma: discount between one turn and the next, in [0, 1].
        turn_weight: w, >= 0.
        divide_by_std: divide by the standard deviations, on both levels.
    """

    gamma: float = 0.95
    turn_weight: float = 1.0
    divide_by_std: bool = True

    needs: ClassVar[frozenset[str]] = frozenset({"anchor_ids"})

    def __post_init__(self) -> None:
        """Checks the ranges.

        Raises:
            ValueError: gamma lies outside [0, 1], or the weight is negative.
        """
        check_fraction("gamma", self.gamma)
        if self.turn_weight < 0:
            raise ValueError(f"turn_weight must be >= 0, got {self.turn_weight}")

    def __call__(self, inputs: AdvantageInputs) -> Advantages:
        """Advantages ``[B, T]``; a group without spread on either level gives zero."""
        sequences = make_sequences(inputs)
        episode_returns = sequences.take(inputs.rewards).sum(dim=1)
        of_episodes = relative_to_group(episode_returns, sequences.groups, divide_by_std=self.divide_by_std)
        anchors = given(inputs, "anchor_ids").reshape(-1)[sequences.index]
        returns = turn_returns(sequences, inputs.rewards, self.gamma)
        of_turns = relative_turns(sequences, returns, anchors, divide_by_std=self.divide_by_std)
        return to_advantages(inputs, sequences, on_every_token(sequences, of_episodes) + self.turn_weight * of_turns)
