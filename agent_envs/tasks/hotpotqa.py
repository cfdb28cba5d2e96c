"""HotpotQA: questions that need two paragraphs of an encyclopaedia.

Source of the data set: Yang et al. 2018, arXiv 1809.09600; real data CC BY-SA 4.0. The embedded world is made up by
this project and under its own licence.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

from agent_envs.data.hotpotqa import read_corpus, read_hotpotqa, read_hub
from agent_envs.data.mini_hotpot import mini_split
from agent_envs.data.records import Passage, Question
from agent_envs.errors import ConfigError
from agent_envs.options import require_choice
from agent_envs.retrieval import RETRIEVERS, corpus_of
from agent_envs.retrieval.base import Retriever
from agent_envs.rewards import QA_REWARDS
from agent_envs.tasks.qa import SYSTEM_PROMPT, QaTask
from agent_envs.tools import TOOLS, Tool

MINI_PARTS = ("train", "validation", "test")


@dataclasses.dataclass(frozen=True, slots=True)
class HotpotQaOptions:
    """What ``AgentR1/HotpotQA-v0`` takes beside the common options.

    Attributes:
        dataset: None for the embedded world; a file in an official format; or a name on the Hugging Face hub, such as
            "hotpotqa/hotpot_qa".
        split: of the embedded world: "mini" or "mini/train", "mini/validation", "mini/test" (or the part's name alone);
            of a set on the hub: its split, such as "validation". A file has no splits.
        setting: of a set on the hub: "distractor" or "fullwiki".
        corpus: a JSON Lines file of passages ("title", "text") to search instead of the questions' own paragraphs.
        retriever: how to search: "bm25".
        top_k: passages that one search gives, >= 1.
        reward: "paper" (EM if the format is right, else a penalty), "em" or "f1".
        system_prompt: instead of the default one; "" for none.
    """

    dataset: str | None = None
    split: str = "mini"
    setting: str = "distractor"
    corpus: str | None = None
    retriever: str = "bm25"
    top_k: int = 3
    reward: str = "paper"
    system_prompt: str = SYSTEM_PROMPT

    def __post_init__(self) -> None:
        """Checks the choices.

        Raises:
            ConfigError: a value is not allowed, or two contradict each other.
        """
        require_choice("setting", self.setting, ("distractor", "fullwiki"))
        if self.top_k < 1:
            raise ConfigError(f"top_k is a whole number >= 1, not {self.top_k}")
        RETRIEVERS.get(self.retriever)
        QA_REWARDS.get(self.reward)
        if self.dataset is None:
            require_choice("split (of the embedded world)", self.mini_part, MINI_PARTS)
        elif Path(self.dataset).exists() and self.split != "mini":
            raise ConfigError(
                f"the file {self.dataset!r} has no splits, so split={self.split!r} means nothing; leave it out"
            )

    @property
    def mini_part(self) -> str:
        """The part of the embedded world."""
        return "train" if self.split == "mini" else self.split.removeprefix("mini/")


def load_hotpotqa(options: HotpotQaOptions) -> QaTask:
    """The task of these options; data and index are loaded once per process and shared.

    Raises:
        DataError: the data cannot be read.
        ConfigError: the data set is neither a file nor a hub name with a split.
    """
    questions, retriever = _load(options.dataset, options.split, options.setting, options.corpus, options.retriever)
    tool = _tool(retriever, options.top_k)
    return QaTask(questions, tool, QA_REWARDS.get(options.reward), options.system_prompt)


@functools.lru_cache(maxsize=8)
def _load(
    dataset: str | None, split: str, setting: str, corpus: str | None, retriever: str
) -> tuple[tuple[Question, ...], Retriever]:
    questions = _questions(dataset, split, setting)
    passages: tuple[Passage, ...] = read_corpus(corpus) if corpus is not None else corpus_of(questions)
    return questions, RETRIEVERS.get(retriever)(passages)


@functools.lru_cache(maxsize=16)
def _tool(retriever: Retriever, top_k: int) -> Tool:
    """One tool for all environments of these options, so that they share what is made from its schema."""
    return TOOLS.get("search")(retriever, top_k)


def _questions(dataset: str | None, split: str, setting: str) -> tuple[Question, ...]:
    if dataset is None:
        return mini_split(HotpotQaOptions(split=split).mini_part)
    path = Path(dataset)
    if path.exists() or path.suffix in (".json", ".jsonl") or dataset.count("/") != 1:
        return read_hotpotqa(dataset)
    if split == "mini":
        raise ConfigError(f'{dataset!r} is a set on the hub: say which split, such as split="validation"')
    return read_hub(dataset, setting, split)
