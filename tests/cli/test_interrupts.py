import os
import pty
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from tests.cli.conftest import Run, Serve
from tests.cli.scripted_conversation import ANSWERS, LISTS, NESTED, ON_LISTS, ON_NESTED
from tests.http.openai_server import Asked, OpenAIServer, Said
from unsay.cli.main import cli
from unsay.cli.output import location
from unsay.conversation.conversation import Conversation

DOWN = "\x1b[B"
"""The arrow key."""


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """Ctrl-C interrupts, also where the suite was started in the background and ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press_ctrl_c_once(server: OpenAIServer) -> None:
    """Have the next question interrupt this process instead of being answered."""
    works = server.script
    release = threading.Event()
    is_pressed = threading.Event()

    def interrupt(request: Asked) -> Said:
        if not is_pressed.is_set():
            is_pressed.set()
            os.kill(os.getpid(), signal.SIGINT)
            release.wait(1)
        return works(request)

    server.script = interrupt


@contextmanager
def keys(monkeypatch: pytest.MonkeyPatch) -> Generator[PipeInput, None, None]:
    """A keyboard, with standard input and output on a terminal."""
    monkeypatch.setenv("TERM", "xterm")
    controller, worker = pty.openpty()
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


@pytest.mark.sample(every=4)
@pytest.mark.parametrize(
    ("key", "questions"),
    [
        pytest.param("\r", [LISTS, LISTS], id="resume"),
        pytest.param(f"{DOWN}\r\r", [LISTS, LISTS], id="edit"),
        pytest.param(f"{DOWN}{DOWN}\r", [LISTS], id="drop"),
        pytest.param(f"{3 * DOWN}\r/resume\r", [LISTS, LISTS], id="later"),
        pytest.param("do the same for Nara\x03/resume\r", [LISTS, LISTS], id="letters"),
    ],
)
def test_ctrl_c_stops_the_reply_and_not_the_chat(
    serve: Serve,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    key: str,
    questions: list[str],
) -> None:
    """After it the answer can be resumed, or the question edited or dropped; no earlier turn changes."""
    server = serve(ANSWERS)
    with keys(monkeypatch) as keyboard:
        keyboard.send_text(f"{NESTED}\r/exit\r")
        cli.main(["chat", "--thread", "t"], standalone_mode=False)
    press_ctrl_c_once(server)
    with keys(monkeypatch) as keyboard:
        keyboard.send_text(f"{LISTS}\r{key}half a line\x03/exit\r")
        cli.main(["chat", "--thread", "t"], standalone_mode=False)
    assert [NESTED, *questions] == [request.question for request in server.asked_of("answerer")]
    errors = capfd.readouterr().err
    assert "Stopped." in errors
    assert errors.count("/exit or Ctrl-D") == 3
    with Conversation.open(location(None), thread="t") as conversation:
        turns = conversation.timeline().turns
    assert [NESTED, *questions[1:]] == [turn.question for turn in turns]
    assert all(turn.answer is not None for turn in turns)


def test_an_answer_that_is_resumed_may_fail(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """If the model fails after Ctrl-C and `resume`, the error is shown and the chat goes on."""
    server = serve({NESTED: ON_NESTED, LISTS: ""})
    press_ctrl_c_once(server)
    with keys(monkeypatch) as keyboard:
        keyboard.send_text(f"{LISTS}\r\r{NESTED}\r/exit\r")
        cli.main(["chat", "--thread", "t"], standalone_mode=False)
    assert "The model returned an empty answer" in capfd.readouterr().err
    with Conversation.open(location(None), thread="t") as conversation:
        assert ON_NESTED == conversation.timeline().turns[-1].answer


def test_an_undo_puts_the_question_back(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Enter alone says the question that was taken back once more."""
    server = serve(ANSWERS)
    with keys(monkeypatch) as keyboard:
        keyboard.send_text(f"{LISTS}\r/undo\r\r\x04")
        cli.main(["chat"], standalone_mode=False)
    assert [LISTS, LISTS] == [request.question for request in server.asked_of("answerer")]
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

    def interrupt_input() -> Callable[[], str]:
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupt_input)
    assert 130 == run("chat").exit_code
