"""Same topic: a person says that the topic did not change, and its newest segment joins the one before."""

from unsay.context.exclusions import forgotten_topics
from unsay.context.topics import live_segments
from unsay.errors import ConflictError
from unsay.events import event_types
from unsay.history.parts import without_repeats
from unsay.runtime import Scope
from unsay.state import State, Update
from unsay.types import Operation, Segment


def same_topic_step(state: State) -> Operation:
    """Return the step that gives the newest segment the topic of the segment before it.

    Raises `ConflictError` if the topic has not changed yet, or if the topic before is forgotten.
    """
    segments = state.get("segments", [])
    if len(segments) < 2:
        raise ConflictError(
            "The conversation has only one topic, so there is no change to take back"
        )
    before, newest = segments[-2:]
    if before["topic_id"] in forgotten_topics(state.get("forgotten", [])):
        raise ConflictError(
            f"Topic {before['topic_id']!r} is forgotten: restore it first, then join the topics"
        )
    return Operation(
        kind="same_topic", base=None, branches=[], segment=newest, into=before["topic_id"]
    )


def swap_topic(state: State, scope: Scope, step: Operation, *, back: bool) -> Update:
    """Return the update that carries out a step of `same_topic_step`, or with `back` undoes it."""
    old = step["segment"]
    changed = old if back else Segment(topic_id=step["into"], start=old["start"])
    others = [each for each in state.get("segments", []) if each["start"] != old["start"]]
    segments = without_repeats(live_segments(state["messages"], [*others, changed]))
    topics = {topic["id"]: topic for topic in state.get("topics", [])}
    joined = topics.get(step["into"])
    if joined is not None and joined["summary"] is not None:
        logged = event_types.compaction(joined) if back else event_types.expand(joined)
        scope.step_log.later_events.append(logged)
    current = topics.get(segments[-1]["topic_id"]) if segments else None
    return Update(messages=[], segments=segments, current_topic=current["label"] if current else "")
