"""The tokenizer object that transformers' trainer wants beside a model, whatever tokenizer the environment takes."""

from __future__ import annotations

from transformers import AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from agent_envs.errors import TokenizerError
from agent_envs.tokenizers import ByteTokenizer


def load_processing_class(name: str) -> PreTrainedTokenizerBase:
    """The transformers tokenizer of that name; for "byte", one with the same ids as the embedded tokenizer.

    Raises:
        TokenizerError: it cannot be loaded.
    """
    if name == "byte":
        return byte_processing_class()
    try:
        loaded: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            name, padding_side="left", truncation_side="left"
        )
    except Exception as error:  # from_pretrained raises anything from OSError to KeyError
        first_line = (str(error).splitlines() or [repr(error)])[0]
        raise TokenizerError(f"cannot load the tokenizer {name!r} ({type(error).__name__}: {first_line})") from error
    return loaded


def byte_processing_class() -> PreTrainedTokenizerBase:
    """A byte-level BPE without merges: id i is byte i, then the special tokens, as in ``ByteTokenizer``."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    vocabulary = {_visible(byte): byte for byte in range(256)}
    inner = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(list(ByteTokenizer.SPECIALS))
    pad, _, end = ByteTokenizer.SPECIALS
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token=pad, eos_token=end, padding_side="left")


def _visible(byte: int) -> str:
    """The character that byte-level BPE writes for a byte: itself where it is printable, else one from 256 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    if byte in printable:
        return chr(byte)
    return chr(256 + sum(other not in printable for other in range(byte)))
