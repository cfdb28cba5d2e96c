from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig

from agent_envs.errors import ConfigError
from agent_envs.types import StopReason
from agent_trainer.errors import NonFiniteError, TrainingError
from agent_trainer.trainer import AgentTrainer
from tests.agent_trainer.small_training import (
    SameTask,
    WritingTask,
    small_config,
    small_trainer,
    tiny_model,
    writing_env,
)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def weights(trainer: AgentTrainer) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in trainer.model.named_parameters()}


def logged(trainer: AgentTrainer, name: str) -> list[float]:
    return [line[name] for line in trainer.state.log_history if name in line]


def episodes(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]


def test_a_step_changes_the_weights_and_reports_finite_numbers(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path)
    before = weights(trainer)
    trainer.train()
    assert all(torch.isfinite(parameter).all() for parameter in trainer.model.parameters())
    assert any(not torch.equal(before[name], after) for name, after in weights(trainer).items())
    first = trainer.state.log_history[0]
    assert first["grad_norm"] > 0
    assert first["entropy"] > 0
    for name in (
        "reward",
        "turns",
        "malformed_share",
        "truncated_share",
        "groups_without_spread",
        "tokens_per_s/learner",
    ):
        assert name in first
    assert first["tokens"] == trainer.inputs[0]["tool_mask"].sum()


def test_every_episode_is_written_and_groups_share_the_task_and_the_seed(tmp_path: Path) -> None:
    small_trainer(tmp_path, max_steps=2).train()
    lines = episodes(tmp_path)
    assert len(lines) == 16
    for step in (0, 1):
        for group in (0, 1):
            members = [line for line in lines if (line["step"], line["group"]) == (step, group)]
            assert len(members) == 4
            assert len({(line["task_id"], line["seed"]) for line in members}) == 1
            assert len({tuple(line["tokens"]) for line in members}) > 1
    assert len({line["seed"] for line in lines}) == 4


def test_the_samplers_logprobs_are_the_learners(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path, temperature=0.8)
    trainer.train()
    assert 0 <= logged(trainer, "logprob_gap")[0] < 1e-4
    assert logged(trainer, "importance_weight")[0] == pytest.approx(1.0, abs=1e-4)
    batch = trainer.batches[0]
    recomputed = trainer._scorer.in_chunks(tiny_model(), batch, batch["tool_mask"], chunk_rows=3)
    gap = (recomputed - batch["sampler_logprobs"])[batch["tool_mask"]].abs()
    assert gap.max() < 1e-4


def test_dropout_is_off_in_attention_too(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path, model=tiny_model(attention_dropout=0.5))
    trainer.train()
    assert logged(trainer, "logprob_gap")[0] < 1e-4


def test_accumulation_gives_the_update_of_one_big_batch(tmp_path: Path) -> None:
    for aggregation in ("token", "sequence", "turn", "constant"):
        whole = small_trainer(tmp_path / "whole", optim="sgd", loss_aggregation=aggregation)
        parts = small_trainer(
            tmp_path / "parts", optim="sgd", loss_aggregation=aggregation, per_device_train_batch_size=2
        )
        whole.train()
        parts.train()
        assert (len(whole.losses), len(parts.losses)) == (1, 4)
        assert sum(parts.losses).item() == pytest.approx(whole.losses[0].item(), abs=1e-6)
        for name, parameter in weights(whole).items():
            assert torch.allclose(parameter, weights(parts)[name], atol=1e-6), name


def test_episodes_are_used_again_with_ratios_to_the_policy_that_played_them(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path, num_iterations=2, max_steps=2)
    trainer.train()
    assert len(trainer.batches) == 1
    assert len(trainer.losses) == 2
    batch = trainer.batches[0]
    gap = (batch["old_per_token_logps"] - batch["sampler_logprobs"])[batch["tool_mask"]].abs()
    assert gap.max() < 1e-4
    assert trainer.losses[0].item() != trainer.losses[1].item()


