"""Tests of the slot storage: what a row reads is what its slot wrote, wherever the storage has moved it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from agent_trainer.sampler.kv_slots import KVSlots, SlotRow

HEADS, DIM = 2, 3
CPU = torch.device("cpu")


class Mirror:
    """Drives the storage with random states and keeps every slot's own history beside it."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.cache = KVSlots()
        self.history: dict[int, Tensor] = {}

    def open(self) -> int:
        slot = self.cache.acquire()
        self.history[slot] = torch.empty(0, HEADS, DIM)
        return slot

    def close(self, slot: int) -> None:
        self.cache.release(slot)
        del self.history[slot]

    def step(self, slots: list[int], longest: int) -> bool:
        """One model call on these slots; says whether it read the storage in place."""
        counts = {slot: int(self.random.integers(1, longest + 1)) for slot in slots}
        rows = self.cache.arrange([SlotRow(slot, len(self.history[slot]), counts[slot]) for slot in slots])
        width = max(counts.values())
        positions, mask = self.cache.begin(rows, width, CPU)
        states = torch.from_numpy(self.random.normal(size=(len(rows), HEADS, width, DIM)).astype(np.float32))
        keys, values = self.cache.update(states, -states, 0)
        for index, row in enumerate(rows):
            new = states[index, :, width - row.count :].transpose(0, 1)
            self.history[row.slot] = whole = torch.cat([self.history[row.slot], new])
            torch.testing.assert_close(keys[index, :, : len(whole)].transpose(0, 1), whole, rtol=0, atol=0)
            torch.testing.assert_close(values[index, :, : len(whole)].transpose(0, 1), -whole, rtol=0, atol=0)
            expected = list(range(row.start, row.start + row.count))
            assert positions[index, width - row.count :].tolist() == expected
            # Each new token looks at everything of its own row up to itself, and at nothing behind that.
            assert mask[index, 0, width - row.count :].sum(dim=-1).tolist() == [position + 1 for position in expected]
            assert mask[index, 0].any(dim=-1).all()
        return keys.untyped_storage().data_ptr() == self.cache._keys[0].untyped_storage().data_ptr()  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(6))
def test_every_row_reads_what_its_slot_wrote_through_moves_growth_and_reuse(seed: int) -> None:
    mirror = Mirror(seed)
    for _ in range(120):
        chance = mirror.random.random()
        if len(mirror.history) < 2 or (chance < 0.15 and len(mirror.history) < 30):
            mirror.open()
        elif chance < 0.25:
            mirror.close(int(mirror.random.choice(list(mirror.history))))
        else:
            count = int(mirror.random.integers(1, len(mirror.history) + 1))
            slots = [int(slot) for slot in mirror.random.permutation(list(mirror.history))[:count]]
            mirror.step(slots, longest=1 if chance < 0.8 else 40)
    assert mirror.cache.held == len(mirror.history)


def test_a_decoding_batch_is_read_in_place_after_an_episode_left_and_when_it_is_back() -> None:
    mirror = Mirror(0)
    slots = [mirror.open() for _ in range(9)]
    assert mirror.step(slots, longest=5)
    away = slots[2]
    rest = [slot for slot in slots if slot != away]
    assert mirror.step(rest, longest=1)
    assert mirror.step([away], longest=7)
    assert mirror.step(slots, longest=1)
    mirror.close(slots[0])
    assert mirror.step(slots[1:], longest=1)


def test_a_scattered_batch_is_copied_rather_than_moving_most_of_it() -> None:
    mirror = Mirror(0)
    slots = [mirror.open() for _ in range(20)]
    mirror.step(slots, longest=5)
    assert not mirror.step([slots[10], slots[14], slots[19]], longest=1)


def test_misuse_is_reported() -> None:
    cache = KVSlots()
    with pytest.raises(ValueError, match="slot 4 is not held"):
        cache.release(4)
    with pytest.raises(RuntimeError, match=r"before KVSlots\.begin"):
        cache.update(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1), 0)
