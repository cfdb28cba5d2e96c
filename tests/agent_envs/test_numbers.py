"""Numbers in every dress are read exactly, and nothing that is no single number passes for one."""

from __future__ import annotations

import json
import time
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.numbers import find_number, numeric_match, read_number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("72", 72),
        ("72.0", 72),
        ("72.", 72),
        (" 72 \n", 72),
        ("$72", 72),
        ("72 dollars", 72),
        ("72€", 72),
        ("+5", 5),
        ("-3", -3),
        ("−3", -3),
        ("–3", -3),
        ("-$5", -5),
        ("$-5", -5),
        ("minus 3", -3),
        ("1,000", 1000),
        ("1 000", 1000),
        ("1\u202f000", 1000),
        ("1'000", 1000),
        ("1_000", 1000),
        ("1,234,567.5", Fraction("1234567.5")),
        (".5", Fraction(1, 2)),
        ("0.1", Fraction(1, 10)),
        ("3/4", Fraction(3, 4)),
        ("-3/4", Fraction(-3, 4)),
        ("1 1/2", Fraction(3, 2)),
        ("½", Fraction(1, 2)),
        ("1½", Fraction(3, 2)),
        ("50%", 50),
        ("50 percent", 50),
        ("2e3", 2000),
        ("1.5E-3", Fraction(3, 2000)),
        ("2.5 million", 2_500_000),
        ("3 hundred", 300),
        ("$72k", 72_000),
        ("5 km", 5),
        ("７２", 72),
        ("٣٤", 34),
        (r"\frac{3}{4}", Fraction(3, 4)),
        (r"-\dfrac{1}{2}", Fraction(-1, 2)),
        (r"2\frac12", Fraction(5, 2)),
        (r"\$1{,}000", 1000),
        (r"72\text{ dollars}", 72),
        (r"90^\circ", 90),
        ("$72$", 72),
        ("x = 2", 2),
        ("12 cm", 12),
        ("3 months", 3),
        ("**72**", 72),
        ("*$72*", 72),
    ],
)
def test_a_number_is_read_exactly(text: str, value: int | Fraction) -> None:
    assert read_number(text) == value
    assert find_number(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", "-", "none", "seventy-two", "NaN", "inf", "Infinity", "1/0", "0/0", "$", "."),
        *("1,5", "1,00", "1,234,56", "1.2.3", "3:30", "3 or 4", "3, 4, 5", "10-72", "5 - 3"),
        *("2^10", "2*5", "2 × 5", "10!", "3²+1", "12_3", r"2 \cdot 5", r"\frac{\sqrt{2}}{2}"),
        *("72²", "7⁷", "√72", "√ 72", "±72", "⁻72", "-(72)", "- (72)", "72x2", "72π", "72 pi", "72 squared", "2**3**4"),
        *("1e999999", "1e401", "1e" + "9" * 500, "9" * 1001, "\ud800", "\x00"),
    ],
)
def test_what_is_no_number_is_not_read(text: str) -> None:
    assert read_number(text) is None
    assert find_number(text) is None


def test_words_around_the_one_number_are_forgiven_where_a_number_is_looked_for() -> None:
    assert find_number("The answer is 72.") == 72
    assert find_number("answer: -72") == -72
    assert find_number("total-72") == 72
    assert find_number("30 cm² of paper") == 30
    assert find_number(r"\boxed{72}") == 72
    assert find_number("72, that is 72.0") == 72
    assert find_number("72 or 73") is None
    assert find_number("not 72, but 73") is None


def test_a_formula_is_not_its_coefficient() -> None:
    for text in ("3x", "3 pi", r"3\pi", "3i", "3 sqrt", "The answer is 3", "3 or", "[3]", "3 halves", "3 tenths"):
        assert read_number(text) is None, text


@given(st.integers(-(10**12), 10**12))
def test_every_way_to_write_an_integer_is_that_integer(number: int) -> None:
    for text in (str(number), f"{number:,}", f"{number}.0", f"{number:,}.", f"${number}", f"{number} apples"):
        assert find_number(text) == number
        assert read_number(text) == number


@given(st.text(max_size=60))
def test_no_text_raises(text: str) -> None:
    assert isinstance(find_number(text), Fraction | None)
    assert isinstance(read_number(text), Fraction | None)
    assert numeric_match(text, "72") in (0.0, 1.0)


@given(st.text("0123456789.,-+eE/%$ _'\\{}fracboxed^½", max_size=1000))
def test_no_soup_of_digits_raises_or_takes_long(text: str) -> None:
    assert isinstance(find_number(text), Fraction | None)
    assert isinstance(read_number(text), Fraction | None)


@pytest.mark.parametrize(
    "text", ["1 " * 500, "5" + " " * 900 + "!", "1,111" * 200, "\\frac{" * 160, "1/" * 500, "5" + " aa" * 330 + "!"]
)
def test_a_text_made_to_be_slow_is_not(text: str) -> None:
    start = time.process_time()
    read_number(text), find_number(text)
    assert time.process_time() - start < 0.5


def test_the_match_is_exact_and_needs_a_number_on_both_sides() -> None:
    assert numeric_match("72.0", "72") == 1.0
    assert numeric_match("71.99999999999999999999", "72") == 0.0
    assert numeric_match("0.333333", "1/3") == 0.0
    assert numeric_match(None, "72") == 0.0
    assert numeric_match("none", "none") == 0.0


def perturbed(gold: str) -> list[str]:
    """Wrong answers near a right one: one more, ten times, the other sign, a digit less, the point shifted."""
    value = Fraction(gold.replace(",", ""))
    near = [value + 1, value - 1, value * 10, -value, value / 10]
    cut = [text for text in (gold[:-1], gold[1:]) if text.strip("-0.,") and len(text.replace(",", "")) > 0]
    wrong = [str(one) for one in near if one != value] + [
        text for text in cut if Fraction(text.replace(",", "")) != value
    ]
    return [*wrong, f"{gold} or {value + 1}", f"{gold}{gold}", "", f"{gold}^2"]


def test_gold_answers_of_gsm8k_are_right_and_perturbed_ones_wrong(real_samples: Path) -> None:
    golds = []
    for name in ("gsm8k_train.jsonl", "gsm8k_test.jsonl"):
        lines = (real_samples / name).read_text(encoding="utf-8").splitlines()
        golds += [json.loads(line)["answer"].rpartition("####")[2].strip() for line in lines]
    assert len(golds) == 800
    for gold in golds:
        value = int(gold.replace(",", ""))
        for right in (gold, f"{value}", f"{value}.00", f"${value:,}", f"{value} apples", f"\\boxed{{{value:,}}}"):
            assert numeric_match(right, gold) == 1.0, (right, gold)
        for wrong in perturbed(gold):
            assert numeric_match(wrong, gold) == 0.0, (wrong, gold)