def test_updates_per_rollout_splits_a_generation_into_updates(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path, updates_per_rollout=2, max_steps=2)
    trainer.train()
    assert len(trainer.batches) == 1
    assert len(trainer.losses) == 2
    assert trainer.losses[0].requires_grad
    assert sum(logged(trainer, "tokens")) == trainer.batches[0]["tool_mask"].sum()


def test_the_reference_is_the_model_that_the_run_began_with(tmp_path: Path) -> None:
    model = tiny_model()
    start = copy.deepcopy(model)
    trainer = small_trainer(tmp_path, model=model, beta=0.1, max_steps=2)
    assert trainer.ref_model is not model
    trainer.train()
    for name, parameter in trainer.ref_model.named_parameters():
        assert torch.equal(parameter, start.get_parameter(name))
        assert not parameter.requires_grad
    first, second = logged(trainer, "kl")
    assert first == pytest.approx(0.0, abs=1e-6)
    assert second > 1e-6


def test_with_an_adapter_the_reference_is_the_model_without_it(tmp_path: Path) -> None:
    trainer = AgentTrainer(
        model=tiny_model(),
        args=small_config(tmp_path, beta=0.1, max_steps=2),
        env=writing_env,
        peft_config=LoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=True),
    )
    assert trainer.ref_model is None
    trainer.train()
    first, second = logged(trainer, "kl")
    assert first == pytest.approx(0.0, abs=1e-6)
    assert second > 1e-7


def test_groups_without_spread_are_dropped_and_reported_and_nothing_breaks(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path, task=SameTask(), weight_decay=0.0)
    before = weights(trainer)
    trainer.train()
    assert logged(trainer, "groups_without_spread") == [1.0]
    assert not trainer.inputs[0]["tool_mask"].any()
    assert trainer.losses[0].item() == 0.0
    assert all(torch.equal(before[name], after) for name, after in weights(trainer).items())
    assert len(episodes(tmp_path)) == 8


def test_an_update_with_nothing_to_learn_leaves_the_weights_alone(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path, task=SameTask(), weight_decay=0.5, max_steps=2)
    before = weights(trainer)
    trainer.train()
    assert trainer.state.global_step == 2
    assert all(torch.equal(before[name], after) for name, after in weights(trainer).items())


def test_only_the_policys_tokens_are_trained_unless_the_loss_mask_is_off(tmp_path: Path) -> None:
    on, off = small_trainer(tmp_path / "on"), small_trainer(tmp_path / "off", loss_mask=False)
    on.train()
    off.train()
    for trainer in (on, off):
        batch = trainer.batches[0]
        sampled = ~batch["sampler_logprobs"].isnan()
        wanted = sampled if trainer is on else batch["completion_mask"].bool()
        assert torch.equal(batch["tool_mask"], wanted)
        assert not batch["advantages"][~wanted].any()
    assert off.batches[0]["tool_mask"].sum() > on.batches[0]["tool_mask"].sum()


def test_a_failed_episode_is_kept_out_of_baselines_and_losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StopReason, "failed", property(lambda reason: reason is StopReason.MAX_TURNS))
    trainer = small_trainer(tmp_path)
    trainer.train()
    failed = [line for line in episodes(tmp_path) if line["reason"] == "max_turns"]
    assert logged(trainer, "failed_share") == [len(failed) / 8]
    assert logged(trainer, "groups_without_spread") == [0.0 if len(failed) < 8 else 1.0] or failed


def test_an_environment_that_never_works_stops_the_run_with_its_error(tmp_path: Path) -> None:
    def broken() -> Any:
        env = writing_env()
        env.reset = lambda **_: 1 / 0  # type: ignore[method-assign]
        return env

    trainer = AgentTrainer(model=tiny_model(), args=small_config(tmp_path), env=broken)
    with pytest.raises(TrainingError, match="none of 8 episodes could be played; the first: ZeroDivisionError"):
        trainer.train()
    assert all("ZeroDivisionError" in line["error"] for line in episodes(tmp_path))


