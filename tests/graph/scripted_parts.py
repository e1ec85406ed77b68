"""A model, a judge, tools and a detector that do in turn what they were told beforehand."""

import re
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.store.memory import InMemoryStore

from tests.transcripts import REDACTED, SIGNED
from unsay.context.view import Reminder
from unsay.protocols import TopicMemory, TopicShift
from unsay.storage.base import Database
from unsay.testing import ScriptedChat

ANSWERS = (
    "A fine answer, about what was asked.",
    "A BAD answer, about what was asked.",
    "A MIDDLING answer, about what was asked.",
    "An ODD answer, about what was asked.",
    "A MUMBLED answer, about what was asked.",
    "",
    "   ",
)
THOUGHTS = (None, None, SIGNED, REDACTED)
IDS = ("a", "b", "a", "call 1!", "呼び出し", "x" * 70, "c")
REMINDERS = (
    Reminder(reminder_id="kind", text="Be kind.", tier="safety", attach="run_start"),
    Reminder(reminder_id="brief", text="Be brief.", min_turns_between=2),
)
TOOLS = ("look", "fail", "flood", "die")
KNOWN: frozenset[str] = frozenset()
"""Bugs that are known and looked away from until they are mended; each is a row of `FOUND`.

S1: a view is not made for the provider that is called. S2: an end between a step's writes
and its checkpoint. S3: a host's answer behind a question whose turn stopped. S4: segments that
are not in the transcript, or out of its order. S5, S5b: another turn's run is set out again.
"""

WRITES = (("saver", "put_writes"), ("store", "batch"), ("saver", "put"))[
    : 2 if "S2" in KNOWN else 3
]
"""Where the process may end, beside every call of the model and the judge."""

_JUDGED = re.compile(r"<(answer|document)\b[^>]*>(.*?)</\1\b", re.DOTALL)


class Crash(BaseException):
    """The end of the process, as far as its code can tell."""


class NamelessError(RuntimeError):
    """A fault that has no name among ours."""


def beats() -> st.SearchStrategy[list[Any]]:
    """What the model does, call by call; a fine answer where the script ends."""
    call = st.tuples(st.sampled_from(IDS), st.sampled_from(TOOLS))
    batch = st.tuples(
        st.just("tools"),
        st.lists(call, min_size=1, max_size=3),
        st.sampled_from(THOUGHTS),
        st.sampled_from(("", "Let me look.")),
    )
    answer = st.tuples(st.just("answer"), st.sampled_from(ANSWERS), st.sampled_from(THOUGHTS))
    same = st.tuples(st.just("same"), st.sampled_from(ANSWERS))
    fault = st.tuples(st.sampled_from(("unreachable", "boom", "dies")))
    return st.lists(st.one_of(answer, answer, same, batch, batch, fault), max_size=4)


class Player(ScriptedChat):
    """A chat model that says which provider's it is."""

    kind: str = "scripted"

    @property
    def _llm_type(self) -> str:
        return self.kind


class ScriptedParts:
    """The people of one thread, and what the model was sent."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.views: list[list[BaseMessage]] = []
        self.fuse: int | None = None
        self.answers = 0

    def begin(self) -> None:
        """A new step."""
        self.told = []
        self.views = []

    def prepare(self, script_lines: Sequence[Any]) -> None:
        """Say what the model does in this step."""
        self.told = list(script_lines)

    def burn(self) -> None:
        """End the process here if this is the place; what still runs in a thread ends too."""
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                raise Crash

    def guard(self, database: Any) -> None:
        """Make every write of a database a place where the process may end."""
        for call_kind, name in WRITES:
            owner = getattr(database, call_kind)
            setattr(owner, name, self._burning(getattr(type(owner), name).__get__(owner)))

    def _burning(self, message: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            self.burn()
            return message(*args, **options)

        return call

    def parts(self, kind: str) -> dict[str, Any]:
        """What a conversation is opened with."""
        parts_given = {"judge": self.judge, "detector": Detector(), "reminders": REMINDERS}
        if kind == "agent":
            return {"model": self.agent, **parts_given}
        tools = [look, fail, flood, die]
        return {"model": Player(script=self.model, kind=kind), "tools": tools, **parts_given}

    def agent(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """All beats up to the next answer; the last tool of each batch never came back."""
        message: list[BaseMessage] = [self.model(messages)]
        while isinstance(message[-1], AIMessage) and message[-1].tool_calls:
            calls = message[-1].tool_calls
            message += [ToolMessage(call["name"], tool_call_id=call["id"]) for call in calls[1:]]
            self.views.append(list(messages))
            message.append(self.model(messages))
        return message

    def model(self, messages: Sequence[BaseMessage]) -> AIMessage:
        """The next beat."""
        self.views.append(list(messages))
        self.burn()
        beat = self.told.pop(0) if self.told else self._untold()
        self.answers += 1
        match beat:
            case ("answer", words, thought):
                words = words and words.replace("answer", f"answer {self.answers}")
                return AIMessage(_content(words, thought))
            case ("tools", calls, thought, words):
                return AIMessage(_content(words, thought), tool_calls=_calls(calls))
            case ("same", words):
                return AIMessage(words, id="same")
            case ("unreachable",):
                raise ConnectionError("no way to the model")
            case ("boom",):
                raise NamelessError("a bug in somebody's code")
        raise Crash

    def _untold(self) -> Any:
        """A fine answer; all but the first have one id, as some servers give."""
        return ("same", ANSWERS[0]) if self.answers else ("answer", ANSWERS[0], None)

    def judge(self, messages: Any) -> Any:
        """A score by a word of what is judged."""
        self.burn()
        judged_texts = _JUDGED.findall("\n".join(str(m.text) for m in messages))
        quality = judged_texts[-1][1] if judged_texts else ""
        if "ODD" in quality:
            raise NamelessError("the judge broke")
        if "MUMBLED" in quality:
            return "no number at all"
        return 0.1 if "BAD" in quality else 0.6 if "MIDDLING" in quality else 0.9


class Detector:
    """Finds the topic by the first word of a question."""

    def detect(
        self, question: str, current: TopicMemory, others: Sequence[TopicMemory]
    ) -> TopicShift:
        """Place a question among the topics."""
        if question.startswith("NEW"):
            return TopicShift(kind="new", similarity=0.0)
        if question.startswith("BACK") and others:
            return TopicShift(kind="back", similarity=1.0, topic_id=others[0].topic_id)
        return TopicShift(kind="same", similarity=1.0)


def look(q: str) -> str:
    """Find something."""
    return f"found {q}"


def fail(q: str) -> str:
    """Find nothing."""
    raise ValueError(f"cannot find {q}")


def flood(q: str) -> str:
    """Find too much."""
    return f"row {q} と列; " * 300


def die(q: str) -> str:
    """Take the process along."""
    raise Crash(q)


def _calls(calls: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    return [
        {"id": call_id, "name": name, "args": {"q": str(nth)}}
        for nth, (call_id, name) in enumerate(calls)
    ]


def _content(text: str, thought: dict[str, Any] | None) -> str | list[Any]:
    if thought is None:
        return text
    return [thought, *([{"type": "text", "text": text}] if text else [])]


class Shelf(InMemoryStore):
    """A store in memory at which the process may end."""


def in_memory() -> Any:
    """A database that is no file."""
    serde = JsonPlusSerializer(allowed_msgpack_modules=None)
    return Database(path=f"memory-{uuid4()}", saver=InMemorySaver(serde=serde), store=Shelf())  # type: ignore[arg-type]
