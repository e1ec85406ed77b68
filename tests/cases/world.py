"""A conversation on disk with scripted ends, and what was seen of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage

from unsay.context.strategy import Strategy
from unsay.conversation.conversation import Conversation
from unsay.messages.annotations import annotation_of, is_answer
from unsay.messages.content import text_of
from unsay.protocols import TopicMemory, TopicShift

OVERFLOW = "prompt is too long: 205000 tokens > 200000 maximum"
REJECTED = "The capital of Australia is a kangaroo, and the moon is its mayor."
"""The words of an exchange that a case calls bad."""

SETTINGS = ("quality_threshold", "checkpoint_threshold", "max_rollbacks")
KNOWN = {
    *SETTINGS,
    "judge",
    "checkpoint_exists",
    "judge_when",
    "model",
    "proactive",
    "reducer",
    "store",
    "summarizer",
    "title_model",
    "to",
    "topic_similarity",
    "topic_threshold",
}


class NotBoundError(Exception):
    """A case asks for something that no binding covers."""


@dataclass(frozen=True, kw_only=True)
class SimilarityDetector:
    """A topic detector with a scripted similarity for each turn."""

    similarities: list[float | None]
    threshold: float

    def detect(
        self, question: str, current: TopicMemory, other_topics: Sequence[TopicMemory]
    ) -> TopicShift:
        """New when the turn's similarity lies under the threshold."""
        del question, other_topics
        turn_count = sum(1 for _ in current.texts) // 2
        similarity = self.similarities[min(turn_count, len(self.similarities) - 1)]
        value = 1.0 if similarity is None else similarity
        return TopicShift(kind="new" if value < self.threshold else "same", similarity=value)


@dataclass(kw_only=True)
class World:
    """One case's conversation and everything that its models were sent."""

    folder: Path
    params: dict[str, Any]
    given: dict[str, Any]
    thread: str = "case"
    scores: list[float] = field(default_factory=list)
    model_inputs: list[list[BaseMessage]] = field(default_factory=list)
    judge_inputs: list[str] = field(default_factory=list)
    summarizer_inputs: list[str] = field(default_factory=list)
    strategy: Strategy | None = None
    is_store_broken: bool = False
    """Whether writes fail; see `stores.turn_that_cannot_be_saved`."""

    drafts: list[str] = field(default_factory=list)
    records: dict[str, list[tuple[str | None, str]]] = field(default_factory=dict)
    expected_record: list[tuple[str | None, str]] | None = None
    failures: int = 0

    def __post_init__(self) -> None:
        if unknown := set(self.params) - KNOWN:
            raise NotBoundError(f"params {sorted(unknown)}")
        judge = self.params.get("judge")
        self.scores = list(judge) if isinstance(judge, list) else []

    def open(self) -> Conversation:
        """The conversation, as a new process would open it."""
        similar = self.params.get("topic_similarity")
        return Conversation.open(
            self.folder / "case.db",
            thread=self.thread,
            model=self.answer,
            judge=self.judge,
            summarizer=self.summarizer(),
            title=_raise if self.params.get("title_model") == "raises" else None,
            detector=None
            if similar is None
            else SimilarityDetector(
                similarities=similar, threshold=self.params.get("topic_threshold", 0.5)
            ),
            strategy=self.strategy,
            settings={k: self.params[k] for k in SETTINGS if k in self.params},
        )

    def answer(self, messages: list[BaseMessage]) -> AIMessage:
        """The answering model: records its input, and fails where the case says so."""
        self.model_inputs.append(list(messages))
        script = self.params.get("model")
        call = len(self.model_inputs) - 1
        end = script[min(call, len(script) - 1)] if isinstance(script, list) else script
        if end == "raises":
            raise ConnectionError("the provider is down")
        if isinstance(end, str) and end.startswith("overflow"):
            raise ValueError(OVERFLOW)
        draft = self.given.get("answer") or f"This is draft {call + 1}, about what was asked."
        self.drafts.append(draft)
        return AIMessage(draft)

    def judge(self, messages: list[BaseMessage]) -> float:
        """The judge: notes its input; gives the case's scores in order, then 0.9."""
        self.judge_inputs.append("\n".join(text_of(message) for message in messages))
        if self.params.get("judge") == "raises":
            raise ConnectionError("the judge is down")
        return self.scores.pop(0) if self.scores else 0.9

    def summarizer(self) -> Callable[[Any], str] | None:
        """Return the summarizer that the case names."""
        name = self.params.get("summarizer")
        if name is None:
            return None
        if name not in ("raises", "records") and not name.startswith("echo:"):
            raise NotBoundError(f"summarizer {name!r}")

        def summarize(messages: list[BaseMessage]) -> str:
            self.summarizer_inputs.append("\n".join(text_of(message) for message in messages))
            if name == "raises":
                return _raise(messages)
            return "SUMMARY" if name == "records" else name.removeprefix("echo:")

        return summarize

    def say(self, users: Sequence[str]) -> None:
        """Say each message; a failed turn does not end the conversation."""
        with self.open() as conversation:
            for user in users:
                try:
                    conversation.say(user)
                except ConnectionError:
                    self.failures += 1
                except Exception:
                    if not isinstance(self.params.get("model"), list):
                        raise
                    self.failures += 1
                if conversation.messages():
                    self._note_checkpoints(conversation)

    def _note_checkpoints(self, conversation: Conversation) -> None:
        transcript = self.transcript(conversation)
        for annotation in conversation.checkpoints():
            self.records.setdefault(annotation["id"], transcript)

    def transcript(self, conversation: Conversation | None = None) -> list[tuple[str | None, str]]:
        """The transcript as ids and words."""
        if conversation is not None:
            return [(m.id, text_of(m)) for m in conversation.messages()]
        with self.open() as other_conversation:
            return [(m.id, text_of(m)) for m in other_conversation.messages()]

    def messages(self) -> list[AnyMessage]:
        """The transcript."""
        with self.open() as conversation:
            return conversation.messages()

    def state(self) -> dict[str, Any]:
        """The thread's state as LangGraph keeps it."""
        with self.open() as conversation:
            config: Any = {"configurable": {"thread_id": self.thread}}
            return dict(conversation.graph.get_state(config).values)

    def rejected_drafts(self) -> list[str]:
        """The drafts that were taken back."""
        answers = {text_of(m) for m in self.messages() if is_answer(m)}
        return [draft for draft in self.drafts if draft not in answers]

    def counters(self) -> dict[str, Any]:
        """Figures that a case may name."""
        rejected = [call for call in self.model_inputs if any(REJECTED in text_of(m) for m in call)]
        answers = [m for m in self.messages() if is_answer(m)]
        return {
            "model_calls": len(self.model_inputs),
            "judge_calls": len(self.judge_inputs),
            "model_calls_on_rejected_context": len(rejected),
            "rollbacks": sum(annotation_of(m).get("rollbacks", 0) for m in answers),
            "checkpoints": len(self.state().get("checkpoints", [])),
        }


def _raise(_: Any) -> str:
    raise ConnectionError("down")
