r"""The routes of a retrieval server. The one module that imports FastAPI at its top: come here through ``server``.

``POST /retrieve`` speaks the protocol of Search-R1's server:

    {"queries": ["..."], "topk": 3, "return_scores": true}
    -> {"result": [[{"document": {"id": "...", "title": "...", "contents": "\"Title\"\nText"}, "score": 1.5}, ...]]}

one list per query, best first; without ``return_scores`` the lists hold the documents themselves. Errors are JSON with
a ``detail``.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any

import pydantic
from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_envs.retrieval.base import Hit
from agent_envs.retrieval.batching import BatcherClosedError, DynamicBatcher, QueueFullError, SearchFailedError
from agent_envs.retrieval.server_metrics import ServerMetrics
from agent_envs.retrieval.server_options import ServerOptions
from agent_envs.retrieval.server_state import IndexService, Status

CORPUS_HASH_HEADER = "x-corpus-hash"
RETRY_AFTER = {"retry-after": "1"}  # seconds

_HALF_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_READY = {Status.FAILED: 500, Status.STALLED: 500, Status.LOADING: 503, Status.STOPPING: 503}


class RetrieveRequest(pydantic.BaseModel):
    """The body of ``POST /retrieve``."""

    queries: list[str]
    topk: int | None = None
    return_scores: bool = False


def create_app(service: IndexService) -> FastAPI:
    """The application around a service, which starts and stops with it."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await asyncio.to_thread(service.stop)

    app = FastAPI(title="Agent-R1 retrieval", lifespan=lifespan)
    routes = _Routes(service)
    app.add_api_route("/retrieve", routes.retrieve, methods=["POST"], response_model=None)
    app.add_api_route("/health", routes.health, methods=["GET"], response_model=None)
    app.add_api_route("/metrics", routes.show_metrics, methods=["GET"], response_model=None)
    app.add_exception_handler(RequestValidationError, _explain)
    app.add_middleware(_Gate, metrics=service.metrics, max_body_bytes=service.options.max_body_bytes)
    return app


class _Routes:
    def __init__(self, service: IndexService) -> None:
        self._service = service

    async def retrieve(self, request: RetrieveRequest) -> Response:
        """Search for passages, with many queries at once."""
        options, metrics = self._service.options, self._service.metrics
        top_k = options.default_top_k if request.topk is None else request.topk
        _check_limits(request.queries, top_k, options)
        batcher = self._ready()
        metrics.request_queries.observe(len(request.queries))
        try:
            hits = await _answer(batcher.submit(request.queries, top_k), options.search_timeout_s)
            body = render_result(hits, request.return_scores)
        except QueueFullError as error:
            metrics.errors.add("queue_full")
            raise HTTPException(429, f"too busy: {error}", RETRY_AFTER) from error
        except BatcherClosedError as error:
            metrics.errors.add("stopping")
            raise HTTPException(503, str(error), RETRY_AFTER) from error
        except TimeoutError as error:
            metrics.errors.add("timeout")
            raise HTTPException(504, f"the search did not end within {options.search_timeout_s} s") from error
        except Exception as error:
            metrics.errors.add("retriever")
            why = str(error) if isinstance(error, SearchFailedError) else f"{type(error).__name__}: {error}"
            raise HTTPException(500, f"the search failed ({why})") from error
        return Response(body, media_type="application/json", headers={CORPUS_HASH_HEADER: self._corpus_hash()})

    async def health(self) -> Response:
        """Say whether searches are answered, and over what."""
        service = self._service
        status = service.status
        index, batcher = service.index, service.batcher
        body: dict[str, Any] = {"status": status.value}
        if service.failure is not None:
            body["error"] = f"{type(service.failure).__name__}: {service.failure}"
        if index is not None and batcher is not None:
            body |= {"kind": index.kind, "corpus_hash": index.corpus_hash, "count": index.count}
            body["queue_depth"] = batcher.depth
        code = _NOT_READY.get(status, 200)
        return JSONResponse(body, code, headers=RETRY_AFTER if code == 503 else None)

    async def show_metrics(self) -> Response:
        """Show what has been counted."""
        batcher = self._service.batcher
        gauges = {
            "queue_depth": 0 if batcher is None else batcher.depth,
            "ready": int(self._service.status is Status.READY),
        }
        page = self._service.metrics.render(gauges)
        return PlainTextResponse(page, media_type="text/plain; version=0.0.4")

    def _ready(self) -> DynamicBatcher:
        batcher, status = self._service.batcher, self._service.status
        if batcher is not None and status in (Status.READY, Status.STALLED):
            return batcher  # a stalled one may come back, and its queue is bounded
        self._service.metrics.errors.add("not_ready")
        raise HTTPException(503, f"the index is not ready: {status.value}", RETRY_AFTER)

    def _corpus_hash(self) -> str:
        return "" if self._service.index is None else self._service.index.corpus_hash


def _check_limits(queries: Sequence[str], top_k: int, options: ServerOptions) -> None:
    if not 1 <= top_k <= options.max_top_k:
        raise _refusal("topk", f"expected a whole number in [1, {options.max_top_k}], got {top_k}")
    if len(queries) > options.max_queries:
        raise _refusal("queries", f"expected at most {options.max_queries} queries in a request, got {len(queries)}")
    for index, query in enumerate(queries):
        if len(query) > options.max_query_chars:
            raise _refusal(
                "queries",
                f"expected queries of at most {options.max_query_chars} characters, query {index} has {len(query)}",
            )
        if _HALF_SURROGATE.search(query):
            raise _refusal("queries", f"expected valid Unicode, query {index} has half of a surrogate pair")


def _refusal(field: str, message: str) -> HTTPException:
    return HTTPException(422, [{"loc": ["body", field], "msg": message}])


async def _explain(_request: Request, error: Exception) -> Response:
    """FastAPI's answer to an ill-typed request, without the input, which need not be valid Unicode."""
    assert isinstance(error, RequestValidationError)
    detail = [{"loc": [str(part) for part in each["loc"]], "msg": each["msg"]} for each in error.errors()]
    return Response(json.dumps({"detail": detail}), 422, media_type="application/json")


async def _answer(future: Future[list[list[Hit]]], timeout_s: float) -> list[list[Hit]]:
    async with asyncio.timeout(timeout_s):
        return await asyncio.wrap_future(future)


def render_result(hits: Sequence[Sequence[Hit]], return_scores: bool) -> bytes:
    """The body of an answer.

    Raises:
        ValueError: a score is not finite, which JSON cannot write.
    """
    result = [[_entry(hit, return_scores) for hit in found] for found in hits]
    text = json.dumps({"result": result}, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def _entry(hit: Hit, return_scores: bool) -> dict[str, Any]:
    title, text = hit.passage.title, hit.passage.text
    document = {"id": hit.passage.key, "title": title, "contents": f'"{title}"\n{text}'}
    return {"document": document, "score": float(hit.score)} if return_scores else document


class _Gate:
    """Counts and times the requests to /retrieve, and turns away bodies that are too large."""

    def __init__(self, app: ASGIApp, metrics: ServerMetrics, max_body_bytes: int) -> None:
        self._app = app
        self._metrics = metrics
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != "/retrieve":
            await self._app(scope, receive, send)
            return
        start, size = time.perf_counter(), 0

        async def limited() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._max_body_bytes:
                raise HTTPException(413, f"expected a body of at most {self._max_body_bytes} bytes")
            return message

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.requests.add(str(message["status"]))
                self._metrics.request_seconds.observe(time.perf_counter() - start)
            await send(message)

        await self._app(scope, limited, counted)
