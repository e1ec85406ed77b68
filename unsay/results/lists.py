"""The lists of a thread and the comparison of two branches: what a program gets, and their texts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage

from unsay.context.manifest import Tokens, tokens_of
from unsay.context.topics import forgotten_ids, pinned_ids
from unsay.messages.annotations import annotation_of, answered_turns, is_question, spoken
from unsay.messages.content import preview, text_of
from unsay.prompts.catalogue import ENGLISH, Texts
from unsay.results.results import Checkpoint, counted, score_text
from unsay.results.svg import table_html
from unsay.state import State, offloaded_of
from unsay.transcript.live import count_turns
from unsay.types import Checkpoint as StoredCheckpoint
from unsay.types import Forgotten, StoredBranch

_REMOVAL = ("id", "kind", "base", "reason", "created_at")  # what a stored branch tells of itself
# Kinds of branches that a judge's reason describes.
_JUDGED = frozenset({"draft", "rejected", "context"})

TIMELINE_TURNS = 50  # how many of the newest turns the chat's timeline lists


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One branch of a conversation: the current one, a removed one, or a forked thread.

    Attributes:
        id: `live`, or the id of a stored branch or a thread.
        kind: `live`, `thread`, or who or what removed its messages.
        base: Id of the message that it followed; `None` is the beginning. In a fork, the last copy.
        reason: Why it was removed, in the words of a judge or a command; for a thread its title.
        created_at: When it was removed or forked, in ISO 8601, UTC; empty for the current branch.
        turns: Answered turns among its messages; those of a thread are the ones after the fork.
        words: The beginning of its first question.
    """

    id: str
    kind: str
    base: str | None = None
    reason: str = ""
    created_at: str = ""
    turns: int
    messages: int
    tokens: Tokens
    words: str

    def __str__(self) -> str:
        return (
            f"{self.id}  {self.kind}  {counted(self.turns, 'turn')}, "
            f"{counted(self.messages, 'message')}, {self.tokens.total} tokens  {self.words}"
        )

    def kind_text(self, texts: Texts) -> str:
        """Return the kind in the language of the texts."""
        return texts.table("branch_kinds").get(self.kind, self.kind)

    def _repr_html_(self) -> str:
        sizes = str(self.turns), str(self.messages), str(self.tokens.total)
        columns = ("Branch", "Kind", "Turns", "Messages", "Tokens", "Reason", "Begins with")
        row = (self.id, self.kind, *sizes, self.reason, self.words)
        return table_html("Branch of a thread", columns, [row])


def branch_of(
    messages: Sequence[AnyMessage], drafts: Sequence[AnyMessage] = (), **named: Any
) -> Branch:
    """Return a branch's entry for `branches`; `named` has the fields that its messages do not show."""
    branch_messages = [*spoken(messages), *drafts]
    first = next((m for m in branch_messages if is_question(m)), next(iter(branch_messages), None))
    return Branch(
        **named,
        turns=count_turns(messages),
        messages=len(branch_messages),
        tokens=tokens_of(branch_messages),
        words="" if first is None else preview(text_of(first)),
    )


