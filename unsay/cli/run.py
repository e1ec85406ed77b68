"""The database and the thread that a command works with."""

import json
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from importlib import import_module
from mimetypes import guess_type
from pathlib import Path
from shutil import which
from typing import Any, TypeVar

import click
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.tools import BaseTool

import unsay
from unsay.cli.output import (
    check_exists,
    chosen_language,
    location,
    note,
    shell_language,
    shell_texts,
    show,
)
from unsay.decisions import yes_or_no
from unsay.effects import Steps, drive
from unsay.errors import InputError, MissingExtraError, UnknownThreadError
from unsay.history.compensations import Compensation
from unsay.history.threads import list_threads
from unsay.messages.content import newest_language
from unsay.orders.order import Order
from unsay.phrases import Phrase
from unsay.prompts.catalogue import Texts
from unsay.settings.settings import Settings, load_settings
from unsay.storage.base import Database, translated
from unsay.storage.pagination import MOST, Slice
from unsay.storage.sqlite import open_database
from unsay.storage.urls import file_at
from unsay.types import Language
from unsay.verbs.outcome import Outcome

T = TypeVar("T")

# Runs a command without its standard error, into which a server may log in the middle of an answer.
QUIET = 'exec "$0" "$@" 2>/dev/null'

# The setting of each option that has another name.
SETTINGS = {"system": "system_prompt"}


def settings_of(options: Mapping[str, str | None]) -> Settings:
    """Return the settings with those that options set; `None` is an option that is not given.

    Raises `ConfigurationError` as `load_settings` does, also if a setting in the environment or in
    unsay.toml is impossible.
    """
    option_values = {name: value for name, value in options.items() if value is not None}
    return load_settings({SETTINGS.get(name, name): value for name, value in option_values.items()})


def load_tools(names: Sequence[str]) -> list[Any]:
    """Import the values of `--tools`, each `MODULE:NAME`, and return the tools in one list.

    A name is that of a function, a tool or a list of them. Modules are also looked for in the
    working directory. Raises `InputError` if a value has another form, its module cannot be
    imported, the module does not have the name, or something else has it.
    """
    if names and "" not in sys.path:
        sys.path.insert(0, "")
    tools: list[Any] = []
    for name in names:
        module, _, attribute = name.partition(":")
        if not module or not attribute:
            raise InputError(code="tools_form", name=name)
        try:
            tool_module = import_module(module)
        except Exception as error:  # the user's module may fail in any way
            hint = Phrase(code="leave_out_py") if module.endswith(".py") else ""
            raise InputError(code="tools_import", name=name, error=str(error), hint=hint) from error
        if not hasattr(tool_module, attribute):
            raise InputError(code="tools_missing", name=name, module=module, attribute=attribute)
        value = getattr(tool_module, attribute)
        module_tools = value if isinstance(value, list | tuple) else [value]
        for each in module_tools:
            if not (isinstance(each, BaseTool) or callable(each)):
                raise InputError(code="tools_no_tool", name=name, attribute=repr(each))
        tools += module_tools
    return tools


def mcp_servers(path: str) -> dict[str, Any]:
    """Return the servers in a JSON file by name, for `mcp_tools`; nothing is connected.

    The file holds `{"mcpServers": {"NAME": {"command": …}}}`, or only the inner object. Raises
    `InputError` if it cannot be read or has another form.
    """
    try:
        config = json.loads(Path(path).read_text("utf-8"))
        servers = config.get("mcpServers", config)
        return {name: _connection(server) for name, server in servers.items()}
    except (AttributeError, TypeError) as error:
        raise InputError(code="mcp_no_servers", path=path, form=_SERVERS) from error
    except OSError as error:
        raise InputError(code="mcp_unreadable", path=path, error=error.strerror) from error
    except ValueError as error:
        raise InputError(code="mcp_not_json", path=path, error=str(error), form=_SERVERS) from error


_SERVERS = Phrase(code="mcp_form")


def _connection(server: Mapping[str, Any]) -> dict[str, Any]:
    """Return a server of the file as `MultiServerMCPClient` expects it, with its `transport`.

    That is `stdio` for a server with a `command`, else the file's `type`; without one it is HTTP.
    """
    settings = {name: value for name, value in server.items() if name != "type"}
    if "command" in server:
        quiet = ["-c", QUIET, server["command"], *server.get("args", [])]
        return {**settings, "transport": "stdio", "command": "sh", "args": quiet}
    kind = str(server.get("type", "http")).replace("-", "_")
    return {"transport": "streamable_http" if kind == "http" else kind, **settings}


