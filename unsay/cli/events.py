"""The events of a turn as objects for programs."""

from dataclasses import asdict
from typing import Any

from unsay.cli.output import versioned
from unsay.graph.reply import Event


def event_object(event: Event) -> dict[str, Any]:
    """An event with the same four fields whatever its kind; a reply's own stand in `data`."""
    data = dict(event.data) if event.reply is None else asdict(event.reply)
    return versioned(event=event.kind, text=event.text, message_id=event.message_id, data=data)
