"""From options to a question-answering task: what HotpotQA, 2WikiMultihopQA and MuSiQue share.

Questions and index are loaded once per process and shared by all environments of the same data.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from agent_envs.data.corpus import read_corpus
from agent_envs.data.hub import names_file
from agent_envs.data.mini_set import PART_SIZES, MiniSet
from agent_envs.data.records import Question
from agent_envs.errors import ConfigError
from agent_envs.options import require_choice
from agent_envs.retrieval import RETRIEVERS, corpus_of, open_index
from agent_envs.retrieval.base import Retriever
from agent_envs.rewards import QA_REWARDS
from agent_envs.tasks.qa import SYSTEM_PROMPT, QaTask
from agent_envs.tools import TOOLS, Tool

Questions: TypeAlias = tuple[Question, ...]

MINI_PARTS = tuple(PART_SIZES)


@dataclasses.dataclass(frozen=True, slots=True)
class QaOptions:
    """What every question-answering environment takes beside the common options.

    Attributes:
        dataset: None for the embedded world; a file in an official format; or a name on the Hugging Face hub, such as
            "hotpotqa/hotpot_qa", "xanhho/2WikiMultihopQA" or "dgslibisey/MuSiQue" (or a folder with a copy of it).
        split: of the embedded world: "mini" or "mini/train", "mini/validation", "mini/test" (or the part's name alone);
            of a set on the hub: its split, such as "validation". A file has no splits.
        corpus: a file of passages to search instead of the questions' own paragraphs: JSON Lines ("title" and "text",
            or the fields of Search-R1, BEIR, KILT and HotpotQA) or Parquet; it is held in memory.
        retriever: how to search these: "bm25", "dense" or "hybrid" (both, fused by their ranks).
        index: a folder that ``agentr1 index build`` made, or the address of a server, instead of ``corpus`` and
            ``retriever``; several, separated by commas, are fused by their ranks.
        encoder: of dense retrieval: a sentence-transformers model, by folder or name; an index folder knows its own.
        top_k: passages that one search gives, >= 1.
        reward: "paper" (EM if the format is right, else a penalty), "em", "f1", or an expression of reward parts.
        system_prompt: instead of the default one; "" for none.
    """

    dataset: str | None = None
    split: str = "mini"
    corpus: str | None = None
    retriever: str = "bm25"
    index: str | None = None
    encoder: str | None = None
    top_k: int = 3
    reward: str = "paper"
    system_prompt: str = SYSTEM_PROMPT

    def __post_init__(self) -> None:
        """Checks the choices.

        Raises:
            ConfigError: a value is not allowed, or two contradict each other.
        """
        if self.top_k < 1:
            raise ConfigError(f"top_k is a whole number >= 1, not {self.top_k}")
        RETRIEVERS.get(self.retriever)
        if self.index is not None and (self.corpus is not None or self.retriever != "bm25"):
            raise ConfigError(
                f"index={self.index!r} has its own passages and way to search: leave out corpus and retriever"
            )
        if self.index is None and self.encoder is not None and self.retriever == "bm25":
            raise ConfigError(
                f'encoder={self.encoder!r} means nothing to retriever="bm25"; choose "dense" or "hybrid", or an index'
            )
        QA_REWARDS.get(self.reward)
        if self.dataset is None:
            require_choice("split (of the embedded world)", mini_part(self.split), MINI_PARTS)
        elif Path(self.dataset).is_file() and self.split != "mini":
            raise ConfigError(
                f"the file {self.dataset!r} has no splits, so split={self.split!r} means nothing; leave it out"
            )


def mini_part(split: str) -> str:
    """The part of the embedded world that a split means."""
    return "train" if split == "mini" else split.removeprefix("mini/")


@dataclasses.dataclass(frozen=True, slots=True)
class QuestionSource:
    """Where the questions of a set come from. Equal sources are loaded once.

    Attributes:
        mini: the embedded set.
        read_file: reads a file, given its path and ``settings``.
        read_hub: reads a set on the hub, given its name, the split and ``settings``.
        settings: what else the readers take, such as the file of aliases.
    """

    mini: MiniSet
    read_file: Callable[..., Questions]
    read_hub: Callable[..., Questions]
    settings: tuple[str | None, ...] = ()

    def read(self, dataset: str | None, split: str) -> Questions:
        """The questions of a dataset and split, in the words of ``QaOptions``.

        Raises:
            DataError: the data cannot be read.
            ConfigError: the data set is neither a file nor a hub name with a split.
        """
        if dataset is None:
            return self.mini.split(mini_part(split))
        if names_file(dataset):
            return self.read_file(dataset, *self.settings)
        if split == "mini":
            raise ConfigError(
                f'{dataset!r} is a folder, or a set on the hub: say which split, such as split="validation"'
            )
        return self.read_hub(dataset, split, *self.settings)


def load_qa(options: QaOptions, source: QuestionSource) -> QaTask:
    """The task of these options, over the questions of a source.

    Raises:
        DataError: the data cannot be read.
        ConfigError: the data set is neither a file nor a hub name with a split.
    """
    place = _Place(options.corpus, options.retriever, options.index, options.encoder)
    questions, retriever = _load(source, options.dataset, options.split, place)
    return QaTask(questions, _tool(retriever, options.top_k), QA_REWARDS.get(options.reward), options.system_prompt)


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """Where to search, and how, in the words of ``QaOptions``."""

    corpus: str | None
    retriever: str
    index: str | None
    encoder: str | None


@functools.lru_cache(maxsize=8)
def _load(source: QuestionSource, dataset: str | None, split: str, place: _Place) -> tuple[Questions, Retriever]:
    questions = source.read(dataset, split)
    if place.index is not None:  # whose passages may be too many to look for the gold ones among them
        retriever = open_index(place.index, place.encoder)
        return tuple(dataclasses.replace(question, gold_passages=()) for question in questions), retriever
    make = RETRIEVERS.get(place.retriever)
    if place.corpus is None:
        return questions, make(corpus_of(questions), place.encoder)
    passages = read_corpus(place.corpus)
    known = frozenset(passages)
    return tuple(_found_in(known, question) for question in questions), make(passages, place.encoder)


def _found_in(corpus: frozenset[object], question: Question) -> Question:
    """The question, whose gold paragraphs go by their titles where another corpus words them otherwise."""
    return question if corpus.issuperset(question.gold_passages) else dataclasses.replace(question, gold_passages=())


@functools.lru_cache(maxsize=16)
def _tool(retriever: Retriever, top_k: int) -> Tool:
    """One tool for all environments of these options, so that they share what is made from its schema."""
    return TOOLS.get("search")(retriever, top_k)
