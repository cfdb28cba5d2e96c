"""Generalized advantages with a critic: by token, by turn, and on both levels. One recursion.

d_k = r_k + g_k V_{k+1} - V_k and A_k = d_k + g_k l_k A_{k+1} over the action tokens of an episode; V_k is the critic's
value just before token k. (g_k, l_k) belong to the turn where the next action token lies in another turn, else to the
token; what the environment wrote between them costs no decay. Behind the last token stands 0 where the episode
terminated, and the critic's value of the final observation where it was truncated, discounted as at a turn's end. The
critic's target is A + V, before whitening.

- ``TokenGae``: one discount and lambda for all. Source: arXiv 1506.02438, eq. 16; over the agent's tokens alone:
  arXiv 2511.14460.
- ``BiLevelGae``: their own discount and lambda within a turn and between turns. After VAGEN, arXiv
  2510.16907, which makes two passes; here it is one.
- ``TurnGae``: a turn is one action. It is the case in which nothing decays within a turn: the recursion then telescopes
  to R_j + g V_{j+1} - V_j + g l A_{j+1}, and only the values just before a turn matter. The turn's tokens share its
  advantage, whitening counts each turn once, and the critic has one target per turn. Source: StepPO, arXiv 2604.18401.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from agent_trainer.estimators.base import AdvantageInputs, Advantages, check_fraction, given
from agent_trainer.estimators.recursion import generalized_advantages
from agent_trainer.estimators.sequences import Sequences, make_sequences, to_advantages
from agent_trainer.estimators.whitening import whiten

_CRITIC = frozenset({"values", "terminated", "last_values"})


@dataclass(frozen=True, slots=True)
class TokenGae:
    """By token.

    Attributes:
        gamma: discount between one action token and the next, in [0, 1].
        lam: lambda between them, in [0, 1].
        whiten: whiten the advantages over all action tokens.
        advantage_mask: leave the environment's tokens out. False is the ablation of arXiv 2511.14460, wrong on purpose:
            the recursion runs through observations, which decay credit and bring in the critic's values of text that
            the policy did not write.
    """

    gamma: float = 1.0
    lam: float = 1.0
    whiten: bool = True
    advantage_mask: bool = True

    needs: ClassVar[frozenset[str]] = _CRITIC

    def __post_init__(self) -> None:
        """Checks the ranges.

        Raises:
            ValueError: an option lies outside [0, 1].
        """
        _check_fractions(self, "gamma", "lam")

    def __call__(self, inputs: AdvantageInputs) -> Advantages:
        """Advantages and the critic's targets, ``[B, T]``."""
        sequences = make_sequences(inputs, None if self.advantage_mask else inputs.turn_ids >= 0)
        values = sequences.take(given(inputs, "values"))
        advantages = _advantages(inputs, sequences, values, (self.gamma, self.lam), (self.gamma, self.lam))
        return _with_targets(inputs, sequences, advantages, values, sequences.present, self.whiten)


@dataclass(frozen=True, slots=True)
class BiLevelGae:
    """On both levels.

    Attributes:
        token_gamma: discount between tokens of one turn, in [0, 1].
        token_lam: lambda between tokens of one turn, in [0, 1].
        turn_gamma: discount between a turn's last token and the next turn's first, in [0, 1].
        turn_lam: lambda between them, in [0, 1].
        whiten: whiten the advantages over all action tokens.
    """

    token_gamma: float = 1.0
    token_lam: float = 1.0
    turn_gamma: float = 1.0
    turn_lam: float = 1.0
    whiten: bool = True

    needs: ClassVar[frozenset[str]] = _CRITIC

    def __post_init__(self) -> None:
        """Checks the ranges.

        Raises:
            ValueError: an option lies outside [0, 1].
        """
        _check_fractions(self, "token_gamma", "token_lam", "turn_gamma", "turn_lam")

    def __call__(self, inputs: AdvantageInputs) -> Advantages:
        """Advantages and the critic's targets, ``[B, T]``."""
        sequences = make_sequences(inputs)
        values = sequences.take(given(inputs, "values"))
        within, between = (self.token_gamma, self.token_lam), (self.turn_gamma, self.turn_lam)
        advantages = _advantages(inputs, sequences, values, within, between)
        return _with_targets(inputs, sequences, advantages, values, sequences.present, self.whiten)


@dataclass(frozen=True, slots=True)
class TurnGae:
    """By turn.

    Attributes:
        gamma: discount between one turn and the next, in [0, 1].
        lam: lambda between them, in [0, 1].
        whiten: whiten the advantages over all turns.
    """

    gamma: float = 1.0
    lam: float = 1.0
    whiten: bool = True

    needs: ClassVar[frozenset[str]] = _CRITIC

    def __post_init__(self) -> None:
        """Checks the ranges.

        Raises:
            ValueError: an option lies outside [0, 1].
        """
        _check_fractions(self, "gamma", "lam")

    def __call__(self, inputs: AdvantageInputs) -> Advantages:
        """Advantages and the critic's targets, ``[B, T]``."""
        sequences = make_sequences(inputs)
        values = sequences.per_turn(sequences.take(given(inputs, "values"))).where(sequences.present, 0.0)
        advantages = _advantages(inputs, sequences, values, (1.0, 1.0), (self.gamma, self.lam))
        return _with_targets(inputs, sequences, advantages, values, sequences.starts_turn(), self.whiten)


def _advantages(
    inputs: AdvantageInputs,
    sequences: Sequences,
    values: Tensor,
    within: tuple[float, float],
    between: tuple[float, float],
) -> Tensor:
    """float64 ``[E, K]``, with (gamma, lambda) within a turn and between turns."""
    truncated = ~sequences.take_last(given(inputs, "terminated"))
    bootstrap = sequences.take_last(given(inputs, "last_values")).double().where(truncated, 0.0)
    following = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], dim=1)
    present_next = torch.cat([sequences.present[:, 1:], torch.zeros_like(sequences.present[:, :1])], dim=1)
    next_values = following.where(present_next, bootstrap[:, None]).where(sequences.present, 0.0)
    ends = sequences.ends_turn()
    gamma, lam = (
        torch.full_like(values, token).masked_fill(ends, turn) for token, turn in zip(within, between, strict=True)
    )
    return generalized_advantages(sequences.take(inputs.rewards), values, next_values, gamma, lam)


def _with_targets(
    inputs: AdvantageInputs, sequences: Sequences, advantages: Tensor, values: Tensor, counted: Tensor, white: bool
) -> Advantages:
    """The result; ``counted``, bool ``[E, K]``, says which tokens are whitened and have a target.

    Every valid row has a signal: where the policy learns nothing, the critic still does.
    """
    scaled = whiten(advantages, counted) if white else advantages
    if counted is not sequences.present:
        scaled = sequences.per_turn(scaled).where(sequences.present, 0.0)
    found = to_advantages(inputs, sequences, scaled)
    return replace(
        found,
        has_signal=inputs.valid.clone(),
        groups_without_spread=0,
        value_targets=sequences.put((advantages + values).where(counted, 0.0)),
        value_mask=(sequences.put(counted.double()) > 0) & inputs.loss_mask,
    )


def _check_fractions(options: object, *names: str) -> None:
    for name in names:
        check_fraction(name, getattr(options, name))
