"""The rows of a thread's tree, and the tree as text for a terminal."""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

from wcwidth import iter_graphemes

from unsay.messages.content import cells_of, preview
from unsay.prompts.catalogue import ENGLISH, JAPANESE, Texts
from unsay.results.results import Checkpoint, Removed, counted, score_text
from unsay.types import BranchRef, Forgotten, Language, Pin, TopicChange


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedDraft:
    """A draft that failed; `score` is `None` for an unscored one."""

    text: str
    score: float | None
    reason: str
    message_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoneCall:
    """A tool call that was rolled back, and what became of it; as in the event `compensation`.

    After `failed` and `skipped` the call is still in effect, and `reason` says why. `unknown`: a
    crash came while it was undone.
    """

    tool: str
    tool_call_id: str
    description: str
    result: Literal["undone", "failed", "skipped", "unknown"]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineTurn:
    """One turn on the current branch.

    The fields `score`, `reason`, `topic`, `topic_change`, `flag`, `rollbacks`, `removed` and
    `checkpoints_removed` are those of its `Reply`.

    Attributes:
        question: Empty for an answer that was added without one.
        answer: `None` while the question waits.
        message_id: The answer's id; the question's while it waits.
        step_ids: Ids of the messages of its tool steps, oldest first.
        outcome: As in `Reply`; `None` also for an answer that was not judged.
        similarity: Of the question to the topic before, if it changed the topic, as in the event `topic`.
        rejected: The turn's drafts that failed, oldest first; only `Conversation.timeline` sets them.
    """

    number: int
    question: str
    answer: str | None
    message_id: str | None
    question_id: str | None
    score: float | None
    outcome: str | None
    reason: str
    topic: str
    flag: str | None
    rollbacks: int
    pinned: bool = False
    forgotten: bool = False
    skipped: bool = False  # the judge was not asked, by the setting `judge_share`
    step_ids: tuple[str, ...] = ()
    topic_change: TopicChange | None = None
    similarity: float | None = None
    removed: tuple[Removed, ...] = ()
    checkpoints_removed: tuple[str, ...] = ()
    rejected: tuple[RejectedDraft, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineTopic:
    """One topic of the thread; `summarized` means that contexts leave its messages out.

    `summary` is `None` for the current topic, and for one that has no summary yet.
    """

    label: str
    summarized: bool
    summary: str | None

    forgotten: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCall:
    """A tool call in a turn that has no answer yet, as in the events `tool_call` and `tool_result`.

    `status` and `text` are those of its result; both are `None` while it has none.
    """

    call_id: str | None
    name: str
    args: Mapping[str, Any]
    status: Literal["success", "error"] | None
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingQuestion:
    """A question that waits for its answer: its turn runs, was stopped, or waits for a decision.

    Attributes:
        request: LangChain's human-in-the-loop request that waits for a person; `None` without one.
        rejected: The turn's drafts that failed so far, each with its score and the reason.
        calls: The tool calls of these drafts and of the draft under way, oldest first.
    """

    question: str
    question_id: str | None
    request: Mapping[str, Any] | None = None
    rejected: tuple[RejectedDraft, ...] = ()
    calls: tuple[PendingCall, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineData:
    """The whole thread at one moment; checkpoints, branches, pins and forgotten are oldest first.

    `pending` is the question that waits for its answer; `None` if none does. `undone_calls` are the
    tool calls that were rolled back. Only `Conversation.timeline` sets both. `language` is that of
    the thread, in which the timeline is printed and drawn.
    """

    thread_id: str
    turns: tuple[TimelineTurn, ...]
    checkpoints: tuple[Checkpoint, ...]
    branches: tuple[BranchRef, ...]
    topics: tuple[TimelineTopic, ...]
    current_topic: str
    quality_threshold: float
    checkpoint_threshold: float
    pins: tuple[Pin, ...] = ()
    forgotten: tuple[Forgotten, ...] = ()
    pending: PendingQuestion | None = None
    undone_calls: tuple[UndoneCall, ...] = ()
    language: Language = "en"

    @property
    def skipped(self) -> int:
        """The number of turns whose answers `judge_share` left out, so that no judge was asked."""
        return sum(turn.skipped for turn in self.turns)


SHOWN_TURNS = 60
SHOWN_BRANCHES = 12  # in one place; the newest

_READ_CHARS = 400  # of a text, so that splitting a long one into graphemes stays fast
_NAME_CELLS = 128

_JOINERS = "\u200c\u200d"
_NEVER_IN_XML = "\ufffe\uffff"
_STYLES = {"good": "32", "bad": "31", "mark": "36", "faint": "2", "strong": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """A turn with its checkpoints, by name or else by id, and its branches.

    `step_checkpoints` are those at its tool steps, `notes` short remarks such as “pinned”.
    """

    turn: TimelineTurn
    notes: Sequence[str]
    step_checkpoints: tuple[str, ...]
    checkpoints: tuple[str, ...]
    branches: Sequence[BranchRef]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """The rows of a tree, from the top; `left_out` says in words what is above the first row."""

    at_start: Sequence[BranchRef]
    checkpoints_at_start: tuple[str, ...]
    left_out: str
    rows: tuple[TurnRow, ...]
    elsewhere: Sequence[BranchRef]


def texts_of(timeline: TimelineData) -> Texts:
    """Return the texts in the language of a thread."""
    return JAPANESE if timeline.language == "ja" else ENGLISH


def outline(timeline: TimelineData, texts: Texts = ENGLISH) -> Outline:
    """Return what a picture or a tree of the thread shows: turns with checkpoints and branches.

    Of a long thread only the newest `SHOWN_TURNS` are included. Branches of commands alone are left
    out.
    """
    first, marks = max(0, len(timeline.turns) - SHOWN_TURNS), timeline.checkpoints
    hidden, shown_turns = timeline.turns[:first], timeline.turns[first:]
    earlier = {name for turn in hidden for name in _names(turn)}
    message_ids = {name for turn in timeline.turns for name in _names(turn)} | {None}
    message_branches = [
        branch for branch in timeline.branches if branch["size"]
    ]  # others hold only commands
    branches = sum(branch["base"] in earlier for branch in message_branches)
    words = texts.table("tree_words")
    turns = counted(len(hidden), "earlier_turn", texts)
    left_out = words["earlier"].format(turns=turns) if hidden else ""
    if branches:
        left_out += words["at_them"].format(branches=counted(branches, "branch", texts))
    return Outline(
        at_start=_branches_at(message_branches, None),
        checkpoints_at_start=tuple(_label(c) for c in marks if c.message_id is None),
        left_out=left_out,
        rows=tuple(
            TurnRow(
                turn=turn,
                notes=_notes_of(turn, timeline, texts),
                step_checkpoints=_step_checkpoints_at(marks, turn),
                checkpoints=_checkpoints_at(marks, turn, message_ids),
                branches=_branches_at(message_branches, *_names(turn)),
            )
            for turn in shown_turns
        ),
        elsewhere=[branch for branch in message_branches if branch["base"] not in message_ids],
    )


def _checkpoints_at(
    checkpoints: Sequence[Checkpoint], turn: TimelineTurn, placed: set[str | None]
) -> tuple[str, ...]:
    # A checkpoint at a question or a notice is shown at the turn before it.
    return tuple(
        _label(checkpoint)
        for checkpoint in checkpoints
        if not checkpoint.in_turn
        and (
            checkpoint.message_id == turn.message_id
            or (checkpoint.message_id not in placed and checkpoint.turn == turn.number)
        )
    )


def _step_checkpoints_at(checkpoints: Sequence[Checkpoint], turn: TimelineTurn) -> tuple[str, ...]:
    names = _names(turn)
    return tuple(_label(each) for each in checkpoints if each.in_turn and each.message_id in names)


def _label(checkpoint: Checkpoint) -> str:
    return one_line(checkpoint.name or checkpoint.id, _NAME_CELLS)


def _names(turn: TimelineTurn) -> tuple[str | None, ...]:
    names = (turn.message_id, turn.question_id, *turn.step_ids)
    return tuple(name for name in names if name is not None)


def _branches_at(branches: Sequence[BranchRef], *bases: str | None) -> list[BranchRef]:
    return [branch for branch in branches if branch["base"] in bases]


def one_line(text: str, cells: int) -> str:
    r"""Return the beginning of a text as one line of at most `cells` cells.

    It has no control characters, so it is safe in a terminal; for XML, escape `<` and `&`.

    >>> one_line("\x1b[31mred\n内包表記とは", 14)
    '�[31mred 内包…'
    """
    line = "".join(map(printable, preview(text, _READ_CHARS)))
    if cells_of(line) <= cells:
        return line
    clusters = list(iter_graphemes(line))
    fitting = sum(end < cells for end in accumulate(map(cells_of, clusters)))
    return "".join(clusters[:fitting]).rstrip() + "…"


def printable(char: str) -> str:
    """Return a character as terminals and pictures can show it, which may be an empty text.

    A control character becomes U+FFFD. An invisible format character, such as a mark of the writing
    direction, becomes an empty text; the joiners of emoji and scripts stay.
    """
    category = unicodedata.category(char)
    if category == "Cf" and char not in _JOINERS:
        return ""
    return "\ufffd" if category in ("Cc", "Cs") or char in _NEVER_IN_XML else char


def _notes_of(turn: TimelineTurn, timeline: TimelineData, texts: Texts) -> list[str]:
    words = texts.table("tree_words")
    notes = [_waiting(timeline, texts)] if turn.answer is None else []
    notes += [words.get(turn.flag, one_line(turn.flag, 24))] if turn.flag else []
    rejected = words["rejected_once" if turn.rollbacks == 1 else "rejected"]
    notes += [rejected.format(count=turn.rollbacks)] if turn.rollbacks else []
    notes += [texts.say("pinned_label")] if turn.pinned else []
    notes += [texts.say("forgotten_label")] if turn.forgotten else []
    return notes


def question_of(turn: TimelineTurn, cells: int, texts: Texts = ENGLISH) -> str:
    """Return a turn's question on one line of at most `cells`, or a text for a missing one."""
    return one_line(turn.question, cells) or texts.say("tree_words.no_question")


def summary_of(timeline: TimelineData, texts: Texts = ENGLISH) -> str:
    """Return one line with a thread's id and how many turns, checkpoints and branches it has."""
    parts = [
        counted(len(timeline.turns), "turn", texts),
        counted(len(timeline.checkpoints), "checkpoint", texts),
        counted(sum(branch["size"] > 0 for branch in timeline.branches), "branch", texts),
    ]
    name, counts = one_line(timeline.thread_id, 40), texts.listed(parts)
    return texts.say("tree_words.thread", thread=name, counts=counts)


def branch_text(branch: BranchRef, cells: int, texts: Texts = ENGLISH) -> str:
    """Return a branch's kind and its size, and its reason, which is cut to `cells` cells.

    So the whole text can be wider. A reason that only repeats the kind is left out.
    """
    repeats = branch["reason"] in ("rollback", branch["kind"])
    reason = "" if repeats else one_line(branch["reason"], cells)
    size = counted(branch["size"], "message", texts)
    head = texts.listed([texts.table("branch_kinds").get(branch["kind"], branch["kind"]), size])
    return head + (f": {reason}" if reason else "")


def older_text(branches: Sequence[BranchRef], texts: Texts = ENGLISH) -> str:
    """Return how many branches of one place are over `SHOWN_BRANCHES`, as text; empty if none are."""
    older = len(branches) - SHOWN_BRANCHES
    if older <= 0:
        return ""
    return texts.say("tree_words.older", branches=counted(older, "older_branch", texts))


def tree_text(timeline: TimelineData, texts: Texts | None = None, *, color: bool = False) -> str:
    """Return the thread as a tree for a terminal, one line for each turn and each branch.

    Without `texts` its words are in the language of the thread. `color` adds terminal codes for colors.
    """
    texts = texts or texts_of(timeline)
    tree, pen = outline(timeline, texts), _Pen(color=color, texts=texts)
    lines = [pen.write("strong", summary_of(timeline, texts))]
    waits = _waiting_line(timeline, pen)
    if not timeline.turns and not waits:
        lines.append(texts.say("no_turns"))
    if timeline.turns or tree.at_start or tree.checkpoints_at_start:
        names = [pen.write("mark", f"◆ {name}") for name in tree.checkpoints_at_start]
        lines.append(" ".join([f"○ {texts.say('tree_words.start')}", *names]))
        lines += pen.branches(tree.at_start, "│" if tree.rows else " ")
    if tree.left_out:
        lines.append(pen.write("faint", f"┊ {tree.left_out}"))
    lines += [*_turn_lines(timeline, tree, pen), *waits]
    if tree.elsewhere:
        lines.append(pen.write("faint", texts.say("tree_words.elsewhere")))
        lines += pen.branches(tree.elsewhere, " ")
    lines += [pen.write("faint", forgotten_line(each, texts)) for each in timeline.forgotten]
    return "\n".join(lines)


def _waiting_line(timeline: TimelineData, pen: "_Pen") -> list[str]:
    """Return the line of a question that waits and is no turn yet, as after a crash; else no line."""
    pending = timeline.pending
    if pending is None or pending.question_id in {each.question_id for each in timeline.turns}:
        return []
    words = one_line(pending.question, 40)
    return [f"   {words} {pen.write('bad', '[' + _waiting(timeline, pen.texts) + ']')}"]


def _waiting(timeline: TimelineData, texts: Texts) -> str:
    """Return the words for what the unanswered question waits for: its answer, or a person."""
    decides = timeline.pending is not None and timeline.pending.request is not None
    return texts.table("tree_words")["decides" if decides else "waits"]


def forgotten_line(entry: Forgotten, texts: Texts = ENGLISH) -> str:
    """Return one line about something forgotten, with the id that `restore` takes."""
    about = entry.get("topic_id") or counted(len(entry["message_ids"]), "message", texts)
    words = f"{texts.say('forgotten_label')} {entry['id']}: {about}"
    return words + (f", {one_line(entry['reason'], 48)}" if entry["reason"] else "")


def _turn_lines(timeline: TimelineData, tree: Outline, pen: "_Pen") -> Iterator[str]:
    digits = len(str(len(timeline.turns)))
    topics = [one_line(row.turn.topic, 16) for row in tree.rows]
    width = max((cells_of(topic) for topic in topics), default=0)
    for row, topic in zip(tree.rows, topics, strict=True):
        last = row is tree.rows[-1]
        gap = " " * (width - cells_of(topic))
        yield " ".join(
            [
                f"{'└' if last else '├'}─",
                pen.write("strong", f"{row.turn.number:>{digits}}"),
                pen.score(row.turn, timeline),
                *([pen.write("faint", topic) + gap] if width else []),
                question_of(row.turn, 40, pen.texts),
                *(pen.write("mark", f"◇ {name}") for name in row.step_checkpoints),
                *(pen.write("mark", f"◆ {name}") for name in row.checkpoints),
                *(pen.write("bad", f"[{note}]") for note in row.notes),
            ]
        )
        yield from pen.branches(row.branches, " " if last else "│")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pen:
    """Writes with ANSI colors, or without."""

    color: bool
    texts: Texts

    def write(self, style: str, words: str) -> str:
        return f"\x1b[{_STYLES[style]}m{words}\x1b[0m" if self.color and words else words

    def score(self, turn: TimelineTurn, timeline: TimelineData) -> str:
        words = f"{score_text(turn.score):>4}"
        if turn.outcome == "failed":
            return self.write("bad", words)
        good = turn.score is not None and turn.score >= timeline.checkpoint_threshold
        return self.write("good", words) if good else words

    def branches(self, branches: Sequence[BranchRef], trunk: str) -> Iterator[str]:
        if older := older_text(branches, self.texts):
            yield self.write("faint", f"{trunk}  ╌╌ {older}")
        for branch in branches[-SHOWN_BRANCHES:]:
            yield f"{trunk}  " + self.write("faint", f"╌╌ × {branch_text(branch, 48, self.texts)}")
