"""Small Hugging Face tokenizers with chat templates of every temper, made on the spot."""

from __future__ import annotations

import functools

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from agent_envs.tokenizers import HuggingFaceTokenizer

TEXT = (
    "Who directed the film The Silent Harbour? The film was directed by Mara Velt, who was born in Ostrava in 1951. "
    '{"name": "search", "arguments": {"query": "The Silent Harbour"}} What is document 1? '
    "alpha beta gamma lookup number "
) * 4

PLAIN = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
NO_GENERATION_PROMPT = PLAIN.partition("{% if add")[0]
# Knows tools, lets neighbouring tool results share a message, and drops the thoughts of earlier turns.
WITH_TOOLS = (
    "{% if tools %}<|im_start|>system\n"
    "{% if messages[0].role == 'system' %}{{ messages[0].content }}\n{% endif %}"
    "Tools:{% for tool in tools %}\n{{ tool | tojson }}{% endfor %}<|im_end|>\n{% endif %}"
    "{% for message in messages %}{% if message.role == 'tool' %}"
    "{% if loop.previtem is not defined or loop.previtem.role != 'tool' %}<|im_start|>user{% endif %}"
    "{{ '\n' }}<tool_response>\n{{ message.content }}\n</tool_response>"
    "{% if loop.nextitem is not defined or loop.nextitem.role != 'tool' %}<|im_end|>\n{% endif %}"
    "{% elif message.role == 'assistant' %}<|im_start|>assistant\n"
    "{{ message.content.split('</think>')[-1] }}<|im_end|>\n"
    "{% elif not (tools and message.role == 'system') %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# No system role, and users and assistants take turns.
STRICT = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "<|im_start|>{{ message.role }}\n{{ message.content | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# The end of a turn is plain text.
NO_END_TOKEN = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n###\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
# Teaches tools and calls of its own, as Llama 3 does, and quotes results.
OTHER_CONVENTION = (
    "{% if tools %}<|im_start|>system\nAnswer with JSON.{% for tool in tools %}\n{{ tool | tojson }}{% endfor %}"
    "<|im_end|>\n{% endif %}{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.role == 'tool' %}{{ message.content | tojson }}{% else %}{{ message.content }}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# The end of a user's message is what begins the assistant's turn, as in Mistral's.
NOTHING_TO_ADD = (
    "{% for message in messages %}{% if message.role == 'assistant' %} {{ message.content }}<|endoftext|>"
    "{% else %}<|im_start|>{{ message.content }}<|im_end|>{% endif %}{% endfor %}"
)
# What begins the next message ends a turn, and it differs between users and tools, as in GLM's.
NO_OWN_END = (
    "{% if tools %}<tool_call>{{ tools | tojson }}{% endif %}{% for message in messages %}"
    "{{ {'user': '<|im_start|>', 'tool': '<|im_end|>', 'assistant': '<|pad|>'}.get(message.role, '') }}\n"
    "{{ message.content }}{% endfor %}{% if add_generation_prompt %}<|pad|>{% endif %}"
)


@functools.cache
def metaspace_tokenizer() -> HuggingFaceTokenizer:
    """A BPE that writes a space as part of the next token, and whose decoder drops the first one of a text."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=["\n", *map(chr, range(33, 127))], show_progress=False
    )
    backend.train_from_iterator([f"{TEXT} <answer> </answer> >"], trainer)
    backend.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>")
    fast.chat_template = PLAIN
    return HuggingFaceTokenizer("small-metaspace", fast)


@functools.cache
def bpe_tokenizer(template: str = WITH_TOOLS) -> HuggingFaceTokenizer:
    """A byte-level BPE with ChatML's special tokens and ``<tool_call>`` tags as added, not special, tokens."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    backend.train_from_iterator([TEXT], trainer)
    backend.add_special_tokens(["<|pad|>", "<|im_start|>", "<|im_end|>", "<|endoftext|>"])
    tags = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
    backend.add_tokens([AddedToken(tag, normalized=False, special=False) for tag in tags])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<|endoftext|>", bos_token="<|endoftext|>", pad_token="<|pad|>"
    )
    fast.chat_template = template
    return HuggingFaceTokenizer("small-bpe", fast)


@functools.cache
def llama_tokenizer(template: str) -> HuggingFaceTokenizer:
    """Single bytes, and the control tokens of Llama 3."""
    backend = Tokenizer(models.BPE({letter: at for at, letter in enumerate(pre_tokenizers.ByteLevel.alphabet())}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(
        ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>", "<|python_tag|>", "<|end_of_text|>"]
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end_of_text|>")
    fast.chat_template = template
    return HuggingFaceTokenizer("small-llama", fast)
