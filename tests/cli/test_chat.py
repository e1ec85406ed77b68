import json
import re
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from llmock.pytest_plugin import LLMock
from llmock.scenarios import Fail, Match

from tests.cli.conftest import Run, Serve, run_json
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
from unsay.cli.run import load_files
from unsay.messages.content import cells_of

TOOLS = '''
def legs(animal: str) -> str:
    """Count the legs of an animal."""
    return "8"
'''


def objects(output: str) -> list[dict[str, Any]]:
    """The objects on standard output, one a line."""
    return [json.loads(line) for line in output.splitlines()]


def test_one_message_a_line(run: Run, serve: Serve) -> None:
    """A pipe is answered line by line, blank lines are passed over, and nothing is prompted."""
    serve(ANSWERS)
    result = run("chat", input=f"{LISTS}\n\n  \n{NESTED}\n")
    assert (0, f"{ON_LISTS}\n{ON_NESTED}\n") == (result.exit_code, result.stdout)


def test_exit_ends_it(run: Run, serve: Serve) -> None:
    """What comes after /exit is not read."""
    serve(ANSWERS)
    assert f"{ON_LISTS}\n" == run("chat", input=f"{LISTS}\n/exit\n{NESTED}\n").stdout


def test_the_thread_is_named_and_gone_on_with(run: Run, serve: Serve) -> None:
    """A chat can be taken up again where it ended."""
    server = serve(ANSWERS)
    run("chat", "--thread", "t", input=f"{LISTS}\n")
    result = run("chat", "--thread", "t", input=f"{NESTED}\n")
    assert result.stderr.startswith("thread t\n")
    assert ON_LISTS in server.asked_of("answerer")[-1].text


def test_slash_commands_are_answered_by_the_graph(run: Run, serve: Serve) -> None:
    """The verbs of the command line work in the chat, with no model asked."""
    serve(ANSWERS)
    lines = [LISTS, "/checkpoint lists", NESTED, "/rollback lists", "/timeline", "/undo"]
    output = run("chat", input="\n".join(lines)).stdout.splitlines()
    assert [ON_LISTS, "Created checkpoint lists.", ON_NESTED] == output[:3]
    assert output[3].startswith("Rolled back to checkpoint lists.")
    assert f"1. 0.90  {LISTS}" == output[4]
    assert output[5].startswith("Restored 1 turn. /redo reverses this.")


def test_help_lists_the_local_commands_too(run: Run, serve: Serve) -> None:
    """The graph's commands and the chat's own stand in one list."""
    serve(ANSWERS)
    output = run("chat", input="/help\n").stdout
    assert all(verb in output for verb in ("/undo", "/rollback", "/resume", "/exit"))


@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_help_is_aligned(run: Run, serve: Serve, language: str) -> None:
    """What the commands do begins in one column, for the graph's commands and the chat's own."""
    serve(ANSWERS)
    output = run("chat", input="/help\n", env={"UNSAY_LANGUAGE": language}).stdout.splitlines()
    heads = [re.match(r"/.*?  +", line) for line in output]
    assert 1 == len({head and cells_of(head[0]) for head in heads})


@pytest.mark.parametrize(
    ("line", "beginning"),
    [
        pytest.param("/help resume", "/resume  continue an interrupted turn", id="of the chat"),
        pytest.param("/help /UNDO", "/undo  undo the last operation", id="of the graph"),
        pytest.param("/help usage", "/tokens  show the parts", id="an alias"),
        pytest.param("/help me", "/me is not available in this chat", id="unknown"),
    ],
)
def test_help_explains_one_command(run: Run, serve: Serve, line: str, beginning: str) -> None:
    """Only the line of the named command is printed; an unknown name is refused."""
    serve(ANSWERS)
    lines = run("chat", input=f"{line}\n").stdout.splitlines()
    assert (1, True) == (len(lines), lines[0].startswith(beginning))


