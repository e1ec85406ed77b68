"""A turn's request made visible, and made again to another model."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage
from langchain_core.runnables import Runnable
from langgraph.pregel import Pregel

from unsay.context.reminders import due
from unsay.context.view import Hints
from unsay.conversation.thread import Talk
from unsay.conversation.timeline import TurnView, asked_turn
from unsay.effects import Steps, off_loop
from unsay.errors import MissingModelError, UnknownRunError
from unsay.generation.context_builder import request_of, sight_of
from unsay.generation.draft import messages_of
from unsay.generation.failed_calls import shown_payload
from unsay.generation.judge import judge_exchange
from unsay.history.failed_requests import KeptRequest, list_requests
from unsay.messages.content import text_of
from unsay.model_factory import ModelLike, resolve_model
from unsay.operations.segment_loading import Earlier
from unsay.runtime import Scope
from unsay.state import State
from unsay.types import Exchange


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What one model made of a request."""

    answer: str
    """Its words; empty when it failed."""

    calls: tuple[str, ...] = ()
    """The tools that it wanted to call, as `name({…})`."""

    score: float | None = None
    """From 0 to 1; `None` for unscored."""

    reason: str = ""
    """The judge's, or the model's error in words."""

    error: str | None = None
    """Class of the model's error; `None` when it answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One attempt's request, what came of it, and what another model makes of it."""

    turn: int
    """The turn's number when the request was made."""

    attempt: int
    run_id: str | None
    exact: bool
    """Whether the request is what was sent; else it is planned anew from the record."""

    question: str
    messages: Sequence[BaseMessage]
    payload: Mapping[str, Any]
    """The request's body as the provider got it, without how it was streamed."""

    recorded: Answered
    again: Answered | None = None
    """What the other model makes of it; `None` when none was asked."""


def replay(
    talk: Talk,
    *,
    turn: int | None = None,
    run_id: str | None = None,
    attempt: int | None = None,
    model: ModelLike | None = None,
) -> Steps[Replay]:
    """Return what a turn's model was sent, and what another model answers to the same request.

    Args:
        talk: The thread.
        turn: The turn's number; `None` is the newest attempt that failed, without one the last
            turn.
        run_id: Of the failed attempt.
        attempt: Of the failed attempt, from 1.
        model: Receives the same request; `None` only returns it. The transcript is not changed.

    Raises:
        UnknownRunError: No failed attempt matches.
        NothingToUndoError: No turn matches.
    """
    state = yield from talk.whole()
    kept = yield from list_requests(talk.database.store, talk.thread_id)
    if turn is not None and run_id is None:
        # The turn that has this number in the transcript, else any that had it.
        asked = {e.question_id for e in talk.timeline_now(state).turns if e.number == turn}
        kept = [each for each in kept if not asked or each.turn_id in asked]
    fits = [
        each
        for each in kept
        if (turn is None or each.turn == turn)
        and (run_id is None or each.run_id == run_id)
        and (attempt is None or each.attempt == attempt)
    ]
    if not fits and (run_id is not None or attempt is not None):
        named = f"run {run_id!r}" if run_id is not None else f"attempt {attempt!r}"
        raise UnknownRunError(
            f"No failed request of {named} is kept; `unsay runs` lists the runs, and a turn "
            "that succeeded is replayed by its number"
        )
    found = _of_kept(fits[-1]) if fits else (yield from _of_record(talk, state, turn))
    if model is None:
        return found
    return replace(found, again=(yield from _ask_again(found, model, talk.scope())))


def _of_kept(kept: KeptRequest) -> Replay:
    """A kept request as it was made."""
    return Replay(
        turn=kept.turn,
        attempt=kept.attempt,
        run_id=kept.run_id,
        exact=True,
        question=kept.question,
        messages=kept.messages,
        payload=kept.payload,
        recorded=Answered(
            answer=kept.answer, score=kept.score, reason=kept.reason, error=kept.error
        ),
    )


def _of_record(talk: Talk, state: State, turn: int | None) -> Steps[Replay]:
    """The request of a turn on the record, planned anew from what stood before its answer.

    Reminders are shown as in a first turn: how often they had been shown is not kept.

    Raises:
        NothingToUndoError: There is no such turn.
    """
    found, scope = asked_turn(talk.timeline_now(state).turns, turn), talk.scope()
    try:
        model = yield scope.resolve("answerer")
    except MissingModelError:
        model = None
    sent = yield from _planned(state, scope, found, model)
    return Replay(
        turn=found.number,
        attempt=1,
        run_id=None,
        exact=False,
        question=found.question,
        messages=sent,
        payload=shown_payload(model, sent, {}),
        recorded=Answered(answer=found.answer or "", score=found.score, reason=found.reason),
    )


def _planned(
    state: State, scope: Scope, turn: TurnView, model: Runnable[Any, Any] | None
) -> Steps[list[AnyMessage]]:
    """The view of a turn's first attempt."""
    record = state["messages"]
    place = next(i for i, message in enumerate(record) if message.id == turn.question_id)
    shown = record[: place + 1]
    known = {message.id for message in shown}
    then: State = {
        **state,
        "messages": shown,
        "segments": [each for each in state.get("segments", []) if each["start"] in known],
    }
    reminders = due(scope.services.reminders, {}, turn=turn.number, run_id="")
    asked = [turn.question_id or ""]
    sight = yield from sight_of(
        then, scope, model, Earlier(words=[], places={}), Hints(), reminders, pending=asked
    )
    return (yield from request_of(sight))


def _ask_again(replay: Replay, model: ModelLike, scope: Scope) -> Steps[Answered]:
    """What another model makes of the same request, judged as the first was."""
    other = yield from _resolved(model, scope)
    sent = list(replay.messages)
    value = {"messages": sent} if isinstance(other, Pregel) else sent
    try:
        reply = yield scope.ask(other, value, quiet=True)
        answer = (
            reply
            if isinstance(reply, AIMessage)
            else messages_of(reply, {message.id for message in sent})[-1]
        )
    except Exception as error:  # noqa: BLE001 - any client may raise anything; it is what is shown
        return Answered(answer="", reason=str(error), error=type(error).__name__)
    if isinstance(answer, AIMessage) and answer.tool_calls:
        calls = tuple(
            f"{call['name']}({json.dumps(call['args'], ensure_ascii=False, default=repr)})"
            for call in answer.tool_calls
        )
        return Answered(answer=text_of(answer), calls=calls, reason="it wants to call tools first")
    exchange = Exchange(question=replay.question, answer=text_of(answer))
    verdict = yield from judge_exchange(exchange, answer, scope)
    return Answered(answer=text_of(answer), score=verdict.score, reason=verdict.reason)


def _resolved(model: ModelLike, scope: Scope) -> Steps[Runnable[Any, Any]]:
    made: Runnable[Any, Any] = yield off_loop(lambda: resolve_model(model, scope.settings))
    tools = scope.services.tools
    return made.bind_tools(list(tools)) if tools and isinstance(made, BaseChatModel) else made
