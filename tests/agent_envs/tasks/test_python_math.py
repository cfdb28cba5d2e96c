"""PythonMath in live episodes: ReTool's format, the sandbox, the grader, and an oracle that writes programs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_envs import math_grading
from agent_envs.data.math_problems import MathProblem
from agent_envs.errors import ConfigError
from agent_envs.sandbox import isolation as sandbox_isolation
from agent_envs.sandbox import missing_isolation
from agent_envs.types import StopReason
from tests.agent_envs.tasks.math_episodes import answer, call, make, play, play_oracle, reachable

ID = "AgentR1/PythonMath-v0"
ROWS = [
    {"id": "root", "problem": "Solve $x^2 = 8$ for $x > 0$.", "answer": r"2\sqrt{2}"},
    {"id": "number", "problem": "How many?", "answer": "48151623"},
]

pytestmark = pytest.mark.skipif(
    missing_isolation() is not None, reason=f"runs where Python can be isolated; missing here: {missing_isolation()}"
)


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    return str(path)


def test_an_episode_reads_as_in_retool(own: str) -> None:
    env = make(ID, dataset=own)
    text, _ = env.reset(options={"task_id": "root"})
    assert r"in \boxed{} between <answer> and </answer>" in text
    feedback, reward, terminated, _, info = env.step("Let me see. <code>\n```python\nprint(8 ** 0.5)\n```\n</code>")
    assert feedback.strip() == "<interpreter>\n2.8284271247461903\n</interpreter>"
    assert (reward, terminated, info["event"]) == (0.0, False, "call")
    _, reward, terminated, _, info = env.step(r"So <answer>\boxed{\sqrt{8}}</answer>")
    assert (reward, terminated, info["metrics"]["em"]) == (1.0, True, 1.0)


@pytest.mark.parametrize(
    ("task_id", "text", "em"),
    [
        ("root", r"2\sqrt2", 1.0),
        ("root", r"x = \sqrt{8}", 1.0),
        ("root", "2.828427", 0.0),
        ("root", r"2\sqrt{2}, -2\sqrt{2}", 0.0),
        ("number", "48,151,623", 1.0),
        ("number", "48151622 + 1", 0.0),
        ("number", "48151622, 48151623", 0.0),
        ("number", "9^{9^{9^{9}}}", 0.0),
    ],
)
def test_answers_are_graded_as_mathematics(own: str, task_id: str, text: str, em: float) -> None:
    env = make(ID, dataset=own)
    episode = play(env, task_id, answer(env, text))
    assert episode.reason is StopReason.ANSWERED
    assert (episode.total_reward, episode.metrics["em"]) == (em, em)


def test_variables_stay_in_a_session_and_go_without_one(own: str) -> None:
    for session, last in ((True, "42"), (False, "NameError")):
        env = make(ID, dataset=own, session=session)
        play(env, "root", call(env, "python", code="x = 42"))
        assert last in env.step(call(env, "python", code="print(x)"))[0]
        play(env, "root")  # another episode knows nothing of the last one
        assert "NameError" in env.step(call(env, "python", code="print(x)"))[0]
        env.close()


def test_a_program_without_end_is_the_policys_mistake(own: str) -> None:
    env = make(ID, dataset=own, timeout_s=1)
    episode = play(env, "number", call(env, "python", code="while True: pass"), answer(env, "48151623"))
    assert episode.total_reward == 1.0
    assert episode.reason is StopReason.ANSWERED
    env.close()


@pytest.mark.parametrize("part", ["train", "validation", "test"])
def test_the_oracle_writes_programs_that_find_the_answers(part: str) -> None:
    env = make(ID, split=part, session=False)
    kinds = {env.task.item(index).kind: index for index in range(len(env.task))}
    assert len(kinds) > 12
    for index in kinds.values():
        episode = play_oracle(env, env.task.task_ids()[index])
        assert (episode.total_reward, episode.metrics["em"], episode.metrics["tool_calls"]) == (1.0, 1.0, 1.0)
        assert episode.turns[0].results[0].kind == "call", episode.turns[0].results


def test_the_longest_program_fits_into_a_turn() -> None:
    env = make(ID)
    env.reset(seed=0)
    longest = max((env.task.item(index) for index in range(len(env.task))), key=lambda item: len(item.program))
    assert play_oracle(env, longest.task_id).total_reward == 1.0
    env.close()


def test_other_formats_serve_too(own: str) -> None:
    for name in ("hermes", "harmony", "react"):
        env = make(ID, dataset=own, tool_format=name)
        episode = play(env, "root", call(env, "python", code="print(1 + 1)"), answer(env, r"\boxed{\sqrt{8}}"))
        assert episode.turns[0].results[0].content == "2"
        assert episode.total_reward == 1.0
        env.close()


def test_a_grader_that_cannot_run_ends_the_episode_without_credit_or_blame(
    own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    math_grading._comparer.close()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    env = make(ID, dataset=own)
    episode = play(env, "root", answer(env, "\\sqrt{8} + 0"))
    assert (episode.reason, episode.total_reward, episode.metrics["em"]) == (StopReason.TOOL_FAILURE, 0.0, 0.0)
    assert "math-verify" in episode.events[-1].detail


def test_no_tool_can_get_at_the_gold_answer(own: str) -> None:
    def tells(one: object) -> bool:
        return isinstance(one, MathProblem) or (isinstance(one, str) and "48151623" in one)

    for session in (True, False):
        env = make(ID, dataset=own, session=session)
        text, _ = env.reset(options={"task_id": "number"})
        assert "48151623" not in text
        assert reachable(env.task, tells)  # the search finds it where it is
        assert not reachable(env.task.begin(env.core.item), tells)
        env.close()


def test_a_machine_that_cannot_isolate_is_told_at_make(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_isolation, "missing_isolation", lambda: "there are no user namespaces")
    with pytest.raises(ConfigError, match="no user namespaces"):
        make(ID, timeout_s=3.25)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"reward": "f1"}, "unknown reward part 'f1'"),
        ({"timeout_s": -1}, "a number of seconds above 0, not -1"),
        ({"dataset": "a/b"}, "say which split"),
        ({"tool_format": "search-r1"}, "choose another tool_format"),
    ],
)
def test_a_wrong_option_is_refused_in_words(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        make(ID, **options)
