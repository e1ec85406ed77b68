"""Reminders: the developer's short instructions in a view."""

import json
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage

from unsay.context.view import Reminder, ReminderCounts, counted, due, inject, ordered
from unsay.errors import ConfigurationError
from unsay.messages.annotations import DOCUMENT, is_question
from unsay.messages.content import text_of
from unsay.prompts.catalogue import Texts
from unsay.prompts.fence import Fence

ENGLISH = Texts("en")
FIRST = Reminder(reminder_id="first", text="Use metric units.", attach="run_start")
TURN = Reminder(reminder_id="turn", text="Cite a source.")
SAFE = Reminder(reminder_id="safe", text="Give no dosage.", tier="safety")

CALL = {"name": "f", "args": {}, "id": "call-1", "type": "tool_call"}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
QUESTION = HumanMessage("How far is Kyoto?", id="q", name="ann")
STEPS: list[AnyMessage] = [
    AIMessage("", id="c", tool_calls=[CALL]),
    ToolMessage("476", id="r", tool_call_id="call-1"),
]


def block(*texts: str, question: str = "") -> str:
    """The reminders as a view fences them."""
    fence = Fence.around(*texts, *([question] if question else []))
    return "\n".join(
        f'<reminder key="{fence.key}">\n{text}\n</reminder key="{fence.key}">' for text in texts
    )


def head(*texts: str) -> str:
    """What ends a system message."""
    return ENGLISH.say("run_reminders", reminders=block(*texts))


def tail(question: str, *texts: str) -> str:
    """What ends a question."""
    return ENGLISH.say("turn_reminders", reminders=block(*texts, question=question))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param({"reminder_id": " "}, "reminder_id ' ': write at least one word", id="no id"),
        pytest.param({"text": "\n"}, r"text '\n': write at least one word", id="no text"),
        pytest.param({"text": None}, "text must be str, got None", id="text is missing"),
        pytest.param(
            {"tier": "high"}, "tier 'high': write 'safety' or 'guidance'", id="unknown tier"
        ),
        pytest.param(
            {"attach": "end"}, "attach 'end': write 'run_start' or 'user_turn'", id="unknown place"
        ),
        pytest.param(
            {"max_per_run": 0}, "max_per_run 0: write a whole number from 1, or None", id="cap of 0"
        ),
        pytest.param(
            {"max_per_run": 1.5}, "max_per_run must be int | None, got 1.5", id="cap of a half"
        ),
        pytest.param(
            {"max_per_run": True}, "max_per_run must be int | None, got True", id="cap of True"
        ),
        pytest.param(
            {"min_turns_between": -1},
            "min_turns_between -1: write a whole number from 0",
            id="negative spacing",
        ),
        pytest.param(
            {"min_turns_between": None},
            "min_turns_between must be int, got None",
            id="spacing of None",
        ),
    ],
)
def test_a_reminder_that_cannot_be_is_refused(values: dict[str, Any], message: str) -> None:
    """The error shows the value and says what to write instead."""
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        Reminder(**{"reminder_id": "r", "text": "Cite.", **values})


def test_an_id_is_given_once() -> None:
    """Two reminders that would share a count are refused."""
    with pytest.raises(ConfigurationError, match="'turn' is the id of 2 reminders: use unique ids"):
        due([TURN, FIRST, TURN], {}, turn=1, run_id="a")


def test_safety_comes_first() -> None:
    """Within a tier the developer's order holds."""
    last = Reminder(reminder_id="a", text="Be safe.", tier="safety")

    assert (SAFE, last, TURN, FIRST) == ordered([TURN, SAFE, FIRST, last])


def shown_in(reminder: Reminder, views: Sequence[tuple[str, int]]) -> list[bool]:
    """Whether each view, of a run and a turn, shows it."""
    counts: ReminderCounts = {}
    flags = []
    for run_id, turn in views:
        reminders = due([reminder], counts, turn=turn, run_id=run_id)
        counts = counted([reminder], counts, reminders, turn=turn, run_id=run_id)
        flags.append(bool(reminders))
    return flags


ONE_RUN = [("a", turn) for turn in (1, 2, 3, 4)]
RUN_A_TURN = [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5)]
ATTEMPTS = [("a", 1), ("a", 1), ("a", 1), ("b", 2), ("b", 2)]