def test_a_non_finite_loss_names_the_step_and_keeps_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = small_trainer(tmp_path)
    monkeypatch.setattr("agent_trainer.losses.surrogates.clipped_surrogate", lambda ratio, *_: ratio * float("nan"))
    with pytest.raises(NonFiniteError, match="step 0: the loss is nan"):
        trainer.train()
    kept = torch.load(tmp_path / "non_finite" / "step_0_rank_0.pt")
    assert torch.equal(kept["completion_ids"], trainer.inputs[0]["completion_ids"])


def test_diverged_weights_are_named_at_the_next_rollout(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path)
    with torch.no_grad():
        trainer.model.lm_head.weight.fill_(float("nan"))
    with pytest.raises(NonFiniteError, match="step 0: the model gave logits"):
        trainer.train()


def test_ctrl_c_leaves_a_checkpoint_and_the_episodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = small_trainer(tmp_path, max_steps=5)
    compute = trainer._compute_loss

    def interrupted(model: Any, inputs: Any) -> torch.Tensor:
        if trainer.state.global_step == 2:
            raise KeyboardInterrupt
        return compute(model, inputs)

    monkeypatch.setattr(trainer, "_compute_loss", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    assert (tmp_path / "checkpoint-2" / "model.safetensors").is_file()
    assert (tmp_path / "checkpoint-2" / "optimizer.pt").is_file()
    assert len(episodes(tmp_path)) == 24  # of three rollouts: the one that was being learned from too


def test_a_run_goes_on_from_its_checkpoint_with_the_prompts_it_would_have_had(tmp_path: Path) -> None:
    options = {"max_steps": 3, "save_strategy": "steps", "save_steps": 2}  # an epoch has two steps
    whole = small_trainer(tmp_path / "whole", **options)
    whole.train()
    resumed = small_trainer(tmp_path / "resumed", **options)
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-2"))
    played = [
        sorted((line["step"], line["group"], line["task_id"], line["seed"], line["tokens"]) for line in lines)
        for lines in (episodes(tmp_path / "resumed"), episodes(tmp_path / "whole")[16:])
    ]
    assert played[0] == played[1]
    assert logged(resumed, "loss")[2] == pytest.approx(logged(whole, "loss")[2], abs=1e-6)
    assert resumed.state.global_step == 3


def test_a_run_goes_on_in_the_middle_of_an_epoch_and_of_a_generation(tmp_path: Path) -> None:
    task = WritingTask(tuple(f"item {number}" for number in range(8)))
    options = {
        "max_steps": 8,
        "updates_per_rollout": 2,
        "prompts_per_step": 1,
        "save_strategy": "steps",
        "save_steps": 1,
    }
    whole = small_trainer(tmp_path / "whole", task=task, per_device_train_batch_size=4, **options)
    whole.train()
    for step in (3, 5):  # an epoch has eight steps
        folder = tmp_path / f"from_{step}"
        resumed = small_trainer(folder, task=task, per_device_train_batch_size=4, **options)
        resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / f"checkpoint-{step}"))
        of_whole = {(line["step"], line["task_id"]) for line in episodes(tmp_path / "whole") if line["step"] > step}
        played = {(line["step"], line["task_id"]) for line in episodes(folder)}
        again = {(step, task_id) for at, task_id in played if at == step}  # of the half that was left
        assert played == of_whole | again
        assert again <= {(step, line["task_id"]) for line in episodes(tmp_path / "whole") if line["step"] == step - 1}


def test_a_trainer_that_was_interrupted_goes_on_with_whole_updates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = small_trainer(tmp_path, max_steps=3, per_device_train_batch_size=2)
    with monkeypatch.context() as patch:
        compute = trainer._compute_loss

        def interrupted(model: Any, inputs: Any) -> torch.Tensor:
            if trainer.state.global_step == 1 and len(trainer.losses) == 6:
                raise KeyboardInterrupt
            return compute(model, inputs)

        patch.setattr(trainer, "_compute_loss", interrupted)
        with pytest.raises(KeyboardInterrupt):
            trainer.train()
    trainer.train(resume_from_checkpoint=True)
    windows = [trainer.inputs[at : at + 4] for at in (6, 10)]
    counted = [sum(int(inputs["tool_mask"].sum()) for inputs in window) for window in windows]
    assert logged(trainer, "tokens")[1:] == counted


