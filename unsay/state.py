"""State of a thread, as LangGraph's checkpointer keeps it.

`messages` is the transcript: all of the current branch, or its newest part if that is long and the
graph has a store; `offloaded` then refers to the rest. Everything else is bounded.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Annotated, Any, NotRequired, Self, cast

from langchain_core.messages import AnyMessage, BaseMessage, RemoveMessage, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langgraph._internal._constants import CONFIG_KEY_READ
from langgraph.channels.binop import BinaryOperatorAggregate
from langgraph.channels.delta import DeltaChannel
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from typing_extensions import TypedDict

from unsay import types
from unsay.context.compaction import Compaction
from unsay.log.ranges import Ranges
from unsay.messages.conformance import PLAIN, is_plain, plain
from unsay.storage.pages import Head
from unsay.tokens.counter import Calibration
from unsay.tokens.pricing import Tally

SNAPSHOT_FLOOR = 32
"""Fewest updates between two snapshots. Source: own measurement."""

SHRUNK = 8
"""How many times as many messages a transcript had before an update after which a snapshot is due."""


_ID = attrgetter("id")


def merge_messages(transcript: Sequence[Any], writes: Sequence[Any]) -> list[AnyMessage]:
    """Apply writes to a transcript, in order, and return the result; neither argument is changed.

    A message with a known id replaces the old one in its place. A `RemoveMessage` removes one
    message, or all with `REMOVE_ALL_MESSAGES`; an unknown id changes nothing. Others are appended.
    A missing id is a hash of the message before it and the content, so the split of writes has
    no effect: `merge_messages(merge_messages(r, xs), ys) == merge_messages(r, xs + ys)`.
    """
    places: dict[str, BaseMessage] = {}
    messages = list(transcript) if isinstance(transcript, Sequence) else []
    # The usual case; this runs for the whole transcript at each step.
    if PLAIN.issuperset(map(type, messages)) and all(map(_ID, messages)):
        places = {message.id: message for message in messages}
    else:
        writes = [messages, *writes]
    for write in writes:
        for message in _messages_in(write):
            _apply(places, message)
    return cast("list[AnyMessage]", list(places.values()))


def _messages_in(write: Any) -> Iterator[BaseMessage]:
    """Yield the messages of a write as `plain` makes them, also those given as dicts or text.

    Anything else is skipped: the write is stored already, and an error would make the thread
    unusable.
    """
    for item in write if isinstance(write, list) else [write]:
        if is_plain(item):
            yield item
        else:
            with suppress(Exception):  # LangChain raises many kinds
                yield from map(plain, convert_to_messages([item]))


def _apply(places: dict[str, BaseMessage], message: BaseMessage) -> None:
    """Add, replace or remove one message in `places`, the transcript by id, in place."""
    if isinstance(message, RemoveMessage):
        if message.id == REMOVE_ALL_MESSAGES:
            places.clear()
        else:
            places.pop(message.id or "", None)
        return
    if not message.id:
        message = message.model_copy(update={"id": _place_id(places, message)})
    places[message.id or ""] = message


def _place_id(places: dict[str, BaseMessage], message: BaseMessage) -> str:
    """Return an unused id for a message that has none, from its content and its place.

    `places` are the messages so far, by id.
    """
    # The place is named by the message before: a count would change when messages are offloaded.
    before = next(reversed(places), "")
    for position in range(len(places) + 1):
        seed = f"{before}\x00{position}\x00{message.type}\x00{message.content!r}"
        # Half of an emoji, as a broken stream leaves it, cannot be encoded as plain UTF-8.
        candidate = hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        if candidate not in places:
            return candidate
    raise AssertionError("more places than messages cannot all be taken")


def merge_message_update(transcript: Sequence[Any], write: Any) -> list[AnyMessage]:
    """Return a transcript after one write: the reducer for savers that cannot replay deltas."""
    return merge_messages(transcript, [write])


class _Readable:
    """A channel whose value is a list of plain messages, whatever a host's graph has stored there."""

    __slots__ = ()

    def from_checkpoint(self, checkpoint: Any) -> Any:
        """Return a channel with a stored transcript; what is not a message is left out."""
        channel: Any = super().from_checkpoint(checkpoint)  # type: ignore[misc]  # of the other base
        transcript = channel.value
        if not isinstance(transcript, list) or not all(is_plain(m) and m.id for m in transcript):
            channel.value = merge_messages([], [transcript])
        return channel


class WholeTranscript(_Readable, BinaryOperatorAggregate[list[AnyMessage]]):
    """The transcript's channel for savers that store whole values only."""


