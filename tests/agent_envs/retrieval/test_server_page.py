"""The page on the retrieval server says what is so: its example runs, and its numbers are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent_envs.retrieval.client import ClientOptions
from agent_envs.retrieval.server import ServerOptions

PAGE = (Path(__file__).parents[3] / "docs" / "retrieval_server.md").read_text()


def test_the_example_finds_what_it_is_about(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "RetrievalServer" in block]
    exec(compile(block, "retrieval_server.md", "exec", dont_inherit=True), {})
    printed = capsys.readouterr().out
    assert printed.index("Ada Roe") < printed.index("Elan")


def test_the_defaults_are_those_that_the_page_names() -> None:
    page = " ".join(PAGE.split())
    server, client = ServerOptions(), ClientOptions()
    batching = server.batching
    for words in (
        f"up to `--max-batch` ({batching.max_batch}) queries",
        f"waits `--max-wait-ms` ({batching.max_wait_ms:g}) for company",
        f"When `--max-queue` ({batching.max_queue:,}) queries wait",
        f"`topk` is {server.default_top_k} where",
        f"did not end within {server.search_timeout_s:g} s",
        f"(`timeout_s`, {client.timeout_s:g} s)",
        f"(`retries`, {client.retries}, with jitter",
        f"of the last {client.cache_size:,} queries",
        f"believed for {client.cache_check_s:g} s",
        f"{client.max_connections} connections, {client.max_queries} queries a request, "
        f"{client.max_response_bytes // 2**20} MiB an answer",
        f"cut at {client.max_query_chars:,} characters",
    ):
        assert words in page, words
