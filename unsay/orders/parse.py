"""Slash commands: recognized in the chat, answered by the graph, never sent to a model."""

import re
import unicodedata
from collections.abc import Sequence
from difflib import get_close_matches

from langchain_core.messages import AnyMessage, BaseMessage

from unsay.messages.annotations import is_question
from unsay.messages.content import blocks_of, text_of
from unsay.orders.orders import ALIASES, NOT_IN_GRAPH, READING, SLASH_COMMANDS, VERBS
from unsay.settings.settings import Settings
from unsay.state import Command

# Verbs of texts that are answered and not carried out: one that resembles a command, a slash and a
# word that is no command, a command beside another text in one input, and a command that is not
# allowed here.
SUGGEST, UNKNOWN, ALONE, REFUSE = "suggest", "unknown", "alone", "refuse"
_ANSWERED = frozenset({SUGGEST, UNKNOWN, ALONE, REFUSE})
# Least resemblance of a typed word and the command that it is taken for: `udno` has 0.75.
RESEMBLES = 0.75
WORD_CHARS = 20
# The full-width slash is that of Japanese input methods.
_SLASHED = re.compile(r"[/／](\S+)(?:\s+(.*))?")
# A command after the end of a sentence; only the end of a line is searched for one, since the
# time of this pattern grows with the square of the length.
BEHIND_CHARS = 80
_BEHIND = re.compile(r".*(?:[?!。？！]\s*|\.\s+)([/／]\S+)")
_EDIT = re.compile(r"[/／]edit\s+(\d{1,9})\s+(\S.*)", re.DOTALL | re.IGNORECASE)
_TWO_SLASHES = re.compile(r"\s*[/／](?=[/／])")
# A mistyped word may be one of these; the names of commands that only a shell has are common words.
_KNOWN = (*VERBS, *ALIASES, *(each.name for each in SLASH_COMMANDS if each.by_chat))


def parse_command(text: str) -> Command | None:
    """Return the slash command that a message is; `None` for a message that the model answers.

    A command is one line with a known name; only the text of `/edit` may have more lines. Three
    verbs only get a notice: `SUGGEST` for a line that is almost a command, with the one meant as the
    argument, `UNKNOWN` for a text whose first word is a slash and letters of any script, with this
    word as the argument, and `ALONE` for a command beside other lines or behind a sentence. The
    model answers a path, and a text that begins with two slashes.

    >>> parse_command("／rollback before lunch")
    {'verb': 'rollback', 'argument': 'before lunch'}
    >>> parse_command("/rolback before lunch")
    {'verb': 'suggest', 'argument': '/rollback before lunch'}
    >>> parse_command("/clear all of it")
    {'verb': 'unknown', 'argument': '/clear'}
    >>> parse_command("/etc/hosts is wrong") is None
    True
    """
    if edit := _EDIT.fullmatch(text.strip()):  # the one command whose argument may have lines
        return Command(verb="edit", argument=f"{edit[1]} {edit[2]}")
    lines = text.strip().splitlines() or [""]
    command = _parse_line(lines[0])
    if command is not None and (len(lines) == 1 or command["verb"] in _ANSWERED):
        return command
    behind = _BEHIND.fullmatch(lines[-1][-BEHIND_CHARS:])
    for line in (lines[0], lines[-1], behind[1] if behind else ""):
        line_command = _parse_line(line)
        if line_command is not None and line_command["verb"] not in _ANSWERED:
            return Command(verb=ALONE, argument=f"/{line_command['verb']}")
    return None


def _parse_line(line: str) -> Command | None:
    parts = _SLASHED.fullmatch(line.strip())
    if parts is None:
        return None
    verb = unicodedata.normalize("NFKC", parts[1]).lower()
    verb = ALIASES.get(verb, verb)
    argument = (parts[2] or "").strip()
    if verb in NOT_IN_GRAPH or (verb in VERBS and (VERBS[verb] or not argument)):
        return Command(verb=verb, argument=argument)
    if verb in VERBS:  # a command that takes no text
        return Command(verb=ALONE, argument=f"/{verb}")
    word = verb.rstrip("?!.。、")
    near = get_close_matches(word[:WORD_CHARS], _KNOWN, n=1, cutoff=RESEMBLES)
    if not near or not word.isalpha():
        return Command(verb=UNKNOWN, argument=f"/{verb}") if verb.isalpha() else None
    name = ALIASES.get(near[0], near[0])
    meant = f"/{near[0]} {argument}" if VERBS.get(name) else f"/{near[0]}"
    return Command(verb=SUGGEST, argument=meant.strip())


def as_sent(message: AnyMessage) -> AnyMessage:
    """Return a message as a model is sent it: two slashes before a command's name become one.

    A person types them for a message that is not a command, such as `//clear`. Other texts are
    unchanged, also those that begin with two slashes, such as a comment in code.
    """
    text = text_of(message)
    slashes = _TWO_SLASHES.match(text) if message.type == "human" else None
    if slashes is None or parse_command(text[slashes.end() :]) is None:
        return message
    if isinstance(message.content, str):
        return message.model_copy(update={"content": text[slashes.end() :]})
    blocks = [dict(each) for each in blocks_of(message)]
    first = next(each for each in blocks if each.get("type") == "text" and each["text"].strip())
    first["text"] = _TWO_SLASHES.sub("", first["text"], count=1)
    return message.model_copy(update={"content": blocks})


def is_command(message: AnyMessage) -> bool:
    """Return whether a user's message is a command, or only gets a notice like one (`/udno`)."""
    return is_question(message) and parse_command(text_of(message)) is not None


def changes_nothing(command: Command) -> bool:
    """Return whether a command changes nothing: it shows something, or only gets a notice."""
    return command["verb"] not in VERBS or command["verb"] in READING


def command_of(
    messages: Sequence[BaseMessage], question: BaseMessage | None, settings: Settings
) -> Command | None:
    """Return the command in a pending input; `None` if the input is a question for the model.

    A command that cannot be carried out gives a verb that only gets a notice: see `parse_command`.
    A command that waits beside a question gives `ALONE`.

    Args:
        messages: The pending messages, oldest first.
        question: The newest of them that is from the user; `None` if none is.
        settings: Say which commands are allowed. Another one gives the verb `REFUSE`.
    """
    if question is None:
        return None
    command = _command_in(question, settings)
    if command is None:
        earlier = (_command_in(m, settings) for m in messages if is_question(m))
        beside = next((each for each in earlier if each is not None), None)
        if beside is None:
            return None
        meant = beside["argument"] if beside["verb"] in _ANSWERED else f"/{beside['verb']}"
        command = Command(verb=ALONE, argument=meant)
    meant = command["argument"] if command["verb"] in _ANSWERED else f"/{command['verb']}"
    name = meant.split()[0]
    allowed = settings.allows(ALIASES.get(name[1:], name[1:]))
    return command if allowed else Command(verb=REFUSE, argument=name)


def _command_in(message: BaseMessage, settings: Settings) -> Command | None:
    """Return the command in a message; an unknown one suggests the nearest that is allowed.

    Where no command is allowed, a slash and a word are a question.
    """
    command = parse_command(text_of(message))
    if command is None or command["verb"] != UNKNOWN:
        return command
    names = [each for each in ("help", *_KNOWN) if settings.allows(ALIASES.get(each, each))]
    word = command["argument"][1 : WORD_CHARS + 1]
    near = [*get_close_matches(word, names, n=1, cutoff=0.1), *names]
    return Command(verb=SUGGEST, argument=f"/{near[0]}") if near else None
