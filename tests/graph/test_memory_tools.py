"""The model's own tools: any part of a tool result, and earlier messages by words."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool

from tests.graph.kit import make
from tests.reading import handle_of
from tests.threads import open_conversation, registry_of
from unsay import AsyncConversation, Conversation
from unsay.context.plan import Plan, PlanContext
from unsay.context.strategy import Strategy
from unsay.effects import drive
from unsay.errors import ConfigurationError
from unsay.memory.recall import search_transcript, source_of
from unsay.messages.content import text_of
from unsay.prompts.catalogue import Texts
from unsay.retrieval.quotation import quotes
from unsay.retrieval.terms import RESULT_CHARS
from unsay.testing import ScriptedChat, ScriptedDetector, ScriptedJudge, ToolCalls

ROWS = "\n".join(f"row {number}: {number * number}" for number in range(10_000))
NEW = ScriptedDetector(shifts=dict.fromkeys("?.", "new"))
TALK = ["Tell me about bread.", "Tell me about tides.", "Tell me about chess.", "About wool."]


@tool
def table(name: str) -> str:
    """Give a large table."""
    return ROWS


def calling(name: str, /, **args: Any) -> ToolCalls:
    """A reply that calls one tool and then answers."""
    return ToolCalls(calls=[{"name": name, "args": args}], then="I have looked at what it says.")


def open_thread(path: Path, replies: dict[str, Any], **options: Any) -> Conversation:
    """A conversation in a file with a small window."""
    settings = {"live_messages": 4, **options.pop("settings", {})}
    chat = ScriptedChat(replies=replies, default="That is something to talk about at length.")
    return open_conversation(
        path / "t.db",
        model=chat,
        judge=ScriptedJudge(),
        detector=NEW,
        settings=settings,
        **{"tools": [table], **options},
    )


def results(conversation: Conversation) -> list[ToolMessage]:
    """The tool messages of a transcript."""
    return [message for message in conversation.messages() if isinstance(message, ToolMessage)]


def fetch_table(path: Path, *message_text: str) -> str:
    """The id of a call whose result is in the transcript of a thread with some more turns."""
    with open_thread(path, {"squares": calling("table", name="squares")}) as conversation:
        for text in ("Look at the squares.", *message_text):
            conversation.say(text)
        (result,) = results(conversation)
        assert ROWS == text_of(result)
        return result.tool_call_id


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("message_text", [(), (*TALK, *TALK)], ids=["live", "offloaded"])
def test_a_part_of_a_result_is_read(tmp_path: Path, message_text: tuple[str, ...]) -> None:
    """The transcript has the whole result, and the tool returns the part that was asked for."""
    name = fetch_table(tmp_path, *message_text)
    start = ROWS.index("row 7000")
    replies = {"7000": calling("read_tool_result", tool_call_id=name, start=start, length=18)}
    with open_thread(tmp_path, replies) as conversation:
        conversation.say("What was in row 7000 there?")
        text = text_of(results(conversation)[-1])
    assert (
        f"[characters {start} to {start + 18} of {len(ROWS)}; continue with start={start + 18}]\n"
        "row 7000: 49000000"
    ) == text


async def test_the_tool_in_async_code(tmp_path: Path) -> None:
    """The same under an event loop, to the result's end."""
    name = fetch_table(tmp_path)
    reply = calling("read_tool_result", tool_call_id=name, start=len(ROWS) - 18)
    async with AsyncConversation.open(
        tmp_path / "t.db",
        thread="t",
        model=ScriptedChat(replies={"last": reply}),
        judge=ScriptedJudge(),
        tools=[table],
    ) as conversation:
        await conversation.say("What is the last row?")
        message = [m for m in await conversation.messages() if isinstance(m, ToolMessage)][-1]
    assert text_of(message).endswith("end of the result]\nrow 9999: 99980001")


@pytest.mark.parametrize(
    ("args", "told_text"),
    [
        pytest.param({"tool_call_id": "nowhere"}, "No tool result", id="unknown"),
        pytest.param({"start": 10_000_000}, "is out of range: give 0 to", id="start"),
        pytest.param({"length": 10_000_000}, "is out of range: give 1 to 16000", id="length"),
    ],
)
def test_what_cannot_be_read_is_told_to_the_model(
    tmp_path: Path, args: dict[str, Any], told_text: str
) -> None:
    """A wrong id or position is an error that the model can correct; the turn continues."""
    name = fetch_table(tmp_path)
    replies = {"row": calling("read_tool_result", **{"tool_call_id": name, **args})}
    with open_thread(tmp_path, replies) as conversation:
        assert "looked" in conversation.say("What is in that row?").text
        result = results(conversation)[-1]
    assert "error" == result.status
    assert told_text in text_of(result)


def test_a_context_says_how_to_get_the_rest(tmp_path: Path) -> None:
    """Where a large result is left out the id of its call and the tool are named; without it not."""
    for memory, tool_named in (("auto", True), ("off", False)):
        folder = tmp_path / memory
        folder.mkdir()
        settings = {"memory_tools": memory, "live_messages": 100}
        chat = ScriptedChat(replies={"squares": calling("table", name="squares")})
        with Conversation.open(
            folder / "t.db", model=chat, judge=ScriptedJudge(), tools=[table], settings=settings
        ) as conversation:
            conversation.say("Look at the squares.")
            (result,) = results(conversation)
        text = next(text_of(m) for m in chat.calls[-1] if isinstance(m, ToolMessage))
        assert tool_named == (
            f'"read": {{"tool": "read_tool_result", "tool_call_id": "{result.tool_call_id}"' in text
        )


