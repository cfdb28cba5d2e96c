"""How good an answer is: exact match and F1 as HotpotQA scores them, recall of the gold paragraphs.

Answers are compared after SQuAD's normalisation: lower case, no ASCII punctuation, no English articles, single spaces.
Every score lies in [0, 1]; a missing prediction scores 0.

Deviations from the official scripts, the first two of which touch no answer of the published HotpotQA:
1. Texts are brought to Unicode's composed form (NFC) first, so that two spellings of one "é" are equal.
2. Where normalisation leaves nothing of a text ("!!!", "The"), its lower-case words stand in for it. The official
   script takes every such text for every other one in EM, and for none, not even itself, in F1.
3. The rule of HotpotQA and 2WikiMultihopQA for yes, no and noanswer (F1 asks for equality) holds for MuSiQue too,
   whose script counts their words like any others.

Source: Rajpurkar et al. 2016 (normalisation, EM, F1); Yang et al. 2018 (yes, no and noanswer); Ho et al. 2020 and
Trivedi et al. 2022 (the best of an answer and its aliases).
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_CLOSED_ANSWERS = frozenset({"yes", "no", "noanswer"})


def normalize_answer(text: str) -> str:
    """The form in which answers are compared; empty only for a text without words."""
    lower = unicodedata.normalize("NFC", text).lower()
    plain = " ".join(_ARTICLES.sub(" ", lower.translate(_PUNCTUATION)).split())
    return plain or " ".join(lower.split())


def exact_match(prediction: str | None, answers: Sequence[str]) -> float:
    """1.0 where the prediction equals one of the accepted answers after normalisation, else 0.0.

    A gold answer inside a longer prediction is no match: "no" is not found in "I don't know".

    Raises:
        ValueError: there is no accepted answer.
        TypeError: ``answers`` is one string instead of a sequence of them.
    """
    return _best(_equal, prediction, answers)


def f1(prediction: str | None, answers: Sequence[str]) -> float:
    """The highest F1 of the words of the prediction and of one accepted answer, in [0, 1].

    With ``n`` words in common (counted with repetition), precision ``n / len(prediction)`` and recall
    ``n / len(answer)``: F1 = 2 * precision * recall / (precision + recall). Where either text is yes, no or noanswer,
    only equality scores.

    Raises:
        ValueError: there is no accepted answer.
        TypeError: ``answers`` is one string instead of a sequence of them.
    """
    return _best(_word_f1, prediction, answers)


def support_recall(found: Iterable[T], gold: Collection[T]) -> float:
    """The share of the gold paragraphs (titles, or whole passages) among those found, in [0, 1].

    Each gold paragraph counts once, however often it was found. Without gold there was nothing to miss: 1.0.
    """
    wanted = set(gold)
    return len(wanted & set(found)) / len(wanted) if wanted else 1.0


def _best(score: Callable[[str, str], float], prediction: str | None, answers: Sequence[str]) -> float:
    if isinstance(answers, str):
        raise TypeError(
            f"expected a sequence of accepted answers, got the single string {answers!r}; write [{answers!r}]"
        )
    if not answers:
        raise ValueError("expected at least one accepted answer, got none")
    if prediction is None:
        return 0.0
    predicted = normalize_answer(prediction)
    return max(score(predicted, normalize_answer(answer)) for answer in answers)


def _equal(prediction: str, answer: str) -> float:
    return float(prediction == answer and prediction != "")


def _word_f1(prediction: str, answer: str) -> float:
    if prediction != answer and (prediction in _CLOSED_ANSWERS or answer in _CLOSED_ANSWERS):
        return 0.0
    words, answer_words = prediction.split(), answer.split()
    common = (Counter(words) & Counter(answer_words)).total()
    if common == 0:
        return 0.0
    precision, recall = common / len(words), common / len(answer_words)
    return 2 * precision * recall / (precision + recall)