def test_scores_topics_and_rollbacks_are_noted(run: Run, serve: Serve) -> None:
    """What happened beside the words is on standard error."""
    serve({**DRAFTS, "weather": "I cannot see the weather from here; ask your forecast."}, SCORES)
    weather = "By the way, how is the weather today?"
    result = run("chat", input=f"{LISTS}\n{weather}\n{NESTED}\n")
    for note in (
        "score 0.90 · topic “list comprehension” · checkpoint cp-",
        "summarized topic “list comprehension” (2 messages): ",
        "new topic “weather” (similarity ",
        "back to topic “list comprehension” (similarity ",
        "rejected, score 0.10: It is worth 0.1.",
    ):
        assert note in result.stderr
    assert CARS not in result.stdout


@pytest.mark.parametrize(
    ("first", "second", "asks", "notice"),
    [
        pytest.param(LISTS, "By the way, how is the weather?", "; /same if", "goes on", id="en"),
        pytest.param(
            "リスト内包表記とは?",
            "ところで、天気は?",
            "。話題が同じなら /same",
            "の続きとして扱い",
            id="ja",
        ),
    ],
)
def test_the_topic_can_be_said_to_be_the_same(
    run: Run, serve: Serve, first: str, second: str, asks: str, notice: str
) -> None:
    """The chat says how, carries it out, and the command line keeps it until it is undone."""
    serve({first: ON_LISTS, second: "I cannot see the weather from here; ask your forecast."})
    result = run("chat", "--thread", "t", input=f"{first}\n{second}\n/same\n")
    assert asks in result.stderr
    assert notice in result.stdout

    assert 1 == len({turn["topic"] for turn in run_json(run, "timeline")["turns"]})
    assert 0 == run("undo").exit_code
    assert 2 == len({turn["topic"] for turn in run_json(run, "timeline")["turns"]})
    assert run_json(run, "same")["topic"]
    assert 4 == run("same").exit_code


def test_json_prints_one_event_a_line(run: Run, serve: Serve) -> None:
    """Programs get every event, each with the schema's version."""
    serve(DRAFTS, SCORES)
    events = objects(run("chat", "--json", "--thread", "t", input=f"{NESTED}\n").stdout)
    assert {2} == {event["schema_version"] for event in events}
    assert {"event": "thread", "thread_id": "t"}.items() <= events[0].items()
    tokens = "".join(event["text"] for event in events if event["event"] == "token")
    assert CARS + ON_NESTED == tokens
    assert ("reply", ON_NESTED, 1) == (
        events[-1]["event"],
        events[-1]["text"],
        events[-1]["data"]["rollbacks"],
    )


def test_an_error_is_shown_and_the_chat_goes_on(run: Run, serve: Serve) -> None:
    """A message that cannot be answered does not end a piped chat, but its exit code tells."""
    serve(ANSWERS)
    result = run("chat", input=f"{'x' * 1_000_000}\n{LISTS}\n")
    assert (2, f"{ON_LISTS}\n") == (result.exit_code, result.stdout)
    assert "unsay: The message has 1000000 characters" in result.stderr


def test_an_error_is_an_object_for_programs(run: Run, serve: Serve) -> None:
    """With --json an error is printed on a separate line between the events."""
    serve(ANSWERS)
    events = objects(run("chat", "--json", input=f"/resume\n{LISTS}\n").stdout)
    assert "NothingToResumeError" == events[1]["error"]["type"]
    assert "reply" == events[-1]["event"]


def test_a_model_that_returns_nothing(run: Run, serve: Serve) -> None:
    """The question is kept: /resume has it answered once the model is well."""
    server = serve(ANSWERS)
    works = server.script
    empty_answers = [""] * 3
    server.script = lambda request: (
        empty_answers.pop() if empty_answers and request.model != "judge" else works(request)
    )
    result = run("chat", input=f"{LISTS}\n/resume\n")
    assert "unsay: The model returned an empty answer" in result.stderr
    assert f"{ON_LISTS}\n" == result.stdout


