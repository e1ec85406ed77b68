"""Verdicts: the request to a judge, and the verdict in its reply."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable

from unsay.context.summaries import SHORTEST, lines_of
from unsay.judging.scores import UNIT, Scale, read_reply
from unsay.judging.vocabulary import vocabulary
from unsay.messages.content import text_of, without_middle
from unsay.models.factory import at_temperature_0, change_inner, is_chat_model
from unsay.prompts.catalogue import Texts
from unsay.prompts.fence import Fence, fenced_in, quoted, quoted_call
from unsay.protocols import Exchange, Judge, Outcome, PreVerdict, ToolUse, Verdict

# Characters that a judge gets: the beginning of one earlier message; the two ends of the question
# and of the answer; all summarized messages together, of which long ones lose their middle.
EARLIER_CHARS = 120
CURRENT_TEXTS = 4  # newest texts of the current topic that a judge sees, to label the question
CALL_CHARS = 1_200  # of the arguments, and of the result, of one tool call
MAXIMUM_CALLS = 20  # tool calls that a judge sees, half from either end
JUDGED_CHARS = 12_000
SUMMARIZED_CHARS = 48_000

# Parts of a request that are left out when they are empty.
_OPTIONAL = ("topics", "earlier", "tools")

# JSON schema of the reply, for judges that support structured output.
_REPLY_SCHEMA = json.loads(Path(__file__).with_name("reply_schema.json").read_text("utf-8"))


def reply_schema(*, labels_topics: bool) -> dict[str, Any]:
    """Return the JSON schema of a judge's reply, with the intent of the question if it labels topics."""
    left_out = () if labels_topics else ("intent", "topic")
    properties = {n: v for n, v in _REPLY_SCHEMA["properties"].items() if n not in left_out}
    return {**_REPLY_SCHEMA, "properties": properties, "required": list(properties)}


def judge_request(
    exchange: Exchange,
    texts: Texts,
    *,
    hint: str = "",
    rubric: Sequence[str] = (),
    flipped: bool = False,
) -> list[AnyMessage]:
    """Return the messages that ask a judge for a verdict on an exchange.

    They include the tool calls of the turn with their results, and the beginnings of the earlier
    exchanges. A long text loses its middle. `hint` is the reason of a local check, a row of the
    texts' `check_reasons`; `rubric` are the operator's own criteria. `flipped` shows the answer
    first: a panel asks in both orders, because judges favour what they read first or last.
    """
    names = {message_id: name for name, message_id in blamable(exchange).items()}
    ids = exchange.earlier_ids or ("",) * len(exchange.earlier)
    earlier = "\n".join(
        f"{quoted(question[:EARLIER_CHARS])}\n→ {_id_shown(names, each)}{quoted(answer[:EARLIER_CHARS])}"
        for each, (question, answer) in zip(ids, exchange.earlier, strict=True)
    )
    question, answer = _judged(exchange.question), _judged(exchange.answer)
    calls = _calls_shown(exchange.calls, names, texts)
    topics = topics_shown(exchange.topics, texts)
    parts = {
        "topics": topics,
        "earlier": earlier,
        "question": question,
        "tools": calls,
        "answer": answer,
    }
    if flipped:
        parts = dict(reversed(parts.items()))
    notes = texts.say("judge_hint", hint=texts.table("check_reasons")[hint]) if hint else ""
    notes += texts.say("judge_found_nothing") if exchange.found_nothing else ""
    criteria = "\n".join(f"- {each}" for each in rubric)
    system = texts.say("judge_system")
    system = f"{system}\n{texts.say('judge_tools')}" if exchange.calls else system
    system = f"{system}\n{texts.say('judge_intent')}" if topics else system
    if criteria:
        system = f"{texts.say('judge_rubric', criteria=criteria)}\n{system}"
    return request_of(system, parts, texts, task="judge_request", noted=notes)


def topics_shown(topics: Sequence[tuple[str, tuple[str, ...]]], texts: Texts) -> str:
    """Return topics with their ids for a judge; empty without topics.

    The first is the current one, of which the newest texts are shown, of each other its first text.
    """
    lines = []
    for place, (name, topic_texts) in enumerate(topics):
        shown_texts = topic_texts[-CURRENT_TEXTS:] if place == 0 else topic_texts[:1]
        head = texts.say("intent_earlier" if place else "intent_current")
        lines.append(f"[id {name}] {head}")
        lines += [f"- {' '.join(text[:EARLIER_CHARS].split())}" for text in shown_texts]
    return "\n".join(lines)


