"""Event builder: write the events of an agent that is not a chat model, and read its messages."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

from langchain_core.messages import AnyMessage

from unsay.effects import utc_now
from unsay.errors import EventConflictError, TranscriptError
from unsay.events.event_types import NewEvent, Stamp, body_of, stamped
from unsay.events.transcript_replay import replay
from unsay.types import Event, EventType


class EventBuilder:
    """Builds a transcript from events, which are appended and never changed.

    The parts of an assistant's message may be added in any order; the message has thinking, text and
    tool calls in this order, and its results follow in the order of the calls.

    >>> builder = EventBuilder()
    >>> _ = builder.user("How warm is it?"), builder.tool_use("c1", "weather", {}), builder.text("I look.")
    >>> _ = builder.results([{"id": "c1", "content": "20 degrees"}])
    >>> [(message.type, message.content) for message in builder.messages()]
    [('human', 'How warm is it?'), ('ai', 'I look.'), ('tool', '20 degrees')]

    Args:
        thread_id: The thread that the events belong to; a new one by default.
        now: Gives the time, ISO 8601, UTC; the system's clock by default.
        new_id: Gives an id for each message; random ones by default.
        run_id: The current run.
        turn_id: The current turn.
        labels: Labels to find the events by.
        events: Earlier events, oldest first.

    Source:
        Goa-AI, transcript ledger (order, correlation by tool use id).
    """

    def __init__(
        self,
        *,
        thread_id: str | None = None,
        now: Callable[[], str] = lambda: utc_now().isoformat(timespec="milliseconds"),
        new_id: Callable[[], str] = lambda: str(uuid4()),
        run_id: str | None = None,
        turn_id: str | None = None,
        labels: Mapping[str, str] | None = None,
        events: Iterable[Event] = (),
    ) -> None:
        self._stamp = Stamp(
            thread_id=str(uuid4()) if thread_id is None else thread_id,
            at="",
            run_id=run_id,
            turn_id=turn_id,
            labels=dict(labels or {}),
        )
        self._now = now
        self._new_id = new_id
        self._events: dict[str, Event] = {}
        self._answered: dict[str, bool] = {}  # by call id: whether the call has a result
        self._message_id: str | None = None  # of the assistant's message in progress
        for event in events:
            self.append(event)

    @property
    def events(self) -> list[Event]:
        """All events, oldest first."""
        return list(self._events.values())

    def messages(self) -> list[AnyMessage]:
        """Return the messages of all events; an unfinished one has the parts added so far.

        Raises the errors of `replay`, if events that were made elsewhere do not fit together.
        """
        return replay(self._events.values()).messages

    def user(self, text: str) -> Event:
        """Add a message of the user and return its event; the assistant's message ends."""
        self.flush()
        return self._add("user_message", {"message_id": self._new_id(), "text": text})

    def thinking(
        self, text: str, signature: str | None = None, redacted: str | None = None
    ) -> Event:
        """Add thinking to the assistant's message, and return the event.

        Args:
            text: The thinking; empty if the provider hides it.
            signature: The provider's signature of the text.
            redacted: The provider's encrypted form of a hidden text.
        """
        hidden = {"signature": signature, "redacted": redacted}
        hidden_fields = {key: value for key, value in hidden.items() if value is not None}
        return self._part("thinking", {"text": text, **hidden_fields})

    def text(self, text: str) -> Event:
        """Add text to the assistant's message, and return the event."""
        return self._part("assistant_message", {"text": text})

    def tool_use(self, call_id: str, name: str, args: Mapping[str, Any]) -> Event:
        """Add a tool call to the assistant's message, and return the event.

        Raises:
            TranscriptError: It has no id or name, or the id was used before.
        """
        if not call_id or not name or call_id in self._answered:
            raise TranscriptError(
                f"A tool call has id={call_id!r} and name={name!r}: give it a name, and an id that no "
                "other call of this event log has"
            )
        return self._part("tool_call", {"id": call_id, "name": name, "args": dict(args)})

    def flush(self) -> None:
        """End the assistant's message; the next part begins another one."""
        self._message_id = None

    def results(self, results: Sequence[Mapping[str, Any]]) -> list[Event]:
        """Add tool results, in any order, and return their events.

        Args:
            results: Each `{id, content, is_error, preview, bounds}`; all but `id` may be missing.

        Raises:
            TranscriptError: The list is empty, or a result has no open call, or a call two results;
                nothing was added.
        """
        ids = [result.get("id") for result in results]
        wrong = [id_ for id_ in ids if self._answered.get(str(id_), True)]
        if not ids or wrong or len(set(ids)) < len(ids):
            calls = [name for name, has_result in self._answered.items() if not has_result]
            raise TranscriptError(
                f"The results {ids!r} do not match the open calls {calls!r}: give at least one result, "
                "and one per call"
            )
        self.flush()
        return [
            self._add("tool_result", {"message_id": self._new_id(), **result}) for result in results
        ]

    def note(self, text: str) -> Event:
        """Add a remark for people, and return its event; no message has the remark."""
        return self._add("planner_note", {"text": text})

    def append(self, event: Event) -> bool:
        """Add an event that was made elsewhere; return `True`, or `False` if the log has it already.

        Whether it fits the other events is checked by `messages`.

        Raises:
            EventConflictError: A different event has its id. Only the time may differ.
        """
        stored_event = self._events.get(event["id"])
        if stored_event is None:
            self._events[event["id"]] = event
            data = event["data"]
            if event["type"] == "tool_call":
                self._answered[str(data.get("call", data).get("id"))] = False
            elif event["type"] == "tool_result":
                whole = data.get("message")
                inner = whole["data"] if isinstance(whole, dict) and whole else {}
                self._answered[str(inner.get("tool_call_id") or data.get("id"))] = True
            return True
        if body_of(stored_event) != body_of(event):
            raise EventConflictError(
                f"The event log has a different event with the id {event['id']!r}: give this one a new id"
            )
        return False

    def _part(self, kind: EventType, data: Mapping[str, Any]) -> Event:
        self._message_id = self._message_id or self._new_id()
        return self._add(kind, {"message_id": self._message_id, **data})

    def _add(self, kind: EventType, data: Mapping[str, Any]) -> Event:
        stamp = replace(self._stamp, at=self._now())
        (event,) = stamped([NewEvent(kind, data)], stamp, self._events.keys())
        self.append(event)
        return event
