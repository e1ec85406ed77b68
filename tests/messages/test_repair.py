from copy import deepcopy

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from tests.transcripts import (
    IMAGE,
    REASONED,
    REDACTED,
    SIGNED,
    UNSIGNED,
    interrupted_transcripts,
    valid_transcripts,
    wild_transcripts,
)
from unsay.errors import EmptyMessageError
from unsay.messages.annotations import annotate, annotation_of
from unsay.messages.boundaries import INTERRUPTED, repair
from unsay.messages.call_rules import Fault
from unsay.messages.conformance import OPENING_ID, conform, faults, merge_neighbours
from unsay.messages.content import Thinking, parts_of
from unsay.types import Provider

ANY = st.one_of(valid_transcripts(), interrupted_transcripts(), wild_transcripts())
PROVIDERS: tuple[Provider, ...] = ("openai", "anthropic", "bedrock", "gemini")
OPENING = "Please go on."
TEXT_A = {"type": "text", "text": "a"}
TEXT_B = {"type": "text", "text": "b"}


def _ask(text: str = "q", **options: str) -> HumanMessage:
    return HumanMessage(text, **options)


def _call(*ids: str | None, name: str = "t", **options: object) -> AIMessage:
    calls = [{"id": call_id, "name": name, "args": {}} for call_id in ids]
    return AIMessage(options.pop("content", ""), tool_calls=calls, **options)


def _result(call_id: str, text: str = "r", **options: str) -> ToolMessage:
    return ToolMessage(text, tool_call_id=call_id, **options)


def _missing_result(call_id: str) -> ToolMessage:
    return _result(call_id, INTERRUPTED, status="error", name="t", id=f"interrupted-{call_id}")


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param(
            [_ask(), _call("a"), _ask("go on")],
            [_ask(), _call("a"), _missing_result("a"), _ask("go on")],
            id="interrupted",
        ),
        pytest.param(
            [_ask(), _call("a")], [_ask(), _call("a"), _missing_result("a")], id="trailing"
        ),
        pytest.param(
            [_call("a", "b", "c"), _result("c"), _result("a")],
            [_call("a", "b", "c"), _result("c"), _result("a"), _missing_result("b")],
            id="batch-in-its-own-order",
        ),
        pytest.param(
            [_call("a", "b"), _result("b")],
            [_call("a", "b"), _missing_result("a"), _result("b")],
            id="first-of-a-batch",
        ),
        pytest.param([_result("a"), AIMessage("x")], [AIMessage("x")], id="orphan"),
        pytest.param(
            [_call("a"), _result("a"), _result("a", "again"), _result("z")],
            [_call("a"), _result("a")],
            id="doubled-and-stray",
        ),
        pytest.param(
            [_ask(), _call("a"), _ask("wait"), _result("a")],
            [_ask(), _call("a"), _result("a"), _ask("wait")],
            id="strayed",
        ),
        pytest.param(
            [_result("a", "early"), _call("a")],
            [_call("a"), _missing_result("a")],
            id="result-before-call",
        ),
        pytest.param(
            [_call("a"), _result("a", "1"), _call("a"), _result("a", "2")],
            [_call("a"), _result("a", "1"), _call("a-2"), _result("a-2", "2")],
            id="id-used-again",
        ),
        pytest.param(
            [_call("a", "a"), _result("a", "1"), _result("a", "2")],
            [_call("a", "a-2"), _result("a", "1"), _result("a-2", "2")],
            id="id-twice-in-one-message",
        ),
        pytest.param(
            [_call("a", "a-2"), _result("a"), _result("a-2"), _call("a")],
            [_call("a", "a-2"), _result("a"), _result("a-2"), _call("a-3"), _missing_result("a-3")],
            id="new-id-is-taken",
        ),
        pytest.param(
            [_ask(), _ask("again"), AIMessage(""), SystemMessage("s")],
            [_ask(), _ask("again"), AIMessage(""), SystemMessage("s")],
            id="words-are-left-alone",
        ),
    ],
)
def test_interrupted_steps_are_made_whole(
    messages: list[AnyMessage], expected: list[AnyMessage]
) -> None:
    """Each call has one result right behind it, and nothing else changes."""
    assert expected == repair(messages)


