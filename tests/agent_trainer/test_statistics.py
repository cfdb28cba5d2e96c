"""Tests of means and intervals, against published and hand-worked numbers."""

from __future__ import annotations

import numpy as np
import pytest

from agent_trainer.statistics import Estimate, bootstrap, share, wilson


def test_wilson_gives_its_published_values() -> None:
    # Newcombe 1998, table I, method 3: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
    for successes, trials, low, high in [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0, 0.1611)]:
        got = wilson(successes, trials)
        assert (got.low, got.high) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))
    assert wilson(1, 29).high == pytest.approx(0.1718, abs=5e-5)


def test_wilson_stays_within_its_bounds_at_the_ends() -> None:
    assert wilson(0, 1).low == 0
    assert wilson(7, 7).high == 1
    for bad in [(-1, 3), (4, 3), (0, 0)]:
        with pytest.raises(ValueError, match="successes"):
            wilson(*bad)


def test_the_bootstrap_is_the_same_every_time_and_near_the_normal_interval() -> None:
    values = np.random.default_rng(0).normal(3, 2, 400).tolist()
    got = bootstrap(values)
    assert got == bootstrap(values)
    half = 1.96 * np.std(values) / 20
    assert got.mean == pytest.approx(np.mean(values))
    assert got.high - got.mean == pytest.approx(half, rel=0.15)
    assert got.mean - got.low == pytest.approx(half, rel=0.15)


def test_a_ratio_is_of_sums_and_zero_without_any_call() -> None:
    assert bootstrap([1, 0, 1], [4, 1, 1]).mean == pytest.approx(1 / 3)
    assert bootstrap([0, 0], [0, 0]) == Estimate(0.0, 0.0, 0.0)


def test_values_that_cannot_be_averaged_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        bootstrap([])
    with pytest.raises(ValueError, match="finite"):
        bootstrap([1.0, float("nan")])
    with pytest.raises(ValueError, match="weights"):
        bootstrap([1.0], [1.0, 2.0])


def test_a_share_has_wilsons_interval_and_takes_nothing_but_zeros_and_ones() -> None:
    assert share([1.0, 0.0, 1.0]) == wilson(2, 3)
    assert str(share([1.0, 0.0])) == "0.500 [0.095, 0.905]"
    with pytest.raises(ValueError, match="0 or 1"):
        share([1.0, 0.5])
