import os
import pty
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from tests.cli.conftest import Run, Serve
from tests.cli.talk import ANSWERS, LISTS, ON_LISTS
from tests.http.openai_server import Asked, OpenAIServer, Said
from unsay.cli.main import cli


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Ctrl-C interrupts, also where the suite was started in the background and ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press_ctrl_c_once(server: OpenAIServer) -> None:
    """Have the next question interrupt this process instead of being answered."""
    works, release, pressed = server.script, threading.Event(), threading.Event()

    def interrupt(asked: Asked) -> Said:
        if not pressed.is_set():
            pressed.set()
            os.kill(os.getpid(), signal.SIGINT)
            release.wait(1)
        return works(asked)

    server.script = interrupt


@contextmanager
def keys(monkeypatch: pytest.MonkeyPatch, typed: str = "") -> Generator[PipeInput, None, None]:
    """A keyboard, with standard input and output on a terminal where something was typed before."""
    controller, worker = pty.openpty()
    os.write(controller, typed.encode())
    reading = threading.Thread(target=_drain, args=(controller,))
    reading.start()
    with (
        monkeypatch.context() as patch,
        open(worker, closefd=False) as stdin,
        open(worker, "w", closefd=False) as stdout,
        create_pipe_input() as keyboard,
        create_app_session(input=keyboard, output=DummyOutput()),
    ):
        patch.setattr("sys.stdin", stdin)
        patch.setattr("sys.stdout", stdout)
        yield keyboard
    os.close(worker)
    reading.join()
    os.close(controller)


def _drain(controller: int) -> None:
    try:
        while os.read(controller, 4096):
            pass
    except OSError:
        """The other end of the pipe is closed."""


def test_ctrl_c_stops_the_reply_and_not_the_chat(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """After it the reply can be resumed; Ctrl-C at the prompt only clears the line."""
    server = serve(ANSWERS)
    press_ctrl_c_once(server)
    with keys(monkeypatch) as keyboard:
        keyboard.send_text(f"{LISTS}\rhalf a line\x03/resume\r/exit\r")
        cli.main(["chat"], standalone_mode=False)
    noted = capfd.readouterr().err
    stopped, leaving, scored = (
        noted.index(words) for words in ("Stopped. /resume", "/exit or Ctrl-D", "score 0.90")
    )
    assert leaving < stopped < scored
    assert noted.count("/exit or Ctrl-D") == 2


def test_without_prompt_toolkit(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Plain lines are read on a terminal, and Ctrl-C stops just the reply there, too."""
    server = serve(ANSWERS)
    press_ctrl_c_once(server)
    monkeypatch.setitem(sys.modules, "prompt_toolkit", None)
    with keys(monkeypatch, typed=f"{LISTS}\n/resume\n/exit\n"):
        cli.main(["chat"], standalone_mode=False)
    noted = capfd.readouterr().err
    assert noted.index("Stopped. /resume") < noted.index("score 0.90")
    assert 3 == noted.count("\n> ") + noted.startswith("> ")


def test_an_undo_puts_the_question_back(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Enter alone says the question that was taken back once more."""
    server = serve(ANSWERS)
    with keys(monkeypatch) as keyboard:
        keyboard.send_text(f"{LISTS}\r/undo\r\r\x04")
        cli.main(["chat"], standalone_mode=False)
    assert [LISTS, LISTS] == [asked.question for asked in server.asked_of("answerer")]
    assert 2 == capfd.readouterr().err.count("score 0.90")


@pytest.mark.parametrize("arguments", [["say", LISTS, "--thread", "t"], ["chat", "--thread", "t"]])
def test_ctrl_c_ends_a_program_that_nobody_types_in(
    run: Run, serve: Serve, arguments: list[str]
) -> None:
    """In a script Ctrl-C ends it with 130, and the question is kept."""
    server = serve(ANSWERS)
    press_ctrl_c_once(server)
    result = run(*arguments, input=f"{LISTS}\n")
    assert (130, "") == (result.exit_code, result.stdout)
    assert f"{ON_LISTS}\n" == run("say", "--resume", "--thread", "t").stdout


def test_ctrl_c_while_nothing_is_said(
    run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a script Ctrl-C ends a chat that waits for its input, too."""
    serve(ANSWERS)

    def interrupted() -> Callable[[], str]:
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupted)
    assert 130 == run("chat").exit_code