def test_call_without_an_id_gets_one_with_its_result() -> None:
    """Calls that came without ids and their results are matched in order."""
    call, first, second = repair([_call(None, None), _result("", "1"), _result("", "2")])

    assert [call["id"] for call in call.tool_calls] == [first.tool_call_id, second.tool_call_id]
    assert ["1", "2"] == [first.content, second.content]
    assert len({first.tool_call_id, second.tool_call_id, ""}) == 3


def test_call_in_the_content_alone_is_declared_and_answered() -> None:
    """A call that only a content block names moves to where every provider finds it."""
    block = {"type": "tool_use", "id": "a", "name": "t", "input": {"q": 1}}
    text = {"type": "text", "text": "hm"}

    call, result = repair([AIMessage([text, block])])

    message = AIMessage([text], tool_calls=[{"id": "a", "name": "t", "args": {"q": 1}}])
    assert message == call
    assert "a" == result.tool_call_id


def test_raw_calls_go_when_ids_change() -> None:
    """The provider's own copy of the calls does not survive with the old ids."""
    raw = {"tool_calls": [{"id": "a"}], "other": 1}
    duplicate = _call("a", additional_kwargs=raw)

    assert {"other": 1} == repair([_call("a"), duplicate])[2].additional_kwargs


def test_text_of_the_error_is_the_callers() -> None:
    """The error of an unanswered call says what the caller wants it to say."""
    assert "中断されました" == repair([_call("a")], interrupted="中断されました")[1].content


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param([_ask(), _call("a")], [_ask(), _call("a")], id="nothing-yet"),
        pytest.param(
            [_ask(), _call("a", "b"), _result("b")],
            [_ask(), _call("a", "b"), _result("b")],
            id="one-of-two",
        ),
        pytest.param(
            [_call("a"), _ask(), _call("b")],
            [_call("a"), _missing_result("a"), _ask(), _call("b")],
            id="only-the-last-step",
        ),
        pytest.param(
            [_call("a"), _ask()], [_call("a"), _missing_result("a"), _ask()], id="user-went-on"
        ),
    ],
)
def test_pending_tools_are_waited_for(
    messages: list[AnyMessage], expected: list[AnyMessage]
) -> None:
    """While tools are at work, the last step's calls stay unanswered; earlier ones do not."""
    assert expected == repair(messages, pending=True)


@given(messages=ANY, pending=st.booleans())
def test_repair_is_idempotent(messages: list[AnyMessage], *, pending: bool) -> None:
    """What was repaired needs no repair, object by object."""
    once = repair(messages, pending=pending)

    assert list(map(id, once)) == list(map(id, repair(once, pending=pending)))


@given(messages=st.one_of(interrupted_transcripts(), wild_transcripts()))
def test_repaired_calls_are_whole(messages: list[AnyMessage]) -> None:
    """After repair no fault of calls and results is left by the common rules."""
    assert [] == [fault for fault in faults(repair(messages)) if _about_calls(fault)]


def _about_calls(fault: Fault) -> bool:
    return fault.rule.startswith(("call", "result"))


@given(messages=valid_transcripts())
def test_repair_leaves_what_is_valid(messages: list[AnyMessage]) -> None:
    """A transcript that holds together comes back as the same objects in a new list."""
    messages_repaired = repair(messages)

    assert list(map(id, messages)) == list(map(id, messages_repaired))
    assert messages_repaired is not messages


@given(messages=ANY)
def test_input_is_never_changed(messages: list[AnyMessage]) -> None:
    """Neither repair nor conform changes its input."""
    before = deepcopy(messages)

    repair(messages)
    conform(messages, opening=OPENING)

    assert before == messages


