"""The text of a reward: what it means, and how it is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_envs.errors import ConfigError
from agent_envs.rewards.expression import MAX_LENGTH, Factor, Term, parse_expression

A, B, C = Factor("a"), Factor("b"), Factor("c")


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("a", [Term(1.0, (A,))]),
        ("  a\n  + b ", [Term(1.0, (A,)), Term(1.0, (B,))]),
        ("2", [Term(2.0, ())]),
        ("-a", [Term(-1.0, (A,))]),
        ("+a - -0.5", [Term(1.0, (A,)), Term(0.5, ())]),
        ("a*b - 0.25*c", [Term(1.0, (A, B)), Term(-0.25, (C,))]),
        ("2*(a - 3)*b", [Term(2.0, (A, B)), Term(-6.0, (B,))]),
        ("(a + b)*(a - b)", [Term(1.0, (A, A)), Term(0.0, (A, B)), Term(-1.0, (B, B))]),
        ("a + b*a + a*b + a", [Term(2.0, (A,)), Term(2.0, (B, A))]),
        ("f(k=1, j=-2.5)", [Term(1.0, (Factor("f", (("j", -2.5), ("k", 1))),))]),
        ("f(by='m:g') + f(by='m:h')", [Term(1.0, (Factor("f", (("by", g),)),)) for g in ("m:g", "m:h")]),
        ("f()", [Term(1.0, (Factor("f"),))]),
    ],
)
def test_a_text_is_read_into_weights_and_products(text: str, terms: list[Term]) -> None:
    assert list(parse_expression(text)) == terms


def test_whole_numbers_stay_whole_in_parameters() -> None:
    (term,) = parse_expression("f(k=1, j=1.0)")
    assert [type(value) for _, value in term.factors[0].parameters] == [float, int]


def test_a_name_stands_for_its_expression() -> None:
    named = {"mean": "0.5*a + 0.5*b"}
    assert parse_expression("2*mean - a", named) == (Term(0.0, (A,)), Term(1.0, (B,)))


@pytest.mark.parametrize(
    ("text", "why", "pointer"),
    [
        ("a ** 2", "made of numbers, parts", "^^^^^^"),
        ("a / 2", "made of numbers, parts", "^^^^^"),
        ("a + b.c", "made of numbers, parts", "    ^^^"),
        ("a if b else c", "made of numbers, parts", "^" * 13),
        ("[a]", "made of numbers, parts", "^^^"),
        ("a < b", "made of numbers, parts", "^^^^^"),
        ("é + a ** 2", "made of numbers, parts", "    ^^^^^^"),
        ("a * True", "a finite number", "    ^^^^"),
        ("a + 'text'", "a finite number", "    ^^^^^^"),
        ("1e999*a", "a finite number", "^^^^^"),
        ("1j", "a finite number", "^^"),
        ("f(1)", "parameters are written with their names", "^^^^"),
        ("f(**a)", "parameters are written with their names", "^^^^^^"),
        ("f(k=a)", "a finite number", "    ^"),
        ("f(k=[1])", "a finite number", "    ^^^"),
        ("a.b(k=1)", "only a part's name", "^^^^^^^^"),
        ("f(k=1)(j=2)", "only a part's name", "^^^^^^^^^^^"),
        ("a +", "invalid syntax", ""),
        ("a b", "invalid syntax", ""),
        ("(a", "never closed", "^"),
        ("a = b", "invalid syntax", "  ^"),
        ("f(k=1, k=2)", "given twice", "^^^^^^^^^^^"),
        ("(lambda: 1)()", "only a part's name", "^"),
    ],
)
def test_what_is_no_reward_is_refused_at_its_place(text: str, why: str, pointer: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_expression(text)
    message, shown, marks = str(caught.value).split("\n")
    assert why in message
    assert shown == f"  {text}"
    assert marks.startswith(f"  {pointer}")


@pytest.mark.parametrize("text", ["", " \n ", "a+" * MAX_LENGTH, "(" * 500 + "a", "9" * 900, "a\0b"])
def test_texts_of_odd_sizes_are_refused_in_words(text: str) -> None:
    with pytest.raises(ConfigError, match="reward"):
        parse_expression(text)


def test_a_product_that_grows_without_end_is_refused_at_once() -> None:
    text = "*".join(["(a + b + c + d + e + f)"] * 30)
    with pytest.raises(ConfigError, match="more than 100 terms"):
        parse_expression(text)


@pytest.mark.parametrize("text", ["1e308*10*em", "(1e308 + 1e308)*em", "1e308*1e308*em - 1e308*1e308*em"])
def test_weights_that_overflow_are_refused_before_they_make_nan(text: str) -> None:
    with pytest.raises(ConfigError, match="no finite number"):
        parse_expression(text)


def test_what_is_not_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="a reward is text"):
        parse_expression(0.5)  # type: ignore[arg-type]


@given(st.text(alphabet="ab01.+-*()=,' \n\té[]:", max_size=60))
def test_no_text_raises_anything_but_a_config_error(text: str) -> None:
    try:
        terms = parse_expression(text)
    except ConfigError:
        return
    assert terms and all(isinstance(term, Term) for term in terms)


_LEAVES = st.sampled_from(["a", "b", "c", "0.5", "2", "3"])
_EXPRESSIONS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda parts: f"({parts[0]}{parts[1]}{parts[2]})"),
        inner.map(lambda text: f"-{text}"),
    ),
    max_leaves=8,
)


@given(_EXPRESSIONS, st.tuples(*[st.integers(-3, 3)] * 3))
def test_multiplying_out_keeps_the_value(text: str, values: tuple[int, int, int]) -> None:
    env = dict(zip("abc", values, strict=True))
    total = 0.0
    for term in parse_expression(text):
        product = term.weight
        for factor in term.factors:
            product *= env[factor.name]
        total += product
    assert total == pytest.approx(eval(text, {}, env), abs=1e-9)
