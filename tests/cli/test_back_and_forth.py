import json
import threading
from pathlib import Path

import pytest

from tests.cli.conftest import Run, Serve, run_json
from tests.cli.scripted_conversation import (
    ANSWERS,
    DRAFTS,
    LISTS,
    NESTED,
    ON_LISTS,
    ON_NESTED,
    SCORES,
    age,
)
from tests.cli.terminal import Terminal
from tests.graph.back_kit import JAPANESE, Paid
from tests.http.openai_server import Asked
from unsay.conversation.conversation import Conversation
from unsay.messages.content import cells_of
from unsay.testing import ScriptedChat, ScriptedJudge, ToolCalls

LAZY = "Is a generator expression lazier?"
THREE = (LISTS, NESTED, LAZY)


def fill(path: Path, thread: str, *questions: str) -> None:
    """A conversation of these turns, 11 tokens each, with a checkpoint at the first answer."""
    with Conversation.open(
        path, thread=thread, model=Paid(), judge=ScriptedJudge()
    ) as conversation:
        for number, question in enumerate(questions):
            conversation.say(question)
            if number == 0:
                conversation.checkpoint("first")


def weather(city: str) -> str:
    """Tell the weather."""
    return f"fine in {city}"


@pytest.fixture(autouse=True)
def database(home: Path) -> Path:
    """A Japanese conversation, and the one called `talk`, spoken in last; three turns each."""
    path = home / "unsay.db"
    fill(path, "日本", *JAPANESE)
    age(path, "日本")
    fill(path, "talk", *THREE)
    return path


@pytest.fixture
def branch(run: Run) -> str:
    """The id of a branch that holds the last two turns of `talk`."""
    run("rollback", "--turns", "2")
    return str(run_json(run, "branches")["branches"][1]["id"])


def questions(run: Run, thread: str = "talk") -> list[str]:
    """What was asked on a thread's live line."""
    turns = run_json(run, "timeline", "--thread", thread)["turns"]
    return [turn["question"] for turn in turns]


def own_messages(run: Run, line: str) -> list[str]:
    """Ids of the messages that only a line has."""
    messages = run_json(run, "diff", line, "--thread", "talk")["a"]["only"]
    return [message["data"]["id"] for message in messages]


def test_preview(run: Run) -> None:
    """The preview names everything that would be removed, and removes nothing."""
    output = run("rollback", "first", "--preview").stdout.splitlines()
    assert "Would roll back to checkpoint first. Nothing has been changed." == output[0]
    assert "Turns: 2. Messages: 4. Tokens: 22 (20 in, 2 out)." == output[1]
    assert [f"  “{NESTED}”", f"  “{LAZY}”"] == output[2:4]
    assert output[4].startswith("checkpoints: cp-")
    assert list(THREE) == questions(run)


def test_preview_json(run: Run) -> None:
    """Programs get the preview whole."""
    preview = run_json(run, "rollback", "--preview", "--turns", "1")
    assert ("talk", 1, [LAZY]) == (preview["thread_id"], preview["turns"], preview["questions"])
    assert (2, 11) == (len(preview["message_ids"]), preview["tokens"]["total"])
    assert list(THREE) == questions(run)


def test_preview_names_the_tools(run: Run, database: Path) -> None:
    """Tools that were called are named, with what they did and would stand."""
    calls = [{"name": "weather", "args": {"city": "Kyoto"}}]
    chat = ScriptedChat(default=ToolCalls(calls=calls, then="It is {result}, as you asked."))
    with Conversation.open(
        database, thread="talk", model=chat, judge=ScriptedJudge(), tools=[weather]
    ) as conversation:
        conversation.say("Is the weather fine?")
    output = run("rollback", "--preview", "--turns", "1").stdout.splitlines()
    assert "tool calls: weather" in output
    assert "effects that cannot be undone: weather(city='Kyoto')" in output


def test_rollback_by_turns_and_redo(run: Run) -> None:
    """Turns are taken off by their number; redo makes again what undo took back."""
    assert (
        "Removed 4 messages. The conversation has 1 turn." in run("rollback", "--turns", "2").stdout
    )
    assert 3 == run("redo").exit_code
    assert 0 == run("undo").exit_code
    result = run("redo")
    assert "Removed 2 turns. `unsay undo` reverses this.\n" == result.stdout
    assert f"removed question: “{NESTED}”" in result.stderr
    assert [LISTS] == questions(run)


def test_redo_json(run: Run) -> None:
    """The JSON output has the position of the thread."""
    run("undo")
    answer = run_json(run, "redo")
    assert ("talk", 3, 2) == (answer["thread_id"], answer["turns"], answer["restored"])


