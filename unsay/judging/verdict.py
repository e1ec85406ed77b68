"""Verdicts: what a judge is asked, and what is believed of its reply."""

from collections.abc import Sequence

from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage

from unsay.context.summaries import SHORTEST, lines_of
from unsay.judging.score_parser import read_reply
from unsay.judging.vocabulary import vocabulary
from unsay.prompts.catalog import Fence
from unsay.prompts.fields import Texts
from unsay.types import Exchange, PreVerdict, Verdict

EARLIER_CHARS = 600
"""How much of one earlier message a judge is shown, from its beginning."""

JUDGED_CHARS = 12_000
"""How much of the question and of the answer a judge is shown, half from either end."""

REPLY_SCHEMA = {
    "title": "verdict",
    "description": "The grade of one answer.",
    "type": "object",
    "properties": {
        "score": {"type": "number", "description": "From 0.0 to 1.0."},
        "reason": {"type": "string", "description": "One sentence."},
    },
    "required": ["score", "reason"],
    "additionalProperties": False,
}
"""The reply as JSON schema, for judges that can answer in a structure."""


def judge_request(exchange: Exchange, texts: Texts) -> list[AnyMessage]:
    """The messages that ask a judge for a verdict on one exchange.

    What is judged stands between fences; the judge sees the new exchange and a
    short view of the earlier ones, never the whole record.
    """
    earlier = "\n".join(
        f"{question[:EARLIER_CHARS]}\n→ {answer[:EARLIER_CHARS]}"
        for question, answer in exchange.earlier
    )
    question = _middle_out(exchange.question)
    answer = _middle_out(exchange.answer)
    fence = Fence.around(earlier, question, answer)
    parts = [
        *([fence.mark("earlier", earlier)] if earlier else []),
        fence.mark("question", question),
        fence.mark("answer", answer),
    ]
    request = texts.judge_request.format(material="\n".join(parts))
    return [SystemMessage(texts.judge_system), HumanMessage(request)]


def document_request(question: str, document: str, texts: Texts) -> list[AnyMessage]:
    """The messages that ask a judge whether a retrieved document bears on a question."""
    shown = (_middle_out(question), _middle_out(document))
    fence = Fence.around(*shown)
    parts = [fence.mark("question", shown[0]), fence.mark("document", shown[1])]
    request = texts.document_request.format(material="\n".join(parts))
    return [SystemMessage(texts.document_system), HumanMessage(request)]


def relevance(question: str, document: str) -> PreVerdict:
    """Whether a document bears on a question, from the words that they share.

    Never decided: a document may answer in other words.
    """
    asked = vocabulary(question)
    if not asked:
        return PreVerdict(score=0.5, decided=False, reason="The question has no telling words.")
    share = len(asked & vocabulary(document)) / len(asked)
    if not share:
        reason = "The document shares no word with the question."
        return PreVerdict(score=0.2, decided=False, reason=reason)
    reason = "The document shares words with the question."
    return PreVerdict(score=0.5 + share / 2, decided=False, reason=reason)


def _middle_out(text: str) -> str:
    if len(text) <= JUDGED_CHARS:
        return text
    half = JUDGED_CHARS // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} …]\n{text[-half:]}"


def verdict_of(reply: object, *, quality_threshold: float) -> Verdict:
    """The verdict in a judge's reply, unscored when there is no usable score.

    Args:
        reply: A message, a number, a mapping, an object with a score, or text.
        quality_threshold: A score under it fails.
    """
    read = read_reply(reply)
    if read.score is None:
        return unscored(f"the judge's reply has no usable score: {read.reason!r}")
    return scored(read.score, read.reason, quality_threshold=quality_threshold)


def scored(score: float, reason: str, *, quality_threshold: float) -> Verdict:
    """A model judge's verdict from a score between 0 and 1."""
    return Verdict(
        outcome="failed" if score < quality_threshold else "passed",
        score=score,
        reason=reason,
        source="model",
    )


def unscored(reason: str) -> Verdict:
    """No verdict, which changes nothing, and why."""
    return Verdict(outcome="unscored", score=None, reason=reason, source="model")


def verdict_of_rules(found: PreVerdict, texts: Texts, *, quality_threshold: float) -> Verdict:
    """The pre-judge's finding as a verdict, its reason in the conversation's language."""
    return Verdict(
        outcome="failed" if found.score < quality_threshold else "passed",
        score=found.score,
        reason=texts.rules.get(found.reason, found.reason),
        source="prejudge",
    )


MATERIAL_CHARS = 48_000
"""How much of what was said a judge is shown; of longer messages the middles are left out."""


def summary_request(messages: Sequence[AnyMessage], summary: str, texts: Texts) -> list[AnyMessage]:
    """The messages that ask a judge for a verdict on one summary.

    All of both is fenced; `verdicts.verdict_of` reads the reply.

    Args:
        messages: For which the summary stands, oldest first; not changed.
        summary: As views show it.
        texts: Of the conversation's language.
    """
    lines = [line for each in messages for line in lines_of(each)]
    chars = max(SHORTEST, MATERIAL_CHARS // max(len(lines), 1))
    said = "\n".join(_summary_middle_out(line, chars) for line in lines)
    fence = Fence.around(said, summary)
    parts = [fence.mark("conversation", said), fence.mark("summary", summary)]
    request = texts.summary_judge_request.format(material="\n".join(parts))
    return [SystemMessage(texts.summary_judge_system), HumanMessage(request)]


def _summary_middle_out(line: str, chars: int) -> str:
    if len(line) <= chars:
        return line
    half = chars // 2
    return f"{line[:half]} … {line[-half:]}"
