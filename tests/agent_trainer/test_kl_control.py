from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import TrainerState

from agent_trainer.batch import make_rows, pad_rows
from agent_trainer.errors import NonFiniteError
from agent_trainer.kl_control import KLControl
from tests.agent_trainer.episodes import episode


def penalise(control: KLControl, gap: float) -> tuple[torch.Tensor, dict[str, list[float]], Any]:
    """Two episodes of 8 and 3 action tokens and a row of weight zero; the policy is likelier by ``gap`` everywhere."""
    rows = pad_rows(make_rows([episode(rewards={18: 1.0}), episode("PPaeea")], [0, 1], [0, 0]), 3)
    reference = torch.full(rows.rewards.shape, -1.0)
    rewards, values = control.penalise(rows, reference + gap, reference, lambda sums: sums)
    return rewards, values, rows


def test_every_action_token_pays_and_the_environments_do_not() -> None:
    rewards, values, rows = penalise(KLControl(0.1), gap=0.5)
    assert rewards[0].sum().item() == pytest.approx(1.0 - 0.1 * 0.5 * int(rows.action_mask[0].sum()))
    assert torch.allclose(rewards[rows.action_mask & (rows.rewards == 0)], torch.tensor(-0.05))
    assert not rewards[~rows.action_mask].any()
    assert values == {"kl": [pytest.approx(0.5)]}  # a fixed coefficient is not worth a line in the log


def test_the_coefficient_that_was_in_force_is_logged_and_then_steered() -> None:
    control = KLControl(0.1, target=0.2)
    rewards, values, rows = penalise(control, gap=0.5)
    assert values["kl_coef"] == [0.1]
    assert rewards[1].sum().item() == pytest.approx(-0.1 * 0.5 * int(rows.action_mask[1].sum()))
    assert control.coefficient.value == pytest.approx(0.102)


def test_a_kl_that_is_not_finite_is_an_error_and_no_group_without_spread() -> None:
    with pytest.raises(NonFiniteError, match="KL to the reference is nan"):
        penalise(KLControl(0.1), gap=math.nan)


def resumed(control: KLControl, saved: KLControl) -> float:
    state = TrainerState(stateful_callbacks=[saved])
    control.on_train_begin(SimpleNamespace(), state, SimpleNamespace())  # type: ignore[arg-type]
    return control.coefficient.value


def test_a_resumed_run_takes_the_checkpoints_coefficient_where_it_is_steered() -> None:
    assert resumed(KLControl(0.1, target=0.2), saved=KLControl(0.07, target=0.2)) == 0.07
    assert resumed(KLControl(0.1), saved=KLControl(0.07)) == 0.1


def test_a_checkpoint_from_before_there_was_a_coefficient_can_be_resumed_and_saved_again() -> None:
    state = TrainerState()
    KLControl(0.1, target=0.2).on_train_begin(SimpleNamespace(), state, SimpleNamespace())  # type: ignore[arg-type]
    assert state.stateful_callbacks["KLControl"]["args"] == {"value": 0.1, "target": 0.2}