def test_compact(run: Run, serve: Serve) -> None:
    """A summary of the model replaces the messages in the context, not in the transcript."""
    server = serve(ANSWERS)
    run("say", LISTS, "--thread", "t")
    server.script = lambda _: "Lists."
    answer = run_json(run, "compact", "1", "--thread", "t")
    assert ("t", 2, "Lists.") == (
        answer["thread_id"],
        len(answer["message_ids"]),
        answer["summary"],
    )
    assert [LISTS] == questions(run, "t")
    undone = run("undo", "--thread", "t").stdout
    assert "The messages are sent to the model again. `unsay redo` reverses this.\n" == undone
    output = run("compact", "--thread", "t").stdout
    assert "Summarized 2 messages of the context." in output
    result = run("compact", "--thread", "t")
    assert "no message up to there" in result.stderr


def test_retry(run: Run, serve: Serve) -> None:
    """The last question has a new answer, of the model that was named; undo brings the old one."""
    server = serve(ANSWERS)
    run("say", NESTED, "--thread", "t")
    server.script = serve({NESTED: f"Indeed. {ON_NESTED}"}).script
    result = run("retry", "--thread", "t", "--model", "other")
    assert f"Indeed. {ON_NESTED}\n" == result.stdout
    assert "score 0.90" in result.stderr
    assert [NESTED] == questions(run, "t")
    run("undo", "--thread", "t")
    assert ON_NESTED == run_json(run, "timeline", "--thread", "t")["turns"][0]["answer"]


def test_retry_asks_the_models_that_are_named(run: Run, serve: Serve) -> None:
    """Neither the configured model nor the configured judge is asked."""
    server = serve(ANSWERS)
    run("say", LISTS, "--thread", "t")
    script = server.script
    server.script = lambda request: (
        '{"score": 0.7, "reason": "Fine."}' if request.model == "strict" else script(request)
    )
    server.asked.clear()
    options = ("--model", "other", "--judge-model", "strict")
    reply = run_json(run, "retry", "--thread", "t", *options)
    assert ("t", "answer", ON_LISTS, 0.7) == tuple(
        reply[name] for name in ("thread_id", "kind", "text", "score")
    )
    assert {"other", "strict"} == {request.model for request in server.asked}


def test_retry_of_rejected_drafts(run: Run, serve: Serve) -> None:
    """A draft that fails is taken back, as in any turn."""
    serve(DRAFTS, SCORES)
    run("say", NESTED, "--thread", "t")
    assert 1 == run_json(run, "retry", "--thread", "t")["rollbacks"]


@pytest.mark.full
def test_a_retry_that_is_stopped(run: Run, serve: Serve) -> None:
    """Ctrl-C ends it with 130, and says how to go on."""
    server = serve(ANSWERS)
    run("say", LISTS, "--thread", "t")
    is_requested = threading.Event()
    release = threading.Event()

    def hang(_: Asked) -> str:
        is_requested.set()
        release.wait(60)
        return ON_LISTS

    server.script = hang
    with Terminal("retry", "--thread", "t") as terminal:
        assert is_requested.wait(60)
        terminal.type("\x03")
        terminal.expect("unsay say --thread t --resume` continues")
        release.set()
        assert 130 == terminal.wait()
    serve(ANSWERS)
    assert f"{ON_LISTS}\n" == run("say", "--resume", "--thread", "t").stdout
    assert [LISTS] == questions(run, "t")


def test_fork(run: Run) -> None:
    """Standard output has only the new id; the old thread is unchanged."""
    result = run("fork", "first", "--as", "trip")
    assert "trip\n" == result.stdout
    assert "at checkpoint first; turns: 1" in result.stderr
    assert ([LISTS], list(THREE)) == (questions(run, "trip"), questions(run))
    thread_id = run("fork", "--thread", "talk").stdout.strip()
    assert list(THREE) == questions(run, thread_id)


def test_fork_json(run: Run) -> None:
    """The JSON output has both threads and the position of the new one."""
    answer = run_json(run, "fork", "--turns", "3", "--as", "empty")
    del answer["schema_version"]
    position = {"turns": 0, "at": "the start of the conversation"}
    assert {"thread_id": "empty", "forked_from": "talk", **position} == answer


def test_branches(run: Run, branch: str) -> None:
    """Each line has its id, kind, place, turns, tokens and first words, columns aligned."""
    run("fork", "--thread", "talk", "--as", "trip")
    head, live, branch_line, fork = run("branches", "--thread", "talk").stdout.splitlines()
    assert ["id", "kind", "after", "turns", "used"] == head.split()[:5]
    assert ["live", "live", "turn 1", "1", "11 tokens", LISTS] == cells(live)
    assert [branch, "rolled back", "turn 1", "+2", "22 tokens", NESTED] == cells(branch_line)
    assert ["trip", "fork", "turn 1", "+0", "0 tokens", LISTS] == cells(fork)
    assert live.index(" 11 tokens") == branch_line.index(" 22 tokens")


