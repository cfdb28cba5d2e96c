"""Advantages over all processes: a group may lie on several of them, and a baseline needs every member."""

from __future__ import annotations

from dataclasses import fields, replace

from accelerate import Accelerator
from torch import Tensor

from agent_trainer.estimators import AdvantageInputs, Advantages, Estimator

_FILL = {"turn_ids": -1, "episode_ids": -1, "group_ids": -1}


def estimate_over_processes(accelerator: Accelerator, estimator: Estimator, inputs: AdvantageInputs) -> Advantages:
    """Runs the estimator on the rows of all processes and gives back this process's share.

    Args:
        accelerator: that gathers.
        estimator: sees every row once.
        inputs: this process's rows; their number and width may differ between processes.
    """
    if accelerator.num_processes == 1:
        return estimator(inputs)
    rows, width = inputs.rewards.shape
    present = {f.name: getattr(inputs, f.name) for f in fields(inputs) if getattr(inputs, f.name) is not None}
    everything = AdvantageInputs(**{name: _gather(accelerator, name, tensor) for name, tensor in present.items()})
    found = estimator(everything)
    first = accelerator.process_index * (len(everything.valid) // accelerator.num_processes)
    mine = slice(first, first + rows)
    return replace(
        found,
        values=found.values[mine, :width],
        has_signal=found.has_signal[mine],
        value_targets=None if found.value_targets is None else found.value_targets[mine, :width],
        value_mask=None if found.value_mask is None else found.value_mask[mine, :width],
    )


def _gather(accelerator: Accelerator, name: str, tensor: Tensor) -> Tensor:
    is_mask = tensor.dtype.is_floating_point is False and tensor.dtype.itemsize == 1
    padded = tensor.int() if is_mask else tensor
    for dim in range(tensor.dim()):
        padded = accelerator.pad_across_processes(padded, dim=dim, pad_index=_FILL.get(name, 0))
    gathered: Tensor = accelerator.gather(padded.contiguous())
    return gathered.bool() if is_mask else gathered
