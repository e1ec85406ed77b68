import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run, Serve
from tests.cli.scripted_conversation import (
    ANSWERS,
    CARS,
    DRAFTS,
    LISTS,
    NESTED,
    ON_LISTS,
    ON_NESTED,
    SCORES,
    age,
)
from unsay.conversation.conversation import Conversation


def test_prints_the_answer_alone(run: Run, serve: Serve) -> None:
    """Standard output is the answer; everything about it is on standard error."""
    serve(ANSWERS)
    result = run("say", LISTS)
    assert (0, f"{ON_LISTS}\n") == (result.exit_code, result.stdout)
    assert "score 0.90 · topic “list comprehension” · checkpoint cp-" in result.stderr


def test_a_new_thread_is_told_and_can_be_gone_on_with(run: Run, serve: Serve) -> None:
    """Without --thread a conversation begins, and its id is on standard error."""
    server = serve(ANSWERS)
    thread = run("say", LISTS).stderr.splitlines()[0].removeprefix("thread ")
    reply = json.loads(run("say", "--thread", thread, "--json", NESTED).stdout)
    assert (thread, ON_NESTED) == (reply["thread_id"], reply["text"])
    assert ON_LISTS in server.asked_of("answerer")[-1].text


@pytest.mark.parametrize("arguments", [["say", NESTED], ["chat"]], ids=["say", "chat"])
def test_a_connection_that_breaks_off_is_no_answer(
    run: Run, serve: Serve, arguments: list[str]
) -> None:
    """The exit code is 1, no half of an answer is printed or kept, and the question is answered later."""
    server = serve(ANSWERS)
    works = server.script

    def half() -> Iterator[str]:
        yield ON_NESTED[:30]
        raise ConnectionError

    server.script = lambda request: half() if request.model == "answerer" else works(request)
    result = run(*arguments, "--thread", "t", input=f"{NESTED}\n")
    server.script = works

    assert (1, "") == (result.exit_code, result.stdout)
    assert "The connection to the model broke off in its reply" in result.stderr
    assert f"{ON_NESTED}\n" == run("say", "--resume", "--thread", "t").stdout
    assert 1 == len(run("events", "--thread", "t").stdout.split(NESTED)) - 1


def test_json_is_one_object_with_the_whole_reply(run: Run, serve: Serve) -> None:
    """Programs get the reply's fields, the thread and the schema's version."""
    serve(DRAFTS, SCORES)
    reply = json.loads(run("say", NESTED, "--json", "--thread", "t").stdout)
    assert {
        "schema_version": 2,
        "thread_id": "t",
        "kind": "answer",
        "text": ON_NESTED,
        "score": 0.9,
        "outcome": "passed",
        "rollbacks": 1,
        "flag": None,
        "request": None,
    }.items() <= reply.items()


def test_a_draft_that_was_taken_back_is_announced(run: Run, serve: Serve) -> None:
    """A rejected draft does not reach a pipe; why it went does reach standard error."""
    serve(DRAFTS, SCORES)
    result = run("say", NESTED)
    assert f"{ON_NESTED}\n" == result.stdout
    assert "rejected, score 0.10: It is worth 0.1." in result.stderr
    assert CARS not in result.output


def test_the_best_of_drafts_that_all_failed_is_said_to_be_so(run: Run, serve: Serve) -> None:
    """An answer that no judge let pass comes with a warning."""
    serve({NESTED: CARS}, SCORES)
    result = run("say", NESTED)
    assert f"{CARS}\n" == result.stdout
    assert (
        "no draft passed, so the best one is delivered; its fault: It is worth 0.1."
        in result.stderr
    )


