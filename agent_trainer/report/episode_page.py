"""Episodes before and after training side by side, as one HTML file that needs nothing else.

Whatever documents and policies wrote is shown and never run: every text is escaped, control characters and marks that
turn the direction of writing are spelled out, and the page's own policy forbids scripts, forms and the network.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from html import escape
from importlib.resources import files
from pathlib import Path

import numpy as np

from agent_envs.errors import DataError
from agent_envs.render import printable
from agent_envs.tokenizers import Tokenizer
from agent_envs.types import Episode, EventKind
from agent_trainer.records import episode_from_json, read_jsonl

_DIRECTION_MARKS = re.compile("[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


class Origin(StrEnum):
    """Who wrote a run of tokens."""

    PROMPT = "prompt"
    POLICY = "policy"
    ENVIRONMENT = "environment"


class Outcome(StrEnum):
    """What training did to one question. The order is that of the page."""

    LEARNED = "wrong before, right after"
    LOST = "right before, wrong after"
    STILL_WRONG = "wrong both times"
    STILL_RIGHT = "right both times"


@dataclass(frozen=True, slots=True)
class EpisodePair:
    """One question, played by the policy before training and by the policy after it.

    Attributes:
        question: as it was asked.
        gold: the right answer.
        before: the episode before training.
        after: the episode after it.
    """

    question: str
    gold: str
    before: Episode
    after: Episode

    @property
    def outcome(self) -> Outcome:
        """Compares the exact matches of the two."""
        right = _is_right(self.before), _is_right(self.after)
        return {
            (False, True): Outcome.LEARNED,
            (True, False): Outcome.LOST,
            (False, False): Outcome.STILL_WRONG,
            (True, True): Outcome.STILL_RIGHT,
        }[right]


@dataclass(frozen=True, slots=True)
class Run:
    """Tokens ``[start:stop]`` of an episode that one origin wrote within one turn (-1 for the prompt)."""

    origin: Origin
    turn: int
    start: int
    stop: int


def read_pairs(before: Path, after: Path) -> list[EpisodePair]:
    """The questions that two evaluations have in common, from their JSON Lines files, sorted by the task's id.

    The lines lie in the order in which episodes ended, which differs from run to run. Those of episodes that broke have
    no record and are left out.

    Raises:
        DataError: a file is missing or malformed, or the two have no question in common.
    """
    later = {line["task_id"]: line for line in read_jsonl(after) if line.get("error") is None}
    pairs = [
        EpisodePair(
            str(line.get("question", "")),
            str(line.get("gold") or ""),
            episode_from_json(line),
            episode_from_json(later[line["task_id"]]),
        )
        for line in read_jsonl(before)
        if line.get("error") is None and line["task_id"] in later
    ]
    if not pairs:
        raise DataError(f"{before} and {after} have no question in common, so there is nothing to compare")
    return sorted(pairs, key=lambda pair: pair.before.task_id)


def before_after_page(
    pairs: Sequence[EpisodePair],
    path: Path,
    tokenizer: Tokenizer,
    title: str = "Before and after training",
    max_shown: int = 16,
) -> None:
    """Writes the page; its folder is made.

    Args:
        pairs: all of them are counted by what training did to the question.
        path: of the HTML file.
        tokenizer: that the episodes were played with.
        title: of the page.
        max_shown: questions to show, shared between the outcomes in turn, so that failures are seen too.
    """
    chosen = choose_pairs(pairs, max_shown)
    counts = [(outcome, sum(pair.outcome is outcome for pair in pairs)) for outcome in Outcome]
    body = [
        f"<header><h1>{escape(title)}</h1>",
        f"<p>{len(pairs)} questions that training never saw, each played by the policy before training and by the "
        f"policy after it, both times with the most likely token at every step. {len(chosen)} of them are below.</p>",
        _counts(counts, len(pairs)),
        _LEGEND,
        _index(chosen),
        "</header><main>",
        *(_question(number, pair, tokenizer) for number, pair in enumerate(chosen, start=1)),
        "</main>",
    ]
    style = (files(__package__) / "episode_page.css").read_text(encoding="utf-8")
    page = _PAGE.format(title=escape(title), style=style, body="\n".join(body))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8", errors="replace")


def choose_pairs(pairs: Sequence[EpisodePair], max_shown: int) -> list[EpisodePair]:
    """At most so many pairs, one of each outcome in turn as long as there are any, sorted by outcome."""
    queues = {outcome: [pair for pair in pairs if pair.outcome is outcome] for outcome in Outcome}
    taken = {outcome: 0 for outcome in Outcome}
    left = min(max_shown, len(pairs))
    while left:
        for outcome in Outcome:
            if left and taken[outcome] < len(queues[outcome]):
                taken[outcome] += 1
                left -= 1
    return [pair for outcome in Outcome for pair in queues[outcome][: taken[outcome]]]


def token_runs(episode: Episode) -> Iterator[Run]:
    """The episode's tokens cut where the origin or the turn changes; together they are all of its tokens."""
    length = len(episode.tokens)
    origins = np.full(length, 2, dtype=np.int8)
    for segment in episode.segments:
        origins[segment.start : segment.start + segment.prompt_length] = 0
    origins[episode.action_mask] = 1
    changes = (np.diff(origins) != 0) | (np.diff(episode.turn_ids) != 0)
    cuts = [0, *(np.flatnonzero(changes) + 1).tolist(), length]
    for start, stop in itertools.pairwise(cuts):
        yield Run(tuple(Origin)[origins[start]], int(episode.turn_ids[start]), start, stop)


