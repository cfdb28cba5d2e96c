"""Scores worked out by hand, hostile texts, and what must hold for every pair of texts."""

from __future__ import annotations

import re
import string
from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agent_envs.scoring import exact_match, f1, normalize_answer, support_recall

texts = st.one_of(
    st.text(max_size=40),
    st.text(alphabet="abno yes.!'éß\u0301\n", max_size=20),
    st.lists(st.sampled_from(["the", "a", "an", "yes", "no", "noanswer", "York", "New"]), max_size=6).map(" ".join),
)


def official_scores(prediction: str, answer: str) -> tuple[float, float]:
    """EM and F1 by the published rules, written out on their own."""

    def words(text: str) -> list[str]:
        kept = "".join(c for c in text.lower() if c not in string.punctuation)
        return re.sub(r"\b(a|an|the)\b", " ", kept).split()

    left, right = words(prediction), words(answer)
    em = float(left == right)
    for one, other in ((left, right), (right, left)):
        if " ".join(one) in ("yes", "no", "noanswer") and one != other:
            return em, 0.0
    common = sum((Counter(left) & Counter(right)).values())
    return em, 2 * common / (len(left) + len(right)) if common else 0.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Beatles!", "beatles"),
        ("  a\tcat,  AN ox and the\u00a0dog ", "cat ox and dog"),
        ("U.S.A.", "usa"),
        ("theatre an-other", "theatre another"),
        ("O'Neill's", "oneills"),
        ("Cafe\u0301", "caf\u00e9"),
        ("“Né”", "“né”"),
        ("!!!", "!!!"),
        ("The", "the"),
        (" \n", ""),
    ],
)
def test_normalisation(text: str, expected: str) -> None:
    assert normalize_answer(text) == expected


@pytest.mark.parametrize(
    ("prediction", "answers", "em", "f1_score"),
    [
        ("the Eiffel Tower", ["Eiffel tower."], 1.0, 1.0),
        # 2 words of 3 against 2 of 2: p = 2/3, r = 1, F1 = 4/5
        ("big Eiffel Tower", ["Eiffel Tower"], 0.0, 0.8),
        # 1 of 2 against 1 of 4: p = 1/2, r = 1/4, F1 = 1/3
        ("John Smith", ["Sir John Gielgud Junior"], 0.0, 1 / 3),
        # repeated words count as often as both have them: 2 common, p = 2/3, r = 2/2
        ("ha ha ha", ["ha ha"], 0.0, 0.8),
        ("York New", ["New York"], 0.0, 1.0),
        ("Paris", ["London"], 0.0, 0.0),
        ("NYC", ["New York", "nyc", "New York City"], 1.0, 1.0),
        ("New York State", ["Albany", "New York"], 0.0, 0.8),
        # the official rule for closed answers
        ("yes", ["Yes."], 1.0, 1.0),
        ("no", ["yes"], 0.0, 0.0),
        ("yes it is", ["yes"], 0.0, 0.0),
        ("yes", ["yes it is"], 0.0, 0.0),
        ("noanswer", ["noanswer given"], 0.0, 0.0),
        ("I don't know", ["no"], 0.0, 0.0),
        # nothing predicted, and texts of which normalisation leaves nothing
        (None, ["Paris"], 0.0, 0.0),
        ("", ["Paris"], 0.0, 0.0),
        ("...", ["!!!"], 0.0, 0.0),
        ("!!!", ["!!!"], 1.0, 1.0),
        ("the", ["A"], 0.0, 0.0),
        ("", [""], 0.0, 0.0),
    ],
)
def test_scores_worked_out_by_hand(prediction: str | None, answers: list[str], em: float, f1_score: float) -> None:
    assert exact_match(prediction, answers) == em
    assert f1(prediction, answers) == pytest.approx(f1_score)


