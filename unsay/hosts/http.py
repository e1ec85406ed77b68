"""The HTTP app for LangGraph's servers (`http.app` in `langgraph.json`).

A server that deletes a thread deletes its checkpoints and leaves the store alone. This app deletes
what unsay stored for the thread as well. It also keeps the questions of runs that a server deletes or
stops before the graph has seen them.
"""

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, get_args

from httpx import HTTPStatusError
from langchain_core.messages import BaseMessage
from langgraph_sdk import get_client
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unsay.errors import InputError
from unsay.history.threads import forget
from unsay.hosts.input import read_messages
from unsay.hosts.single_writer import is_gone
from unsay.storage.base import THREADS
from unsay.storage.items import Kind, freeze_messages, thaw_messages, thread_namespace
from unsay.turn.runs import KEY as STOPPED_KEY

_THREAD = re.compile(r"(?:/noauth)?/threads/([^/]+)/?")
_PRUNE = re.compile(r"(?:/noauth)?/threads/prune/?")
_PAGE = 1_000
# Requests that can stop or delete runs which still wait in the server's queue.
_RUNS = re.compile(r"(?:/noauth)?/threads/([^/]+)/runs(?:/[^/]+/cancel|/[^/]+|)/?")
_STOPPING = (b'"rollback"', b'"interrupt"')


class PurgeDeletedThreads:
    """ASGI middleware: after `DELETE /threads/{id}` or `POST /threads/prune`, delete the threads' items.

    The server decides who may delete: only what it deleted is purged. If the purge fails, the
    client gets an error, and `unsay.Registry.purge` can repeat it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; if it deleted threads, purge what unsay stored for them.

        The purge comes before the answer is sent. If it fails, its error is raised.
        """
        method, path = scope.get("method"), scope.get("path", "")
        thread_ids: list[str] = []
        prunes = method == "POST" and _PRUNE.fullmatch(path)
        if method == "DELETE" and (thread := _THREAD.fullmatch(path)):
            thread_ids = [thread[1]]
        elif prunes:
            body, receive = await _body(receive)
            with suppress(ValueError, TypeError, LookupError):  # the server refuses it
                thread_ids = [str(each) for each in json.loads(body)["thread_ids"]]
        # A prune names threads that stay, and some that the server never had.
        there = [name for name in thread_ids if not (prunes and await is_gone(name))]

        async def purge_first(message: Message) -> None:
            # Before the answer is sent: the client may rely on it.
            if message["type"] == "http.response.start" and message["status"] < 300:
                for name in there:
                    if not prunes or await is_gone(name):
                        await purge_on_server(name)
            await send(message)

        await self.app(scope, receive, purge_first)


class KeepQueuedQuestions:
    """ASGI middleware: a queued run that a request stops or deletes leaves its question in the store.

    The graph never saw the question, so it cannot keep it. The thread's next run makes a branch of it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; if it can stop queued runs, keep the questions of those that it stops.

        They are stored first: if that fails, the error is raised and the server stops no run.
        """
        path = _RUNS.fullmatch(scope.get("path", ""))
        if path is None or scope.get("method") not in ("POST", "DELETE"):
            await self.app(scope, receive, send)
            return
        body, receive = await _body(receive)
        starts_run = scope["method"] == "POST" and not scope["path"].rstrip("/").endswith("cancel")
        queued: dict[str, list[BaseMessage]] = {}
        if not starts_run or any(each in body for each in _STOPPING):
            queued = await _queued(path[1])
        # Before the server handles it: the run that comes instead may begin at once.
        before = await _keep(path[1], queued) if queued else None

        async def check_first(message: Message) -> None:
            if queued and message["type"] == "http.response.start":
                waiting = await _queued(path[1])
                if stay := queued.keys() & waiting.keys():
                    stopped = {name: queued[name] for name in queued.keys() - stay}
                    await _keep(path[1], stopped, before or [])
            await send(message)

        await self.app(scope, receive, check_first)


async def _body(receive: Receive) -> tuple[bytes, Receive]:
    """Return the body of a request, and what gives the request again to the server."""
    received = [await receive()]
    while received[-1].get("more_body"):
        received.append(await receive())

    async def again() -> Message:
        return received.pop(0) if received else await receive()

    return b"".join(each.get("body", b"") for each in received), again


async def _queued(thread_id: str) -> dict[str, list[BaseMessage]]:
    """Return the messages of the thread's queued runs, by the run's id.

    Runs without messages that the graph can read are left out. Empty if the server refuses to list
    the runs, usually because it has no such thread.
    """
    messages_by_run: dict[str, list[BaseMessage]] = {}
    with suppress(HTTPStatusError):  # there may be no such thread; the server says so
        runs: Any = await get_client().runs.list(
            thread_id, status="pending", select=["run_id", "kwargs"], limit=_PAGE
        )
        for run in runs:
            run_input = run.get("kwargs", {}).get("input")
            with suppress(InputError):  # the graph would refuse it
                if isinstance(run_input, dict) and run_input.get("messages"):
                    messages_by_run[str(run["run_id"])] = read_messages(run_input["messages"])
    return messages_by_run


async def _keep(
    thread_id: str,
    queued: dict[str, list[BaseMessage]],
    before: Sequence[BaseMessage] | None = None,
) -> list[BaseMessage]:
    """Store the thread's kept questions: those in `before`, then those of queued runs.

    They replace the stored ones. Without `before` the stored ones are read first and stay. Returns
    the messages in `before`, or those that were read, for a second call. Raises the errors of the
    server's store.
    """
    store: Any = get_client().store
    namespace = thread_namespace("stopped", thread_id)
    if before is None:
        item = await store.get_item(namespace, STOPPED_KEY)
        before = thaw_messages(item["value"]["messages"]) if item else []
    questions = [*before, *(message for messages in queued.values() for message in messages)]
    await store.put_item(
        namespace, STOPPED_KEY, {"messages": freeze_messages(questions)}, index=False
    )
    return list(before)


async def purge_on_server(thread_id: str) -> None:
    """Delete what unsay stored for a thread in the store of the server that this code runs in.

    Nothing is done if nothing is stored. Raises the errors of the store; it can be repeated then.
    """
    forget(thread_id)
    store: Any = get_client().store
    for kind in get_args(Kind):
        namespace = thread_namespace(kind, thread_id)
        while items := (await store.search_items(namespace, limit=_PAGE))["items"]:
            for item in items:
                await store.delete_item(item["namespace"], item["key"])
    await store.delete_item(THREADS, thread_id)


app = Starlette(middleware=[Middleware(PurgeDeletedThreads), Middleware(KeepQueuedQuestions)])
