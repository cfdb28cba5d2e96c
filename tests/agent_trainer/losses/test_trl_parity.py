"""TRL's own loss, run on tensors that stand for a model's, against ours.

Where they are meant to differ: TRL divides by the rows of a micro-batch, rows of weight zero included, and its entropy
bonus is a mean over tokens whatever the loss type. So the rows here all have tokens, and there is no bonus.
"""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from trl import GRPOTrainer

from agent_trainer.losses import Clip, Denominators, LossInputs, LossSettings, TokenLayout, policy_loss
from tests.agent_trainer.losses.three_turns import ACTIONS, COMPLETION, EPISODES, TURN_IDS

LAYOUT = TokenLayout.of_rows(ACTIONS[:3], TURN_IDS[:3], EPISODES[:3])
BETA = 0.3
MAX_TOKENS = 16


def random_tensors() -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(11)
    shape = LAYOUT.mask.shape
    logprobs = (-torch.rand(shape, generator=random, dtype=torch.double) - 0.5).requires_grad_()
    noise = [torch.randn(shape, generator=random, dtype=torch.double) for _ in range(2)]
    return {
        "logprobs": logprobs,
        "old_logprobs": logprobs.detach() + 0.4 * noise[0],
        "ref_logprobs": logprobs.detach() + 0.4 * noise[1],
        "advantages": torch.randn(3, 1, generator=random, dtype=torch.double).expand(shape),
    }


def trls_loss(tensors: dict[str, Tensor], loss_type: str, level: str, delta: float | None, high: float) -> Tensor:
    """``GRPOTrainer._compute_loss`` with everything but the mathematics stood in for."""
    trainer = SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *_, **__: (tensors["logprobs"], torch.zeros_like(LAYOUT.mask), None),
        model=SimpleNamespace(training=True),
        accelerator=SimpleNamespace(num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x),
        args=SimpleNamespace(use_bias_correction_kl=False, delta=delta, steps_per_generation=1),
        current_gradient_accumulation_steps=1,
        max_completion_length=MAX_TOKENS,
        loss_type=loss_type,
        importance_sampling_level=level,
        epsilon_low=0.2,
        epsilon_high=high,
        beta=BETA,
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        use_vllm=False,
        _entropy_bonus_enabled=False,
        _metrics={"train": defaultdict(list)},
    )
    batch: dict[str, Any] = {
        "prompt_ids": torch.zeros(3, 1, dtype=torch.long),
        "prompt_mask": torch.ones(3, 1, dtype=torch.long),
        "completion_ids": torch.zeros_like(TURN_IDS[:3]),
        "completion_mask": COMPLETION[:3].long(),
        "tool_mask": LAYOUT.mask.long(),
        "advantages": tensors["advantages"],
        "old_per_token_logps": tensors["old_logprobs"],
        "ref_per_token_logps": tensors["ref_logprobs"],
        "num_items_in_batch": LAYOUT.mask.sum(),
    }
    return GRPOTrainer._compute_loss(trainer, None, batch)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("loss_type", "level", "delta", "surrogate", "aggregation"),
    [
        ("grpo", "token", None, "clipped", "sequence"),
        ("bnpo", "token", None, "clipped", "token"),
        ("dapo", "token", None, "clipped", "token"),
        ("dr_grpo", "token", None, "clipped", "constant"),
        ("dapo", "token", 1.4, "dual_clip", "token"),
        ("cispo", "token", None, "cispo", "token"),
        ("grpo", "sequence", None, "gspo", "sequence"),
        ("grpo", "sequence", None, "gspo_token", "sequence"),
        ("dapo", "sequence", None, "gspo", "token"),
    ],
)
def test_the_loss_and_its_gradient_are_those_of_trl(
    loss_type: str, level: str, delta: float | None, surrogate: str, aggregation: str
) -> None:
    tensors = random_tensors()
    is_cispo = surrogate == "cispo"  # whose bound TRL takes as it is, and which has no lower one there
    clip = Clip(1.0, 0.28, 3.0) if is_cispo else Clip(0.2, 0.28, delta or 3.0)
    theirs = trls_loss(tensors, loss_type, level, delta, 1.28 if is_cispo else 0.28)
    settings = LossSettings(
        surrogate=surrogate, clip=clip, aggregation=aggregation, kl_coef=BETA, max_tokens=MAX_TOKENS
    )
    ours = policy_loss(LossInputs(layout=LAYOUT, **tensors), settings, Denominators.count(LAYOUT)).loss
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-9)
    gradients = [torch.autograd.grad(loss, tensors["logprobs"])[0] for loss in (ours, theirs)]
    assert torch.allclose(*gradients, rtol=1e-9, atol=1e-12)
