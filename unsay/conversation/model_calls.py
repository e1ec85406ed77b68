"""The model calls of a turn: the context of each, and the same request to another model."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage

from unsay.context.manifest import (
    CallContext,
    Key,
    ids_checksum,
    key_of,
    manifest_in,
    read_manifest,
)
from unsay.context.view import Hints, due
from unsay.conversation.branching import LIVE
from unsay.conversation.thread import ThreadHandle
from unsay.conversation.timeline import asked_turn, timeline_of
from unsay.effects import Steps, off_loop
from unsay.errors import MissingModelError, UnknownContextError, UnknownRunError
from unsay.generation.context_builder import attempt_context, request_of, shown_payload
from unsay.generation.draft import messages_of
from unsay.generation.judge import judge_exchange
from unsay.history.branch import holder_of, list_stored_branches
from unsay.history.runs import FailedRequest, list_requests
from unsay.memory.offload import Earlier
from unsay.messages.annotations import annotation_of
from unsay.messages.content import preview, text_of
from unsay.models.factory import ModelLike, is_chat_model, is_graph, resolve_model
from unsay.phrases import Phrase, Verb
from unsay.protocols import Exchange
from unsay.results.results import counted, score_text
from unsay.runtime import Scope
from unsay.state import State
from unsay.types import Printed, StoredBranch

PENDING = "pending"  # place of a draft that a person has not decided about yet


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCall:
    """One model call of a turn.

    Attributes:
        branch: Where the returned message is now: `live`, a branch's id, or `pending`.
        kind: Who or what removed the message, as in `Branch`; else `live`.
        score: From 0 to 1; `None` for unscored, and for a step that called tools.
        words: The beginning of the returned message; empty for tool calls alone.
    """

    branch: str
    kind: str
    score: float | None
    words: str
    context: CallContext

    def __str__(self) -> str:
        context = self.context
        prompt_size = f"{counted(len(context.sent.places), 'message')}, {context.prompt} tokens"
        return (
            f"attempt {context.attempt}, call {context.call}: {prompt_size}  {self.branch}  "
            f"score {score_text(self.score)}  {self.words}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCalls(Printed):
    """All stored model calls of a turn, by attempt and call; `Conversation.context` returns it."""

    turn: int
    question: str
    calls: tuple[TurnCall, ...]

    def __str__(self) -> str:
        return "\n".join([f"Turn {self.turn}: {preview(self.question)}", *map(str, self.calls)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON; `rules` is a dict by name, and `places` are lists of positions from 1."""
        calls = []
        for call in self.calls:
            rules: dict[str, Any] = {
                rule.name: {"places": list(rule.places), "message_ids": list(rule.message_ids)}
                for rule in (call.context.sent, *call.context.rules)
            }
            context = {**asdict(call.context), "sent": rules.pop("sent"), "rules": rules}
            calls.append({**asdict(call), "context": context})
        return {"turn": self.turn, "question": self.question, "calls": calls}


def context(
    thread: ThreadHandle, turn: int | None = None, *, attempt: int | None = None
) -> Steps[TurnCalls]:
    """Return what the model was sent in a turn, call by call, rejected drafts included."""
    state = yield from thread.load_whole_state()
    target_turn = asked_turn(timeline_of(thread, state).turns, turn)
    branches = yield from list_stored_branches(*thread.address)
    calls = _calls(state, branches, target_turn.question_id or "")
    matching_calls = [call for call in calls if attempt in (None, call.context.attempt)]
    if not matching_calls and calls:
        attempts = sorted({call.context.attempt for call in calls})
        raise UnknownContextError(
            code="no_attempt", turn=target_turn.number, attempt=attempt, count=attempts
        )
    if not matching_calls:
        raise UnknownContextError(
            replay=Verb("replay"), code="context_not_kept", turn=target_turn.number
        )
    return TurnCalls(
        turn=target_turn.number, question=target_turn.question, calls=tuple(matching_calls)
    )


