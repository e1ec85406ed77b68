"""A conversation with its models, in which a person speaks."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, aclosing, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig

import unsay
from unsay.cli.output import location, shell_language
from unsay.cli.run import (
    existing_thread,
    language_of_thread,
    load_tools,
    mcp_servers,
    mcp_tools,
    settings_of,
)
from unsay.cli.screen import failures_on_screen
from unsay.decisions import yes_or_no
from unsay.errors import InputError, MissingModelError, UnknownThreadError
from unsay.graph.builder import make_services
from unsay.orders.parse import parse_command
from unsay.prompts.catalogue import Texts
from unsay.results.results import Event, Reply, reply_event, reply_of
from unsay.settings.settings import Settings
from unsay.storage.base import Database, translated
from unsay.storage.sqlite import open_database

Show = Callable[[Event], None]

T = TypeVar("T")


# How often a turn's line on the screen is drawn again.
TICK_SECONDS = 0.1


@dataclass(slots=True, kw_only=True)
class Speaker:
    """A conversation that a person speaks in, made by `speaking`.

    `newcomer` answers commands before the first message, in the language of the shell. `tick` is
    called ten times a second during a turn. Each turn is a task on one event loop: Ctrl-C
    cancels a task where it waits, while a blocking run ends only when its model has answered. A
    model's connections belong to that loop.
    """

    database: Database
    conversation: "unsay.Conversation"
    twin: "unsay.AsyncConversation"
    newcomer: "unsay.AsyncConversation"
    runner: asyncio.Runner
    settings: Settings
    tick: Callable[[], None] = lambda: None

    def say(
        self,
        words: str,
        show: Show,
        *,
        images: Sequence[str] = (),
        turn_id: str | None = None,
        answer: str | None = None,
    ) -> None:
        """Answer a message, and call `show` with every event; the last one has the reply.

        `images`, `turn_id` and `answer` are those of `Conversation.say`, and so are the errors.
        """
        is_first = parse_command(words) is not None and not self._snapshot().values
        twin = self.newcomer if is_first else self.twin
        events = twin.stream(words, images=images, turn_id=turn_id, answer=answer)
        self._run(_shown(events, show))

    def _snapshot(self) -> Any:
        config: RunnableConfig = {"configurable": {"thread_id": self.conversation.thread_id}}
        with translated(self.database.path):
            return self.conversation.graph.get_state(config)

    def resume(self, decision: Any, show: Show) -> None:
        """Resume a turn that stopped, and call `show` with every event; the last one has the reply.

        The errors are those of `Conversation.resume`. `decision` is a person's decision as
        `decision_of` returns it, or `None` if none is due.
        """
        self._run(_shown(self.twin.stream(decision=decision), show))

    def retry(self, show: Show) -> None:
        """Ask the last question again, and call `show` once, with the reply.

        The errors are those of `Conversation.retry`, such as `NothingToUndoError` without a
        question.
        """
        show(reply_event(self._run(self.twin.retry())))

    def edit(self, turn: int, text: str, show: Show) -> None:
        """Replace a turn's question and all that followed; call `show` once, with the new reply.

        The errors are those of `Conversation.edit`, such as `UnknownTurnError`.
        """
        show(reply_event(self._run(self.twin.edit(turn, text))))

    def _run(self, turn: Coroutine[Any, Any, T]) -> T:
        async def tick() -> None:
            while True:
                self.tick()
                await asyncio.sleep(TICK_SECONDS)

        async def ticking() -> T:
            clock = asyncio.create_task(tick())
            try:
                return await turn
            finally:
                clock.cancel()

        return self.runner.run(ticking())

    def stopped_question(self) -> str | None:
        """Return the question of a turn that was stopped before its answer.

        `None` if every question has an answer, or if the turn waits for a decision. Raises
        `StorageError` if the thread cannot be read.
        """
        try:
            pending = self.conversation.timeline().pending
        except UnknownThreadError:
            return None
        return pending.question if pending and pending.request is None else None

    def due(self) -> Reply | None:
        """Return the reply that asks for a decision; `None` if the thread waits for none.

        Raises `StorageError` if the thread cannot be read.
        """
        snapshot = self._snapshot()
        return reply_of(snapshot.values, snapshot.interrupts) if snapshot.interrupts else None

    def labels(self, words: str | None = None) -> Texts:
        """Return the texts for a person in the language of the settings.

        With `language="auto"` it is the language of the thread if `words` are its next message.
        Then `StorageError` is raised if the thread cannot be read.
        """
        if self.settings.language != "auto":
            return Texts(self.settings.language)
        return Texts(language_of_thread(self.conversation, words))


async def _shown(events: AsyncGenerator[Event, None], show: Show) -> None:
    async with aclosing(events):
        async for event in events:
            show(event)


@contextmanager
def speaking(
    db: str | None,
    thread: str | None,
    *,
    begins: bool,
    decides: bool = False,
    tools: Sequence[str] = (),
    mcp: str | None = None,
    **named: str | None,
) -> Iterator[Speaker]:
    """Open a thread to speak in, for the block.

    Args:
        db: The database, as in `location`. Without `begins` it must exist.
        thread: The thread's id. `None` is the newest thread, or with `begins` a new one.
        begins: Whether the database and the thread may be new.
        decides: Whether a person's decision resumes the thread; it may need no model.
        tools: Values of `--tools`.
        mcp: The value of `--mcp`.
        **named: `model`, `judge_model` and `system`, which replace configured ones unless `None`.

    Raises:
        ConfigurationError: A setting, a tool or the database's URL cannot be used.
        InputError: A tool, a server's tools or the thread's id cannot be used.
        MissingExtraError: `mcp` is given, and the extra is not installed.
        MissingModelError: There is no model, without `decides`; nothing was created.
        NotFoundError: Without `begins`, the named database file does not exist.
        UnknownThreadError: Without `begins`, there is no thread yet.
        StorageError: The database cannot be opened.
    """
    settings = settings_of(named)
    # Before the database is opened: without a model none is created.
    model = None
    with suppress(MissingModelError) if decides else nullcontext():
        model = make_services(settings=settings).model
    models: dict[str, Any] = {"model": model, "settings": settings}
    with ExitStack() as stack:
        # The verdict of a panel does not say that one of its judges failed.
        if not settings.judge_panel:
            stack.enter_context(failures_on_screen())
        runner = stack.enter_context(asyncio.Runner())
        if tools or mcp is not None:
            served = [] if mcp is None else runner.run(mcp_tools(mcp_servers(mcp)))
            models["tools"] = [*load_tools(tools), *served]
        if begins:
            database = stack.enter_context(closing(open_database(location(db))))
        else:
            open_thread = stack.enter_context(existing_thread(db, thread))
            database, thread = open_thread.database, open_thread.thread_id
        conversation = unsay.Conversation.open(database, thread=thread, **models)
        thread_id = conversation.thread_id
        open_twin = partial(unsay.AsyncConversation.open, database, thread=thread_id, **models)
        yield Speaker(
            database=database,
            conversation=conversation,
            twin=open_twin(),
            newcomer=open_twin(context={"language": shell_language()}),
            runner=runner,
            settings=settings,
        )


def readable(words: str) -> str:
    """Return the text unchanged; `InputError` if it comes from bytes that are not UTF-8."""
    try:
        words.encode()
    except UnicodeEncodeError as error:
        raise InputError(code="message_not_utf8") from error
    return words


def decision_of(words: str) -> dict[str, Any]:
    """Return what a turn is resumed with for a decision that a person typed.

    `approve`, `reject`, words such as `yes`, and `edit:ANSWER` are decisions. All other words are
    instructions for another attempt. An empty text is refused when the turn is resumed. Raises
    `InputError` for `edit:` without an answer.

    >>> decision_of("approve")
    {'decisions': [{'type': 'approve'}]}
    >>> decision_of("shorter, please")
    {'decisions': [{'type': 'respond', 'message': 'shorter, please'}]}
    """
    text = words.strip()
    if kind := yes_or_no(text):
        return {"decisions": [{"type": kind}]}
    if text.startswith("edit:"):
        answer = text.removeprefix("edit:").strip()
        if not answer:
            raise InputError(code="edit_decision_empty")
        action = {"name": "deliver_answer", "args": {"answer": answer}}
        return {"decisions": [{"type": "edit", "edited_action": action}]}
    return {"decisions": [{"type": "respond", "message": text}]}


def is_about_draft(due: Reply) -> bool:
    """Return whether a decision is about drafts, which can be edited, and not just yes or no."""
    reviews = (due.request or {}).get("review_configs") or [{}]
    return "edit" in reviews[0].get("allowed_decisions", ("edit",))