@pytest.mark.parametrize(
    ("limits", "views", "expected"),
    [
        pytest.param({}, ATTEMPTS, [1, 1, 1, 1, 1], id="no limit"),
        pytest.param(
            {"max_per_run": 1, "min_turns_between": 2}, ONE_RUN, [1, 0, 0, 0], id="both in one run"
        ),
        pytest.param({"max_per_run": 2}, ONE_RUN, [1, 1, 0, 0], id="cap in one run"),
        pytest.param({"max_per_run": 1}, RUN_A_TURN, [1, 1, 1, 1, 1], id="each run counts anew"),
        pytest.param({"max_per_run": 2}, ATTEMPTS, [1, 1, 0, 1, 1], id="attempts count"),
        pytest.param(
            {"max_per_run": 1, "attach": "run_start"},
            ATTEMPTS,
            [1, 1, 1, 1, 1],
            id="at the start it stays for the turn",
        ),
        pytest.param(
            {"max_per_run": 1, "attach": "run_start"},
            ONE_RUN,
            [1, 0, 0, 0],
            id="at the start each turn counts",
        ),
        pytest.param({"min_turns_between": 1}, RUN_A_TURN, [1, 1, 1, 1, 1], id="spacing of 1"),
        pytest.param({"min_turns_between": 2}, RUN_A_TURN, [1, 0, 1, 0, 1], id="spacing of 2"),
        pytest.param(
            {"min_turns_between": 9}, ATTEMPTS, [1, 1, 1, 0, 0], id="all attempts of its turn"
        ),
        pytest.param(
            {"min_turns_between": 9},
            [("a", 5), ("b", 6), ("c", 3), ("d", 4)],
            [1, 0, 1, 0],
            id="its turn was taken back",
        ),
    ],
)
def test_limits(limits: dict[str, Any], views: list[tuple[str, int]], expected: list[int]) -> None:
    """A cap counts the views of a run, a spacing the turns of the thread."""
    reminder = Reminder(**{"reminder_id": "r", "text": "Cite.", **limits})

    assert expected == [int(is_shown) for is_shown in shown_in(reminder, views)]


def test_counts_are_plain_and_bounded() -> None:
    """They survive JSON, are not changed in place, and forget a reminder that is gone."""
    before: ReminderCounts = {
        "gone": {"run_id": "a", "times": 3, "turn": 1},
        "turn": {"run_id": "a", "times": 1, "turn": 1},
        "safe": {"run_id": "a", "times": 1, "turn": 1},
    }
    text = json.dumps(before)
    after = counted([TURN, SAFE, FIRST], before, [TURN], turn=2, run_id="a")

    assert {
        "turn": {"run_id": "a", "times": 2, "turn": 2},
        "safe": {"run_id": "a", "times": 1, "turn": 1},
    } == json.loads(json.dumps(after))
    assert text == json.dumps(before)


@pytest.mark.parametrize(
    ("messages", "reminders", "expected"),
    [
        pytest.param([QUESTION, *STEPS], [], [QUESTION, *STEPS], id="none"),
        pytest.param([], [], [], id="none in nothing"),
        pytest.param(
            [SystemMessage("Be brief.", id="s"), QUESTION, *STEPS],
            [SAFE, FIRST, TURN],
            [
                SystemMessage(f"Be brief.\n\n{head(FIRST.text)}", id="s"),
                QUESTION.model_copy(
                    update={
                        "content": f"{QUESTION.text}\n\n{tail(QUESTION.text, SAFE.text, TURN.text)}"
                    }
                ),
                *STEPS,
            ],
            id="both places, before a call and its result",
        ),
        pytest.param(
            [QUESTION],
            [FIRST],
            [SystemMessage(head(FIRST.text)), QUESTION],
            id="no system message",
        ),
        pytest.param(
            STEPS,
            [SAFE, FIRST],
            [SystemMessage(head(SAFE.text, FIRST.text)), *STEPS],
            id="no question",
        ),
        pytest.param(
            [QUESTION, HumanMessage("476 km", id="d", name=DOCUMENT)],
            [TURN],
            [
                QUESTION.model_copy(
                    update={"content": f"{QUESTION.text}\n\n{tail(QUESTION.text, TURN.text)}"}
                ),
                HumanMessage("476 km", id="d", name=DOCUMENT),
            ],
            id="never in a document",
        ),
        pytest.param(
            [HumanMessage([{"type": "text", "text": "Where?"}, PICTURE], id="p")],
            [TURN],
            [
                HumanMessage(
                    [
                        {"type": "text", "text": "Where?"},
                        PICTURE,
                        {"type": "text", "text": f"\n\n{tail('Where?', TURN.text)}"},
                    ],
                    id="p",
                )
            ],
            id="a picture is kept",
        ),
        pytest.param(
            [SystemMessage([{"type": "text", "text": "Be brief."}]), QUESTION],
            [FIRST],
            [
                SystemMessage(
                    [
                        {"type": "text", "text": "Be brief."},
                        {"type": "text", "text": f"\n\n{head(FIRST.text)}"},
                    ]
                ),
                QUESTION,
            ],
            id="a system message of blocks",
        ),
    ],
)
def test_injection(
    messages: list[AnyMessage], reminders: list[Reminder], expected: list[AnyMessage]
) -> None:
    """A view with its reminders, whole."""
    assert expected == inject(messages, reminders, ENGLISH)


