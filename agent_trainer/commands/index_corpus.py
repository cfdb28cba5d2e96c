"""The questions of a task and their passages, for the commands on indexes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.data.records import Question
from agent_envs.errors import ConfigError
from agent_envs.retrieval import corpus_of
from agent_envs.retrieval.building import CorpusSource, file_source
from agent_envs.retrieval.passage_store import passages_sha256
from agent_trainer.commands.envs import entry_of

_ENVIRONMENT_ID = re.compile(r"[\w-]+/[\w-]+-v\d+")


def corpus_source(corpus: str, options: dict[str, Any]) -> CorpusSource:
    """The passages of a file, or of a task's questions where the id of an environment is given.

    Raises:
        ConfigError: options are given with a file, or the task has no passages.
        DataError: there is no such file.
    """
    if not _ENVIRONMENT_ID.fullmatch(corpus) or Path(corpus).exists():
        if options:
            raise ConfigError(f"{corpus!r} is a file, and environment options mean nothing to it: leave out -o")
        return file_source(corpus)
    passages = corpus_of(task_questions(corpus, options))
    return CorpusSource(corpus, lambda: passages, passages_sha256(passages))


def task_questions(env_id: str, options: dict[str, Any]) -> Sequence[Question]:
    """The questions of an environment under these options.

    Raises:
        ConfigError: there is no such environment, an option is wrong, or its items are no questions with passages.
    """
    entry_of(env_id)
    env: Any = gym.make(env_id, **{"level": "turn", **options})
    try:
        task = env.unwrapped.core.task
        items = [task.item(index) for index in range(len(task))]
    finally:
        env.close()
    if not all(isinstance(item, Question) for item in items):
        raise ConfigError(f"{env_id} has no passages to search; such as AgentR1/HotpotQA-v0 has")
    return items
