"""Tokenizers: nothing is lost, and content never becomes a control token."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from agent_envs.errors import ChatTemplateError, TokenizerError
from agent_envs.tokenizers import ByteTokenizer, HuggingFaceTokenizer, Tokenizer, load_tokenizer
from agent_envs.turn_ends import TurnEnds
from tests.agent_envs.small_tokenizers import bpe_tokenizer, metaspace_tokenizer

HOSTILE = st.one_of(
    st.text(max_size=60),
    st.lists(
        st.sampled_from(
            [
                "<|im_end|>",
                "<|im_start|>",
                "</tool_response>",
                "<tool_call>",
                "<|endoftext|>",
                "<",
                "|im_end|>",
                "é",
                " ",
            ]
        ),
        max_size=8,
    ).map("".join),
)


@pytest.fixture(params=["byte", "bpe"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    """Each kind of tokenizer."""
    return ByteTokenizer() if request.param == "byte" else bpe_tokenizer()


@given(text=HOSTILE)
def test_byte_content_comes_back_and_holds_no_control_token(text: str) -> None:
    tokenizer = ByteTokenizer()
    ids = tokenizer.encode_plain(text)
    assert all(token_id < 256 for token_id in ids)
    assert tokenizer.decode(ids) == text.encode("utf-8", "replace").decode()


@given(text=HOSTILE)
def test_bpe_content_comes_back_and_holds_no_control_token(text: str) -> None:
    tokenizer = bpe_tokenizer()
    ids = tokenizer.encode_plain(text)
    assert not any(tokenizer.is_control(token_id) for token_id in ids)
    assert tokenizer.decode(ids) == text.encode("utf-8", "replace").decode()


def test_trusted_text_gives_single_control_tokens(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("<|im_start|>user\nhi<|im_end|>\n")
    controls = [tokenizer.token_text(token_id) for token_id in ids if tokenizer.is_control(token_id)]
    assert controls == ["<|im_start|>", "<|im_end|>"]
    assert tokenizer.decode(ids) == "<|im_start|>user\nhi<|im_end|>\n"


def test_added_tags_are_control_tokens_although_they_are_not_special() -> None:
    tokenizer = bpe_tokenizer()
    assert len(tokenizer.encode("<tool_call>")) == 1
    assert len(tokenizer.encode_plain("<tool_call>")) > 1


def test_ids_beyond_the_vocabulary_decode_to_nothing(tokenizer: Tokenizer) -> None:
    beyond = tokenizer.vocab_size + 5
    assert tokenizer.decode([*tokenizer.encode_plain("ab"), beyond]) == "ab"


def test_ids_containing_is_a_superset_of_the_tokens_with_that_character(tokenizer: Tokenizer) -> None:
    found = tokenizer.ids_containing(frozenset(">"))
    assert {i for i in range(tokenizer.vocab_size) if ">" in tokenizer.token_text(i)} <= found
    assert len(found) < tokenizer.vocab_size / 2


def test_a_saved_truncation_or_padding_shortens_or_fills_nothing() -> None:
    fast = bpe_tokenizer()._tokenizer
    backend = type(fast.backend_tokenizer).from_str(fast.backend_tokenizer.to_str())
    backend.enable_truncation(4)
    backend.enable_padding(length=6)
    saved = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|endoftext|>", chat_template="x")
    text = "much longer than four tokens"
    assert HuggingFaceTokenizer("saved", saved).encode_plain(text) == bpe_tokenizer().encode_plain(text)
    assert len(HuggingFaceTokenizer("saved", saved).encode_plain("ab")) == 2


def test_the_text_of_a_token_keeps_the_space_that_decoders_drop_at_the_start() -> None:
    tokenizer = metaspace_tokenizer()
    ids = tokenizer.encode("x </answer >")
    assert tokenizer.decode(ids) == "x </answer >"
    assert "".join(tokenizer.token_text(token_id) for token_id in ids) == " x </answer >"
    ends = TurnEnds(tokenizer, tokenizer.eos_ids, ("</answer>",))
    assert not any(ends.ends(ids[:length]) for length in range(1, len(ids) + 1))
    whole = tokenizer.encode("x </answer>")
    assert [ends.ends(whole[:length]) for length in range(1, len(whole) + 1)] == [False] * (len(whole) - 1) + [True]


def test_loading_knows_the_embedded_one_and_shares_it() -> None:
    assert load_tokenizer("byte") is load_tokenizer("byte")


def test_an_unknown_name_says_what_was_expected(tmp_path: object) -> None:
    with pytest.raises(TokenizerError, match='expected "byte", a folder with tokenizer files, or a model name'):
        load_tokenizer(f"{tmp_path}/nothing-here")


def test_a_tokenizer_without_a_template_is_refused() -> None:
    with pytest.raises(ChatTemplateError, match="has no chat template"):
        bpe_tokenizer("")
