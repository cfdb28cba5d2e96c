"""Rollout tokens per second: this project's engine against TRL's ``environment_factory`` loop, in one run.

Both play the same task (the embedded HotpotQA, search by BM25, the same tool function) with the same model, tokenizer,
chat template, batch, number of threads and turns. What is timed is rollout only: prompts to finished episodes; TRL's
rewards and its separate pass for log-probabilities are left out, though this project's sampler gives them on the way.

An untrained model calls no tool, so its *choice* of tokens is forced, on both sides by the same hook: the model
computes its whole forward pass, and then the logits are replaced by a table that looks at the last token only. It makes
every turn one well-formed ``search`` call of random words, whose number is drawn token by token (geometric), so turns
differ in length as real ones do. Every episode has the same number of turns; the last call is not run, on both sides.

Run: ``python benchmarks/bench_rollout_vs_trl.py`` (needs the extra ``train``; some minutes on 2 cores). Figures go to
``benchmarks/results/``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

import gymnasium as gym
import torch
import transformers
import trl
from datasets import Dataset
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import agent_envs  # noqa: F401 - registers the environments
from agent_envs.data.mini_hotpot import mini_split
from agent_envs.data.records import Passage
from agent_envs.retrieval import RETRIEVERS
from agent_envs.retrieval.base import Hit, Retriever
from agent_trainer.rollout import EpisodeSpec, RolloutEngine
from agent_trainer.sampler.base import SamplingParams
from agent_trainer.sampler.hf import HFSampler

RESULTS = Path(__file__).resolve().parent / "results" / "rollout_vs_trl.json"
TEMPLATE = Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja"
OPEN, CLOSE = '<tool_call>\n{"name": "search", "arguments": {"query": "', '"}}\n</tool_call>'
END, PAD = "<|im_end|>", "<|endoftext|>"
MAX_POSITIONS = 4096
SIZES = {  # hidden size, layers, heads
    "2M": (192, 4, 6),
    "15M": (448, 6, 7),
}


@dataclass(frozen=True)
class Workload:
    """What both sides play. ``words`` is the mean number of words of a query; ``delay_s`` is added to each search."""

    size: str
    episodes: int
    turns: int
    words: float
    delay_s: float


@dataclass(frozen=True)
class Measured:
    """One rollout of all episodes: sampled tokens, tokens of tool results and prompts, turns, seconds."""

    sampled_tokens: int
    observed_tokens: int
    prompt_tokens: int
    turns: int
    seconds: float

    @property
    def tokens_per_s(self) -> float:
        """Sampled tokens per second."""
        return self.sampled_tokens / self.seconds


class DelayedRetriever:
    """A retriever that answers after a while, as one over a network does."""

    def __init__(self, inner: Retriever, delay_s: float) -> None:
        self.inner, self.delay_s = inner, delay_s

    def search(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        """The inner retriever's hits."""
        time.sleep(self.delay_s)
        return self.inner.search(queries, top_k)


def make_tokenizer(folder: Path) -> str:
    """A byte-level BPE trained on the embedded world, with Qwen 2.5's chat template; gives the folder's name."""
    texts = [
        f"{passage.title} {passage.text}" for question in mini_split("train")[:400] for passage in question.passages
    ]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=2000, initial_alphabet=alphabet, show_progress=False)
    )
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in (PAD, "<|im_start|>", END)])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in (OPEN, CLOSE)])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token=PAD, padding_side="left", model_max_length=MAX_POSITIONS
    )
    fast.chat_template = TEMPLATE.read_text(encoding="utf-8")
    fast.save_pretrained(folder)
    return str(folder)


def make_model(size: str, tokenizer: PreTrainedTokenizerFast, words: float) -> LlamaForCausalLM:
    """A random Llama of that size whose logits the table replaces after each forward pass."""
    hidden, layers, heads = SIZES[size]
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=hidden,
            intermediate_size=hidden * 8 // 3,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=heads,
            max_position_embeddings=MAX_POSITIONS,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
        )
    )
    table = next_token_table(tokenizer, words)

    def force(_module: nn.Module, _args: Any, kwargs: dict[str, Any], output: Any) -> Any:
        output.logits = table[kwargs["input_ids"][:, -output.logits.shape[1] :]]
        return output

    model.register_forward_hook(force, with_kwargs=True)
    return model


