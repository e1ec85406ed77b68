"""A thread drawn as text, as pictures and as a page."""

import re
from collections import Counter
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unsay.conversation.timeline import Timeline
from unsay.messages.content import cells_of
from unsay.results.results import Checkpoint
from unsay.results.svg import mimebundle, picture, picture_html, picture_svg, scores, tree
from unsay.results.timeline import PendingQuestion, TimelineTurn, one_line, tree_text
from unsay.types import BranchRef

SVG = "{http://www.w3.org/2000/svg}"

HOSTILE = {
    "markup": "<script>alert(1)</script> & \"quotes\" ]]> 'more'",
    "control characters": "bell \x07, escape \x1b[31m, null \x00, \x85 and \ufffe \uffff",
    "surrogate": "half \ud83d of a pair",
    "direction": "\u202eright to left\u202c \u2066isolated\u2069",
    "lines": "one\ntwo\r\nthree\u2028four",
    "japanese": "リスト内包表記とは何ですか? 絵文字 😀 も",
    "blank": " \t\n ",
    "long": "word " * 50_000,
}


def turn(number: int, **changes: Any) -> TimelineTurn:
    """A turn that passed, but for the changes."""
    fields: dict[str, Any] = {
        "number": number,
        "question": f"Question {number}?",
        "answer": "An answer.",
        "message_id": f"a{number}",
        "question_id": f"q{number}",
        "score": 0.9,
        "outcome": "passed",
        "reason": "",
        "topic": "lists",
        "flag": None,
        "rollbacks": 0,
    }
    return TimelineTurn(**{**fields, **changes})


def annotation(message_id: str, name: str | None = None, *, number: int = 1) -> Checkpoint:
    """A checkpoint at a message."""
    return Checkpoint(
        id=f"cp-{message_id}",
        name=name,
        message_id=message_id,
        turn=number,
        score=0.9,
        topic="lists",
        reason="score",
        created_at="2026-01-01T00:00:00+00:00",
    )


def branch(
    base: str | None, kind: Any = "draft", reason: str = "too short", size: int = 1
) -> BranchRef:
    """A branch that hangs from a message."""
    return BranchRef(
        id=f"branch-{base}-{kind}",
        kind=kind,
        base=base,
        reason=reason,
        created_at="2026-01-01T00:00:00+00:00",
        size=size,
    )


def timeline(*turns: TimelineTurn, **changes: Any) -> Timeline:
    """A thread with these turns."""
    fields: dict[str, Any] = {
        "thread_id": "t",
        "turns": turns,
        "checkpoints": (),
        "branches": (),
        "topics": (),
        "current_topic": "",
        "quality_threshold": 0.5,
        "checkpoint_threshold": 0.8,
    }
    return Timeline(**{**fields, **changes})


FULL = timeline(
    turn(1),
    turn(2, score=None, outcome="unscored", topic="weather"),
    turn(3, score=0.314, outcome="failed", flag="low_quality", rollbacks=2),
    turn(4, question="デコレータとは?", topic="装飾", score=0.6),
    turn(5, answer=None, message_id="q5", score=None, outcome=None),
    checkpoints=(annotation("a1", "basics"), annotation("a4")),
    branches=(
        branch(None, "person", "start", 4),
        branch("a2"),
        branch("a2", "rejected", ""),
        branch("gone", "undo", "/undo", 2),
    ),
)

FULL_TEXT = """\
Thread t: 5 turns, 2 checkpoints, 4 branches
○ start
│  ╌╌ × rolled back, 4 messages: start
├─ 1 0.90 lists   Question 1? ◆ basics
├─ 2    – weather Question 2?
│  ╌╌ × draft rejected, 1 message: too short
│  ╌╌ × draft not delivered, 1 message
├─ 3 0.31 lists   Question 3? [low quality] [rejected 2 times]
├─ 4 0.60 装飾    デコレータとは? ◆ cp-a4
└─ 5    – lists   Question 5? [waits for an answer]
other branches
   ╌╌ × undone, 2 messages: /undo"""


JAPANESE = replace(FULL, language="ja")

JAPANESE_TEXT = """\
スレッド t: 5ターン、2件のチェックポイント、4件のブランチ
○ 先頭
│  ╌╌ × ロールバック、4件: start
├─ 1 0.90 lists   Question 1? ◆ basics
├─ 2    – weather Question 2?
│  ╌╌ × 不合格の下書き、1件: too short
│  ╌╌ × 未採用の下書き、1件
├─ 3 0.31 lists   Question 3? [低品質] [不合格が2回]
├─ 4 0.60 装飾    デコレータとは? ◆ cp-a4
└─ 5    – lists   Question 5? [回答待ち]
その他のブランチ
   ╌╌ × 取り消し、2件: /undo"""