def test_a_judge_that_fails_is_told_once(
    run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """In words below the answer, and not in a line of the log too."""
    serve({NESTED: CARS})
    monkeypatch.setenv("UNSAY_JUDGE_MODEL", "ollama:nowhere")
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:1")
    result = run("say", NESTED)
    assert "unscored: the judge failed" in result.stderr
    assert "judge_failed" not in caplog.text


def test_a_failed_judge_of_a_panel_is_logged(
    run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The verdict of the others does not say that one is missing."""
    serve({NESTED: CARS}, SCORES)
    monkeypatch.setenv("UNSAY_JUDGE_PANEL", '["ollama:nowhere"]')
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:1")
    run("say", NESTED)
    assert "event=judge_failed" in caplog.text


def test_a_title_and_a_topic_name_no_attached_file(run: Run, serve: Serve, tmp_path: Path) -> None:
    """They are words of the question, not of the element around the file."""
    serve({"What is in this?": ON_NESTED})
    (tmp_path / "notes.txt").write_text("milk and eggs")
    result = run("say", "What is in this?", "--file", str(tmp_path / "notes.txt"))
    assert "topic “What is in this?”" in result.stderr
    (thread,) = json.loads(run("threads", "--json").stdout)["threads"]
    assert "What is in this?" == thread["title"]


def test_dash_reads_standard_input(run: Run, serve: Serve) -> None:
    """A long message need not stand on the command line."""
    server = serve(ANSWERS)
    assert 0 == run("say", "-", input=f"{LISTS}\nIn one line, please.\n").exit_code
    assert f"{LISTS}\nIn one line, please.\n" == server.asked_of("answerer")[0].question


def test_models_named_on_the_command_line_win(run: Run, serve: Serve) -> None:
    """--model and --judge-model replace what the environment names."""
    server = serve(ANSWERS)
    server.script = lambda request: "0.7" if request.model == "grader" else ON_LISTS
    result = run("say", LISTS, "--model", "writer", "--judge-model", "grader", "--json")
    assert 0.7 == json.loads(result.stdout)["score"]
    assert {"writer", "grader"} == {request.model for request in server.asked}


def test_notes_are_in_the_language_of_the_message(run: Run, serve: Serve) -> None:
    """A Japanese question is noted upon in Japanese."""
    serve({"リスト": "リスト内包表記は、リストを一つの式で作る書き方です。"})
    assert (
        "  スコア 0.90 · 話題「リスト内包表記」" in run("say", "リスト内包表記とは何ですか?").stderr
    )


def test_the_language_can_be_set(run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """UNSAY_LANGUAGE is stronger than the language of the message."""
    serve(ANSWERS)
    monkeypatch.setenv("UNSAY_LANGUAGE", "ja")
    assert "スコア 0.90" in run("say", LISTS).stderr


def test_a_slash_command_is_answered_by_the_graph(run: Run, serve: Serve) -> None:
    """The same verbs work inside a message, and no model is asked."""
    server = serve(ANSWERS)
    run("say", LISTS, "--thread", "t")
    request_count = len(server.asked)
    result = run("say", "/timeline", "--thread", "t")
    assert (f"1. 0.90  {LISTS}\n", request_count) == (result.stdout, len(server.asked))


def test_an_interrupted_turn_goes_on(run: Run, serve: Serve) -> None:
    """A question whose model failed is kept, and --resume has it answered."""
    server = serve(ANSWERS)
    works = server.script
    server.script = lambda request: "" if request.model == "answerer" else works(request)
    failed = run("say", LISTS, "--thread", "t")
    server.script = works
    result = run("say", "--resume", "--thread", "t")
    assert (1, 0) == (failed.exit_code, result.exit_code)
    assert f"{ON_LISTS}\n" == result.stdout


@pytest.mark.parametrize("options", [["--resume"], ["--decide", "approve"]], ids="-".join)
def test_a_misspelt_thread_is_not_resumed(run: Run, serve: Serve, options: list[str]) -> None:
    """The error names the thread, and not a turn that was not stopped."""
    serve({LISTS: ON_NESTED})
    run("say", LISTS, "--thread", "t")
    result = run("say", *options, "--thread", "nosuch")
    assert 3 == result.exit_code
    assert "There is no thread 'nosuch'" in result.stderr
    assert "No turn of this thread was stopped" in run("say", "--resume").stderr


def test_resume_takes_the_newest_thread(run: Run, serve: Serve, home: Path) -> None:
    """Without --thread the thread that was spoken in last is meant, and named."""
    serve(ANSWERS)
    run("say", LISTS, "--thread", "older")
    age(home / "unsay.db", "older")
    run("say", NESTED, "--thread", "newer")
    result = run("say", "--resume")
    assert 3 == result.exit_code
    assert result.stderr.startswith("thread newer\n")


class TestDecisions:
    """Drafts that all failed, and a person who is asked."""

    @pytest.fixture(autouse=True)
    def _asked(self, run: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("UNSAY_ON_EXHAUSTED", "ask")
        monkeypatch.setenv("UNSAY_MAX_ROLLBACKS", "0")
        serve(DRAFTS, SCORES)
        self.asked = run("say", NESTED, "--thread", "t")

    def test_the_request_says_how_to_answer_it(self) -> None:
        """The best draft is shown, with the reasons and the command that decides."""
        assert f"{CARS}\n" == self.asked.stdout
        assert "No draft passed" in self.asked.stderr
        assert "unsay say --thread t --decide approve|reject|edit:TEXT" in self.asked.stderr

    def test_nothing_else_can_be_said(self, run: Run) -> None:
        """A message before a pending decision is a conflict."""
        assert 4 == run("say", LISTS, "--thread", "t").exit_code

    @pytest.mark.parametrize(
        ("decision", "text", "flag"),
        [
            pytest.param("approve", CARS, "low_quality", id="approve"),
            pytest.param("edit:In my own words.", "In my own words.", "by_person", id="edit"),
            pytest.param("no cars, please", ON_NESTED, None, id="respond"),
        ],
    )
    def test_decision(self, run: Run, decision: str, text: str, flag: str | None) -> None:
        """Each decision ends the turn as it says."""
        reply = json.loads(run("say", "--decide", decision, "--json").stdout)
        assert ("answer", text, flag) == (reply["kind"], reply["text"], reply["flag"])

    def test_an_edit_without_a_text(self, run: Run) -> None:
        """It is refused in words, and the decision is still to be taken."""
        result = run("say", "--decide", "edit:")
        assert 2 == result.exit_code
        assert "unsay: The decision edit:TEXT needs a text" in result.stderr
        assert 0 == run("say", "--decide", "approve").exit_code

    def test_reject(self, run: Run) -> None:
        """A rejected draft is not delivered."""
        result = run("say", "--decide", "reject")
        assert "No answer was given" in result.stdout

    @pytest.mark.parametrize("decision", ["approve", "edit:In my own words.", "reject"])
    def test_a_decision_about_drafts_needs_no_model(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, decision: str
    ) -> None:
        """The person who decides may have no key; instructions for another draft need a model."""
        monkeypatch.delenv("UNSAY_MODEL")
        assert 0 == run("say", "--decide", decision).exit_code
        assert 3 == run("say", "--decide", decision).exit_code

    def test_instructions_without_a_model_are_kept(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The error says what is missing, and `--resume` follows them."""
        with monkeypatch.context() as patch:
            patch.delenv("UNSAY_MODEL")
            result = run("say", "--decide", "no cars, please")
            assert (1, True) == (result.exit_code, "There is no model" in result.stderr)
        assert f"{ON_NESTED}\n" == run("say", "--resume").stdout

    def test_json_holds_the_request(self, run: Run, home: Path) -> None:
        """Programs get LangChain's own human-in-the-loop request."""
        del home
        reply = json.loads(run("say", NESTED, "--thread", "u", "--json").stdout)
        decisions = reply["request"]["review_configs"][0]["allowed_decisions"]
        assert ("decision", ["approve", "edit", "reject", "respond"]) == (reply["kind"], decisions)


def test_threads_can_be_read_by_the_library(run: Run, serve: Serve, home: Path) -> None:
    """The command line and the library share their files."""
    serve(ANSWERS)
    run("say", LISTS, "--thread", "t")
    with Conversation.open(f"{home}/unsay.db", thread="t") as conversation:
        assert [LISTS, ON_LISTS] == [message.text for message in conversation.messages()]


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_message_names_no_thread(run: Run, serve: Serve, text: str) -> None:
    """Only the error is printed, because no thread begins."""
    serve(ANSWERS)
    result = run("say", text)
    assert (2, ["unsay: The message is empty: write a text"]) == (
        result.exit_code,
        result.stderr.splitlines(),
    )
