import threading

import pytest

from tests.cli.conftest import Serve
from tests.cli.talk import ANSWERS, CARS, DRAFTS, LISTS, NESTED, ON_LISTS, ON_NESTED, SCORES
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
        seen = terminal.expect(STRUCK)
        struck = terminal.expect("rejected, score 0.10")
        rest = terminal.expect("score 0.90")
        assert 0 == terminal.wait()
    assert CARS[:40] in flat(seen)
    assert seen.endswith("\x1b[1A\r\x1b[J")
    assert CARS in flat(struck)
    assert ON_NESTED in flat(rest)


def test_no_color_means_no_escape_codes(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR a taken-back draft is announced, not struck out."""
    serve(DRAFTS, SCORES)
    monkeypatch.setenv("NO_COLOR", "1")
    with Terminal("say", NESTED) as terminal:
        shown = terminal.expect("rejected, score 0.10") + terminal.expect("score 0.90")
        assert 0 == terminal.wait()
    assert "\x1b" not in shown


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
        shown = terminal.expect("score 0.90")
        assert 0 == terminal.wait()
    assert (0, 1) == (flat(shown).count(CARS), flat(shown).count(ON_NESTED))


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


def test_ctrl_c_stops_the_reply_and_not_the_chat(serve: Serve) -> None:
    """A reply that hangs is left, `/resume` has it answered, and Ctrl-C at the prompt is harmless."""
    server = serve(ANSWERS)
    works, asked, release = server.script, threading.Event(), threading.Event()

    def hang(request: Asked) -> object:
        asked.set()
        release.wait(60)
        return works(request)

    server.script = hang  # type: ignore[assignment]
    with Terminal("chat") as terminal:
        terminal.expect(PROMPT)
        terminal.type(f"{LISTS}\r")
        assert asked.wait(60)
        terminal.type("\x03")
        terminal.expect("Stopped. /resume continues")
        release.set()
        terminal.expect(PROMPT)
        terminal.type("half a line\x03")
        terminal.expect("/exit or Ctrl-D quits")
        terminal.expect(PROMPT)
        terminal.type("/resume\r")
        assert ON_LISTS in flat(terminal.expect("score 0.90"))
        terminal.expect(PROMPT)
        terminal.type("/exit\r")
        assert 0 == terminal.wait()


def test_ctrl_c_ends_say_with_130(serve: Serve) -> None:
    """`say` stops, and says how to go on."""
    server = serve(ANSWERS)
    asked, release = threading.Event(), threading.Event()

    def hang(_: Asked) -> str:
        asked.set()
        release.wait(60)
        return ON_LISTS

    server.script = hang
    with Terminal("say", LISTS, "--thread", "t") as terminal:
        assert asked.wait(60)
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
        terminal.expect("Rolled back to checkpoint kyoto")
        terminal.type("/exit\r")
        assert 0 == terminal.wait()


def test_chat_without_prompt_toolkit(serve: Serve) -> None:
    """Where the extra is not installed, plain lines are read after a plain prompt."""
    serve(ANSWERS)
    blocked = "import sys; sys.modules['prompt_toolkit'] = None"
    with Terminal("chat", before=blocked) as terminal:
        terminal.expect("> ")
        terminal.type(f"{LISTS}\r")
        assert ON_LISTS in flat(terminal.expect("score 0.90"))
        terminal.expect("> ")
        terminal.type("\x04")
        assert 0 == terminal.wait()
