from __future__ import annotations

import math

import pytest
import torch

from agent_trainer.estimators.whitening import whiten


def test_the_mean_and_the_variance_are_over_the_masked_entries_alone() -> None:
    # 1, 2, 3: mean 2, sample variance 1. What is not masked is not looked at.
    values = torch.tensor([[1.0, math.nan, 2.0], [100.0, 3.0, math.inf]], dtype=torch.float64)
    mask = torch.tensor([[True, False, True], [False, True, False]])
    assert whiten(values, mask).tolist() == [[-1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize("values", [[], [7.0]])
def test_fewer_than_two_entries_stay_as_they_are(values: list[float]) -> None:
    tensor = torch.tensor(values, dtype=torch.float64)
    assert whiten(tensor, torch.ones(len(values), dtype=torch.bool)).tolist() == values


def test_entries_that_are_all_the_same_become_zero() -> None:
    nearly = torch.tensor([0.1 + 0.2, 0.3, 0.3], dtype=torch.float64)  # one number, summed in two orders
    assert whiten(nearly, torch.ones(3, dtype=torch.bool)).tolist() == [0, 0, 0]


def test_rows_of_two_processes_are_whitened_together() -> None:
    both = torch.tensor([[0.0, 1.0], [5.0, 6.0]], dtype=torch.float64)
    mask = torch.ones(2, 2, dtype=torch.bool)
    alone = torch.cat([whiten(row[None], mask[:1]) for row in both])
    assert torch.equal(alone[0], alone[1])
    assert whiten(both, mask)[0].max() < whiten(both, mask)[1].min()
