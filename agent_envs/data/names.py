"""Made-up names, and draws that are the same in every version of Python.

Names are put together from short lists, so that a small byte-pair vocabulary covers each in a few tokens, while there
are far more combinations than a world uses: 30,720 persons, 5,760 towns, 8,000 pairs of title words, 3,600 companies
and 720 rivers.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_FIRST_STARTS = _words("Tar Kel Osk Bren Mir Dav Sel Hal Jor Lin Ves Pol Rud Yan Cor Nim")
_FIRST_ENDS = _words("in a o ek ia us el ora")
_LAST_STARTS = _words(
    "Vell Drem Brosk Karn Ostr Pell Quill Thorn Gand Hask Izz Jarr Lund Mord Nesk Orl Prav Rast Sturm Tolm Umb Wend "
    "Yorr Zell"
)
_LAST_ENDS = _words("oso er ano wick ado iev olt ine by ush")
_TOWN_STARTS = _words(
    "Al Bar Cal Dun El Fen Gar Hel Il Kas Lor Mar Nor Ol Pen Rav Sal Tam Ul Var Wes Zan Bel Cas Dor Gil Hov Len Mol Ser"
)
_TOWN_MIDDLES = _words("a e i o u an en or ar el il um")
_TOWN_ENDS = _words("ville ford holm stead gate mouth burg minster haven dale wold ness cross bury field port")
_RIVER_ADJECTIVES = _words(
    "Upper Lower Great Little Old New White Black Red Green Blue Brown Cold Warm Deep Slow Swift Bright Dark Long Wide "
    "Still Dry Lost"
)
_RIVER_STEMS = _words(
    "Aura Brysa Cleva Deeno Eskin Falda Gryna Hymra Iskel Junta Kryva Loira Mytho Nylin Ouzra Pryde Rynla Sylvo Tyvin "
    "Ushka Vysla Wylma Xanda Yarra Zymbo Boula Doona Fouro Louma Moury"
)
_FIRM_STARTS = _words(
    "Acto Bexo Cindo Delco Exto Fabro Gelto Hydro Inko Jetto Kelvo Lumo Metro Nexo Opto Pano Quanto Roto Silvo Tecno"
)
_FIRM_MIDDLES = _words("dyn mat nor tex lan rex")
_FIRM_ENDS = _words(
    "Clocks Mills Motors Press Glass Lamps Foods Tools Cables Paper Steel Toys Boats Shoes Bells Bricks Carpets Drums "
    "Engines Fabrics Gears Hats Inks Keys Locks Maps Nets Optics Paints Radios"
)
_ADJECTIVES = _words(
    "Silent Golden Broken Hidden Crimson Distant Empty Frozen Gentle Hollow Iron Jagged Kindly Lonely Midnight Narrow "
    "Open Painted Quiet Restless Silver Tender Unseen Velvet Wandering Yellow Ancient Bitter Careless Drifting Endless "
    "Faithful Grey Humble Idle Joyful Last Marble Northern Olive Patient Ragged Secret Twisted Upper Vacant Wooden "
    "Young Amber Burning Azure Barren Clever Dusty Eager Fading Gallant Hungry Icy Jolly Keen Lucky Mighty Noble Odd "
    "Proud Quick Rusty Sleepy Tired Useful Vivid Weary Zealous Brave Calm Daring Early Fierce Grand"
)
_NOUNS = _words(
    "Harbour Garden Lantern Mountain Orchard Palace Quarry River Station Theatre Valley Window Bridge Candle Desert "
    "Engine Forest Glacier Horizon Island Journey Kingdom Ladder Mirror Needle Ocean Pilgrim Question Railway Shadow "
    "Tower Umbrella Violin Whistle Anchor Balcony Cathedral Diamond Envelope Feather Gallery Hunter Idol Jewel Kettle "
    "Letter Meadow Nightfall Oath Parade Quilt Riddle Sailor Thunder Uniform Voyage Winter Arrow Beacon Carnival "
    "Dancer Echo Falcon Guardian Hammer Inventor Judge Knight Legend Magician Nurse Oracle Painter Queen Rebel "
    "Stranger Traveller Uncle Visitor Weaver Apprentice Banker Captain Doctor Emperor Farmer Ghost Hermit Imposter "
    "Juggler Keeper Locksmith Miller Neighbour Outlaw Poet Rider Soldier Tailor Watchman"
)
_TITLES = ("The {} {}", "My {} {}", "{} {}")


class Dice:
    """Draws from a generator of its own, seeded by a hash of words.

    Only ``random.Random.random`` is used, whose sequence Python guarantees; ``choice`` and ``shuffle`` have changed
    between versions.
    """

    def __init__(self, *words: str) -> None:
        """The same words give the same draws everywhere."""
        digest = hashlib.sha256("/".join(words).encode()).digest()
        self._random = random.Random(int.from_bytes(digest, "big"))

    def chance(self, probability: float) -> bool:
        """True with that probability."""
        return self._random.random() < probability

    def below(self, stop: int) -> int:
        """A whole number in ``[0, stop)``."""
        return int(self._random.random() * stop)

    def choose(self, items: Sequence[T]) -> T:
        """One of the items, each as likely."""
        return items[self.below(len(items))]

    def choose_weighted(self, weights: dict[T, float]) -> T:
        """A key, as likely as its share of the weights."""
        point = self._random.random() * sum(weights.values())
        for item, weight in weights.items():
            point -= weight
            if point < 0:
                return item
        return item

    def shuffled(self, items: Iterable[T]) -> list[T]:
        """The items in a new order, every order as likely."""
        out = list(items)
        for last in range(len(out) - 1, 0, -1):
            other = self.below(last + 1)
            out[last], out[other] = out[other], out[last]
        return out


class Namer:
    """Hands out names that it has not handed out before, and none of those excluded."""

    def __init__(self, dice: Dice, exclude: Iterable[str] = ()) -> None:
        """``exclude`` holds whole names, such as those of other worlds."""
        self._dice = dice
        self._taken = set(exclude)

    def person(self) -> str:
        """A first and a last name."""
        return self._fresh((_FIRST_STARTS, _FIRST_ENDS, [" "], _LAST_STARTS, _LAST_ENDS))

    def town(self) -> str:
        """One word."""
        return self._fresh((_TOWN_STARTS, _TOWN_MIDDLES, _TOWN_ENDS))

    def river(self) -> str:
        """Two words, without an article."""
        return self._fresh((_RIVER_ADJECTIVES, [" "], _RIVER_STEMS))

    def company(self) -> str:
        """A made-up word and the goods."""
        return self._fresh((_FIRM_STARTS, _FIRM_MIDDLES, [" "], _FIRM_ENDS))

    def title(self) -> str:
        """The title of a film or a book: no other title has the same adjective and noun."""
        while True:
            adjective, noun = self._dice.choose(_ADJECTIVES), self._dice.choose(_NOUNS)
            titles = [form.format(adjective, noun) for form in _TITLES]
            if self._taken.isdisjoint(titles):
                self._taken.update(titles)
                return self._dice.choose(titles)

    def _fresh(self, parts: Sequence[Sequence[str]]) -> str:
        while True:
            name = "".join(self._dice.choose(part) for part in parts)
            if name not in self._taken:
                self._taken.add(name)
                return name
