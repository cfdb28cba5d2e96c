"""2WikiMultihopQA: questions that need two to four paragraphs, some of them by an inference or a comparison.

Source of the data set: Ho et al. 2020, arXiv 2011.01060; real data Apache-2.0. The embedded world is made up by this
project and under its own licence.
"""

from __future__ import annotations

import dataclasses

from agent_envs.data.mini_two_wiki import MINI_TWO_WIKI
from agent_envs.data.two_wiki import read_two_wiki, read_two_wiki_hub
from agent_envs.errors import ConfigError
from agent_envs.tasks.qa import QaTask
from agent_envs.tasks.qa_loading import QaOptions, QuestionSource, load_qa


@dataclasses.dataclass(frozen=True, slots=True)
class TwoWikiOptions(QaOptions):
    """What ``AgentR1/2WikiMultihopQA-v0`` takes beside the common options.

    Attributes:
        aliases: the official file id_aliases.json, for real data whose rows have an answer_id: an answer's other names
            are accepted too, as the official evaluation does.
    """

    aliases: str | None = None

    def __post_init__(self) -> None:
        """Checks the choices.

        Raises:
            ConfigError: a value is not allowed, or two contradict each other.
        """
        QaOptions.__post_init__(self)
        if self.aliases is not None and self.dataset is None:
            raise ConfigError(f"aliases={self.aliases!r} belongs to real data: give dataset too, or leave it out")


def load_two_wiki(options: TwoWikiOptions) -> QaTask:
    """The task of these options; data and index are loaded once per process and shared.

    Raises:
        DataError: the data cannot be read.
        ConfigError: the data set is neither a file nor a hub name with a split.
    """
    return load_qa(options, QuestionSource(MINI_TWO_WIKI, read_two_wiki, read_two_wiki_hub, (options.aliases,)))
