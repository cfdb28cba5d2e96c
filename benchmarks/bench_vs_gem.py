"""Episodes/s of question answering with a search tool, environment side only: this project against GEM, in one run.

Usage: python benchmarks/bench_vs_gem.py [--corpus ../shared/data/2wikimultihopqa_corpus.jsonl]
       [--questions ../shared/data/2wikimultihopqa_dev.jsonl] [--rounds 9]

GEM is "GEM: A Gym for Agentic LLMs", arXiv 2510.01051: ``pip install gem-llm mosec`` (measured with 0.1.0), best into
a virtual environment of its own beside this project. Without it the script says so and ends.

A scripted policy makes three searches and answers, 64 episodes at a time. Both sides get the same texts for the same
questions, search the same corpus with the same BM25 for three passages, read the text, put an observation together, and
judge the answer by exact match. A check says that the observations hold the same passages and that rewards are equal.

- Ours: ``gym.make_vec(level="turn", tool_format="search-r1")``. Beside what GEM does, it encodes every text to token
  ids and keeps the episode with masks, events and scores.
- GEM: its ``QaEnv`` in its ``ToolEnvWrapper`` with its ``SearchTool``, in its ``SyncVectorEnv`` and its
  ``AsyncVectorEnv`` (a pool of threads); in process also with its ``ObservationWrapper`` (the whole transcript at each
  step, as its ``concat_with_action``). It keeps no tokens.

Twice: with the retriever *in process* (GEM's tool has its HTTP request, and nothing else, replaced by a call), and
*through a server*, as GEM's tool is made (a server of its own kind, ``gem_search_server.py``, against
``agentr1 index serve``). Ours is compared to the fastest of GEM's each time. The sides take turns within each round;
the ratio of the medians is what to read. The time of the searches alone bounds what any environment can reach.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import gymnasium as gym
from bench_retrieval_server import serving

import agent_envs  # noqa: F401 - registers the ids
from agent_envs.data.records import Passage, Question
from agent_envs.retrieval import RETRIEVERS, Bm25Retriever
from agent_envs.retrieval.base import Retriever
from agent_envs.retrieval.building import BuildSettings, build_index, file_source
from agent_envs.vector import AgentVectorEnv

try:
    from datasets import Dataset, disable_progress_bars
    from gem.envs.qa_env import QaEnv
    from gem.tools.search_tool import SearchTool
    from gem.tools.tool_env_wrapper import ToolEnvWrapper
    from gem.vector.async_vector_env import AsyncVectorEnv
    from gem.vector.sync_vector_env import SyncVectorEnv
    from gem.vector.vector_env import AutoresetMode
    from gem.wrappers.observation_wrapper import ObservationWrapper
except ImportError as error:
    sys.exit(f"this comparison needs GEM: pip install gem-llm mosec ({error})")

ID = "AgentR1/2WikiMultihopQA-v0"
EPISODES = 64
SEARCHES = 3
TOP_K = 3
DATA = Path("../shared/data")
INDICES: list[Bm25Retriever] = []


def shared_index(passages: Sequence[Passage], encoder: str | None = None) -> Retriever:
    """The index that both sides search."""
    INDICES.append(Bm25Retriever(tuple(passages)))
    return INDICES[-1]


class InProcessSearch(SearchTool):  # type: ignore[misc]
    """GEM's search tool with the retriever in the place of its HTTP request."""

    def _search(self, query: str) -> str:
        (hits,) = INDICES[-1].search([query], self.topk)
        found = [{"document": {"contents": f"{hit.passage.title}\n{hit.passage.text}"}} for hit in hits]
        return str(self._passages2string(found))


@dataclass(frozen=True)
class Script:
    """What the policy writes in 64 episodes: three rounds of searches, then the answers, every fourth a wrong one."""

    task_ids: list[str]
    turns: list[list[str]]


@dataclass(frozen=True)
class Played:
    """A round: seconds, seconds of this process's CPU time, the rewards, the observations of the turns that search."""

    seconds: float
    cpu_seconds: float
    rewards: list[float]
    found: list[list[str]]


