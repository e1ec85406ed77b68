"""What the tests of whole conversations are given."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from pydantic import TypeAdapter, ValidationError

from tests.graph.back_kit import Opening
from tests.threads import open_conversation
from unsay.conversation.conversation import Conversation
from unsay.events.stream_events import StreamEvent
from unsay.runtime import Scope

KINDS: dict[str, Any] = {
    get_args(get_type_hints(arg)["unsay"])[0]: arg for arg in get_args(StreamEvent)
}
"""The type of each kind of stream event."""
ADAPTERS = {kind: TypeAdapter(event_type) for kind, event_type in KINDS.items()}
FIELDS = {kind: get_type_hints(event_type).keys() for kind, event_type in KINDS.items()}


def fault_of(event: dict[str, Any]) -> str:
    """What is wrong with a stream event: other keys than its type has, or other values."""
    kind = KINDS[event["unsay"]]
    if not kind.__required_keys__ <= event.keys() <= FIELDS[event["unsay"]]:
        return f"{event} has other keys than {kind.__name__}"
    try:
        ADAPTERS[event["unsay"]].validate_python(event, strict=True)
    except ValidationError as error:
        return str(error)
    return ""


@pytest.fixture(autouse=True)
def _every_stream_event_fits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a test of this folder does, the events that it causes have their documented shape."""
    faults: list[str] = []
    emit = Scope.emit

    def checked(scope: Scope, event: str, **data: Any) -> None:
        faults.append(fault_of({"unsay": event, **data}))
        emit(scope, event, **data)

    monkeypatch.setattr(Scope, "emit", checked)
    yield
    assert [] == [fault for fault in faults if fault]


collect_ignore = ["budget_child.py", "reversible_child.py"]


@pytest.fixture
def open_thread(tmp_path: Path) -> Iterator[Opening]:
    """Opens a thread of one file on each call."""
    conversations: list[Conversation] = []

    def open_it(model: Any = None, judge: Any = None, **options: Any) -> Conversation:
        conversations.append(
            open_conversation(tmp_path / "t.db", model=model, judge=judge, **options)
        )
        return conversations[-1]

    yield open_it
    for conversation in conversations:
        conversation.close()
