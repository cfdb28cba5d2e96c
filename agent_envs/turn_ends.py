"""Where a turn ends: an end-of-turn token, or a closing tag of the tool format spread over any number of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from agent_envs.tokenizers import Tokenizer


class TurnEnds:
    """Where turns end, for one tokenizer and format; shared by the episode and the samplers."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        end_ids: frozenset[int],
        closing_tags: Sequence[str],
        closes: Callable[[str], bool] = lambda text: True,
    ) -> None:
        """Finds the ids that can possibly end a turn, so that all others cost one look-up.

        Args:
            tokenizer: gives the ids' texts.
            end_ids: end a turn by themselves.
            closing_tags: may end a turn as soon as they are complete.
            closes: given the turn's whole text up to a closing tag, whether it ends there (not inside a thought, say).
                ASCII in it is exact; of a character that is spread over several tokens stands something else.
        """
        self._tokenizer = tokenizer
        self._end_ids = end_ids
        self._closes = closes
        self.closing_tags = tuple(closing_tags)
        last_characters = frozenset(tag[-1] for tag in closing_tags)
        possible = tokenizer.ids_containing(last_characters) if closing_tags else frozenset()
        completing = {token_id: _missing(tokenizer.token_text(token_id), self.closing_tags) for token_id in possible}
        # What has to stand before a token so that it completes a tag.
        self._missing = {token_id: missing for token_id, missing in completing.items() if missing}
        # The last entry stands for every id beyond the vocabulary.
        self._table: NDArray[np.bool_] = np.zeros(max(tokenizer.vocab_size, max(end_ids) + 1) + 1, np.bool_)
        self._table[[*end_ids, *self._missing]] = True
        self._bytes = self._table.tobytes()

    @property
    def end_ids(self) -> frozenset[int]:
        """Ids that end a turn by themselves."""
        return self._end_ids

    def may_end(self, token_id: int) -> bool:
        """False for ids that never end a turn; True ones need a look at what stands before."""
        return token_id < len(self._bytes) and self._bytes[token_id] != 0

    def find(self, written: NDArray[np.integer], ids: NDArray[np.int64]) -> tuple[int, bool]:
        """How many ids belong to a turn that stands at ``written``, and whether the last of them ends it."""
        hits = self._table.take(ids, mode="clip").nonzero()[0].tolist()
        turn = np.concatenate([written, ids]) if hits and len(written) else ids
        text = _Text(self._tokenizer)
        for position in hits:
            if self._ends(turn[: len(written) + position + 1], text):
                return position + 1, True
        return len(ids), False

    def ends(self, turn: Sequence[int] | NDArray[np.integer]) -> bool:
        """True where the last id of a turn completes it."""
        return self._ends(turn, _Text(self._tokenizer))

    def checker(self) -> Callable[[int], bool]:
        """A function that is called with each id of one turn in order; True on the one that ends the turn."""
        written: list[int] = []
        text = _Text(self._tokenizer)

        def check(token_id: int) -> bool:
            written.append(token_id)
            return self.may_end(token_id) and self._ends(written, text)

        return check

    def _ends(self, turn: Sequence[int] | NDArray[np.integer], text: _Text) -> bool:
        last = int(turn[-1])
        if last in self._end_ids:
            return True
        # Only a tag that ends inside the last token counts: about earlier ones it is decided already.
        return self._completes_tag(turn, self._missing.get(last, ())) and self._closes(text.grown_to(turn))

    def _completes_tag(self, turn: Sequence[int] | NDArray[np.integer], missing: tuple[str, ...]) -> bool:
        before, at = "", len(turn) - 2
        while not before.endswith(missing):
            if at < 0 or not missing:
                return False
            before, at = self._tokenizer.token_text(int(turn[at])) + before, at - 1
            if not before.endswith(missing):
                missing = tuple([start for start in missing if start.endswith(before)])
        return True


class _Text:
    """The text of a growing turn, token by token, so that looking at it again and again costs what is new."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._text = ""
        self._count = 0

    def grown_to(self, turn: Sequence[int] | NDArray[np.integer]) -> str:
        """The text of the turn, which begins with all that it was called with before."""
        new = turn[self._count :]
        self._text += "".join(map(self._tokenizer.token_text, new.tolist() if isinstance(new, np.ndarray) else new))
        self._count = len(turn)
        return self._text


def _missing(text: str, tags: Sequence[str]) -> tuple[str, ...]:
    """What may stand before a token of that text so that a tag ends within it: "" where it holds the whole tag."""
    starts = {
        tag[: len(tag) - length]
        for tag in tags
        for length in range(1, min(len(text) + 1, len(tag)))
        if text.startswith(tag[len(tag) - length :])
    }
    return tuple(sorted(starts | {"" for tag in tags if tag in text}))
