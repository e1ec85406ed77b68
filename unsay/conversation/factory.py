"""What both forms of a conversation share: how they are opened."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self
from uuid import uuid4

from langchain_core.embeddings import Embeddings
from langchain_core.tools import BaseTool

from unsay.context.reminders import Reminder
from unsay.context.strategy import Strategy
from unsay.conversation.thread import Talk, check_thread
from unsay.graph.builder import Graph, compile_graph, make_services
from unsay.model_factory import ModelLike
from unsay.settings import Context, Settings
from unsay.storage.base import Database
from unsay.storage.sqlite import open_database
from unsay.types import TopicDetector


def _open_talk(
    path_or_url: str | os.PathLike[str] | Database,
    thread: str | None,
    model: ModelLike | None,
    context: Context | None,
    options: Mapping[str, Any],
) -> Talk:
    name = str(uuid4()) if thread is None else check_thread(thread)
    services = make_services(model, **options)
    database = path_or_url if isinstance(path_or_url, Database) else open_database(path_or_url)
    graph = compile_graph(services, deltas=True, checkpointer=database.saver, store=database.store)
    return Talk(graph=graph, services=services, database=database, thread_id=name, context=context)


class Opened:
    """What both forms of a conversation share."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    @classmethod
    def open(
        cls,
        path_or_url: str | os.PathLike[str] | Database,
        *,
        thread: str | None = None,
        model: ModelLike | None = None,
        judge: ModelLike | None = None,
        summarizer: ModelLike | None = None,
        title: ModelLike | None = None,
        tools: Sequence[BaseTool | Callable[..., Any]] = (),
        detector: TopicDetector | None = None,
        reminders: Sequence[Reminder] = (),
        strategy: Strategy | None = None,
        embeddings: Embeddings | None = None,
        settings: Settings | Mapping[str, Any] | None = None,
        context: Context | None = None,
    ) -> Self:
        """A conversation in a file, made if there is none, or in a Postgres database.

        Args:
            path_or_url: A path, `sqlite:///path`, `:memory:`, an open database, or
                `postgresql://user:password@host:port/name` (the extra `postgres`).
            thread: Its id; `None` begins a new one.
            model: Answers; see `build_graph`. Reading and going back need none.
            judge: See `build_graph`.
            summarizer: See `build_graph`.
            title: Names the thread; `None` takes `UNSAY_TITLE_MODEL`, else the
                first question's words.
            tools: See `build_graph`.
            detector: See `build_graph`.
            reminders: See `build_graph`.
            strategy: See `build_graph`.
            embeddings: See `build_graph`.
            settings: See `build_graph`.
            context: Overrides settings for this conversation's runs.

        Raises:
            StorageError: The file or the server cannot be used; the message says why.
            ConfigurationError: A setting is impossible, or the URL.
            MissingExtraError: It is Postgres' and the extra is not installed.
            InvalidNameError: The thread's id cannot be one.
        """
        options = {
            "judge": judge,
            "summarizer": summarizer,
            "title": title,
            "tools": tools,
            "detector": detector,
            "reminders": reminders,
            "strategy": strategy,
            "embeddings": embeddings,
            "settings": settings,
        }
        return cls(_open_talk(path_or_url, thread, model, context, options))

    @property
    def thread_id(self) -> str:
        """This conversation's thread."""
        return self._talk.thread_id

    @property
    def graph(self) -> Graph:
        """The compiled graph, with this file's checkpointer and store."""
        return self._talk.graph