def script_of(questions: Sequence[Question]) -> Script:
    """Searches for the question and for its first and last gold passage."""
    queries = [(question.question, question.gold_queries[0], question.gold_queries[-1]) for question in questions]
    searches = [
        [f"<think>I look for it, step {step}.</think>\n<search> {asked[step]} </search>" for asked in queries]
        for step in range(SEARCHES)
    ]
    answers = ["nobody knows" if i % 4 == 3 else question.answers[0] for i, question in enumerate(questions)]
    last = [f"<think>Now I know.</think>\n<answer> {answer} </answer>" for answer in answers]
    return Script([question.task_id for question in questions], [*searches, last])


def play(envs: Any, script: Script) -> Played:
    """Resets and steps of one round."""
    found, rewards, ended = [], [], []
    start, cpu_start = time.perf_counter(), time.process_time()
    if isinstance(envs, AgentVectorEnv):
        envs.reset(options={"task_id": script.task_ids})
    else:
        envs.reset()
    for turn in script.turns:
        texts, rewards, ended = envs.step(turn)[:3]
        found.append(list(texts))
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    assert all(ended), "an episode has not ended"
    return Played(seconds, cpu_seconds, [float(reward) for reward in rewards], found[:SEARCHES])


def make_gem(batches: Sequence[Sequence[Question]], kind: type[Any], tool: Any, transcript: bool = False) -> Any:
    """A vector of GEM's environments; environment ``i`` plays the ``i``-th question of each batch, in its own order."""

    def make(place: int) -> Any:
        rows = [
            {"question": batch[place].question, "answer": list(batch[place].answers), "place": number}
            for number, batch in enumerate(batches)
        ]
        env = ToolEnvWrapper(QaEnv(dataset=Dataset.from_list(rows)), [tool])
        return ObservationWrapper(env, include_action=True, include_chat_template=False) if transcript else env

    makers = [lambda place=place: make(place) for place in range(EPISODES)]
    return kind(["qa"] * EPISODES, makers, autoreset_mode=AutoresetMode.NEXT_STEP)


def batches_of(questions: Sequence[Question], rounds: int) -> list[list[Question]]:
    """64 other questions for each round, and 64 more to warm up."""
    chosen = [question for question in questions if question.gold_queries]
    return [
        [chosen[(number * EPISODES + place) % len(chosen)] for place in range(EPISODES)] for number in range(rounds + 1)
    ]


def measure(ours: Any, gem: dict[str, Any], batches: Sequence[Sequence[Question]]) -> dict[str, Any]:
    """All sides in turn, their medians and the ratio; the first round warms up."""
    # GEM shuffles; every environment of every vector in the same way.
    order = [row["place"] for row in next(iter(gem.values())).envs[0].unwrapped.dataset]
    seconds: dict[str, list[float]] = {name: [] for name in ("ours", *gem, "the searches alone")}
    cpu_seconds: dict[str, list[float]] = {name: [] for name in ("ours", *gem)}
    for number in order:
        script = script_of(batches[number])
        played = {name: play(envs, script) for name, envs in {"ours": ours, **gem}.items()}
        for name, one in played.items():
            check_same(played["ours"], one, script)
            seconds[name].append(one.seconds)
            cpu_seconds[name].append(one.cpu_seconds)
        seconds["the searches alone"].append(searches_alone(script))
    cpu = {name: round(statistics.median(found[1:]) / EPISODES * 1e3, 2) for name, found in cpu_seconds.items()}
    return {**summary({name: found[1:] for name, found in seconds.items()}, list(gem)), "cpu_ms_per_episode": cpu}


def check_same(mine: Played, theirs: Played, script: Script) -> None:
    """The same rewards, and the same passages in each observation."""
    assert mine.rewards == theirs.rewards, (mine.rewards, theirs.rewards)
    assert set(mine.rewards) == {0.0, 1.0}
    for step in range(SEARCHES):
        for place in range(0, EPISODES, 16):
            (hits,) = INDICES[-1].search([_query(script.turns[step][place])], TOP_K)
            for hit in hits:
                assert hit.passage.text in mine.found[step][place]
                assert hit.passage.text in theirs.found[step][place]


def searches_alone(script: Script) -> float:
    """The seconds of the same searches, one by one, without any environment."""
    queries = [_query(text) for turn in script.turns[:SEARCHES] for text in turn]
    start = time.perf_counter()
    for query in queries:
        INDICES[-1].search([query], TOP_K)
    return time.perf_counter() - start


def _query(text: str) -> str:
    return text.split("<search>")[1].split("</search>")[0].strip()


