"""One thread that anything may happen to, and what must hold of it after every step."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from hypothesis import strategies as st
from langchain_core.messages import AnyMessage, HumanMessage, RemoveMessage
from langgraph.errors import EmptyInputError
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command

from tests.graph.invariants import Invariants, Scene, as_bytes, runs_of, snapshot_of
from tests.graph.kit import config
from tests.graph.scripted_parts import (
    ANSWERS,
    KNOWN,
    Crash,
    NamelessError,
    ScriptedParts,
    beats,
    in_memory,
)
from tests.graph.steps import OFTEN, STEPS, Step, step
from tests.graph.ways import Ways
from tests.reading import database_of, settle
from tests.threads import registry_of
from tests.transcripts import wild_transcripts
from unsay.conversation.conversation import Conversation
from unsay.errors import (
    ConflictError,
    EventConflictError,
    InputError,
    ModelError,
    NotFoundError,
    RunConflictError,
    TranscriptError,
    UnsayError,
)
from unsay.hosts.entry import HostGraph
from unsay.storage.sqlite import open_database

WORDS = ("How do lists work?", "NEW: the weather?", "BACK to lists", "日本の首都は?", "Go on")
ORDERS = (
    "/undo",
    "/redo",
    "/rollback",
    "/rollback home",
    "/checkpoint",
    "/checkpoint home",
    "/timeline",
    "/pin",
    "/pin 1",
    "/unpin",
    "/forget",
    "/forget 1-2",
    "/forget lists",
    "/forgotten",
    "/same",
)
KINDS = (
    "scripted",
    "agent",
    "openai-chat",
    "anthropic-chat",
    "amazon_bedrock_converse_chat",
    "chat-google-generative-ai",
)
"""LangChain's names for kinds of models."""

NAMES = (None, "home", "away")
DECISIONS = (
    "approve",
    "reject",
    {"decisions": [{"type": "edit", "args": {"answer": "In other words."}}]},
    {"decisions": [{"type": "respond", "args": "Be brief."}]},
)
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"topics": "off"},
    {"language": "ja"},
    {"judging": "off"},
    {"judging": "local"},
    {"on_exhausted": "ask"},
    {"on_exhausted": "ask", "max_rollbacks": 0},
    {"max_rollbacks": 0},
    {"live_messages": 4},
    {"live_messages": 4, "judging": "off"},
    {"live_messages": 6, "on_exhausted": "ask"},
)


class NothingThereError(UnsayError):
    """There is nothing to do a step to."""


REFUSALS = (
    InputError,
    NotFoundError,
    ConflictError,
    ModelError,
    NamelessError,
    EmptyInputError,
    NothingThereError,
)
"""What a step may be refused with."""

FAULTS = (TranscriptError, EventConflictError, RunConflictError)
"""What no step may ever be refused with, although it is one of these."""


MOST = 8
"""Steps of one example."""

ENDS = ("crash", "reopen", "purge")
"""What does not happen inside a crash."""


def some_step(*, excluded: Sequence[str] = ()) -> st.SearchStrategy[Step]:
    """Any one step."""
    strategies = {
        name: st.fixed_dictionaries(arguments).map(partial(Step, name))
        for name, arguments in STEPS.items()
        if name not in excluded
    }
    names = st.sampled_from([name for name in OFTEN if name in strategies])
    return names.flatmap(strategies.__getitem__)


def sequences(
    *, max_size: int = MOST, excluded: Sequence[str] = ()
) -> st.SearchStrategy[list[Step]]:
    """Any steps in any order."""
    return st.lists(some_step(excluded=excluded), min_size=1, max_size=max_size)


def play(steps: Sequence[Step], path: Path | None = None) -> None:
    """Let the steps happen to a new thread, and check after each that all is well."""
    stage = Stage(path)
    try:
        for step in steps:
            stage.happen(step)
    finally:
        stage.leave()


