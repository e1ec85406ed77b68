import ast
import json
import subprocess
import sys
from pathlib import Path
from runpy import run_path

import click
import pytest

from tests.cli.conftest import Run
from unsay.cli.main import HOMES, cli
from unsay.cli.options import PARAMETERS
from unsay.conversation.conversation import Conversation
from unsay.orders.orders import COMMANDS, SLASH_COMMANDS
from unsay.testing import ScriptedChat, ScriptedJudge

DOCS = Path(__file__).parents[2] / "docs"
CLI = DOCS.parent / "unsay" / "cli"
HEAVY = ("langgraph", "langchain_core", "langchain_openai", "pydantic", "prompt_toolkit")
PROBE = f"""
import sys
from unsay.cli.main import cli
try:
    cli(sys.argv[1:], prog_name="unsay")
finally:
    print("loaded:", *[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""


def test_help_lists_every_command(run: Run) -> None:
    """Each command has a line in its group."""
    lines = run("--help", terminal_width=80).stdout.partition("Chat:\n")[2].splitlines()
    names = [line.split()[0] for line in lines if line.startswith("  ") and line[2] != " "]
    assert sorted(HOMES) == sorted(names)
    assert not [line for line in lines if line.endswith("...")]


@pytest.mark.parametrize("command", HOMES)
def test_every_command_has_help_and_json(run: Run, command: str) -> None:
    """Every command lists the common options."""
    result = run(command, "-h")
    assert 0 == result.exit_code
    assert all(option in result.stdout for option in ("--json", "--db PATH"))


@pytest.mark.sample(every=3)
@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        pytest.param(["--help"], {}, id="help"),
        pytest.param(["--version"], {}, id="version"),
        pytest.param(["say", "--help"], {}, id="help of a command"),
        pytest.param(["nonsense"], {}, id="usage error"),
        pytest.param(["threads", "--json"], {}, id="threads"),
        pytest.param(["threads", "--status", "active", "--json"], {}, id="threads with a filter"),
        pytest.param(["threads", "--since", "today", "--json"], {}, id="an impossible filter"),
        pytest.param(["threads", "--db", "none.db", "--json"], {}, id="a file that is not there"),
        pytest.param(
            [],
            {"_UNSAY_COMPLETE": "bash_complete", "COMP_WORDS": "unsay say --", "COMP_CWORD": "2"},
            id="completion",
        ),
    ],
)
def test_what_must_be_instant_loads_nothing_heavy(
    arguments: list[str], environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither LangGraph nor LangChain nor pydantic is loaded before a command runs."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    process = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments], capture_output=True, text=True, check=False
    )
    assert "loaded:" == process.stderr.splitlines()[-1].strip()
    assert process.stdout or arguments == ["nonsense"]


@pytest.mark.full
@pytest.mark.parametrize(
    "filters",
    [
        ["--status", "ended"],
        ["--label", "project=kyoto"],
        ["--since", "2100-01-01T00:00:00Z"],
        ["--until", "2000-01-01T00:00:00Z"],
    ],
    ids=lambda case: case[0],
)
def test_a_filter_that_matches_nothing_loads_nothing_heavy(home: Path, filters: list[str]) -> None:
    """Also where there are threads; without a filter they are listed."""
    model = ScriptedChat(default="Two days.")
    path = home / "unsay.db"
    with Conversation.open(path, thread="t", model=model, judge=ScriptedJudge()) as conversation:
        conversation.say("How long for Kyoto?")
    probe = [sys.executable, "-c", PROBE, "threads", "--json"]
    filter_listing = subprocess.run([*probe, *filters], capture_output=True, text=True, check=True)
    listing = subprocess.run(probe, capture_output=True, text=True, check=True)
    assert [] == json.loads(filter_listing.stdout)["threads"]
    assert "loaded:" == filter_listing.stderr.splitlines()[-1].strip()
    assert ["t"] == [thread["thread_id"] for thread in json.loads(listing.stdout)["threads"]]


def test_the_page_of_commands_is_fresh() -> None:
    """`docs/commands.md` is what its script writes."""
    script = run_path(str(DOCS / "generate_commands.py"))
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    assert page == script["commands_page"](), "run python docs/generate_commands.py"


def test_every_command_is_available_somewhere() -> None:
    """An entry of the table is a command of the chat, of the command line, or of both."""
    assert [] == [command.name for command in COMMANDS if not (command.module or command.chat_ja)]
    assert {command.name for command in SLASH_COMMANDS} == {
        command.name for command in COMMANDS if command.chat_ja
    }
    assert {command.name for command in COMMANDS} >= PARAMETERS["commands"].keys()


def test_version(run: Run) -> None:
    """The version is the package's."""
    assert run("--version").stdout.startswith("unsay 0.")


