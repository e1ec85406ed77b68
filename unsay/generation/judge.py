"""Judge: local rules first, then the model judge for what they cannot decide, such as the topic."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from unsay.context.manifest import tokens_in
from unsay.context.strategy import is_context_overflow
from unsay.effects import Steps, off_loop
from unsay.errors import BudgetExceededError, ModelReplyError
from unsay.judging.heuristics import ALL_CHECKS, changed_facts, is_plainly_good, prejudge
from unsay.judging.scores import read_reply
from unsay.judging.verdict import (
    JudgeForm,
    blamable,
    judge_request,
    majority,
    on_scale,
    request_of,
    summary_request,
    topics_shown,
    unscored,
    verdict_of,
    verdict_of_checks,
)
from unsay.llm.call import REFUSALS, REPLY_TOKENS, ModelRequest, ask_model, prompt_tokens
from unsay.memory.topics import KnownTopics, correct_topic, known_topics
from unsay.messages.annotations import answered_turns, found_nothing, is_irrelevant
from unsay.messages.content import broke_off, has_other_content, language_of, text_of
from unsay.models.factory import name_of
from unsay.orders.parse import as_sent
from unsay.prompts.catalogue import Texts
from unsay.protocols import Exchange, ShiftKind, ToolUse, TopicShift, Verdict
from unsay.runtime import Scope
from unsay.state import State, Update
from unsay.tokens.pricing import Tally
from unsay.transcript.live import live_branch
from unsay.types import Language

_NO_STRUCTURE = "the server of the judge {!r} refuses structured output"
_NO_TEMPERATURE = "the server of the judge {!r} refuses a temperature of 0"

EARLIER_PAIRS = 3
# Messages searched for the earlier exchanges at first; four times as many in each further round.
READ_AT_ONCE = 32
# A judge finds an answer below it inconsistent with what was said, and the answer fails. Source: own.
CONSISTENCY = 0.4


def exchange_of(
    question: AnyMessage | None,
    answer: AnyMessage,
    before: Sequence[AnyMessage],
    steps: Sequence[AnyMessage] = (),
) -> Exchange:
    """Return what a judge is sent: an answer, its question, and up to three exchanges before them.

    Without a `question` its text is empty. `before` are the messages before the question, and
    `steps` those between question and answer, whose tool calls are shown with their results.
    """
    earlier = _newest_turns(before)
    return Exchange(
        question="" if question is None else text_of(as_sent(question)),
        answer=text_of(answer),
        earlier=tuple((earlier_question, text_of(reply)) for earlier_question, reply in earlier),
        earlier_ids=tuple(reply.id or "" for _, reply in earlier),
        truncated=broke_off(answer),
        calls=_calls_of(steps),
        found_nothing=found_nothing(steps),
    )


def _calls_of(steps: Sequence[AnyMessage]) -> tuple[ToolUse, ...]:
    """Return the tool calls in the messages of a turn, each with its result, `None` without one."""
    results = {m.tool_call_id: m for m in steps if isinstance(m, ToolMessage)}
    return tuple(
        ToolUse(
            name=call["name"],
            arguments=json.dumps(call["args"], ensure_ascii=False, default=repr),
            result=text_of(results[call["id"]]) if call["id"] in results else None,
            message_id=message.id or "",
            irrelevant=call["id"] in results and is_irrelevant(results[call["id"]]),
        )
        for message in steps
        if isinstance(message, AIMessage)
        for call in message.tool_calls
    )


def _newest_turns(before: Sequence[AnyMessage]) -> list[tuple[str, AnyMessage]]:
    """Return the newest `EARLIER_PAIRS` exchanges, each as a question's text and its answer.

    The newest is last. Only as many messages as they need are read.
    """
    # The first turn of a part may lack its question, so one more than needed is read.
    message_count = READ_AT_ONCE
    turns = answered_turns(before[-message_count:])
    while len(turns) <= EARLIER_PAIRS and message_count < len(before):
        message_count *= 4
        turns = answered_turns(before[-message_count:])
    return turns[-EARLIER_PAIRS:]


def judge_exchange(
    exchange: Exchange,
    answer: AnyMessage,
    scope: Scope,
    *,
    key: str | None = None,
    spent: Mapping[str, Tally] | None = None,
    hint: str = "",
) -> Steps[Verdict]:
    """Return a verdict on one exchange; it does not raise if the judge fails.

    Obvious failures, such as an empty answer, are found without the judge. With `judging="local"`
    the judge is not asked at all. The verdict is unscored, with the reason, if the judge fails or
    its call is over a budget, if the answer has no text but other content, if the local checks alone are unsure, and with
    `judging="off"`, where only an empty answer fails.

    Args:
        exchange: What the judge is sent.
        answer: The message of the answer.
        scope: Of the turn, or of a verb that judges again.
        key: Identifies the call, so that it is paid once after a crash; `None` is the answer's id.
        spent: The tokens of the thread's calls by purpose. If judging a plainly good answer would
            exceed the setting `judge_share`, it is unscored and `skipped`. `None` skips no answer.
        hint: A doubt for the judge, instead of what the local checks noticed.
    """
    settings = scope.settings
    text = exchange.question or exchange.answer
    texts = texts_for(text, scope)
    if not exchange.answer.strip() and has_other_content(answer):
        return unscored(texts.say("unjudged.no_text"))
    if not exchange.answer.strip():
        reason = texts_for(exchange.question, scope).say("unjudged.nothing")
        return Verdict(outcome="failed", score=0.0, reason=reason, source="prejudge")
    if settings.judging == "off":
        return unscored(texts.say("unjudged.off"))
    # An answer may, and should, say that nothing was found.
    openly = {"refusal", "off_topic"} if exchange.found_nothing else set()
    rules = prejudge(exchange, ALL_CHECKS - openly)
    text_language = language_of(text)
    if rules.decided or settings.judging == "local":
        return verdict_of_checks(rules, texts, quality_threshold=settings.quality_in(text_language))
    hint = hint or changed_facts(exchange) or rules.hint
    request = partial(judge_request, exchange, hint=hint, rubric=settings.judge_rubric)
    if (
        is_plainly_good(exchange, rules)
        and not hint
        and _exceeds_share(request(texts), spent, scope)
    ):
        return replace(unscored(texts.say("judge_skipped")), skipped=True)
    scope.emit("judging", message_id=answer.id)
    verdict = yield from _ask_panel(request, text, scope, key=key or answer.id or "")
    consistency = 1.0 if verdict.consistency is None else verdict.consistency
    if verdict.outcome == "failed" and consistency < CONSISTENCY:
        prefix = texts.say("inconsistent", consistency=f"{consistency:.2f}")
        verdict = replace(verdict, reason=f"{prefix}{verdict.reason}")
    # A judge may blame only messages that it was shown, by their short or their own name.
    ids_by_name, blamed = blamable(exchange), set(verdict.blamed)
    return replace(
        verdict,
        blamed=tuple(
            ids_by_name[each] for each in ids_by_name if {each, ids_by_name[each]} & blamed
        ),
    )


def _exceeds_share(
    request: list[AnyMessage], spent: Mapping[str, Tally] | None, scope: Scope
) -> bool:
    """Return whether a request would raise the judge's tokens over `judge_share` of the answers'.

    `False` without `spent`, or if the share is 1.
    """
    settings, share = scope.settings, scope.settings.judge_share
    if spent is None or share == 1:
        return False
    judges = 1 + len(settings.judge_panel)
    cost = judges * (prompt_tokens(request) + REPLY_TOKENS["judge"])
    judge_tokens, answer_tokens = tokens_in(spent, "judge").total, tokens_in(spent, "answer").total
    return judge_tokens + cost > share * answer_tokens


def judge_summary(
    messages: Sequence[AnyMessage], summary: str, scope: Scope, *, key: str
) -> Steps[Verdict]:
    """Return a verdict on whether a summary agrees with its messages.

    It is `unscored` unless `judging` is `model`, and if the judge fails or its call is over a budget.
    `key` identifies the call, so that it is paid once after a crash.
    """
    if scope.settings.judging != "model":
        return unscored(f"judging is {scope.settings.judging!r}, and rules cannot read summaries")
    sample = next((text for each in messages if (text := text_of(each)).strip()), summary)
    request = partial(summary_request, messages, summary)
    threshold = scope.settings.quality_threshold
    return (yield from ask_judge(request, sample, scope, key=key, threshold=threshold))


def texts_for(sample: str, scope: Scope) -> Texts:
    """Return a judge's texts in the language of the settings; with `auto` in that of the sample.

    The sample is Japanese or else English: see `language_of`.
    """
    language_setting = scope.settings.language
    language = language_of(sample) if language_setting == "auto" else language_setting
    return scope.services.prompts[language].salted(scope.salt)


def ask_judge(
    make_request: Callable[[Texts], list[AnyMessage]],
    sample: str,
    scope: Scope,
    *,
    key: str,
    threshold: float | None = None,
    forms: Sequence[JudgeForm] | None = None,
) -> Steps[Verdict]:
    """Ask the model judge; `unscored` with the reason if it fails, is too slow, or there is none.

    After a reply without a certain score it is asked once more. A call over a budget is `unscored`
    as well.

    Args:
        make_request: Makes the request with texts in the language of `sample`.
        sample: Text of the exchange.
        scope: The services and settings to use.
        key: Identifies the call, so that a repetition is paid once.
        threshold: A lower score fails, and the judge's score for consistency is ignored; `None`
            uses the threshold of the settings, and `CONSISTENCY`.
        forms: The ways to ask a judge of a panel; `None` is the graph's judge.
    """
    texts = texts_for(sample, scope)
    try:
        if forms is None:
            forms = yield from off_loop(lambda: scope.services.judge_forms)
        if not forms:
            return unscored(texts.say("unjudged.no_judge"))
        request = on_scale(make_request(texts), texts, scope.settings.judge_scale)
        language = language_of(sample)
        verdict = yield from _verdict(forms, request, scope, key, threshold, language)
        if verdict.outcome == "unscored":
            warm, retry_key = _unsteady(forms), f"{key}-again"
            verdict = yield from _verdict(warm, request, scope, retry_key, threshold, language)
    except BudgetExceededError as error:
        reason = texts.message(error, "chat")
        return unscored(texts.say("unjudged.not_asked", reason=reason)[:500])
    except TimeoutError as error:
        scope.report_failure("judge_failed", error)
        seconds = f"{scope.settings.judge_timeout_seconds:g}"
        return unscored(texts.say("unjudged.silent", seconds=seconds))
    except Exception as error:  # noqa: BLE001 - a judge is anyone's code and may fail in any way
        scope.report_failure("judge_failed", error)
        return unscored(_failure(error, texts))
    return verdict


def _failure(error: Exception, texts: Texts) -> str:
    """Return why a judge that failed gives no score."""
    return texts.say("unjudged.failed", error=f"{type(error).__name__}: {error}")[:500]


def _unsteady(forms: Sequence[JudgeForm]) -> list[JudgeForm]:
    """Return the forms to ask a judge again: at temperature 0 the same request has the same reply."""
    return [form for form in forms if not form.steady]


def _ask_panel(
    make_request: Callable[..., list[AnyMessage]], sample: str, scope: Scope, *, key: str
) -> Steps[Verdict]:
    """Ask every judge of the panel, and return what most of them decide.

    Without a panel, the graph's judge is asked. It is unscored if not more than half agree, and
    without a judge. `make_request` and `sample` are as for `ask_judge`.
    """
    if not scope.settings.judge_panel:
        return (yield from ask_judge(make_request, sample, scope, key=key))
    try:
        panel = yield from off_loop(lambda: scope.services.judge_panel)
    except Exception as error:  # noqa: BLE001 - a judge that cannot be made changes nothing
        scope.report_failure("judge_failed", error)
        return unscored(_failure(error, texts_for(sample, scope)))
    if not panel:  # `ask_judge` says that there is no judge
        return (yield from ask_judge(make_request, sample, scope, key=key))
    verdicts, names = [], [name_of(forms[-1].model) for forms in panel]
    for place, forms in enumerate(panel):
        # Every second reading has the other order.
        request = partial(make_request, flipped=place % 2 == 1)
        ways = _unsteady(forms) if names[place] in names[:place] else forms
        own_key = f"{key}-judge{place}"
        verdicts.append((yield from ask_judge(request, sample, scope, key=own_key, forms=ways)))
    return majority(verdicts, texts_for(sample, scope))


def _verdict(
    forms: Sequence[JudgeForm],
    request: list[AnyMessage],
    scope: Scope,
    key: str,
    threshold: float | None,
    language: Language,
) -> Steps[Verdict]:
    """Return the verdict in one reply of the judge. Raises as `_reply`."""
    settings = scope.settings
    reply = yield from _reply(forms, request, scope, key)
    return verdict_of(
        reply,
        quality_threshold=settings.quality_in(language) if threshold is None else threshold,
        consistency_threshold=CONSISTENCY if threshold is None else None,
        scale=settings.judge_scale,
    )


def _reply(
    forms: Sequence[JudgeForm], request: list[AnyMessage], scope: Scope, key: str
) -> Steps[Any]:
    """Return the judge's reply to a request, in the first form that the judge's server accepts.

    A form that this judge's server refuses is not tried again, also in later calls, except the last
    form. This is learned only from a request that succeeds in another form: else its refusal can
    have another reason. All errors of the last form are raised, of the others those that are not
    such a refusal. `key` identifies the call, so that it is paid once after a crash.
    """
    limit, learned_refusals = scope.settings.judge_timeout_seconds, scope.services.learned
    *others, last = forms
    plain = ModelRequest(
        scope=scope,
        model=last.model,
        value=request,
        purpose="judge",
        key=f"{key}{last.name}",
        timeout_seconds=limit,
    )
    server, refused = name_of(last.model), set[str]()
    for form in others:
        form_refusals = {_NO_STRUCTURE} if form.structured else set()
        form_refusals |= {_NO_TEMPERATURE} if form.steady else set()
        if (learned_refusals | refused) & {refusal.format(server) for refusal in form_refusals}:
            continue
        try:
            reply = yield from ask_model(replace(plain, model=form.model, key=f"{key}{form.name}"))
        except Exception as error:
            refusal = _refused(form, error)
            if refusal is None:
                raise
            refused.add(refusal.format(server))
        else:
            learned_refusals.update(refused)  # no later call pays for this again
            return reply
    reply = yield from ask_model(plain)
    learned_refusals.update(refused)
    return reply


def ask_plainly(request: list[AnyMessage], scope: Scope, *, key: str) -> Steps[Any]:
    """Return the judge's reply to a request that asks for no score, without structured output.

    `key` identifies the call, so that it is paid once after a crash. Raises `ModelReplyError` if
    there is no judge, and any error of the call, such as `BudgetExceededError`.
    """
    forms = yield from off_loop(lambda: scope.services.judge_forms)
    plain = [form for form in forms if not form.structured]
    if not plain:
        raise ModelReplyError("No judge is configured, and the agent that answers is no chat model")
    return (yield from _reply(plain, request, scope, key))


def _refused(form: JudgeForm, error: Exception) -> str | None:
    """Return what the judge's server refuses in a form, `_NO_STRUCTURE` or `_NO_TEMPERATURE`.

    `None` if the call failed for another reason.
    """
    if isinstance(error, NotImplementedError):
        return _NO_STRUCTURE if form.structured else None
    if getattr(error, "status_code", None) not in REFUSALS or is_context_overflow(error):
        return None
    if form.steady and "temperature" in str(error).lower():
        return _NO_TEMPERATURE
    return _NO_STRUCTURE if form.structured else None


# What each intent means for the topic. Source: Def-DTS; the return is our own.
SHIFTS: dict[str, ShiftKind] = {
    "JUST_COMMENT": "same",
    "JUST_ANSWER": "same",
    "DEVELOP_TOPIC": "same",
    "INTRODUCE_TOPIC": "new",
    "CHANGE_TOPIC": "new",
    "RETURN_TO_TOPIC": "back",
}


def shift_of(
    intent: str, topic_id: str, others: Collection[str], *, similarity: float
) -> TopicShift:
    """Return the change of topic that an intent means.

    Args:
        intent: As a model wrote it.
        topic_id: The earlier topic that the model named, for a return.
        others: Ids of the earlier topics.
        similarity: For the result.

    Raises:
        ModelReplyError: The intent is unknown, or a return names no earlier topic.
    """
    kind = SHIFTS.get(intent.strip().upper())
    if kind is None:
        raise ModelReplyError(f"The model's intent is {intent!r}, not one of {', '.join(SHIFTS)}")
    if kind == "back" and topic_id not in others:
        raise ModelReplyError(f"The model returns to topic {topic_id!r}, which does not exist")
    return TopicShift(
        kind=kind, similarity=similarity, topic_id=topic_id if kind == "back" else None
    )


Topics = tuple[tuple[str, tuple[str, ...]], ...]


def ask_intent(
    question: str, known: KnownTopics, scope: Scope, *, detected: TopicShift, key: str
) -> Steps[TopicShift]:
    """Ask the judge's model for the intent of a question, and return the change that it means.

    `known` are the current topic and the earlier ones. If the model fails, its reply cannot be
    used or a budget is used up, nothing is raised: the result is what the detector has `detected`,
    and the reason is reported. `key` identifies the call, so that it is paid once after a crash.
    """
    try:
        texts = texts_for(question, scope)
        parts = {"topics": topics_shown(_as_material(known), texts), "question": question}
        request = request_of(texts.say("intent_system"), parts, texts, task="intent_request")
        parsed_reply = read_reply(
            (yield from ask_plainly(request, scope, key=key)), needed="intent"
        )
        others = [topic.topic_id for topic in known.others]
        return shift_of(
            parsed_reply.intent, parsed_reply.topic, others, similarity=detected.similarity
        )
    except Exception as error:  # noqa: BLE001 - a judge is anyone's code and may fail in any way
        scope.report_failure("topic_failed", error)
        return detected


def topics_to_label(state: State) -> Topics:
    """Return the topics that the judge needs to label the turn's question.

    Empty if the topic is not left to the judge of the answer.
    """
    topics = _known(state)
    return () if topics is None else _as_material(topics)


def label_topic(state: State, scope: Scope, verdict: Verdict) -> Steps[Update]:
    """Return the update that gives the question the topic that the judge named in its verdict.

    The update is empty if the judge was not asked, or agrees with the detector; also if the judge
    failed or its intent cannot be used, and then the reason is reported.
    """
    topics = _known(state)
    if topics is None or verdict.skipped or verdict.source != "model":
        return Update()
    similarity = state.get("topic_similarity") or 0.0
    try:
        if verdict.outcome == "unscored":
            raise ModelReplyError(verdict.reason)
        others = [topic.topic_id for topic in topics.others]
        shift = shift_of(verdict.intent, verdict.returns_to, others, similarity=similarity)
    except ModelReplyError as error:
        scope.report_failure("topic_failed", error)
        return Update()
    return (yield from correct_topic(state, scope, shift, _question(state)))


def _known(state: State) -> KnownTopics | None:
    turn = state["turn"]
    if not turn.get("judge_labels"):
        return None
    live, pending = live_branch(state), turn["pending"]
    # Without the segment that the detector began before the answer.
    before = tuple(each for each in live.segments if each["start"] not in pending)
    return known_topics(replace(live, segments=before), pending, _question(state), state)


def _question(state: State) -> str:
    return text_of(next(m for m in state["messages"] if m.id == state["turn"]["question_id"]))


def _as_material(known: KnownTopics) -> Topics:
    return tuple((topic.topic_id, topic.texts) for topic in (known.current, *known.others))