def inert(text: str) -> str:
    """The text as HTML that shows it letter by letter and does nothing."""
    spelled = _DIRECTION_MARKS.sub(lambda match: f"\\u{ord(match[0]):04x}", printable(text))
    return escape(spelled.encode("utf-8", "replace").decode("utf-8"))


def _is_right(episode: Episode) -> bool:
    return episode.metrics.get("em", 0.0) == 1.0


def _counts(counts: Sequence[tuple[Outcome, int]], total: int) -> str:
    cells = "".join(
        f'<li class="{outcome.name.lower()}"><b>{count}</b> {outcome} '
        f"<small>({100 * count / max(1, total):.0f} %)</small></li>"
        for outcome, count in counts
    )
    return f'<ul class="counts">{cells}</ul>'


def _index(chosen: Sequence[EpisodePair]) -> str:
    items = "".join(
        f'<li>{_mark(pair.before)}<span class="arrow">&rarr;</span>{_mark(pair.after)} '
        f'<a href="#q{number}">{inert(pair.question)}</a></li>'
        for number, pair in enumerate(chosen, start=1)
    )
    summary = "<summary>The questions below</summary>"
    return f'<nav aria-label="Questions"><details open>{summary}<ol>{items}</ol></details></nav>'


def _mark(episode: Episode) -> str:
    return '<b class="yes">right</b>' if _is_right(episode) else '<b class="no">wrong</b>'


def _question(number: int, pair: EpisodePair, tokenizer: Tokenizer) -> str:
    return (
        f'<article id="q{number}"><h2><span class="number">{number}</span> {inert(pair.question)}</h2>'
        f'<p class="gold">Right answer: <b>{inert(pair.gold)}</b> <small>{pair.outcome} &middot; task '
        f"{inert(pair.before.task_id)}</small></p>"
        f'<div class="pair">{_side("Before training", number, pair.before, tokenizer)}'
        f"{_side('After training', number, pair.after, tokenizer)}</div></article>"
    )


def _side(heading: str, number: int, episode: Episode, tokenizer: Tokenizer) -> str:
    blocks = "".join(_block(run, episode, tokenizer) for run in token_runs(episode))
    answer = "no answer" if episode.answer is None else f"answered <b>{inert(episode.answer)}</b>"
    return (
        f"<section><h3>{heading}: {answer}</h3>{_badges(episode)}"
        f'<div class="tokens" tabindex="0" role="region" aria-label="{heading}, question {number}">{blocks}</div>'
        "</section>"
    )


def _badges(episode: Episode) -> str:
    metrics = episode.metrics
    right = _is_right(episode)
    badges = [("yes" if right else "no", "exact match" if right else "no match")]
    if "f1" in metrics:
        badges.append(("", f"F1 {metrics['f1']:.2f}"))
    badges += [
        ("", f"reward {episode.total_reward:+.2f}"),
        ("no" if episode.truncated else "", f"ended: {episode.reason or 'still running'}".replace("_", " ")),
        ("", _plural(len(episode.turns), "turn")),
        ("", _plural(sum(len(turn.calls) for turn in episode.turns), "call")),
        ("", f"{_plural(int(episode.action_mask.sum()), 'token')} written"),
    ]
    return '<ul class="badges">' + "".join(f'<li class="{kind}">{inert(text)}</li>' for kind, text in badges) + "</ul>"


def _block(run: Run, episode: Episode, tokenizer: Tokenizer) -> str:
    """A run of tokens under a line that says who wrote it."""
    text = inert(tokenizer.decode(episode.tokens[run.start : run.stop].tolist()).strip("\n"))
    size = _plural(run.stop - run.start, "token")
    if run.origin is Origin.PROMPT:
        return f'<details class="prompt"><summary>prompt <small>{size}</small></summary><pre>{text}</pre></details>'
    who = f"policy, turn {run.turn + 1}" if run.origin is Origin.POLICY else "environment"
    notes = _notes(run, episode) if run.origin is Origin.POLICY else ""
    return f'<div class="{run.origin}"><p>{who} <small>{size}</small>{notes}</p><pre>{text}</pre></div>'


def _notes(run: Run, episode: Episode) -> str:
    """What the environment noticed in a turn, and what it gave for it."""
    quiet = (EventKind.CALL, EventKind.ANSWER, EventKind.ASKED_FOR_ANSWER)
    noticed = [str(e.kind).replace("_", " ") for e in episode.events if e.turn == run.turn and e.kind not in quiet]
    reward = float(episode.rewards[run.start : run.stop].sum())
    words = [*noticed, f"reward {reward:+.2f}"] if reward else noticed
    return "".join(f' <em class="note">{inert(word)}</em>' for word in words)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


_LEGEND = """<ul class="legend" aria-label="Who wrote what">
<li class="prompt">prompt: the instructions, the tools and the question (folded; open it with a click or Enter)</li>
<li class="policy">policy: the tokens that the model wrote, and the only ones that it is trained on</li>
<li class="environment">environment: search results and the chat template's own tokens</li>
</ul>"""

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{style}</style></head>
<body>
{body}
</body></html>
"""
