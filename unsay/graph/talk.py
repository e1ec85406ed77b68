"""A conversation's verbs, written once for scripts and for async code."""

import asyncio
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import uuid4

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command, StateSnapshot

from unsay.effects import Call, Steps
from unsay.errors import ConflictError, NothingToUndoError, UnknownThreadError
from unsay.graph.builder import Graph
from unsay.graph.reply import Moved, Reply, reply_of
from unsay.graph.timeline import Timeline, timeline_of
from unsay.history.catalogue import TITLE_CHARS, get_entry, put_entry
from unsay.history.checkpoints import add_checkpoint
from unsay.history.database import Database, translated
from unsay.history.line import Label
from unsay.nodes.evaluate_quality import check_message, checkpoint_by_order
from unsay.nodes.moves import (
    OPERATIONS,
    counts,
    go_back,
    landing_of_person,
    line_of,
    place_name,
    turns_left,
    undo_last,
)
from unsay.prompts.catalogue import Fence
from unsay.prompts.texts import Texts
from unsay.services import Scope, Services
from unsay.settings import Context
from unsay.state import State, Update, merge_messages
from unsay.transcript.marks import DOCUMENT, is_question, spoken
from unsay.transcript.text import preview, text_of
from unsay.types import Checkpoint, Operation

T = TypeVar("T")