def test_python_m_unsay() -> None:
    """The module runs like the command."""
    process = subprocess.run(
        [sys.executable, "-m", "unsay", "threads", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert {"schema_version": 2, "threads": []} == json.loads(process.stdout)


def test_no_command_prints_the_help(run: Run) -> None:
    """It is a usage error that helps."""
    result = run()
    assert 2 == result.exit_code
    assert "Commands:" in result.stderr


def test_usage_error_is_one_line(run: Run) -> None:
    """A wrong option is named, with the help to ask for."""
    result = run("say", "--nonsense")
    assert 2 == result.exit_code
    assert "unsay: No such option '--nonsense'." in result.stderr
    assert result.stderr.endswith(" say --help'.\n")
    assert 1 == len(result.stderr.splitlines())


def test_usage_error_as_json(run: Run) -> None:
    """With --json an error is an object on standard output as well."""
    result = run("timeline", "--json", "too", "many")
    error = json.loads(result.stdout)
    assert (2, 2, "UsageError") == (
        result.exit_code,
        error["schema_version"],
        error["error"]["type"],
    )
    assert result.stderr.startswith("unsay: ")


def test_json_after_two_dashes_is_no_option(run: Run) -> None:
    """Arguments after -- are data."""
    assert not run("timeline", "--", "--json").stdout


@pytest.mark.parametrize(
    "arguments",
    [[], ["hello", "--resume"], ["--resume", "--decide", "approve"]],
    ids=["nothing", "text and resume", "resume and decide"],
)
def test_say_wants_one_thing(run: Run, arguments: list[str]) -> None:
    """TEXT, --resume and --decide exclude each other."""
    assert 2 == run("say", *arguments).exit_code


def test_error_that_nobody_foresaw(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps its traceback and still ends in one line."""
    monkeypatch.setitem(HOMES, "threads", "unsay.cli.nowhere")
    result = run("threads", "--json")
    assert 1 == result.exit_code
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("unsay: ModuleNotFoundError: ")
    assert "ModuleNotFoundError" == json.loads(result.stdout)["error"]["type"]


def test_callers_of_their_own_get_the_errors() -> None:
    """Click's non-standalone mode raises, as its users expect."""
    with pytest.raises(click.UsageError):
        cli(["nonsense"], standalone_mode=False)


def test_ctrl_c_is_130(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An interrupt before anything began ends the program quietly."""
    (tmp_path / "interrupted.py").write_text("raise KeyboardInterrupt")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(HOMES, "threads", "interrupted")
    result = run("threads")
    assert (130, "\n") == (result.exit_code, result.output)


def test_no_traceback_when_the_reader_goes_away() -> None:
    """A pipe that closes early is not an error."""
    process = subprocess.Popen(
        [sys.executable, "-m", "unsay", "demo", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert "" == process.stderr.read()
    process.stderr.close()
    assert 1 == process.wait()


def test_windows_gets_help_and_the_reason(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands are listed on Windows; one that needs a database names the supported platforms."""
    (tmp_path / "file.db").touch()
    monkeypatch.setattr(sys, "platform", "win32")

    assert 0 == run("--help").exit_code
    result = run("threads", "--db", str(tmp_path / "file.db"))
    assert 0 != result.exit_code
    assert "Linux and macOS, not on Windows" in result.stderr


@pytest.mark.parametrize("file", sorted(CLI.glob("*.py")), ids=lambda file: file.stem)
def test_the_shell_imports_neither_conversations_nor_langgraph(file: Path) -> None:
    """A file gets them from `unsay` where it needs them, so that other commands load neither."""
    imports = [
        node
        for node in ast.parse(file.read_text("utf-8")).body
        if isinstance(node, ast.ImportFrom | ast.Import)
    ]
    names = [
        getattr(node, "module", None) or alias.name for node in imports for alias in node.names
    ]
    assert [] == [name for name in names if name.startswith(("unsay.conversation", "langgraph"))]
