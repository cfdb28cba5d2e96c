"""Numbers as people and models write them, read exactly: "1,000", "$72.", "−3", "3/4", "５０", "50 %".

Every value is a fraction, so that 0.1 is a tenth and nothing is rounded. The rules:

* Currency signs, units and a percent sign are no part of the value: "$72" and "72 dollars" are 72, "50%" is 50.
* Digits of all scripts count; so do the Unicode minus signs, and commas, spaces, apostrophes or underscores between
  groups of three digits. A comma anywhere else separates two numbers: "1,5" is no number.
* "a/b", LaTeX's fractions, "1 1/2", "1/2" as one character and "2e3" are numbers; "2^3", "2³", "√9", "-(3)", "±3",
  "2*3" and "10!" are sums yet to be done, and no numbers. "**72**", as Markdown prints in bold, is 72.
* "minus 3" is -3, and "2.5 million" is 2500000, "72k" 72000; numbers spelt out in letters are not read.
* NaN, infinity, a division by zero, an exponent beyond 400 and a text of more than 1,000 characters are no numbers.
"""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction

MAX_CHARACTERS = 1_000
MAX_EXPONENT = 400

_MINUS_SIGNS = "\u2212\u2010\u2011\u2012\u2013\ufe63\uff0d"
_SPACES = "\u00a0\u2007\u2009\u202f"
_CURRENCY = "$€£¥₹¢"
_SCALES = {"hundred": 100, "thousand": 10**3, "k": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}

