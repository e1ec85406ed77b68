"""A thread as pictures: its scores and its tree, for notebooks and pages."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from xml.etree import ElementTree as ET

from unsay.messages.content import cells_of
from unsay.prompts.catalogue import Texts
from unsay.results.results import counted, score_text
from unsay.results.timeline import (
    SHOWN_BRANCHES,
    TimelineData,
    TurnRow,
    branch_text,
    older_text,
    one_line,
    outline,
    question_of,
    summary_of,
    texts_of,
    tree_text,
)
from unsay.types import BranchRef

WIDTH = 960  # of every picture, in pixels

_INK, _FAINT, _RULE, _PAPER = "#1b1f24", "#57606a", "#d0d7de", "#ffffff"
_PASSED, _FAILED, _MARK = "#0b5cad", "#b3261e", "#0a6b4f"
# Positions in pixels: the axes of the scores, the rows below them, then the columns of the tree.
_LEFT, _RIGHT, _TOP, _BOTTOM = 92, 826, 48, 208
_TURNS_Y, _UNSCORED_Y, _TAKEN_Y, _LEGEND_Y = 232, 255, 277, 307
_TICKS = 20  # at most, numbers of turns below the scores
_TRUNK, _TEXT, _BRANCH = 28, 118, 138
_ROW = 25
_ROOM = 112  # cells of a row's text


def mimebundle(timeline: TimelineData) -> dict[str, str]:
    """Return the timeline for a notebook, by MIME type: as text, Markdown, SVG and HTML."""
    text = tree_text(timeline)
    # A fence must be longer than any run of backticks in it.
    ticks = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, ticks + 1)
    return {
        "text/plain": text,
        "text/markdown": f"{fence}text\n{text}\n{fence}",
        "image/svg+xml": picture_svg(timeline),
        "text/html": picture_html(timeline),
    }


def picture_svg(timeline: TimelineData) -> str:
    """Return the text of an SVG file with the scores and, below them, the tree."""
    return ET.tostring(picture(timeline), encoding="unicode")


def picture_html(timeline: TimelineData) -> str:
    """Return an HTML `div`: the timeline's picture, and its turns as a table for screen readers.

    Without turns there is no table.
    """
    page = ET.Element("div")
    page.append(picture(timeline))
    if timeline.turns:
        page.append(_table(timeline))
    return ET.tostring(page, encoding="unicode", method="html")


def _put(
    parent: ET.Element, tag: str, words: str | None = None, **attributes: object
) -> ET.Element:
    """Add an element with the text `words` to its parent, and return it.

    Underscores in the names of attributes become hyphens.
    """
    xml_attributes = {key.replace("_", "-"): str(value) for key, value in attributes.items()}
    element = ET.SubElement(parent, tag, xml_attributes)
    element.text = words
    return element


@dataclass(slots=True, kw_only=True)
class _Panel:
    """One part of the picture; the functions that draw it count from its own upper left corner."""

    texts: Texts
    height: float = 0
    group: ET.Element = field(default_factory=lambda: ET.Element("g"))

    def put(self, tag: str, **attributes: object) -> ET.Element:
        return _put(self.group, tag, None, **attributes)

    def text(self, x: float, y: float, words: str, color: str = _INK, **more: object) -> ET.Element:
        return _put(self.group, "text", words, x=x, y=y, fill=color, **more)

    def rule(self, y: float, color: str, dashes: str = "none") -> None:
        self.put("line", x1=_LEFT, y1=y, x2=_RIGHT, y2=y, stroke=color, stroke_dasharray=dashes)

    def cross(self, x: float, y: float) -> None:
        path = f"M{x - 4},{y - 4} l8,8 m0,-8 l-8,8"
        self.put("path", d=path, stroke=_FAILED, stroke_width=1.8, fill="none")

    def diamond(self, x: float, y: float) -> None:
        path = f"M{x},{y - 10} l10,10 l-10,10 l-10,-10 z"
        self.put("path", d=path, stroke=_MARK, stroke_width=2, fill=_PAPER)

    def dot(self, x: float, y: float, kind: str) -> ET.Element:
        """Draw a circle for passed, a triangle for failed, or a ring for unscored."""
        if kind == "failed":
            return self.put("path", d=f"M{x - 6},{y - 5} h12 l-6,11 z", fill=_FAILED)
        if kind == "unscored":
            return self.put("circle", cx=x, cy=y, r=4, fill=_PAPER, stroke=_INK, stroke_width=1.5)
        return self.put("circle", cx=x, cy=y, r=4.5, fill=_PASSED)

    def turn(self, x: float, y: float, row: TurnRow) -> None:
        """Draw the dot of a turn, in a diamond where it has a checkpoint."""
        if row.checkpoints:
            self.diamond(x, y)
        turn = row.turn
        kind = "unscored" if turn.score is None else "passed"
        dot = self.dot(x, y, "failed" if turn.outcome == "failed" else kind)
        head = self.texts.say(
            "picture_words.point",
            number=turn.number,
            score=score_text(turn.score),
            result=_result(row, self.texts),
        )
        lines = (head, question_of(turn, 80, self.texts), one_line(turn.reason, 160))
        _put(dot, "title", ". ".join(filter(None, lines)))


def _result(row: TurnRow, texts: Texts) -> str:
    outcome = texts.table("picture_words")[row.turn.outcome or "not_judged"]
    return texts.listed([outcome, *row.notes])


def scores(timeline: TimelineData) -> _Panel:
    """Draw the score of each turn, both thresholds, the checkpoints and the rejected drafts.

    Of a thread without messages it draws a hint instead.
    """
    texts = texts_of(timeline)
    thread_outline, words = outline(timeline, texts), texts.table("picture_words")
    if not thread_outline.rows:
        panel, middle = _Panel(texts=texts, height=84), WIDTH // 2
        panel.text(middle, 38, texts.say("no_turns"), text_anchor="middle", font_size=15)
        panel.text(middle, 62, words["hint"], _FAINT, text_anchor="middle")
        return panel
    panel = _Panel(texts=texts, height=_LEGEND_Y + 16)
    panel.text(16, 26, words["title"], font_weight="bold")
    if thread_outline.left_out:
        panel.text(_RIGHT, 26, thread_outline.left_out, _FAINT, text_anchor="end")
    _axes(panel, timeline)
    _curve(panel, thread_outline.rows)
    _legend(panel)
    return panel


def _height_of(score: float) -> float:
    return round(_BOTTOM - score * (_BOTTOM - _TOP), 1)


def _axes(panel: _Panel, timeline: TimelineData) -> None:
    words = panel.texts.table("picture_words")
    for score in (0.0, 0.5, 1.0):
        panel.rule(_height_of(score), _RULE)
        panel.text(_LEFT - 10, _height_of(score) + 4, f"{score:.1f}", _FAINT, text_anchor="end")
    for name, y in (("turn", _TURNS_Y), ("no_score", _UNSCORED_Y), ("rejections", _TAKEN_Y)):
        panel.text(_LEFT - 10, y, words[name], _FAINT, text_anchor="end")
    low, high = timeline.quality_threshold, timeline.checkpoint_threshold
    panel.rule(_height_of(low), _FAILED, dashes="6 4")
    panel.rule(_height_of(high), _MARK, dashes="2 4")
    # Close thresholds would write over each other.
    apart = max(0.0, 16 - (_height_of(low) - _height_of(high))) / 2
    x = _RIGHT + 8
    panel.text(x, _height_of(high) + 4 - apart, f"{words['saved_from']} ≥ {high:.2f}", _MARK)
    panel.text(x, _height_of(low) + 4 + apart, f"{words['fails_under']} < {low:.2f}", _FAILED)


def _curve(panel: _Panel, rows: Sequence[TurnRow]) -> None:
    step = (_RIGHT - _LEFT) / len(rows)
    places = [(round(_LEFT + (index + 0.5) * step, 1), row) for index, row in enumerate(rows)]
    for scored, run in groupby(places, key=lambda place: place[1].turn.score is not None):
        if scored:
            points = " ".join(f"{x},{_height_of(row.turn.score or 0.0)}" for x, row in run)
            panel.put("polyline", points=points, fill="none", stroke=_PASSED, stroke_width=1.5)
    for x, row in places:
        score, times = row.turn.score, row.turn.rollbacks
        panel.turn(x, _UNSCORED_Y - 4 if score is None else _height_of(score), row)
        if times:
            panel.cross(x, _TAKEN_Y - 4)
        if times > 1:
            panel.text(x + 7, _TAKEN_Y, str(times), _FAINT, font_size=11)
    every = -(-len(rows) // _TICKS)
    for x, row in places[::-1][::every]:
        panel.text(x, _TURNS_Y, str(row.turn.number), _FAINT, text_anchor="middle")


def _legend(panel: _Panel) -> None:
    words, x, y = panel.texts.table("picture_words"), _LEFT, _LEGEND_Y - 4
    for name in ("passed", "failed", "unscored", "checkpoint", "rejected"):
        if name == "checkpoint":
            panel.diamond(x, y)
        elif name == "rejected":
            panel.cross(x, y)
        else:
            panel.dot(x, y, name)
        panel.text(x + 16, _LEGEND_Y, words[name], _FAINT)
        x += 50 + 7 * cells_of(words[name])


def tree(timeline: TimelineData) -> _Panel:
    """Draw the turns from the top down, with branches as side branches.

    Without turns it shows the thread's name with counts, its start with the checkpoints there,
    and branches if there are any.
    """
    texts = texts_of(timeline)
    thread_outline, panel = outline(timeline, texts), _Panel(texts=texts)
    trunk = panel.put("line", x1=_TRUNK, x2=_TRUNK, stroke=_PASSED, stroke_width=2)
    panel.text(16, 26, summary_of(timeline, texts), font_weight="bold")
    y = 26 + _ROW
    place = {"x": _TRUNK - 5, "y": y - 5, "width": 10, "height": 10}
    if thread_outline.checkpoints_at_start:
        panel.diamond(_TRUNK, y)
    panel.put("rect", **place, fill=_PAPER, stroke=_PASSED, stroke_width=2)
    line = panel.text(_TRUNK + 16, y + 4, texts.say("tree_words.start"), _FAINT)
    for name in thread_outline.checkpoints_at_start:
        _put(line, "tspan", f"◆ {one_line(name, 24)}", dx=9, fill=_MARK)
    y = _branches(panel, y, thread_outline.at_start)
    if thread_outline.left_out:
        y += _ROW
        panel.text(_TRUNK + 16, y + 4, thread_outline.left_out, _FAINT)
    end = y
    for row in thread_outline.rows:
        y += _ROW
        end = y
        _turn(panel, y, row)
        y = _branches(panel, y, row.branches)
    trunk.attrib.update(y1=str(26 + _ROW), y2=str(end))
    if thread_outline.elsewhere:
        y += _ROW
        panel.text(16, y + 4, texts.say("tree_words.elsewhere"), _FAINT)
        y = _branches(panel, y, thread_outline.elsewhere, rooted=False)
    panel.height = y + _ROW
    return panel


def _turn(panel: _Panel, y: int, row: TurnRow) -> None:
    panel.turn(_TRUNK, y, row)
    panel.text(_TRUNK + 46, y + 4, str(row.turn.number), text_anchor="end", font_weight="bold")
    color = _FAILED if row.turn.outcome == "failed" else _INK
    panel.text(_TEXT - 8, y + 4, score_text(row.turn.score), color, text_anchor="end")
    tails = [(f"· {one_line(row.turn.topic, 20)}", _FAINT)] if row.turn.topic else []
    tails += [(f"◇ {one_line(name, 24)}", _MARK) for name in row.step_checkpoints]
    tails += [(f"◆ {one_line(name, 24)}", _MARK) for name in row.checkpoints]
    tails += [(f"[{note}]", _FAILED) for note in row.notes]
    free_width = _ROOM - sum(_breadth(words) + 1 for words, _ in tails)
    room = max(24, min(64, free_width))
    fitting = room * room // max(room, _breadth(question_of(row.turn, room, panel.texts)))
    line = panel.text(_TEXT, y + 4, question_of(row.turn, fitting, panel.texts))
    for words, fill in tails:
        _put(line, "tspan", words, dx=9, fill=fill)


def _breadth(words: str) -> int:
    """Return the width in cells of a proportional font, where capitals are wide."""
    return cells_of(words) + sum(char.isupper() for char in words) // 2


def _branches(panel: _Panel, y: int, branches: Sequence[BranchRef], *, rooted: bool = True) -> int:
    """Draw the branches of one place in rows below `y`; return the position of the last row.

    Without branches that is `y`. `rooted=False` draws no line from the trunk.
    """
    older = list(filter(None, [older_text(branches, panel.texts)]))
    newer_lines = [branch_text(branch, 72, panel.texts) for branch in branches[-SHOWN_BRANCHES:]]
    for number, words in enumerate([*older, *newer_lines]):
        y += _ROW
        if rooted:
            path = f"M{_TRUNK},{y - 12} q0,12 12,12 H{_BRANCH - 8}"
            panel.put("path", d=path, fill="none", stroke=_FAINT, stroke_dasharray="4 3")
        if number >= len(older):
            panel.cross(_BRANCH, y)
        panel.text(_BRANCH + 12, y + 4, words, _FAINT)
    return y


def picture(
    timeline: TimelineData, parts: Sequence[Callable[[TimelineData], _Panel]] = (scores, tree)
) -> ET.Element:
    """Return an SVG element with the `parts` of the picture below one another."""
    panels, texts = [part(timeline) for part in parts], texts_of(timeline)
    height = sum(panel.height for panel in panels)
    svg = ET.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "width": str(WIDTH),
            "height": str(height),
            "viewBox": f"0 0 {WIDTH} {height}",
            "role": "img",
            "font-family": "sans-serif",
            "font-size": "13",
            "style": "max-width:100%;height:auto",
        },
    )
    _put(svg, "title", summary_of(timeline, texts))
    _put(svg, "desc", _description(timeline, texts))
    _put(svg, "rect", width="100%", height="100%", rx=6, fill=_PAPER, stroke=_RULE)
    top = 0.0
    for panel in panels:
        panel.group.set("transform", f"translate(0 {top})")
        svg.append(panel.group)
        top += panel.height
    return svg


def _description(timeline: TimelineData, texts: Texts) -> str:
    words = texts.table("picture_words")
    turn_scores = [turn.score for turn in timeline.turns if turn.score is not None]
    span = words["no_scores"]
    if turn_scores:
        span = words["span"].format(least=f"{min(turn_scores):.2f}", most=f"{max(turn_scores):.2f}")
    failed = sum(turn.outcome == "failed" for turn in timeline.turns)
    return words["description"].format(
        span=span,
        failed=counted(failed, "failed_turn", texts),
        low=f"{timeline.quality_threshold:.2f}",
        high=f"{timeline.checkpoint_threshold:.2f}",
    )


def _table(timeline: TimelineData) -> ET.Element:
    details, texts = ET.Element("details"), texts_of(timeline)
    _put(details, "summary", texts.say("picture_words.table"))
    rows = []
    for row in outline(timeline, texts).rows:
        turn, names = row.turn, ", ".join((*row.step_checkpoints, *row.checkpoints))
        topic, question = one_line(turn.topic, 40), question_of(turn, 100, texts)
        score = score_text(turn.score)
        rows.append((str(turn.number), score, _result(row, texts), topic, question, names))
    columns = texts.say("picture_words.columns").split("|")
    details.append(_rows(summary_of(timeline, texts), columns, rows))
    return details


def table_html(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an HTML table for a notebook; the first cell of each row is its heading.

    Cells are cut to one line of 100 characters' width.
    """
    return ET.tostring(_rows(caption, columns, rows), encoding="unicode", method="html")


def _rows(caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> ET.Element:
    table = ET.Element("table")
    _put(table, "caption", caption)
    head = _put(_put(table, "thead"), "tr")
    for name in columns:
        _put(head, "th", name, scope="col")
    body = _put(table, "tbody")
    for first, *others in rows:
        line = _put(body, "tr")
        _put(line, "th", one_line(first, 100), scope="row")
        for cell in others:
            _put(line, "td", one_line(cell, 100))
    return table