def blamable(exchange: Exchange) -> dict[str, str]:
    """Return the ids of the messages that a judge may blame, by the short name that it is shown.

    The names are `e1`, `e2`, … for earlier answers and `t1`, … for messages with tool calls.
    """
    # A message's own id is up to 40 characters, about 30 tokens.
    earlier = [each for each in exchange.earlier_ids if each]
    calls = dict.fromkeys(call.message_id for call in exchange.calls if call.message_id)
    ids_by_name = {f"e{number}": each for number, each in enumerate(earlier, 1)}
    return {**ids_by_name, **{f"t{number}": each for number, each in enumerate(calls, 1)}}


def _id_shown(names: Mapping[str, str], message_id: str) -> str:
    return f"[id {names[message_id]}] " if message_id else ""


def _calls_shown(calls: Sequence[ToolUse], names: Mapping[str, str], texts: Texts) -> str:
    half = MAXIMUM_CALLS // 2
    lines = [
        f"{_id_shown(names, call.message_id)}"
        + quoted_call(call.name, without_middle(call.arguments, CALL_CHARS))
        + f"\n→ {_result_shown(call, texts)}"
        for call in (calls if len(calls) <= MAXIMUM_CALLS else [*calls[:half], *calls[-half:]])
    ]
    if len(calls) > MAXIMUM_CALLS:
        lines.insert(half, f"[… {len(calls) - MAXIMUM_CALLS} …]")
    return "\n".join(lines)


def _result_shown(call: ToolUse, texts: Texts) -> str:
    if call.irrelevant:
        return texts.say("judge_irrelevant")
    if not call.result:
        return texts.say("judge_no_result")
    return quoted(without_middle(call.result, CALL_CHARS))


def document_request(question: str, document: str, texts: Texts) -> list[AnyMessage]:
    """Return the messages that ask a judge for a verdict on the relevance of a retrieved document.

    A long text loses its middle.
    """
    parts = {"question": _judged(question), "document": _judged(document)}
    return request_of(texts.say("document_system"), parts, texts, task="document_request")