@given(messages=ANY)
def test_repair_keeps_every_word(messages: list[AnyMessage]) -> None:
    """Repair leaves out only tool results: all texts stay, in order."""
    message_ids = [m.id for m in messages if m.type != "tool"]

    assert message_ids == [m.id for m in repair(messages) if m.type != "tool"]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param([_ask("a", id="1"), _ask("b", id="2")], [_ask("a\n\nb", id="1")], id="words"),
        pytest.param(
            [_ask("a"), HumanMessage([IMAGE])],
            [HumanMessage([{"type": "text", "text": "a"}, IMAGE])],
            id="blocks",
        ),
        pytest.param([_ask(""), _ask("b")], [_ask("b")], id="empty"),
        pytest.param([_ask("", id="1"), HumanMessage([IMAGE])], [HumanMessage([IMAGE], id="1")]),
        pytest.param(
            [_ask("page", name="document"), _ask("q")], [_ask("page\n\nq")], id="names-that-differ"
        ),
        pytest.param(
            [_ask("p", name="document"), _ask("r", name="document")],
            [_ask("p\n\nr", name="document")],
            id="one-name",
        ),
        pytest.param(
            [AIMessage("a", id="1"), _call("c", content="b", id="2")],
            [_call("c", content="a\n\nb", id="1")],
            id="words-then-call",
        ),
        pytest.param(
            [_call("c"), AIMessage("a")], [_call("c"), AIMessage("a")], id="never-behind-a-call"
        ),
        pytest.param(
            [AIMessage("a"), AIMessage([SIGNED, {"type": "text", "text": "b"}])],
            [
                AIMessage(
                    [SIGNED, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
                ),
            ],
            id="thinking-goes-first",
        ),
        pytest.param(
            [AIMessage([REDACTED]), AIMessage([UNSIGNED, "b"])],
            [AIMessage([REDACTED, {"type": "text", "text": "b"}])],
            id="unsigned-thinking-goes",
        ),
        pytest.param(
            [SystemMessage("a"), SystemMessage("b")], [SystemMessage("a"), SystemMessage("b")]
        ),
        pytest.param([_result("a"), _result("b")], [_result("a"), _result("b")], id="results"),
    ],
)
def test_neighbours_of_one_role_are_joined(
    messages: list[AnyMessage], expected: list[AnyMessage]
) -> None:
    """Words are joined, blocks follow one another, thinking stays first and whole."""
    assert expected == merge_neighbours(messages)


def test_joined_message_keeps_the_notes_of_the_first() -> None:
    """What unsay noted on the first message stays on the joined one."""
    (message,) = merge_neighbours(
        [annotate(AIMessage("a"), score=0.9), annotate(AIMessage("b"), score=0.1)]
    )

    assert {"score": 0.9} == annotation_of(message)


