"""Where turns end: at the token that completes a closing tag, found in linear time."""

from __future__ import annotations

import functools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from agent_envs.formats import FORMATS
from agent_envs.tokenizers import ByteTokenizer, HuggingFaceTokenizer
from agent_envs.turn_ends import TurnEnds
from tests.agent_envs.small_tokenizers import PLAIN

# Pieces that begin, hold, complete and overshoot tags.
PIECES = ("<", "</", "answer", "</answer", ">", ">.", "er>", "x>y", "></answer>", "<answer>", "</answer>\n", "e", "a<")
TAGS = ("</answer>", "</search>", "ab", "b")


@functools.cache
def word_tokenizer() -> HuggingFaceTokenizer:
    """A vocabulary of pieces, with every byte as a token of its own, as Llama 2 and Mistral have them."""
    words = ["<unk>", *(f"<0x{value:02X}>" for value in range(256)), *PIECES]
    backend = Tokenizer(models.BPE({word: at for at, word in enumerate(words)}, [], byte_fallback=True))
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    backend.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>")
    fast.chat_template = PLAIN
    return HuggingFaceTokenizer("words", fast)


def ends_of(tags: tuple[str, ...]) -> TurnEnds:
    return TurnEnds(word_tokenizer(), word_tokenizer().eos_ids, tags)


@settings(max_examples=150)
@given(tags=st.sampled_from([TAGS[:1], TAGS[:2], TAGS[2:]]), data=st.data())
def test_a_turn_ends_with_the_token_in_which_a_tag_ends(tags: tuple[str, ...], data: st.DataObject) -> None:
    tokenizer, ends = word_tokenizer(), ends_of(tags)
    first = 257
    ids = data.draw(st.lists(st.integers(first, first + len(PIECES) - 1), min_size=1, max_size=12))
    texts = [tokenizer.token_text(token_id) for token_id in ids]
    expected = len(ids), False
    for count in range(1, len(ids) + 1):
        before, whole = "".join(texts[: count - 1]), "".join(texts[:count])
        if any(whole.rfind(tag) >= 0 and whole.rfind(tag) + len(tag) > len(before) for tag in tags):
            expected = count, True
            break
    assert ends.find(np.empty(0, np.int32), np.asarray(ids)) == expected
    check = ends.checker()
    assert [check(token_id) for token_id in ids[: expected[0]]] == [False] * (expected[0] - 1) + [expected[1]]
    cut = data.draw(st.integers(0, expected[0] - 1))
    found = ends.find(np.asarray(ids[:cut], np.int32), np.asarray(ids[cut:]))
    assert found == (expected[0] - cut, expected[1])


@pytest.mark.parametrize("tag", ["</answer>", "\nObservation:"])
def test_a_tag_that_is_spelled_in_bytes_ends_the_turn(tag: str) -> None:
    ids = np.asarray([1 + byte for byte in tag.encode()])  # behind <unk>
    assert word_tokenizer().decode(ids.tolist()) == tag
    assert ends_of((tag,)).find(np.empty(0, np.int32), ids) == (len(tag), True)


def test_tags_without_end_in_an_open_thought_are_read_in_linear_time() -> None:
    tokenizer, tool_format = ByteTokenizer(), FORMATS.get("search-r1")
    ends = TurnEnds(tokenizer, tokenizer.eos_ids, tool_format.closing_tags, tool_format.closes_turn)
    ids = np.asarray(tokenizer.encode_plain("<think>" + "</answer></search>" * 1500))
    started = time.perf_counter()
    assert ends.find(np.empty(0, np.int32), ids) == (len(ids), False)
    check = ends.checker()
    assert not any(check(token_id) for token_id in ids.tolist())
    assert time.perf_counter() - started < 5.0  # 0.9 s here; to read the whole turn at each tag takes 50 s