def summary(seconds: dict[str, list[float]], gem: Sequence[str]) -> dict[str, Any]:
    """Episodes/s of the sides, and ours against the fastest of GEM's."""
    rates = {name: EPISODES / statistics.median(found) for name, found in seconds.items()}
    best = max(gem, key=rates.__getitem__)
    return {
        "episodes_per_s": {name: round(rate, 1) for name, rate in rates.items()},
        "fastest_of_gem": best,
        "ratio": round(rates["ours"] / rates[best], 2),
        "ratio_of_the_searches_alone": round(rates["the searches alone"] / rates[best], 2),
    }


def make_ours(arguments: argparse.Namespace, **where: str) -> Any:
    """64 environments over the questions; ``where`` says how to search."""
    options: dict[str, Any] = {"max_turns": SEARCHES + 2, "max_observation_tokens": 16_384, "max_context": 65_536}
    options |= {"max_turn_tokens": 4096, "tool_format": "search-r1", "reward": "em", "top_k": TOP_K}
    options |= {"dataset": str(arguments.questions), **where}
    return gym.make_vec(ID, EPISODES, level="turn", autoreset_mode="Disabled", **options)


@contextmanager
def gem_serving(corpus: Path) -> Iterator[str]:
    """A search server of GEM's kind; gives its address once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(Path(__file__).with_name("gem_search_server.py"))]
    environment = {**os.environ, "CORPUS": str(corpus), "MOSEC_LOG_LEVEL": "error"}
    process = subprocess.Popen([*command, "--address", "127.0.0.1", "--port", str(port)], env=environment)
    url = f"http://127.0.0.1:{port}/retrieve"
    try:
        while "Error" in SearchTool(search_url=url, topk=1)._search("is it there?"):
            assert process.poll() is None, "GEM's kind of server did not start"
            time.sleep(0.5)
        yield url
    finally:
        process.terminate()
        process.wait()


def both_ways(arguments: argparse.Namespace) -> dict[str, Any]:
    """In process, then through servers."""
    with closing(make_ours(arguments, corpus=str(arguments.corpus), retriever="bench-shared")) as ours:
        task = ours.envs[0].task
        batches = batches_of([task.item(index) for index in range(len(task))], arguments.rounds)
        gem = {
            f"GEM, {kind.__name__}{', ObservationWrapper' if transcript else ''}": make_gem(
                batches, kind, InProcessSearch(topk=TOP_K), transcript
            )
            for kind in (SyncVectorEnv, AsyncVectorEnv)
            for transcript in (False, True)
        }
        result = {"in process": measure(ours, gem, batches)}
    with tempfile.TemporaryDirectory() as folder:
        build_index(file_source(arguments.corpus), Path(folder), BuildSettings("bm25"))
        with serving(Path(folder), 1) as (our_url, _), gem_serving(arguments.corpus) as gem_url:
            tool = SearchTool(search_url=gem_url, topk=TOP_K)
            gem = {f"GEM, {kind.__name__}": make_gem(batches, kind, tool) for kind in (SyncVectorEnv, AsyncVectorEnv)}
            with closing(make_ours(arguments, index=our_url)) as ours:
                result["through a server"] = measure(ours, gem, batches)
    return result


def main() -> None:
    """Measures, prints, and keeps the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=DATA / "2wikimultihopqa_corpus.jsonl")
    parser.add_argument("--questions", type=Path, default=DATA / "2wikimultihopqa_dev.jsonl")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/vs_gem.json"))
    arguments = parser.parse_args()
    disable_progress_bars()
    RETRIEVERS.register("bench-shared", shared_index)
    record: dict[str, Any] = {
        "python": platform.python_version(),
        "gem-llm": metadata.version("gem-llm"),
        "cores": os.cpu_count(),
        "load_average": [round(os.getloadavg()[0], 1)],
        "episodes": EPISODES,
        "rounds": arguments.rounds,
        **both_ways(arguments),
    }
    record["load_average"].append(round(os.getloadavg()[0], 1))
    for way in ("in process", "through a server"):
        print(way)
        for name, rate in record[way]["episodes_per_s"].items():
            cpu = record[way]["cpu_ms_per_episode"].get(name)
            print(f"  {name}: {rate} episodes/s" + ("" if cpu is None else f", {cpu} ms of CPU each"))
        print(f"  ratio of ours to {record[way]['fastest_of_gem']}: {record[way]['ratio']}")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
