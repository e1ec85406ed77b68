import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run, Serve, run_json
from tests.cli.terminal import PROMPT, Terminal
from tests.http.openai_server import Asked
from unsay.cli.run import load_tools
from unsay.conversation.conversation import Conversation
from unsay.testing import ScriptedChat, ScriptedJudge, ToolCalls

TOOLS = """
from pathlib import Path

from unsay import reversible


def remove(day: str) -> None:
    "Remove an entry."
    Path("calendar").unlink()


def add(day: str) -> str:
    "Add an entry."
    Path("calendar").write_text(day)
    return "added"


entry = reversible(undo=remove, describe="the entry on {{day}}", confirm={confirm})(add)
"""

QUESTION = "Put it on Monday."
MOVES = [["undo"], ["rollback", "--turns", "1"], ["remove", "1"]]


def write_tools(module: str, *, confirm: bool = False) -> list[str]:
    """Write a module with a tool into the working directory; return the option that names it."""
    Path(f"{module}.py").write_text(TOOLS.format(confirm=confirm))
    return ["--tools", f"{module}:entry"]


def enter(path: Path, *tools: str) -> None:
    """Have a conversation whose only turn calls a tool, which writes the file `calendar`."""
    call = {"name": "add", "args": {"day": "Monday"}}
    model = ScriptedChat(default=ToolCalls(calls=[call], then="It is on Monday."))
    own_tools = load_tools(tools[1:])
    with Conversation.open(
        path, thread="t", model=model, judge=ScriptedJudge(), tools=own_tools
    ) as conversation:
        conversation.say(QUESTION)


@pytest.fixture
def make_entry(home: Path) -> None:
    """The conversation of `enter` with a tool that does not ask first."""
    enter(home / "unsay.db", *write_tools("calendar_of_say"))


@pytest.mark.usefixtures("make_entry")
@pytest.mark.parametrize("move", MOVES, ids=[move[0] for move in MOVES])
def test_calls_of_a_named_tool_are_undone(run: Run, move: list[str]) -> None:
    """`undo`, `rollback` and `remove` undo what a tool did if the tool is named."""
    tools = write_tools("calendar_of_move")
    answer = run_json(run, *move, "--thread", "t", *tools)
    assert ["undone"] == [outcome["result"] for outcome in answer["report"]["outcomes"]]
    assert not Path("calendar").exists()


@pytest.mark.usefixtures("make_entry")
def test_a_call_that_stayed_is_undone_later(run: Run) -> None:
    """Without its tool a call stays in effect; the screen says how to undo it."""
    result = run("undo", "t")
    assert "Not undone, still in effect: the entry on Monday" in result.stderr
    assert "--tools MODULE:NAME" in result.stderr
    assert Path("calendar").exists()
    run("redo", "t")
    undone = run("undo", "--thread", "t", *write_tools("calendar_of_later"))
    assert (0, False) == (undone.exit_code, Path("calendar").exists())
    assert "--tools" not in undone.stderr


@pytest.mark.usefixtures("make_entry")
def test_preview_with_tools(run: Run) -> None:
    """A preview knows the named tools, too."""
    preview = ["rollback", "--turns", "1", "--preview", "--thread", "t"]
    assert "--tools MODULE:NAME" in run(*preview).stderr
    result = run(*preview, *write_tools("calendar_of_preview"))
    assert "cannot be undone" not in result.output
    assert "--tools" not in result.stderr


def test_a_tool_that_asks_first_needs_a_terminal(run: Run, home: Path) -> None:
    """Nobody can be asked through a pipe: nothing is changed, and the error says what to do."""
    tools = write_tools("calendar_of_pipe", confirm=True)
    enter(home / "unsay.db", *tools)
    result = run("undo", "--thread", "t", *tools)
    assert (4, True) == (result.exit_code, Path("calendar").exists())
    assert "run the command on a terminal" in result.stderr
    assert 1 == len(run_json(run, "timeline", "t")["turns"])


@pytest.mark.full
@pytest.mark.full
@pytest.mark.parametrize(("answer", "stays"), [("y", False), ("n", True)], ids=["yes", "no"])
def test_a_tool_that_asks_first_on_a_terminal(home: Path, answer: str, stays: bool) -> None:  # noqa: FBT001
    """A person decides about each call."""
    tools = write_tools("calendar_of_person", confirm=True)
    enter(home / "unsay.db", *tools)
    with Terminal("undo", "--thread", "t", *tools) as terminal:
        terminal.expect("the entry on Monday")
        terminal.type(f"{answer}\r")
        terminal.expect("Removed 1 turn")
        assert 0 == terminal.wait()
    assert stays == Path("calendar").exists()


@pytest.mark.full
def test_a_confirmed_undo_gives_the_question_back(home: Path, serve: Serve) -> None:
    """The chat selects it in the prompt, as after an undo that asks nothing: typing replaces it."""
    tools = write_tools("calendar_of_chat", confirm=True)
    enter(home / "unsay.db", *tools)
    serve({"And": "Yes, on Tuesday."})
    with Terminal("chat", "--thread", "t", *tools) as terminal:
        terminal.expect(PROMPT)
        terminal.type("/undo\r")
        terminal.expect("yes | no")
        terminal.type("yes\r")
        terminal.expect("Removed 1 turn")
        terminal.expect(QUESTION)
        terminal.type("And on Tuesday?\r")
        terminal.expect("score 0.90")
        terminal.type("/exit\r")
        assert 0 == terminal.wait()
    with Conversation.open(home / "unsay.db", thread="t") as conversation:
        (turn,) = conversation.timeline().turns
    assert "And on Tuesday?" == turn.question


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(
    "command", [["retry"], ["edit", "1", "And Tuesday?"]], ids=["retry", "edit"]
)
def test_a_question_is_answered_again_with_tools(
    run: Run, serve: Serve, command: list[str]
) -> None:
    """`retry` and `edit` offer the model the tools and the system prompt that are named."""
    server = serve({"Monday": "Yes.", "Tuesday": "No.", "another answer": "Perhaps."})
    tools = write_tools("calendar_of_again")
    run("say", "--thread", "t", "And Monday?", *tools)
    before = len(server.asked)
    assert 0 == run(*command, "--thread", "t", *tools, "--system", "Be brief.").exit_code
    requests = [request for request in server.asked[before:] if request.model == "answerer"]
    assert ["add"] == _tools(requests[0])
    assert "Be brief." in json.dumps(requests[0].body)


def _tools(request: Asked) -> list[str]:
    names = [tool["function"]["name"] for tool in request.body["tools"]]
    return [name for name in names if name not in ("read_tool_result", "recall")]
