"""Judges for the tests, good and bad; ``asked`` holds what the counting ones were asked."""

from __future__ import annotations

import asyncio
import time

asked: list[tuple[str, str, tuple[str, ...]]] = []


def contains(question: str, answer: str, accepted: tuple[str, ...]) -> float:
    asked.append((question, answer, accepted))
    return 0.75 if any(gold in answer for gold in accepted) else 0.0


async def contains_async(question: str, answer: str, accepted: tuple[str, ...]) -> bool:
    await asyncio.sleep(0)
    return any(gold in answer for gold in accepted)


def stumbles(question: str, answer: str, accepted: tuple[str, ...]) -> float:
    asked.append((question, answer, accepted))
    if len(asked) < 3:
        raise ConnectionError("busy")
    return 1.0


def down(question: str, answer: str, accepted: tuple[str, ...]) -> float:
    raise ConnectionError("the judge is down")


def hangs(question: str, answer: str, accepted: tuple[str, ...]) -> float:
    time.sleep(5)
    return 1.0


def gives_two(question: str, answer: str, accepted: tuple[str, ...]) -> float:
    return 2.0


def gives_nan(question: str, answer: str, accepted: tuple[str, ...]) -> float:
    return float("nan")


def gives_text(question: str, answer: str, accepted: tuple[str, ...]) -> str:
    return "0.5"