def cells(line: str) -> list[str]:
    """The columns of a line."""
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_branches_json(run: Run, branch: str) -> None:
    """Programs get each line whole."""
    answer = run_json(run, "branches")
    assert ["live", branch] == [branch["id"] for branch in answer["branches"]]
    assert ["live", "person"] == [branch["kind"] for branch in answer["branches"]]
    assert 22 == answer["branches"][1]["tokens"]["total"]


@pytest.mark.full
@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("thread", ["talk", "日本"])
def test_branches_fit_the_terminal(run: Run, thread: str, columns: int) -> None:
    """No line is wider than the terminal, in either script."""
    for number in (1, 2):
        run("rollback", "--thread", thread, "--turns", str(number))
        run("undo", "--thread", thread)
    run("undo", "--thread", thread)
    with Terminal("branches", "--thread", thread, columns=columns) as terminal:
        assert 0 == terminal.wait()
    lines = terminal.screen.splitlines()
    assert len(lines) > 1
    assert [] == [line for line in lines if cells_of(line) > columns]


def test_diff(run: Run, branch: str) -> None:
    """The output describes both branches and what only one of them has."""
    output = run("diff", branch).stdout
    assert output.startswith("common: 2 messages\n")
    assert f"  user: {NESTED}\n" in output
    assert "live: 2 messages" in output
    assert "first: 2 messages" in run("diff", branch, "first").stdout


def test_diff_is_safe_in_a_terminal(run: Run, database: Path) -> None:
    """Control characters in a message cannot steer the terminal."""
    fill(database, "evil", LISTS, "\x1b[2Jgone?")
    assert "\x1b" not in run("diff", "first").stdout
    assert "\ufffd[2Jgone?" in run("diff", "first").stdout


def test_diff_json(run: Run, branch: str) -> None:
    """Programs get the messages that only one line has."""
    answer = run_json(run, "diff", branch)
    assert (2, "live", []) == (answer["common"], answer["b"]["name"], answer["b"]["only"])
    assert [NESTED, LAZY] == [
        message["data"]["content"] for message in answer["a"]["only"] if message["type"] == "human"
    ]


def test_restore(run: Run, branch: str) -> None:
    """What a rollback took is back in its place."""
    result = run("restore", branch)
    assert "Restored 4 messages. The conversation has 3 turns." in result.stdout
    assert list(THREE) == questions(run)


def test_pick(run: Run, branch: str) -> None:
    """Only what was named comes to the end, and undo takes it away."""
    message_ids = own_messages(run, branch)[2:]
    assert "Restored 2 messages." in run("pick", *message_ids, "--from", branch).stdout
    assert [LISTS, LAZY] == questions(run)
    run("undo")
    assert 2 == run_json(run, "pick", *message_ids, "--from", branch)["restored"]


def test_tokens(run: Run, branch: str) -> None:
    """Current turns and removed turns are counted separately."""
    del branch
    rows = [cells(row) for row in run("tokens").stdout.splitlines()]
    assert ["current branch", "11", "10 in (0 % cached), 1 out"] in rows
    assert ["removed", "22", "20 in (0 % cached), 2 out"] in rows
    tokens = run_json(run, "tokens")["spent"]
    assert (11, 22) == tuple(tokens[name]["total"] for name in ("live", "abandoned"))


def test_a_japanese_conversation(run: Run) -> None:
    """Each verb answers in the conversation's language."""
    thread = ("--thread", "日本")
    preview = run("rollback", "--turns", "2", "--preview", *thread).stdout
    assert "まだ何も変更していません" in preview
    assert f"「{JAPANESE[1]}」" in preview
    run("rollback", "--turns", "2", *thread)
    _, live, branch_line = run("branches", *thread).stdout.splitlines()
    assert ["live", "現在", "ターン1", "1", "11トークン", JAPANESE[0]] == cells(live)
    assert ["ロールバック", "ターン1", "+2", "22トークン", JAPANESE[1]] == cells(branch_line)[1:]
    rows = [cells(row) for row in run("tokens", *thread).stdout.splitlines()]
    assert ["取り除いた分", "22", "入力20(うちキャッシュ0%)、出力2"] in rows
    assert "現在地はチェックポイント「first」、1ターンです" in run("fork", *thread).stderr
    assert "4件のメッセージを復元しました" in run("restore", cells(branch_line)[0], *thread).stdout
    run("undo", *thread)
    assert "2ターンを復元しました" in run("redo", *thread).stdout


