from __future__ import annotations

from pathlib import Path

import pytest

from agent_envs.errors import ConfigError
from agent_trainer.recipe import load_recipe, model_location, recipe_names


def recipe(folder: Path, text: str) -> str:
    path = folder / "mine.yaml"
    path.write_text(text)
    return str(path)


def test_the_published_settings_are_in_the_recipe() -> None:
    args = load_recipe("hotpotqa_grpo", ["report_to=none"]).config()
    assert args.generation_batch_size == 128 * 5
    assert args.generation_batch_size // args.updates_per_rollout == 64 * 5
    assert (args.learning_rate, args.beta, args.group_size, args.max_turns, args.max_turn_tokens) == (
        1e-6,
        1e-3,
        5,
        5,
        1024,
    )
    assert args.environment_options["reward"] == "paper"


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_that_comes_along_is_sound(name: str) -> None:
    read = load_recipe(name, ["model=somewhere", "report_to=none"])
    assert read.config().output_dir == f"runs/{name}"
    assert read.peft_config() is None


def test_words_of_the_command_line_win_and_reach_inside(tmp_path: Path) -> None:
    path = recipe(tmp_path, "model: a\nmax_steps: 5\nenv_kwargs: {top_k: 2, split: mini}\n")
    read = load_recipe(path, ["max_steps=7", "env_kwargs.top_k=4", "lora.r=8", "learning_rate=1e-4", "model=b"])
    assert read.model == "b"
    assert read.options["max_steps"] == 7
    assert read.options["env_kwargs"] == {"top_k": 4, "split": "mini"}
    assert read.options["learning_rate"] == 1e-4
    assert read.peft_config().r == 8


def test_yaml_brings_no_surprises(tmp_path: Path) -> None:
    read = load_recipe(
        recipe(tmp_path, "model: a\nsave_strategy: no\nlearning_rate: 3e-6\nloss_mask: false\nrun_name: 12\n")
    )
    assert read.options["save_strategy"] == "no"
    assert read.options["learning_rate"] == 3e-6
    assert read.options["loss_mask"] is False
    assert read.options["run_name"] == "12"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: a\nlearning_rat: 1\n", "unknown option 'learning_rat'. Did you mean 'learning_rate'"),
        ("model: a\nmax_steps: many\n", "max_steps is int, not 'many'"),
        ("model: a\nmax_turns: 2.5\n", "max_turns is int"),
        ("model: a\nloss_mask: perhaps\n", "loss_mask is bool, not 'perhaps'"),
        ("model: a\nenv_kwargs: [1]\n", "env_kwargs is dict"),
        ("max_steps: 3\n", "no model"),
        ("model: a\nmodel: b\n", "the key 'model' comes twice"),
        ("model: [a\n", "is no YAML"),
        ("just text\n", "expected a mapping"),
        ("", "expected a mapping"),
    ],
)
def test_a_broken_recipe_is_an_error_that_names_the_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("[", r"\[")):
        load_recipe(recipe(tmp_path, text))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("max_steps", "expected key=value"),
        ("=3", "expected key=value"),
        ("max_steps.x=3", "no mapping that 'x' could be set in"),
        ("group_siz=3", "Did you mean 'group_size'"),
        ("lora.rank=8", "lora: .*unexpected keyword argument 'rank'"),
    ],
)
def test_a_broken_word_is_an_error(tmp_path: Path, word: str, message: str) -> None:
    path = recipe(tmp_path, "model: a\nmax_steps: 5\n")
    with pytest.raises(ConfigError, match=message):
        load_recipe(path, [word]).peft_config()


def test_an_unknown_recipe_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="recipes: hotpotqa_demo, hotpotqa_grpo"):
        load_recipe("hotpotqa_gpro")


def test_a_model_of_the_package_is_found_wherever_it_is_installed() -> None:
    assert Path(model_location("package:recipes")).name == "recipes"
    assert model_location("Qwen/Qwen2.5-3B-Instruct") == "Qwen/Qwen2.5-3B-Instruct"
    with pytest.raises(ConfigError, match="no folder"):
        model_location("package:nothing")
