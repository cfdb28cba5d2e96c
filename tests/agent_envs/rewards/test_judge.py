"""A judge of the user's own: asked once per answer, within a deadline, and never trusted to be up."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_envs.data.records import Question
from agent_envs.errors import ConfigError, ToolFailureError
from agent_envs.rewards import QA_REWARDS
from agent_envs.tasks.base import Outcome
from agent_envs.types import StopReason
from tests.agent_envs.rewards import judges
from tests.agent_envs.rewards.outcomes import QUESTION, Said, outcome_of

HERE = "tests.agent_envs.rewards.judges"


def end_of(answer: str | None) -> Outcome[Question]:
    return outcome_of([Said(answer=answer)], StopReason.ANSWERED if answer else StopReason.MAX_TURNS)


def verdict(function: str, answer: str | None = "in Ome", more: str = "") -> float:
    judges.asked.clear()
    return QA_REWARDS.get(f'judge(by="{HERE}:{function}"{more})').turn(end_of(answer))


def test_the_judge_sees_question_answer_and_accepted_answers() -> None:
    assert verdict("contains") == 0.75
    assert judges.asked == [(QUESTION.question, "in Ome", QUESTION.answers)]


def test_an_async_judge_is_awaited_and_may_say_true() -> None:
    assert verdict("contains_async") == 1.0
    assert verdict("contains_async", answer="elsewhere") == 0.0


def test_a_judge_can_live_in_a_file() -> None:
    path = Path(judges.__file__)
    assert QA_REWARDS.get(f'judge(by="{path}:contains_async")').turn(end_of("Ome")) == 1.0


def test_the_same_answer_is_judged_once_for_all_environments_of_a_process() -> None:
    judges.asked.clear()
    reward, other = (QA_REWARDS.get(f'judge(by="{HERE}:contains"){more}') for more in ("", " + 1"))
    outcome = end_of("Port Ome")
    assert other.turn(outcome) == 1.75
    assert [reward.turn(outcome), reward.turn(outcome), reward.breakdown(outcome)["reward/judge"]] == [0.75] * 3
    assert len(judges.asked) == 1


def test_the_judge_is_not_asked_before_the_end_without_an_answer_or_behind_a_closed_gate() -> None:
    assert verdict("contains", answer=None) == 0.0
    reward = QA_REWARDS.get(f'judge(by="{HERE}:contains") + answer_format*judge(by="{HERE}:contains")')
    reward.turn(outcome_of([Said(found=[()])], None))
    QA_REWARDS.get(f'answer_format*judge(by="{HERE}:contains")').turn(
        outcome_of([Said(answer="Ome", well_formed=False)], StopReason.ANSWERED)
    )
    assert judges.asked == []


def test_a_judge_that_stumbles_is_asked_again() -> None:
    assert verdict("stumbles") == 1.0
    assert len(judges.asked) == 3


@pytest.mark.parametrize(
    ("function", "more", "message"),
    [
        ("down", ", retries=0", "judges:down: .*ConnectionError: the judge is down"),
        ("stumbles", ", retries=1", "busy"),
        ("hangs", ", timeout_s=0.05", "did not answer within 0.05 s"),
    ],
)
def test_a_judge_that_stays_down_is_a_failure_of_the_infrastructure(function: str, more: str, message: str) -> None:
    with pytest.raises(ToolFailureError, match=message):
        verdict(function, more=more)


@pytest.mark.parametrize(("function", "shown"), [("gives_two", "2.0"), ("gives_nan", "nan"), ("gives_text", "'0.5'")])
def test_what_is_no_number_from_0_to_1_is_a_programmers_mistake(function: str, shown: str) -> None:
    with pytest.raises(ConfigError, match=f"{function} must give a number from 0 to 1, not {shown}"):
        verdict(function)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("", "needs its parameter 'by'"),
        ("by=1", "takes str, not 1"),
        ('by="judge"', 'expected "module:function"'),
        ('by="no_such_module:judge"', "cannot import 'no_such_module'"),
        ('by="math:judge"', "'math' has no function 'judge'"),
        ('by="math:pi"', "'math' has no function 'pi'"),
        ('by="math:cos"', "the judge math:cos is called with the question, the answer, the accepted answers"),
        ('by="builtins:max", timeout_s=0', "timeout_s .* must be above 0"),
        ('by="builtins:max", retries=-1', "retries .* must be 0 or more"),
    ],
)
def test_a_judge_is_checked_when_the_reward_is_made(parameters: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        QA_REWARDS.get(f"judge({parameters})")
