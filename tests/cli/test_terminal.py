import threading
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
from tests.cli.terminal import PROMPT, Terminal
from tests.http.openai_server import Asked

pytestmark = pytest.mark.full

STRUCK = "\x1b[2m\x1b[9m"


def flat(text: str) -> str:
    """A text without the terminal's line breaks."""
    return " ".join(text.split())


def test_say_strikes_a_rejected_draft_out(serve: Serve) -> None:
    """The draft is seen, then struck out in its place, and the good answer follows."""
    serve(DRAFTS, SCORES)
    with Terminal("say", NESTED) as terminal:
        output = terminal.expect(STRUCK)
        struck = terminal.expect("rejected, score 0.10")
        next_output = terminal.expect("score 0.90")
        assert 0 == terminal.wait()
    assert CARS[:40] in flat(output)
    assert output.endswith("\x1b[2A\r\x1b[J")
    assert CARS in flat(struck)
    assert ON_NESTED in flat(next_output)


def test_an_answer_cannot_steer_the_terminal(serve: Serve) -> None:
    """Neither while it is streamed, nor in a list, nor when the thread is opened again."""
    serve({LISTS: "It is \x1b[31mred\x1b]0;title\x07, a list comprehension in one expression."})
    with Terminal("chat", "--thread", "t") as terminal:
        terminal.expect(PROMPT)
        terminal.type(f"{LISTS}\r")
        output = terminal.expect("score 0.90")
        terminal.type("exit\r")
        assert 0 == terminal.wait()
    assert "It is \ufffd[31mred\ufffd]0;title\ufffd, a list" in flat(output)
    assert "\x1b[31m" not in output


def test_an_opened_thread_names_the_files_of_a_question(serve: Serve) -> None:
    """Their contents are not shown again."""
    serve(ANSWERS)
    Path("notes.txt").write_text("Notes on loops.")
    with Terminal("chat", "--thread", "t", "--file", "notes.txt") as terminal:
        terminal.expect(PROMPT)
        terminal.type(f"{LISTS}\r")
        terminal.expect("score 0.90")
        terminal.type("exit\r")
        assert 0 == terminal.wait()
    with Terminal("chat", "--thread", "t") as terminal:
        output = terminal.expect("score 0.90")
        terminal.expect(PROMPT)
        terminal.type("exit\r")
        assert 0 == terminal.wait()
    assert f"> {LISTS} [notes.txt]" in flat(output)
    assert "Notes on loops" not in output


def test_no_color_means_no_escape_codes(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR a taken-back draft is announced, not struck out."""
    serve(DRAFTS, SCORES)
    monkeypatch.setenv("NO_COLOR", "1")
    with Terminal("say", NESTED) as terminal:
        output = terminal.expect("rejected, score 0.10") + terminal.expect("score 0.90")
        assert 0 == terminal.wait()
    assert "\x1b" not in output


def test_a_draft_longer_than_the_screen_is_only_announced(serve: Serve) -> None:
    """What has scrolled away cannot be struck out."""
    long = f"{CARS} " * 40
    serve({NESTED: [long, ON_NESTED]}, SCORES)
    with Terminal("say", NESTED, lines=10) as terminal:
        assert STRUCK not in terminal.expect("rejected, score 0.10")
        assert 0 == terminal.wait()


def test_held_answers_are_printed_once(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """With UNSAY_STREAM=held nothing but the answer that passed is seen."""
    serve(DRAFTS, SCORES)
    monkeypatch.setenv("UNSAY_STREAM", "held")
    with Terminal("say", NESTED) as terminal:
        output = terminal.expect("score 0.90")
        assert 0 == terminal.wait()
    assert (0, 1) == (flat(output).count(CARS), flat(output).count(ON_NESTED))


def test_chat_refills_the_prompt_after_an_undo(serve: Serve) -> None:
    """The removed question is in the prompt again, ready to be changed."""
    serve(ANSWERS)
    with Terminal("chat", "--thread", "t") as terminal:
        terminal.expect("/help lists the commands")
        terminal.expect(PROMPT)
        terminal.type(f"{LISTS}\r")
        terminal.expect("score 0.90")
        terminal.expect(PROMPT)
        terminal.type("/undo\r")
        terminal.expect("Removed 1 turn.")
        terminal.expect(LISTS)
        terminal.type("\r")
        terminal.expect("score 0.90")
        terminal.expect(PROMPT)
        terminal.type("\x04")
        assert 0 == terminal.wait()


def test_ctrl_c_ends_say_with_130(serve: Serve) -> None:
    """`say` stops, and says how to go on."""
    server = serve(ANSWERS)
    is_requested = threading.Event()
    release = threading.Event()

    def hang(_: Asked) -> str:
        is_requested.set()
        release.wait(60)
        return ON_LISTS

    server.script = hang
    with Terminal("say", LISTS, "--thread", "t") as terminal:
        assert is_requested.wait(60)
        terminal.type("\x03")
        terminal.expect("unsay say --thread t --resume` continues")
        release.set()
        assert 130 == terminal.wait()


def test_chat_completes_commands(serve: Serve) -> None:
    """Tab completes a slash command, and the name of a checkpoint after /rollback."""
    serve(ANSWERS)
    with Terminal("chat", "--thread", "t", columns=80) as terminal:
        terminal.expect(PROMPT)
        terminal.type(f"{LISTS}\r")
        terminal.expect("score 0.90")
        terminal.type("/checkpoint kyoto\r")
        terminal.expect("Created checkpoint kyoto.")
        terminal.type("/rollback k")
        terminal.expect("kyoto")
        terminal.type("\t")
        terminal.expect("yoto")
        terminal.type("\r")
        terminal.expect("is at checkpoint kyoto already")
        terminal.type("/exit\r")
        assert 0 == terminal.wait()


def test_a_dumb_terminal(serve: Serve) -> None:
    """Lines that come at once are one message, places are chosen by number, no escape codes."""
    server = serve(ANSWERS)
    with Terminal("chat", "--thread", "t", term="dumb") as terminal:
        output = terminal.expect("> ")
        terminal.type(f"{LISTS}\nPlease explain.\n")
        output += terminal.expect("score 0.90") + terminal.expect("> ")
        terminal.type("/rollback\n")
        output += terminal.expect("1. before turn 1")
        output += terminal.expect("Type a number and Enter; Enter alone cancels.")
        output += terminal.expect("> ")
        terminal.type("1\n")
        output += terminal.expect("Rolled back to the start")
        output += terminal.expect(f"removed question: “{LISTS}") + terminal.expect("> ")
        terminal.type("exit\n")
        assert 0 == terminal.wait()
    assert [f"{LISTS}\nPlease explain."] == [
        request.question for request in server.asked_of("answerer")
    ]
    assert "\x1b" not in output
