from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from agent_envs.errors import DataError
from agent_envs.tokenizers import ByteTokenizer
from agent_envs.types import Episode, Event, EventKind, Segment, StopReason
from agent_trainer.records import JsonLinesWriter, episode_to_json
from agent_trainer.report import EpisodePair, before_after_page, read_pairs
from agent_trainer.report.episode_page import Origin, Outcome, choose_pairs, inert, token_runs
from tests.agent_trainer.episodes import episode

TOKENIZER = ByteTokenizer()
HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>&lt;b&gt;<|im_end|>\x1b[31m\u202egnp"


def written(prompt: str, policy: str, feedback: str, final: str, right: bool = True) -> Episode:
    """An episode of two turns over the byte tokenizer."""
    parts = [TOKENIZER.encode_plain(text) for text in (prompt, policy, feedback, final)]
    layout = "".join(letter * len(ids) for letter, ids in zip("Paea", parts, strict=True))
    rewards = {len(layout) - 1: 1.0} if right else {}
    return episode(layout, rewards, tokens=[token for ids in parts for token in ids])


def pair(before_right: bool, after_right: bool, question: str = "Who?") -> EpisodePair:
    return EpisodePair(
        question,
        "Ada",
        written("ask", "look", "see", "Bob", before_right),
        written("ask", "look", "see", "Ada", after_right),
    )


def page_of(pairs: list[EpisodePair], folder: Path, max_shown: int = 16) -> str:
    before_after_page(pairs, folder / "page.html", TOKENIZER, max_shown=max_shown)
    return (folder / "page.html").read_text(encoding="utf-8")


class Watcher(HTMLParser):
    """Collects tags, attributes and the text of each kind of block, and checks that tags close in order."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "pre":
            self.texts.append(data)


def test_runs_cover_the_episode_and_tell_who_wrote_them() -> None:
    runs = list(token_runs(episode("PPPaaaeeaea")))
    assert [(run.origin, run.turn, run.start, run.stop) for run in runs] == [
        (Origin.PROMPT, -1, 0, 3),
        (Origin.POLICY, 0, 3, 6),
        (Origin.ENVIRONMENT, 0, 6, 8),
        (Origin.POLICY, 1, 8, 9),
        (Origin.ENVIRONMENT, 1, 9, 10),
        (Origin.POLICY, 2, 10, 11),
    ]


def test_the_prompt_of_a_later_segment_is_a_prompt_too() -> None:
    played = episode("PPaaeeaa", segments=[Segment(0, 4, 2), Segment(4, 8, 2)])
    assert [run.origin for run in token_runs(played)] == [Origin.PROMPT, Origin.POLICY, Origin.PROMPT, Origin.POLICY]


def test_hostile_text_is_shown_and_does_nothing(tmp_path: Path) -> None:
    played = written(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    hostile = EpisodePair(HOSTILE, HOSTILE, dataclasses.replace(played, task_id=HOSTILE), played)
    html = page_of([hostile], tmp_path)
    seen = Watcher(html)
    assert {"script", "img"}.isdisjoint(seen.tags)
    assert not any(name.startswith("on") or name in ("src", "style") for name in seen.attributes)
    assert len(seen.texts) == 8
    assert set(seen.texts) == {HOSTILE.replace("\x1b", "\\x1b").replace("\u202e", "\\u202e")}
    assert "\x1b" not in html and "\u202e" not in html


def test_the_page_needs_nothing_from_anywhere(tmp_path: Path) -> None:
    html = page_of([pair(False, True)], tmp_path)
    assert not re.search(r"https?://|url\(|@import|src=", html)
    assert "default-src 'none'" in html


def test_both_episodes_show_their_turns_and_results(tmp_path: Path) -> None:
    changed = pair(False, True)
    event = Event(EventKind.MALFORMED_CALL, 0, "no such thing")
    before = dataclasses.replace(changed.before, events=(event,), truncated=True, reason=StopReason.MAX_TURNS)
    html = page_of([dataclasses.replace(changed, before=before)], tmp_path)
    for expected in (
        "no match",
        "exact match",
        "ended: max turns",
        "ended: answered",
        "malformed call",
        "reward +1.00",
    ):
        assert expected in html
    assert Watcher(html).texts == ["ask", "look", "see", "Bob", "ask", "look", "see", "Ada"]


def test_every_outcome_is_counted_and_shown_in_turn(tmp_path: Path) -> None:
    pairs = [pair(False, True)] * 6 + [pair(True, False)] + [pair(False, False)] * 2 + [pair(True, True)] * 3
    shown = [p.outcome for p in choose_pairs(pairs, 6)]
    assert shown == [Outcome.LEARNED] * 2 + [Outcome.LOST] + [Outcome.STILL_WRONG] * 2 + [Outcome.STILL_RIGHT]
    assert len(choose_pairs(pairs, 100)) == 12
    assert choose_pairs(pairs, 0) == []
    html = page_of(pairs, tmp_path, max_shown=6)
    assert "<b>6</b> wrong before, right after <small>(50 %)</small>" in html
    assert html.count("<article") == 6


def test_pairs_are_read_from_two_evaluations_without_those_that_broke(tmp_path: Path) -> None:
    def line(task_id: str, error: str | None = None) -> dict[str, object]:
        head = {"task_id": task_id, "question": f"{task_id}?", "gold": "Ada", "error": error}
        return {**head, **episode_to_json(episode("Paea", task_id=task_id))} if error is None else head

    for name, lines in (("a", [line("y"), line("x"), line("z", "broke")]), ("b", [line("z"), line("y"), line("x")])):
        with JsonLinesWriter(tmp_path / f"{name}.jsonl") as writer:
            for record in lines:
                writer.write(record)
    pairs = read_pairs(tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    assert [(p.question, p.gold, p.before.task_id, p.after.task_id) for p in pairs] == [
        ("x?", "Ada", "x", "x"),
        ("y?", "Ada", "y", "y"),
    ]
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(DataError, match="no question in common"):
        read_pairs(tmp_path / "a.jsonl", tmp_path / "empty.jsonl")


def test_lone_surrogates_do_not_stop_the_page() -> None:
    assert inert("a\ud800b") == "a?b"
