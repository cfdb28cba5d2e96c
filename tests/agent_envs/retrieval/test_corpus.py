"""Which passages make up a corpus."""

from __future__ import annotations

from pathlib import Path

from agent_envs.data.hotpotqa import read_hotpotqa
from agent_envs.data.records import Passage, Question
from agent_envs.retrieval.corpus import corpus_of


def question(task_id: str, *passages: Passage) -> Question:
    return Question(task_id, "?", ("!",), "bridge", (), passages)


def test_the_corpus_is_the_union_by_title_and_text_in_order() -> None:
    ada, ashes, other_edition = Passage("Ada", "A writer."), Passage("Ashes", "A novel."), Passage("Ashes", "A film.")
    questions = [question("1", ashes, ada), question("2", Passage("Ada", "A writer."), other_edition)]
    assert corpus_of(questions) == (ashes, ada, other_edition)
    assert corpus_of([]) == ()


def test_the_corpus_of_real_questions_is_every_paragraph_once(real_samples: Path) -> None:
    questions = read_hotpotqa(real_samples / "hotpotqa_dev_distractor.jsonl")
    pairs = {(passage.title, passage.text) for question in questions for passage in question.passages}
    corpus = corpus_of([*questions, *questions])
    assert len(corpus) == len(pairs)
    assert corpus[:10] == questions[0].passages