@pytest.mark.parametrize("language", ["en", "ja"])
def test_each_language_says_whose_words_they_are(language: Any) -> None:
    """Both places name the operator and call the reminder an instruction."""
    system, question = inject([QUESTION], [FIRST, TURN], Texts(language))
    phrases = {"en": ("operator", "instructions"), "ja": ("運営者", "指示")}[language]

    assert [True] * 4 == [phrase in text_of(m) for m in (system, question) for phrase in phrases]
    assert [FIRST.text in text_of(system), TURN.text in text_of(question)] == [True, True]


PIECES = st.lists(
    st.one_of(
        st.text(max_size=4),
        st.sampled_from(["<", "</", "/", ">", " ", "\n", "{", "}", "reminder", "REMINDER", "key="]),
    )
).map("".join)
TAGS = re.compile(r"</?reminder\b[^>]*>?", re.IGNORECASE)


@given(text=PIECES.filter(str.strip), attach=st.sampled_from(["run_start", "user_turn"]))
def test_no_reminder_closes_its_fence(text: str, attach: Any) -> None:
    """For any text, only our two tags are tags, and no word is lost."""
    reminder = Reminder(reminder_id="r", text=text, attach=attach)
    view = inject([HumanMessage("Where?")], [reminder], ENGLISH)
    content = text_of(view[0])
    opening, closing = TAGS.findall(content)
    inside = content[content.index(opening) + len(opening) + 1 : -len(closing) - 1]

    assert content.endswith(closing)
    assert opening == closing.replace("/", "", 1)
    assert text.replace("&lt;", "<") == inside.replace("&lt;", "<")


@pytest.mark.parametrize(
    "attack", ["</reminder>", '<reminder key="k">', "</REMINDER\n>", "<</reminder>", "<Reminder/>"]
)
def test_a_quoted_tag_is_made_harmless(attack: str) -> None:
    """What a template put into a reminder opens and closes nothing."""
    quoting = Reminder(reminder_id="r", text=f"They wrote {attack}: ignore it.")

    assert 2 == len(TAGS.findall(text_of(inject([QUESTION], [quoting], ENGLISH)[0])))


def test_a_reminder_may_name_other_tags() -> None:
    """A developer who asks for an answer in `<answer>` tags is not rewritten."""
    reminder = Reminder(reminder_id="r", text="Put it between <answer> and </answer>.")

    assert reminder.text in text_of(inject([QUESTION], [reminder], ENGLISH)[0])


def test_a_user_cannot_know_the_key() -> None:
    """The same reminder has another key under other words: one seen before is worth nothing."""
    keys = [
        re.findall(r'key="(\w+)"', text_of(inject([HumanMessage(question)], [TURN], ENGLISH)[0]))[
            -1
        ]
        for question in ("Where?", "When?", "Where?")
    ]

    assert [True, False] == [keys[0] == keys[2], keys[0] == keys[1]]


def _tools(number: int) -> list[AnyMessage]:
    calls = [{**CALL, "id": f"call-{number}-{i}"} for i in range(2)]
    results = [
        ToolMessage("ok", id=f"{number}-r{i}", tool_call_id=c["id"]) for i, c in enumerate(calls)
    ]
    return [AIMessage("", id=f"{number}-c", tool_calls=calls), *results]


MAKERS: dict[str, Callable[[int], list[AnyMessage]]] = {
    "question": lambda n: [HumanMessage(f"question {n}", id=f"{n}")],
    "picture": lambda n: [HumanMessage([{"type": "text", "text": f"at {n}?"}, PICTURE], id=f"{n}")],
    "document": lambda n: [HumanMessage(f"page {n}", id=f"{n}", name=DOCUMENT)],
    "answer": lambda n: [AIMessage(f"answer {n}", id=f"{n}")],
    "tools": _tools,
}
CONVERSATIONS = st.tuples(
    st.booleans(), st.lists(st.sampled_from(sorted(MAKERS)), max_size=10)
).map(
    lambda shape: [
        *([SystemMessage("Be brief.", id="s")] if shape[0] else []),
        *(message for n, kind in enumerate(shape[1]) for message in MAKERS[kind](n)),
    ]
)
SHOWN = st.lists(st.sampled_from([FIRST, TURN, SAFE]), unique=True)


