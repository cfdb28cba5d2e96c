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
        """
        self._tokenizer = tokenizer
        self._end_ids = end_ids
        self._closes = closes
        self.closing_tags = tuple(closing_tags)
        last_characters = frozenset(tag[-1] for tag in closing_tags)
        candidates = end_ids | (tokenizer.ids_containing(last_characters) if closing_tags else frozenset())
        # The last entry stands for every id beyond the vocabulary.
        self._table: NDArray[np.bool_] = np.zeros(max(tokenizer.vocab_size, max(end_ids) + 1) + 1, np.bool_)
        self._table[list(candidates)] = True
        self._bytes = self._table.tobytes()
        self._longest = max((len(tag) for tag in closing_tags), default=0)

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
        for position in hits:
            if self.ends(turn[: len(written) + position + 1]):
                return position + 1, True
        return len(ids), False

    def ends(self, turn: Sequence[int] | NDArray[np.integer]) -> bool:
        """True where the last id of a turn completes it."""
        last = int(turn[-1])
        if last in self._end_ids:
            return True
        if not self.closing_tags or not self.may_end(last):
            return False
        text = self._tokenizer.token_text(last)
        before = self._text_before(turn)
        whole = before + text
        # Only an occurrence that ends inside the last token counts: about earlier ones it is decided already.
        if not any(whole.rfind(tag) + len(tag) > len(before) for tag in self.closing_tags if tag in whole):
            return False
        return self._closes(self._tokenizer.decode([int(token_id) for token_id in turn]))

    def _text_before(self, turn: Sequence[int] | NDArray[np.integer]) -> str:
        """What stands before the last token: at least as much as the longest tag, where there is so much."""
        count = self._longest
        while True:
            ids = turn[-count - 1 : -1]
            text = "".join(map(self._tokenizer.token_text, ids.tolist() if isinstance(ids, np.ndarray) else ids))
            if len(text) >= self._longest or len(ids) < count:
                return text
            count *= 2  # tokens without any text stand there
