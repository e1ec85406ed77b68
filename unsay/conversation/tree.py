"""The rows of a thread's tree, and the tree as text for a terminal."""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from wcwidth import iter_graphemes

from unsay.conversation.results import TimelineData, TimelineTurn, counted
from unsay.messages.content import cells_of, preview
from unsay.operations.commands import score_text
from unsay.types import BranchKind, BranchRef, Checkpoint, Forgotten

SHOWN_TURNS = 60
SHOWN_BRANCHES = 12  # in one place; the newest
# Heading of the branches whose base is no longer in the transcript.
ELSEWHERE = "set aside elsewhere"

BRANCH_WORDS: dict[BranchKind, str] = {
    "draft": "draft rejected",
    "context": "context rejected",
    "person": "rolled back",
    "undo": "undone",
    "redo": "left again",
    "restore": "made way",
    "retry": "answered anew",
    "order": "an order",
    "interrupted": "never finished",
    "rejected": "draft not delivered",
    "host": "left by the app",
}

FLAG_WORDS = {"low_quality": "low quality", "by_person": "by a person"}
_READ_CHARS = 400  # of a text, so that splitting a long one into graphemes stays fast
_NAME_CELLS = 128

_JOINERS = "\u200c\u200d"
_NEVER_IN_XML = "\ufffe\uffff"
_STYLES = {"good": "32", "bad": "31", "mark": "36", "faint": "2", "strong": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRow:
    """A turn with its checkpoints, by name or else by id, and its branches."""

    turn: TimelineTurn
    checkpoints: tuple[str, ...]
    branches: Sequence[BranchRef]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """The rows of a tree, from the top; `left_out` says in words what is above the first row."""

    at_start: Sequence[BranchRef]
    left_out: str
    rows: tuple[TurnRow, ...]
    elsewhere: Sequence[BranchRef]


def outline(timeline: TimelineData) -> Outline:
    """Return the rows that a picture of the thread shows."""
    first = max(0, len(timeline.turns) - SHOWN_TURNS)
    hidden, shown = timeline.turns[:first], timeline.turns[first:]
    earlier = {name for turn in hidden for name in _names(turn)}
    placed = {name for turn in timeline.turns for name in _names(turn)} | {None}
    branches = sum(branch["base"] in earlier for branch in timeline.branches)
    left_out = f"{counted(len(hidden), 'earlier turn')} not shown" if hidden else ""
    return Outline(
        at_start=_branches_at(timeline.branches, None),
        left_out=left_out + (f", {counted(branches, 'branch')} at them" if branches else ""),
        rows=tuple(
            TurnRow(
                turn=turn,
                checkpoints=_marks_at(timeline.checkpoints, turn, placed),
                branches=_branches_at(timeline.branches, *_names(turn)),
            )
            for turn in shown
        ),
        elsewhere=[branch for branch in timeline.branches if branch["base"] not in placed],
    )


def _marks_at(
    checkpoints: Sequence[Checkpoint], turn: TimelineTurn, placed: set[str | None]
) -> tuple[str, ...]:
    # A checkpoint at a question or a notice is shown at the turn before it.
    return tuple(
        one_line(each["name"] or each["id"], _NAME_CELLS)
        for each in checkpoints
        if each["message_id"] == turn.message_id
        or (each["message_id"] not in placed and each["turn"] == turn.number)
    )


def _names(turn: TimelineTurn) -> tuple[str | None, ...]:
    return tuple(name for name in (turn.message_id, turn.question_id) if name is not None)


def _branches_at(branches: Sequence[BranchRef], *bases: str | None) -> list[BranchRef]:
    return [branch for branch in branches if branch["base"] in bases]


def one_line(text: str, cells: int) -> str:
    r"""Return the beginning of a text as one line that is safe in a terminal and in XML.

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
    """Return U+FFFD for a control character, and nothing for a mark of the writing direction."""
    category = unicodedata.category(char)
    if category == "Cf" and char not in _JOINERS:
        return ""
    return "\ufffd" if category in ("Cc", "Cs") or char in _NEVER_IN_XML else char


def notes_of(turn: TimelineTurn) -> list[str]:
    """Return the remarks on a turn besides its score."""
    notes = ["waits for an answer"] if turn.answer is None else []
    notes += [FLAG_WORDS.get(turn.flag, one_line(turn.flag, 24))] if turn.flag else []
    times = "once" if turn.rollbacks == 1 else f"{turn.rollbacks} times"
    notes += [f"rejected {times}"] if turn.rollbacks else []
    notes += ["pinned"] if turn.pinned else []
    notes += ["forgotten"] if turn.forgotten else []
    return notes


def question_of(turn: TimelineTurn, cells: int) -> str:
    """Return a turn's question on one line."""
    return one_line(turn.question, cells) or "(no question)"


def summary_of(timeline: TimelineData) -> str:
    """Return the sizes of a thread in one line."""
    parts = [
        counted(len(timeline.turns), "turn"),
        counted(len(timeline.checkpoints), "checkpoint"),
        counted(len(timeline.branches), "branch"),
    ]
    return f"Thread {one_line(timeline.thread_id, 40)}: {', '.join(parts)}"


def branch_text(branch: BranchRef, cells: int) -> str:
    """Return a branch's kind, its size and the beginning of its reason."""
    reason = one_line(branch["reason"], cells)
    head = (
        f"{BRANCH_WORDS.get(branch['kind'], branch['kind'])}, {counted(branch['size'], 'message')}"
    )
    return head + (f": {reason}" if reason else "")


def older_text(branches: Sequence[BranchRef]) -> str:
    """Return how many branches at one place are not shown; empty if all are."""
    older = len(branches) - SHOWN_BRANCHES
    return f"{counted(older, 'older branch')} not shown" if older > 0 else ""


def tree_text(timeline: TimelineData, *, color: bool = False) -> str:
    """Return the thread as a tree for a terminal, one line for each turn and each branch."""
    tree, pen = outline(timeline), _Pen(color=color)
    lines = [pen.write("strong", summary_of(timeline))]
    if not timeline.turns:
        lines.append("There are no messages yet.")
    if timeline.turns or tree.at_start:
        lines += ["○ start", *pen.branches(tree.at_start, "│" if tree.rows else " ")]
    if tree.left_out:
        lines.append(pen.write("faint", f"┊ {tree.left_out}"))
    lines += _turn_lines(timeline, tree, pen)
    if tree.elsewhere:
        lines += [pen.write("faint", ELSEWHERE), *pen.branches(tree.elsewhere, " ")]
    lines += [pen.write("faint", forgotten_line(each)) for each in timeline.forgotten]
    return "\n".join(lines)


def forgotten_line(entry: Forgotten) -> str:
    """Return one entry of what is forgotten, with the id that restores it."""
    about = entry.get("topic_id") or counted(len(entry["message_ids"]), "message")
    words = f"forgotten {entry['id']}: {entry['kind'].replace('_', ' ')}, {about}"
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
                question_of(row.turn, 40),
                *(pen.write("mark", f"◆ {name}") for name in row.checkpoints),
                *(pen.write("bad", f"[{note}]") for note in notes_of(row.turn)),
            ]
        )
        yield from pen.branches(row.branches, " " if last else "│")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pen:
    """Writes with ANSI colours, or without."""

    color: bool

    def write(self, style: str, words: str) -> str:
        return f"\x1b[{_STYLES[style]}m{words}\x1b[0m" if self.color and words else words

    def score(self, turn: TimelineTurn, timeline: TimelineData) -> str:
        words = f"{score_text(turn.score):>4}"
        if turn.outcome == "failed":
            return self.write("bad", words)
        good = turn.score is not None and turn.score >= timeline.checkpoint_threshold
        return self.write("good", words) if good else words

    def branches(self, branches: Sequence[BranchRef], trunk: str) -> Iterator[str]:
        if older := older_text(branches):
            yield self.write("faint", f"{trunk}  ╌╌ {older}")
        for branch in branches[-SHOWN_BRANCHES:]:
            yield f"{trunk}  " + self.write("faint", f"╌╌ × {branch_text(branch, 48)}")