def score_svg(shown_timeline: Timeline) -> str:
    """Only the scores."""
    return ET.tostring(picture(shown_timeline, [scores]), encoding="unicode")


def tree_svg(shown_timeline: Timeline) -> str:
    """Only the tree."""
    return ET.tostring(picture(shown_timeline, [tree]), encoding="unicode")


PICTURES = {"picture": picture_svg, "scores": score_svg, "tree": tree_svg}

THREADS = {
    "full": FULL,
    "empty": timeline(),
    "all taken back": timeline(branches=(branch(None, "person", "rollback", 4),)),
    "never scored": timeline(turn(1, score=None, outcome=None)),
    "extremes": timeline(turn(1, score=0.0, outcome="failed"), turn(2, score=1.0)),
    "one threshold": timeline(turn(1), quality_threshold=0.0, checkpoint_threshold=0.0),
    "long": timeline(*(turn(number) for number in range(1, 1001))),
}


def svg_root(svg: str) -> ET.Element:
    """The picture, read back."""
    return ET.fromstring(svg)  # noqa: S314 - what we drew ourselves


def words_of(svg: str) -> list[str]:
    """What is written in a picture, line by line."""
    return ["".join(line.itertext()) for line in svg_root(svg).iter(f"{SVG}text")]


def fills_of(svg: str) -> Counter[tuple[str, str]]:
    """Shapes with a tooltip, by tag and fill: the marks of the turns."""
    shapes = svg_root(svg).iterfind(f"{SVG}g/*")
    marks = [element for element in shapes if element.find(f"{SVG}title") is not None]
    return Counter((mark.tag.removeprefix(SVG), mark.get("fill", "")) for mark in marks)


def everything(*, text: str) -> Timeline:
    """A thread in which every text is the given one."""
    return timeline(
        turn(1, question=text, topic=text, reason=text, flag=text),
        thread_id=text,
        checkpoints=(annotation("a1", text),),
        branches=(branch("a1", reason=text), branch("gone", reason=text)),
    )


def test_text_shows_everything() -> None:
    """The tree names turns, scores, topics, checkpoints, flags, and branches where they hang."""
    assert FULL_TEXT == tree_text(FULL)
    assert JAPANESE_TEXT == tree_text(JAPANESE)


def test_text_of_an_empty_thread() -> None:
    """A thread without turns says so."""
    expected = "Thread t: 0 turns, 0 checkpoints, 0 branches\nThere are no messages yet."
    assert expected == tree_text(timeline())


def test_colours_add_nothing_but_colours() -> None:
    """Without its escape sequences the coloured tree is the plain one."""
    colored_text = tree_text(FULL, color=True)
    assert "\x1b[31m0.31\x1b[0m" in colored_text
    for code in ("0", "1", "2", "31", "32", "36"):
        colored_text = colored_text.replace(f"\x1b[{code}m", "")
    assert FULL_TEXT == colored_text


def test_question_column_is_straight() -> None:
    """Questions begin in the same terminal cell for any width of the topic before them."""
    topics = ("lists", "装飾", "", "ﾊﾝｶｸ", "a topic that is far too long to be shown whole")
    text = tree_text(timeline(*(turn(n, topic=topic) for n, topic in enumerate(topics, 1))))
    starts = {cells_of(line.split("Question")[0]) for line in text.splitlines()[2:]}
    assert 1 == len(starts)


def test_checkpoint_at_a_question_is_kept() -> None:
    """A checkpoint without an answer is shown at the turn that it was made after."""
    shown_timeline = timeline(turn(1), turn(2), checkpoints=(annotation("q3", "here", number=2),))
    assert "└─ 2 0.90 lists Question 2? ◆ here" == tree_text(shown_timeline).splitlines()[-1]


def test_many_branches_in_one_place() -> None:
    """Of many branches in one place the newest are shown, and the others are counted."""
    branches = tuple(branch("a1", "undo", f"step {n}") for n in range(20))
    shown_timeline = timeline(turn(1), branches=branches)
    lines = tree_text(shown_timeline).splitlines()
    assert "   ╌╌ 8 older branches not shown" == lines[3]
    assert "   ╌╌ × undone, 1 message: step 19" == lines[-1]
    assert "8 older branches not shown" in words_of(tree_svg(shown_timeline))


def test_capitals_get_less_room() -> None:
    """A question in capitals, which are wide, is cut shorter than one in small letters."""
    small, capital = (
        max(map(len, words_of(tree_svg(timeline(turn(1, question=text * 99))))))
        for text in ("mw", "MW")
    )
    assert capital < small