def next_token_table(tokenizer: PreTrainedTokenizerFast, words: float) -> torch.Tensor:
    """float32 ``[V, V]`` logits by the last token: a call opens, words follow, it closes with chance 1/words."""
    vocabulary = tokenizer.get_vocab()
    chosen = sorted(
        i for token, i in vocabulary.items() if token.startswith("Ġ") and token[1:].isalpha() and len(token) > 3
    )
    line_break = vocabulary["Ċ"]
    opens, closes, ends = (vocabulary[token] for token in (OPEN, CLOSE, END))
    table = torch.full((len(vocabulary), len(vocabulary)), -1e4)
    table[:, ends] = 0.0
    table[line_break] = -1e4
    table[line_break, opens] = 0.0
    for last in (opens, *chosen):
        table[last] = -1e4
        table[last, chosen] = 0.0
    table[chosen, closes] = math.log(len(chosen) / (words - 1))
    return table


def rollout_ours(model: LlamaForCausalLM, options: dict[str, Any], work: Workload) -> Measured:
    """All episodes through this project's engine."""
    core = gym.make("AgentR1/HotpotQA-v0", **options).unwrapped.core  # type: ignore[attr-defined]
    sampler = HFSampler.for_environment(model, SamplingParams(temperature=1.0), core)
    engine = RolloutEngine(lambda: gym.make("AgentR1/HotpotQA-v0", **options), sampler, work.episodes, num_threads=8)
    ids = core.task.task_ids()
    specs = [EpisodeSpec(ids[i // 8], env_seed=i // 8, sampling_seed=i, group=i // 8) for i in range(work.episodes)]
    started = time.perf_counter()
    rollouts = engine.run(specs)
    seconds = time.perf_counter() - started
    engine.close()
    episodes = [rollout.episode for rollout in rollouts if rollout.episode is not None and not rollout.failed]
    assert len(episodes) == work.episodes, [rollout.error for rollout in rollouts if rollout.failed]
    prompts = sum(episode.segments[0].prompt_length for episode in episodes)
    sampled = sum(int(episode.action_mask.sum()) for episode in episodes)
    total = sum(len(episode.tokens) for episode in episodes)
    return Measured(sampled, total - prompts - sampled, prompts, sum(len(e.turns) for e in episodes), seconds)


def make_trl(model: LlamaForCausalLM, options: dict[str, Any], work: Workload, folder: str) -> Callable[[], Measured]:
    """A function that plays all episodes through TRL's loop."""
    core = gym.make("AgentR1/HotpotQA-v0", **options).unwrapped.core  # type: ignore[attr-defined]
    search_function = core.tools[0].function

    class SearchEnvironment:
        def reset(self, **_row: Any) -> None:
            return None

        def search(self, query: str) -> str:
            """Search an encyclopaedia for passages that match a query.

            Args:
                query: the words to look for, such as a name.
            """
            return str(search_function(query=query).content)

    questions = [core.task.user_prompt(core.task.item(i // 8)) for i in range(work.episodes)]
    system = core.task.system_prompt
    chats = [[{"role": "system", "content": system}, {"role": "user", "content": question}] for question in questions]
    rows = [{"prompt": chat} for chat in chats]
    trainer = trl.GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_kwargs: [0.0] * len(completions),
        args=trl_config(work, folder),
        train_dataset=Dataset.from_list(rows),
        processing_class=transformers.AutoTokenizer.from_pretrained(folder),
        environment_factory=SearchEnvironment,
    )
    model.train()
    seen: list[Measured] = []
    generate = trainer._generate

    def timed(prompts: list[Any]) -> Any:
        started = time.perf_counter()
        output = generate(prompts)
        seconds = time.perf_counter() - started
        masks = output[2]
        turns = sum(sum(1 for message in chat if message["role"] == "assistant") for chat in output[3])
        sampled = sum(sum(mask) for mask in masks)
        seen.append(Measured(sampled, sum(map(len, masks)) - sampled, sum(map(len, output[0])), turns, seconds))
        raise _RolloutIsOverError

    trainer._generate = timed

    def rollout() -> Measured:
        try:
            trainer._generate_and_score_completions(rows)
        except _RolloutIsOverError:
            return seen.pop()
        raise AssertionError("TRL no longer generates through _generate")

    return rollout


def trl_config(work: Workload, folder: str) -> trl.GRPOConfig:
    """TRL's options for one batch of all episodes."""
    return trl.GRPOConfig(
        output_dir=folder,
        use_cpu=True,
        bf16=False,
        report_to=[],
        per_device_train_batch_size=work.episodes,
        num_generations=8,
        max_completion_length=MAX_POSITIONS // 2,
        max_tool_calling_iterations=work.turns - 1,
        temperature=1.0,
    )


class _RolloutIsOverError(Exception):
    """Leaves TRL's step after the rollout, before rewards and log-probabilities."""


def compare(work: Workload, folder: str, repeats: int) -> dict[str, Any]:
    """Both sides in turn; medians and their ratio."""
    retriever = f"bm25 after {work.delay_s:g} s"
    if retriever not in RETRIEVERS:
        RETRIEVERS.register(retriever, lambda passages, encoder=None: _delayed(passages, work.delay_s))
    options = {
        "tokenizer": folder,
        "retriever": retriever,
        "max_turns": work.turns,
        "max_context": MAX_POSITIONS,
        "ask_final_answer": False,
    }
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = make_model(work.size, tokenizer, work.words)
    trl_rollout = make_trl(model, options, work, folder)
    rollout_ours(model, {**options, "max_turns": 2}, Workload(work.size, 8, 2, work.words, 0.0))
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(rollout_ours(model, options, work))
        theirs.append(trl_rollout())
    for side in (ours, theirs):
        assert all(measured.turns == work.episodes * work.turns for measured in side), [m.turns for m in side]
    rates = [statistics.median(measured.tokens_per_s for measured in side) for side in (ours, theirs)]
    return {
        "workload": {**asdict(work), "parameters": sum(parameter.numel() for parameter in model.parameters())},
        "ours": [asdict(measured) for measured in ours],
        "trl": [asdict(measured) for measured in theirs],
        "ours_tokens_per_s": rates[0],
        "trl_tokens_per_s": rates[1],
        "ratio": rates[0] / rates[1],
    }


def _delayed(passages: tuple[Passage, ...], delay_s: float) -> Retriever:
    inner = RETRIEVERS.get("bm25")(passages)
    return DelayedRetriever(inner, delay_s) if delay_s else inner


def main() -> None:
    """Runs the workloads, prints a line for each, and keeps the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--episodes", type=int, default=32, help="a multiple of 8")
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--words", type=float, default=24.0, help="mean words of a query")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sizes", nargs="+", choices=sorted(SIZES), default=["2M", "15M"])
    parser.add_argument("--delays", nargs="+", type=float, default=[0.0, 0.05], help="seconds added to each search")
    parser.add_argument("--threads", type=int, default=1, help="of torch, for both sides")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    warnings.filterwarnings("ignore")
    transformers.utils.logging.set_verbosity_error()
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        make_tokenizer(Path(folder))
        for size in arguments.sizes:
            for delay_s in arguments.delays if size == arguments.sizes[0] else [0.0]:
                work = Workload(size, arguments.episodes, arguments.turns, arguments.words, delay_s)
                runs.append(compare(work, folder, arguments.repeats))
                print(_line(work, runs[-1]), flush=True)
                keep(runs)
    print(f"written to {RESULTS}")


def keep(runs: list[dict[str, Any]]) -> None:
    """Writes what has been measured so far."""
    machine = {
        "cpu": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "trl": trl.__version__}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"machine": machine, "versions": versions, "runs": runs}, indent=1) + "\n")


def _line(work: Workload, run: dict[str, Any]) -> str:
    return (
        f"{work.size} parameters, {work.episodes} episodes of {work.turns} turns, +{work.delay_s:g} s a search: "
        f"{run['ours_tokens_per_s']:.0f} tokens/s, TRL {run['trl_tokens_per_s']:.0f}, ratio {run['ratio']:.2f}"
    )


if __name__ == "__main__":
    main()
