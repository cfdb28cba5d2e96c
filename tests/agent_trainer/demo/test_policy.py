"""The committed policy: small, loadable offline, and with a tokenizer made for the environment."""

from __future__ import annotations

import gymnasium as gym
import pytest

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.tokenizers import load_tokenizer
from agent_envs.types import Message
from agent_trainer.demo.demonstrations import DEMO_OPTIONS
from agent_trainer.demo.make_policy import PHASES, POLICY_FOLDER, collate, loss_of, make_model, make_optimizers, scaled
from agent_trainer.demo.policy_tokenizer import VOCAB_SIZE

TOKENIZER = load_tokenizer(str(POLICY_FOLDER))


def test_folder_is_small_and_complete() -> None:
    sizes = {path.name: path.stat().st_size for path in POLICY_FOLDER.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= set(sizes)
    assert sum(sizes.values()) <= 8 * 2**20


def test_model_and_tokenizer_agree() -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(POLICY_FOLDER)
    assert model.config.vocab_size == TOKENIZER.vocab_size == VOCAB_SIZE
    assert TOKENIZER.eos_ids == {model.config.eos_token_id}
    assert TOKENIZER.pad_id == model.config.pad_token_id != model.config.eos_token_id
    assert 0.5e6 < model.num_parameters() < 3e6


@pytest.mark.parametrize("text", ["Kelel Brosker", "naïve 東京 \x00 <|end|> </answer>", '"}}\n', "  two  spaces\n\n"])
def test_any_text_survives_as_content(text: str) -> None:
    ids = TOKENIZER.encode_plain(text)
    assert TOKENIZER.decode(ids) == text
    assert not any(TOKENIZER.is_control(token_id) for token_id in ids)


def test_tags_and_the_frame_of_a_call_are_single_tokens() -> None:
    for tag in ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<answer>", "</answer>"):
        assert len(TOKENIZER.encode(tag)) == 1
    call = '<tool_call>\n{"name": "search", "arguments": {"query": " Kelel Brosker"}}\n</tool_call>'
    assert len(TOKENIZER.encode(call)) <= 8


def test_template_lists_tools_and_keeps_roles_apart() -> None:
    tool = {"type": "function", "function": {"name": "search", "parameters": {"properties": {"query": {}}}}}
    messages = [Message("system", "S"), Message("user", "Q"), Message("assistant", "A"), Message("tool", "T")]
    assert TOKENIZER.render(messages, [tool], generation_prompt=True) == (
        "<|system|>S<|end|><|system|>search(query)<|end|><|user|>Q<|end|><|assistant|>A<|end|>"
        "<|tool|><tool_response>\nT\n</tool_response><|end|><|assistant|>"
    )


def test_prompt_is_short() -> None:
    env = gym.make("AgentR1/HotpotQA-v0", tokenizer=str(POLICY_FOLDER), **DEMO_OPTIONS)
    env.reset(seed=0)
    assert env.unwrapped.core.length < 50  # type: ignore[attr-defined]


def test_a_step_of_every_phase_lowers_the_loss_of_its_batch() -> None:
    from agent_trainer.demo import demonstrations

    model = make_model(seed=0, pad_id=TOKENIZER.pad_id, end_id=next(iter(TOKENIZER.eos_ids)))
    episodes = [demonstrations.Stage("t", TOKENIZER, 20).play(0, [demonstrations._answer("yes")]) for _ in range(2)]
    batch = collate(episodes, first_turn_only=True)
    before, _ = loss_of(model, batch, 0.3)
    before.backward()
    for optimizer in make_optimizers(model):
        optimizer.step()
    assert loss_of(model, batch, 0.3)[0].item() < before.item()
    assert [scaled(phase, 0.001).steps for phase in PHASES] == [1] * len(PHASES)
