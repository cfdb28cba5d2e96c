"""Key/value storage in slots, one per episode, so that a batch can be any set of episodes of any lengths.

Transformers' own caches give every row of a batch the same length and the same neighbours for life. Here a row of a
model call is a slot: new keys and values go to that slot's own next positions, and what is read back is every slot's
storage up to the longest row, under a mask that is causal by position.

Decoding reads the rows in place: the storage keeps those that generate side by side at its front, and moves a row when
an episode leaves or joins them, which is once per turn rather than once per token. Storage grows by doubling, layer by
layer, and is dropped when the last slot is given back, so that a learner has the memory to itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import Cache

# Positions are allocated in steps of this size: fewer growths, and rows that stay aligned for fused kernels.
_POSITION_STEP = 64
_FIRST_PLACES = 8
# A batch that needs more of its rows moved than this share is read as a copy instead.
_MOVED_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class SlotRow:
    """One row of a model call.

    Attributes:
        slot: from ``KVSlots.acquire``.
        start: the position of its first new token, which is the number of tokens cached before.
        count: how many new tokens it brings, >= 1.
    """

    slot: int
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class _Step:
    """The indices of one model call, on its device. N is the number of new tokens in all rows together.

    ``read`` picks the places of the rows: a slice (no copy) or int64 ``[B]``. ``rows`` and ``columns`` int64 ``[N]``
    say where the new tokens stand in the batch; ``places`` and ``positions`` int64 ``[N]`` say where they go.
    """

    read: slice | Tensor
    rows: Tensor
    columns: Tensor
    places: Tensor
    positions: Tensor
    length: int


class KVSlots(Cache):  # type: ignore[misc]
    """A cache for transformers' models whose batch rows are slots.

    Per layer: keys ``[places, kv_heads, capacity, head_dim]`` and values alike, of the type that the model makes. A
    slot keeps its number for life; its place in the storage may change.
    """

    def __init__(self) -> None:
        super().__init__(layers=[])
        self._keys: list[Tensor | None] = []
        self._values: list[Tensor | None] = []
        self._slot_at: list[int | None] = []  # by place
        self._place: dict[int, int] = {}  # by slot
        self._length: dict[int, int] = {}  # positions written, by slot
        self._next_slot = 0
        self._capacity = 0
        self._step: _Step | None = None

    def acquire(self) -> int:
        """A new slot, in the first free place."""
        slot, self._next_slot = self._next_slot, self._next_slot + 1
        if None in self._slot_at:
            place = self._slot_at.index(None)
            self._slot_at[place] = slot
        else:
            place = len(self._slot_at)
            self._slot_at.append(slot)
        self._place[slot], self._length[slot] = place, 0
        return slot

    def release(self, slot: int) -> None:
        """Gives a slot back; with the last one the storage goes too.

        Raises:
            ValueError: the slot is not held.
        """
        if slot not in self._place:
            raise ValueError(f"slot {slot} is not held; held: {sorted(self._place)}")
        self._slot_at[self._place.pop(slot)] = None
        del self._length[slot]
        if not self._place:
            self._keys, self._values, self._slot_at = [], [], []
            self._capacity = 0

    @property
    def held(self) -> int:
        """How many slots are in use."""
        return len(self._place)

    @property
    def num_layers(self) -> int:
        """How many layers have stored something."""
        return sum(keys is not None for keys in self._keys)

    @property
    def num_bytes(self) -> int:
        """The storage's size in bytes."""
        return sum(store.nbytes for store in (*self._keys, *self._values) if store is not None)

    def arrange(self, rows: Sequence[SlotRow]) -> list[SlotRow]:
        """The rows in the order in which ``begin`` wants them, moved together in the storage where that is worth it."""
        places = {self._place[row.slot] for row in rows}
        side_by_side = max(places) - min(places) + 1 == len(places)
        outside = sorted(place for place in places if place >= len(rows))
        if not side_by_side and len(outside) <= _MOVED_SHARE * len(rows):
            self._swap(outside, [place for place in range(len(rows)) if place not in places])
        return sorted(rows, key=lambda row: self._place[row.slot])

    def _swap(self, first: list[int], second: list[int]) -> None:
        """Exchanges the contents of places, pair by pair."""
        slots = [self._slot_at[place] for place in (*first, *second)]
        length = max((self._length[slot] for slot in slots if slot is not None), default=0)
        for stores in (self._keys, self._values):
            for layer, store in enumerate(stores):
                if store is not None:
                    roomy = stores[layer] = self._with_room(store, store)
                    roomy[first + second, :, :length] = roomy[second + first, :, :length]
        for slot, place in zip(slots, (*second, *first), strict=True):
            self._slot_at[place] = slot
            if slot is not None:
                self._place[slot] = place

    def begin(self, rows: Sequence[SlotRow], width: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Prepares a model call on a batch of left-padded rows: the new tokens are each row's last ``count`` columns.

        Args:
            rows: in the order of the batch, as ``arrange`` gives them, B of them.
            width: columns Q of the batch, the largest ``count``.
            device: of the model.

        Returns:
            int64 ``[B, Q]`` positions and bool ``[B, 1, Q, K]`` mask, True where a token may look. Padding has position
            0 and looks at position 0 only, so that no row of the softmax is empty; nothing reads what it computes.
        """
        counts = torch.tensor([row.count for row in rows])
        starts = torch.tensor([row.start for row in rows])
        places = torch.tensor([self._place[row.slot] for row in rows])
        offsets = torch.arange(width)[None, :] - (width - counts)[:, None]
        positions = torch.where(offsets >= 0, starts[:, None] + offsets, 0)
        index_rows, index_columns = (offsets >= 0).nonzero(as_tuple=True)
        length = int((starts + counts).max())
        self._capacity = max(self._capacity, _grown(self._capacity, length))
        for row in rows:
            self._length[row.slot] = row.start + row.count
        contiguous = bool((places == torch.arange(len(rows)) + places[0]).all())
        self._step = _Step(
            read=slice(int(places[0]), int(places[0]) + len(rows)) if contiguous else places.to(device),
            rows=index_rows.to(device),
            columns=index_columns.to(device),
            places=places[index_rows].to(device),
            positions=positions[index_rows, index_columns].to(device),
            length=length,
        )
        positions = positions.to(device)
        mask = torch.arange(length, device=device)[None, None, :] <= positions[:, :, None]
        return positions, mask[:, None]

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_args: object, **_kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Stores a layer's new keys and values and gives the rows' whole ones; called by the model's attention.

        Args:
            key_states: ``[B, kv_heads, Q, head_dim]``.
            value_states: the same shape, or another head_dim.
            layer_idx: 0 for the first layer.

        Returns:
            ``[B, kv_heads, K, head_dim]`` keys and values, K being the longest row.
        """
        step = self._step
        if step is None:
            raise RuntimeError("KVSlots.update was called before KVSlots.begin")
        while len(self._keys) <= layer_idx:
            self._keys.append(None)
            self._values.append(None)
        keys = self._keys[layer_idx] = self._with_room(self._keys[layer_idx], key_states)
        values = self._values[layer_idx] = self._with_room(self._values[layer_idx], value_states)
        keys[step.places, :, step.positions] = key_states[step.rows, :, step.columns].to(keys.dtype)
        values[step.places, :, step.positions] = value_states[step.rows, :, step.columns].to(values.dtype)
        return keys[:, :, : step.length][step.read], values[:, :, : step.length][step.read]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """The positions that the model call at hand reads; the rows' own lengths differ."""
        return 0 if self._step is None else self._step.length

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        """Keys per row and their offset, as transformers asks for them."""
        return self.get_seq_length(layer_idx), 0

    def _with_room(self, store: Tensor | None, states: Tensor) -> Tensor:
        """The store, or a larger copy of it. New storage is zero: garbage may hold NaN, which a mask does not stop."""
        old_places, old_capacity = (0, 0) if store is None else (store.shape[0], store.shape[2])
        needed = len(self._slot_at)
        if store is not None and old_places >= needed and old_capacity >= self._capacity:
            return store
        places = old_places if old_places >= needed else max(needed, 2 * old_places, _FIRST_PLACES)
        grown = states.new_zeros(places, states.shape[1], max(self._capacity, old_capacity), states.shape[3])
        if store is not None:
            grown[:old_places, :, :old_capacity] = store
        return grown


def _grown(capacity: int, needed: int) -> int:
    """The capacity to allocate: doubled where more is needed, in whole steps."""
    if needed <= capacity:
        return capacity
    wanted = max(needed, min(2 * capacity, needed + 4096))
    return -(-wanted // _POSITION_STEP) * _POSITION_STEP