async def mcp_tools(servers: dict[str, Any]) -> list[Any]:
    """Connect to MCP servers and return their tools; `servers` is made by `mcp_servers`.

    Raises:
        MissingExtraError: The extra `mcp` is not installed.
        InputError: A server does not answer, or fails in another way.
    """
    try:
        client = import_module("langchain_mcp_adapters.client").MultiServerMCPClient(servers)
    except ImportError as error:
        raise MissingExtraError(code="mcp_extra") from error
    tools: list[Any] = []
    for name, server in servers.items():
        try:
            tools += await client.get_tools(server_name=name)
        except Exception as error:  # a server may fail in any way
            if server["transport"] == "stdio" and which(command := server["args"][2]) is None:
                raise InputError(code="mcp_no_command", command=command, server=name) from error
            cause = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
            reason = str(cause) or type(cause).__name__
            raise InputError(code="mcp_silent", server=name, error=reason) from error
    return tools


IMAGES = ("image/gif", "image/jpeg", "image/png", "image/webp")
"""Types of images that providers accept. Source: OpenAI, images and vision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """Files that go with a message, by name: texts, and images as `data:` URLs."""

    texts: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The names of all files."""
        return [*self.texts, *self.images]

    def text(self, words: str) -> str:
        """Return the words with each text file after them, in an element `<file name="…">`."""
        files = self.texts.items()
        parts = (f'<file name="{name}">\n{text.rstrip()}\n</file>' for name, text in files)
        return "\n\n".join([words, *parts])


def load_files(paths: Sequence[str]) -> Attached:
    """Return the contents of files by their names; a second file of the same name goes by its path.

    Raises `InputError` if one cannot be read, or is neither an image nor UTF-8 text.
    """
    texts: dict[str, str] = {}
    images: dict[str, str] = {}
    for path in paths:
        name = Path(path).name
        name = path if name in texts or name in images else name
        kind = guess_type(path)[0]
        try:
            content = Path(path).read_bytes()
            if kind in IMAGES:
                images[name] = f"data:{kind};base64,{b64encode(content).decode('ascii')}"
            else:
                texts[name] = content.decode("utf-8").replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            raise InputError(code="file_not_utf8", path=path) from error
        except OSError as error:
            raise InputError(code="file_unreadable", path=path, error=error.strerror) from error
    return Attached(texts=texts, images=images)


Command = Callable[..., None]


@contextmanager
def listed_database(db: str | None) -> Iterator[Database]:
    """Open the database for the block, but create none.

    If the default database does not exist, it is an empty one in memory.

    Raises:
        NotFoundError: The user named a file that does not exist.
        StorageError: The database cannot be opened; for this and other errors see `open_database`.
    """
    check_exists(db)
    file = file_at(location(db))
    is_new = file is not None and not file.exists()
    with closing(open_database(":memory:" if is_new else location(db))) as database:
        yield database


def rows_of(
    database: Database, read: Callable[..., Steps[Any]], name: str, asked: Mapping[str, Any]
) -> Slice[Any]:
    """Return the rows that `read` finds in a database; they are the field `name` of its pages.

    `asked` has filters by name, `cursor` and `limit`; without a limit it is all rows after the cursor.
    """
    limit, cursor = asked.get("limit"), asked.get("cursor")
    rows: list[Any] = []
    while True:
        bounds = {**asked, "cursor": cursor, "limit": MOST if limit is None else limit}
        with translated(database.path):
            page = drive(read(database.store, **bounds))
        rows += getattr(page, name)
        cursor = page.cursor
        if cursor is None or limit is not None:
            return Slice(items=tuple(rows), cursor=cursor)


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A thread of an open database, and how a command prints its result.

    `existing_thread` makes it.
    """

    database: Database
    thread_id: str
    as_json: bool = False
    # The tools whose calls a command can undo.
    tools: Sequence[Any] = ()

    @cached_property
    def conversation(self) -> "unsay.Conversation":
        """The conversation, without a model: most commands only read it or roll it back.

        Raises `ConfigurationError` for an impossible setting, `InvalidNameError` for a wrong id.
        """
        return unsay.Conversation.open(self.database, thread=self.thread_id, tools=self.tools)

    @cached_property
    def registry(self) -> "unsay.Registry":
        """The registry of the thread's database."""
        return unsay.Registry(self.database)

    @property
    def confirm(self) -> Callable[[Compensation], bool] | None:
        """A function that asks a person whether to undo a tool call; `None` without a terminal."""
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return None
        words = self.labels
        return lambda call: is_confirmed(words.say("ask_undo", call=call.description))

    @property
    def labels(self) -> Texts:
        """The texts in the language of the settings or the thread. Raises as `language_of_thread`."""
        return Texts(chosen_language() or language_of_thread(self.conversation), door="shell")

    def show(self, words: Callable[[], str | None], result: Any = None, **own: Any) -> None:
        """Print a command's result with the thread's id, as the function `show` does."""
        show(words, result, as_json=self.as_json, **{"thread_id": self.thread_id, **own})

    def carry_out(self, order: Order[T]) -> Outcome[T]:
        """Carry out an order of this thread; a person is asked before a tool call is undone."""
        thread = self.conversation._handle
        return drive(thread.alone(thread.carry_out(order, confirm=self.confirm)))