def test_an_unanswered_question_is_pointed_out(run: Run, serve: Serve) -> None:
    """Who comes back to a thread hears that its last question waits."""
    server = serve({LISTS: ""})
    run("say", LISTS, "--thread", "t")
    server.script = serve(ANSWERS).script
    result = run("chat", "--thread", "t", input="/resume\n")
    assert f"“{LISTS}” has no answer yet; /resume continues." in result.stderr
    assert f"{ON_LISTS}\n" == result.stdout


def test_another_question_sets_the_unanswered_one_aside(run: Run, serve: Serve) -> None:
    """It is said, and where it can be found."""
    server = serve({LISTS: ""})
    run("say", LISTS, "--thread", "t")
    server.script = serve(ANSWERS).script
    assert (
        "had no answer and was removed; /branches lists it"
        in run("chat", "--thread", "t", input=f"{NESTED}\n").stderr
    )


def test_an_edit_says_how_many_later_turns_it_removed(run: Run, serve: Serve) -> None:
    """Only if there are any."""
    serve(ANSWERS)
    lines = f"{LISTS}\n{NESTED}\n/edit 1 {NESTED}\n/edit 1 {LISTS}\n"
    errors = run("chat", input=lines).stderr
    assert 1 == errors.count("later turns that were removed: 1; /undo restores them")


def test_a_short_word_does_not_change_the_language(run: Run, serve: Serve) -> None:
    """Such as "OK" in a Japanese conversation; "ｅｘｉｔ" of a Japanese keyboard leaves it."""
    serve({"内包表記": "リストを1つの式で作る書き方です。", "OK": "どういたしまして。"})
    errors = run("chat", input="内包表記とは何ですか?\nOK\nｅｘｉｔ\n").stderr
    assert 2 == errors.count("話題「")
    assert "topic" not in errors


@pytest.mark.usefixtures("asks")
def test_a_decision_is_the_next_line(run: Run, serve: Serve) -> None:
    """When every draft failed, the chat asks the user, takes the answer and continues."""
    serve(DRAFTS, SCORES)
    result = run("chat", input=f"{NESTED}\nedit: My own words.\n{LISTS}\n")
    assert f"{CARS}\nMy own words.\n{ON_LISTS}\n" == result.stdout
    assert "Enter approve (or yes), reject (or no), edit:YOUR TEXT" in result.stderr


@pytest.mark.usefixtures("asks")
def test_a_decision_that_was_due_before(run: Run, serve: Serve) -> None:
    """Who comes back to a thread that waits for a decision is asked for it at once."""
    serve(DRAFTS, SCORES)
    run("say", NESTED, "--thread", "t")
    result = run("chat", "--thread", "t", input="approve\n")
    assert f"{CARS}\n" * 2 == result.stdout
    assert "Enter approve" in result.stderr


