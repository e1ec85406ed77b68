import json
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.cli.conftest import Serve
from tests.cli.scripted_conversation import (
    ANSWERS,
    CARS,
    DRAFTS,
    LISTS,
    NESTED,
    ON_LISTS,
    ON_NESTED,
    SCORES,
)
from tests.cli.tmux import Tmux
from tests.http.openai_server import Asked, Calls, OpenAIServer, Said
from tests.threads import registry_of
from unsay import Conversation

pytestmark = pytest.mark.full

MCP_SERVER = Path(__file__).parents[1] / "hosts" / "mcp_server.py"
READY = "Alt-Enter adds a line"
SPRING = "京都では、いつ桜が咲きますか?"
ON_SPRING = "京都の桜は、例年三月の終わりから四月の初めにかけて満開になります。"
SLOW_TOOLS = '''
def legs(animal: str) -> str:
    """Count the legs of an animal, once something can be read from `release`."""
    with open("release") as gate:
        gate.read()
    return "8"
'''


def hold_model(server: OpenAIServer, model: str, begins: str = "") -> threading.Event:
    """Hold the server's next reply of a model, after these words of it, until the event is set."""
    works = server.script
    release = threading.Event()
    holds = [True]

    def script(request: Asked) -> Said:
        if request.model != model or not holds:
            return works(request)
        holds.clear()
        if not begins:
            release.wait(60)
            return works(request)

        def pieces() -> Iterator[str]:
            yield begins
            release.wait(60)
            yield str(works(request)).removeprefix(begins)

        return pieces()

    server.script = script
    return release


def flat(screen: str) -> str:
    """The screen's words without line breaks."""
    return " ".join(screen.split())


def asked_of(server: OpenAIServer) -> list[str]:
    """What the answering model was asked."""
    return [request.question for request in server.asked_of("answerer")]


def test_a_paste_is_one_message_and_the_history_keeps_it(serve: Serve, tmp_path: Path) -> None:
    """Five pasted lines are one question; another chat offers them again."""
    server = serve({"def": ON_LISTS})
    snippet = "def one():\n    return 1\n\ndef two():\n    return 2"
    with Tmux(tmp_path, "chat") as tmux:
        tmux.expect(READY)
        tmux.expect("\n>")
        tmux.paste(snippet)
        screen = tmux.expect("return 2")
        assert "> def one():\n·     return 1\n·\n· def two():\n·     return 2" in screen
        tmux.press("Enter")
        tmux.expect("score 0.90")
        tmux.type("exit")
        assert 0 == tmux.code()
    assert [snippet] == asked_of(server)
    with Tmux(tmp_path, "chat", "--thread", "other") as tmux:
        tmux.expect(READY)
        tmux.expect("\n>")
        tmux.press("Up", "Up")
        tmux.expect("return 2")
        tmux.press("C-c", "C-d")
        assert 0 == tmux.code()


def test_a_spinner_says_what_happens_and_for_how_long(serve: Serve, tmp_path: Path) -> None:
    """Waiting, a tool by its name, and judging; afterwards nothing of it is left."""
    Path("slow_tools.py").write_text(SLOW_TOOLS)
    os.mkfifo("release")
    server = serve({"legs": ON_LISTS})
    works = server.script

    def script(request: Asked) -> Said:
        is_after_call = any(message["role"] == "tool" for message in request.body["messages"])
        if request.model == "judge" or is_after_call:
            return works(request)
        return Calls(name="legs", arguments={"animal": "spider"})

    server.script = script
    answer = hold_model(server, "answerer")
    verdict = hold_model(server, "judge")
    with Tmux(tmp_path, "chat", "--tools", "slow_tools:legs") as tmux:
        tmux.expect(READY)
        tmux.type("How many legs?")
        tmux.expect("waiting for the model · 1 s")
        answer.set()
        tmux.expect("running legs · 1 s")
        Path("release").write_text("now")
        screen = tmux.expect("judging the answer · 1 s")
        assert "called legs({" in screen
        assert ON_LISTS in flat(screen)
        verdict.set()
        screen = tmux.expect("score 0.90")
        assert not re.search(r"waiting|running|judging", screen)