@contextmanager
def existing_thread(
    db: str | None, thread: str | None, *, as_json: bool = False, names_thread: bool = False
) -> Iterator[Opened]:
    """Open a thread for the block; `None` is the newest one, whose id is noted on standard error.

    A command whose output `names_thread` gets no note. An id is not checked here: verbs of the
    conversation raise `UnknownThreadError` for one that does not exist.

    Raises:
        UnknownThreadError: There is no default database, or `thread` is `None` and no thread
            exists.
        NotFoundError: The user named a database file that does not exist.
        StorageError: The database cannot be opened; for other errors see `open_database`.
    """
    file = file_at(location(db))
    if db is None and file is not None and not file.exists():
        raise UnknownThreadError(code="no_database", path=location(db))
    with listed_database(db) as database:
        if thread is None:
            with translated(database.path):
                entries = list_threads(database.store)
            if not entries:
                raise UnknownThreadError(code="no_threads", path=database.path)
            thread = entries[0].thread_id
            if not names_thread:
                note(shell_texts().say("thread", id=thread))
        yield Opened(database=database, thread_id=thread, as_json=as_json)


def on_thread(
    check: Callable[..., None] | None = None, *, names_thread: bool = False
) -> Callable[[Command], Command]:
    """Turn a function that takes an `Opened` thread into a command that opens it.

    `check` is called with the options before anything is opened, to refuse those that exclude each
    other. `names_thread` and the errors are those of `existing_thread`.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(
            *,
            thread: str | None,
            db: str | None,
            as_json: bool,
            tools: Sequence[str] = (),
            **options: Any,
        ) -> None:
            if check is not None:
                check(**options)
            extra_tools = load_tools(tools)
            with existing_thread(
                db, thread, as_json=as_json, names_thread=names_thread
            ) as open_thread:
                command(replace(open_thread, tools=extra_tools), **options)

        return run

    return decorate


def notice_command(
    order: Callable[..., Order[Any]], field: str, check: Callable[..., None] | None = None
) -> Command:
    """Return a command that carries out an order whose arguments are its options.

    It prints the notice, or as JSON the result in this field. `check` is that of `on_thread`.
    """

    @on_thread(check)
    def command(opened: Opened, **options: Any) -> None:
        outcome = opened.carry_out(order(**options))
        opened.show(lambda: outcome.notice(opened.labels), **{field: outcome.result})

    return command


def language_of_thread(conversation: "unsay.Conversation", words: str | None = None) -> Language:
    """Return the language of a thread's transcript; if all of it was removed, of its branches.

    `words` are its next message, `None` if there is none. A text such as `OK` does not change the
    language. For a new thread, or one without both, it is that of the shell. Raises `StorageError`
    if the thread cannot be read.
    """
    messages: list[AnyMessage] = conversation.messages()
    if not messages:
        with suppress(UnknownThreadError):
            messages = [AIMessage(branch.words) for branch in conversation.branches()]
    new_messages = [] if words is None else [HumanMessage(words)]
    return newest_language([*messages, *new_messages], otherwise=shell_language())


def is_confirmed(question: str) -> bool:
    """Ask a yes-or-no question on standard error and return the answer; Enter means no.

    The answer may be Japanese, such as はい. Any other word repeats the question. Ctrl-C raises
    `click.Abort`.
    """

    def decision(typed: str) -> bool:
        answer = yes_or_no(typed)
        if answer is None:
            raise click.BadParameter(shell_texts().say("type_yes_or_no"))
        return answer == "approve"

    # `click.confirm` takes English words only.
    prompt_text = f"{question} [y/N]"
    return bool(
        click.prompt(prompt_text, default="n", show_default=False, value_proc=decision, err=True)
    )
