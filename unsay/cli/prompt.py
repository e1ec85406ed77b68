"""Reading lines with prompt_toolkit: editing, a history, and completion of the commands."""

from collections.abc import Callable, Iterable, Iterator

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from unsay.conversation.conversation import Conversation
from unsay.errors import UnknownThreadError
from unsay.messages.content import newest_language
from unsay.operations.command_table import SLASH_COMMANDS
from unsay.types import Language

TAKES_CHECKPOINT = "/rollback "


class Commands(Completer):
    """Completes slash commands, with what they do, and the names of checkpoints."""

    def __init__(
        self, described: Iterable[tuple[str, str]], names: Callable[[], Iterable[tuple[str, str]]]
    ) -> None:
        self._described = list(described)
        self._names = names

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterator[Completion]:
        """Yield completions of a line that begins with a slash: commands, or names of checkpoints.

        Any other line has none.
        """
        del complete_event
        line = document.text_before_cursor
        if line.startswith(TAKES_CHECKPOINT):
            found, typed = self._names(), line.removeprefix(TAKES_CHECKPOINT)
        elif line.startswith("/"):
            found, typed = self._described, line
        else:
            return
        for word, meaning in found:
            if word.startswith(typed):
                yield Completion(word, start_position=-len(typed), display_meta=meaning)


def described_commands(language: Language) -> list[tuple[str, str]]:
    """Return the name of each slash command, such as `/undo`, with its meaning."""
    return [(f"/{each.name}", each.meaning(language)) for each in SLASH_COMMANDS]


def checkpoint_names(conversation: Conversation) -> list[tuple[str, str]]:
    """Return the checkpoints' names or ids with their topics; none for a new thread."""
    try:
        marks = conversation.checkpoints()
    except UnknownThreadError:
        return []
    return [(annotation["name"] or annotation["id"], annotation["topic"]) for annotation in marks]


def make_reader(conversation: Conversation, prompt: str) -> Callable[[str], str]:
    """Return a function that reads a line, which begins with the function's argument."""
    language = newest_language(conversation.messages())
    completer = Commands(described_commands(language), lambda: checkpoint_names(conversation))
    session: PromptSession[str] = PromptSession(prompt, completer=completer)
    return lambda prefill: session.prompt(default=prefill)