def _answer_by(author: str, *content: object) -> AIMessage:
    return AIMessage(list(content), response_metadata={"model_provider": author})


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param(
            [_answer_by("openai", "a"), _answer_by("anthropic", SIGNED, "b")],
            _answer_by("anthropic", SIGNED, TEXT_A, TEXT_B),
            id="only-the-second-thought",
        ),
        pytest.param(
            [_answer_by("anthropic", SIGNED, "a"), _answer_by("google_genai", SIGNED, "b")],
            _answer_by("anthropic", SIGNED, TEXT_A, TEXT_B),
            id="both-thought",
        ),
        pytest.param(
            [_answer_by("anthropic", SIGNED, "a"), _answer_by("anthropic", REDACTED, "b")],
            _answer_by("anthropic", SIGNED, REDACTED, TEXT_A, TEXT_B),
            id="one-author",
        ),
    ],
)
def test_thinking_goes_with_its_author(messages: list[AnyMessage], expected: AnyMessage) -> None:
    """A joined message bears the name of the model whose thinking it holds."""
    assert [expected] == merge_neighbours(messages)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param(
            [AIMessage("hi"), _ask()],
            [_ask(OPENING, id=OPENING_ID), AIMessage("hi"), _ask()],
            id="assistant-first",
        ),
        pytest.param(
            [SystemMessage("s")],
            [SystemMessage("s"), _ask(OPENING, id=OPENING_ID)],
            id="instructions-alone",
        ),
        pytest.param(
            [_ask("a"), SystemMessage("s", id="1"), _ask("b"), SystemMessage("t", id="2")],
            [SystemMessage("s\n\nt", id="1"), _ask("a\n\nb")],
            id="one-system",
        ),
        pytest.param(
            [SystemMessage(""), _ask(), AIMessage(" "), _ask("  "), AIMessage("a")],
            [_ask(), AIMessage("a")],
            id="empty-messages",
        ),
        pytest.param(
            [_ask(), AIMessage([{"type": "text", "text": ""}, {"type": "text", "text": "a"}])],
            [_ask(), AIMessage([{"type": "text", "text": "a"}])],
            id="empty-blocks",
        ),
        pytest.param(
            [_ask(), _call("a", content="\n"), _result("a")],
            [_ask(), _call("a"), _result("a")],
            id="call-without-words",
        ),
        pytest.param(
            [_ask(), AIMessage([{"type": "text", "text": "a"}, SIGNED])],
            [_ask(), AIMessage([SIGNED, {"type": "text", "text": "a"}])],
            id="thinking-after-words",
        ),
        pytest.param(
            [_ask(), AIMessage([{"type": "text", "text": "a \n"}, SIGNED]), AIMessage("b \n")],
            [_ask(), AIMessage([SIGNED, TEXT_A, TEXT_B])],
            id="white-space-at-the-end",
        ),
        pytest.param(
            [_ask(), AIMessage([SIGNED, {"type": "text", "text": "a "}, REDACTED])],
            [_ask(), AIMessage([SIGNED, REDACTED, TEXT_A])],
            id="thinking-at-the-end",
        ),
        pytest.param(
            [_ask(), _call("c", content=[SIGNED, "a ", REDACTED]), _result("c")],
            [_ask(), _call("c", content=[SIGNED, "a", REDACTED]), _result("c")],
            id="thinking-before-a-call",
        ),
        pytest.param(
            [_ask("a", name="A B"), AIMessage("b", name="bot")],
            [_ask("a"), AIMessage("b", name="bot")],
            id="author-name",
        ),
        pytest.param(
            [_ask(), AIMessage([SIGNED]), _ask("b")], [_ask("q\n\nb")], id="thinking-alone"
        ),
        pytest.param(
            [_ask(), AIMessage([UNSIGNED, {"type": "text", "text": "a"}])],
            [_ask(), AIMessage([{"type": "text", "text": "a"}])],
            id="unsigned-thinking",
        ),
    ],
)
def test_context_that_any_provider_accepts(
    messages: list[AnyMessage], expected: list[AnyMessage]
) -> None:
    """The user begins, one system message leads, roles take turns and nothing is empty."""
    assert expected == conform(messages, opening=OPENING)


@pytest.mark.parametrize(
    "name", ["天気", "get weather", "", "y" * 80, "2fast", "half\ud800"], ids=ascii
)
def test_forbidden_tool_names_change_on_both_sides(name: str) -> None:
    """A name that a provider forbids becomes one that all allow, in the call and its result."""
    _, call, result = conform(
        [_ask(), _call("a", name=name), _result("a", name=name)], opening=OPENING
    )

    new_name = call.tool_calls[0]["name"]
    assert name != new_name
    assert new_name == result.name
    assert (
        new_name == conform([_ask(), _call("b", name=name)], opening="x")[1].tool_calls[0]["name"]
    )


def test_forbidden_names_that_differ_stay_different() -> None:
    """Two tools whose names have no letter in common with the pattern do not become one."""
    view = conform([_ask(), _call("a", name="天気"), _call("b", name="検索")], opening=OPENING)

    first, second = (call["name"] for m in view for call in getattr(m, "tool_calls", ()))
    assert first != second


@pytest.mark.parametrize("call_id", ["call 1!", "呼び出し", "x" * 41, "half\ud800"], ids=ascii)
def test_forbidden_call_ids_change_on_both_sides(call_id: str) -> None:
    """An id that a provider forbids becomes one that all allow, in the call and its result."""
    _, call, result = conform([_ask(), _call(call_id), _result(call_id)], opening=OPENING)

    assert call.tool_calls[0]["id"] == result.tool_call_id
    assert call_id != result.tool_call_id


