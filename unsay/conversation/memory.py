"""Pins, forgetting, summaries, recall and topics of a thread: what contexts include and leave out."""

from collections.abc import Sequence
from dataclasses import replace

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

from unsay.context.compaction import with_partners
from unsay.context.plan import Omission
from unsay.context.topics import by_topic, current_topic_id
from unsay.conversation.navigation import settle
from unsay.conversation.results import RollbackResult, Rows
from unsay.conversation.thread import ThreadHandle
from unsay.effects import Steps
from unsay.errors import InputError
from unsay.generation.relevance import judge_document
from unsay.judging.verdict import relevance
from unsay.judging.vocabulary import vocabulary
from unsay.messages.annotations import is_question
from unsay.messages.content import text_of
from unsay.operations import visibility
from unsay.operations.dispatch import messages_needed
from unsay.operations.forget import (
    Cause,
    forget_step,
    forget_topic,
    left_out,
    make_entry,
    pinned_ids,
)
from unsay.operations.manual_compaction import compact_up_to
from unsay.operations.pending import unanswered_ids
from unsay.operations.recall import Find, ids_of, search_command
from unsay.runtime import Scope
from unsay.state import Command, State, Update
from unsay.types import Forgotten, Operation, Pin


def pins(thread: ThreadHandle) -> Steps[tuple[Pin, ...]]:
    """List the pins, oldest first.

    A pin's `page` is the id of the offloaded segment with the message; a live message has none.

    Raises:
        UnknownThreadError: The thread has no messages yet.
    """
    return Rows((yield from thread.known()).get("pins", []))


def pin(
    thread: ThreadHandle, message_id: str | None = None, *, turn: int | None = None
) -> Steps[tuple[Pin, ...]]:
    """Pin a message: always include it in the context, with its tool calls and results.

    The pin has no effect while a rollback has the message removed. Of a whole turn, irrelevant
    documents are not pinned.

    Args:
        thread: The thread.
        message_id: Of any message of the conversation; `None` pins a whole turn.
        turn: The turn's number, from 1; `None` is the newest. Not used with a `message_id`.

    Returns:
        All pins, the new ones last.

    Raises:
        UnknownThreadError: The thread has no messages yet.
        UnknownBranchError: The message is not in the transcript.
        UnknownTurnError: No answered turn has this number.
        InputError: It is a command or a notice.
        ConflictError: It is pinned already, it is forgotten, it is an irrelevant document or search
            result, there are 64 pins, or a decision is pending.
        StorageError: The database failed, or stored data is missing or damaged.
    """
    state, scope = (yield from thread.decided()), thread.scope()
    page = None
    if message_id is None:
        state, messages = yield from load_turns(thread, state, turn)
        ids = [message.id or "" for message in messages]
    else:
        ids, page = [message_id], (yield from visibility.page_with(state, scope, message_id))
    update = visibility.pin(state, scope, ids, page)
    yield from thread.write(state, scope, update)
    return Rows(update["pins"])


def unpin(
    thread: ThreadHandle, message_id: str | None = None, *, turn: int | None = None
) -> Steps[tuple[Pin, ...]]:
    """Remove a pin, or the pins of a whole turn.

    Args:
        thread: The thread.
        message_id: Of the pinned message; `None` removes the pins of a turn.
        turn: The turn's number, from 1; `None` is the newest. Not used with a `message_id`.

    Returns:
        The pins that are left.

    Raises:
        UnknownThreadError: The thread has no messages yet.
        UnknownBranchError: The message is not pinned, or no message of the turn is.
        UnknownTurnError: No answered turn has this number.
        ConflictError: A decision is pending.
        StorageError: The database failed, or stored data is missing or damaged.
    """
    state, scope = (yield from thread.decided()), thread.scope()
    ids = [message_id or ""]
    if message_id is None:
        state, messages = yield from load_turns(thread, state, turn)
        ids = [message.id or "" for message in messages]
    update = visibility.unpin(state, scope, ids)
    yield from thread.write(state, scope, update)
    return Rows(update["pins"])


def same_topic(thread: ThreadHandle) -> Steps[str]:
    """Say that the topic did not change, and return the label of the topic that goes on.

    The newest topic is joined to the one before, so that contexts include the messages of both
    again. `undo` separates them. `retry` answers the last question again with these messages.

    Raises:
        UnknownThreadError: The thread has no messages yet.
        ConflictError: The conversation has only one topic, the topic before is forgotten, or a
            decision is pending.
        StorageError: The database failed, or stored data is missing or damaged.
    """
    state, scope = (yield from thread.decided()), thread.scope()
    needed = messages_needed(state, Command(verb="same", argument=""))
    state = yield from thread.reached(state, *needed)
    update = visibility.join_topics(state, scope)
    yield from thread.write(state, scope, update)
    return update["current_topic"]


