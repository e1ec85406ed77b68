"""Slash commands: recognized in the chat, answered by the graph, never sent to a model."""

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage

from unsay.context.exclusions import forgotten_ids
from unsay.messages.annotations import annotation_of, is_answer, is_question, spoken
from unsay.messages.content import preview, text_of
from unsay.operations.command_table import NOT_IN_GRAPH, VERBS
from unsay.operations.pin import pinned_ids
from unsay.prompts.fields import Texts
from unsay.state import Command, State
from unsay.types import Checkpoint, Forgotten

# How many of the newest turns the chat's timeline lists.
TIMELINE_TURNS = 50


def parse_command(text: str) -> Command | None:
    """Return the slash command that a message is; `None` for a message to answer.

    A command is one line with a known verb. A path, a sentence or several lines that begin with a
    slash go to the model.

    >>> parse_command("/rollback before lunch")
    {'verb': 'rollback', 'argument': 'before lunch'}
    >>> parse_command("/etc/hosts is wrong") is None
    True
    """
    line = text.strip()
    if not line.startswith("/") or "\n" in line:
        return None
    verb, _, argument = line[1:].partition(" ")
    takes = True if verb.lower() in NOT_IN_GRAPH else VERBS.get(verb.lower())
    if takes is None or (argument.strip() and not takes):
        return None
    return Command(verb=verb.lower(), argument=argument.strip())


def answered_turns(messages: Sequence[AnyMessage]) -> list[tuple[str, AnyMessage]]:
    """Return the question's text and the answer of each answered turn, oldest first; empty for none."""
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
    labels: Mapping[str, str] | None = None,
) -> str:
    """Return the newest turns with their scores, one per line, or a text that says there are none.

    `before` is the number of answered turns before these messages; `labels` are by message id.
    """
    bracketed = {message_id: f"  [{label}]" for message_id, label in (labels or {}).items()}
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
    """Return the checkpoints, one per line, or a text that says there are none."""
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
    """Return a score with two decimals, or a dash for an unscored answer."""
    return "–" if score is None else f"{score:.2f}"


def forgotten_text(state: State, texts: Texts) -> str:
    """Return what is forgotten, one per line, newest last, or a text that says there is none."""
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
    """Return the label of an entry's topic, or the first words of its messages; empty if not loaded."""
    labels = {each["id"]: each["label"] for each in state.get("topics", [])}
    if "topic_id" in entry:
        return str(labels.get(entry["topic_id"], entry["topic_id"]))
    texts = (text_of(m) for m in state.get("messages", []) if m.id in entry["message_ids"])
    return preview(next((text for text in texts if text.strip()), ""), 40)


def timeline_labels(state: State, texts: Texts) -> dict[str, str]:
    """Return the timeline's labels of pinned and forgotten messages, by message id."""
    pins = dict.fromkeys(pinned_ids(state), texts.pinned_label)
    forgotten = forgotten_ids(
        state.get("messages", []), state.get("segments", []), state.get("forgotten", [])
    )
    return {**pins, **dict.fromkeys(forgotten, texts.forgotten_label)}


def questions_text(messages: Sequence[AnyMessage]) -> str:
    """Return the first three questions among these messages as one text; empty if there are none."""
    questions = [preview(text_of(m), 40) for m in messages if is_question(m)]
    return " / ".join(questions[:3]) + (" …" if len(questions) > 3 else "")
