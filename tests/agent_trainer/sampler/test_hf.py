"""Tests of the Hugging Face sampler: its numbers against plain forwards, its cache, its independence of the batch."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

import agent_envs  # noqa: F401 - registers the environments
from agent_envs.errors import ConfigError
from agent_envs.types import Int32Array
from agent_trainer.sampler import SAMPLERS
from agent_trainer.sampler.base import SampledTurn, SamplingParams, TurnRequest
from agent_trainer.sampler.hf import HFSampler
from agent_trainer.sampler.sampling import sampling_logprobs
from tests.agent_trainer.sampler.tiny_models import VOCAB, tiny_model

STOP_ID = 2


def never(_: int) -> bool:
    return False


def tokens(*ids: int) -> Int32Array:
    return np.array(ids, dtype=np.int32)


def request(
    key: int,
    context: Int32Array,
    max_new_tokens: int = 8,
    seed: int = 0,
    stop: Callable[[int], bool] = never,
) -> TurnRequest:
    return TurnRequest(key=key, context=context, max_new_tokens=max_new_tokens, stop=stop, seed=seed)


def finish(sampler: HFSampler) -> dict[int, SampledTurn]:
    """Polls until nothing is queued."""
    turns: dict[int, SampledTurn] = {}
    for _ in range(10_000):
        for turn in sampler.poll():
            turns[turn.key] = turn
        if not sampler._waiting and not sampler._generating:
            return turns
    raise AssertionError("the sampler never finished")


class Player:
    """Plays one episode of random replies of random lengths and keeps every token and log-probability."""

    def __init__(self, key: int, num_turns: int) -> None:
        self.random = np.random.default_rng(key)
        self.key = key
        self.turns_left = num_turns
        self.turn = 0
        self.context = self.random.integers(3, VOCAB, self.random.integers(1, 40)).astype(np.int32)
        self.sampled: list[tuple[int, np.ndarray[Any, Any]]] = []

    def next_request(self) -> TurnRequest:
        self.turn += 1
        return request(
            self.key,
            self.context,
            max_new_tokens=int(self.random.integers(1, 12)),
            seed=1000 * self.key + self.turn,
            stop=lambda token: token == STOP_ID,
        )

    def take(self, turn: SampledTurn) -> bool:
        """Keeps a turn, appends a reply, and says whether the episode goes on."""
        self.sampled.append((len(self.context), turn.logprobs))
        reply = self.random.integers(3, VOCAB, self.random.integers(0, 30)).astype(np.int32)
        self.context = np.concatenate([self.context, turn.ids, reply])
        self.turns_left -= 1
        return self.turns_left > 0


def play(sampler: HFSampler, players: list[Player], late: int = 0) -> None:
    """Plays all to the end; the last ``late`` players join one by one while the others are at work."""
    by_key = {player.key: player for player in players}
    joining = players[len(players) - late :]
    for player in players[: len(players) - late]:
        sampler.submit(player.next_request())
    running = len(players)
    while running:
        if joining:
            sampler.submit(joining.pop().next_request())
        for turn in sampler.poll():
            player = by_key[turn.key]
            if player.take(turn):
                sampler.submit(player.next_request())
            else:
                sampler.release(turn.key)
                running -= 1


def plain_logprobs(model: PreTrainedModel, ids: Int32Array, params: SamplingParams) -> np.ndarray[Any, Any]:
    """The log-probability of each token after the first, by one forward of the whole sequence without any cache."""
    inputs = torch.from_numpy(ids.astype(np.int64))[None]
    with torch.no_grad():
        logits = model(input_ids=inputs).logits[0, :-1]
    return sampling_logprobs(logits, params).gather(-1, inputs[0, 1:, None])[:, 0].numpy()


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("params", [SamplingParams(), SamplingParams(temperature=0.6, top_k=20, top_p=0.95)])
def test_logprobs_of_interleaved_episodes_agree_with_a_plain_forward(
    kind: str, attention: str, params: SamplingParams
) -> None:
    model = tiny_model(kind, attention)
    players = [Player(key, num_turns=1 + key % 4) for key in range(12)]
    play(HFSampler(model, params, max_prefill_tokens=100), players, late=5)
    for player in players:
        plain = plain_logprobs(model, player.context, params)
        for start, logprobs in player.sampled:
            np.testing.assert_allclose(plain[start - 1 : start - 1 + len(logprobs)], logprobs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_an_episode_is_the_same_alone_and_among_many(temperature: float) -> None:
    model, params = tiny_model(), SamplingParams(temperature=temperature)
    together = [Player(key, num_turns=3) for key in range(16)]
    play(HFSampler(model, params, max_batch=5), together, late=7)
    for player in together:
        alone = Player(player.key, num_turns=3)
        play(HFSampler(model, params), [alone])
        np.testing.assert_array_equal(alone.context, player.context)


def test_greedy_tokens_equal_those_of_transformers_generate() -> None:
    model = tiny_model("qwen3")
    context = tokens(5, 9, 30, 4)
    sampler = HFSampler(model, SamplingParams(temperature=0.0))
    sampler.submit(request(0, context, max_new_tokens=20))
    sampler.submit(request(1, tokens(8, 8, 8, 1, 3, 17, 44), max_new_tokens=20))
    expected = model.generate(
        torch.from_numpy(context.astype(np.int64))[None],
        attention_mask=torch.ones(1, 4, dtype=torch.int64),
        do_sample=False,
        max_new_tokens=20,
        min_new_tokens=20,
        suppress_tokens=None,
    )[0, 4:]
    ids = finish(sampler)[0].ids
    until = int(np.argmax(ids == STOP_ID)) if (ids == STOP_ID).any() else 20
    np.testing.assert_array_equal(ids[:until], expected[:until].numpy())


def test_only_new_tokens_pass_through_the_model() -> None:
    model = tiny_model()
    widths: list[int] = []
    hook = model.get_input_embeddings().register_forward_hook(lambda _m, args, _o: widths.append(args[0].shape[1]))
    sampler = HFSampler(model, SamplingParams())
    context = np.arange(3, 53, dtype=np.int32)
    sampler.submit(request(0, context, max_new_tokens=4))
    first = finish(sampler)[0]
    assert widths == [50, 1, 1, 1]
    widths.clear()
    context = np.concatenate([context, first.ids, tokens(7, 7, 7)])
    sampler.submit(request(0, context, max_new_tokens=2))
    finish(sampler)
    hook.remove()
    # The three new tokens, and the turn's last token, which nothing had followed before.
    assert widths == [4, 1]
    assert sampler.counts.prefilled_tokens == 54
    assert sampler.counts.sampled_tokens == 6
    assert (sampler.counts.prefill_calls, sampler.counts.decode_calls) == (2, 4)


def test_a_turn_without_a_reply_continues_where_it_was_cut() -> None:
    model = tiny_model()
    whole = HFSampler(model, SamplingParams(temperature=0.0))
    whole.submit(request(0, tokens(5, 6, 7), max_new_tokens=6))
    cut = HFSampler(model, SamplingParams(temperature=0.0))
    cut.submit(request(0, tokens(5, 6, 7), max_new_tokens=3))
    first = finish(cut)[0].ids
    cut.submit(request(0, np.concatenate([tokens(5, 6, 7), first]), max_new_tokens=3))
    np.testing.assert_array_equal(finish(whole)[0].ids, np.concatenate([first, finish(cut)[0].ids]))


def test_prefill_and_decoding_take_turns() -> None:
    sampler = HFSampler(tiny_model(), SamplingParams(), max_prefill_tokens=1)
    for key in range(3):
        sampler.submit(request(key, tokens(5, 6), max_new_tokens=50))
    calls = []
    for _ in range(7):
        before = sampler.counts.prefill_calls
        sampler.poll()
        calls.append("prefill" if sampler.counts.prefill_calls > before else "decode")
    assert calls == ["prefill", "decode", "prefill", "decode", "prefill", "decode", "decode"]


def test_slots_are_reused_and_the_storage_goes_with_the_last_release() -> None:
    sampler = HFSampler(tiny_model(), SamplingParams())
    for key in range(20):
        sampler.submit(request(key, tokens(5, 6, 7), max_new_tokens=2))
    finish(sampler)
    full = sampler.cache_bytes
    for key in range(0, 20, 2):
        sampler.release(key)
    for key in range(100, 110):
        sampler.submit(request(key, tokens(9, 8), max_new_tokens=2))
    finish(sampler)
    assert sampler.cache_bytes == full > 0
    for key in sampler.held_keys:
        sampler.release(key)
    assert sampler.cache_bytes == 0
    assert not sampler.held_keys


def test_a_reused_slot_shows_nothing_of_its_last_episode() -> None:
    model = tiny_model()
    sampler = HFSampler(model, SamplingParams(temperature=0.0))
    sampler.submit(request(0, tokens(50, 51, 52, 53, 54, 55), max_new_tokens=9))
    sampler.submit(request(1, tokens(4, 4), max_new_tokens=9))
    finish(sampler)
    sampler.release(0)
    sampler.submit(request(2, tokens(5, 6), max_new_tokens=9))
    fresh = HFSampler(model, SamplingParams(temperature=0.0))
    fresh.submit(request(2, tokens(5, 6), max_new_tokens=9))
    np.testing.assert_array_equal(finish(sampler)[2].ids, finish(fresh)[2].ids)


def test_release_in_the_middle_of_a_turn_cancels_it() -> None:
    sampler = HFSampler(tiny_model(), SamplingParams())
    sampler.submit(request(0, tokens(5, 6), max_new_tokens=50))
    sampler.submit(request(1, tokens(5, 6, 7, 8, 9), max_new_tokens=3))
    sampler.poll()
    sampler.release(0)
    sampler.release(12345)
    assert set(finish(sampler)) == {1}
    assert sampler.poll() == []


def test_the_stop_callable_sees_each_token_and_ends_the_turn() -> None:
    seen: list[int] = []

    def third(token: int) -> bool:
        seen.append(token)
        return len(seen) == 3

    sampler = HFSampler(tiny_model(), SamplingParams())
    sampler.submit(request(0, tokens(5, 6), max_new_tokens=50, stop=third))
    turn = finish(sampler)[0]
    assert turn.ids.tolist() == seen
    assert turn.ids.dtype == np.int32
    assert turn.logprobs.dtype == np.float32
    assert turn.logprobs.shape == (3,)


def test_ids_past_the_tokenizer_are_never_sampled() -> None:
    model = tiny_model()
    sampler = HFSampler(model, SamplingParams(), vocab_size=10)
    for key in range(8):
        sampler.submit(request(key, tokens(5, 6), max_new_tokens=20, seed=key))
    assert max(int(turn.ids.max()) for turn in finish(sampler).values()) < 10


def test_training_modes_and_gradient_checkpointing_are_as_before() -> None:
    model = tiny_model()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    model.model.layers[0].eval()
    modes = [module.training for module in model.modules()]
    sampler = HFSampler(model, SamplingParams(temperature=0.0))
    sampler.submit(request(0, tokens(5, 6), max_new_tokens=6))
    ids = finish(sampler)[0].ids
    assert [module.training for module in model.modules()] == modes
    plain = HFSampler(tiny_model(), SamplingParams(temperature=0.0))
    plain.submit(request(0, tokens(5, 6), max_new_tokens=6))
    np.testing.assert_array_equal(ids, finish(plain)[0].ids)


def test_a_peft_model_samples_with_its_adapter() -> None:
    peft = pytest.importorskip("peft", reason="needs the extra `train`, which make test installs")
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    torch.manual_seed(0)
    model = peft.get_peft_model(tiny_model(), config)
    sampler = HFSampler(model, SamplingParams())
    sampler.submit(request(0, tokens(5, 6), max_new_tokens=12))
    turn = finish(sampler)[0]
    plain = plain_logprobs(model.eval(), np.concatenate([tokens(5, 6), turn.ids]), SamplingParams())
    np.testing.assert_allclose(plain[1:], turn.logprobs, atol=1e-5)
    prompt = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
    with pytest.raises(ValueError, match="learns a prompt"):
        HFSampler(peft.get_peft_model(tiny_model(), prompt), SamplingParams())


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (tokens(5, 6), "cannot extend"),
        (tokens(5, 6, 7, 60, 60, 60, 60), "differs from what its cache has seen at position 3"),
        (tokens(9, 6, 7, 60, 60, 60, 60), "at position 0"),
    ],
)
def test_a_context_that_does_not_extend_the_cache_is_refused(context: Int32Array, message: str) -> None:
    sampler = HFSampler(tiny_model(), SamplingParams(), vocab_size=50)
    sampler.submit(request(0, tokens(5, 6, 7), max_new_tokens=2))
    finish(sampler)
    with pytest.raises(ValueError, match=message):
        sampler.submit(request(0, context))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (request(0, tokens()), "T >= 1"),
        (request(0, tokens(5, VOCAB)), "tokenizer is not the model's"),
        (request(0, tokens(-1)), "token id -1"),
        (request(0, tokens(5), max_new_tokens=0), "max_new_tokens must be >= 1"),
        (request(0, tokens(5), max_new_tokens=256), "do not fit the 256 positions"),
    ],
)
def test_requests_that_no_model_could_serve_are_refused(bad: TurnRequest, message: str) -> None:
    sampler = HFSampler(tiny_model(), SamplingParams())
    with pytest.raises(ValueError, match=message):
        sampler.submit(bad)
    assert not sampler.held_keys


def test_a_second_turn_before_the_first_is_finished_is_refused() -> None:
    sampler = HFSampler(tiny_model(), SamplingParams())
    sampler.submit(request(0, tokens(5)))
    with pytest.raises(ValueError, match="still being generated"):
        sampler.submit(request(0, tokens(5)))


def test_nan_weights_are_reported() -> None:
    model = tiny_model()
    torch.nn.init.constant_(model.lm_head.weight, math.nan)
    sampler = HFSampler(model, SamplingParams())
    sampler.submit(request(0, tokens(5)))
    with pytest.raises(FloatingPointError, match="diverged"):
        sampler.poll()


def test_models_that_the_cache_would_compute_wrongly_are_refused() -> None:
    from transformers import (
        BartConfig,
        BartForCausalLM,
        Gemma3ForCausalLM,
        Gemma3TextConfig,
        MambaConfig,
        MambaForCausalLM,
        MistralConfig,
        MistralForCausalLM,
    )

    sizes = {"vocab_size": VOCAB, "hidden_size": 32, "num_hidden_layers": 2}
    more = {**sizes, "intermediate_size": 32, "num_attention_heads": 2, "num_key_value_heads": 2}
    mistral = MistralForCausalLM(MistralConfig(**more, sliding_window=16))
    gemma = Gemma3ForCausalLM(Gemma3TextConfig(**more, head_dim=16))
    mamba = MambaForCausalLM(MambaConfig(**sizes))
    bart = BartForCausalLM(
        BartConfig(
            vocab_size=VOCAB,
            d_model=16,
            decoder_layers=1,
            encoder_layers=1,
            encoder_attention_heads=2,
            decoder_attention_heads=2,
            decoder_ffn_dim=16,
            encoder_ffn_dim=16,
        )
    )
    for model, message in [
        (mistral, "window of 16"),
        (gemma, "sliding_attention"),
        (mamba, "no attention layers|mamba"),
    ]:
        with pytest.raises(ValueError, match=message):
            HFSampler(model, SamplingParams())
    bart.config.is_encoder_decoder = True
    with pytest.raises(ValueError, match="encoder-decoder"):
        HFSampler(bart, SamplingParams())
    flash = tiny_model()
    flash.config._attn_implementation = "flash_attention_2"
    with pytest.raises(ValueError, match="sdpa"):
        HFSampler(flash, SamplingParams())
    with pytest.raises(ValueError, match="transformers causal language model"):
        HFSampler(torch.nn.Linear(2, 2), SamplingParams())


@pytest.mark.parametrize(
    "options", [{"max_batch": 0}, {"max_prefill_tokens": 0}, {"pad_token_id": VOCAB}, {"vocab_size": VOCAB + 1}]
)
def test_options_out_of_range_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"max_batch|pad_token_id|vocab_size"):
        HFSampler(tiny_model(), SamplingParams(), **options)


def test_the_registry_makes_a_sampler_for_an_environment_and_loads_nothing_before() -> None:
    core = gym.make("AgentR1/HotpotQA-v0", max_context=1024).unwrapped.core
    model = tiny_model(max_positions=1024, vocab_size=core.tokenizer.vocab_size + 5)
    sampler = SAMPLERS.get("hf")(model, SamplingParams(), core)
    assert isinstance(sampler, HFSampler)
    with pytest.raises(ConfigError, match="has only 61 embeddings"):
        HFSampler.for_environment(tiny_model(), SamplingParams(), core)
    with pytest.raises(ConfigError, match="max_context=512 or less"):
        HFSampler.for_environment(tiny_model(max_positions=512, vocab_size=300), SamplingParams(), core)
    code = "import sys, agent_trainer.sampler; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