def forgotten(thread: ThreadHandle) -> Steps[tuple[Forgotten, ...]]:
    """List what is forgotten, oldest first; `restore` takes the `id` of an entry.

    Raises:
        UnknownThreadError: The thread has no messages yet.
    """
    return Rows((yield from thread.known()).get("forgotten", []))


def forget(
    thread: ThreadHandle,
    what: str | None = None,
    through: str | None = None,
    *,
    turns: str | int | None = None,
    reason: str = "",
) -> Steps[Forgotten]:
    """Forget messages: never send them to a model again; the transcript keeps them.

    Contexts, recall, topic detection and the summaries of other topics leave them out, and tool
    calls go together with their results. Pins on them are removed. Summaries that include them are
    written again; a summarizer that fails raises no error. `restore` or `undo` makes them visible again.

    Args:
        thread: The thread.
        what: A message's id, or a topic's id or label: all messages of the topic until now. Later
            messages on the same subject are a new topic.
        through: Id of the last message of a span that begins at the message `what`.
        turns: A turn's number, or a range such as `"3-5"`, instead of `what`.
        reason: In your words, for the list of what is forgotten.

    Returns:
        The new entry in that list; `restore` takes its `id`.

    Raises:
        UnknownThreadError: The thread has no messages yet.
        UnknownBranchError: No message or topic has this id or label.
        UnknownTurnError: No answered turn has this number.
        InputError: The question that waits for its answer is meant, `turns` is not a number or a
            range, or not exactly one of `what` and `turns` is given.
        ConflictError: It is forgotten already, a turn was stopped or waits for a decision, a label
            is ambiguous, or 64 things or 1,000 messages are forgotten already.
        StorageError: The database failed, or stored data is missing or damaged.
    """
    if (what is None) == (turns is None):
        raise InputError(
            "Give a message or a topic, or turns=…: exactly one of the two, got "
            + ("neither" if what is None else f"{what!r} and turns={turns!r}")
        )
    state, scope = (yield from thread.settled()), thread.scope()
    cause = Cause(reason=reason, created_at=scope.now())
    if what is None:
        state, messages = yield from load_turns(thread, state, turns)
        step = visibility.forget_turns(state, messages, unanswered_ids(state), cause)
    else:
        ends = {what} if through is None else {what, through}
        state = yield from thread.reached(state, ends)
        if through is None and what not in {message.id for message in state["messages"]}:
            topic = visibility.topic_named(state, what)
            step = forget_topic(state, topic, unanswered_ids(state), cause)
        else:
            step = visibility.forget_span(state, what, through, unanswered_ids(state), cause)
    yield from commit_step(thread, state, scope, step)
    return step["forgotten"][0]


def commit_step(
    thread: ThreadHandle, state: State, scope: Scope, step: Operation
) -> Steps[RollbackResult]:
    """Commit a step that forgets messages or lets models see them again.

    In the result, `restored` is the number of messages that contexts can show again. Raises
    `ConflictError` if too much would be forgotten.
    """
    update = yield from visibility.take_step(state, scope, step)
    visible = left_out(state, state.get("forgotten", [])) - left_out(state, update["forgotten"])
    result = yield from settle(thread, state, scope, update)
    return replace(result, restored=len(visible))


