"""The commands of the chat and of the command line: one table for both.

The chat's `/help` and completion, the commands that Click offers and `docs/commands.md` are all
made from it. It imports nothing heavy, so that `unsay --help` stays instant.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from unsay.types import Language

Words = Mapping[Language, str]


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One command: what it does, and where it is available."""

    name: str
    module: str = ""
    """`unsay.cli.<module>_commands` has the function of this name; empty: not a shell command."""

    summary: str = ""
    details: str = ""
    """What `unsay NAME --help` adds to the summary."""

    chat: Words | None = None
    """What it does in the chat; `None`: not a slash command."""

    argument: Words | None = None
    """The argument of the slash command as `/help` shows it; `None`: it takes none."""

    by_chat: bool = False
    """Whether the terminal's chat carries out the slash command, and not the graph."""

    def usage(self, language: Language) -> str:
        """Return how the command is written in the chat."""
        return f"/{self.name}" + (f" {self.argument[language]}" if self.argument else "")

    def meaning(self, language: Language) -> str:
        """Return what the slash command does; empty where the chat lacks the command."""
        return self.chat[language] if self.chat else ""


def _both(en: str, ja: str) -> Words:
    return {"en": en, "ja": ja}


COMMANDS = (
    CommandEntry("chat", "chat", "Chat in the terminal; /help lists the commands."),
    CommandEntry("say", "chat", "Send TEXT (- reads standard input) and print the answer."),
    CommandEntry(
        "threads",
        "thread",
        "List the conversations, newest first.",
        details="Sorted by the last message, or with filters by the start.",
    ),
    CommandEntry(
        "timeline",
        "thread",
        "Show the turns with their scores, checkpoints and branches.",
        details="Below them: the parts of the context and the tokens used.",
        chat=_both("list the turns with their scores", "ターンとスコアの一覧"),
    ),
    CommandEntry(
        "checkpoints",
        "thread",
        "List the checkpoints.",
        chat=_both("list the checkpoints", "チェックポイントの一覧"),
    ),
    CommandEntry(
        "checkpoint",
        "edit",
        "Save this point as a checkpoint, with an optional name.",
        chat=_both("save this point as a checkpoint", "現在の地点をチェックポイントとして保存する"),
        argument=_both("[NAME]", "[名前]"),
    ),
    CommandEntry(
        "rollback",
        "edit",
        "Roll back to a checkpoint, by default the last good one.",
        chat=_both(
            "roll back to a checkpoint (by default the last good one) or by N turns",
            "チェックポイント(省略時は最後の良好なもの)に戻る、またはNターン戻る",
        ),
        argument=_both("[NAME|ID|N]", "[名前|ID|N]"),
    ),
    CommandEntry(
        "undo",
        "edit",
        "Undo the last operation, such as a turn or a rollback.",
        chat=_both("undo the last operation", "直前の操作を元に戻す"),
    ),
    CommandEntry(
        "redo",
        "edit",
        "Redo the operation that was undone last.",
        chat=_both("redo the operation that was undone last", "元に戻した操作をやり直す"),
    ),
    CommandEntry(
        "retry",
        "chat",
        "Ask the last question again and print the new answer.",
        details="`unsay undo` restores the old answer.",
        chat=_both(
            "ask the last question again; /undo restores the old answer",
            "直前の質問にもう一度回答させる(/undo で前の回答に戻す)",
        ),
    ),
    CommandEntry("fork", "edit", "Copy this conversation, or its beginning, and print the id."),
    CommandEntry(
        "branches",
        "edit",
        "List the current branch, removed branches and forks.",
        details="Each with its id, the turn it starts after, its number of turns and its tokens.",
    ),
    CommandEntry(
        "diff",
        "edit",
        "Compare two branches; B is by default the current one.",
        details="A branch is `live` (the current one), a checkpoint, a branch's id or a thread's id; "
        "`unsay branches` lists them.",
    ),
    CommandEntry(
        "restore",
        "edit",
        "Restore a branch, forgotten messages or a summarized topic.",
        details="WHAT is the id of a branch, a forgotten entry, a message or a topic, or a topic's "
        "label.",
    ),
    CommandEntry(
        "pin",
        "edit",
        "Always include a message, by default the last turn.",
        details="A pinned message is always included in the prompt. `unsay timeline --json` lists "
        "the ids of messages.",
        chat=_both(
            "always include a turn in the prompt, by default the newest",
            "ターンを常にモデルに送信する(省略時は最新のターン)",
        ),
        argument=_both("[N]", "[N]"),
    ),
    CommandEntry(
        "unpin",
        "edit",
        "Remove a pin, by default those of the last turn.",
        chat=_both("remove the pin", "ピン留めを解除する"),
        argument=_both("[N]", "[N]"),
    ),
    CommandEntry(
        "forget",
        "edit",
        "Hide messages from the model without deleting them.",
        details="WHAT is the id of a message, the first message of a span that ends with THROUGH, "
        "or a topic's id or label. `unsay restore` or `unsay undo` reverses this.",
        chat=_both(
            "hide turns or a topic from the model; /undo reverses this",
            "ターンや話題をモデルに送信しないようにする(/undo で元に戻す)",
        ),
        argument=_both("[N|N-M|TOPIC]", "[N|N-M|話題]"),
    ),
    CommandEntry(
        "forgotten",
        "edit",
        "List the forgotten messages.",
        chat=_both("list the forgotten messages", "忘れたメッセージの一覧"),
    ),
    CommandEntry(
        "recall",
        "edit",
        "Search earlier messages and add the matches to the next prompt.",
        chat=_both(
            "search earlier messages and add the matches to the next prompt",
            "以前のメッセージを検索し、次の質問と一緒にモデルに送信する",
        ),
        argument=_both("WORDS", "検索語"),
    ),
    CommandEntry(
        "pick",
        "edit",
        "Copy messages of another branch to the end of this one.",
        details="`unsay diff BRANCH --json` lists the ids of messages.",
    ),
    CommandEntry(
        "tokens",
        "thread",
        "Show the parts of the context and the tokens used.",
        details="Tokens used by the current branch, removed branches, judging, summaries and titles.",
        chat=_both(
            "show the parts of the context and the tokens used",
            "コンテキストの内訳と使用トークン数",
        ),
    ),
    CommandEntry("runs", "event", "List the runs and how they ended, oldest first."),
    CommandEntry("events", "event", "List the event log, oldest first."),
    CommandEntry(
        "replay",
        "replay",
        "Show a past request, and send it to another model.",
        details="By default the newest failed attempt, or the last turn if none failed.",
    ),
    CommandEntry("label", "thread", "Set, remove or list the labels of a conversation."),
    CommandEntry("end", "thread", "End a conversation; it can still be read."),
    CommandEntry("purge", "thread", "Permanently delete a conversation."),
    CommandEntry("demo", "demo", "Play a scripted conversation; no API key needed."),
    CommandEntry("help", chat=_both("list the commands", "コマンドの一覧")),
    CommandEntry(
        "resume",
        chat=_both("continue an interrupted turn", "中断した回答を再開する"),
        by_chat=True,
    ),
    CommandEntry("exit", chat=_both("quit", "終了する"), by_chat=True),
)
"""All commands, in the order of `unsay --help`."""