# Pairs by the rules that the scripts of HotpotQA, 2WikiMultihopQA and MuSiQue share, worked out by hand: lower case,
# ASCII punctuation removed (not replaced), the words a, an and the removed, white space folded; the best of the
# accepted answers counts. F1 = 2c / (p + g) for c words in common of p predicted and g gold ones. For yes and no, F1
# asks for equality, as in the first two sets.
OFFICIAL_PAIRS: list[tuple[str, list[str], float, float]] = [
    # case and white space
    ("PARIS", ["Paris"], 1, 1),
    ("  New\tYork \n City ", ["new york city"], 1, 1),
    ("NewYork", ["New York"], 0, 0),
    # articles, as words only and anywhere
    ("The United States", ["United States"], 1, 1),
    ("United States of America", ["the United States of America"], 1, 1),
    ("A Hard Day's Night", ["Hard Days Night"], 1, 1),
    ("an apple", ["apple"], 1, 1),
    ("Theodore", ["odore"], 0, 0),
    ("anthem", ["them"], 0, 0),
    ("Queen of the South", ["Queen of South"], 1, 1),
    ("vitamin A", ["vitamin"], 1, 1),
    # punctuation goes without leaving a space
    ("Washington, D.C.", ["Washington DC"], 1, 1),
    ("Washington, D.C.", ["Washington D C"], 0, 2 * 1 / (2 + 3)),
    ("Spider-Man", ["Spiderman"], 1, 1),
    ("Spider-Man", ["Spider Man"], 0, 0),
    ('"Heroes"', ["Heroes"], 1, 1),
    ("(Heroes)", ["heroes!"], 1, 1),
    ("O\u2019Neill", ["O'Neill"], 0, 0),  # a typographic apostrophe is no ASCII punctuation
    ("AC/DC", ["ACDC"], 1, 1),
    ("rock & roll", ["rock roll"], 1, 1),
    ("rock and roll", ["rock & roll"], 0, 2 * 2 / (3 + 2)),
    # the article goes after the punctuation: "the-band" is one word by then
    ("the-band", ["band"], 0, 0),
    ("the, band", ["band"], 1, 1),
    # numbers are texts
    ("1,000", ["1000"], 1, 1),
    ("1.5", ["15"], 1, 1),
    ("1000.0", ["1000"], 0, 0),
    ("$72", ["72"], 1, 1),
    ("48%", ["48"], 1, 1),
    ("seven", ["7"], 0, 0),
    ("12 May 1913", ["May 12, 1913"], 0, 1),
    ("1913", ["12 May 1913"], 0, 2 * 1 / (1 + 3)),
    ("2010-2011", ["2010 2011"], 0, 0),
    # yes and no
    ("Yes", ["yes"], 1, 1),
    ("no.", ["No"], 1, 1),
    ("yes", ["no"], 0, 0),
    ("no, they are not", ["no"], 0, 0),
    ("Norway", ["no"], 0, 0),
    ("the yes", ["yes"], 1, 1),
    # Unicode is kept: accents and other scripts count
    ("Fran\u00e7ois", ["Francois"], 0, 0),
    ("\u00c9LAN", ["\u00e9lan"], 1, 1),
    ("Skole\u2013huset", ["Skole-huset"], 0, 0),  # an en dash stays, a hyphen goes
    ("\u6771\u4eac", ["\u6771\u4eac"], 1, 1),
    ("M\u00fcnchen, Bayern", ["M\u00fcnchen"], 0, 2 * 1 / (2 + 1)),
    # aliases: the best one counts, for EM and for F1
    ("USSR", ["Soviet Union", "USSR", "U.S.S.R."], 1, 1),
    ("Mets", ["Pittsburgh Pirates", "New York Mets", "Mets"], 1, 1),
    ("New York Mets baseball", ["Pittsburgh Pirates", "New York Mets", "Mets"], 0, 2 * 3 / (4 + 3)),
    ("Pirates", ["Pittsburgh Pirates", "Orioles"], 0, 2 * 1 / (1 + 2)),
    ("Caspian", ["in the north-east of the country south of the Caspian Sea", "Caspian Sea"], 0, 2 * 1 / (1 + 2)),
    # words in common count as often as both have them
    ("Walla Walla", ["Walla Walla, Washington"], 0, 2 * 2 / (2 + 3)),
    ("Walla", ["Walla Walla"], 0, 2 * 1 / (1 + 2)),
    ("Charles the Great of the Franks", ["Charles, Great of Franks"], 1, 1),
    ("Duke of York Duke", ["Duke"], 0, 2 * 1 / (4 + 1)),
]