def test_calls_that_could_not_be_read_are_left_out() -> None:
    """A call whose arguments are no JSON has no result and would be refused."""
    broken = {"id": "x", "name": "t", "args": "{", "error": None, "type": "invalid_tool_call"}
    message = AIMessage("I tried.", invalid_tool_calls=[broken])

    assert [_ask(), AIMessage("I tried.")] == conform([_ask(), message], opening=OPENING)


@pytest.mark.parametrize("opening", ["", " \n"])
def test_opening_without_words_is_refused(opening: str) -> None:
    """A view cannot be opened with nothing."""
    with pytest.raises(EmptyMessageError, match="opening"):
        conform([_ask()], opening=opening)


@pytest.mark.parametrize("provider", PROVIDERS)
@given(messages=ANY)
def test_conformed_context_has_no_fault(provider: Provider, messages: list[AnyMessage]) -> None:
    """For any input, the provider would accept the output."""
    view = conform([*messages, _ask("and now?")], opening=OPENING, provider=provider)

    assert () == faults(view)
    assert () == faults(view, provider)


@given(messages=st.one_of(valid_transcripts(thinking=False), wild_transcripts(thoughts=())))
def test_context_for_no_provider_in_particular_suits_all(messages: list[AnyMessage]) -> None:
    """Without thinking, one context works for every provider."""
    view = conform([*messages, _ask("and now?")], opening=OPENING)

    assert {} == {
        provider_name: problems
        for provider_name in PROVIDERS
        if (problems := faults(view, provider_name))
    }


@pytest.mark.parametrize(
    ("provider", "thoughts"),
    [("anthropic", (SIGNED, REDACTED)), ("bedrock", (SIGNED, REASONED)), ("gemini", (SIGNED,))],
)
@given(data=st.data())
def test_conformed_context_has_no_fault_with_thinking(
    provider: Provider, thoughts: tuple[dict, ...], data: st.DataObject
) -> None:
    """A view whose assistant always thought is accepted while thinking is on."""
    transcripts = valid_transcripts(min_turns=1, thinking=True, thoughts=thoughts, pending=True)
    messages = data.draw(transcripts)
    view = conform(messages, opening=OPENING, provider=provider)

    assert () == faults(view, provider, thinking=True)


@given(messages=valid_transcripts(min_turns=1, thinking=True))
def test_signed_thinking_is_never_touched(messages: list[AnyMessage]) -> None:
    """Thinking that a provider signed stays word for word where it stood."""

    def thoughts(context: list[AnyMessage]) -> list[list[Thinking]]:
        parts_of_answers = [parts_of(m) for m in context if m.type == "ai"]
        return [
            [item for item in answer_parts if isinstance(item, Thinking)]
            for answer_parts in parts_of_answers
        ]

    assert thoughts(messages) == thoughts(conform(messages, opening=OPENING))


@pytest.mark.parametrize("provider", [None, *PROVIDERS])
@given(messages=ANY)
def test_conform_is_idempotent(provider: Provider | None, messages: list[AnyMessage]) -> None:
    """A view that conforms comes back object by object."""
    view = conform(messages, opening=OPENING, provider=provider)

    second_view = conform(view, opening=OPENING, provider=provider)
    assert list(map(id, view)) == list(map(id, second_view))


@given(messages=ANY, added_messages=ANY)
def test_prefix_of_a_context_is_stable(
    messages: list[AnyMessage], added_messages: list[AnyMessage]
) -> None:
    """What comes after a finished answer changes nothing before it, so caches stay good."""
    new_messages = [m for m in added_messages if m.type not in ("system", "tool")]
    grown = [*messages, HumanMessage("and now?"), *new_messages]
    view = conform(messages, opening=OPENING)
    assume(view and view[-1].type in ("ai", "tool"))

    assert view == conform(grown, opening=OPENING)[: len(view)]
