"""Judging old conversations: scores with the judge of now, bisection, ratings from a file."""

import hashlib
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from langchain_core.messages import AnyMessage

from unsay.arguments import check_call, shown
from unsay.context.compaction import Compaction, hidden_by_span
from unsay.context.topics import (
    by_topic,
    cleared_ids,
    compaction_without,
    forgotten_ids,
    remaining_topics,
    without_forgotten,
)
from unsay.conversation.asynchronous import AsyncConversation
from unsay.conversation.conversation import Conversation
from unsay.conversation.facade import OnLoop, OpenedThread
from unsay.conversation.records import exchanges
from unsay.conversation.thread import ThreadHandle
from unsay.effects import Steps, adrive, drive
from unsay.errors import InputError, UnknownTurnError
from unsay.generation.judge import judge_exchange, judge_summary
from unsay.memory import visibility
from unsay.orders.order import Rate
from unsay.prompts.catalogue import Texts
from unsay.protocols import Verdict
from unsay.results.results import Rows, counted, score_text
from unsay.state import State
from unsay.types import Printed

P = ParamSpec("P")
T_co = TypeVar("T_co", covariant=True)

SHOWN_EXCHANGES = 10
"""Earlier exchanges that a judge is shown of each beginning of the thread."""


class OfConversation(Protocol[P, T_co]):
    """A function of a conversation; for async code its result is awaited."""

    @overload
    def __call__(
        self, conversation: Conversation, /, *args: P.args, **kwargs: P.kwargs
    ) -> T_co: ...
    @overload
    def __call__(
        self, conversation: AsyncConversation, /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T_co]: ...


