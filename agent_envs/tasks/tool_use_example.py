"""A task of one's own, as an example: order things in a small shop, and say what they cost.

``gym.make("AgentR1/ToolUse-v0")`` plays it. It has everything that such a task can have: tools with state (a class),
items that are made on demand, a score that looks at what was done, and the turns of an oracle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_envs.data.given_items import Item
from agent_envs.data.names import Dice, Namer
from agent_envs.errors import ConfigError, ToolUseError
from agent_envs.tasks.tool_use import ToolUseTask
from agent_envs.tools.base import ToolOutput
from agent_envs.types import Turn

NUM_ITEMS = {"train": 1000, "validation": 200, "test": 200}

MATERIALS = ("brass", "oak", "linen", "copper", "glass", "clay", "pine", "wool", "steel", "paper")
THINGS = ("lantern", "ladder", "kettle", "basket", "mirror", "blanket", "bell", "stool", "kite", "drum")


class Shop:
    """The tools of one episode: an object that remembers the basket. Each public method is a tool."""

    def __init__(self, item: dict[str, Any]) -> None:
        """Takes a copy of the item, without "answer", "oracle" and "secret"."""
        self._products: dict[str, dict[str, int]] = item["products"]
        self._postage: dict[str, int] = item["postage"]
        self._basket: dict[str, int] = {}

    def look_up(self, product: str) -> dict[str, int]:
        """Say what a product costs and how many there are.

        Args:
            product: its name, such as "oak ladder".
        """
        if product not in self._products:  # the policy's mistake, in words that it can act on
            raise ToolUseError(f"there is no {product!r}; the products are {', '.join(self._products)}")
        return self._products[product]

    def add(self, product: str, quantity: int) -> dict[str, int]:
        """Put a product into the basket.

        Args:
            product: its name.
            quantity: how many.
        """
        stock = self.look_up(product)["stock"]
        if not 1 <= quantity <= stock - self._basket.get(product, 0):
            raise ToolUseError(f"cannot add {quantity} of {product!r}: the stock is {stock}")
        self._basket[product] = self._basket.get(product, 0) + quantity
        return self._basket

    def order(self, town: str) -> ToolOutput:
        """Order what is in the basket.

        Args:
            town: where to send it.
        """
        if town not in self._postage or not self._basket:
            raise ToolUseError(f"order a basket that is not empty to one of {', '.join(self._postage)}")
        goods = sum(self._products[product]["price"] * quantity for product, quantity in self._basket.items())
        basket, self._basket = self._basket, {}
        # The policy reads the first argument; the score, below, reads the second.
        text = f"ordered; goods {goods}, postage {self._postage[town]}"
        return ToolOutput(text, {"basket": basket, "town": town})


def make_item(split: str, index: int) -> Item:
    """The item of that index: the same in every process, because its dice are seeded by what they are for."""
    dice = Dice("shop", split, str(index))
    names = dice.shuffled(f"{material} {thing}" for material in MATERIALS for thing in THINGS)[:5]
    products = {name: {"price": 2 + dice.below(40), "stock": 1 + dice.below(8)} for name in names}
    namer = Namer(dice)
    postage = {namer.town(): 1 + dice.below(9) for _ in range(3)}
    town = dice.choose(list(postage))
    wanted = {name: 2 + dice.below(5) for name in dice.shuffled(names)[:2]}
    basket = {name: min(count, products[name]["stock"]) for name, count in wanted.items()}
    total = sum(products[name]["price"] * count for name, count in basket.items()) + postage[town]
    wishes = " and ".join(f"{count} x {name}" for name, count in wanted.items())
    return {
        "question": f"Order {wishes} to {town}; where there are fewer, take all there are. What do you pay in all?",
        "answer": str(total),
        "products": products,
        "postage": postage,
        "secret": {"basket": basket, "town": town},
        "oracle": [
            [{"name": "look_up", "arguments": {"product": name}} for name in basket],
            [{"name": "add", "arguments": {"product": name, "quantity": count}} for name, count in basket.items()],
            {"name": "order", "arguments": {"town": town}},
        ],
    }


def score(answer: str, item: Item, turns: Sequence[Turn]) -> float:
    """Half for the right order and nothing else ordered, half for the right sum."""
    orders = [result.data for turn in turns for result in turn.results if "basket" in result.data]
    return 0.5 * float(orders == [item["secret"]]) + 0.5 * float(answer == item["answer"])


def make_task(split: str = "train") -> ToolUseTask:
    """The task: tools, items and score together."""
    if split not in NUM_ITEMS:
        raise ConfigError(f"split is one of {', '.join(NUM_ITEMS)}, not {split!r}")
    return ToolUseTask(Shop, lambda index: make_item(split, index), score, num_items=NUM_ITEMS[split])