def test_resuming_without_a_checkpoint_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no checkpoint"):
        small_trainer(tmp_path).train(resume_from_checkpoint=True)


def test_an_evaluation_batch_that_broke_is_counted_and_ends_nothing(tmp_path: Path) -> None:
    def fragile() -> Any:
        env = writing_env()
        reset = env.reset

        def broken(*, options: dict[str, Any], **rest: Any) -> Any:
            return 1 / 0 if options["task_id"] == "small-1" else reset(options=options, **rest)

        env.reset = broken  # type: ignore[method-assign]
        return env

    args = small_config(tmp_path, eval_tasks=2, per_device_eval_batch_size=1)
    trainer = AgentTrainer(model=tiny_model(), args=args, env=fragile)
    metrics = trainer.evaluate()
    trainer.close()
    assert metrics["eval_failed_share"] == 0.5


def test_evaluation_plays_held_out_tasks_and_reports_means_over_episodes(tmp_path: Path) -> None:
    trainer = small_trainer(tmp_path, eval_tasks=3)
    metrics = trainer.evaluate()
    lines = episodes(tmp_path)
    assert [line["mode"] for line in lines] == ["eval"] * 3
    assert len({line["task_id"] for line in lines}) == 3
    assert metrics["eval_reward"] == pytest.approx(sum(line["reward"] for line in lines) / 3)
    assert trainer.evaluate()["eval_reward"] == metrics["eval_reward"]
    trainer.close()


def test_evaluating_in_between_changes_nothing_of_the_training(tmp_path: Path) -> None:
    options = {"max_steps": 4, "updates_per_rollout": 2}
    plain = small_trainer(tmp_path / "plain", **options)
    plain.train()
    evaluated = small_trainer(tmp_path / "evaluated", eval_tasks=2, eval_strategy="steps", eval_steps=1, **options)
    evaluated.train()
    assert len(logged(evaluated, "eval_reward")) == 4
    trained = [inputs for inputs in evaluated.inputs if "completion_ids" in inputs]
    for alone, beside in zip(plain.inputs, trained, strict=True):
        assert torch.equal(alone["completion_ids"], beside["completion_ids"])


def test_a_model_that_cannot_play_is_refused_before_anything_runs(tmp_path: Path) -> None:
    small = tiny_model()
    small.resize_token_embeddings(100)
    with pytest.raises(ConfigError, match="259 ids"):
        small_trainer(tmp_path, model=small)
    with pytest.raises(ConfigError, match="max_context=2048"):
        options = {"max_context": 1000, "eval_env_kwargs": {"max_context": 2048}, "eval_tasks": 1}
        AgentTrainer(model=tiny_model(), args=small_config(tmp_path, **options), env="AgentR1/HotpotQA-v0")
    with pytest.raises(ConfigError, match="fewer than the 32 prompts"):
        small_trainer(tmp_path, prompts_per_step=32, group_size=2)
    with pytest.raises(ConfigError, match="unknown environment"):
        AgentTrainer(model=tiny_model(), args=small_config(tmp_path), env="AgentR1/Nope-v0")


def test_the_embedded_hotpotqa_takes_a_step_with_the_byte_tokenizer(tmp_path: Path) -> None:
    args = small_config(tmp_path, max_turns=2, max_turn_tokens=8, max_context=1800, env_kwargs={"reward": "paper"})
    model = tiny_model()
    model.config.max_position_embeddings = 2048
    trainer = AgentTrainer(model=model, args=args, env="AgentR1/HotpotQA-v0")
    trainer.train()
    assert {"reward", "em", "f1", "tool_calls"} <= trainer.state.log_history[0].keys()