def test_long_thread_shows_its_newest_turns() -> None:
    """Of a thousand turns the newest are shown, and how many are hidden is said."""
    shown_timeline = timeline(*THREADS["long"].turns, branches=(branch("a3"), branch("a999")))
    lines = tree_text(shown_timeline).splitlines()
    assert "┊ 940 earlier turns not shown, 1 branch at them" == lines[2]
    assert ["├─  941 0.90", "└─ 1000 0.90"] == [lines[3][:12], lines[-1][:12]]
    assert 60 == fills_of(score_svg(shown_timeline)).total()
    assert "940 earlier turns not shown, 1 branch at them" in words_of(tree_svg(shown_timeline))


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES)
@pytest.mark.parametrize("shown_timeline", THREADS.values(), ids=THREADS)
def test_pictures_stand_alone(picture: Any, shown_timeline: Timeline) -> None:
    """A picture is well-formed, is called an image, names itself, and has its own background."""
    root = svg_root(picture(shown_timeline))
    assert [f"{SVG}svg", "img"] == [root.tag, root.get("role")]
    assert [f"{SVG}title", f"{SVG}desc", f"{SVG}rect"] == [element.tag for element in root[:3]]
    assert all(element.text for element in root[:2])
    assert ["100%", "100%"] == [root[2].get("width"), root[2].get("height")]


@pytest.mark.parametrize("shown_timeline", THREADS.values(), ids=THREADS)
def test_shapes_stay_on_the_paper(shown_timeline: Timeline) -> None:
    """Every number that places something lies within the picture."""
    root = svg_root(picture_svg(shown_timeline))
    width = float(root.get("width", ""))
    height = float(root.get("height", ""))
    for panel in root.iter(f"{SVG}g"):
        top = float(panel.get("transform", "").removesuffix(")").split()[1])
        for shape in panel.iter():
            across = [float(shape.get(key, "0")) for key in ("x", "x1", "x2", "cx")]
            down = [float(shape.get(key, "0")) + top for key in ("y", "y1", "y2", "cy")]
            assert all(0 <= x <= width for x in across)
            assert all(0 <= y <= height for y in down)


def test_symbols_differ_in_shape() -> None:
    """Failed turns are another shape and another colour, and unscored ones are hollow."""
    expected = {("circle", "#0b5cad"): 2, ("path", "#b3261e"): 1, ("circle", "#ffffff"): 2}
    assert expected == fills_of(score_svg(FULL)) == fills_of(tree_svg(FULL))


def test_curve_has_gaps() -> None:
    """The line joins neighbours that have a score, and nothing across the gap."""
    lines = [
        line.get("points", "").split() for line in svg_root(score_svg(FULL)).iter(f"{SVG}polyline")
    ]
    assert [1, 2] == [len(points) for points in lines]


def test_thresholds_are_dashed_and_named() -> None:
    """Both thresholds are dashed in different rhythms and carry their values."""
    dashes = {line.get("stroke-dasharray") for line in svg_root(score_svg(FULL)).iter(f"{SVG}line")}
    assert {"none", "6 4", "2 4"} == dashes
    assert {"checkpoint ≥ 0.80", "fails < 0.50"} < set(words_of(score_svg(FULL)))


@pytest.mark.parametrize(
    ("language", "waits", "decides"),
    [("en", "waits for an answer", "waits for a decision"), ("ja", "回答待ち", "決定待ち")],
)
def test_a_turn_that_waits_for_a_person_says_so(language: Any, waits: str, decides: str) -> None:
    """In the tree, in the picture and in the table, and as a question that is no turn yet."""
    question_turn = turn(1, question="Q", answer=None, message_id="q1", score=None, outcome=None)
    request = {"action_requests": [{"name": "deliver_answer"}]}
    pending = PendingQuestion(question="Q", question_id="q1", request=request)
    pending_timeline = replace(timeline(question_turn), language=language, pending=pending)
    assert (
        f"[{decides}]" in str(pending_timeline),
        picture_html(pending_timeline).count(decides),
    ) == (True, 4)
    assert f"[{decides}]" in str(replace(pending_timeline, turns=()))
    stopped_timeline = replace(pending_timeline, pending=replace(pending, request=None))
    assert f"[{waits}]" in str(stopped_timeline)


def test_what_was_taken_back_is_counted() -> None:
    """A turn that was rolled back twice has a cross with a two."""
    assert "2" in words_of(score_svg(timeline(turn(1, rollbacks=2))))
    assert "2" not in words_of(score_svg(timeline(turn(1, rollbacks=1))))


def test_tree_writes_what_the_text_says() -> None:
    """The drawn tree has the turns, tails and branches of the text."""
    texts = words_of(tree_svg(FULL))
    assert "Question 3?· lists[low quality][rejected 2 times]" in texts
    assert "デコレータとは?· 装飾◆ cp-a4" in texts
    assert "rolled back, 4 messages: start" in texts
    assert texts.index("other branches") < texts.index("undone, 2 messages: /undo")