def _calls(state: State, branches: Sequence[StoredBranch], question_id: str) -> list[TurnCall]:
    """Return the calls that answered a question, ordered by attempt and call.

    A message that is in two places is listed once, in the live branch if it is there. Empty if
    nothing is kept of the calls; `DatabaseCorruptError` if it was changed and cannot be read.
    """
    question, transcript = ids_checksum([question_id]), state["messages"]
    calls: dict[Key, TurnCall] = {}
    # The live branch comes first, and `setdefault` keeps what came first.
    for place, kind, messages, branch in _places(state, branches):
        manifests = ((message, manifest_in(message)) for message in messages)
        own = [(m, record) for m, record in manifests if record and record["question"] == question]
        transcript_then = (
            transcript if branch is None or not own else _with_branch(transcript, branch, branches)
        )
        for message, manifest in own:
            call = TurnCall(
                branch=place,
                kind=kind,
                score=annotation_of(message).get("score"),
                words=preview(text_of(message)),
                context=read_manifest(message, manifest, transcript_then),
            )
            calls.setdefault(key_of(message), call)
    return sorted(calls.values(), key=lambda call: (call.context.attempt, call.context.call))


_Place = tuple[str, str, Sequence[AnyMessage], StoredBranch | None]


def _places(state: State, branches: Sequence[StoredBranch]) -> Iterable[_Place]:
    """Yield each place that can hold a call's message, the live branch first."""
    yield LIVE, LIVE, state["messages"], None
    for branch in branches:
        yield branch["id"], branch["kind"], [*branch["messages"], *branch["drafts"]], branch
    turn = state.get("turn")
    drafts = [m for draft in (turn["rejections"] if turn else ()) for m in draft["messages"]]
    yield PENDING, "draft", drafts, None


def _with_branch(
    transcript: Sequence[AnyMessage], branch: StoredBranch, branches: Sequence[StoredBranch]
) -> Sequence[AnyMessage]:
    """Return the transcript with a branch's messages in their old place.

    A branch that began in another branch brings the messages of that one. If its place is not
    found, the transcript is unchanged.
    """
    positions = {message.id: index for index, message in enumerate(transcript)}
    if branch["base"] is not None and branch["base"] not in positions:
        others = [other for other in branches if other["id"] != branch["id"]]
        holder = holder_of(others, branch["base"])
        if holder is None:
            return transcript
        transcript = _with_branch(transcript, holder, others)
        positions = {message.id: index for index, message in enumerate(transcript)}
    start = positions.get(branch["base"], -1) + 1
    ids = {message.id for message in branch["messages"]}
    after = [message for message in transcript[start:] if message.id not in ids]
    return [*transcript[:start], *branch["messages"], *after]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One model's answer to a request.

    Attributes:
        answer: Empty if the model failed.
        calls: The tools that it wanted to call, as `name({…})`.
        score: From 0 to 1; `None` for unscored.
        reason: The judge's, or the model's error in words.
        error: Class of the model's error; `None` when it answered.
    """

    answer: str
    calls: tuple[str, ...] = ()
    score: float | None = None
    reason: str = ""
    error: str | None = None

    def __str__(self) -> str:
        verdict = f"score {score_text(self.score)}: {self.reason}".removesuffix(": ")
        return "\n".join(filter(None, [self.error or verdict, self.answer, *self.calls]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay(Printed):
    """One attempt's request, its answer, and another model's answer to it.

    Attributes:
        turn: The turn's number when the request was made.
        exact: Whether this is the request that was sent; else it is planned again now.
        payload: The request's body as the provider got it, without the streaming options.
        recorded: The answer that was given then.
        again: The other model's answer; `None` if none was asked.
    """

    turn: int
    attempt: int
    run_id: str | None
    exact: bool
    question: str
    messages: Sequence[BaseMessage]
    payload: Mapping[str, Any]
    recorded: Answered
    again: Answered | None = None

    def __str__(self) -> str:
        head = f"Turn {self.turn}, attempt {self.attempt}: {preview(self.question)}"
        other_lines = [] if self.again is None else ["Answer to the same request:", str(self.again)]
        return "\n".join([head, "Answer then:", str(self.recorded), *other_lines])


def replay(
    thread: ThreadHandle,
    *,
    turn: int | None = None,
    run_id: str | None = None,
    attempt: int | None = None,
    model: ModelLike | None = None,
) -> Steps[Replay]:
    """Return what a turn's model was sent, and with `model` what another model answers to the same."""
    state = yield from thread.load_whole_state()
    requests = yield from list_requests(*thread.address)
    if turn is not None and run_id is None:
        # The turn that has this number in the transcript, else any that had it.
        turn_ids = {t.question_id for t in timeline_of(thread, state).turns if t.number == turn}
        requests = [request for request in requests if not turn_ids or request.turn_id in turn_ids]
    matches = [
        request
        for request in requests
        if (turn is None or request.turn == turn)
        and (run_id is None or request.run_id == run_id)
        and (attempt is None or request.attempt == attempt)
    ]
    if not matches and (run_id is not None or attempt is not None):
        target = (
            Phrase(code="attempt", attempt=attempt)
            if run_id is None
            else Phrase(code="run", run_id=run_id)
        )
        raise UnknownRunError(code="no_failed_request", target=target, runs=Verb("runs"))
    result = _stored(matches[-1]) if matches else (yield from _planned(thread, state, turn))
    if model is None:
        return result
    return replace(result, again=(yield from _ask_again(result, model, thread.scope())))