@pytest.mark.parametrize(
    ("downs", "questions_left"),
    [
        pytest.param(0, [LISTS, NESTED], id="resume"),
        pytest.param(1, [LISTS, NESTED], id="edit"),
        pytest.param(2, [LISTS], id="drop"),
    ],
)
def test_ctrl_c_keeps_what_came(
    serve: Serve, tmp_path: Path, home: Path, downs: int, questions_left: list[str]
) -> None:
    """The first words stay, the question is resumed, edited or dropped, the turn before stays.

    Letters do nothing: the person may be typing the next message already.
    """
    server = serve(ANSWERS)
    with Tmux(tmp_path, "chat", "--thread", "t") as tmux:
        tmux.expect(READY)
        tmux.type(LISTS)
        tmux.expect("score 0.90")
        release = hold_model(server, "answerer", ON_NESTED[:30])
        tmux.type(NESTED)
        tmux.expect(ON_NESTED[:24])
        tmux.press("C-c")
        screen = tmux.expect("drop the question")
        assert "❯ resume the answer" in screen
        assert "edit the question" in screen
        release.set()
        tmux.type("do the same for Nara, then red and elder", enter=False)
        tmux.press(*["Down"] * downs, "Enter")
        if downs == 1:
            tmux.expect(f"> {NESTED}\n\n")
            tmux.press("Enter")
        if downs == 2:
            screen = tmux.expect("earlier turns are unchanged")
        else:
            screen = tmux.expect("in which the loops would")
        assert ON_NESTED[:24] in screen
        tmux.type("/timeline")
        screen = tmux.expect(f"{len(questions_left)}. 0.90  {questions_left[-1]}")
        assert all(
            f"{number}. 0.90  {question}" in screen
            for number, question in enumerate(questions_left, 1)
        )
        tmux.type("quit")
        assert 0 == tmux.code()
    with Conversation.open(home / "unsay.db", thread="t") as conversation:
        (note,) = [
            e["data"]["text"]
            for e in registry_of(conversation).events()
            if e["type"] == "planner_note"
        ]
    assert f"Stopped answer to “{NESTED}”: {ON_NESTED[:24]}" in note


def test_a_stopped_retry_that_is_dropped_leaves_the_old_answer(
    serve: Serve, tmp_path: Path
) -> None:
    """The chat says so: the question of the retry is that of an earlier turn."""
    server = serve(ANSWERS)
    with Tmux(tmp_path, "chat", "--thread", "t") as tmux:
        tmux.expect(READY)
        tmux.type(LISTS)
        tmux.expect("score 0.90")
        release = hold_model(server, "answerer", "A list, once more")
        tmux.type("/retry")
        tmux.expect("A list, once")
        tmux.press("C-c")
        tmux.expect("drop the question")
        release.set()
        tmux.press("Down", "Down", "Enter")
        assert "the messages that it replaced are back" in flat(tmux.expect("Removed the new"))
        tmux.type("/timeline")
        tmux.expect(f"1. 0.90  {LISTS}")


def test_a_picker_shows_what_would_go(serve: Serve, tmp_path: Path) -> None:
    """Esc Esc opens it; after the rollback the removed question is in the prompt."""
    serve(ANSWERS)
    with Tmux(tmp_path, "chat", "--thread", "t") as tmux:
        tmux.expect(READY)
        tmux.type(LISTS)
        tmux.expect("score 0.90")
        tmux.type("/checkpoint start")
        tmux.expect("Created checkpoint start.")
        tmux.type(NESTED)
        tmux.expect(ON_NESTED[:20])
        tmux.expect("stand.\n  score 0.90")
        tmux.type("half a question", enter=False)
        tmux.press("Escape", "Escape")
        screen = tmux.expect("Would roll back to")
        assert "checkpoint start, after turn 1" in screen
        assert f"❯ before turn 2 0.90 “{NESTED}”" in screen
        assert "Turns: 1. Messages: 2." in screen
        tmux.press("Escape")
        tmux.expect("> half a question")
        tmux.press("C-c")
        tmux.type("/rollback")
        tmux.expect("Would roll back to")
        tmux.press("Home")
        tmux.expect("Turns: 2. Messages: 4.")
        tmux.press("Enter")
        tmux.expect("Rolled back to the start")
        tmux.expect(f"> {LISTS}\n\n")


def test_a_rejected_draft_is_struck_out(serve: Serve, tmp_path: Path) -> None:
    """With the reason; what passed is not."""
    serve(DRAFTS, SCORES)
    with Tmux(tmp_path, "chat") as tmux:
        tmux.expect(READY)
        tmux.type(NESTED)
        tmux.expect("score 0.90")
        screen = tmux.screen(colors=True)
    spans = {text: style for style, text in re.findall(r"\x1b\[([\d;]*)m([^\x1b]+)", screen)}
    struck = " ".join(text for text, style in spans.items() if "9" in style.split(";"))
    assert flat(CARS) in flat(struck)
    assert ON_NESTED not in flat(struck)
    assert "rejected, score 0.10: It is worth 0.1." in flat(re.sub(r"\x1b\[[\d;]*m", "", screen))


