import re
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from unsay.cli.chat import status_of
from unsay.cli.prompt import (
    Commands,
    Keyboard,
    add_text,
    checkpoint_names,
    described_commands,
    forget_thread,
    typed_texts,
)
from unsay.conversation.conversation import Conversation
from unsay.orders.orders import VERBS
from unsay.prompts.catalogue import Texts
from unsay.results.timeline import one_line
from unsay.testing import ScriptedChat, ScriptedJudge
from unsay.types import Language


def completions(line: str) -> list[str]:
    """What a line may become."""
    commands = [("/undo", "take back"), ("/help", "show")]
    completer = Commands(commands, lambda: [("kyoto", "trips"), ("kobe", "trips")])
    candidates = completer.get_completions(Document(line), CompleteEvent())
    return [
        line[: len(line) + completion.start_position] + completion.text for completion in candidates
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("hello /u", [], id="no command"),
        pytest.param("/", ["/undo", "/help"], id="all commands"),
        pytest.param("/u", ["/undo"], id="one command"),
        pytest.param("/rollback k", ["/rollback kyoto", "/rollback kobe"], id="checkpoints"),
        pytest.param("/rollback ky", ["/rollback kyoto"], id="one checkpoint"),
    ],
)
def test_completion(line: str, expected: list[str]) -> None:
    """Commands complete at the beginning of a line, checkpoints after /rollback."""
    assert expected == completions(line)


@pytest.mark.parametrize("language", ["en", "ja"])
def test_every_command_is_described(language: Language) -> None:
    """Each verb of the graph and of the chat completes, with what it does."""
    descriptions = dict(described_commands(language))
    assert {*(f"/{verb}" for verb in VERBS), "/resume", "/exit"} == descriptions.keys()
    assert all(descriptions.values())


def test_checkpoints_are_offered_by_name(tmp_path: Path) -> None:
    """A checkpoint without a name is offered by its id; a new thread has none."""
    model = ScriptedChat(default="It builds a list in a single expression.")
    with Conversation.open(tmp_path / "a.db", model=model, judge=ScriptedJudge()) as conversation:
        assert [] == checkpoint_names(conversation)
        conversation.say("What is a list comprehension?")
        assert [("cp-", "list comprehension")] == [
            (n[:3], t) for n, t in checkpoint_names(conversation)
        ]
        conversation.checkpoint("kyoto")
        assert [("kyoto", "list comprehension")] == checkpoint_names(conversation)


def test_no_checkpoint_is_completed_in_a_damaged_thread(tmp_path: Path) -> None:
    """A key in the prompt of a thread that cannot be read raises no error."""
    path = tmp_path / "chat.db"
    model = ScriptedChat(default="Two days are enough.")
    with Conversation.open(path, model=model, judge=ScriptedJudge()) as conversation:
        conversation.say("How long should I stay in Kyoto?")
        assert checkpoint_names(conversation)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("UPDATE checkpoints SET checkpoint = zeroblob(99)")
        assert [] == checkpoint_names(conversation)


@contextmanager
def keyboard(folder: Path) -> Generator[tuple[PipeInput, Keyboard], None, None]:
    """A keyboard of a new thread; its history is in the folder."""
    with (
        Conversation.open(":memory:", thread="t") as conversation,
        create_pipe_input() as keys,
        create_app_session(input=keys, output=DummyOutput()),
    ):
        yield keys, Keyboard(conversation, "en", folder / "history", lambda: "status")


def test_a_line_can_be_edited(tmp_path: Path) -> None:
    """The restored text is in the prompt and can be edited."""
    with keyboard(tmp_path) as (keys, reader):
        keys.send_text(" of Japan?\r")
        assert "What is the capital of Japan?" == reader.read("What is the capital")


@pytest.mark.parametrize(
    ("keys_typed", "text"),
    [
        pytest.param("/undo\r", "/undo", id="a command"),
        pytest.param("exit\r", "exit", id="a word that leaves"),
        pytest.param("京都は?\r", "京都は?", id="Japanese"),
        pytest.param("\x1b[200~one\ntwo\x1b[201~, three\r", "one\ntwo, three", id="a paste"),
        pytest.param("\x7fNara\r", "Nara", id="deleted first"),
        pytest.param("\r", "What is Kyoto?", id="sent again"),
        pytest.param("\x1b[C Or 1/2?\r", "What is Kyoto? Or 1/2?", id="changed after an arrow"),
        pytest.param("\x1b\rOr Nara?\r", "What is Kyoto?\nOr Nara?", id="with a line more"),
    ],
)
def test_what_is_typed_replaces_a_removed_question(
    tmp_path: Path, keys_typed: str, text: str
) -> None:
    """The question is selected once; a cursor key or Alt-Enter keeps it, and Enter sends it again."""
    with keyboard(tmp_path) as (keys, reader):
        reader.selects = True
        keys.send_text(keys_typed)
        assert text == reader.read("What is Kyoto?")
        keys.send_text("?\r")
        assert "How?" == reader.read("How")


def test_a_paste_is_one_message(tmp_path: Path) -> None:
    """The line breaks of a paste do not send it; Alt-Enter adds one more line."""
    with keyboard(tmp_path) as (keys, reader):
        keys.send_text("\x1b[200~one\ntwo\r\nthree\x1b[201~\x1b\rfour\r")
        assert "one\ntwo\nthree\nfour" == reader.read("")


