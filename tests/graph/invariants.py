"""Properties of a thread that hold after any operation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, message_to_dict
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import StateSnapshot

from tests.graph.scripted_parts import KNOWN, Crash
from tests.reading import replayed, topic_runs
from tests.threads import registry_of
from unsay.conversation.conversation import Conversation
from unsay.errors import ConflictError, InputError, NotFoundError, UnknownThreadError
from unsay.events.event_types import body_of
from unsay.events.transcript_replay import Replayed
from unsay.history.runs import Run
from unsay.messages.conformance import DIALECTS, faults
from unsay.messages.content import blocks_of, calls_of, is_thinking, text_of
from unsay.models.factory import PROVIDERS
from unsay.types import Provider

CONVERSATIONS = frozenset({"say", "again", "stream", "spoil", "command"})
"""The steps by which somebody says something: they are never refused without a cause."""

RUNS = CONVERSATIONS - {"command"} | {
    "retry",
    "resume",
    "decide",
    "resend",
    "invoke",
    "order",
    "go_on",
}
"""The steps that run the graph."""

GOES_ON = frozenset({"resume", "decide", "go_on"})
"""Those that end a run which stopped."""

_SERIALIZER = JsonPlusSerializer(allowed_msgpack_modules=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One step, as it can be told from outside."""

    name: str
    """Of the step."""

    before: StateSnapshot
    """The state that it met."""

    runs: Mapping[str, Run]
    """Those that there were."""

    kind: str
    """LangChain's name for the kind of model."""

    views: Sequence[Sequence[BaseMessage]]
    """What the model was sent."""

    raised: BaseException | None
    """What the step ended in; `None` when it ended well."""


class Invariants:
    """What was seen of a thread so far, and what follows from it."""

    def __init__(self) -> None:
        self.written: list[tuple[str, str]] = []
        self.said: dict[str, str] = {}
        self.crashed: set[str] = set()

    def let_go(self, name: str) -> None:
        """A host takes a message away itself, or its words."""
        self.said.pop(name, None)

    def forget(self) -> None:
        """Nothing that was seen counts any more."""
        self.written = []
        self.said = {}

    def check(self, conversation: Conversation, scene: Scene) -> None:
        """All that must hold after a step."""
        snapshot = snapshot_of(conversation)
        _check_refusal(scene)
        _check_views(snapshot.values, scene)
        self._check_event_log(conversation, conversation.messages(), snapshot.values)
        self._check_runs(runs_of(conversation), snapshot, scene)

    def _check_event_log(
        self, conversation: Conversation, transcript: list[AnyMessage], state: Mapping[str, Any]
    ) -> None:
        """The event log only grows, and gives the transcript byte for byte."""
        try:
            events = registry_of(conversation).events()
        except UnknownThreadError:
            assert [] == transcript
            return
        log = replayed(events)
        assert as_bytes(transcript) == as_bytes(log.messages)
        count = state["event_log"]["count"] if "event_log" in state else 0
        bodies = [(event["id"], body_of(event)) for event in events[:count]]
        assert self.written == bodies[: len(self.written)]
        self.written = bodies
        self._check_loss(transcript, log)

    def _check_loss(self, transcript: Sequence[AnyMessage], log: Replayed) -> None:
        """What was ever in the transcript is there now, word for word, or in a branch."""
        texts_by_id = {message.id or "": text_of(message) for message in transcript}
        branch = {(m.id, text_of(m)) for messages in log.branches.values() for m in messages}
        removed_texts = {
            (name, text) for name, text in self.said.items() if texts_by_id.get(name) != text
        }
        assert set() == removed_texts - branch
        self.said |= texts_by_id

    def _check_runs(self, runs: Mapping[str, Run], snapshot: StateSnapshot, scene: Scene) -> None:
        """One invocation is one run, and each ended as its turn did."""
        new = [run for name, run in runs.items() if name not in scene.runs]
        working = {name for name, run in runs.items() if run.status == "running"}
        has_crashed = isinstance(scene.raised, Crash)
        if has_crashed or ("S5b" in KNOWN and _has_no_run(scene)):
            self.crashed |= working
        assert set() == working - self.crashed
        assert len(new) <= (scene.name in RUNS)
        if has_crashed or scene.name not in RUNS:
            return
        if scene.raised is not None:
            assert {"failed"} >= {run.status for run in new}
        elif scene.before.next or scene.name != "go_on":
            _check_end(runs, new, snapshot, scene)