def test_a_rejected_draft_is_struck_out_though_the_judge_nearly_uses_the_budget(
    serve: Serve, tmp_path: Path
) -> None:
    """The warning before the verdict is shown behind the reason: the draft is still the last text."""
    serve(DRAFTS, SCORES)
    environment = {"UNSAY_SESSION_BUDGET_TOKENS": "20000", "UNSAY_BUDGET_WARNING": "0.0001"}
    with Tmux(tmp_path, "chat", environment={**environment, "UNSAY_BUDGET_MODE": "soft"}) as tmux:
        tmux.expect(READY)
        tmux.type(NESTED)
        tmux.expect("score 0.90")
        screen = tmux.screen(colors=True)
    spans = re.findall(r"\x1b\[([\d;]*)m([^\x1b]+)", screen)
    struck = " ".join(text for style, text in spans if "9" in style.split(";"))
    assert flat(CARS) in flat(struck)
    plain = flat(re.sub(r"\x1b\[[\d;]*m", "", screen))
    assert re.search(r"rejected, score 0.10: It is worth 0.1. the budget is nearly used up", plain)


def test_without_a_passing_draft_the_screen_says_what_was_restored(
    serve: Serve, tmp_path: Path
) -> None:
    """The best draft is shown, and that nothing before it changed."""
    serve({NESTED: CARS}, SCORES)
    environment = {"UNSAY_MAX_ROLLBACKS": "0", "UNSAY_SESSION_BUDGET_TOKENS": "20000"}
    with Tmux(tmp_path, "chat", "--thread", "t", environment=environment) as tmux:
        tmux.expect(READY)
        tmux.type(NESTED)
        screen = tmux.expect("its fault: It is worth")
        # The bottom line names the budget before what a narrow terminal cuts off.
        assert re.search(
            r"” · session budget [\d.]+ % · Context: ", tmux.expect(" · session budget")
        )
        assert "the conversation before this question is unchanged" in flat(screen)
        tmux.press("C-d")
        assert 0 == tmux.code()
    with Tmux(tmp_path, "chat", "--thread", "t", environment=environment) as tmux:  # opened again
        tmux.expect("no draft passed, so the best one is delivered")


def test_a_decision_says_what_can_be_typed(serve: Serve, tmp_path: Path) -> None:
    """The prompt lists the words while it waits for one of them."""
    serve({NESTED: CARS}, SCORES)
    asks: Mapping[str, str] = {"UNSAY_MAX_ROLLBACKS": "0", "UNSAY_ON_EXHAUSTED": "ask"}
    with Tmux(tmp_path, "chat", environment=asks) as tmux:
        tmux.expect(READY)
        tmux.type(NESTED)
        tmux.expect("approve | reject | edit:YOUR TEXT | instructions\n>")
        tmux.type("edit:Yes, they can be nested.")
        tmux.expect("Yes, they can be nested.\n  unscored: a person wrote it")
        screen = tmux.expect("\n\n>")
        assert not screen.rstrip().endswith("instructions\n>")


def test_a_chat_offers_recent_threads_and_shows_the_last_turns(
    serve: Serve, tmp_path: Path
) -> None:
    """`unsay chat` alone lists them; the opened thread shows questions and answers."""
    serve(ANSWERS)
    with Tmux(tmp_path, "chat") as tmux:
        tmux.expect(READY)  # there is no thread yet: nothing to choose
        tmux.type(LISTS)
        tmux.expect("score 0.90")
        tmux.press("C-d")
        assert 0 == tmux.code()
    with Tmux(tmp_path, "chat") as tmux:
        screen = tmux.expect("Which conversation?")
        assert "❯ a new conversation" in screen
        tmux.press("Down", "Enter")
        screen = tmux.expect(READY)
        screen = tmux.expect("score 0.90")
        assert f"> {LISTS}" in screen
        assert ON_LISTS in flat(screen)
        tmux.expect("topic “list comprehension” · Context: ")
    # The list belongs to no conversation, so its language is that of the terminal.
    with Tmux(tmp_path, "chat", environment={"LANG": "ja_JP.UTF-8"}) as tmux:
        assert "❯ 新しい会話" in tmux.expect("どの会話を開きますか")


