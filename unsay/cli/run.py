"""The database and the thread that a command works with."""

import json
import re
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
from typing import Any

import click
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.tools import BaseTool

from unsay.cli.output import (
    check_exists,
    chosen_language,
    in_shell_language,
    location,
    note,
    shell_language,
    show,
)
from unsay.conversation.conversation import Conversation
from unsay.conversation.registry import Registry
from unsay.conversation.thread import Confirm
from unsay.decisions import yes_or_no
from unsay.errors import InputError, MissingExtraError, UnknownThreadError
from unsay.history.threads import list_threads
from unsay.messages.content import newest_language
from unsay.orders.orders import SLASH_COMMANDS
from unsay.prompts.catalogue import Texts
from unsay.settings.settings import Settings, load_settings
from unsay.storage.base import Database, translated
from unsay.storage.sqlite import open_database
from unsay.storage.urls import file_at
from unsay.types import Language

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
            raise InputError(f"--tools {name!r} must be MODULE:FUNCTION, such as mytools:weather")
        try:
            tool_module = import_module(module)
        except Exception as error:  # the user's module may fail in any way
            hint = "; leave out .py" if module.endswith(".py") else ""
            raise InputError(f"--tools {name!r} cannot be imported: {error}{hint}") from error
        if not hasattr(tool_module, attribute):
            raise InputError(f"--tools {name!r}: {module!r} has no {attribute!r}")
        value = getattr(tool_module, attribute)
        module_tools = value if isinstance(value, list | tuple) else [value]
        for each in module_tools:
            if not (isinstance(each, BaseTool) or callable(each)):
                raise InputError(f"--tools {name!r}: {each!r} is neither a tool nor a function")
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
        raise InputError(f"--mcp {path!r} names no servers. {_SERVERS}") from error
    except OSError as error:
        raise InputError(f"--mcp {path!r} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"--mcp {path!r} is not JSON: {error}. {_SERVERS}") from error


_SERVERS = (
    'It must be JSON such as {"mcpServers": {"NAME": {"command": "…", "args": ["…"]}}} or '
    '{"NAME": {"url": "http://…"}}'
)


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
        raise MissingExtraError("--mcp needs the extra mcp: pip install 'unsay[mcp]'") from error
    tools: list[Any] = []
    for name, server in servers.items():
        try:
            tools += await client.get_tools(server_name=name)
        except Exception as error:  # a server may fail in any way
            if server["transport"] == "stdio" and which(command := server["args"][2]) is None:
                raise InputError(
                    f"--mcp: the command {command!r} of server {name!r} was not found"
                ) from error
            cause = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
            reason = str(cause) or type(cause).__name__
            raise InputError(
                f"--mcp: server {name!r} does not answer: {reason}. Run its command by hand, "
                "or open its URL, to see why"
            ) from error
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
            raise InputError(
                f"--file {path!r} is not UTF-8 text; only text and images (GIF, JPEG, PNG, WebP) "
                "can be attached"
            ) from error
        except OSError as error:
            raise InputError(f"--file {path!r} cannot be read: {error.strerror}") from error
    return Attached(texts=texts, images=images)


Command = Callable[..., None]

_COMMAND = re.compile(
    rf"/((?:{'|'.join(each.name for each in SLASH_COMMANDS)})\b(?: (?:\{{branch\}}|ID\b))?)"
)


def for_shell(texts: Texts) -> Texts:
    """Return a copy whose texts name `unsay undo` and not the chat's `/undo`."""
    return texts.mapped(lambda text: _COMMAND.sub(r"`unsay \1`", text))


@contextmanager
def existing_database(db: str | None) -> Iterator[Database | None]:
    """Open the database for the block, but create none.

    Yields `None` if the default database does not exist.

    Raises:
        NotFoundError: The user named a file that does not exist.
        StorageError: The database cannot be opened; for this and other errors see `open_database`.
    """
    check_exists(db)
    place = location(db)
    file = file_at(place)
    if file is None or file.exists():
        with closing(open_database(place)) as database:
            yield database
    else:
        yield None


@contextmanager
def listed_database(db: str | None) -> Iterator[Database]:
    """Open the database for the block, to list it.

    If the default database does not exist, it is an empty one in memory. Raises the errors of
    `existing_database`, such as `NotFoundError` for a file that does not exist.
    """
    with (
        existing_database(db) as file_database,
        closing(file_database or open_database(":memory:")) as database,
    ):
        yield database


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
    def conversation(self) -> Conversation:
        """The conversation, without a model: most commands only read it or roll it back.

        Raises `ConfigurationError` for an impossible setting, `InvalidNameError` for a wrong id.
        """
        return Conversation.open(self.database, thread=self.thread_id, tools=self.tools)

    @cached_property
    def registry(self) -> Registry:
        """The registry of the thread's database."""
        return Registry(self.database)

    @property
    def confirm(self) -> Confirm | None:
        """A function that asks a person whether to undo a tool call; `None` without a terminal."""
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return None
        words = self.labels
        return lambda call: is_confirmed(words.say("ask_undo", call=call.description))

    @property
    def labels(self) -> Texts:
        """The texts in the language of the settings or the thread. Raises as `language_of_thread`."""
        return for_shell(Texts(chosen_language() or language_of_thread(self.conversation)))

    def show(self, words: Callable[[], str | None], **fields: Any) -> None:
        """Print a command's result with the thread's id, as the function `show` does."""
        show(words, as_json=self.as_json, **{"thread_id": self.thread_id, **fields})


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
    with existing_database(db) as database:
        if database is None:
            raise UnknownThreadError(
                f"There is no database at {location(db)!r} yet; `unsay chat` creates one"
            )
        if thread is None:
            with translated(database.path):
                entries = list_threads(database.store)
            if not entries:
                raise UnknownThreadError(
                    f"There is no thread in {database.path!r} yet; `unsay chat` starts one"
                )
            thread = entries[0].thread_id
            if not names_thread:
                note(in_shell_language(f"thread {thread}"))
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


def language_of_thread(conversation: Conversation, words: str | None = None) -> Language:
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
            raise click.BadParameter(in_shell_language("Type y or n."))
        return answer == "approve"

    # `click.confirm` takes English words only.
    prompt_text = f"{question} [y/N]"
    return bool(
        click.prompt(prompt_text, default="n", show_default=False, value_proc=decision, err=True)
    )