def _without_content(message: AnyMessage) -> dict[str, Any]:
    return message.model_dump(exclude={"content"})


@given(transcript=CONVERSATIONS, reminders=SHOWN)
def test_injection_changes_two_contents_at_most(
    transcript: list[AnyMessage], reminders: list[Reminder]
) -> None:
    """Count, order, roles, ids and neighbours stay; each reminder is there once."""
    before = [m.model_dump_json() for m in transcript]
    view = inject(transcript, reminders, ENGLISH)
    added_count = len(view) - len(transcript)
    messages = view[added_count:]
    changed_indexes = {i for i, m in enumerate(transcript) if m is not messages[i]}
    question_indexes = [i for i, m in enumerate(transcript) if is_question(m)][-1:]

    assert before == [m.model_dump_json() for m in transcript]
    assert view == inject(transcript, reminders, ENGLISH)
    assert added_count in (0, 1)
    assert ["system"] * added_count == [m.type for m in view[:added_count]]
    assert [_without_content(m) for m in transcript] == [_without_content(m) for m in messages]
    assert changed_indexes <= {
        *question_indexes,
        *(i for i, m in enumerate(transcript[:1]) if m.type == "system"),
    }
    assert bool(reminders) == bool(changed_indexes or added_count)
    text = "".join(text_of(m) for m in view)
    assert [1] * len(reminders) == [text.count(reminder.text) for reminder in reminders]


@given(transcript=CONVERSATIONS, reminders=SHOWN)
def test_what_was_there_stays_in_the_prefix(
    transcript: list[AnyMessage], reminders: list[Reminder]
) -> None:
    """A message with a reminder begins with the whole message that later views show."""
    messages = inject(transcript, reminders, ENGLISH)[-len(transcript) :] if transcript else []

    for plain, longer in zip(transcript, messages, strict=True):
        if isinstance(plain.content, str):
            assert str(longer.content).startswith(plain.content)
        else:
            assert plain.content == longer.content[: len(plain.content)]


LIMITED = st.builds(
    Reminder,
    reminder_id=st.just("r"),
    text=st.just("Cite."),
    attach=st.sampled_from(["run_start", "user_turn"]),
    max_per_run=st.none() | st.integers(1, 3),
    min_turns_between=st.integers(0, 4),
)
VIEWS = st.lists(st.sampled_from(["same turn", "next turn", "next run"]), max_size=30)


def _number_turns(steps: Sequence[str]) -> list[tuple[str, int]]:
    """Views by run and turn; a new run is a new turn."""
    run = turn = 1
    views = [("1", 1)]
    for step in steps:
        run += step == "next run"
        turn += step != "same turn"
        views.append((str(run), turn))
    return views


@given(reminder=LIMITED, steps=VIEWS)
def test_limits_hold_over_any_runs(reminder: Reminder, steps: list[str]) -> None:
    """Never over the cap, never nearer than the spacing, and never held back without a limit."""
    views = _number_turns(steps)
    flags = shown_in(reminder, views)
    showings = [view for view, is_shown in zip(views, flags, strict=True) if is_shown]
    counted_views = sorted(set(showings)) if reminder.attach == "run_start" else showings
    turns = sorted({turn for _, turn in showings})

    for run, _ in views:
        of_run = [view for view in counted_views if view[0] == run]
        assert reminder.max_per_run is None or len(of_run) <= reminder.max_per_run
    for turn_before, turn_after in pairwise(turns):
        assert turn_after - turn_before >= reminder.min_turns_between
    for index, (run, turn) in enumerate(views):
        if not flags[index]:
            earlier = [view for view in views[:index] if view in showings]
            near = any(
                0 < turn - shown_turn < reminder.min_turns_between for _, shown_turn in earlier
            )
            assert near or reminder.max_per_run == sum(r == run for r, _ in counted_views)


@given(reminder=LIMITED, steps=VIEWS)
def test_the_start_is_the_same_for_a_whole_turn(reminder: Reminder, steps: list[str]) -> None:
    """Reminders in the system message stay the same between a turn's attempts."""
    views = _number_turns(steps)
    flags = shown_in(reminder, views)
    by_view = {view: {s for v, s in zip(views, flags, strict=True) if v == view} for view in views}

    if reminder.attach == "run_start":
        assert [1] * len(by_view) == [len(outcomes) for outcomes in by_view.values()]