def forget_tool_results(
    thread: ThreadHandle, below: float = 0.3, *, question: str | None = None, reason: str = ""
) -> Steps[Forgotten | None]:
    """Replace irrelevant tool results in contexts by a short line; the transcript keeps them.

    Only results of the current topic that the state holds are scored. Pinned and forgotten ones
    stay. With `judging="model"` the judge scores each result. Otherwise the score is by the words
    that result and question share: 0.2 for none, 0.5 and more for some. A result that cannot be
    scored stays.

    Args:
        thread: The thread.
        below: A result with a lower score is forgotten, from 0 to 1.
        question: What the results are compared with; `None` takes the topic's questions, of which
            the best counts.
        reason: In your words, for the list of what is forgotten.

    Returns:
        What was forgotten; `None` if no result scored lower.

    Raises:
        UnknownThreadError: The thread has no messages yet.
        InputError: `below` is not from 0 to 1.
        ConflictError: A turn was stopped or waits for a decision, or over 64 things or 1,000
            messages would be forgotten.
    """
    if not 0 <= below <= 1:
        raise InputError(f"below={below!r} is not a score: give a number from 0 to 1")
    state, scope = (yield from thread.settled()), thread.scope()
    segments = state.get("segments", [])
    messages, topic = state["messages"], current_topic_id(segments) or ""
    in_topic = by_topic(messages, segments).get(topic, [])
    questions = [question] if question else [text_of(m) for m in in_topic if is_question(m)]
    pinned = {messages[i].id for i in with_partners(messages, pinned_ids(state))}
    kept = {*pinned, *left_out(state, state.get("forgotten", [])), *unanswered_ids(state)}
    ids: list[str] = []
    for message in in_topic:
        if isinstance(message, ToolMessage) and message.id not in kept:
            score = yield from _score(questions, message, scope)
            if score is not None and score < below:
                ids.append(message.id or "")
    if not ids:
        return None
    cause = Cause(reason=reason or f"scored below {below!r}", created_at=scope.now())
    entry = make_entry("tool_results", ids, cause)
    yield from commit_step(thread, state, scope, forget_step(state, entry))
    return entry


def compact(thread: ThreadHandle, up_to: int | str | None = None) -> Steps[Omission]:
    """Summarize the messages of the context up to a turn or a checkpoint; `undo` reverses this.

    The transcript stays as it is, and pinned messages are still sent in full. The summarizer is the
    configured one; with `summaries="local"`, or without a model, the summary is made without one.

    Args:
        thread: The thread.
        up_to: A turn's number, a checkpoint's name or its id's beginning; `None` is the newest answer.

    Returns:
        The messages that the summary replaces, and the summary.

    Raises:
        UnknownThreadError: The thread has no messages yet.
        UnknownTurnError: No answered turn in the state has this number.
        UnknownCheckpointError: No checkpoint matches.
        AmbiguousCheckpointError: Several checkpoints match.
        InputError: The context has no message up to there that a summary could replace.
        SummarizationError: The summarizer failed, or its summary is longer than the messages.
        ConfigurationError: The summarizer that the settings name cannot be made, as without a key.
        ConflictError: A turn was stopped and waits, or a decision is pending.
    """
    state, scope = (yield from thread.settled()), thread.scope()
    place = "" if up_to is None else str(up_to)
    update, omission = yield from compact_up_to(state, scope, place, unanswered_ids(state))
    yield from thread.write(state, scope, update)
    return omission


def recall(thread: ThreadHandle, words: str) -> Steps[tuple[Find, ...]]:
    """Search earlier messages and add the matches to the next question's context.

    Args:
        thread: The thread.
        words: What to search for; with `embeddings`, also what means the same.

    Returns:
        At most 20 messages in the transcript's order, each with its turn's number and why it
        matched; empty if nothing matches.

    Raises:
        UnknownThreadError: The thread has no messages yet.
        InputError: The text is empty.
        ConflictError: A decision is pending.
    """
    state, scope = (yield from thread.decided()), thread.scope()
    finds = yield from search_command(state, scope, words)
    if finds:
        yield from thread.write(state, scope, Update(asked_for=list(ids_of(finds))))
    return Rows(finds)


def _score(questions: Sequence[str], result: ToolMessage, scope: Scope) -> Steps[float | None]:
    """Score from 0 to 1 how relevant a result is to the questions; `None` if that is impossible."""
    if scope.settings.judging == "model":
        question = HumanMessage("\n".join(questions))
        return (yield from judge_document(question, result, scope)).score
    words = text_of(result)
    comparable = (question for question in questions if vocabulary(question))
    return max((relevance(question, words).score for question in comparable), default=None)


def load_turns(
    thread: ThreadHandle, state: State, turns: str | int | None
) -> Steps[tuple[State, list[AnyMessage]]]:
    """Load the named turns and commit this; return the state, and the messages of these turns.

    `turns` is a number, a range such as `3-5`, or `None` for the newest turn. Raises `InputError`
    for another text, `UnknownTurnError` if there is no such answered turn, `DatabaseCorruptError`
    if an offloaded segment is missing or damaged.
    """
    argument = None if turns is None else str(turns)
    state = yield from thread.reached(state, (), visibility.turns_needed(state, argument))
    return state, visibility.turns_named(state, argument, unanswered_ids(state))
