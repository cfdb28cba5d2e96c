"""``agentr1 eval``: how well a model does on an environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from agent_envs.errors import ConfigError
from agent_envs.options import parse_assignments
from agent_envs.registration import require_id
from agent_trainer.commands.extras import require_train_extra

if TYPE_CHECKING:
    from torch import nn

    from agent_trainer.evaluate import Evaluation


def evaluate_model(  # noqa: PLR0913 - a command's arguments are its options
    model: Annotated[str, typer.Argument(help="A model's folder, or its name on the Hugging Face hub.")],
    env_id: Annotated[str, typer.Argument(metavar="ENV", help="Such as AgentR1/HotpotQA-v0; see agentr1 envs.")],
    options: Annotated[
        list[str] | None, typer.Argument(help="Options of the environment as key=value, such as top_k=3.")
    ] = None,
    recipe: Annotated[
        str | None, typer.Option(help="A recipe (file or name) whose environment options to play under.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Which questions, such as mini/test.")] = None,
    n: Annotated[int | None, typer.Option("-n", "--questions", help="How many of them; all where not given.")] = None,
    temperature: Annotated[float, typer.Option(help="0 takes the most likely token.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Chooses the questions.")] = 0,
    output: Annotated[Path, typer.Option(help="Folder for episodes.jsonl and summary.json.")] = Path("runs/eval"),
) -> None:
    """Play a model on questions and print EM, F1 and more, with 95 % intervals.

    Every question becomes a line of episodes.jsonl in the output folder: what was asked, said, found and answered.
    A model that was trained by a recipe is best played under the same prompt and budgets: --recipe takes them over.

    Such as:

    agentr1 eval runs/demo/model AgentR1/HotpotQA-v0 --recipe hotpotqa_demo --split mini/test -n 300

    agentr1 eval Qwen/Qwen2.5-0.5B-Instruct AgentR1/HotpotQA-v0 dataset=dev.json max_turns=5 -n 100
    """
    require_train_extra("agentr1 eval")
    from agent_trainer.evaluate import EvaluationSettings, evaluate, write_summary
    from agent_trainer.recipe import model_location
    from agent_trainer.sampler import SamplingParams

    require_id(env_id)
    model = model_location(model)
    given = parse_assignments(options or [])
    if split is not None and given.setdefault("split", split) != split:
        raise ConfigError(f"--split is {split!r}, but split={given['split']!r} is given too")
    env_options: dict[str, Any] = {"tokenizer": model, **_options_of(recipe, model, env_id), **given}
    settings = EvaluationSettings(
        sampling=SamplingParams(temperature=temperature), seed=seed, records=output / "episodes.jsonl"
    )
    result = evaluate(_load(model), env_id, env_options, n, settings)
    write_summary(result, output / "summary.json")
    console = Console()
    console.print(_table(model, result))
    console.print(f"written: {output / 'episodes.jsonl'}, {output / 'summary.json'}")


def _options_of(recipe: str | None, model: str, env_id: str) -> dict[str, Any]:
    """The environment's options of a recipe.

    Raises:
        ConfigError: there is no such recipe, or it is for another environment.
    """
    if recipe is None:
        return {}
    from agent_trainer.recipe import load_recipe

    config = load_recipe(recipe, [f"model={json.dumps(model)}"]).config()
    if config.env_id != env_id:
        raise ConfigError(f"the recipe {recipe!r} is for {config.env_id}, not for {env_id}")
    return config.eval_environment_options


def _load(model: str) -> nn.Module:
    """The model, on the accelerator where there is one (in bfloat16 there).

    Raises:
        ConfigError: it cannot be loaded.
    """
    import torch
    from transformers import AutoModelForCausalLM

    on_gpu = torch.accelerator.is_available()
    try:
        loaded = AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16 if on_gpu else torch.float32)
    except (OSError, ValueError) as error:
        first_line = (str(error).splitlines() or [repr(error)])[0]
        raise ConfigError(
            f"cannot load the model {model!r}: expected a folder that holds one, or a name on the Hugging Face hub "
            f"({first_line})"
        ) from error
    return loaded.to(torch.accelerator.current_accelerator()) if on_gpu else loaded  # type: ignore[no-any-return]


def _table(model: str, result: Evaluation) -> Table:
    title = f"{model} on {result.env_id}: {result.questions} questions"
    table = Table("", "mean", "95 % interval", title=title, title_justify="left", box=None, pad_edge=False)
    estimates = {**result.metrics, "malformed share": result.malformed_share, "truncated share": result.truncated_share}
    for name, value in estimates.items():
        table.add_row(name, f"{value.mean:.3f}", f"{value.low:.3f} to {value.high:.3f}")
    if result.failed:
        table.add_row("failed, left out", str(result.failed), "")
    table.add_row("seconds", f"{result.seconds:.1f}", f"{result.stats.tokens_per_s:.0f} tokens/s")
    return table