class Stage(Ways):
    """A thread, its people, and what they do to it."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.settings = SETTINGS[0]
        self.kind = KINDS[0]
        self.memory = None if path else in_memory()
        self.scripted = ScriptedParts()
        self.invariants = Invariants()
        self.last = WORDS[0]
        self.injected = 0
        self.conversation = self._open()
        self.config = config("t")

    def _open(self) -> Conversation:
        database = self.memory or open_database(str(self.path))
        self.scripted.guard(database)
        limits = {"max_tool_steps": 4, "summaries": "local"}
        settings = {**limits, **self.settings}
        return Conversation.open(
            database, thread="t", settings=settings, **self.scripted.parts(self.kind)
        )

    def _graph(self) -> HostGraph:
        """The graph, for a host that runs it without the conversation.

        LangGraph drops what stands between a step's writes and its checkpoint when the next
        input comes; only the conversation commits it first.
        """
        snapshot = snapshot_of(self.conversation)
        if snapshot.tasks and not snapshot.next:
            raise NothingThereError
        return self.conversation.graph

    def leave(self) -> None:
        """The process ends."""
        self.scripted.fuse = None
        if self.memory is None:
            database_of(self.conversation).close()

    def happen(self, one: Step) -> None:
        """Let one thing happen, and check what must hold afterwards."""
        self.scripted.begin()
        before = snapshot_of(self.conversation)
        runs = runs_of(self.conversation)
        ended_in = self._ended_in(one)
        inner = one.given["inner"] if one.name == "crash" else one
        scene = Scene(
            name=inner.name,
            before=before,
            runs=runs,
            kind=self.kind,
            views=self.scripted.views,
            raised=ended_in,
        )
        self.invariants.check(self.conversation, scene)

    def _ended_in(self, one: Step) -> BaseException | None:
        """What a step was refused with, or the end of the process; `None` when it ended well."""
        try:
            getattr(self, one.name)(**one.given)
        except REFUSALS as error:
            if isinstance(error, FAULTS) and not ("S1" in KNOWN and "thinking" in str(error)):
                raise
            return error
        except Crash as crash:
            self.scripted.fuse = None
            self.reopen(self.settings, self.kind)
            return crash
        finally:
            self.scripted.fuse = None
        return None

    @step(
        6,
        text=st.sampled_from(WORDS),
        beats=beats(),
        documents=st.sampled_from(((), ("A BAD page.",), ("A page on lists.", "A BAD page."))),
    )
    def say(self, text: str, beats: Sequence[Any], documents: Sequence[str]) -> None:
        """Somebody says something."""
        self.last = text
        self.scripted.prepare(beats)
        self.conversation.say(text, documents=documents)

    @step(beats=beats())
    def again(self, beats: Sequence[Any]) -> None:
        """Somebody says the last thing again."""
        self.say(self.last, beats, ())

    @step(text=st.sampled_from(WORDS), beats=beats())
    def stream(self, text: str, beats: Sequence[Any]) -> None:
        """Somebody says something and watches."""
        self.last = text
        self.scripted.prepare(beats)
        for _ in self.conversation.stream(text):
            pass

    @step(
        3,
        text=st.sampled_from(WORDS),
        times=st.integers(1, 4),
        has_tools=st.booleans(),
        ask=st.booleans(),
        decision=st.sampled_from((None, None, *DECISIONS)),
    )
    def spoil(self, text: str, times: int, *, has_tools: bool, ask: bool, decision: Any) -> None:
        """Somebody asks, the first answers are bad, and in the end a person may decide."""
        if ask:
            self.reopen({"on_exhausted": "ask", "max_rollbacks": 1}, self.kind)
        call = ("tools", [("a", "look"), ("b", "fail")], None, "")
        bad = ("answer", ANSWERS[1], None)
        self.say(text, ([call, bad] if has_tools else [bad]) * times, ())
        if decision is not None and snapshot_of(self.conversation).interrupts:
            self.conversation.resume(decision)

    @step(
        to=st.sampled_from((None, "home", "cp-", "nowhere")), text=st.sampled_from((None, *WORDS))
    )
    def order(self, to: str | None, text: str | None) -> None:
        """A host orders a rollback by the state's flag, with or without a question."""
        questions = [HumanMessage(text, id=str(uuid4()))] if text else []
        value = {"should_rollback": True, "rollback_checkpoint_id": to, "messages": questions}
        self._graph().invoke(value, self.config)

    @step(decision=st.sampled_from((None, *DECISIONS)))
    def go_on(self, decision: Any) -> None:
        """A host lets a turn go on by itself."""
        value = None if decision is None else Command(resume=decision)
        self._graph().invoke(value, self.config)

    @step(2, order=st.sampled_from(ORDERS))
    def command(self, order: str) -> None:
        """Somebody types an order."""
        self.conversation.say(order)

    @step(beats=beats())
    def resume(self, beats: Sequence[Any]) -> None:
        """Resume a turn that stopped."""
        self.scripted.prepare(beats)
        self.conversation.resume()

    @step(decision=st.sampled_from(DECISIONS), beats=beats())
    def decide(self, decision: Any, beats: Sequence[Any]) -> None:
        """A person decides about drafts that failed."""
        self.scripted.prepare(beats)
        self.conversation.resume(decision)

    @step(3, after=st.integers(0, 30), inner=st.deferred(lambda: some_step(excluded=ENDS)))
    def crash(self, after: int, inner: Step) -> None:
        """The process dies at one of its writes or calls while something happens."""
        self.scripted.fuse = after
        getattr(self, inner.name)(**inner.given)

    @step(position=st.integers(0, 9), question=st.sampled_from((None, *WORDS)))
    def resend(self, position: int, question: str | None) -> None:
        """A front end sends a message again that it sent before, with the same id."""
        known_ids = sorted(self.invariants.said)
        if not known_ids:
            raise NothingThereError
        name = known_ids[position % len(known_ids)]
        text = question or self.invariants.said[name]
        self.invariants.let_go(name)
        value = {"messages": [HumanMessage(text, id=name)]}
        self._graph().invoke(value, self.config)

    @step()
    def clear(self) -> None:
        """A host empties the transcript."""
        for message in self.conversation.messages():
            self.invariants.let_go(message.id or "")
        self.conversation.add([RemoveMessage(id=REMOVE_ALL_MESSAGES)])

    @step(steps_back=st.integers(0, 12))
    def travel(self, steps_back: int) -> None:
        """A host goes back to one of LangGraph's own checkpoints."""
        past = list(self.conversation.graph.get_state_history(self.config))
        if not past:
            raise NothingThereError
        self.invariants.forget()
        snapshot = past[min(steps_back, len(past) - 1)]
        self._graph().update_state(snapshot.config, None, as_node="__end__")

    @step()
    def purge(self) -> None:
        """Somebody wants the thread gone; only a file can forget."""
        if self.memory is not None:
            raise NothingThereError
        self.invariants.forget()
        registry_of(self.conversation).purge()

    @step(messages=wild_transcripts(max_size=5, thoughts=()))
    def add(self, messages: Sequence[AnyMessage]) -> None:
        """An app puts messages in the transcript."""
        self.conversation.add(self._named(messages))

    @step(messages=wild_transcripts(max_size=5, thoughts=()))
    def update(self, messages: Sequence[AnyMessage]) -> None:
        """A host writes messages into the state."""
        if "S3" in KNOWN and snapshot_of(self.conversation).next:
            raise NothingThereError
        node = "create_checkpoint" if not self.conversation.messages() else None
        self._graph().update_state(self.config, {"messages": self._named(messages)}, as_node=node)

    @step(messages=wild_transcripts(max_size=4, thoughts=()), beats=beats())
    def invoke(self, messages: Sequence[AnyMessage], beats: Sequence[Any]) -> None:
        """A host runs the graph with its own messages."""
        self.scripted.prepare(beats)
        self._graph().invoke({"messages": self._named(messages)}, self.config)

    @step(position=st.integers(0, 9))
    def remove(self, position: int) -> None:
        """A host takes a message off the transcript."""
        name = self._message(position).id or ""
        self.invariants.let_go(name)
        self.conversation.add([RemoveMessage(id=name)])

    @step(position=st.integers(0, 9))
    def replace(self, position: int) -> None:
        """A host puts other words in the place of a message."""
        old = self._message(position)
        self.invariants.let_go(old.id or "")
        self.conversation.add([old.model_copy(update={"content": "The host's words."})])

    @step(name=st.sampled_from(NAMES))
    def checkpoint(self, name: str | None) -> None:
        """Somebody marks a point."""
        self.conversation.checkpoint(name)

    @step(2, to=st.sampled_from((None, "home", "away", "cp-", "nowhere")))
    def rollback(self, to: str | None) -> None:
        """Somebody goes back."""
        self.conversation.rollback(to)

    @step(2)
    def undo(self) -> None:
        """Somebody takes the newest step back."""
        self.conversation.undo()

    @step(position=st.integers(-1, 9))
    def pin(self, position: int) -> None:
        """Somebody pins a message, or the newest turn."""
        self._beside(
            lambda: self.conversation.pins.add(None if position < 0 else self._message(position).id)
        )

    @step(position=st.integers(-1, 9))
    def unpin(self, position: int) -> None:
        """Somebody takes a pin off."""
        self._beside(
            lambda: self.conversation.pins.remove(
                None if position < 0 else self._message(position).id
            )
        )

    @step(2, position=st.integers(0, 9), last=st.integers(-1, 9))
    def forget(self, position: int, last: int) -> None:
        """Somebody forgets a message, or a span."""
        ends = sorted({position, position if last < 0 else last})
        names = [self._message(end).id or "" for end in ends]
        self._beside(lambda: self.conversation.forget(*names))

    @step(number=st.integers(1, 3))
    def forget_topic(self, number: int) -> None:
        """Somebody forgets a topic."""
        self._beside(lambda: self.conversation.forget(f"topic-{number}"))

    @step(limit=st.sampled_from((0.3, 1.0)))
    def forget_results(self, limit: float) -> None:
        """Somebody forgets the results of tools that bear on nothing."""
        self._beside(lambda: self.conversation.forget(tool_results_below=limit))

    @step(position=st.integers(0, 3))
    def remember(self, position: int) -> None:
        """Somebody restores what was forgotten."""
        entries = self.conversation.forgotten()
        if not entries:
            raise NothingThereError
        self._beside(lambda: self.conversation.restore(entries[position % len(entries)]["id"]))

    def _beside(self, act: Callable[[], Any]) -> None:
        """Operations on contexts leave the transcript as it is, done or refused.

        What a crash left is committed by the first operation that may write.
        """
        settle(self.conversation)
        before = as_bytes(self.conversation.messages())
        try:
            act()
        finally:
            if self.scripted.fuse is None:
                assert before == as_bytes(self.conversation.messages())

    @step(event_id=st.sampled_from((None, "mine", "yours")))
    def note(self, event_id: str | None) -> None:
        """A host writes a remark."""
        registry_of(self.conversation).note("A remark.", event_id=event_id)

    @step(2, settings=st.sampled_from(SETTINGS), kind=st.sampled_from(KINDS))
    def reopen(self, settings: dict[str, Any], kind: str) -> None:
        """The process ends, and another continues with the same file."""
        self.leave()
        self.settings = settings
        self.kind = kind
        self.conversation = self._open()

    def _message(self, position: int) -> AnyMessage:
        """One of the transcript's messages."""
        transcript = self.conversation.messages()
        if not transcript:
            raise NothingThereError
        return transcript[position % len(transcript)]

    def _named(self, messages: Sequence[AnyMessage]) -> list[AnyMessage]:
        """The messages with ids that nothing else has."""
        self.injected += 1
        return [m.model_copy(update={"id": f"in{self.injected}-{m.id}"}) for m in messages]
