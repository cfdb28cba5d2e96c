"""Episodes as JSON Lines: one self-contained line per episode, on disk as soon as it is written, and readable back.

The JSON is strict: NaN and infinity become null, numpy's numbers become plain ones, nothing else is let through. Arrays
that run along the tokens are lists of the same length, but log-probabilities are given for action tokens only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np

from agent_envs.errors import DataError
from agent_envs.types import Episode, Event, EventKind, Float32Array, Segment, StopReason, ToolCall, ToolResult, Turn

Json = dict[str, Any]


def episode_to_json(episode: Episode) -> Json:
    """The whole episode as plain data; ``episode_from_json`` gives it back."""
    mask = episode.action_mask
    record = {
        "env_id": episode.env_id,
        "task_id": episode.task_id,
        "seed": episode.seed,
        "reason": None if episode.reason is None else str(episode.reason),
        "terminated": episode.terminated,
        "truncated": episode.truncated,
        "reward": episode.total_reward,
        "answer": episode.answer,
        "metrics": dict(episode.metrics),
        "turns": [_turn_to_json(turn) for turn in episode.turns],
        "events": [{"kind": str(event.kind), "turn": event.turn, "detail": event.detail} for event in episode.events],
        "segments": [[segment.start, segment.stop, segment.prompt_length] for segment in episode.segments],
        "tokens": episode.tokens.tolist(),
        "action_mask": mask.astype(int).tolist(),
        "turn_ids": episode.turn_ids.tolist(),
        "rewards": {str(index): _short(episode.rewards[index]) for index in np.flatnonzero(episode.rewards).tolist()},
        "action_logprobs": [_short(value) for value in episode.sampler_logprobs[mask]],
    }
    return {name: plain(value) for name, value in record.items()}


def episode_from_json(record: Mapping[str, Any]) -> Episode:
    """The episode of a line that ``episode_to_json`` made. Tuples inside the tools' plain data come back as lists.

    Raises:
        DataError: a field is missing or has the wrong form; the message names it.
    """
    try:
        tokens = np.array(record["tokens"], dtype=np.int32)
        mask = np.array(record["action_mask"], dtype=np.bool_)
        known = [math.nan if value is None else value for value in record["action_logprobs"]]
        if mask.shape != tokens.shape or len(known) != int(mask.sum()):
            raise ValueError(f"{len(tokens)} tokens, a mask of {len(mask)}, {len(known)} log-probabilities")
        logprobs = np.zeros(len(tokens), dtype=np.float32)
        logprobs[mask] = known
        return Episode(
            env_id=record["env_id"],
            task_id=record["task_id"],
            seed=record["seed"],
            tokens=tokens,
            action_mask=mask,
            turn_ids=np.array(record["turn_ids"], dtype=np.int32),
            rewards=_rewards(record["rewards"], len(tokens)),
            sampler_logprobs=logprobs,
            turns=tuple(_turn_from_json(turn) for turn in record["turns"]),
            segments=tuple(Segment(*segment) for segment in record["segments"]),
            events=tuple(Event(EventKind(e["kind"]), e["turn"], e["detail"]) for e in record["events"]),
            terminated=record["terminated"],
            truncated=record["truncated"],
            reason=None if record["reason"] is None else StopReason(record["reason"]),
            metrics=dict(record["metrics"]),
        )
    except KeyError as error:
        raise DataError(f"the record of an episode lacks the field {error}") from error
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise DataError(f"the record of an episode has a field of the wrong form: {error}") from error


def plain(value: Any) -> Any:
    """Data that strict JSON can write: numpy's numbers and arrays as Python's, NaN and infinity as None.

    Raises:
        TypeError: the value is of a type that has no plain form.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (Sequence, set, frozenset)) and not isinstance(value, (bytes, bytearray)):
        return [plain(item) for item in value]
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON: {value!r}")


class JsonLinesWriter:
    """Appends records to a file, each of them on disk before the next: what was written survives Ctrl-C and a crash."""

    def __init__(self, path: str | Path, append: bool = False) -> None:
        """Opens the file; its folder is made.

        Args:
            path: of the file.
            append: keep what is there (a last line that was cut short is removed first); otherwise begin anew.
        """
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if append and self.path.exists():
            _remove_cut_line(self.path)
        self._file: IO[str] = open(self.path, "a" if append else "w", encoding="utf-8")  # noqa: SIM115 - closed by close()

    def write(self, record: Mapping[str, Any]) -> None:
        """Writes one line.

        Raises:
            TypeError: the record holds something that has no plain form; nothing is written.
        """
        line = json.dumps(plain(record), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        # Readers that split at every kind of line break must not split here; JSON escapes the other kinds itself.
        for character in "\x85\u2028\u2029":
            line = line.replace(character, f"\\u{ord(character):04x}")
        # Unpaired surrogates can come from a policy's own bytes, and UTF-8 has no form for them.
        self._file.write(line.encode("utf-8", "replace").decode("utf-8") + "\n")
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __enter__(self) -> JsonLinesWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_jsonl(path: str | Path) -> Iterator[Json]:
    """The records of a JSON Lines file; a last line without a line break was cut short in writing and is left out.

    Raises:
        DataError: the file is missing, or a line is no JSON object; the message names the line.
    """
    if not Path(path).is_file():
        raise DataError(f"there is no file {str(path)!r}")
    with open(path, encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith("\n"):
                return
            try:
                record = json.loads(line)
            except json.JSONDecodeError as error:
                raise DataError(
                    f"{path}, line {number}: expected a JSON object, got {line[:60]!r} ({error})"
                ) from error
            if not isinstance(record, dict):
                raise DataError(f"{path}, line {number}: expected a JSON object, got {line[:60]!r}")
            yield record


def _remove_cut_line(path: Path) -> None:
    content = path.read_bytes()
    kept = content[: content.rfind(b"\n") + 1]
    if len(kept) < len(content):
        path.write_bytes(kept)


def _short(value: np.floating[Any]) -> float:
    """A float32 with as few digits as give it back, in place of the long decimals of its double."""
    return float(str(np.float32(value)))


def _rewards(sparse: Mapping[str, float], length: int) -> Float32Array:
    rewards = np.zeros(length, dtype=np.float32)
    for index, value in sparse.items():
        rewards[int(index)] = value
    return rewards


def _turn_to_json(turn: Turn) -> Json:
    return {
        "index": turn.index,
        "start": turn.start,
        "stop": turn.stop,
        "feedback_stop": turn.feedback_stop,
        "text": turn.text,
        "answer": turn.answer,
        "answer_well_formed": turn.answer_well_formed,
        "calls": [
            {"name": call.name, "arguments": dict(call.arguments), "error": call.error, "kind": str(call.kind)}
            for call in turn.calls
        ],
        "results": [
            {"content": result.content, "data": dict(result.data), "kind": str(result.kind)} for result in turn.results
        ],
        "reward": turn.reward,
    }


def _turn_from_json(record: Mapping[str, Any]) -> Turn:
    calls = (ToolCall(c["name"], c["arguments"], c["error"], EventKind(c["kind"])) for c in record["calls"])
    results = (ToolResult(r["content"], r["data"], EventKind(r["kind"])) for r in record["results"])
    return Turn(
        index=record["index"],
        start=record["start"],
        stop=record["stop"],
        feedback_stop=record["feedback_stop"],
        text=record["text"],
        answer=record["answer"],
        answer_well_formed=record["answer_well_formed"],
        calls=tuple(calls),
        results=tuple(results),
        reward=record["reward"],
    )
