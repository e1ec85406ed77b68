"""Slash commands: recognized in the chat, answered by the graph, never sent to a model."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage

from unsay.context.exclusions import forgotten_ids
from unsay.messages.annotations import annotation_of, is_answer, is_question, spoken
from unsay.messages.content import preview, text_of
from unsay.operations.command_table import VERBS
from unsay.operations.pin import pinned_ids
from unsay.prompts.fields import Texts
from unsay.state import Command, State
from unsay.types import Checkpoint, Forgotten

TIMELINE_TURNS = 50
"""How many of the newest turns the chat's timeline lists."""


def parse_command(text: str) -> Command | None:
    """The command that a message is, `None` when it is something to answer.

    Only a known verb alone on one line is a command: a path, a sentence or
    several lines that begin with a slash go to the model.

    >>> parse_command("/rollback before lunch")
    {'verb': 'rollback', 'argument': 'before lunch'}
    >>> parse_command("/etc/hosts is wrong") is None
    True
    """
    line = text.strip()
    if not line.startswith("/") or "\n" in line:
        return None
    verb, _, argument = line[1:].partition(" ")
    takes = VERBS.get(verb.lower())
    if takes is None or (argument.strip() and not takes):
        return None
    return Command(verb=verb.lower(), argument=argument.strip())


def answered_turns(messages: Sequence[AnyMessage]) -> list[tuple[str, AnyMessage]]:
    """Each turn's question and its answer, oldest first."""
    turns: list[tuple[str, AnyMessage]] = []
    question = ""
    for message in spoken(messages):
        if is_question(message):
            question = text_of(message)
        elif is_answer(message):
            turns.append((question, message))
    return turns


def timeline_text(
    messages: Sequence[AnyMessage],
    texts: Texts,
    *,
    before: int = 0,
    marks: Mapping[str, str] | None = None,
) -> str:
    """Return the newest turns with their scores, one a line.

    `before` is how many answered turns come before these messages; `marks` is shown beside answers,
    by their ids.
    """
    bracketed = {name: f"  [{annotation}]" for name, annotation in (marks or {}).items()}
    turns = answered_turns(messages)
    first = max(0, len(turns) - TIMELINE_TURNS)
    lines = [
        texts.timeline_line.format(
            turn=before + first + index + 1,
            score=score_text(annotation_of(answer).get("score")),
            question=preview(question),
        )
        + bracketed.get(answer.id or "", "")
        for index, (question, answer) in enumerate(turns[first:])
    ]
    return "\n".join(lines) or texts.no_turns


def checkpoints_text(checkpoints: Sequence[Checkpoint], texts: Texts) -> str:
    """The checkpoints, one a line."""
    lines = [
        texts.checkpoint_line.format(
            id=each["id"],
            name=each["name"] or "-",
            turn=each["turn"],
            score=score_text(each["score"]),
            topic=each["topic"],
        )
        for each in checkpoints
    ]
    return "\n".join(lines) or texts.no_checkpoints


def score_text(score: float | None) -> str:
    """A score with two digits, a dash for unscored."""
    return "–" if score is None else f"{score:.2f}"


def forgotten_text(state: State, texts: Texts) -> str:
    """What is forgotten, one a line, the newest last."""
    lines = [
        texts.forgotten_line.format(
            id=each["id"],
            kind=each["kind"],
            words=words_of(state, each),
            reason=each["reason"],
        )
        for each in state.get("forgotten", [])
    ]
    return "\n".join(lines) or texts.no_forgotten


def words_of(state: Mapping[str, Any], entry: Forgotten) -> str:
    """What an entry is about, in short: its topic's label, or its first words on the record."""
    labels = {each["id"]: each["label"] for each in state.get("topics", [])}
    if "topic_id" in entry:
        return str(labels.get(entry["topic_id"], entry["topic_id"]))
    said = (text_of(m) for m in state.get("messages", []) if m.id in entry["message_ids"])
    return preview(next((words for words in said if words.strip()), ""), 40)


def timeline_labels(state: State, texts: Texts) -> dict[str, str]:
    """What the timeline says beside a message: that it is pinned or forgotten."""
    pins = dict.fromkeys(pinned_ids(state), texts.pinned_label)
    gone = forgotten_ids(
        state.get("messages", []), state.get("segments", []), state.get("forgotten", [])
    )
    return {**pins, **dict.fromkeys(gone, texts.forgotten_label)}


def questions_text(said: Sequence[AnyMessage]) -> str:
    """Return the questions of some turns, in short."""
    asked = [preview(text_of(m), 40) for m in said if is_question(m)]
    return " / ".join(asked[:3]) + (" …" if len(asked) > 3 else "")
