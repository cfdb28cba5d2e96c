"""The demo policy's tokenizer: byte-pair encoding learned on made-up worlds, and its own compact chat template."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agent_envs.data.mini_hotpot import generate_world, mini_names

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

VOCAB_SIZE = 2048
_NUM_WORLDS = 12
_CONTROL = ("<|pad|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
# The tags of the tool format, and the fixed parts of a call, each a single token: a call takes about seven.
_TAGS = (
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<answer>",
    "</answer>",
    '\n{"name": "search", "arguments": {"query": "',
    '"}}\n',
)

CHAT_TEMPLATE = """\
{%- if messages and messages[0]['role'] == 'system' %}
{{- '<|system|>' + messages[0]['content'] + '<|end|>' }}
{%- endif %}
{%- if tools %}
{{- '<|system|>' }}
{%- for tool in tools %}
{{- (tool.function or tool).name + '(' + (tool.function or tool).parameters.properties.keys() | join(', ') + ')' }}
{%- if not loop.last %}{{- '\\n' }}{%- endif %}
{%- endfor %}
{{- '<|end|>' }}
{%- endif %}
{%- for message in messages %}
{%- if message['role'] == 'tool' %}
{{- '<|tool|><tool_response>\\n' + message['content'] + '\\n</tool_response><|end|>' }}
{%- elif message['role'] != 'system' %}
{{- '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}
{%- elif not loop.first %}
{{- raise_exception('the system message comes first') }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|assistant|>' }}
{%- endif %}
"""


def train_tokenizer() -> PreTrainedTokenizerFast:
    """Learns the merges; the same every time. Takes about a second."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE - len(_CONTROL) - len(_TAGS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(), trainer)
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in _CONTROL])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in _TAGS])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<|pad|>",
        eos_token="<|end|>",
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=1024,
    )


def _texts() -> Iterator[str]:
    """Questions and search results as the policy reads them, of worlds apart from the embedded parts."""
    for number in range(_NUM_WORLDS):
        questions = generate_world(f"tokenizer/{number}", 600, exclude=mini_names())
        passages = dict.fromkeys(passage for question in questions for passage in question.passages)
        yield from (f" {question.question}" for question in questions)
        yield from (f"[1] {passage.title}\n{passage.text}" for passage in passages)
