"""A short run for ``test_two_processes.py``, started once by itself and once by torchrun."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

from tests.agent_trainer.small_training import small_trainer


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    # Three groups of four in batches of two: with two processes, the second group lies on both of them.
    trainer = small_trainer(
        folder,
        optim="sgd",
        prompts_per_step=3,
        per_device_train_batch_size=2,
        max_steps=2,
        surrogate="turn",
        loss_aggregation="turn",
        beta=0.05,
        estimator="gigpo",  # its groups and its states are those of both processes
        anchor_similarity=0.9,
        kl_in="reward",
        kl_target=10.0,
        ddp_backend="gloo" if "WORLD_SIZE" in os.environ else None,
    )
    trainer.train()
    if trainer.accelerator.is_main_process:
        log = [
            {name: line.get(name) for name in ("loss", "reward", "entropy", "kl", "kl_coef", "tokens")}
            for line in trainer.state.log_history
        ]
        weights = trainer.accelerator.unwrap_model(trainer.model).state_dict()
        torch.save({"log": log[:2], "weights": weights}, folder / "result.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    # Gloo's threads may outlive the group and abort an interpreter that shuts down in its own time.
    sys.stdout.flush()
    os._exit(0)
