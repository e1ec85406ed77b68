import re
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from tests.graph.kit import Numbered, config, make, say, scores
from unsay.conversation.conversation import Conversation
from unsay.errors import ConfigurationError
from unsay.graph.builder import build_graph
from unsay.messages.annotations import is_notice
from unsay.messages.content import text_of
from unsay.storage.sqlite import open_database

Parts = dict[str, Any]


@pytest.fixture(params=["store", "no store"])
def storage(request: pytest.FixtureRequest) -> Parts:
    """With a store, and without."""
    return {} if request.param == "store" else {"store": None}


def answer_of(state: dict[str, Any]) -> str:
    """The last message, which must be a notice."""
    assert is_notice(state["messages"][-1])
    return text_of(state["messages"][-1])


@pytest.mark.sample(every=4)
@pytest.mark.parametrize(
    "command",
    ["/undo", "/redo", "/retry", "/rollback 1", "/checkpoint a", "/pin", "/forget", "/tokens"],
)
@pytest.mark.parametrize("commands", ["none", ["timeline", "help"], ()])
def test_a_command_that_is_not_allowed_is_answered(
    commands: Any, command: str, storage: Parts
) -> None:
    """It is not obeyed, no model is sent it, and the next question is answered as usual."""
    model = Numbered()
    graph = make(model, scores(), commands=commands, **storage)
    before = say(graph, "one", "two")

    state = say(graph, command)

    assert f"{command.split(maxsplit=1)[0]} is not available here." in answer_of(state)
    assert before["messages"] == state["messages"][:-2]
    assert before["checkpoints"] == state["checkpoints"]
    assert 2 == len(model.inputs)
    say(graph, "three")
    assert command not in model.texts()


def test_an_allowed_command_is_obeyed_and_listed(storage: Parts) -> None:
    """A list allows exactly its commands, and `/help` names no other."""
    graph = make(Numbered(), scores(), commands=["undo", "help"], **storage)
    say(graph, "one", "two")

    assert 3 == len(say(graph, "/undo")["messages"]) - 1
    assert ["/undo", "/help"] == [
        line.split()[0] for line in answer_of(say(graph, "/help")).splitlines()
    ]


@pytest.mark.parametrize("form", ["invoke", "ainvoke"])
async def test_a_run_allows_commands_of_its_own(form: str, storage: Parts) -> None:
    """The context of one run replaces what the graph allows, for this run alone."""
    graph = make(Numbered(), scores(), commands="none", **storage)
    say(graph, "one", "two")

    async def send(text: str, context: Any) -> dict[str, Any]:
        value: Any = {"messages": [("user", text)]}
        if form == "invoke":
            return graph.invoke(value, config(), context=context)
        return await graph.ainvoke(value, config(), context=context)

    undone = await send("/undo", {"commands": ["undo"]})
    refusal = await send("/undo", None)
    narrow = await send("/timeline", {"commands": ["undo"]})

    assert 2 == len([m for m in undone["messages"] if not is_notice(m) and m.type == "ai"]) + 1
    assert "/undo is not available here." in answer_of(refusal)
    assert "/timeline is not available here." in answer_of(narrow)


def test_settings_and_conversations_allow_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """`UNSAY_COMMANDS` and `Conversation.open(commands=…)` say the same; methods are not commands."""
    monkeypatch.setenv("UNSAY_COMMANDS", '["help"]')
    graph = make(Numbered(), scores())
    with Conversation.open(
        ":memory:", model=Numbered(), judge=scores(), commands="none"
    ) as conversation:
        conversation.say("one")

        assert "is not available" in conversation.say("/undo").text
        assert "/help is not available" in conversation.say("/help").text
        assert 0 == conversation.undo().turns
    assert "/undo is not available here." in answer_of(say(graph, "/undo"))


@pytest.mark.parametrize("commands", [["rolback"], "some", ["/undo"]])
def test_a_name_that_is_no_command_is_refused_at_once(commands: Any) -> None:
    """A misspelt name would forbid a command in silence."""
    with pytest.raises(ConfigurationError):
        build_graph(Numbered(), commands=commands)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        pytest.param("/rolback", "Did you mean /rollback?", id="mistyped"),
        pytest.param("／rolback 1", "Did you mean /rollback 1?", id="mistyped and wide"),
        pytest.param("/undo please", "Send /undo as a message of its own", id="a word too many"),
    ],
)
def test_a_mistyped_command_is_not_paid_for(text: str, hint: str, storage: Parts) -> None:
    """The notice says what may have been meant; nothing changes."""
    model = Numbered()
    graph = make(model, scores(), **storage)
    before = say(graph, "one", "two")["messages"]

    state = say(graph, text)

    assert hint in answer_of(state)
    assert before == state["messages"][:-2]
    assert 2 == len(model.inputs)