def of_conversation(
    steps: Callable[Concatenate[ThreadHandle, P], Steps[T_co]],
) -> OfConversation[P, T_co]:
    """Decorate steps over a thread: they become a function of its conversation, the only writer."""

    @wraps(steps)
    def call(conversation: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        if not isinstance(conversation, OpenedThread):
            name = f"{steps.__name__}: conversation"
            raise InputError(f"{name} must be a Conversation, got {shown(conversation)}")
        check_call(steps, args, kwargs)
        run: Callable[[Steps[Any]], Any] = adrive if isinstance(conversation, OnLoop) else drive
        thread = conversation._handle
        return run(thread.alone(steps(thread, *args, **kwargs)))

    call_of: Any = call
    return call_of  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedTurn:
    """The verdict on the answer of one turn, given now."""

    turn: int
    question: str
    verdict: Verdict

    def __str__(self) -> str:
        words = f"{self.turn}. {score_text(self.verdict.score)}  {self.verdict.outcome}"
        return f"{words}  {self.question}\n   {self.verdict.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisection(Printed):
    """The first turn from which a thread fails.

    Attributes:
        turn: Its number; `None` if the whole thread passes, or its last answer could not be judged.
        reason: The judge's reason there, or why the last answer could not be judged; empty if the
            thread passes.
        confirmed: Whether the thread still fails with one turn more; also `True` for the last turn,
            and if the thread passes. `False` if the last answer could not be judged.
        judgements: How many beginnings were judged.
        turns: How many turns the thread has.
    """

    turn: int | None
    reason: str
    confirmed: bool
    judgements: int
    turns: int

    @property
    def to_roll_back(self) -> int:
        """The number for `rollback(turns=…)` to go back to before the turn; 0 without a turn."""
        return 0 if self.turn is None else self.turns - self.turn + 1

    def __str__(self) -> str:
        effort = f"({counted(self.judgements, 'judgement')} of {counted(self.turns, 'turn')})"
        if self.turn is None and not self.confirmed:
            return f"The last answer could not be judged {effort}: {self.reason}"
        if self.turn is None:
            return f"No turn fails {effort}"
        return f"It went wrong in turn {self.turn} {effort}: {self.reason}"


@of_conversation
def judge(conversation: ThreadHandle, *, turn: int | None = None) -> Steps[tuple[JudgedTurn, ...]]:
    """Score the answers of a thread again with the current judge, and return the verdicts.

    Without answers the result is empty. The stored verdicts stay; only the usage account changes. An answer that the judge cannot score,
    as without a model or budget, gets an `unscored` verdict with the reason.

    Args:
        conversation: For scripts or for async code; then the call is awaited.
        turn: The number of the turn to score, from 1; `None` is all.

    Raises:
        UnknownTurnError: No answered turn has this number.
    """
    found, scope = (
        list(exchanges((yield from conversation.load_whole_state()))),
        conversation.scope(),
    )
    chosen = [each for each in found if turn in (None, each[0])]
    if not chosen and turn is not None:
        raise visibility.no_turn(turn, len(found))
    judged = []
    for number, question, answer, exchange in chosen:
        key = f"judge-{answer.id}"
        verdict = yield from judge_exchange(exchange, answer, scope, key=key)
        judged.append(JudgedTurn(turn=number, question=question, verdict=verdict))
    return Rows(judged)


@of_conversation
def bisect(conversation: ThreadHandle) -> Steps[Bisection]:
    """Find the turn from which the thread went wrong; nothing is rolled back.

    A beginning of the conversation, up to some turn, is judged by its last answer. The whole thread is
    judged first: if it passes or cannot be judged, no turn is found. Then a binary search looks for the first beginning
    that fails. Scores need not fall steadily, so the turns just before the result are judged one by
    one. An unscored beginning counts as one that passes.

    Raises:
        UnknownTurnError: No turn is answered yet.
    """
    found, scope = (
        list(exchanges((yield from conversation.load_whole_state()))),
        conversation.scope(),
    )
    if not found:
        raise UnknownTurnError(code="no_turns")
    verdicts: dict[int, Verdict] = {}
    earlier = [(question, exchange.answer) for _, question, _, exchange in found]
    turns = len(found)

    def fails(number: int) -> Steps[bool]:
        if number not in verdicts:
            _, _, answer, exchange = found[number - 1]
            before = tuple(earlier[max(0, number - 1 - SHOWN_EXCHANGES) : number - 1])
            whole = replace(exchange, earlier=before, earlier_ids=())
            key = f"bisect-{answer.id}"
            verdicts[number] = yield from judge_exchange(whole, answer, scope, key=key)
        return verdicts[number].outcome == "failed"

    if not (yield from fails(turns)):
        is_judged = verdicts[turns].outcome != "unscored"
        reason = "" if is_judged else verdicts[turns].reason
        return Bisection(
            turn=None, reason=reason, confirmed=is_judged, judgements=len(verdicts), turns=turns
        )
    good, bad = 0, turns
    while bad - good > 1:
        middle = (good + bad) // 2
        if (yield from fails(middle)):
            bad = middle
        else:
            good = middle
    # Two beginnings before it, one by one: a single good answer may hide an earlier fault.
    for number in range(bad - 1, max(0, bad - 4), -1):
        if (yield from fails(number)):
            bad = number
    confirmed = bad == turns or (yield from fails(bad + 1))
    return Bisection(
        turn=bad,
        reason=verdicts[bad].reason,
        confirmed=confirmed,
        judgements=len(verdicts),
        turns=turns,
    )


@of_conversation
def import_ratings(conversation: ThreadHandle, rows: Iterable[Mapping[str, Any]]) -> Steps[int]:
    """Give the ratings of rows that `ratings` returned to the turns of this conversation.

    A row belongs to the turn whose answer has its `message_id`, else to the one with its question
    and answer. Rows of other threads are skipped. Returns how many turns were rated.

    Raises:
        InputError: A row has another label than `good` or `bad`; rows before it are stored.
        ConflictError: A decision is pending.
    """
    given, found = list(rows), list(exchanges((yield from conversation.load_whole_state())))
    by_id = {answer.id: number for number, _, answer, _ in found}
    by_text = {(question, each.answer): number for number, question, _, each in found}
    count = 0
    for line in given:
        words = (line.get("question"), line.get("answer"))
        turn = by_id.get(line.get("message_id")) or by_text.get(words)  # type: ignore[arg-type]
        if turn is not None:
            label, note = str(line.get("label")), str(line.get("note") or "")
            yield from conversation.carry_out(Rate(turn=turn, label=label, note=note))
            count += 1
    return count


SAMPLE = 5  # how many summaries are judged by default
TOPIC = "topic"  # the rule that summarizes a topic that was left; strategies name the other rules


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One summary that contexts show, with the messages that it replaces, oldest first.

    `why` is the rule that left the messages out, such as `middle` or `topic`. `topic_id` is `None`
    for a compaction across topics. There is at least one message.
    """

    text: str
    why: str
    topic_id: str | None
    messages: tuple[AnyMessage, ...]

    @property
    def key(self) -> str:
        """A digest of the rule, the text and the ids of the messages.

        It identifies the judge's call, so that a repeated call is paid once, and chooses the
        sample.
        """
        ids = "\x00".join([self.why, self.text, *(message.id or "" for message in self.messages)])
        return hashlib.sha256(ids.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSummary:
    """A summary and its verdict, which is unscored if the judge failed or no model judges."""

    summary: Summary
    verdict: Verdict

    def __str__(self) -> str:
        verdict = self.verdict
        return f"{verdict.outcome} {score_text(verdict.score)}: {self.summary.text}\n  {verdict.reason}"


@of_conversation
def judge_summaries(
    conversation: ThreadHandle, sample: int | None = SAMPLE, *, seed: int = 0
) -> Steps[tuple[JudgedSummary, ...]]:
    """Judge the summaries that contexts hold in place of older messages.

    The judge grades each beside the messages that it replaces. Nothing changes in the thread
    except its usage account.

    Args:
        conversation: For scripts or for async code; then the call is awaited.
        sample: How many to judge at most; `None` judges all.
        seed: Chooses the sample; the same seed chooses the same ones of the same summaries.

    Returns:
        The summaries with their verdicts, compactions first; empty if contexts hold none.

    Raises:
        InputError: `sample` is under 1.
    """
    if sample is not None and sample < 1:
        raise InputError(f"sample={sample!r} judges nothing: write 1 or more, or None for all")
    state, scope = (yield from conversation.load_whole_state()), conversation.scope()
    summaries = summaries_of(state, scope.texts(state["messages"]))
    judged: list[JudgedSummary] = []
    # By hash, so that every process draws the same sample without a random generator.
    drawn = sorted(
        range(len(summaries)),
        key=lambda place: hashlib.sha256(f"{seed} {summaries[place].key}".encode()).digest(),
    )
    for summary in (summaries[place] for place in sorted(drawn[:sample])):
        verdict = yield from judge_summary(summary.messages, summary.text, scope, key=summary.key)
        judged.append(JudgedSummary(summary=summary, verdict=verdict))
    return Rows(judged)


def summaries_of(state: State, texts: Texts) -> list[Summary]:
    """Return all summaries that contexts may show, compactions first, without what is forgotten."""
    transcript, segments = state["messages"], state.get("segments", [])
    entries = state.get("forgotten", [])
    out, cleared = (forgotten_ids(transcript, segments, entries), cleared_ids(transcript, entries))
    compaction = compaction_without(
        transcript, segments, state.get("compaction", Compaction()), forgotten=out, cleared=cleared
    )
    visible = without_forgotten(transcript, segments, entries, texts)
    grouped = by_topic(visible, segments)
    summaries = list(_of_compaction(visible, compaction, None))
    for name, topic_compaction in compaction.get("topics", {}).items():
        summaries += _of_compaction(grouped.get(name, []), topic_compaction, name)
    for topic in remaining_topics(state.get("topics", []), entries):
        messages = grouped.get(topic["id"], [])
        ids = [message.id for message in messages]
        if topic["summary"] and topic["summarized_through"] in ids:
            end = ids.index(topic["summarized_through"]) + 1
            own = tuple(messages[:end])
            summaries.append(
                Summary(text=topic["summary"], why=TOPIC, topic_id=topic["id"], messages=own)
            )
    return summaries


def _of_compaction(
    messages: Sequence[AnyMessage], compaction: Compaction, topic_id: str | None
) -> Iterator[Summary]:
    """Yield the summaries of a compaction, each with the messages that it replaces.

    A message that several spans leave out belongs to the first. Spans without a summary or without
    messages are skipped.
    """
    for span, own in hidden_by_span(messages, compaction):
        if span["summary"] and own:
            yield Summary(
                text=span["summary"],
                why=span["why"],
                topic_id=topic_id,
                messages=tuple(messages[index] for index in own),
            )