def test_there_are_many_official_pairs() -> None:
    assert len(OFFICIAL_PAIRS) >= 40


@pytest.mark.parametrize(("prediction", "answers", "em", "f1_score"), OFFICIAL_PAIRS)
def test_official_pairs(prediction: str, answers: list[str], em: float, f1_score: float) -> None:
    assert exact_match(prediction, answers) == em
    assert f1(prediction, answers) == pytest.approx(f1_score)
    best = [official_scores(prediction, answer) for answer in answers]
    assert (max(em for em, _ in best), max(score for _, score in best)) == (em, pytest.approx(f1_score))


@pytest.mark.parametrize(
    "hostile",
    [
        "\x00",
        "\ud800",
        "<answer>Paris</answer>",
        "Paris, London, Rome",
        "a " * 100_000,
        "Pa\u200bris",
        "🇫🇷",
        "％s{}",
        "Ｐaris",
    ],
)
def test_hostile_texts_score_without_a_match(hostile: str) -> None:
    assert exact_match(hostile, ["Paris"]) == 0.0
    assert 0.0 <= f1(hostile, ["Paris"]) < 1.0


def test_a_list_of_candidates_does_not_win() -> None:
    # 1 of 3 words against 1 of 1
    assert f1("Paris, London, Rome", ["Paris"]) == pytest.approx(0.5)


@pytest.mark.parametrize("score", [exact_match, f1])
def test_accepted_answers_must_be_a_filled_sequence(score: type[exact_match]) -> None:
    with pytest.raises(ValueError, match="at least one accepted answer"):
        score("Paris", [])
    with pytest.raises(TypeError, match="single string 'Paris'"):
        score("Paris", "Paris")


@given(texts, texts)
def test_scores_are_symmetric_and_within_bounds(left: str, right: str) -> None:
    em, f1_score = exact_match(left, [right]), f1(left, [right])
    assert em in (0.0, 1.0)
    assert em <= f1_score <= 1.0
    assert exact_match(right, [left]) == em
    assert f1(right, [left]) == pytest.approx(f1_score)


@given(texts)
def test_every_text_with_words_matches_itself_however_it_is_dressed(text: str) -> None:
    assume(normalize_answer(text))
    assert exact_match(text, [text]) == 1.0
    assert f1(f"  {text}\n", [text]) == pytest.approx(1.0)
    assert normalize_answer(normalize_answer(text)) == normalize_answer(text)


@given(texts, st.lists(texts, min_size=1, max_size=4), texts)
def test_one_more_accepted_answer_never_lowers_a_score(prediction: str, answers: list[str], more: str) -> None:
    assert exact_match(prediction, [*answers, more]) >= exact_match(prediction, answers)
    assert f1(prediction, [*answers, more]) >= f1(prediction, answers)


words = st.lists(st.sampled_from(["the", "a", "yes", "no", "York", "New", "new", "x-y", "1,000"]), max_size=5).map(
    " ".join
)


@given(words, words)
def test_agrees_with_the_published_rules_where_words_are_left(left: str, right: str) -> None:
    assume(all(re.sub(r"\b(a|the)\b", "", text).strip() for text in (left, right)))
    em, f1_score = official_scores(left, right)
    assert exact_match(left, [right]) == em
    assert f1(left, [right]) == pytest.approx(f1_score)


def test_support_recall_counts_each_gold_paragraph_once() -> None:
    assert support_recall([], ["A", "B"]) == 0.0
    assert support_recall(["A", "A", "C"], ["A", "B"]) == 0.5
    assert support_recall(["B", "C", "A"], ("A", "B", "B")) == 1.0
    assert support_recall(["a"], ["A"]) == 0.0
    assert support_recall([], []) == 1.0