def test_a_notice_is_in_one_language(run: Run, database: Path) -> None:
    """A rollback from Japanese to English names the place in the language of its sentence."""
    fill(database, "both", "How do lists work?", JAPANESE[0])
    thread = ("--thread", "both")
    rolled_back = run("rollback", "--turns", "1", *thread).stdout
    assert "取り除きました" in rolled_back
    assert "Rolled back" not in rolled_back
    assert "Restored 1 turn." in run("undo", *thread).stdout


@pytest.mark.sample(every=4)
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["rollback", "lunch", "--preview"], id="preview of no checkpoint"),
        pytest.param(["rollback", "--turns", "4"], id="more turns than there are"),
        pytest.param(["redo"], id="nothing was undone"),
        pytest.param(["fork", "lunch"], id="fork at no checkpoint"),
        pytest.param(["branches", "--thread", "nobody"], id="no such thread"),
        pytest.param(["diff", "lunch"], id="no such line"),
        pytest.param(["restore", "branch-lunch"], id="no such cut"),
        pytest.param(["restore", "lunch"], id="nothing is called so"),
        pytest.param(["pick", "lunch", "--from", "branch-lunch"], id="pick from no cut"),
        pytest.param(["pick", "lunch", "--from", "nobody"], id="pick from no thread"),
        pytest.param(["tokens", "--thread", "nobody"], id="nobody's tokens"),
        pytest.param(["timeline", "--context", "9"], id="no such turn"),
    ],
)
def test_what_is_not_there(run: Run, command: list[str]) -> None:
    """A wrong name is one line and exit code 3, and nothing changes."""
    result = run(*command)
    assert (3, "") == (result.exit_code, result.stdout)
    assert "unsay: " in result.stderr.splitlines()[-1]
    assert list(THREE) == questions(run)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["fork", "--as", "日本"], id="a thread that is there"),
        pytest.param(["fork", "cp-"], id="several checkpoints"),
        pytest.param(["diff", "cp-"], id="several lines"),
    ],
)
def test_conflicts(run: Run, command: list[str]) -> None:
    """What contradicts the transcript is exit code 4, and nothing changes."""
    result = run(*command, "--json")
    assert 4 == result.exit_code
    assert "Error" in json.loads(result.stdout)["error"]["type"]
    assert list(THREE) == questions(run)


def test_what_stands_cannot_be_restored(run: Run, branch: str) -> None:
    """A message that is in the transcript already is a conflict."""
    message = own_messages(run, branch)[0]
    assert [0, 4] == [run("restore", target).exit_code for target in (branch, message)]


@pytest.mark.sample(every=3)
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["rollback", "first", "--turns", "1"], id="two places"),
        pytest.param(["rollback", "--turns", "0"], id="no number of turns"),
        pytest.param(["rollback", "--turns", "some"], id="no number"),
        pytest.param(["fork", "--as", "  "], id="a blank name"),
        pytest.param(["diff"], id="no line"),
        pytest.param(["pick", "--from", "talk"], id="no messages"),
        pytest.param(["pick", "some"], id="no branch"),
        pytest.param(["redo", "talk", "lunch"], id="an argument too many"),
    ],
)
def test_usage(run: Run, command: list[str]) -> None:
    """What cannot be meant is exit code 2, and nothing changes."""
    assert 2 == run(*command).exit_code
    assert list(THREE) == questions(run)


def test_pick_that_ends_in_a_question(run: Run, branch: str) -> None:
    """A question without its answer is bad input."""
    assert 2 == run("pick", own_messages(run, branch)[0], "--from", branch).exit_code


def test_retry_without_a_model(run: Run) -> None:
    """A new answer needs a model, and the message says what to set."""
    result = run("retry")
    assert 1 == result.exit_code
    assert "UNSAY_MODEL" in result.stderr


def test_retry_of_nothing(run: Run, serve: Serve) -> None:
    """Where nothing is asked, and where no thread is, there is nothing to ask again."""
    server = serve(ANSWERS)
    run("fork", "--turns", "3", "--as", "empty")
    threads = ("empty", "nobody")
    assert [3, 3] == [run("retry", "--thread", name).exit_code for name in threads]
    assert [] == server.asked


def test_restore_without_an_id_takes_the_newest_branch(run: Run) -> None:
    """The branch that was removed last returns; with none left, the error says so."""
    before = questions(run)
    run("rollback", "--turns", "1")
    assert 0 == run("restore").exit_code
    assert before == questions(run)
    result = run("restore")
    assert "There is no removed branch to restore" in result.stderr
    assert 3 == result.exit_code
