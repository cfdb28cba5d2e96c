"""Tests of episodes as JSON Lines: exact there and back, strict, and safe against being cut short."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent_envs.errors import DataError
from agent_envs.types import Episode, Event, EventKind, Segment, StopReason, ToolCall, ToolResult, Turn
from agent_trainer.records import JsonLinesWriter, episode_from_json, episode_to_json, plain, read_jsonl


def episode() -> Episode:
    """Two turns with a call, a malformed call, a result with data, unknown log-probabilities and odd text."""
    calls = (ToolCall("search", {"query": "ädé\n\u2028"}), ToolCall("", {}, "no JSON", EventKind.MALFORMED_CALL))
    results = (ToolResult("[1] A\ntext", {"titles": ["A"], "score": np.float32(0.25)}), ToolResult("bad", {}))
    mask = np.array([0, 0, 1, 1, 0, 1, 1], dtype=np.bool_)
    return Episode(
        env_id="AgentR1/HotpotQA-v0",
        task_id="q1",
        seed=None,
        tokens=np.arange(7, dtype=np.int32),
        action_mask=mask,
        turn_ids=np.array([-1, -1, 0, 0, 0, 1, 1], dtype=np.int32),
        rewards=np.array([0, 0, 0, 0.1, 0, 0, -0.5], dtype=np.float32),
        sampler_logprobs=np.array([0, 0, -0.1, math.nan, 0, -1e-7, -13.123456789], dtype=np.float32),
        turns=(
            Turn(0, 2, 4, 5, "call", calls=calls, results=results, reward=0.1),
            Turn(1, 5, 7, 7, "<answer>x</answer>", "x", answer_well_formed=True, reward=-0.5),
        ),
        segments=(Segment(0, 7, 2),),
        events=(Event(EventKind.CALL, 0, "search"), Event(EventKind.ANSWER, 1)),
        terminated=True,
        truncated=False,
        reason=StopReason.ANSWERED,
        metrics={"em": 1.0, "f1": 0.5},
    )


def test_an_episode_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "new" / "episodes.jsonl"
    with JsonLinesWriter(path) as writer:
        writer.write(episode_to_json(episode()))
    (record,) = read_jsonl(path)
    back, original = episode_from_json(record), episode()
    for field in dataclasses.fields(Episode):
        value, expected = getattr(back, field.name), getattr(original, field.name)
        if isinstance(expected, np.ndarray):
            np.testing.assert_array_equal(value, expected)
            assert value.dtype == expected.dtype
        else:
            assert value == expected, field.name


def test_the_json_is_strict(tmp_path: Path) -> None:
    def refuse(name: str) -> Any:
        raise AssertionError(f"{name} is no JSON")

    path = tmp_path / "x.jsonl"
    with JsonLinesWriter(path) as writer:
        writer.write(episode_to_json(episode()))
        writer.write({"nan": math.nan, "inf": np.float64(-math.inf), "n": np.int64(3), "b": np.bool_(True), "s": {1}})
    first, second = (json.loads(line, parse_constant=refuse) for line in path.read_text("utf-8").splitlines())
    assert first["action_logprobs"] == [-0.1, None, -1e-7, -13.123457]
    assert second == {"nan": None, "inf": None, "n": 3, "b": True, "s": [1]}


def test_each_line_is_on_disk_before_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    writer = JsonLinesWriter(path)
    for count in range(3):
        writer.write({"n": count})
        assert len(list(read_jsonl(path))) == count + 1
    writer.close()


def test_appending_goes_on_after_a_line_that_was_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"n":0}\n{"n":1', encoding="utf-8")
    assert [record["n"] for record in read_jsonl(path)] == [0]
    with JsonLinesWriter(path, append=True) as writer:
        writer.write({"n": 2})
    assert [record["n"] for record in read_jsonl(path)] == [0, 2]
    with JsonLinesWriter(path) as writer:
        writer.write({"n": 3})
    assert [record["n"] for record in read_jsonl(path)] == [3]


def test_text_that_utf8_has_no_form_for_is_replaced_and_line_breaks_stay_inside_their_line(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    with JsonLinesWriter(path) as writer:
        writer.write({"text": "a\ud800b\r\n\u2028\x85c"})
        writer.write({"text": "next"})
    assert [record["text"] for record in read_jsonl(path)] == ["a?b\r\n\u2028\x85c", "next"]


@pytest.mark.parametrize("line", ["{broken}", "[1]", "3"])
def test_a_broken_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"n":0}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 2"):
        list(read_jsonl(path))
    with pytest.raises(DataError, match="no file"):
        list(read_jsonl(tmp_path / "missing"))


def test_a_record_without_a_field_or_with_a_wrong_one_is_refused() -> None:
    record = episode_to_json(episode())
    with pytest.raises(DataError, match="'turn_ids'"):
        episode_from_json({name: value for name, value in record.items() if name != "turn_ids"})
    with pytest.raises(DataError, match="wrong form"):
        episode_from_json({**record, "reason": "bored"})
    with pytest.raises(DataError, match="wrong form"):
        episode_from_json({**record, "action_logprobs": [0.0]})


def test_what_has_no_plain_form_is_an_error_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="bytes"):
        plain({"x": b"raw"})
    path = tmp_path / "x.jsonl"
    with JsonLinesWriter(path) as writer:
        with pytest.raises(TypeError, match="object"):
            writer.write({"x": object()})
        writer.write({"x": 1})
    assert list(read_jsonl(path)) == [{"x": 1}]