def _check_end(
    runs: Mapping[str, Run], new: Sequence[Run], snapshot: StateSnapshot, scene: Scene
) -> None:
    """The run of a turn that came to an end, or to a person."""
    run = runs[snapshot.values["turn"]["run_id"]]
    status = "paused" if snapshot.interrupts else "completed"
    assert (status, bool(snapshot.interrupts)) == (run.status, run.suspension is not None)
    before = scene.runs.get(run.run_id)
    is_unfinished = before is not None and before.status != "completed"
    has_stopped = bool(scene.before.next or scene.before.tasks or is_unfinished)
    went_on = scene.name in GOES_ON or (not new and (has_stopped or scene.name == "retry"))
    assert bool(new) != went_on or _has_no_run(scene)


def _has_no_run(scene: Scene) -> bool:
    """Whether the step met a turn that had stopped before its run was opened."""
    return scene.before.next in (("__start__",), ("evaluate_quality",))


def _check_refusal(scene: Scene) -> None:
    """Only a pending decision blocks a new message."""
    if scene.name in CONVERSATIONS and not scene.before.interrupts:
        assert not isinstance(scene.raised, ConflictError | InputError | NotFoundError)


def _check_views(state: Mapping[str, Any], scene: Scene) -> None:
    """Every view is valid, ends where the model must go on, and holds the question."""
    for view in scene.views:
        assert {} == _faults(view, scene.kind)
        assert view[-1].type in ("human", "tool")
    turn = state.get("turn")
    if (
        isinstance(scene.raised, Crash)
        or not scene.views
        or not turn
        or ("S4" in KNOWN and not _in_order(state))
    ):
        return
    (question,) = (text_of(m).strip() for m in state["messages"] if m.id == turn["question_id"])
    assert [] == [v for v in scene.views if not any(question in text_of(m) for m in v)]


def _faults(view: Sequence[BaseMessage], kind: str) -> dict[str, Any]:
    """What each provider that the view is for would refuse in it.

    It applies to all of them without thinking, else to the one that is called.
    """
    provider = next((name for kind_part, name in PROVIDERS.items() if kind_part in kind), None)
    dialects: Sequence[Provider | None] = list(DIALECTS)
    if any(is_thinking(block) for message in view for block in blocks_of(message)):
        dialects = [] if "S1" in KNOWN else [provider]
    faults_by_name = {name: faults(view, name) for name in dialects}
    if _thinks(view) and provider is not None:
        faults_by_name |= {f"{provider}, thinking": faults(view, provider, thinking=True)}
    return {name: item for name, item in faults_by_name.items() if item}


def _thinks(view: Sequence[BaseMessage]) -> bool:
    """Whether there are tool steps and each begins by thinking."""
    steps = [m for m in view if isinstance(m, AIMessage) and calls_of(m)]
    return bool(steps) and all(any(map(is_thinking, blocks_of(step))) for step in steps)


def _in_order(state: Mapping[str, Any]) -> bool:
    """Whether every segment starts in the transcript, behind the one before."""
    positions = {message.id: position for position, message in enumerate(state["messages"])}
    starts = [positions.get(run.start, -1) for run in topic_runs(state)]
    return starts == sorted(starts) and -1 not in starts


def snapshot_of(conversation: Conversation) -> StateSnapshot:
    """A thread's state."""
    config: Any = {"configurable": {"thread_id": conversation.thread_id}}
    return conversation.graph.get_state(config)


def runs_of(conversation: Conversation) -> dict[str, Run]:
    """A thread's runs by name."""
    return {run.run_id: run for run in registry_of(conversation).runs(limit=100).runs}


def as_bytes(messages: Sequence[BaseMessage]) -> list[bytes]:
    """Messages as a checkpoint would hold them."""
    return [_SERIALIZER.dumps_typed(message_to_dict(message))[1] for message in messages]