def _stored(request: FailedRequest) -> Replay:
    return Replay(
        turn=request.turn,
        attempt=request.attempt,
        run_id=request.run_id,
        exact=True,
        question=request.question,
        messages=request.messages,
        payload=request.payload,
        recorded=Answered(
            answer=request.answer, score=request.score, reason=request.reason, error=request.error
        ),
    )


def _planned(thread: ThreadHandle, state: State, turn: int | None) -> Steps[Replay]:
    """Plan the request of a turn again from the transcript, because it was not stored.

    Raises `UnknownTurnError` if no question began a turn of this number, `TranscriptError` if the
    provider would refuse the request.
    """
    # Reminders are shown as in a first turn: how often they had been shown is not kept.
    target_turn = asked_turn(timeline_of(thread, state).turns, turn)
    scope = yield from thread.salted_scope()
    try:
        model = yield from off_loop(lambda: scope.services.answerer)
    except MissingModelError:
        model = None
    transcript = state["messages"]
    place = next(i for i, message in enumerate(transcript) if message.id == target_turn.question_id)
    messages = transcript[: place + 1]
    message_ids = {message.id for message in messages}
    past_state: State = {
        **state,
        "messages": messages,
        "segments": [each for each in state.get("segments", []) if each["start"] in message_ids],
    }
    reminders = due(scope.services.reminders, {}, turn=target_turn.number, run_id="")
    pending_ids = [target_turn.question_id or ""]
    attempt = yield from attempt_context(
        past_state,
        scope,
        model,
        Earlier(messages=[], positions={}),
        Hints(),
        reminders,
        pending=pending_ids,
    )
    request = yield from request_of(attempt)
    return Replay(
        turn=target_turn.number,
        attempt=1,
        run_id=None,
        exact=False,
        question=target_turn.question,
        messages=request,
        payload=shown_payload(model, request, {}),
        recorded=Answered(
            answer=target_turn.answer or "", score=target_turn.score, reason=target_turn.reason
        ),
    )


def _ask_again(replay: Replay, model: ModelLike, scope: Scope) -> Steps[Answered]:
    """Return another model's answer to the request, judged now; the model's error if it fails.

    An answer that calls tools is not judged, and its tools are not run. Raises as `resolve_model`
    if `model` is not a model, or is a name without a key.
    """
    other = yield from off_loop(lambda: resolve_model(model, scope.settings))
    if is_chat_model(other):
        other = scope.services.with_tools(other)
    messages = list(replay.messages)
    value = {"messages": messages} if is_graph(other) else messages
    try:
        reply = yield from scope.ask(other, value, quiet=True)
        message_ids = {message.id for message in messages}
        answer = reply if isinstance(reply, AIMessage) else messages_of(reply, message_ids)[-1]
    except Exception as error:  # noqa: BLE001 - any client may raise anything; the error is the result
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