def test_a_question_typed_into_the_list_of_threads(serve: Serve, tmp_path: Path) -> None:
    """It begins a new conversation, and no letter of it is lost; `/exit` leaves with a word behind."""
    serve(ANSWERS)
    with Tmux(tmp_path, "chat", "--thread", "t") as tmux:
        tmux.expect(READY)
        tmux.type(LISTS)
        tmux.expect("score 0.90")
        tmux.type("/exit now")
        assert 0 == tmux.code()
    with Tmux(tmp_path, "chat") as tmux:
        tmux.expect("Which conversation?")
        tmux.type("not now", enter=False)
        tmux.expect(READY)
        tmux.expect("> not now")


def test_a_chat_in_japanese(serve: Serve, tmp_path: Path) -> None:
    """Wide characters take two cells everywhere, and the chat's own words are Japanese."""
    serve({SPRING: ON_SPRING})
    with Tmux(tmp_path, "chat", "--thread", "t", columns=40) as tmux:
        tmux.expect("Esc Esc")
        tmux.type(SPRING)
        screen = tmux.expect("スコア 0.90")
        assert f"> {SPRING}" in screen
        rows = screen.split("\n")
        first_row = next(index for index, row in enumerate(rows) if row.startswith(ON_SPRING[:15]))
        assert ON_SPRING == "".join(rows[first_row : first_row + 2]).strip()
        assert len(rows[first_row]) <= 20
        tmux.press("Escape", "Escape")
        tmux.expect("どこに戻りますか")
        tmux.press("Enter")
        tmux.expect(f"> {SPRING}\n\n")


def test_no_color_has_no_colors(serve: Serve, tmp_path: Path) -> None:
    """With NO_COLOR the chat works without colors and strike-outs."""
    serve(DRAFTS, SCORES)
    with Tmux(tmp_path, "chat", environment={"NO_COLOR": "1"}) as tmux:
        tmux.expect(READY)
        tmux.type(NESTED)
        tmux.expect("score 0.90")
        colors = re.findall(r"\x1b\[([\d;]*)m", tmux.screen(colors=True))
    assert not {code for color in colors for code in color.split(";")} & {"9", "31", "33", "90"}


def test_keys_that_are_pressed_while_the_chat_loads(serve: Serve, tmp_path: Path) -> None:
    """Enter sends, also before the prompt is there, and the words are not printed twice."""
    server = serve(ANSWERS)
    with Tmux(tmp_path, "chat", "--thread", "t") as tmux:
        tmux.expect("Loading…")
        tmux.type(LISTS)
        screen = tmux.expect("score 0.90")
        assert 1 == screen.count(f"{LISTS}\n")
        tmux.type("exit")
        assert 0 == tmux.code()
    assert [LISTS] == asked_of(server)


def test_tools_of_a_real_mcp_server(serve: Serve, tmp_path: Path) -> None:
    """The chat starts the server of the file, the model calls its tool, and the screen names it."""
    server = serve({"legs": ON_LISTS})
    works = server.script

    def script(request: Asked) -> Said:
        if request.model == "judge":
            return works(request)
        results = [
            message["content"] for message in request.body["messages"] if message["role"] == "tool"
        ]
        if not results:
            return Calls(name="count_legs", arguments={"animal": "spider"})
        return f"It is {results[-1]}."

    server.script = script
    own_server = {"command": sys.executable, "args": [str(MCP_SERVER)]}
    Path("servers.json").write_text(
        json.dumps({"mcpServers": {"legs": own_server}}), encoding="utf-8"
    )
    with Tmux(tmp_path, "chat", "--mcp", "servers.json") as tmux:
        tmux.expect(READY)
        tmux.type("How many legs has a spider?")
        screen = tmux.expect("score 0.90")
        assert "spider: 8" in flat(screen)
        assert "Processing request" not in screen
        tmux.type("/undo")
        assert "Removed 1 turn." in tmux.expect("count_legs(animal='spider') (no compensation")


def test_a_paste_while_the_chat_loads(serve: Serve, tmp_path: Path) -> None:
    """It is one message, and a command in one of its lines is not carried out."""
    server = serve(ANSWERS)
    with Tmux(tmp_path, "chat", "--thread", "t") as tmux:
        tmux.expect("Loading…")
        tmux.paste("first line\n/undo\nlast line")
        tmux.expect("> first line\n· /undo\n· last line")
    assert [] == server.asked
