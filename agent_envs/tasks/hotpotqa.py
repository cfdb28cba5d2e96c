"""HotpotQA: questions that need two paragraphs of an encyclopaedia.

Source of the data set: Yang et al. 2018, arXiv 1809.09600; real data CC BY-SA 4.0. The embedded world is made up by
this project and under its own licence.
"""

from __future__ import annotations

import dataclasses

from agent_envs.data.hotpotqa import read_hotpotqa, read_hub
from agent_envs.data.mini_hotpot import MINI_HOTPOT
from agent_envs.data.records import Question
from agent_envs.options import require_choice
from agent_envs.tasks.qa import QaTask
from agent_envs.tasks.qa_loading import QaOptions, QuestionSource, load_qa


@dataclasses.dataclass(frozen=True, slots=True)
class HotpotQaOptions(QaOptions):
    """What ``AgentR1/HotpotQA-v0`` takes beside the common options.

    Attributes:
        setting: of a set on the hub: "distractor" or "fullwiki".
    """

    setting: str = "distractor"

    def __post_init__(self) -> None:
        """Checks the choices.

        Raises:
            ConfigError: a value is not allowed, or two contradict each other.
        """
        QaOptions.__post_init__(self)
        require_choice("setting", self.setting, ("distractor", "fullwiki"))


def load_hotpotqa(options: HotpotQaOptions) -> QaTask:
    """The task of these options; data and index are loaded once per process and shared.

    Raises:
        DataError: the data cannot be read.
        ConfigError: the data set is neither a file nor a hub name with a split.
    """
    return load_qa(options, QuestionSource(MINI_HOTPOT, _read_file, _read_hub, (options.setting,)))


def _read_file(path: str, setting: str) -> tuple[Question, ...]:
    """A file holds one setting, whichever it is."""
    return read_hotpotqa(path)


def _read_hub(name: str, split: str, setting: str) -> tuple[Question, ...]:
    return read_hub(name, setting, split)
