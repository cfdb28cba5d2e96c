"""The contract with TRL: what ``trl_bridge.py`` and the two replaced methods rely on."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from accelerate import skip_first_batches
from accelerate.data_loader import BatchSamplerShard, DataLoaderShard
from torch import Tensor
from torch.utils.data import BatchSampler
from transformers import TrainerState
from trl import GRPOConfig, GRPOTrainer
from trl.trainer import grpo_trainer
from trl.trainer.utils import RepeatSampler, add_fused_lm_head, shuffle_sequence_dict, split_tensor_dict

from agent_envs.errors import ConfigError
from agent_trainer import trl_bridge as bridge
from agent_trainer.batch import make_rows
from agent_trainer.learner import TokenScorer
from tests.agent_trainer.episodes import episode
from tests.agent_trainer.small_training import WatchedTrainer, small_config, small_trainer, tiny_model, writing_env


def parameters(function: object) -> list[str]:
    return list(inspect.signature(function).parameters)  # type: ignore[arg-type]


def test_the_signatures_of_what_is_replaced_and_called_are_known() -> None:
    assert parameters(GRPOTrainer._generate_and_score_completions) == ["self", "inputs"]
    assert parameters(GRPOTrainer._compute_loss) == ["self", "model", "inputs"]
    assert parameters(GRPOTrainer._get_train_sampler) == ["self", "dataset"]
    assert parameters(GRPOTrainer._save_checkpoint) == ["self", "model", "trial"]
    assert parameters(RepeatSampler.__init__)[1:] == [
        "data_source",
        "mini_repeat_count",
        "batch_size",
        "repeat_count",
        "shuffle",
        "seed",
    ]
    assert {"model", "temperature", "cast_lm_head_to_fp32", "outputs"} <= set(parameters(add_fused_lm_head))


def test_trls_buffering_still_looks_as_it_did() -> None:
    source = inspect.getsource(GRPOTrainer._prepare_inputs)
    for piece in (
        'mode = "train" if self.model.training else "eval"',
        "self._step % generate_every == 0 or self._buffered_inputs is None",
        "self._buffered_inputs[self._step % self.args.steps_per_generation]",
    ):
        assert piece in source
    assert "loss_is_scaled_for_ga = True" in inspect.getsource(grpo_trainer.GRPOTrainer)
    assert "self._compute_loss(model, inputs)" in inspect.getsource(GRPOTrainer.compute_loss)


def test_the_options_that_are_refused_exist() -> None:
    from agent_trainer.config import _REPLACED

    assert set(_REPLACED) <= {field for field in GRPOConfig.__dataclass_fields__}


def test_extra_tensors_survive_shuffle_and_split() -> None:
    batch = {"prompt_ids": torch.arange(4)[:, None], "extra": torch.arange(4), "num_items_in_batch": torch.tensor(7)}
    parts = split_tensor_dict(shuffle_sequence_dict(batch), 2)
    assert all(torch.equal(part["prompt_ids"][:, 0], part["extra"]) for part in parts)
    assert [part["num_items_in_batch"].item() for part in parts] == [7, 7]


def test_the_output_has_trls_keys_and_shapes(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path, beta=0.1, num_iterations=2)
    trainer.train()
    batch = trainer.batches[0]
    extra = {"old_per_token_logps", "ref_per_token_logps", "sampler_logprobs", "turn_ids"}
    assert set(batch) == set(bridge.OUTPUT_KEYS) | extra | {"episode_tokens"}
    shape = batch["completion_ids"].shape
    for name in ("completion_mask", "tool_mask", "advantages", *extra):
        assert batch[name].shape == shape
    assert batch["num_items_in_batch"].dim() == 0
    assert batch["num_items_in_batch"] == batch["tool_mask"].sum()


@pytest.mark.parametrize(("aggregation", "loss_type"), [("token", "dapo"), ("sequence", "grpo")])
def test_trls_own_loss_agrees_on_our_batch(tmp_path: Path, aggregation: str, loss_type: str) -> None:
    class Compared(WatchedTrainer):
        theirs: Tensor

        def _compute_loss(self, model: torch.nn.Module, inputs: dict[str, Tensor]) -> Tensor:
            self.loss_type, self.args.use_bias_correction_kl = loss_type, False
            self.theirs = GRPOTrainer._compute_loss(self, model, inputs).detach()
            return super()._compute_loss(model, inputs)

    args = small_config(tmp_path, beta=0.3, num_iterations=2, max_steps=2, loss_aggregation=aggregation)
    args.importance_correction = "none"
    trainer = Compared(model=tiny_model(spare_rows=0), args=args, env=writing_env)
    trainer.train()
    assert trainer.losses[-1].item() == pytest.approx(trainer.theirs.item(), abs=1e-5)


def test_the_fused_head_and_the_selected_head_agree() -> None:
    rows = make_rows([episode(), episode("PPPPPPaea"), episode("Pa")], [0, 1, 2], [0, 0, 0])
    names = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")
    inputs = {name: getattr(rows, name) for name in names}
    model = tiny_model()
    add_fused_lm_head(model, temperature=0.7, outputs=("log_probs", "entropy"))
    selected = TokenScorer(0.7, entropy_gradient=True)(model, inputs, rows.action_mask)
    fused = TokenScorer(0.7, fused=True, entropy_gradient=True)(model, inputs, rows.action_mask)
    assert torch.allclose(selected.logprobs, fused.logprobs, atol=1e-5)
    assert torch.allclose(selected.entropy, fused.entropy, atol=1e-5)
    gradients = [
        torch.autograd.grad((s.logprobs.sum() + s.entropy.sum()), model.parameters(), allow_unused=True)
        for s in (selected, fused)
    ]
    for ours, theirs in zip(*gradients, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-4)


def test_a_reference_that_trl_loaded_is_scored_without_entropy() -> None:
    rows = make_rows([episode()], [0], [0])
    inputs = {name: getattr(rows, name) for name in ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")}
    model = tiny_model()
    add_fused_lm_head(model)
    scores = TokenScorer(1.0, fused=True)(model, inputs, rows.action_mask)
    assert scores.logprobs[rows.action_mask].all()
    assert not scores.entropy.any()


def test_the_order_of_prompts_depends_on_the_epoch_and_not_on_what_came_before() -> None:
    def order(*epochs: int) -> list[int]:
        sampler = bridge.EpochSampler(range(16), mini_repeat_count=1, batch_size=4, seed=3)
        for epoch in epochs:
            sampler.set_epoch(epoch)
            last = list(sampler)
        return last

    assert order(0, 1, 2) == order(2)
    assert order(0) != order(1)
    assert sorted(order(5)) == list(range(16))


def test_a_model_in_shards_is_refused_since_rollouts_do_not_run_in_step() -> None:
    with pytest.raises(ConfigError, match="FSDP"):
        bridge.refuse_what_cannot_generate(SimpleNamespace(is_fsdp_enabled=True))  # type: ignore[arg-type]


def test_a_resumed_loader_of_several_processes_is_told_its_epoch() -> None:
    sampler = bridge.EpochSampler(range(16), mini_repeat_count=1, batch_size=4, seed=3)
    shard = BatchSamplerShard(BatchSampler(sampler, batch_size=4, drop_last=True), num_processes=2, process_index=1)
    loader = DataLoaderShard(range(16), batch_sampler=shard)
    counters = bridge.ResumedCounters(SimpleNamespace())  # type: ignore[arg-type]
    counters.on_epoch_begin(None, TrainerState(epoch=2.5), None, train_dataloader=loader)  # type: ignore[arg-type]
    batches = [batch.tolist() for batch in skip_first_batches(loader, 1)]
    sampler.set_epoch(2)
    assert batches == [list(sampler)[12:]]