def test_checkpoints_at_the_start_are_drawn() -> None:
    """The text and the drawn tree name them, and the tree has one more diamond."""
    plain = timeline(turn(1))
    at_start = replace(annotation("start", "plan", number=0), message_id=None)
    timeline_with_marks = timeline(turn(1), checkpoints=(at_start,))
    assert "○ start ◆ plan" in str(timeline_with_marks)
    assert "start◆ plan" in words_of(tree_svg(timeline_with_marks))
    assert "start" in words_of(tree_svg(plain))
    assert tree_svg(plain).count("<path") + 1 == tree_svg(timeline_with_marks).count("<path")


def test_close_thresholds_do_not_overlap() -> None:
    """The names of two equal thresholds stand below one another."""
    shown_timeline = timeline(turn(1), quality_threshold=0.8, checkpoint_threshold=0.8)
    names = [
        e
        for e in svg_root(score_svg(shown_timeline)).iter(f"{SVG}text")
        if "0.80" in (e.text or "")
    ]
    assert 16 == float(names[1].get("y", "")) - float(names[0].get("y", ""))


@pytest.mark.parametrize("hostile_text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_words_are_only_words(hostile_text: str) -> None:
    """For any text, the pictures are well-formed and harmless."""
    bundle = mimebundle(everything(text=hostile_text))
    for key in ("image/svg+xml", "text/html"):
        tags = {element.tag.removeprefix(SVG) for element in svg_root(bundle[key]).iter()}
        assert "script" not in tags
    for text in bundle.values():
        text.encode()
        assert all(char.isprintable() or char == "\n" for char in text)
    assert 6 == len(bundle["text/plain"].splitlines())


@given(st.text(st.characters(exclude_categories=()), max_size=80))
def test_any_words_can_be_drawn(hostile_text: str) -> None:
    """There is no text that breaks a picture."""
    bundle = mimebundle(everything(text=hostile_text))
    svg_root(bundle["image/svg+xml"])
    svg_root(bundle["text/html"])


@given(st.text(st.characters(exclude_categories=()), max_size=60), st.integers(1, 40))
def test_one_line_fits(text: str, cells: int) -> None:
    """A shortened text never takes more cells than there are, and shortening is idempotent."""
    line = one_line(text, cells)
    assert cells_of(line) <= cells
    assert line == one_line(line, cells)


def test_page_has_the_picture_and_a_table() -> None:
    """The page holds the picture and a table with headings for columns and rows."""
    page = svg_root(picture_html(FULL))
    assert page.find(f"{SVG}svg") is not None
    assert ["col"] * 6 == [cell.get("scope") for cell in page.iterfind(".//thead/tr/th")]
    row = page.findall(".//tbody/tr")[2]
    result = "failed, low quality, rejected 2 times"
    assert ["3", "0.31", result, "lists", "Question 3?", None] == [cell.text for cell in row]


def test_page_of_an_empty_thread_has_no_table() -> None:
    """Without turns there is nothing to list."""
    page = svg_root(picture_html(timeline()))
    assert page.find(".//table") is None
    assert any("There are no messages yet." in text for text in page.itertext())


def test_bundle_formats() -> None:
    """A notebook can choose among four formats, and the text is the tree."""
    bundle = mimebundle(FULL)
    assert ["text/plain", "text/markdown", "image/svg+xml", "text/html"] == list(bundle)
    assert [FULL_TEXT, picture_svg(FULL)] == [bundle["text/plain"], bundle["image/svg+xml"]]
    assert f"```text\n{FULL_TEXT}\n```" == bundle["text/markdown"]


def test_markdown_fence_is_longer_than_any_within() -> None:
    """Backticks in a question cannot close the code block of the tree."""
    text = mimebundle(timeline(turn(1, question="what is ```` for?")))["text/markdown"]
    assert ["`````text", "`````"] == [text.splitlines()[0], text.splitlines()[-1]]


def test_the_picture_of_a_japanese_thread() -> None:
    """Its own words are Japanese: in the picture, in what is read aloud, and in the table."""
    user_pattern = re.compile(
        r"Question \d|lists|weather|basics|cp-a4|too short|: start|/undo|スレッド t"
    )
    page = svg_root(picture_html(JAPANESE))
    texts = [user_pattern.sub("", text) for text in page.itertext()]
    assert [] == [text for text in texts if re.search("[A-Za-z]", text)]
    assert (
        "スコアは0.31から0.90、1ターンが不合格。0.50未満は不合格、0.80以上はチェックポイントになります。"
        in texts
    )
    assert "メッセージはまだありません。" in words_of(picture_svg(timeline(language="ja")))
