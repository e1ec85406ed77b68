"""The quality of a thread's summaries: a sample of them, judged on request."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from langchain_core.messages import AnyMessage

from unsay.context.compaction import Compaction, hidden_by_span
from unsay.context.exclusions import (
    cleared_ids,
    compaction_without,
    forgotten_ids,
    remaining_topics,
    without_forgotten,
)
from unsay.context.topics import by_topic
from unsay.conversation.results import Rows
from unsay.conversation.thread import ThreadHandle
from unsay.effects import Steps
from unsay.errors import InputError
from unsay.evaluation.judging import of_conversation
from unsay.generation.judge import judge_summary
from unsay.operations.commands import score_text
from unsay.prompts.catalogue import Texts
from unsay.state import State
from unsay.verdicts import Verdict

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
    state, scope = (yield from conversation.whole()), conversation.scope()
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
