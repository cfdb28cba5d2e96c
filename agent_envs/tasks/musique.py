"""MuSiQue: questions of two to four hops, composed so that each hop is needed.

Source of the data set: Trivedi et al. 2022, arXiv 2108.00573; real data CC BY 4.0. The embedded world is made up by
this project and under its own licence.
"""

from __future__ import annotations

import dataclasses

from agent_envs.data.mini_musique import MINI_MUSIQUE
from agent_envs.data.musique import UNANSWERABLE, read_musique, read_musique_hub
from agent_envs.options import require_choice
from agent_envs.tasks.qa import QaTask
from agent_envs.tasks.qa_loading import QaOptions, QuestionSource, load_qa


@dataclasses.dataclass(frozen=True, slots=True)
class MusiqueOptions(QaOptions):
    """What ``AgentR1/MuSiQue-v0`` takes beside the common options.

    Attributes:
        unanswerable: what to do with rows of MuSiQue-Full whose paragraphs lack the answer: "skip" or "error".
    """

    unanswerable: str = "skip"

    def __post_init__(self) -> None:
        """Checks the choices.

        Raises:
            ConfigError: a value is not allowed, or two contradict each other.
        """
        QaOptions.__post_init__(self)
        require_choice("unanswerable", self.unanswerable, UNANSWERABLE)


def load_musique(options: MusiqueOptions) -> QaTask:
    """The task of these options; data and index are loaded once per process and shared.

    Raises:
        DataError: the data cannot be read.
        ConfigError: the data set is neither a file nor a hub name with a split.
    """
    return load_qa(options, QuestionSource(MINI_MUSIQUE, read_musique, read_musique_hub, (options.unanswerable,)))