_DIGITS = r"(?:\d{1,3}(?:[ ,'_]\d{3})+(?!\d)|\d+)(?:\.\d*+)?|\.\d+"
_PLAIN = rf"(?:{_DIGITS})(?!\.?\d)(?:[eE][+-]?\d+)?"
# A minus sign behind a letter, a digit or a closing bracket is a hyphen or a subtraction.
_SIGN = rf"(?:\b(?:minus|negative)\s+|(?<![\w.)])[+-]\s*)?(?:[{_CURRENCY}]\s*[+-]?\s*)?"
_NUMBER = re.compile(
    rf"(?P<sign>{_SIGN})(?<![\w.^])"
    rf"(?:(?P<whole>\d+)\s+(?=\d+\s*/\s*\d))?"
    rf"(?P<top>{_PLAIN})(?:\s*/\s*(?P<bottom>[+-]?(?:{_PLAIN})))?"
    rf"(?:\s*(?P<scale>{'|'.join(_SCALES)})\b)?",
    re.IGNORECASE,
)
_NOT_ALONE = re.compile(r"\s*[*^!×·÷√π]|[_²³¹⁰⁴-⁹]|\s*[-+]\s*\d|\s*x\s*\d|\s*(?:pi|squared|cubed)\b", re.IGNORECASE)
_CHANGED_BEFORE = re.compile(r"[√±∓⁻]\s?\Z|-\s?\(\s?\Z")
_BOLD = re.compile(r"(\*{1,3})([^*]+)\1")
_UNIT = re.compile(rf"\s*(?:%|°|[{_CURRENCY}]|percent|degrees)?(?:\s+[A-Za-z]{{2,}})*\s*\.?\s*", re.IGNORECASE)
_NO_UNITS = re.compile(
    r"\b(?:pi|sqrt|mod|or|and|times|plus|minus|over|factorial|squared|cubed|halves|thirds?|fourths?|fifths?|sixths?"
    r"|eighths?|tenths?|hundredths?|thousandths?)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"\s*[A-Za-z](?:_\w)?\s*=\s*")

_LATEX_FRACTION = re.compile(r"(\d?)\s*\\[dt]?frac\s*(?:\{([^{}]*)\}\s*\{([^{}]*)\}|(\d)\s*(\d))")
_LATEX_TEXT = re.compile(r"\\(?:boxed|text|textbf|textit|mathrm|mbox)\s*\{([^{}]*)\}")
_LATEX_LEFT = re.compile(r"\\[A-Za-z]")
_LATEX_SIMPLE = (
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\[!]|\\left|\\right"), ""),
    (re.compile(r"\\[,;: ]"), " "),
    (re.compile(r"\^\s*(?:\\circ|\{\s*\\circ\s*\})"), "°"),
    (re.compile(r"\\([$%])"), r"\1"),
)


def read_number(text: str) -> Fraction | None:
    r"""The value of a text that is a number and nothing else, but for currency, a unit in words, or "x =" before it.

    None for every other text: "3x" and "3\pi" are not 3.
    """
    plain = _plain(text)
    if plain is None:
        return None
    start = match.end() if (match := _NAME.match(plain)) else 0
    found = _NUMBER.match(plain, _after_spaces(plain, start))
    if found is None:
        return None
    rest = plain[found.end() :]
    if _UNIT.fullmatch(rest) is None or _NO_UNITS.search(rest):
        return None
    return _value(found)


def find_number(text: str) -> Fraction | None:
    """The value of the one number in a text, whatever the words around it.

    None where there is no number, or where there are two that differ: an answer has to commit itself. The same number
    twice ("72, that is 72.0") is one number.
    """
    plain = _plain(text)
    if plain is None or _LATEX_LEFT.search(plain):
        return None
    values = set()
    for found in _NUMBER.finditer(plain):
        before = plain[max(0, found.start() - 4) : found.start()]
        if _NOT_ALONE.match(plain, found.end()) or _CHANGED_BEFORE.search(before):
            return None
        values.add(_value(found))
    return values.pop() if len(values) == 1 else None


def numeric_match(answer: str | None, gold: str) -> float:
    """1.0 where the one number in the answer equals the gold number exactly, else 0.0. Never raises.

    A gold text without a number matches nothing.
    """
    expected = find_number(gold)
    return 0.0 if answer is None or expected is None else float(find_number(answer) == expected)


def _plain(text: str) -> str | None:
    """The text with ASCII digits, signs and spaces, and without LaTeX's dress; None where it is too long."""
    if len(text) > MAX_CHARACTERS:
        return None
    plain = " ".join("".join(_ascii(character) for character in text).split())
    if bold := _BOLD.fullmatch(plain):
        plain = bold[2].strip()
    if len(plain) > 1 and plain[0] == plain[-1] == "$":
        plain = plain[1:-1]
    for pattern, replacement in _LATEX_SIMPLE:
        plain = pattern.sub(replacement, plain)
    plain = _LATEX_TEXT.sub(r" \1 ", plain)
    return _LATEX_FRACTION.sub(_slash, plain)


def _ascii(character: str) -> str:
    if character in _MINUS_SIGNS:
        return "-"
    if character in _SPACES:
        return " "
    if character in "’٬":
        return "'"
    if character.isascii():
        return character
    digit = unicodedata.decimal(character, None)
    if digit is not None:
        return str(digit)
    if unicodedata.decomposition(character).startswith("<fraction>"):
        return " " + unicodedata.normalize("NFKC", character).replace("\u2044", "/")
    return {"\uff0c": ",", "\uff0e": ".", "\uff0f": "/", "\u2044": "/", "\uff05": "%", "\uff04": "$"}.get(
        character, character
    )


def _slash(found: re.Match[str]) -> str:
    whole, top, bottom, short_top, short_bottom = found.groups()
    return f"{whole} {(top or short_top or '').strip()}/{(bottom or short_bottom or '').strip()}"


def _after_spaces(text: str, position: int) -> int:
    return len(text) - len(text[position:].lstrip())


def _value(found: re.Match[str]) -> Fraction | None:
    top, bottom = _fraction(found["top"]), _fraction(found["bottom"] or "1")
    if top is None or not bottom:
        return None
    value = (int(found["whole"] or 0) + top / bottom) * _SCALES.get((found["scale"] or "").lower(), 1)
    negative = found["sign"].count("-") + len(re.findall("minus|negative", found["sign"].lower()))
    return -value if negative % 2 else value


def _fraction(text: str) -> Fraction | None:
    digits, _, exponent = re.sub(r"[ ,'_]", "", text).lower().partition("e")
    if exponent and (len(exponent) > 5 or abs(int(exponent)) > MAX_EXPONENT):
        return None
    return Fraction(digits.removesuffix(".")) * Fraction(10) ** int(exponent or 0)
