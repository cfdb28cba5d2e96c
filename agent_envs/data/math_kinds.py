"""The kinds of problems in the embedded PythonMath: each draws numbers, and knows the answer and a program for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

from agent_envs.data.names import Dice


@dataclass(frozen=True, slots=True)
class Draft:
    """A problem: what is asked, the answer as LaTeX would have it, and Python that prints it."""

    question: str
    answer: str
    program: str


Kind: TypeAlias = Callable[[Dice], Draft]


def modular_power(dice: Dice) -> Draft:
    """The remainder of a large power."""
    base, exponent, modulus = _between(dice, 3, 99), _between(dice, 1000, 9999), _between(dice, 101, 9999)
    return Draft(
        f"What is the remainder when ${base}^{{{exponent}}}$ is divided by ${modulus}$?",
        str(pow(base, exponent, modulus)),
        f"print({base} ** {exponent} % {modulus})",
    )


def digit_sum(dice: Dice) -> Draft:
    """The digits of a large power."""
    base, exponent = _between(dice, 2, 49), _between(dice, 40, 300)
    return Draft(
        f"What is the sum of the decimal digits of ${base}^{{{exponent}}}$?",
        str(sum(map(int, str(base**exponent)))),
        f"n, total = {base} ** {exponent}, 0\nwhile n:\n    n, digit = divmod(n, 10)\n    total += digit\nprint(total)",
    )


def multiples(dice: Dice) -> Draft:
    """Inclusion and exclusion with three divisors."""
    top = _between(dice, 2000, 60000)
    first, second, third = dice.shuffled((4, 6, 7, 9, 10, 11, 13, 14, 15))[:3]  # none divides another

    def count(*divisors: int) -> int:
        return top // math.lcm(*divisors)

    either = count(first) + count(second) - count(first, second)
    excluded = count(first, third) + count(second, third) - count(first, second, third)
    return Draft(
        f"How many positive integers up to ${top}$ are divisible by ${first}$ or by ${second}$, but not by ${third}$?",
        str(either - excluded),
        f"print(sum((n % {first} == 0 or n % {second} == 0) and n % {third} != 0 for n in range(1, {top} + 1)))",
    )


def divisors(dice: Dice) -> Draft:
    """The sum of the divisors of a number whose factors are known to its maker."""
    primes = sorted(dice.shuffled((2, 3, 5, 7, 11, 13))[:3])
    powers = [_between(dice, 1, 3) for _ in primes]
    number = math.prod(prime**power for prime, power in zip(primes, powers, strict=True))
    total = math.prod((p ** (k + 1) - 1) // (p - 1) for p, k in zip(primes, powers, strict=True))
    return Draft(
        f"What is the sum of all positive divisors of ${number}$?",
        str(total),
        f"n = {number}\n"
        "print(sum(d + (n // d if d * d < n else 0) for d in range(1, int(n ** 0.5) + 1) if n % d == 0))",
    )


def primes_between(dice: Dice) -> Draft:
    """The sum of the primes in a range."""
    low = _between(dice, 100, 3000)
    high = low + _between(dice, 60, 900)
    sieve = [True] * (high + 1)
    for number in range(2, math.isqrt(high) + 1):
        if sieve[number]:
            sieve[number * number :: number] = [False] * len(range(number * number, high + 1, number))
    return Draft(
        f"What is the sum of all prime numbers $p$ with ${low} < p < {high}$?",
        str(sum(number for number in range(low + 1, high) if sieve[number])),
        "def prime(n):\n    return n > 1 and all(n % d for d in range(2, int(n ** 0.5) + 1))\n"
        f"print(sum(n for n in range({low} + 1, {high}) if prime(n)))",
    )


def recurrence(dice: Dice) -> Draft:
    """A term of a linear recurrence, reduced."""
    first, second = _between(dice, 1, 9), _between(dice, 1, 9)
    near, far = _between(dice, 1, 6), _between(dice, 1, 6)
    index, modulus = _between(dice, 50, 500), _between(dice, 100, 999)
    values = [first, second]
    while len(values) < index:
        values.append(near * values[-1] + far * values[-2])
    return Draft(
        f"Let $a_1 = {first}$, $a_2 = {second}$ and $a_n = {near} a_{{n-1}} + {far} a_{{n-2}}$ for $n > 2$. What is "
        f"the remainder when $a_{{{index}}}$ is divided by ${modulus}$?",
        str(values[index - 1] % modulus),
        f"a, b = {first}, {second}\nfor _ in range({index} - 1):\n    a, b = b, ({near} * b + {far} * a) % {modulus}\n"
        f"print(a % {modulus})",
    )


def lattice_paths(dice: Dice) -> Draft:
    """Paths on a grid around one point."""
    wide, high = _between(dice, 6, 12), _between(dice, 6, 12)
    x, y = _between(dice, 1, wide - 1), _between(dice, 1, high - 1)
    through = math.comb(x + y, x) * math.comb(wide - x + high - y, wide - x)
    return Draft(
        f"A path on the integer grid goes from $(0, 0)$ to $({wide}, {high})$ in steps of one to the right or one up. "
        f"How many such paths do not pass through the point $({x}, {y})$?",
        str(math.comb(wide + high, wide) - through),
        f"ways = {{(0, 0): 1}}\nfor x in range({wide} + 1):\n    for y in range({high} + 1):\n"
        f"        if (x, y) != (0, 0):\n            ways[x, y] = ways.get((x - 1, y), 0) + ways.get((x, y - 1), 0)\n"
        f"        if (x, y) == ({x}, {y}):\n            ways[x, y] = 0\nprint(ways[{wide}, {high}])",
    )


def same_colour(dice: Dice) -> Draft:
    """The probability that balls drawn without looking are of one colour."""
    counts, drawn = [_between(dice, 4, 12) for _ in range(3)], _between(dice, 2, 4)
    red, green, blue = counts
    chance = Fraction(sum(math.comb(count, drawn) for count in counts), math.comb(sum(counts), drawn))
    return Draft(
        f"A bag holds {red} red, {green} green and {blue} blue balls. {drawn} balls are drawn at random without "
        f"putting any back. What is the probability that all of them have the same colour? Give a fraction in lowest "
        f"terms.",
        _latex(chance),
        "from fractions import Fraction\nfrom itertools import combinations\n"
        f"balls = 'r' * {red} + 'g' * {green} + 'b' * {blue}\nhands = list(combinations(balls, {drawn}))\n"
        "print(Fraction(sum(len(set(hand)) == 1 for hand in hands), len(hands)))",
    )


def linear_system(dice: Dice) -> Draft:
    """Three linear equations in three unknowns, solved in integers."""
    solution = [_between(dice, -20, 20) for _ in range(3)]
    while True:
        rows = [[_between(dice, -9, 9) or 1 for _ in range(3)] for _ in range(3)]
        if _determinant(rows):
            break
    sides = [sum(a * x for a, x in zip(row, solution, strict=True)) for row in rows]
    weights = [_between(dice, 2, 9) for _ in range(3)]
    equations = ", ".join(f"${_linear(row)} = {side}$" for row, side in zip(rows, sides, strict=True))
    return Draft(
        f"The integers $x$, $y$ and $z$ solve {equations}. What is ${_linear(weights)}$?",
        str(sum(weight * x for weight, x in zip(weights, solution, strict=True))),
        f"rows, sides = {rows}, {sides}\nfor x in range(-20, 21):\n    for y in range(-20, 21):\n"
        "        for z in range(-20, 21):\n"
        "            if all(a * x + b * y + c * z == s for (a, b, c), s in zip(rows, sides)):\n"
        f"                print({weights[0]} * x + {weights[1]} * y + {weights[2]} * z)",
    )


def dice_sum(dice: Dice) -> Draft:
    """The probability of a sum of dice."""
    count, sides = _between(dice, 3, 5), dice.choose((4, 6, 8))
    total = _between(dice, count + 2, count * sides - 2)
    ways = {0: 1}
    for _ in range(count):
        ways = _added(ways, range(1, sides + 1))
    return Draft(
        f"{count} fair dice, each with the faces 1 to {sides}, are thrown. What is the probability that their sum is "
        f"{total}? Give a fraction in lowest terms.",
        _latex(Fraction(ways[total], sides**count)),
        "from fractions import Fraction\nfrom itertools import product\n"
        f"throws = list(product(range(1, {sides} + 1), repeat={count}))\n"
        f"print(Fraction(sum(sum(throw) == {total} for throw in throws), len(throws)))",
    )


def coins(dice: Dice) -> Draft:
    """Ways to pay an amount with three kinds of coins."""
    kinds, amount = sorted(dice.shuffled(range(2, 21))[:3]), _between(dice, 100, 600)
    ways = [1] + [0] * amount
    for coin in kinds:
        for value in range(coin, amount + 1):
            ways[value] += ways[value - coin]
    a, b, c = kinds
    return Draft(
        f"In how many ways can an amount of {amount} be paid with coins of {a}, {b} and {c}, if the order of the coins "
        f"does not matter?",
        str(ways[amount]),
        f"print(sum(({amount} - {a} * i - {b} * j) % {c} == 0 for i in range({amount} // {a} + 1) "
        f"for j in range(({amount} - {a} * i) // {b} + 1)))",
    )


def square_roots(dice: Dice) -> Draft:
    """All square roots of a residue, as a set."""
    modulus = dice.choose((5, 7, 11, 13)) * dice.choose((17, 19, 23, 29, 31))
    square = pow(_between(dice, 2, modulus - 1), 2, modulus)
    roots = [n for n in range(modulus) if n * n % modulus == square]
    return Draft(
        f"Find all integers $n$ with $0 \\le n < {modulus}$ such that $n^2 - {square}$ is divisible by ${modulus}$. "
        f"Give them as a set.",
        _latex_set(roots),
        f"print({{n for n in range({modulus}) if (n * n - {square}) % {modulus} == 0}})",
    )


def larger_root(dice: Dice) -> Draft:
    """The larger root of a quadratic, exactly."""
    middle, inner = _between(dice, 1, 30), _between(dice, 2, 90)
    while math.isqrt(inner) ** 2 == inner or (middle * middle - inner) % 4:
        middle, inner = _between(dice, 1, 30), _between(dice, 2, 90)
    product = (middle * middle - inner) // 4
    constant = f"+ {product}" if product > 0 else f"- {-product}"
    return Draft(
        f"What is the larger solution of $x^2 - {middle}x {constant} = 0$, exactly?",
        f"\\frac{{{middle} + \\sqrt{{{inner}}}}}{{2}}",
        f"b, c = {-middle}, {product}\nprint(rf'\\frac{{{{{{-b}} + \\sqrt{{{{{{b * b - 4 * c}}}}}}}}}}{{{{2}}}}')",
    )


def no_neighbours(dice: Dice) -> Draft:
    """Words without a pair of equal neighbours of one letter."""
    letters, length = _between(dice, 3, 6), _between(dice, 6, 20)
    other, first = 1, 0  # words that do not end in A, and those that do
    for _ in range(length):
        other, first = (letters - 1) * (other + first), other
    alphabet = ", ".join("ABCDEF"[:letters])
    return Draft(
        f"How many words of {length} letters can be written with the letters {alphabet} if no two neighbouring letters "
        f"are both A?",
        str(other + first),
        f"ends = {{'A': 1, 'other': {letters} - 1}}\nfor _ in range({length} - 1):\n"
        f"    ends = {{'A': ends['other'], 'other': ({letters} - 1) * sum(ends.values())}}\nprint(sum(ends.values()))",
    )


def remainders(dice: Dice) -> Draft:
    """The least number with three remainders."""
    moduli = sorted(dice.shuffled((7, 9, 11, 13, 16, 17, 19, 23, 25))[:3])
    number = _between(dice, 200, math.prod(moduli) - 1)
    asked = ", ".join(f"${number % m}$ when divided by ${m}$" for m in moduli)
    return Draft(
        f"What is the least positive integer that leaves the remainders {asked}?",
        str(number),
        "n = 1\nwhile " + " or ".join(f"n % {m} != {number % m}" for m in moduli) + ":\n    n += 1\nprint(n)",
    )


def telescope(dice: Dice) -> Draft:
    """A sum of fractions, exactly."""
    gap, count = _between(dice, 1, 5), _between(dice, 8, 60)
    total = sum((Fraction(1, k * (k + gap)) for k in range(1, count + 1)), Fraction(0))
    return Draft(
        f"What is $\\sum_{{k=1}}^{{{count}}} \\frac{{1}}{{k(k+{gap})}}$? Give a fraction in lowest terms.",
        _latex(total),
        f"from fractions import Fraction\nprint(sum(Fraction(1, k * (k + {gap})) for k in range(1, {count} + 1)))",
    )


EVERYWHERE: tuple[Kind, ...] = (
    modular_power,
    digit_sum,
    multiples,
    divisors,
    primes_between,
    recurrence,
    lattice_paths,
    same_colour,
    linear_system,
    dice_sum,
    coins,
    square_roots,
    larger_root,
)
"""In every part, with other numbers."""

VALIDATION_ONLY: tuple[Kind, ...] = (no_neighbours,)
TEST_ONLY: tuple[Kind, ...] = (remainders, telescope)


def _between(dice: Dice, low: int, high: int) -> int:
    return low + dice.below(high - low + 1)


def _latex(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else f"\\frac{{{value.numerator}}}{{{value.denominator}}}"


def _latex_set(values: Iterable[int]) -> str:
    return f"\\{{{', '.join(map(str, values))}\\}}"


def _linear(weights: list[int]) -> str:
    """Such as ``2x - y + 3z``."""
    terms = [f"{'-' if weight < 0 else '+'} {abs(weight)}{name}" for weight, name in zip(weights, "xyz", strict=True)]
    text = " ".join(terms).replace(" 1x", " x").replace(" 1y", " y").replace(" 1z", " z")
    return text.removeprefix("+ ") if text.startswith("+") else text.replace("- ", "-", 1)


def _determinant(rows: list[list[int]]) -> int:
    (a, b, c), (d, e, f), (g, h, i) = rows
    return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)


def _added(ways: dict[int, int], faces: Iterable[int]) -> dict[int, int]:
    sums: dict[int, int] = {}
    for total, count in ways.items():
        for face in faces:
            sums[total + face] = sums.get(total + face, 0) + count
    return sums
