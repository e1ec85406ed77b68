"""The HTTP app for LangGraph's servers (`http.app` in `langgraph.json`).

A server that deletes a thread deletes its checkpoints and leaves the store alone. This app deletes
what unsay stored for the thread as well.
"""

import re
from typing import Any, get_args

from langgraph_sdk import get_client
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unsay.history.recall_cache import MEMORIES
from unsay.storage.base import THREADS
from unsay.storage.items import Kind, thread_namespace

_THREAD = re.compile(r"(?:/noauth)?/threads/([^/]+)/?")
_PAGE = 1_000


class PurgeDeletedThreads:
    """ASGI middleware: after a successful `DELETE /threads/{id}`, delete the thread's items.

    The server decides who may delete: nothing is purged when it refuses. If the purge fails, the
    client gets an error, and `unsay.Registry.purge` can repeat it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request; if it deleted a thread, purge what unsay stored for it."""
        path = _THREAD.fullmatch(scope.get("path", ""))
        if path is None or scope.get("method") != "DELETE":
            await self.app(scope, receive, send)
            return

        async def purge_first(message: Message) -> None:
            # Before the answer is sent: the client may rely on it.
            if message["type"] == "http.response.start" and message["status"] < 300:
                await purge_on_server(path[1])
            await send(message)

        await self.app(scope, receive, purge_first)


async def purge_on_server(thread_id: str) -> None:
    """Delete what unsay stored for a thread in the store of the server that this code runs in."""
    MEMORIES.drop(thread_id)
    store: Any = get_client().store
    for kind in get_args(Kind):
        namespace = thread_namespace(kind, thread_id)
        while found := (await store.search_items(namespace, limit=_PAGE))["items"]:
            for item in found:
                await store.delete_item(item["namespace"], item["key"])
    await store.delete_item(THREADS, thread_id)


app = Starlette(middleware=[Middleware(PurgeDeletedThreads)])