class Clearing(Strategy):
    """A strategy that clears every tool result."""

    per_turn = True

    def plan(self, ctx: PlanContext) -> Plan:
        """Clear the results up to the newest."""
        messages = [message for message in ctx.messages if isinstance(message, ToolMessage)]
        return ctx.shorten(clear=messages[-1]) if messages else ctx.keep()


@pytest.mark.parametrize(("memory", "tool_named"), [("auto", True), ("off", False)])
def test_a_cleared_result_names_the_tool_that_reads_it(
    tmp_path: Path, memory: str, *, tool_named: bool
) -> None:
    """A context tells the model how to read what it left out only if the model has the tool."""
    settings = {"memory_tools": memory, "live_messages": 100}
    chat = ScriptedChat(replies={"squares": calling("table", name="squares")}, default="I see it.")
    with Conversation.open(
        tmp_path / "t.db",
        model=chat,
        judge=ScriptedJudge(),
        tools=[table],
        settings=settings,
        strategy=Clearing(),
    ) as conversation:
        conversation.say("Look at the squares.")
        conversation.say("Go on.")
    text = next(text_of(m) for m in chat.calls[-1] if isinstance(m, ToolMessage))
    assert len(text) < 300
    assert tool_named == ("read_tool_result(tool_call_id=" in text)


def test_earlier_messages_are_found_once(tmp_path: Path) -> None:
    """`recall` quotes what is not shown, fenced, and is not itself recalled later."""
    replies = {"pet": calling("recall", query="parrot"), "bird": calling("recall", query="parrot")}
    with open_thread(tmp_path, replies) as conversation:
        for text in (
            "Our parrot is called Biscuit.",
            *TALK,
            "Who is the pet?",
            "Opera.",
            "Salt.",
            "The bird?",
        ):
            conversation.say(text)
        first, second = map(text_of, results(conversation))
        assert 2 == sum(e["type"] == "recall" for e in registry_of(conversation).events())
    for contexts in (first, second):
        assert contexts.startswith('<recalled key="')
        assert 1 == contexts.count("Our parrot is called Biscuit.")


def test_a_rollback_has_nothing_to_take_back(tmp_path: Path) -> None:
    """Looking has no consequences: an undo reports none of these calls."""
    with open_thread(tmp_path, {"pet": calling("recall", query="zeppelin")}) as conversation:
        conversation.say("Who is the pet?")
        assert "No message matches “zeppelin”." == text_of(results(conversation)[0])
        assert () == conversation.undo().report.outcomes


@tool
def recall(query: str) -> str:
    """A user's tool with the name of one of unsay's tools."""
    return f"theirs: {query}"


def test_a_name_of_ours_that_the_user_has_taken(tmp_path: Path) -> None:
    """With `auto` the user's tool is called; with `on` the graph is refused."""
    replies = {"pet": calling("recall", query="parrot")}
    with open_thread(tmp_path, replies, tools=[recall]) as conversation:
        conversation.say("Who is the pet?")
        assert "theirs: parrot" == text_of(results(conversation)[0])
    with pytest.raises(ConfigurationError, match="'recall'"):
        make(ScriptedChat(), tools=[recall], settings={"memory_tools": "on"})


def test_without_tools_of_the_users_only_on_brings_them(tmp_path: Path) -> None:
    """`on` gives any chat model the tools; `auto` leaves one without tools as it is."""
    replies = {"pet": calling("recall", query="parrot")}
    with open_thread(tmp_path, replies, tools=[], settings={"memory_tools": "on"}) as conversation:
        conversation.say("Who is the pet?")
        assert 1 == len(results(conversation))
    plain = make(ScriptedChat(default="Hello there, good day."), ScriptedJudge())
    assert "tools" not in plain.get_graph(xray=True).to_json()["nodes"]


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("message_text", [(), (*TALK, *TALK)], ids=["live", "offloaded"])
def test_a_forgotten_result_is_not_read(tmp_path: Path, message_text: tuple[str, ...]) -> None:
    """The tool knows nothing of a result that a person wants left out, until it is restored."""
    name = fetch_table(tmp_path, *message_text)
    replies = {"row": calling("read_tool_result", tool_call_id=name, length=8)}
    with open_thread(tmp_path, replies) as conversation:
        entry = conversation.forget(results(conversation)[0].id or "")
        conversation.say("What is in that row?")
        result = results(conversation)[-1]
        conversation.restore(entry["id"])
        conversation.say("And what is in the other row?")
        read_result = results(conversation)[-1]
    assert "error" == result.status
    assert "No tool result of this conversation has the id" in text_of(result)
    assert ("success", ROWS[:8]) == (read_result.status, text_of(read_result).splitlines()[-1])


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("message_text", [(), (*TALK, *TALK)], ids=["live", "offloaded"])
def test_a_quote_of_a_long_result_says_what_it_lacks(
    tmp_path: Path, message_text: tuple[str, ...]
) -> None:
    """For any length of the result, the quote says how many characters it leaves out."""
    fetch_table(tmp_path, *message_text)
    with open_thread(tmp_path, {}) as conversation:
        state = drive(handle_of(conversation).load_state())
        scope = handle_of(conversation).scope()
        finds = drive(
            search_transcript(
                drive(source_of(state, scope, by_hand=True)),
                (),
                question="row 9999",
                budget_tokens=10_000,
                count=lambda messages: 10 * len(messages),
            )
        )
    assert f"[truncated: {len(ROWS) - 2 * RESULT_CHARS} characters removed]" in quotes(
        finds.messages, Texts("en")
    )