def test_a_summarizer_that_fails_is_noted(
    run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The local summary is used instead, and the user is informed."""
    monkeypatch.setenv("UNSAY_SUMMARIZER_MODEL", "summarizer")
    server = serve({**ANSWERS, "weather": "I cannot see the weather from here."})
    works = server.script

    def fail(request: Any) -> Any:
        if request.model == "summarizer":
            raise ConnectionAbortedError
        return works(request)

    server.script = fail
    result = run("chat", input=f"{LISTS}\nBy the way, how is the weather today?\n")
    assert "the summarizer failed (" in result.stderr


def test_unscored_answers_say_why(run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unscored answer is not shown as a good one."""
    monkeypatch.setenv("UNSAY_JUDGING", "off")
    serve(ANSWERS)
    assert "unscored: judging is off · topic" in run("chat", input=f"{LISTS}\n").stderr


def test_input_that_is_not_text_ends_it(run: Run, serve: Serve) -> None:
    """Bytes that are no UTF-8 are bad input."""
    serve(ANSWERS)
    result = run("chat", input=b"caf\xe9\n")
    assert 2 == result.exit_code
    assert "not UTF-8" in result.stderr


def test_commands_leave_no_trace_in_a_chat(run: Run, serve: Serve) -> None:
    """Other names, wide letters and a mistyped one; the timeline of the command line has no command."""
    serve(DRAFTS, SCORES)
    lines = [LISTS, "／ｈｅｌｐ", "/usage", "/rolback", "/clear", "/rewind 1", "/undo", "/QUIT"]
    result = run("chat", "--thread", "t", input="\n".join([*lines, "Not sent."]))

    assert "/resume" in result.stdout
    assert "Did you mean /rollback?" in result.stdout
    assert 2 == result.stdout.count("There is no such command.")
    output = run("timeline", "--thread", "t").stdout
    assert LISTS in output
    assert not any(word in output for word in ("help", "usage", "rolback", "clear", "Not sent"))


@pytest.mark.parametrize("word", ["exit", "quit", "EXIT", "終了"])
def test_a_word_leaves_the_chat(run: Run, serve: Serve, word: str) -> None:
    """`exit` and `quit` alone are not sent to the model; within a message they are."""
    server = serve({**ANSWERS, "How do I": "Press Escape, then type the command and Enter."})
    question = "How do I exit vim?"
    assert 0 == run("chat", input=f"{question}\n{word}\n{LISTS}\n").exit_code
    assert [question] == [request.question for request in server.asked_of("answerer")]


@pytest.mark.full
def test_a_decision_that_is_yes_or_no(
    run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a budget that is used up, the chat names the two words that can be typed."""
    monkeypatch.setenv("UNSAY_SESSION_BUDGET_TOKENS", "10")
    serve(ANSWERS)
    result = run("chat", input=f"{LISTS}\nperhaps\nyes\n{LISTS}\nはい\n")
    assert 3 == result.stderr.count("Enter yes or no.")
    assert "edit:" not in result.stderr
    assert ON_LISTS in result.stdout


def test_options_of_a_chat(run: Run, serve: Serve, home: Path) -> None:
    """A system prompt, a file and a tool reach the model; the file goes with the first message."""
    server = serve({**ANSWERS, "notes": "The notes are about a spider called Amy."})
    Path("notes.txt").write_text("The spider is called Amy.\n")
    Path("own_tools.py").write_text(TOOLS)
    options = ["--system", "Be brief.", "--file", "notes.txt", "--tools", "own_tools:legs"]
    result = run("chat", *options, input=f"What do the notes say?\n{LISTS}\n")
    assert 0 == result.exit_code
    assert "attached to the next message: notes.txt" in result.stderr
    requests = server.asked_of("answerer")
    first = requests[0]
    second = requests[-1]
    assert "Be brief." in first.system
    assert '<file name="notes.txt">\nThe spider is called Amy.\n</file>' in first.question
    assert "Amy" not in second.question
    assert "legs" in [tool["function"]["name"] for tool in first.body["tools"]]


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(
    ("text", "hint_count"),
    [
        pytest.param("go back", 1, id="English"),
        pytest.param("さっきの回答はなかったことにして。", 1, id="Japanese"),
        pytest.param("How do I go back to Kyoto?", 0, id="a question"),
        pytest.param("取り消し線の書き方は?", 0, id="a Japanese question"),
    ],
)
def test_a_wish_to_go_back_in_words(run: Run, serve: Serve, text: str, hint_count: int) -> None:
    """The message is answered like any other, and a note names the commands that go back."""
    serve({**ANSWERS, text[:12]: "That is as it was."})
    result = run("chat", input=f"{text}\n")
    assert hint_count == result.stderr.count("/undo")
    assert 0 == run("chat", "--json", input=f"{text}\n").stderr.count("/undo")


def test_files_of_a_message_that_is_refused(
    run: Run, serve: Serve, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They go with the next message, and no file goes twice."""
    monkeypatch.setattr("unsay.transcript.pending.MESSAGE_CHARS", 200)
    server = serve({**ANSWERS, "notes": "The notes are about a spider called Amy."})
    Path("notes.txt").write_text("The spider is called Amy.\n")
    lines = f"{'long ' * 50}\nWhat do the notes say?\n{LISTS}\n"
    result = run("chat", "--file", "notes.txt", input=lines)
    assert 2 == result.stderr.count("attached to the next message: notes.txt")
    asked_of = server.asked_of("answerer")
    assert "Amy" in asked_of[0].question
    assert "Amy" not in asked_of[-1].question


def test_files_of_the_same_name(tmp_path: Path) -> None:
    """Both files are attached; the second goes by its path."""
    paths = [tmp_path / folder / "notes.txt" for folder in ("old", "new")]
    for path in paths:
        path.parent.mkdir()
        path.write_text(path.parent.name)
    old, new = map(str, paths)
    assert {"notes.txt": "old", new: "new"} == load_files([old, new]).texts


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param(["--file", "none.txt"], "--file 'none.txt' cannot be read", id="no file"),
        pytest.param(["--tools", "own"], "must be MODULE:FUNCTION", id="no function"),
        pytest.param(["--tools", "no_such:tool"], "cannot be imported", id="no module"),
        pytest.param(["--tools", "json:no_such"], "has no 'no_such'", id="no name"),
        pytest.param(["--tools", "json:__all__"], "is neither a tool nor a", id="no tools"),
        pytest.param(["--tools", "broken:weather"], "has no attribute 'nothing'", id="broken"),
        pytest.param(["--mcp", "none.json"], "--mcp 'none.json' cannot be read", id="no servers"),
    ],
)
def test_options_that_cannot_be_used(
    run: Run,
    serve: Serve,
    options: list[str],
    problem: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error names the option, and nothing is asked."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text("import json\njson.nothing\ndef weather(): ...\n")
    server = serve(ANSWERS)
    result = run("chat", *options, input=f"{LISTS}\n")
    assert (2, []) == (result.exit_code, server.asked)
    assert problem in result.stderr


def test_an_image_is_sent_as_an_image(run: Run, serve: Serve, tmp_path: Path) -> None:
    """The model gets it with the message, also after the question was put back and asked again."""
    png = b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
    (tmp_path / "dot.png").write_bytes(png)
    (tmp_path / "notes.txt").write_text("It is small.")
    server = serve({"What is this?": "It is one pixel, as the notes say: small."})
    result = run(
        "say", "What is this?", "--thread", "t", "--file", "dot.png", "--file", "notes.txt"
    )
    assert "one pixel" in result.stdout
    chat_result = run("chat", "--thread", "t", "--file", "dot.png", input="What is this?\n")
    assert 0 == chat_result.exit_code
    for request in server.asked_of("answerer"):
        blocks = request.body["messages"][-1]["content"]
        (url,) = [block["image_url"]["url"] for block in blocks if block["type"] == "image_url"]
        assert png == b64decode(url.removeprefix("data:image/png;base64,"))
    (tmp_path / "sound.bin").write_bytes(b"\xff\xfe\x00")
    result = run("say", "What is this?", "--file", "sound.bin")
    assert 2 == result.exit_code
    assert "only text and images (GIF, JPEG, PNG, WebP) can be attached" in result.stderr


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("status", [401, 500])
def test_a_piped_chat_tells_of_a_model_error(
    run: Run, serve: Serve, llmock: LLMock, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """A script sees that the model failed, also if a later message was answered."""
    serve(ANSWERS)
    monkeypatch.setenv("OPENAI_BASE_URL", llmock.base_url())
    llmock.add(Fail(status, times=None, match=Match(model="answerer")))
    result = run("chat", input=f"{LISTS}\n/help\n")
    assert (1, True) == (result.exit_code, "/undo" in result.stdout)
    assert f"{status}" in result.stderr
