"""``agentr1 train``: a recipe, run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from agent_envs.errors import AgentEnvError, ConfigError
from agent_trainer.commands.extras import require_train_extra

if TYPE_CHECKING:
    from agent_trainer.recipe import Recipe
    from agent_trainer.trainer import AgentTrainer

_INTERRUPTED = 130  # the shell's own code for Ctrl-C


def train(
    recipe: Annotated[str, typer.Argument(help="A YAML file, or the name of a recipe that comes along.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="key=value on top of it; a dot reaches inside: env_kwargs.top_k=3.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint in the output folder.")
    ] = False,
) -> None:
    """Train a policy by a recipe: one YAML file with the model, the environment and the options.

    The output folder gets the trained model, checkpoints, TensorBoard logs and every episode as a line of
    episodes.jsonl. Ctrl-C stops cleanly; --resume goes on.

    Such as:

    agentr1 train hotpotqa_demo

    agentr1 train hotpotqa_demo max_steps=20 output_dir=runs/first seed=1

    agentr1 train my.yaml model=Qwen/Qwen2.5-0.5B-Instruct prompts_per_step=16 env_kwargs.max_turns=4

    tensorboard --logdir runs
    """
    require_train_extra("agentr1 train")
    from agent_trainer.recipe import load_recipe

    read = load_recipe(recipe, overrides or [])
    trainer = _trainer_of(read)
    console = Console()
    if trainer.accelerator.is_main_process:
        console.print(_overview(read, trainer))
    try:
        trainer.train(resume_from_checkpoint=resume or None)
    except KeyboardInterrupt:
        step = trainer.state.global_step
        rest = " and a checkpoint of it, and --resume goes on from there" if step else "; no checkpoint yet"
        console.print(f"stopped after step {step}; {trainer.args.output_dir} holds the episodes{rest}")
        raise typer.Exit(_INTERRUPTED) from None
    trainer.save_model(trainer.args.output_dir)
    console.print(f"the trained model is in {trainer.args.output_dir}")


def _trainer_of(recipe: Recipe) -> AgentTrainer:
    """The trainer of a recipe.

    Raises:
        ConfigError: the model cannot be loaded, or an option is wrong.
    """
    from agent_trainer.trainer import AgentTrainer

    args = recipe.config()
    try:
        return AgentTrainer(model=recipe.model, args=args, peft_config=recipe.peft_config())
    except OSError as error:  # what transformers raises for a name or folder that it cannot load
        first_line = (str(error).splitlines() or [repr(error)])[0]
        raise ConfigError(
            f"cannot load the model {recipe.model!r}: expected a folder that holds one, or a name on the Hugging Face "
            f"hub ({first_line})"
        ) from error
    except AgentEnvError:
        raise
    except ValueError as error:  # TRL's and PEFT's word for options that do not go together or fit the model
        raise ConfigError(f"recipe {recipe.name}: {error}") from error


def _overview(recipe: Recipe, trainer: AgentTrainer) -> Table:
    """What is about to run, in counts."""
    args = trainer.args
    prompts = args.generation_batch_size // args.group_size
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters() if parameter.requires_grad)
    evaluation = f"{args.eval_tasks} tasks" if args.eval_tasks else "none"
    rows = {
        "policy": f"{recipe.model}, {parameters / 1e6:.1f} M trained parameters, on {trainer.accelerator.device}",
        "environment": f"{args.env_id}, {len(trainer.stage.task_ids)} tasks; evaluation: {evaluation}",
        "a generation": f"{prompts} prompts x {args.group_size} episodes = {args.generation_batch_size} episodes",
        "an update": (
            f"{args.generation_batch_size // args.updates_per_rollout} episodes in {args.gradient_accumulation_steps} "
            f"micro-batches of {args.per_device_train_batch_size} x {args.world_size} processes"
        ),
        "algorithm": (
            f"{args.estimator}, {args.surrogate} loss by {args.loss_aggregation}, KL {args.beta} in the {args.kl_in}, "
            f"rate {args.learning_rate}"
        ),
        "output": str(Path(args.output_dir).resolve()),
    }
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in rows.items():
        table.add_row(name, value)
    return table