def test_two_escapes_are_a_rollback(tmp_path: Path) -> None:
    """What was typed before them is kept."""
    with keyboard(tmp_path) as (keys, reader):
        keys.send_text("half a line\x1b\x1b")
        assert ("/rollback", "half a line") == (reader.read(""), reader.typed)


def test_the_history_is_kept_for_the_user_alone(tmp_path: Path) -> None:
    """Another chat finds what was typed, in a file of mode 0600; a purged thread leaves nothing."""
    path = tmp_path / "history"
    with keyboard(tmp_path) as (keys, reader):
        keys.send_text("one\ntwo\r")
        reader.read("")
    assert 0o600 == path.stat().st_mode & 0o777
    with keyboard(tmp_path) as (keys, reader):
        keys.send_text("\x1b[A\r")
        assert "one\ntwo" == reader.read("")
    add_text(path, "other", "three")
    forget_thread(path, "t")
    assert ["three"] == typed_texts(path)
    assert b"two" not in path.read_bytes()


def test_the_history_keeps_texts_with_other_line_breaks(tmp_path: Path) -> None:
    """JSON does not escape U+2028 and U+0085: only a newline ends a line of the file."""
    path = tmp_path / "history"
    add_text(path, "t", "one\u2028two\x85three")
    add_text(path, "t", "four")
    assert ["four", "one\u2028two\x85three"] == typed_texts(path)


@pytest.mark.parametrize(
    "line",
    [
        '{"thread": "t", "text": 12}',
        '{"thread": "t", "text": null}',
        '{"thread": 3, "text": "two"}',
        '["t", "two"]',
        "[" * 100_000,
        "{",
    ],
    ids=lambda line: line[:30],
)
def test_a_damaged_line_of_the_history_is_skipped(line: str, tmp_path: Path) -> None:
    """Only a line with two texts counts, and a purge of a thread removes the others."""
    path = tmp_path / "history"
    add_text(path, "t", "one")
    with path.open("a") as file:
        file.write(f"{line}\n")
    add_text(path, "t", "three")

    assert ["three", "one"] == typed_texts(path)
    forget_thread(path, "u")
    assert 2 == len(path.read_text().splitlines())


def test_a_purge_that_cannot_be_written_leaves_the_history(tmp_path: Path) -> None:
    """The new file is complete before it replaces the old one."""
    path = tmp_path / "history"
    add_text(path, "t", "one")
    add_text(path, "other", "two")
    (tmp_path / "history.new").mkdir()
    with pytest.raises(IsADirectoryError):
        forget_thread(path, "t")
    assert ["two", "one"] == typed_texts(path)


@contextmanager
def longest_file(size: int) -> Iterator[None]:
    """A disk on which a file takes a part of what is written, and then no more."""
    before = getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        setrlimit(RLIMIT_FSIZE, before)


def test_a_full_disk_keeps_no_part_of_a_text(tmp_path: Path) -> None:
    """A line is written whole or not at all, so that the next one is not joined to a part of it."""
    path = tmp_path / "history"
    add_text(path, "t", "one")
    before = path.read_bytes()
    with longest_file(len(before) + 10):
        add_text(path, "t", "two")
    assert before == path.read_bytes()
    add_text(path, "t", "three")
    assert ["three", "one"] == typed_texts(path)


def test_a_purge_on_a_full_disk_leaves_the_history(tmp_path: Path) -> None:
    """The old file is replaced only by a complete one, and the error is raised."""
    path = tmp_path / "history"
    for thread in ("t", "other", "other"):
        add_text(path, thread, f"text of {thread}")
    before = path.read_bytes()
    with longest_file(20), pytest.raises(OSError, match="File too large"):
        forget_thread(path, "t")
    assert before == path.read_bytes()


@pytest.mark.parametrize(
    ("columns", "language", "pattern"),
    [
        pytest.param("100", "en", r"topic “Q+…” · session budget \S+ % · Context: \d+ tokens (", id="wide"),
        pytest.param("80", "en", r"topic “Q{7}…” · session budget \S+ % · Context: \d+ tokens (", id="usual"),
        pytest.param("60", "en", r"session budget \S+ % · Context: \d+ tokens (", id="narrow"),
        pytest.param("80", "ja", r"話題「Q+…」 · セッションの予算 \S+% · コンテキスト: \d+トークン(", id="japanese"),
        pytest.param("60", "ja", r"セッションの予算 \S+% · コンテキスト: \d+トークン(", id="narrow japanese"),
    ],
)  # fmt: skip
def test_a_long_topic_leaves_room_for_the_figures(
    monkeypatch: pytest.MonkeyPatch, columns: str, language: Language, pattern: str
) -> None:
    """Neither a budget nor the size of the context is cut: the topic is, or what stands in brackets."""
    monkeypatch.setenv("COLUMNS", columns)
    with Conversation.open(
        ":memory:",
        model=ScriptedChat(default="Two days are enough."),
        judge=ScriptedJudge(),
        settings={"session_budget_tokens": 20_000},
    ) as conversation:
        conversation.say("Q" * 70)
        line = one_line(status_of(conversation, Texts(language)), int(columns) - 1)
    assert re.match(pattern.replace("(", r"\("), line)