_LOCKS: dict[tuple[str, str], threading.Lock] = {}
_END = "create_checkpoint"
"""Orders from outside are written as this node's: nothing comes after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """One thread of one database, and the graph over it."""

    graph: Graph
    services: Services
    database: Database
    thread_id: str
    context: Context | None = None

    @property
    def config(self) -> RunnableConfig:
        """LangGraph's configuration of this thread."""
        return {"configurable": {"thread_id": self.thread_id}}

    def scope(self) -> Scope:
        """What an order from outside may use; nobody listens to its events."""
        return Scope(
            services=self.services,
            settings=self.services.settings.for_run(self.context),
            config=self.config,
            store=self.database.store,
            thread_id=self.thread_id,
            emit=lambda _: None,
        )

    @property
    def lock(self) -> threading.Lock:
        """This process's lock on the thread: one writer at a time."""
        return _LOCKS.setdefault((self.database.path, self.thread_id), threading.Lock())

    def waiting(self) -> Call:
        """A call that takes the lock once it is free."""
        lock = self.lock
        return Call(blocking=lock.acquire, awaitable=lambda: _acquire(lock))

    def alone(self, steps: Steps[T]) -> Steps[T]:
        """The steps with the thread's lock held, and SQLite's errors explained."""
        yield self.waiting()
        try:
            with translated(self.database.path):
                return (yield from steps)
        finally:
            self.lock.release()

    def snapshot(self) -> Steps[StateSnapshot]:
        """The thread's state, empty for a thread that does not exist."""
        snapshot: StateSnapshot = yield Call(
            blocking=lambda: self.graph.get_state(self.config),
            awaitable=lambda: self.graph.aget_state(self.config),
        )
        return snapshot

    def known(self) -> Steps[State]:
        """The state of a thread that exists.

        Raises:
            UnknownThreadError: Nothing was ever said in it.
        """
        snapshot = yield from self.snapshot()
        if not snapshot.values.get("messages") and not snapshot.values.get("turn"):
            raise UnknownThreadError(
                f"There is no thread {self.thread_id!r} in {self.database.path!r}; "
                "`unsay threads` lists those there are"
            )
        state: State = snapshot.values  # type: ignore[assignment]
        return state

    def opening(self, text: str | None, documents: Sequence[str] = ()) -> Steps[Any]:
        """What to hand the graph so that a message is answered once.

        A message that was said before and never answered is not put on the
        record a second time: its turn goes on where it stopped.

        Raises:
            EmptyMessageError: There is nothing to answer.
            MessageTooLongError: It is longer than allowed.
            ConflictError: A decision is due first.
            NothingToUndoError: There is no turn to go on with.
        """
        message = None if text is None else HumanMessage(text, id=str(uuid4()))
        if message is not None:
            check_message(message, self.services.settings.max_message_chars)
        snapshot = yield from self.snapshot()
        if snapshot.interrupts:
            raise ConflictError(
                "This thread waits for a person's decision on rejected drafts: resume it with "
                '"approve", "reject", or {"decisions": [...]}'
            )
        if snapshot.next and text in (None, _waiting_text(snapshot.values)):
            return None
        if message is None:
            raise NothingToUndoError("There is no interrupted turn to go on with; say something")
        yield from self.list_thread(snapshot.values, text_of(message))
        found = [HumanMessage(each, name=DOCUMENT, id=str(uuid4())) for each in documents]
        return {"messages": [*found, message]}

    def deciding(self, decision: Any) -> Steps[Any]:
        """What to hand the graph so that a person's decision reaches the drafts it is about.

        Raises:
            NothingToUndoError: No decision is due.
        """
        snapshot = yield from self.snapshot()
        if not snapshot.interrupts:
            raise NothingToUndoError("No decision is due in this thread; say something")
        return Command(resume=decision)

    def answer(
        self, text: str | None, *, decision: Any = None, documents: Sequence[str] = ()
    ) -> Steps[Reply]:
        """Say something, or go on with a turn that stopped, to its end."""
        start = self.opening(text, documents) if decision is None else self.deciding(decision)
        value = yield from start
        yield Call(
            blocking=lambda: self.graph.invoke(value, self.config, **self.run_options()),
            awaitable=lambda: self.graph.ainvoke(value, self.config, **self.run_options()),
        )
        return (yield from self.closing())

    def run_options(self) -> dict[str, Any]:
        """How the graph is run: every step durable, with this conversation's overrides."""
        return {"durability": "sync", "context": self.context}

    def closing(self) -> Steps[Reply]:
        """The reply of the turn that just ended; the thread is listed with it."""
        snapshot = yield from self.snapshot()
        yield from self.list_thread(snapshot.values)
        return reply_of(snapshot.values, snapshot.interrupts)

    def list_thread(self, state: Mapping[str, Any], opening: str | None = None) -> Steps[None]:
        """Write the thread's line in the catalogue.

        Args:
            state: As it is.
            opening: Words that are about to be said; they name a thread that has no name, so
                that it can be found even if its first turn never ends.
        """
        now = self.scope().now()
        item = yield get_entry(self.database.store, self.thread_id)
        entry = (
            dict(item.value) if item is not None else {"created_at": now, "title": "", "turns": 0}
        )
        if opening is not None:
            entry["title"] = entry["title"] or preview(opening, TITLE_CHARS)
        elif not entry["turns"]:
            entry["title"] = yield from self.title(state)
        entry["updated_at"] = now
        entry["turns"] = turns_left(state.get("messages", []))
        yield put_entry(self.database.store, self.thread_id, entry)

    def title(self, state: Mapping[str, Any]) -> Steps[str]:
        """A name for the thread: by the title model, else the first question's words."""
        first = next((m for m in state.get("messages", []) if is_question(m)), None)
        words = "" if first is None else text_of(first)
        plain = preview(words, TITLE_CHARS)
        if not words:
            return plain
        scope = self.scope()
        request = [
            SystemMessage(scope.texts([HumanMessage(words)]).title_system),
            HumanMessage(Fence.around(words).mark("conversation", words[:2_000])),
        ]
        limit = scope.settings.judge_timeout_seconds
        try:
            titler = yield scope.resolve("titler")
            if titler is None:
                return plain
            reply = yield scope.ask(titler, request, quiet=True, timeout_seconds=limit)
        except Exception:  # noqa: BLE001 - a title model may fail in any way; the words will do
            return plain
        written = reply if isinstance(reply, str) else text_of(reply)
        return preview(written.strip(" \"'「」“”\n"), TITLE_CHARS) or plain

    def add(self, messages: Iterable[Any]) -> Steps[None]:
        """Put messages on the record without a run; the next turn judges the answers."""
        given = [
            m if m.id else m.model_copy(update={"id": str(uuid4())})
            for m in convert_to_messages(list(messages))
        ]
        yield from self.write(Update(messages=given))
        snapshot = yield from self.snapshot()
        yield from self.list_thread(snapshot.values)

    def write(self, update: Update) -> Steps[None]:
        """Commit an update that no run makes."""
        values = dict(update)
        yield Call(
            blocking=lambda: self.graph.update_state(self.config, values, as_node=_END),
            awaitable=lambda: self.graph.aupdate_state(self.config, values, as_node=_END),
        )

    def mark(self, name: str | None) -> Steps[Checkpoint]:
        """Make a checkpoint at the newest message."""
        state = yield from self.known()
        scope = self.scope()
        mark = checkpoint_by_order(state, scope, name)
        checkpoints = add_checkpoint(
            state.get("checkpoints", []), mark, limit=scope.settings.checkpoint_limit
        )
        yield from self.write(Update(checkpoints=checkpoints))
        return next(each for each in checkpoints if each["id"] == mark["id"])

    def roll_back(self, to: str | None) -> Steps[Moved]:
        """Go back to a checkpoint, by default the last one before the newest answer."""
        state = yield from self.known()
        scope = self.scope()
        base = landing_of_person(line_of(state), to, ())
        cause = Label(kind="person", reason=to or "rollback", created_at=scope.now())
        update = yield from go_back(state, scope, base, cause, ())
        return (yield from self.settle(state, update, place_name(state, base, self.texts(state))))

    def undo(self) -> Steps[Moved]:
        """Take back the newest step, a turn or a rollback; also one that never ended."""
        state = yield from self.known()
        scope = self.scope()
        turn = state.get("turn")
        if turn is not None and not turn["done"]:
            step = Operation(kind="turn", base=turn["base"], cuts=turn["cuts"])
            operations = [*state.get("operations", []), step][-OPERATIONS:]
            state = {**state, "operations": operations}
        update = yield from undo_last(state, scope, (), "undo")
        after = merge_messages(state["messages"], [update["messages"]])
        base = after[-1].id if after else None
        later: State = {**state, "messages": after}
        return (yield from self.settle(state, update, place_name(later, base, self.texts(state))))

    def texts(self, state: State) -> Texts:
        """The catalogue in the conversation's language."""
        return self.scope().texts(state["messages"])

    def settle(self, state: State, update: Update, at: str) -> Steps[Moved]:
        """Commit a move, with the turn closed, and say where it led."""
        if turn := state.get("turn"):
            update["turn"] = {**turn, "done": True, "checkpoints_due": [], "rejections": []}
        update["should_rollback"], update["move"], update["notice"] = False, None, None
        yield from self.write(update)
        removed, restored = counts(state["messages"], update["messages"])
        after = merge_messages(state["messages"], [update["messages"]])
        yield from self.list_thread({**state, **update, "messages": after})
        return Moved(
            turns=turns_left(after),
            removed=removed,
            restored=restored,
            at=at.strip(),
            question=_taken_question(state["messages"], after),
        )

    def timeline(self) -> Steps[Timeline]:
        """The thread as a person sees it."""
        state = yield from self.known()
        return self.timeline_now(state)

    def timeline_now(self, state: Mapping[str, Any]) -> Timeline:
        """A state as a person sees it."""
        settings = self.scope().settings
        thresholds = (settings.quality_threshold, settings.checkpoint_threshold)
        return timeline_of(self.thread_id, state, thresholds)


def _waiting_text(state: Mapping[str, Any]) -> str:
    """The words of the question at the end of a record, for comparing with what is said again."""
    messages: Sequence[AnyMessage] = state.get("messages", [])
    asked = next((m for m in reversed(messages) if is_question(m)), None)
    return "" if asked is None else text_of(asked)


def _taken_question(before: Sequence[AnyMessage], after: Sequence[AnyMessage]) -> str:
    """The first question that a move took away, so that it can be put back into the prompt."""
    kept = {m.id for m in after}
    gone = (m for m in spoken(before) if is_question(m) and m.id not in kept)
    first = next(gone, None)
    return "" if first is None else text_of(first)


async def _acquire(lock: threading.Lock) -> None:
    """Wait for a lock without blocking the loop, and without taking it once cancelled."""
    while not lock.acquire(blocking=False):  # noqa: ASYNC110 - another thread may hold it
        await asyncio.sleep(0.01)