def removed_branch(stored: StoredBranch) -> Branch:
    """Return the entry of a stored branch."""
    own = {name: value for name, value in stored.items() if name in _REMOVAL}
    return branch_of(stored["messages"], stored["drafts"], **own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of two branches that are compared; scores are from 0 to 1.

    Attributes:
        topics: Labels of topics that the other does not have.
        only: Messages that the other does not have, oldest first.
        mean_score: Of its scored answers; `None` without any.
        last_score: Of its newest scored answer.
    """

    name: str
    messages: int
    topics: tuple[str, ...]
    only: tuple[AnyMessage, ...]
    mean_score: float | None
    last_score: float | None
    tokens: Tokens

    def __str__(self) -> str:
        return self.text(ENGLISH)

    def text(self, texts: Texts) -> str:
        """Return the sizes and scores of the branch, and what it alone has, a message a line."""
        rows = [
            texts.say(
                "compared_side",
                name=self.name,
                messages=counted(self.messages, "message", texts),
                mean=score_text(self.mean_score),
                last=score_text(self.last_score),
                **{name: f"{count:,}" for name, count in asdict(self.tokens).items()},
            )
        ]
        if self.topics:
            rows.append(texts.say("compared_topics", topics=", ".join(self.topics)))
        rows += [f"  {role_of(m, texts)}: {preview(text_of(m))}" for m in self.only]
        return "\n".join(rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """The difference of two branches; `common` is the number of messages that both have."""

    common: int
    a: Side
    b: Side

    def __str__(self) -> str:
        return self.text(ENGLISH)

    def text(self, texts: Texts) -> str:
        """Return the number of messages in common, and then each side."""
        messages = counted(self.common, "message", texts)
        sides = (self.a.text(texts), self.b.text(texts))
        return "\n".join([texts.say("compared_common", messages=messages), *sides])

    def _repr_html_(self) -> str:
        rows: list[tuple[str, str, str]] = []
        for side in (self.a, self.b):
            rows += [(side.name, message.type, text_of(message)) for message in side.only]
            scores = f"mean {score_text(side.mean_score)}, last {score_text(side.last_score)}"
            rows.append((side.name, "score", scores))
        return table_html(f"Messages in common: {self.common}", ("Branch", "Role", "Text"), rows)


def role_of(message: BaseMessage, texts: Texts) -> str:
    """Return who speaks in a message, in the language of the texts."""
    names = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
    return texts.say(names[message.type]) if message.type in names else message.type


def timeline_text(state: State, texts: Texts) -> str:
    """Return the newest turns with their scores, one per line, or a text that says there are none.

    They are at most `TIMELINE_TURNS`. Pinned and forgotten answers are labelled.
    """
    messages, offloaded = state["messages"], offloaded_of(state)
    forgotten = forgotten_ids(messages, state.get("segments", []), state.get("forgotten", []))
    labels = dict.fromkeys(pinned_ids(state), texts.say("pinned_label"))
    labels |= dict.fromkeys(forgotten, texts.say("forgotten_label"))
    turns = answered_turns(messages)
    before = offloaded["turns"] if offloaded else 0
    first = max(0, len(turns) - TIMELINE_TURNS)
    lines = []
    for number, (question, answer) in enumerate(turns[first:], before + first + 1):
        score = score_text(annotation_of(answer).get("score"))
        row = texts.say("timeline_line", turn=number, score=score, question=preview(question))
        lines.append(f"{row}  [{labels[answer.id]}]" if answer.id in labels else row)
    return "\n".join(lines) or texts.say("no_turns")


def checkpoint_rows(checkpoints: Iterable[Checkpoint | StoredCheckpoint]) -> list[dict[str, str]]:
    """Return what a list shows of each checkpoint, by column."""
    return [
        {
            "id": each["id"],
            "name": each["name"] or "-",
            "turn": str(each["turn"]),
            "score": score_text(each["score"]),
            "topic": each["topic"],
        }
        for each in checkpoints
    ]


def checkpoints_text(checkpoints: Sequence[Checkpoint | StoredCheckpoint], texts: Texts) -> str:
    """Return the checkpoints, one per line, or a text that says there are none."""
    lines = [texts.say("checkpoint_line", **row) for row in checkpoint_rows(checkpoints)]
    return "\n".join(lines) or texts.say("no_checkpoints")


def branches_text(branches: Sequence[Branch], texts: Texts) -> str:
    """Return the branches, one per line, or a text that says there are none.

    A line has the branch's first words, and why a judge rejected it. The last line names the
    command that restores one.
    """
    lines = [
        texts.say(
            "branch_row",
            id=each.id,
            kind=each.kind_text(texts),
            size=each.messages,
            words=preview(each.words, 40),
            reason=preview(each.reason, 40) if each.kind in _JUDGED else "",
        ).rstrip()
        for each in branches
    ]
    return "\n".join([*lines, texts.say("restore_hint")]) if lines else texts.say("no_branches")


def forgotten_text(state: Mapping[str, Any], texts: Texts) -> str:
    """Return what is forgotten, one entry per line, newest last, or a text that says there is none.

    An entry is one message, several messages, a topic, or tool results. The last line names the
    command that shows one to the model again.
    """
    lines = [
        texts.say(
            "forgotten_line",
            id=each["id"],
            kind=texts.table("forgotten_kinds")[each["kind"]],
            words=_words_of(state, each),
        )
        + (texts.say("forgotten_reason", reason=each["reason"]) if each["reason"] else "")
        for each in state.get("forgotten", [])
    ]
    return "\n".join([*lines, texts.say("forgotten_hint")]) if lines else texts.say("no_forgotten")


def _words_of(state: Mapping[str, Any], entry: Forgotten) -> str:
    """Return the label or id of an entry's topic, or the first words of its messages.

    Empty if the state has none of the messages.
    """
    labels = {each["id"]: each["label"] for each in state.get("topics", [])}
    if "topic_id" in entry:
        return str(labels.get(entry["topic_id"], entry["topic_id"]))
    texts = (text_of(m) for m in state.get("messages", []) if m.id in entry["message_ids"])
    return preview(next((text for text in texts if text.strip()), ""), 40)


def lessons_text(lessons: Sequence[Mapping[str, Any]], texts: Texts) -> str:
    """Return the lessons, one per line with its number, or a text that says there are none."""
    lines = [
        texts.say("lesson_row", number=number, text=each["text"], rejected=each["rejected"])
        for number, each in enumerate(lessons, 1)
    ]
    return "\n".join(lines) or texts.say("no_lessons")


def questions_text(messages: Sequence[AnyMessage]) -> str:
    """Return the first three questions among these messages as one text, or else the first words."""
    words = [m for m in messages if is_question(m)] or [m for m in messages if text_of(m).strip()][
        :1
    ]
    questions = [preview(text_of(m), 40) for m in words]
    return " / ".join(questions[:3]) + (" …" if len(questions) > 3 else "")