def summary_request(messages: Sequence[AnyMessage], summary: str, texts: Texts) -> list[AnyMessage]:
    """Return the messages that ask a judge for a verdict on a summary of `messages`.

    A long message loses its middle.
    """
    lines = [line for message in messages for line in lines_of(message)]
    chars = max(SHORTEST, SUMMARIZED_CHARS // max(len(lines), 1))
    conversation = "\n".join(without_middle(line, chars) for line in lines)
    parts = {"conversation": conversation, "summary": summary}
    system = texts.say("summary_judge_system")
    return request_of(system, parts, texts, task="summary_judge_request")


def _judged(text: str) -> str:
    return without_middle(text, JUDGED_CHARS, f"\n[… {len(text) - JUDGED_CHARS} …]\n")


def request_of(
    system: str, parts: dict[str, str], texts: Texts, *, task: str = "", noted: str = ""
) -> list[AnyMessage]:
    """Return a request to a model: each of the `parts` is fenced by its key as the tag.

    `task` is the name of the text around them, with the placeholder `{material}` for all of them;
    without it they are the request. `noted` comes before it. An empty part is left out if it is in
    `_OPTIONAL`.
    """
    filled_parts = {tag: text for tag, text in parts.items() if text or tag not in _OPTIONAL}
    fence = Fence.around(*filled_parts.values(), salt=texts.salt)
    material = "\n".join(fence.wrap(tag, text) for tag, text in filled_parts.items())
    request = texts.say(task, material=material) if task else material
    return [SystemMessage(system), HumanMessage(noted + request)]


def on_scale(request: list[AnyMessage], texts: Texts, scale: Scale) -> list[AnyMessage]:
    """Return a request to a judge whose instructions name its scale, unless it is from 0 to 1."""
    if scale == UNIT:
        return request
    system = (
        f"{request[0].text}\n{texts.say('judge_scale', low=f'{scale[0]:g}', high=f'{scale[1]:g}')}"
    )
    return [SystemMessage(system), *request[1:]]


def judged_parts(messages: Sequence[AnyMessage]) -> dict[str, str]:
    """Return what a judge is asked to grade; for a judge that is a function of your own.

    For an answer the keys are `question` and `answer`, with `earlier` exchanges, the turn's `tools`
    and `topics` to choose from, if there are any. For a retrieved document they are `question` and
    `document`, for a summary `conversation` and `summary`. Long texts lack their middle. For other
    messages the result is empty.

    Args:
        messages: What the function was called with.

    Example:
        >>> def judge(messages):
        ...     return 0.9 if len(judged_parts(messages).get("answer", "")) < 500 else 0.3
    """
    return fenced_in("\n".join(text_of(message) for message in messages))


def relevance(question: str, document: str) -> PreVerdict:
    """Return a score for a document from the words that it shares with the question.

    The score is 0.2 if they share no word. Otherwise it is from 0.5 to 1, by the share of the
    question's words in the document. It is 0.5 if the question has only common words. The verdict
    is never `decided`, because a document may use other words.
    """
    question_words = vocabulary(question)
    shared = question_words & vocabulary(document)
    if not question_words:
        score, reason = 0.5, "no_telling_words"
    elif not shared:
        score, reason = 0.2, "irrelevant_document"
    else:
        score = 0.5 + len(shared) / len(question_words) / 2
        reason = "relevant_document"
    return PreVerdict(score=score, decided=False, reason=reason)


def verdict_of(
    reply: object,
    *,
    quality_threshold: float,
    consistency_threshold: float | None = None,
    scale: Scale = UNIT,
) -> Verdict:
    """Return the verdict in a judge's reply; unscored if it has no score that is certain.

    It is failed if the score or the consistency is below its threshold, else passed. Without a
    `consistency_threshold`, as for documents and summaries, the consistency is ignored; also if the
    reply has none. `scale` has the worst and the best number of the judge.
    """
    parsed_reply = read_reply(reply, scale)
    problem = parsed_reply.problem or (
        parsed_reply.consistency_problem if consistency_threshold is not None else ""
    )
    if parsed_reply.score is None or problem:
        problem = f"the judge's reply has no usable score: {problem}"
        words = _words_of_model(reply)
        if parsed_reply.reason or words is not None:
            return unscored(f"{problem}: {parsed_reply.reason or words!r:.200}")
        return unscored(
            f"{problem}: {reply!r:.200}; a judge returns a score from {scale[0]:g} to {scale[1]:g}, "
            "or a mapping with 'score' and 'reason'"
        )
    consistency = None if consistency_threshold is None else parsed_reply.consistency
    fails = consistency is not None and consistency < (consistency_threshold or 0.0)
    verdict = scored(parsed_reply.score, parsed_reply.reason, quality_threshold=quality_threshold)
    return replace(
        verdict,
        outcome="failed" if fails else verdict.outcome,
        consistency=consistency,
        blamed=parsed_reply.blamed,
        advice=parsed_reply.advice,
        query=parsed_reply.query,
        intent=parsed_reply.intent,
        returns_to=parsed_reply.topic,
    )


def _words_of_model(reply: object) -> str | None:
    """Return what a judging model wrote, as text or as arguments of a call; `None` for a function."""
    # LangChain's structured output has the message under `raw`.
    message = reply.get("raw") if isinstance(reply, Mapping) else reply
    if isinstance(message, str):
        return message
    if not isinstance(message, AIMessage):
        return None
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    return message.text or "; ".join(str(each["args"]) for each in calls)


def verdict_of_checks(found: PreVerdict, texts: Texts, *, quality_threshold: float) -> Verdict:
    """Return the verdict of the local checks on an answer about which no model is asked.

    It is unscored if the score is below the threshold, but no certain rule decided that.
    """
    if not found.decided and found.score < quality_threshold:
        reason = texts.table("check_reasons")[found.hint or found.reason]
        return unscored(texts.say("undecided", reason=reason))
    return verdict_of_rules(found, texts, quality_threshold=quality_threshold)


def verdict_of_rules(found: PreVerdict, texts: Texts, *, quality_threshold: float) -> Verdict:
    """Return the verdict for the score of `found`, with its reason in the language of `texts`."""
    reason = texts.table("check_reasons")[found.reason]
    return scored(found.score, reason, quality_threshold=quality_threshold, source="prejudge")


def scored(
    score: float, reason: str, *, quality_threshold: float, source: Judge = "model"
) -> Verdict:
    """Return a verdict that is passed if the score is `quality_threshold` or more, else failed."""
    outcome: Outcome = "failed" if score < quality_threshold else "passed"
    return Verdict(outcome=outcome, score=score, reason=reason, source=source)


def unscored(reason: str) -> Verdict:
    """Return a verdict without a score, which changes nothing; `reason` is what went wrong."""
    return Verdict(outcome="unscored", score=None, reason=reason, source="model")


def majority(verdicts: Sequence[Verdict], texts: Texts) -> Verdict:
    """Return the verdict of several judgements: the median score, and the share that agrees.

    It is unscored if most are unscored, or if no outcome has more than half of them. There must be
    one or more. The reason of a verdict without a score is from `texts`.
    """
    scores = {id(each): each.score for each in verdicts if each.score is not None}
    outcomes: list[Outcome] = [each.outcome for each in verdicts]
    most = max(outcomes, key=outcomes.count)
    agreement = outcomes.count(most) / len(verdicts)
    if most == "unscored" and agreement == 1:  # they agree, and the first has a reason
        return replace(verdicts[0], agreement=agreement)
    if most == "unscored" or agreement <= 0.5:
        outcome_counts = ", ".join(f"{outcomes.count(o)} {o}" for o in dict.fromkeys(outcomes))
        reason = texts.say("unjudged.split", counts=outcome_counts)
        return replace(unscored(reason), agreement=agreement)
    middle = median(scores.values())
    agreeing = [each for each in verdicts if each.outcome == most]
    nearest = min(agreeing, key=lambda each: abs((each.score or 0.0) - middle))
    blamed = [name for each in agreeing for name in each.blamed]
    blamed_names = tuple(n for n in dict.fromkeys(blamed) if blamed.count(n) * 2 > len(agreeing))
    intents = [(each.intent, each.returns_to) for each in verdicts if each.intent]
    intent = next((each for each in intents if intents.count(each) * 2 > len(verdicts)), ("", ""))
    return replace(
        nearest,
        score=middle,
        blamed=blamed_names,
        agreement=agreement,
        intent=intent[0],
        returns_to=intent[1],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeForm:
    """One way to ask the judge; `judge_forms` lists them, the best first."""

    model: Runnable[Any, Any]
    structured: bool = False  # whether the reply is asked for by its JSON schema
    steady: bool = False  # whether the temperature is set to 0 for the call

    @property
    def name(self) -> str:
        """Suffix of the key under which a budget reserves a call of the judge in this form.

        It has `-plain` without structured output, and `-steady` at temperature 0; else it is empty.
        """
        words = [("plain", not self.structured), ("steady", self.steady)]
        return "".join(f"-{word}" for word, applies in words if applies)


def judge_forms(
    judge: Runnable[Any, Any], *, is_given: bool, labels_topics: bool = False
) -> tuple[JudgeForm, ...]:
    """Return the ways to ask a judge, best first; the last one is the judge as it is.

    `is_given` says that a host passed this model object, whose temperature it may have chosen.
    With `labels_topics` the structured reply has the question's intent as well.
    """
    steady = at_temperature_0(judge, is_given=is_given)
    both = [(steady, True), (judge, False)] if steady is not None else [(judge, False)]
    plain = [JudgeForm(model=model, steady=is_steady) for model, is_steady in both]
    schema = reply_schema(labels_topics=labels_topics)
    return (*(each for form in plain for each in _structured(form, schema)), *plain)


def _structured(form: JudgeForm, schema: dict[str, Any]) -> list[JudgeForm]:
    """Return a list with the form with structured output; empty if the model cannot give it."""
    if not is_chat_model(form.model):
        return []
    try:
        model = change_inner(
            form.model, lambda chat: chat.with_structured_output(schema, include_raw=True)
        )
    except NotImplementedError:
        return []
    return [replace(form, model=model, structured=True)]
