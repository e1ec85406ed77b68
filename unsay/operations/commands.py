"""Slash commands: recognized in the chat, answered by the graph, never sent to a model."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AnyMessage

from unsay.context.exclusions import forgotten_ids
from unsay.errors import ConflictError, InputError, UnknownBranchError
from unsay.messages.annotations import is_answer, is_question, mark_of, spoken
from unsay.messages.content import preview, text_of
from unsay.operations.command_table import VERBS
from unsay.operations.forget import Cause, forgetting, messages_entry, topic_entry
from unsay.operations.pin import leading, pin, pinned_ids, unpin
from unsay.operations.rollback import turns_left
from unsay.prompts.fields import Texts
from unsay.runtime import Scope
from unsay.state import Command, State, Update, offloaded_of
from unsay.types import Checkpoint, Forgotten, Operation, Topic

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
    """The newest turns with their scores, one a line.

    Args:
        messages: The record, or its newest part.
        texts: Of the person's language.
        before: How many answered turns stand before that part.
        marks: What is said beside an answer, by its id.
    """
    turns = answered_turns(messages)
    first = max(0, len(turns) - TIMELINE_TURNS)
    lines = [
        texts.timeline_line.format(
            turn=before + first + index + 1,
            score=score_text(mark_of(answer).get("score")),
            question=preview(question),
        )
        + _bracketed((marks or {}).get(answer.id or ""))
        for index, (question, answer) in enumerate(turns[first:])
    ]
    return "\n".join(lines) or texts.no_turns


def _bracketed(mark: str | None) -> str:
    return "" if mark is None else f"  [{mark}]"


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


KEEPING_VERBS = frozenset({"pin", "unpin", "forget", "forgotten"})
"""The commands that are obeyed here."""


_TURNS = re.compile(r"(\d{1,9})(?:\s*-\s*(\d{1,9}))?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What becomes of a command."""

    notice: str
    """Words that answer the person."""

    update: Update = field(default_factory=Update)
    """What changes at once."""

    step: Operation | None = None
    """A step that can be undone; `None` for nothing of the kind."""


def obey(
    state: State, scope: Scope, pending: Sequence[str], command: Command, texts: Texts
) -> Kept:
    """Carry a command out.

    Args:
        state: With the turns that it names in its live part.
        scope: Of the run.
        pending: Ids of the command's own messages.
        command: One of `VERBS`.
        texts: Of the person's language.

    Raises:
        UnsayError: It cannot be carried out.
    """
    verb, argument = command["verb"], command["argument"]
    if verb == "forgotten":
        return Kept(notice=forgotten_text(state, texts))
    cause = Cause(reason=f"/{verb} {argument}".strip(), created_at=scope.now())
    if verb == "forget" and argument and _TURNS.fullmatch(argument) is None:
        topic = topic_called(state, argument, loose=True)
        entry = topic_entry(state, topic, pending=pending, cause=cause)
        notice = texts.forgot.format(words=topic["label"])
        return Kept(notice=notice, step=forgetting(state, entry))
    said = turns_named(state, argument, pending)
    if verb != "forget":
        return _pinning(state, scope, verb, said, texts)
    span = sum(map(is_answer, said)) > 1
    names = [message.id or "" for message in said]
    entry = messages_entry(state, names, pending=pending, cause=cause, span=span)
    notice = texts.forgot.format(words=_words(said))
    return Kept(notice=notice, step=forgetting(state, entry))


def _pinning(
    state: State, scope: Scope, verb: str, said: Sequence[AnyMessage], texts: Texts
) -> Kept:
    names = [message.id or "" for message in said]
    if verb == "unpin":
        update = unpin(state, scope, names)
        return Kept(notice=texts.unpinned.format(words=_words(said)), update=update)
    update = pin(state, scope, leading(state["messages"], names))
    return Kept(notice=texts.pinned.format(words=_words(said)), update=update)


def places_of_turns(state: State, argument: str) -> int:
    """How many of the newest turns the state must hold for an order that names some."""
    found = _TURNS.fullmatch(argument)
    if found is None:
        return 0 if argument else 1
    newest = turns_left(state.get("messages", []), offloaded_of(state))
    return max(1, newest - int(found[1]) + 1)


def turns_named(state: State, argument: str, pending: Sequence[str]) -> list[AnyMessage]:
    """The messages of a turn, or of a range of turns; by default of the newest.

    Args:
        state: With these turns in its live part.
        argument: `3`, `3-5`, or empty.
        pending: Ids of the messages that wait.

    Raises:
        InputError: There are no such turns.
    """
    before = (offloaded_of(state) or {"turns": 0})["turns"]
    turns = answered([m for m in state["messages"] if m.id not in pending])
    last = before + len(turns)
    found = _TURNS.fullmatch(argument)
    first, end = (last, last) if found is None else (int(found[1]), int(found[2] or found[1]))
    if not max(1, before + 1) <= first <= end <= last:
        raise InputError(
            f"There are no turns {argument or last!r}: the conversation has {last!r}, and "
            "/timeline lists them"
        )
    return [message for turn in turns[first - before - 1 : end - before] for message in turn]


def answered(messages: Sequence[AnyMessage]) -> list[list[AnyMessage]]:
    """The answered turns, each with its question, its tool steps and its answer."""
    turns: list[list[AnyMessage]] = [[]]
    for message in spoken(messages):
        if message.type != "system":
            turns[-1].append(message)
        if is_answer(message):
            turns.append([])
    return turns[:-1]


def topic_called(state: State, what: str, *, loose: bool = False) -> Topic:
    """The topic with this id or label.

    Args:
        state: As it is.
        what: The id or the label.
        loose: Whether a part of the label will do, whatever its case.

    Raises:
        UnknownBranchError: There is none.
        ConflictError: There are several.
    """
    topics = state.get("topics", [])
    found = [each for each in topics if each["id"] == what]
    found = found or [each for each in topics if each["label"] == what]
    if loose and not found:
        found = [each for each in topics if what.casefold() in each["label"].casefold()]
    if len(found) > 1:
        ids = ", ".join(each["id"] for each in found)
        raise ConflictError(f"{what!r} names several topics: give one's id: {ids}")
    if not found:
        raise UnknownBranchError(
            f"No message or topic of this thread is called {what!r}; timeline() lists them"
        )
    return found[0]


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


def marks_of(state: State, texts: Texts) -> dict[str, str]:
    """What the timeline says beside a message: that it is pinned or forgotten."""
    pins = dict.fromkeys(pinned_ids(state), texts.pinned_mark)
    gone = forgotten_ids(
        state.get("messages", []), state.get("segments", []), state.get("forgotten", [])
    )
    return {**pins, **dict.fromkeys(gone, texts.forgotten_mark)}


def _words(said: Sequence[AnyMessage]) -> str:
    """The questions of some turns, in short."""
    asked = [preview(text_of(m), 40) for m in said if is_question(m)]
    return " / ".join(asked[:3]) + (" …" if len(asked) > 3 else "")