UNKNOWN = [
    "/clear",
    "/model gpt",
    "／ｃｌｅａｒ",
    "/file a.txt\nRead it.",
    "/要約して",
    "/" + 900 * "a",
]


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("text", UNKNOWN)
def test_a_slash_and_a_word_that_is_no_command_is_refused(text: str, storage: Parts) -> None:
    """No model is sent it; the notice names a command that is allowed, and `//` sends the text."""
    model = Numbered()
    graph = make(model, scores(), commands=["undo", "redo"], **storage)
    before = say(graph, "one", "two")["messages"]

    state = say(graph, text)

    assert re.search("Did you mean /(un|re)do[?]", answer_of(state))
    assert before == state["messages"][:-2]
    assert 2 == len(model.inputs)
    assert not is_notice(say(graph, f"/{text}")["messages"][-1])
    assert text in model.texts()


def test_a_refused_word_leaves_a_waiting_question(storage: Parts) -> None:
    """As behind any other command, the question still waits, and is answered with the next one."""
    graph = make(Numbered(), scores(), **storage)
    say(graph, "one")
    graph.update_state(config(), {"messages": [HumanMessage("two")]})

    assert "“two” still waits" in answer_of(say(graph, "/clear"))
    assert not is_notice(say(graph, "three")["messages"][-1])


def test_two_slashes_are_one_in_a_message_of_blocks(storage: Parts) -> None:
    """Front ends send text as blocks, and images beside it."""
    model = Numbered()
    graph = make(model, scores(), **storage)
    image = {"type": "image", "url": "https://example.com/a.png"}
    blocks = [image, {"type": "text", "text": "//clear the table"}]

    graph.invoke({"messages": [HumanMessage(blocks)]}, config())

    assert [image, {"type": "text", "text": "/clear the table"}] == model.inputs[0][-1].content


@pytest.mark.parametrize("text", ["／undo", "／ｕｎｄｏ", "/Undo ", " /undo\n"])
def test_a_command_in_wide_characters_is_obeyed(text: str, storage: Parts) -> None:
    """As Japanese input methods write it."""
    graph = make(Numbered(), scores(), **storage)
    say(graph, "one", "two")

    state = say(graph, text)

    assert ["one", text] == [text_of(m) for m in state["messages"] if m.type == "human"]


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param(["What is a list?", "/undo"], id="behind"),
        pytest.param(["/undo", "What is a list?"], id="before"),
        pytest.param(["/undo\nWhat is a list?"], id="first line"),
        pytest.param(["What is a list?\n/undo"], id="last line"),
        pytest.param(["/rolback", "What is a list?"], id="mistyped before"),
    ],
)
def test_a_command_beside_a_question_is_not_paid_for(texts: list[str], storage: Parts) -> None:
    """It is obeyed, or answered with what to do; no model is asked, then or later, with it."""
    model = Numbered()
    graph = make(model, scores(), **storage)
    say(graph, "one", "two")

    state = graph.invoke({"messages": [HumanMessage(text) for text in texts]}, config())

    assert answer_of(state)
    assert 2 == len(model.inputs)
    say(graph, "three")
    assert not any("undo" in text or "rolback" in text for text in model.texts())


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(
    "text",
    [
        "/etc/hosts の中身は?",
        "//undo",
        "/ undo",
        "/",
        "/undo2",
        "/24 subnets",
        "What does /undo do?",
    ],
)
@pytest.mark.parametrize("commands", ["none", "all"])
def test_a_question_with_a_slash_is_answered(commands: str, text: str, storage: Parts) -> None:
    """Also where no command is allowed: these are none."""
    model = Numbered()
    graph = make(model, scores(), commands=commands, **storage)

    state = say(graph, text)

    assert not is_notice(state["messages"][-1])
    assert ("/undo" if text == "//undo" else text) in model.texts()


@pytest.mark.parametrize("text", ["/foo", "/var is full"])
def test_a_word_with_a_slash_is_a_question_where_no_command_is_allowed(text: str) -> None:
    """A host may have commands of its own."""
    model = Numbered()
    with Conversation.open(
        ":memory:", thread="t", model=model, judge=scores(), commands="none"
    ) as conversation:
        assert conversation.say(text).kind == "answer"
        assert [text] == [turn.question for turn in conversation.timeline().turns]


@pytest.mark.parametrize("form", ["command", "verb"])
def test_a_second_name_is_added_to_a_checkpoint(form: str) -> None:
    """Both names lead to the message; a name given twice is one checkpoint."""
    database = open_database(":memory:")
    model = Numbered()
    with Conversation.open(database, thread="t", model=model, judge=scores()) as conversation:
        conversation.say("one")
        for name in ("first", "second", "first", "second"):
            _ = (
                conversation.say(f"/checkpoint {name}")
                if form == "command"
                else conversation.checkpoint(name)
            )
        conversation.say("two")
        conversation.say("three")

        names = [
            checkpoint["name"]
            for checkpoint in conversation.checkpoints()
            if checkpoint["turn"] == 1
        ]
        assert ["first", "second"] == names
        assert conversation.rollback("second").removed
        conversation.undo()
        conversation.rollback("first")
        assert ["first", "second"] == [
            checkpoint["name"]
            for checkpoint in conversation.checkpoints()
            if checkpoint["name"] is not None
        ]
        timeline = str(conversation.timeline())

    assert "first" in timeline
    assert "second" in timeline
