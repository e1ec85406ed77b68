"""What options name: settings, tools, tools of servers, attached files."""

import json
import sys
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from mimetypes import guess_type
from pathlib import Path
from shutil import which
from typing import Any

from langchain_core.tools import BaseTool

from unsay.errors import InputError, MissingExtraError
from unsay.settings import Settings, load_settings

# Runs a command without its standard error, into which a server may log in the middle of an answer.
QUIET = 'exec "$0" "$@" 2>/dev/null'

# The setting of each option that has another name.
SETTINGS = {"system": "system_prompt"}


def settings_of(options: Mapping[str, str | None]) -> Settings:
    """Return the settings with those that options set; `None` is an option that is not given.

    Raises `ConfigurationError` as `load_settings` does, also if a setting in the environment or in
    unsay.toml is impossible.
    """
    given = {name: value for name, value in options.items() if value is not None}
    return load_settings({SETTINGS.get(name, name): value for name, value in given.items()})


def load_tools(names: Sequence[str]) -> list[Any]:
    """Import the values of `--tools`, each `MODULE:NAME`, and return the tools in one list.

    A name is that of a function, a tool or a list of them. Modules are also looked for in the
    working directory. Raises `InputError` if a value has another form, its module cannot be
    imported, the module does not have the name, or something else has it.
    """
    if names and "" not in sys.path:
        sys.path.insert(0, "")
    found: list[Any] = []
    for name in names:
        module, _, attribute = name.partition(":")
        if not module or not attribute:
            raise InputError(f"--tools {name!r} must be MODULE:FUNCTION, such as mytools:weather")
        try:
            loaded = import_module(module)
        except Exception as error:  # the user's module may fail in any way
            hint = "; leave out .py" if module.endswith(".py") else ""
            raise InputError(f"--tools {name!r} cannot be imported: {error}{hint}") from error
        if not hasattr(loaded, attribute):
            raise InputError(f"--tools {name!r}: {module!r} has no {attribute!r}")
        value = getattr(loaded, attribute)
        given = value if isinstance(value, list | tuple) else [value]
        for each in given:
            if not (isinstance(each, BaseTool) or callable(each)):
                raise InputError(f"--tools {name!r}: {each!r} is neither a tool nor a function")
        found += given
    return found


def mcp_servers(path: str) -> dict[str, Any]:
    """Return the servers in a JSON file by name, for `mcp_tools`; nothing is connected.

    The file holds `{"mcpServers": {"NAME": {"command": …}}}`, or only the inner object. Raises
    `InputError` if it cannot be read or has another form.
    """
    try:
        given = json.loads(Path(path).read_text("utf-8"))
        servers = given.get("mcpServers", given)
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
    found: list[Any] = []
    for name, server in servers.items():
        try:
            found += await client.get_tools(server_name=name)
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
    return found


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