class TranscriptChannel(_Readable, DeltaChannel[list[AnyMessage]]):
    """The transcript's channel: it stores what was added, and from time to time a snapshot of all.

    A snapshot is stored after a quarter as many updates as there are messages, so that the size of
    all snapshots together is proportional to the transcript. It is also stored once most messages
    have left, so that no later load reads them.
    """

    __slots__ = ("_floor", "_has_shrunk")

    def __init__(
        self, reducer: Any, typ: Any = None, *, snapshot_frequency: int = SNAPSHOT_FLOOR
    ) -> None:
        super().__init__(reducer, typ, snapshot_frequency=snapshot_frequency)
        self._has_shrunk = False

    @property
    def snapshot_frequency(self) -> int:
        """The number of updates between two snapshots; it grows with the transcript."""
        value = getattr(self, "value", None)
        if self._has_shrunk:
            return 1
        return max(self._floor, len(value) // 4) if isinstance(value, list) else self._floor

    @snapshot_frequency.setter
    def snapshot_frequency(self, floor: int) -> None:
        self._floor = floor

    def update(self, values: Sequence[Any]) -> bool:
        """Apply a step's writes."""
        before = len(self.value) if isinstance(self.value, list) else 0
        is_changed = super().update(values)
        self._has_shrunk |= before > SHRUNK * max(self._floor, len(self.value))
        return is_changed

    def copy(self) -> Self:
        """Return a copy of the channel; its `snapshot_frequency` has the same lower bound."""
        return self._with_floor(super().copy())

    def from_checkpoint(self, checkpoint: Any) -> Self:
        """Return a channel with a stored value, and with this one's lower bound of `snapshot_frequency`."""
        return self._with_floor(super().from_checkpoint(checkpoint))

    def _with_floor(self, other: Self) -> Self:
        other.snapshot_frequency = self._floor
        return other


class Command(TypedDict):
    """A recognized slash command of the turn under way."""

    verb: str
    argument: str


class SentCommand(TypedDict):
    """A command that was carried out outside of the transcript, and the id that it was sent with."""

    id: str
    text: str


class RollbackRequest(TypedDict):
    """A rollback to carry out, and who requested it."""

    kind: str  # selects the handler in `nodes/rollback.py`
    to: str | None  # a message's id; `None`: the beginning
    reason: str
    order: NotRequired[dict[str, Any]]  # for the kind `order`, as `read_order` reads it
    ids: NotRequired[list[str]]  # of the messages to remove, where only these are removed


class Refusal(TypedDict):
    """Why an order was refused: the name of the error's class, and the text of the notice.

    A command that is unknown, mistyped, not allowed or not alone is a `CommandRefused`.
    """

    kind: str
    message: str


class NoticeDue(TypedDict):
    """A notice to add, the messages that it answers, and if it refuses an order the kind of `Refusal`."""

    text: str
    answers: list[str]
    refusal: NotRequired[str]


class EventLogHead(Head):
    """The event log's head, and the length and digest of the transcript in the state.

    `live` are the positions of its messages, as ranges. `ends` are ids of some of them: while one of
    them is there, no host removed them all.
    """

    length: int
    digest: int
    live: Ranges
    ends: NotRequired[list[str]]


class LeftBehind(TypedDict):
    """What a host's own changes removed or put back since the last run, for the next run.

    The tool calls of the `branches` (ids) are then undone; messages with the ids `returned` came
    back.
    """

    branches: list[str]
    returned: list[str]


class OwnWrites(TypedDict):
    """What unsay wrote to a thread that has no store, and therefore no event log.

    `length` and `digest` are those of the transcript in the state. `annotated` has a hash of the newest
    annotated messages by id, `calls` one of the newest tool calls by the key of `Compensation`: it is
    empty once the call is undone, and the error follows it if the undo failed.
    """

    length: int
    digest: int
    annotated: dict[str, str]
    calls: dict[str, str]


class Input(TypedDict, total=False):
    """What a host may write: new messages, and an order to carry out before they are answered.

    `order` is the verb and the arguments of an order, such as `{"verb": "rollback", "turns": 2}`.
    Three short forms are older: `should_rollback`; `rollback_checkpoint_id`, the name or id of the
    checkpoint to go back to, where `None` is the last good point, as in `Conversation.rollback`; and
    `start_task`, a task's name, which a checkpoint before the messages gets.
    """

    messages: list[AnyMessage]
    order: dict[str, Any] | None
    should_rollback: bool
    rollback_checkpoint_id: str | None
    start_task: str | None


class Output(TypedDict, total=False):
    """What a run returns to a host."""

    messages: list[AnyMessage]
    quality_score: float | None
    current_topic: str
    checkpoints: list[types.Checkpoint]
    checkpoint_metadata: dict[str, Any]
    should_rollback: bool
    state_history: list[types.Note]
    refusal: Refusal | None  # of this run's order; `None`: it had none, or it was carried out


class Working(TypedDict, total=False):
    """Everything in the state but the messages, in all variants of the schema."""

    current_topic: str  # its label; empty before the first
    topic_similarity: float | None  # of the newest question to the topic, as the detector says
    quality_score: float | None  # of the newest judged answer or, after a rollback, checkpoint
    checkpoint_metadata: dict[str, Any]  # describes the newest checkpoint
    should_rollback: bool  # a host or a node requests a rollback
    rollback_checkpoint_id: str | None  # its target, a name or id; `None`: the last good point
    start_task: str | None  # name of the task that a host starts; `None`: none
    order: dict[str, Any] | None  # that a host gave with its input; `None`: none
    state_history: list[types.Note]  # newest last, at most `HISTORY_LIMIT`
    offloaded: types.Offloaded | None  # `None`: the state has the whole transcript
    checkpoints: list[types.Checkpoint]
    segments: list[types.Segment]
    topics: list[types.Topic]
    branches: list[types.BranchRef]
    operations: list[types.Operation]  # steps that undo can reverse, newest last
    older_steps: str | None  # id of the page in the store with the steps before them
    redo: list[types.Undone]  # undone steps, newest last
    expanded: list[types.ExpandedTopic]
    turn: types.Turn
    rollback_request: RollbackRequest | None
    notice: NoticeDue | None
    refusal: Refusal | None
    event_log: EventLogHead
    own_writes: OwnWrites
    reminders: dict[str, Any]
    pending_compensations: list[types.PendingCompensation]
    left_behind: LeftBehind | None  # `None`: a run has scheduled the undoing of its tool calls
    compaction: Compaction
    calibration: Calibration
    pins: list[types.Pin]
    forgotten: list[types.Forgotten]
    asked_for: list[str]  # ids of messages that a person recalled, for the next answer
    summary_failed_turn: int  # number of the turn in which the last summary failed
    spent: dict[str, Tally]  # tokens of calls, rejected drafts included, by purpose
    last_order: SentCommand  # the newest command that was sent through `say`
    entry_id: (
        str  # changes when a question may be asked again: at a rollback, and where a host goes back
    )
    home: str  # id of the thread; another one in the states of a thread that a server copied


class State(Working, total=False):
    """The state of a thread whose saver can replay deltas."""

    messages: Annotated[list[AnyMessage], TranscriptChannel(merge_messages)]


class PlainState(Working, total=False):
    """The state of a thread whose saver stores whole values only."""

    messages: Annotated[list[AnyMessage], WholeTranscript(list, merge_message_update)]


class Update(Working, total=False):
    """What a node or an operation returns: the channels to write.

    `messages` may hold `RemoveMessage`.
    """

    messages: list[Any]


class StoredState(State, total=False):
    """`State` with the channel that no node gets as a part of its input, and no stream shows."""

    salt: str  # the secret in the keys of fences, written once


class StoredPlainState(PlainState, total=False):
    """The same of `PlainState`."""

    salt: str


def stored_salt(config: RunnableConfig) -> str | None:
    """Return the salt of the thread whose node is running; `None` before the first node has written it.

    It is no part of a node's input, because LangGraph streams the inputs of nodes.
    """
    reader = config.get("configurable", {}).get(CONFIG_KEY_READ)
    with suppress(KeyError):  # a step in another graph
        return None if reader is None else reader("salt")
    return None


def without_removal_check(state: State) -> State:
    """Return a state that unsay itself changed in a form that `offloaded_of` does not check.

    Otherwise messages that unsay removed could be taken for a host's removal of all messages.
    """
    head = state.get("event_log")
    return {**state, "event_log": {**head, "ends": []}} if head else state


def with_update(state: State, update: Update) -> State:
    """Return the state as it will be after an update of unsay itself; `state` is not changed."""
    if not update:
        return state
    if "messages" not in update:
        return without_removal_check({**state, **update})
    messages = merge_messages(state.get("messages", []), [update["messages"]])
    return without_removal_check({**state, **update, "messages": messages})


class StateDraft:
    """A state to which a node applies several updates; the node returns their sum, `update`.

    The given state is not changed.
    """

    def __init__(self, state: State) -> None:
        self.state, self.update = without_removal_check({"messages": [], **state}), Update()

    def apply(self, update: Update) -> None:
        """Add an update to `state` and `update`.

        Its messages are written after the earlier ones; its other values replace the earlier ones.
        """
        self.state = with_update(self.state, update)
        writes = [*self.update.get("messages", []), *update.get("messages", [])]
        self.update = {**self.update, **update}
        if writes:
            self.update["messages"] = writes


def offloaded_of(state: Mapping[str, Any]) -> types.Offloaded | None:
    """Return the offloaded part of the transcript; `None` if the state holds all of it.

    It is also `None` if a host removed every message of the state: that means the offloaded ones too.
    """
    offloaded, head = state.get("offloaded"), state.get("event_log")
    ends = head.get("ends", []) if head else []
    if not offloaded or not ends:
        return offloaded
    return offloaded if any(m.id in ends for m in state.get("messages", [])) else None