_CHAT_ORDER = (
    ("undo", "redo", "retry", "rollback", "checkpoint", "checkpoints", "timeline", "tokens"),
    ("recall", "pin", "unpin", "forget", "forgotten", "help", "resume", "exit"),
)

_BY_NAME = {each.name: each for each in COMMANDS}

SLASH_COMMANDS = tuple(_BY_NAME[name] for names in _CHAT_ORDER for name in names)
"""The commands of the chat, in the order of `/help`."""

VERBS = {each.name: each.argument is not None for each in SLASH_COMMANDS if not each.by_chat}
"""The name of each command that the graph carries out, and whether it takes an argument."""


def chat_help(language: Language, *, by_chat: bool = False) -> str:
    """Return the help on the graph's commands, or on the terminal chat's, one command a line."""
    listed = [each for each in SLASH_COMMANDS if each.by_chat == by_chat]
    return "\n".join(f"{each.usage(language)}  {each.meaning(language)}" for each in listed)


_NAMED = re.compile(rf"`?\b(?:unsay )?({'|'.join([*_BY_NAME, 'pins'])})(?:`|\(\)`?)")


def in_terms_of(interface: Literal["chat", "shell"], message: str) -> str:
    """Return an error's text with the commands it names as they are typed there.

    The library names a command by its method, such as `branches()`.

    >>> in_terms_of("chat", "timeline() lists the turns, branches() the branches")
    '/timeline lists the turns, `unsay branches` the branches'
    """

    def typed(match: re.Match[str]) -> str:
        # Pins are listed by the timeline; only Python has a method for them.
        name = "timeline" if match[1] == "pins" else match[1]
        in_chat = interface == "chat" and _BY_NAME[name].chat is not None
        return f"/{name}" if in_chat else f"`unsay {name}`"

    return _NAMED.sub(typed, message)
