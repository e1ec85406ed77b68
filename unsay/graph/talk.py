"""A conversation's verbs, written once for scripts and for async code."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from uuid import uuid4

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command, StateSnapshot

from unsay.effects import Call, Steps, adrive, drive
from unsay.errors import ConflictError, NothingToUndoError, UnknownThreadError
from unsay.graph.builder import Graph
from unsay.graph.reply import Reply, reply_of
from unsay.graph.timeline import Timeline, timeline_of
from unsay.history.catalogue import TITLE_CHARS
from unsay.history.compensations import Compensation, Report
from unsay.history.database import Database, translated
from unsay.history.frozen import freeze_messages
from unsay.history.locks import WriterLock
from unsay.history.sessions import find_session, read_journal, refuse_ended, revise
from unsay.nodes.booking import book
from unsay.nodes.bookkeeping import resume_run
from unsay.nodes.commands import parse_command
from unsay.nodes.compensation import finish
from unsay.nodes.entry import check_message
from unsay.nodes.logbook import write_ahead
from unsay.nodes.moves import turns_left
from unsay.prompts.catalogue import Fence
from unsay.services import Scope, Services
from unsay.settings import Context
from unsay.state import State, Update
from unsay.transcript.marks import DOCUMENT, is_answer, is_question
from unsay.transcript.text import preview, text_of

T = TypeVar("T")

_LOCKS: dict[tuple[str, str], WriterLock] = {}
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
    writes: bool = True

    @property
    def config(self) -> RunnableConfig:
        """LangGraph's configuration of this thread."""
        return {"configurable": {"thread_id": self.thread_id}}

    def scope(self, confirm: Callable[[Compensation], bool] | None = None) -> Scope:
        """What an order from outside may use; nobody listens to its events.

        Args:
            confirm: Whether a tool's call may be taken back that a person must confirm.
        """
        return Scope(
            services=self.services,
            settings=self.services.settings.for_run(self.context),
            config=self.config,
            store=self.database.store,
            thread_id=self.thread_id,
            emit=lambda _: None,
            confirm=confirm,
        )

    def run_scope(self, state: Mapping[str, Any]) -> Scope:
        """The scope of the run that the state's turn belongs to."""
        turn = state.get("turn")
        return replace(self.scope(), run_id=turn.get("run_id") if turn else None)

    @property
    def lock(self) -> WriterLock:
        """The lock on the thread: one writer at a time, in this process and in all others."""
        return _LOCKS.setdefault((self.database.path, self.thread_id), WriterLock())

    def waiting(self) -> Call:
        """A call that takes the lock once it is free."""
        return Call(
            blocking=lambda: drive(self._taking()), awaitable=lambda: adrive(self._taking())
        )

    def _taking(self) -> Steps[None]:
        settings = self.services.settings
        wait, lease = settings.thread_wait_seconds, settings.lease_seconds
        with translated(self.database.path):
            yield from self.lock.take(
                self.database.leases, self.thread_id, wait_seconds=wait, lease_seconds=lease
            )

    def alone(self, steps: Steps[T]) -> Steps[T]:
        """The steps with the thread's lock held, and SQLite's errors explained."""
        yield from self._taking()
        try:
            with translated(self.database.path):
                return (yield from steps)
        finally:
            self.lock.release()

    def reading(self, ask: Callable[["Talk"], Steps[T]]) -> Steps[T]:
        """Steps that write nothing and wait for no writer: what is committed is whole."""
        with translated(self.database.path):
            return (yield from ask(replace(self, writes=False)))

    def snapshot(self) -> Steps[StateSnapshot]:
        """The thread's state, empty for a thread that does not exist.

        A process may have died between a step's writes and its checkpoint: the state then
        shows what the next input would drop. Such a step is committed first.
        """
        snapshot: StateSnapshot = yield self._reading()
        if not self.writes:
            return snapshot
        half_committed = snapshot.tasks and not snapshot.next
        lost = None if half_committed else (yield from self._lost(snapshot))
        if half_committed or lost:
            yield self._committing(lost)
            snapshot = yield self._reading()
        return snapshot

    def _lost(self, snapshot: StateSnapshot) -> Steps[dict[str, Any] | None]:
        """What a process that died had said and not yet committed; `None` for nothing.

        A journal whose words are on the record has served: were it kept, whoever takes them off
        would see them come back. A command is not brought back: it may have been obeyed, and
        nobody expects it to be obeyed later.
        """
        store = self.database.store
        journal = yield from read_journal(store, self.thread_id)
        on_record = {message.id for message in snapshot.values.get("messages", [])}
        if not journal:
            return None
        command = parse_command(text_of(journal[-1]))
        if command is not None or any(message.id in on_record for message in journal):
            yield from revise(store, self.thread_id, now=self.scope().now(), journal=None)
            return None
        return {"messages": journal}

    def _reading(self) -> Call:
        return Call(
            blocking=lambda: self.graph.get_state(self.config),
            awaitable=lambda: self.graph.aget_state(self.config),
        )

    def _committing(self, value: Any) -> Call:
        """A call that commits an input, or a step whose writes are stored, and takes no other."""
        options = {**self.run_options(), "durability": "sync", "interrupt_before": "*"}
        return Call(
            blocking=lambda: self.graph.invoke(value, self.config, **options),
            awaitable=lambda: self.graph.ainvoke(value, self.config, **options),
        )

    def known(self) -> Steps[State]:
        """The state of a thread that exists.

        Raises:
            UnknownThreadError: Nothing was ever said in it.
        """
        snapshot = yield from self.snapshot()
        if not any(snapshot.values.get(key) for key in ("messages", "turn", "ledger")):
            raise UnknownThreadError(
                f"There is no thread {self.thread_id!r} in {self.database.path!r}; "
                "`unsay threads` lists those there are"
            )
        state: State = snapshot.values  # type: ignore[assignment]
        return state

    def settled(self) -> Steps[State]:
        """The state of a thread that exists and in which no turn is under way.

        Raises:
            UnknownThreadError: Nothing was ever said in it.
            ConflictError: A turn waits to be gone on with.
        """
        state = yield from self.known()
        snapshot = yield from self.snapshot()
        if snapshot.next:
            raise ConflictError(
                "A turn of this thread was stopped: resume it, say something else, or undo it first"
            )
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
        waits = snapshot.next and not _was_answered(snapshot.values)
        if waits and text in (None, _waiting_text(snapshot.values)):
            if _is_opened(snapshot.values):
                yield from resume_run(self.run_scope(snapshot.values))
            return None
        if message is None:
            raise NothingToUndoError("There is no interrupted turn to go on with; say something")
        found = [HumanMessage(each, name=DOCUMENT, id=str(uuid4())) for each in documents]
        said = [*found, message]
        yield from self.list_thread(snapshot.values, said)
        return {"messages": said}

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
        state = yield Call(
            blocking=lambda: self.graph.invoke(value, self.config, **self.run_options()),
            awaitable=lambda: self.graph.ainvoke(value, self.config, **self.run_options()),
        )
        return (yield from self.ended(state, tuple(state.get("__interrupt__", ()))))

    def run_options(self) -> dict[str, Any]:
        """How the graph is run, with this conversation's overrides.

        A turn is one commit: what was said is in the journal by then. With tools every step
        is one, so that a tool which finished never runs again.
        """
        durability = "sync" if self.services.tools else "exit"
        return {"durability": durability, "context": self.context}

    def closing(self) -> Steps[Reply]:
        """The reply of the turn that just ended."""
        snapshot = yield from self.snapshot()
        return (yield from self.ended(snapshot.values, snapshot.interrupts))

    def ended(self, state: Mapping[str, Any], interrupts: tuple[Any, ...]) -> Steps[Reply]:
        """The reply that a state holds; the thread is listed with it."""
        yield from self.list_thread(state)
        return reply_of(state, interrupts)

    def list_thread(
        self, state: Mapping[str, Any], opening: Sequence[AnyMessage] = ()
    ) -> Steps[None]:
        """Write the thread's line in the catalogue.

        Args:
            state: As it is.
            opening: What is about to be said; it names a thread that has no name, so that it
                can be found even if its first turn never ends, and stands in the journal
                until the turn has ended.

        Raises:
            SessionEndedError: Words are about to be said in a thread that was ended.
        """
        store, now = self.database.store, self.scope().now()
        listed = yield from find_session(store, self.thread_id)
        title = "" if listed is None else listed.title
        if opening:
            refuse_ended(listed)
            title = title or preview(text_of(opening[-1]), TITLE_CHARS)
        elif listed is None or not listed.turns:
            title = yield from self.title(state)
        turns = turns_left(state.get("messages", []))
        journal = freeze_messages(opening) if opening else None
        yield from revise(store, self.thread_id, now=now, title=title, turns=turns, journal=journal)

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
            reply = yield scope.ask(titler, request, quiet=True, aside=True, timeout_seconds=limit)
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
        yield from self.snapshot()
        yield from self.commit(Update(messages=given))
        snapshot = yield from self.snapshot()
        yield from self.list_thread(snapshot.values)

    def write(self, state: State, scope: Scope, update: Update) -> Steps[Report]:
        """Commit an order's update, with what it did in the ledger; take back what tools did.

        Raises:
            ConflictError: A person must confirm that first; nothing was changed.
        """
        yield from book(state, scope, update)
        yield from self.commit((yield from write_ahead(state, scope, update)))
        report = yield from finish(state, scope)
        if report.outcomes:
            yield from self.commit(Update(owed=[]))
        return report

    def commit(self, update: Update) -> Steps[None]:
        """Commit an update that no run makes."""
        values = dict(update)
        yield Call(
            blocking=lambda: self.graph.update_state(self.config, values, as_node=_END),
            awaitable=lambda: self.graph.aupdate_state(self.config, values, as_node=_END),
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


def _is_opened(state: Mapping[str, Any]) -> bool:
    """Whether the state's turn is that of the question at the end of the record."""
    turn = state.get("turn")
    asked = next((m for m in reversed(state.get("messages", [])) if is_question(m)), None)
    if asked is None or not turn or turn["done"]:
        return False
    return bool(turn["question_id"] == asked.id)


def _was_answered(state: Mapping[str, Any]) -> bool:
    """Whether a host wrote an answer behind the question of a turn that had stopped."""
    messages, turn = state.get("messages", []), state.get("turn")
    return bool(messages and turn and not turn["done"] and is_answer(messages[-1]))


def _waiting_text(state: Mapping[str, Any]) -> str:
    """The words of the question at the end of a record, for comparing with what is said again."""
    messages: Sequence[AnyMessage] = state.get("messages", [])
    asked = next((m for m in reversed(messages) if is_question(m)), None)
    return "" if asked is None else text_of(asked)
