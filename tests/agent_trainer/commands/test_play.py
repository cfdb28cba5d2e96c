"""``agentr1 play``: the oracle wins, a person can play, hostile words stay words."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from agent_envs.errors import ConfigError
from agent_trainer.cli import app

RUNNER = CliRunner(env={"COLUMNS": "100", "TERM": "dumb"})
GAME = ["play", "AgentR1/HotpotQA-v0", "split=mini/test", "max_turns=3"]


def test_the_oracle_searches_twice_and_answers() -> None:
    output = RUNNER.invoke(app, [*GAME, "--policy", "oracle", "--seed", "3"], catch_exceptions=False).output
    assert output.count('<tool_call>\n{"name": "search"') == 2
    assert "[end] answered: reward 1, em 1" in output
    assert "[gold]" in output


def test_a_person_searches_and_answers() -> None:
    output = RUNNER.invoke(app, GAME, input="/search river\n/answer nowhere\n", catch_exceptions=False).output
    assert "[1] " in output
    assert "[end] answered: reward 0" in output


def test_a_turn_may_have_several_lines_and_control_characters_are_spelled_out() -> None:
    output = RUNNER.invoke(app, GAME, input="one\ntwo \x1b[2J\n\n/quit\n", catch_exceptions=False).output
    assert "one\ntwo \\x1b[2J" in output
    assert "(left before the end)" in output


def test_a_short_form_may_follow_a_thought() -> None:
    output = RUNNER.invoke(app, GAME, input="I wonder\n/search river\n/quit\n", catch_exceptions=False).output
    assert 'I wonder\n<tool_call>\n{"name": "search", "arguments": {"query": "river"}}\n</tool_call>' in output
    assert "[1] " in output


def test_a_tool_called_without_words_gets_no_arguments(tmp_path: Path) -> None:
    task = tmp_path / "task.py"
    task.write_text(
        "from agent_envs import ToolUseTask\n"
        "def wind(force: int = 3) -> str:\n"
        "    'How it blows.'\n"
        "    return f'force {force}'\n"
        "def make_task():\n"
        "    return ToolUseTask([wind], [{'question': 'How hard does it blow?', 'answer': 3}])\n"
    )
    game = ["play", "AgentR1/ToolUse-v0", f"factory={task}:make_task"]
    output = RUNNER.invoke(app, game, input="/wind\n/answer 4\n", catch_exceptions=False).output
    assert '{"name": "wind", "arguments": {}}' in output
    assert "force 3" in output
    assert "[gold] 3" in output  # of any task whose solution ends in an answer


def test_a_negative_seed_is_refused_before_the_game() -> None:
    result = RUNNER.invoke(app, [*GAME, "--seed", "-1"])
    assert (result.exit_code, type(result.exception)) == (2, SystemExit)


def test_the_end_of_the_input_leaves_the_game() -> None:
    result = RUNNER.invoke(app, GAME, input="", catch_exceptions=False)
    assert result.exit_code == 0
    assert "(left before the end)" in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*GAME, "--policy", "random"], "--policy is one of human, oracle"),
        ([*GAME, "top_k"], "expected key=value"),
        ([*GAME, "max_turns=4"], "given twice"),
        ([*GAME, "level=token"], "play sets level itself"),
        ([*GAME, "topk=4"], "Did you mean 'top_k'"),
    ],
)
def test_bad_words_say_what_was_expected(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RUNNER.invoke(app, words, catch_exceptions=False)
