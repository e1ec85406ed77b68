"""One thread of a database: its lock, its state, and how a verb commits what it changes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar
from uuid import uuid4

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.constants import START
from langgraph.store.base import BaseStore
from langgraph.types import StateSnapshot, StateUpdate

from unsay.decisions import refuse_undecided
from unsay.effects import Call, Steps
from unsay.errors import ConflictError, InputError, InvalidNameError, UnknownThreadError
from unsay.history.compensations import Compensation, Report
from unsay.history.runs import run_named_after
from unsay.history.threads import find_session, load_pending_input, refuse_ended, revise
from unsay.hosts.entry import HostGraph, Trusted
from unsay.hosts.input import read_input
from unsay.llm.summarize import title_of
from unsay.memory.offload import load_all
from unsay.moves.compensate import run_compensations, schedule_compensations
from unsay.moves.reconcile import prepare_change, trusted
from unsay.orders.order import Order, SaveCheckpoint
from unsay.orders.parse import command_of
from unsay.phrases import Verb
from unsay.results.results import RollbackResult
from unsay.runtime import Scope, Services
from unsay.settings.settings import Context, Settings
from unsay.state import SentCommand, State, Update, offloaded_of, with_update
from unsay.storage.base import Database, translated
from unsay.storage.pagination import check_labels
from unsay.storage.writer_lock import Hold, take_thread
from unsay.transcript.live import count_turns
from unsay.transcript.pending import find_pending, open_turn
from unsay.transcript.record import write_ahead
from unsay.turn.runs import DIED, TAKEN_BACK, give_up_run
from unsay.verbs.carry_out import carry_out
from unsay.verbs.moves import waiting_ids
from unsay.verbs.outcome import Outcome

NAME_CHARS = 200


def checked_id(name: str | None, thing: str = "thread", example: str = "") -> str:
    """Return an id unchanged, or a new random one for `None`.

    Raises `InvalidNameError` unless it has 1 to 200 printable characters, not only spaces. In the
    error `thing` says what the id names, and `example` is added at the end.
    """
    if name is None:
        return str(uuid4())
    if not name.strip() or len(name) > NAME_CHARS or not name.isprintable():
        raise InvalidNameError(
            f"{{name!r}} cannot name a {thing}: use 1 to {{limit}} printable characters{example}",
            code="unusable_id",
            name=name,
            limit=NAME_CHARS,
        )
    return name


P = ParamSpec("P")
T = TypeVar("T")

Confirm = Callable[[Compensation], bool]  # decides whether a tool call may be compensated

# Updates from outside a run are written as this node's, because no node comes after it.
_END = "create_checkpoint"


def take(database: Database, thread_id: str, settings: Settings) -> Steps[Hold]:
    """Wait for the right to write to a thread and return it; the caller releases it.

    Raises:
        ThreadBusyError: Another writer had the thread for the setting `thread_wait_seconds`.
    """
    wait = settings.thread_wait_seconds
    with translated(database.path):
        return (yield from take_thread(database.leases, thread_id, wait_seconds=wait))


def locked(database: Database, thread_id: str, settings: Settings, steps: Steps[T]) -> Steps[T]:
    """Run steps as a thread's only writer, and turn SQLite's errors into errors of unsay.

    Raises `ThreadBusyError` if another writer had the thread for too long.
    """
    hold = yield from take(database, thread_id, settings)
    try:
        with translated(database.path):
            return (yield from steps)
    finally:
        hold.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadHandle:
    """One thread of one database and its graph; the verbs of `Conversation` are functions over it.

    `Conversation.open` makes one. A handle without `writes` is for verbs that only read. `order` is
    a slash command that is being carried out; it is stored together with what it changes.
    """

    graph: HostGraph
    services: Services
    database: Database
    thread_id: str
    context: Context | None = None
    writes: bool = True
    order: SentCommand | None = None

    @property
    def store(self) -> BaseStore:
        """The database's store."""
        return self.database.store

    @property
    def address(self) -> tuple[BaseStore, str]:
        """The store and the thread's id, the first arguments of functions over the store."""
        return self.store, self.thread_id

    @property
    def config(self) -> RunnableConfig:
        """LangGraph's configuration of this thread."""
        return {"configurable": {"thread_id": self.thread_id}}

    def scope(self, confirm: Confirm | None = None, run_id: str | None = None) -> Scope:
        """Return what the steps of a verb may use, as a node's scope is for a node.

        `confirm` decides whether a tool call may be undone; with `None` a step raises
        `ConfirmationNeededError` for a tool that asks first. `run_id` is the run that a verb
        changes, if it changes one.
        """
        return Scope(
            services=self.services,
            settings=self.services.settings.for_run(self.context),
            config=self.config,
            store=self.store,
            thread_id=self.thread_id,
            stream_writer=lambda _: None,
            is_reader=not self.writes,
            confirm=confirm,
            run_id=run_id,
            labels=check_labels((self.context or {}).get("labels")),
            read_thread=self._read_thread,
        )

    def _read_thread(self, thread_id: str) -> Steps[list[AnyMessage]]:
        other = replace(self, thread_id=thread_id, writes=False, order=None)
        return (yield from other.load_whole_state())["messages"]

    def salted_scope(self) -> Steps[Scope]:
        """Return a scope whose texts have the thread's salt, as those of its runs."""
        saver = self.database.saver
        checkpoint_tuple = yield from Call.of(saver.get_tuple, saver.aget_tuple, self.config)
        salt = (
            checkpoint_tuple.checkpoint["channel_values"].get("salt") if checkpoint_tuple else None
        )
        return replace(self.scope(), salt=salt) if salt else self.scope()

    def take(self) -> Steps[Hold]:
        """Wait for the right to write to the thread, and return it; the caller releases it.

        Raises `ThreadBusyError` if it is not free in time, and at once if the thread's own running
        turn asks for it; `StorageError` if the database failed.
        """
        return (yield from take(self.database, self.thread_id, self.services.settings))

    def alone(self, steps: Steps[T]) -> Steps[T]:
        """Return the result of steps that run as the thread's only writer.

        Errors of SQLite become errors of unsay. Raises `ThreadBusyError` if the thread is not free
        in time.
        """
        return (yield from locked(self.database, self.thread_id, self.services.settings, steps))

    def reading(
        self,
        ask: Callable[Concatenate["ThreadHandle", P], Steps[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Steps[T]:
        """Run the steps that `ask` makes for this thread, without its lock and without writing.

        Each commit is consistent, so a reader needs no lock. Errors of SQLite become errors of
        unsay.
        """
        with translated(self.database.path):
            return (yield from ask(replace(self, writes=False), *args, **kwargs))

    def snapshot(self) -> Steps[StateSnapshot]:
        """Return the stored state with LangGraph's metadata; its values are empty for a new thread.

        They have only annotations that unsay wrote, whatever a host put into a message.
        A handle with `writes` first commits what a crash left: a step, or input that no run took.
        """
        reading = Call.of(self.graph.get_state, self.graph.aget_state, self.config)
        snapshot = yield from reading
        if not self.writes:
            return (yield from self._trusted(snapshot))
        # A process may have died between a step's writes and its checkpoint: the state then shows
        # what the next input would drop. Such a step is committed first.
        if snapshot.tasks and not snapshot.next:
            # Commits a step whose writes are stored, and takes no other.
            options = {**self.run_options(), "durability": "sync", "interrupt_before": "*"}
            graph: Any = self.graph
            yield from Call.of(graph.invoke, graph.ainvoke, Trusted(None), self.config, **options)
        elif lost := (yield from self._lost(snapshot)):
            # Also written as the graph's start, so that the turn is resumed at its first node.
            start: Any = Trusted({})
            yield from self.commit(lost, StateUpdate(start, START))
        else:
            return (yield from self._trusted(snapshot))
        return (yield from self._trusted((yield from reading)))

    def _trusted(self, snapshot: StateSnapshot) -> Steps[StateSnapshot]:
        values: Any = snapshot.values
        return snapshot._replace(values=(yield from trusted(values, self.scope())))

    def _lost(self, snapshot: StateSnapshot) -> Steps[Update | None]:
        """Return an update with the input of a process that died before its run; else `None`.

        Input that the transcript has is only cleared in the store. A command is cleared too,
        because it may have been carried out.
        """
        pending = yield from load_pending_input(*self.address)
        if not pending:
            return None
        messages = snapshot.values.get("messages", [])
        known_ids = {message.id for message in messages}
        command = command_of(pending, pending[-1], self.scope().settings)
        run_id = run_named_after(self.thread_id, pending[-1].id)
        if command is None and all(message.id not in known_ids for message in pending):
            state: Any = {**snapshot.values, "messages": [*messages, *pending]}
            turn = open_turn(state, find_pending(state["messages"], state.get("turn")), run_id)
            return Update(messages=list(pending), turn=turn)
        # Pending input that is in the transcript is cleared: if it were kept, it would return once
        # a host removes the message. A command is not repeated: it may have been carried out, and
        # the user does not expect it to run later.
        if command is not None:
            yield from give_up_run(self.scope(run_id=run_id), DIED)
        yield from revise(*self.address, now=self.scope().now(), pending_input=None)
        return None

    def load_state(self) -> Steps[State]:
        """Return the state, without offloaded messages, which stay in the store.

        Without messages the state is empty if the thread is listed, such as for its labels. Raises
        `UnknownThreadError` if nothing was stored in the thread yet.
        """
        return (yield from self._checked_state((yield from self.snapshot())))

    def _checked_state(self, snapshot: StateSnapshot) -> Steps[State]:
        if not any(
            snapshot.values.get(key)
            for key in ("messages", "turn", "event_log", "operations", "redo")
        ):
            # A typed command says itself what is missing.
            if self.order or (yield from find_session(*self.address)) is not None:
                return State(messages=[])
            raise UnknownThreadError(
                code="no_thread_yet",
                thread_id=self.thread_id,
                path=self.database.path,
                threads=Verb("threads", python="Registry.sessions()"),
            )
        state: State = snapshot.values  # type: ignore[assignment]
        return state

    def load_settled_state(self) -> Steps[State]:
        """Return the state, for verbs that must not change a turn under way.

        Raises `UnknownThreadError` as `load_state` does, `ConflictError` if a turn was stopped or a
        decision is pending.
        """
        return (yield from self._state_for("settled"))

    def _state_for(self, requires: Literal["decided", "settled"]) -> Steps[State]:
        snapshot = yield from self.snapshot()
        refuse_undecided(snapshot)
        state = yield from self._checked_state(snapshot)
        if requires == "settled" and snapshot.next:
            raise ConflictError(
                code="turn_stopped",
                resume=Verb("resume", command="say --resume"),
                undo=Verb("undo"),
            )
        return state

    def load_whole_state(self) -> Steps[State]:
        """Return the state with the whole transcript, for verbs that only read.

        Raises `UnknownThreadError` as `load_state` does, `DatabaseCorruptError` if an offloaded segment is
        missing or damaged.
        """
        return (yield from load_all((yield from self.load_state()), self.scope()))

    def transcript(self) -> Steps[list[AnyMessage]]:
        """Return the transcript: the whole current branch, oldest first; empty for a new thread."""
        return list((yield from self.load_whole_or_empty()).get("messages", []))

    def load_whole_or_empty(self) -> Steps[State]:
        """Return the state with the whole transcript, empty for a thread that does not exist.

        Raises `DatabaseCorruptError` if an offloaded segment is missing or damaged.
        """
        state: Any = (yield from self.snapshot()).values
        return (yield from load_all(state, self.scope()))

    def run_options(self) -> dict[str, Any]:
        """Return LangGraph's options for a run, which is one commit, with this conversation's overrides."""
        # A turn is one commit: its question is stored as pending input, its tool steps in the store.
        return {"durability": "exit", "context": self.context}

    def streaming(self) -> dict[str, Any]:
        """Return LangGraph's options for a run that streams."""
        return {**self.run_options(), "stream_mode": ["messages", "custom"]}

    def list_thread(self, state: Mapping[str, Any]) -> Steps[None]:
        """Update the thread's entry in the list of threads, and clear its pending input.

        Called after a turn or a verb with the state that it left. Until the entry has an answered
        turn, the title is written again, maybe by a model, whose errors are ignored. Errors of the
        database are raised.
        """
        timestamp, entry = self.scope().now(), (yield from find_session(*self.address))
        if entry is None or not entry.turns:  # a title can cost a model call: it is made once
            title = yield from title_of(state, self.scope())
        else:
            title = entry.title
        turns = count_turns(state.get("messages", []), offloaded_of(state))
        yield from revise(
            *self.address, now=timestamp, title=title, turns=turns, pending_input=None
        )

    def add(self, messages: Iterable[Any]) -> Steps[None]:
        """Add messages to the transcript without a model call."""
        try:
            raw_messages = list(messages)
        except Exception as error:  # of the caller's iterator
            raise InputError(f"add: the messages cannot be listed: {error}") from error
        new_messages = read_input({"messages": raw_messages}).value["messages"]
        snapshot = yield from self.snapshot()
        refuse_undecided(snapshot)
        refuse_ended((yield from find_session(*self.address)))
        state: Any = snapshot.values
        update = yield from prepare_change(state, None, [new_messages], self.scope(), "update")
        update = {**update, "messages": [*update.get("messages", []), *new_messages]}
        yield from self.commit(update)
        yield from self.list_thread(with_update(state, update))

    def carry_out(
        self,
        order: Order[T],
        *,
        confirm: Confirm | None = None,
        sent: SentCommand | None = None,
        preview: bool = False,
    ) -> Steps[Outcome[T]]:
        """Carry out an order as the thread's only writer, and commit what it changes.

        A `RollbackResult` gets the report about tool calls. `sent` is the slash command that gave the
        order: it is stored with the change, and questions that wait stay. With `preview` nothing is
        committed. Raises `UnknownThreadError` as `load_state` does, `ConflictError` if a decision is
        pending, and the error that refuses the order.
        """
        thread = replace(self, order=sent, writes=self.writes and not order.reads)
        if order.reads:
            state: Any = {"messages": [], **(yield from thread.snapshot()).values}
        else:
            state = yield from thread._state_of(order)
        keeps = waiting_ids(state) if sent is not None else ()
        scope = replace(thread.scope(confirm), keeps=keeps)
        outcome = yield from carry_out(order, state, scope)
        if preview or not outcome.update:
            return outcome
        return (yield from thread._committed(order, state, scope, outcome))

    def result_of(self, order: Order[T], *, confirm: Confirm | None = None) -> Steps[T]:
        """Carry out an order with the thread's lock held, and return its result; as `carry_out`."""
        outcome = yield from self.alone(self.carry_out(order, confirm=confirm))
        return outcome.result

    def _state_of(self, order: Order[Any]) -> Steps[State]:
        """Return the state for an order; it may be empty only for the start of a task."""
        try:
            return (yield from self._state_for(order.requires))
        except UnknownThreadError:
            if isinstance(order, SaveCheckpoint) and order.task and order.name is not None:
                return State(messages=[])
            raise

    def _committed(
        self, order: Order[T], state: State, scope: Scope, outcome: Outcome[T]
    ) -> Steps[Outcome[T]]:
        update, turn = outcome.update, state.get("turn")
        if order.rewrites:
            update["should_rollback"] = False
            update["rollback_request"] = None
            update["notice"] = None
        report = yield from self.write(state, scope, update)
        if order.rewrites:
            if turn and not turn["done"]:
                yield from give_up_run(self.scope(run_id=turn.get("run_id")), TAKEN_BACK)
            yield from self.list_thread(with_update(state, update))
        if isinstance(outcome.result, RollbackResult):
            result: Any = replace(outcome.result, report=report)
            return replace(outcome, result=result)
        return outcome

    def write(self, state: State, scope: Scope, update: Update) -> Steps[Report]:
        """Commit a verb's update with its events, then undo the tool calls that it removed.

        Returns what became of those calls.

        Raises:
            ConfirmationNeededError: A person must confirm that a call is undone, and nobody can be
                asked; nothing was changed.
            DatabaseCorruptError: What is stored of tool calls or messages is damaged.
        """
        # Before the commit only the intention is stored; tools run after it. So a crash never
        # leaves a call undone that is still in the transcript.
        yield from schedule_compensations(state, scope, update)
        update = yield from write_ahead(state, scope, update)
        if self.order is not None:
            update["last_order"] = self.order
        yield from self.commit(update)
        report = yield from run_compensations(state, scope)
        if report.outcomes:
            yield from self.commit(Update(pending_compensations=[]))
        return report

    def commit(self, update: Update, *others: StateUpdate) -> Steps[None]:
        """Write an update as a new state, outside of a run; `others` belong to the same state.

        Errors of the database are raised as they are; `alone` turns them into errors of unsay.
        """
        values: Any = Trusted(dict(update))
        step = [StateUpdate(values, _END), *others]
        graph = self.graph
        yield from Call.of(graph.bulk_update_state, graph.abulk_update_state, self.config, [step])
