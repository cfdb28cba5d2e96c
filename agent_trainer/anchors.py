"""Anchor states: which turns of a group began in the same state, so that GiGPO can compare them.

The state of a turn is what the environment wrote just before it: the observation, or the prompt where a segment begins.
The whole context would hardly ever be the same twice, since it holds the policy's own words. Equal states are found by
hash, alike ones by comparing tokens. Source: arXiv 2505.10978.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from agent_trainer.batch import RowBatch

State = tuple[int, tuple[int, ...]]  # the group, and the observation's tokens


def turn_anchors(rows: RowBatch, similarity: float, gather: Callable[[list[State]], list[State]]) -> Tensor:
    """int64 ``[B, T]``: the number of the state that each token's turn began in; -1 on padding.

    Args:
        rows: of this process.
        similarity: how alike two observations of a group must be to be the same state, in (0, 1]; 1 means equal.
        gather: gives the states of all processes.
    """
    places = [place for row in range(len(rows)) for place in _turns_of(rows, row)]
    states = [state for _, _, state in places]
    numbers = {state: _hash(state) for state in states} if similarity >= 1 else alike(gather(states), similarity)
    anchors = torch.full(rows.turn_ids.shape, -1)
    turn_ids = rows.turn_ids.cpu()
    for row, turn, state in places:
        anchors[row].masked_fill_(turn_ids[row] == turn, numbers[state])
    return anchors.to(rows.turn_ids.device)


def alike(states: Iterable[State], similarity: float) -> dict[State, int]:
    """Numbers of states within their groups: one joins the first that it is alike, in a fixed order, or founds its own.

    Two are alike where 2 M / (n + m) >= ``similarity``: M tokens of n and m match in order.
    """
    founders: dict[int, list[tuple[int, ...]]] = {}
    numbers: dict[State, int] = {}
    for group, observation in sorted(set(states)):
        known = founders.setdefault(group, [])
        matches = (n for n, founder in enumerate(known) if _are_alike(founder, observation, similarity))
        numbers[group, observation] = next(matches, len(known))
        if numbers[group, observation] == len(known):
            known.append(observation)
    return numbers


def _turns_of(rows: RowBatch, row: int) -> list[tuple[int, int, State]]:
    """Row, turn and state of each turn that begins in a row."""
    group = int(rows.group_ids[row])
    observation = rows.prompt_ids[row][rows.prompt_mask[row].bool()].tolist()
    tokens, sampled = rows.completion_ids[row].tolist(), rows.action_mask[row].tolist()
    found = []
    for place, turn in enumerate(rows.turn_ids[row].tolist()):
        if not sampled[place]:
            observation.append(tokens[place])
        elif observation:
            found.append((row, turn, (group, tuple(observation))))
            observation = []
    return found


def _are_alike(first: tuple[int, ...], second: tuple[int, ...], similarity: float) -> bool:
    matcher = difflib.SequenceMatcher(None, first, second, autojunk=False)
    return (
        matcher.real_quick_ratio() >= similarity
        and matcher.quick_ratio() >= similarity
        and matcher.ratio() >= similarity
    )


def _hash(state: State) -> int:
    """The same number in every process, in [0, 2^63)."""
    digest = hashlib.blake2b(repr(state).encode(), digest_size=8, person=b"agentr1/anchor").digest()
    return int.from_bytes(digest, "little") >> 1
