"""Rows for the tests of losses: three turns each, with observations of very different lengths between them.

Row 0 is episode 0. Rows 1 and 2 are the two segments of episode 1. Row 3 has weight zero.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from agent_trainer.losses import TokenLayout
from agent_trainer.losses.surrogates import PolicyTerms

# a: sampled by the policy, e: written by the environment, a dot: padding. The digits below are the turns.
LETTERS = ("aaeeeeeeeaeaa", "aeeaeaeee....", "aaa..........", ".............")
TURNS = ("0000000001122", "0001122222222", "3333333333333", "0000000000000")
EPISODES = torch.tensor([0, 1, 1, -1])

ACTIONS = torch.tensor([[letter == "a" for letter in row] for row in LETTERS])
COMPLETION = torch.tensor([[letter != "." for letter in row] for row in LETTERS])
TURN_IDS = torch.tensor([[int(turn) for turn in row] for row in TURNS]).masked_fill(~COMPLETION, -1)
LAYOUT = TokenLayout.of_rows(ACTIONS, TURN_IDS, EPISODES)


def at_actions(rows: list[list[float]], elsewhere: float = math.nan) -> Tensor:
    """float64 ``[B, T]``: the numbers at the action tokens of each row, in order; NaN everywhere else."""
    out = torch.full(ACTIONS.shape, elsewhere, dtype=torch.double)
    return out.masked_scatter(ACTIONS, torch.tensor([x for row in rows for x in row], dtype=torch.double))


def row(numbers: list[float]) -> Tensor:
    """float64 ``[1, T]``: row 0's five action tokens; zero elsewhere, as surrogates get it."""
    return at_actions([numbers, [0.0] * 3, [0.0] * 3], elsewhere=0.0)[:1]


ROW_LAYOUT = TokenLayout.of_rows(ACTIONS[:1], TURN_IDS[:1], EPISODES[:1])


def row_terms(powers: list[float], advantages: list[float]) -> PolicyTerms:
    """Row 0 with ratios of two to the powers given; the old log-probability of each token is -3."""
    old = row([-3.0] * 5)
    logprobs = (old + math.log(2) * row(powers)).requires_grad_()
    return PolicyTerms(logprobs, old, row(advantages), ROW_LAYOUT)
