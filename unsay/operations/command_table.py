"""The commands of the chat and of the command line: one table for both.

The chat's `/help` and completion, the commands that Click offers and `docs/commands.md` are all
made from it. It imports nothing heavy, so that `unsay --help` stays instant.
"""

from collections.abc import Mapping
from dataclasses import dataclass

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
    CommandEntry("chat", "chat", "ThreadHandle; /help lists what can be taken back."),
    CommandEntry("say", "chat", "Say TEXT, or standard input for -; print the answer."),
    CommandEntry(
        "threads",
        "thread",
        "List the conversations, the newest first.",
        details="Without filters the one spoken in last comes first, with them the one begun last.",
    ),
    CommandEntry(
        "timeline",
        "thread",
        "Show the turns, the scores and what was taken back.",
        details="Below stands who uses the window, and what was spent.",
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
        "Mark this point as good, with or without a name.",
        chat=_both("mark this point as good", "現在の地点を良好な地点として記録する"),
        argument=_both("[NAME]", "[名前]"),
    ),
    CommandEntry(
        "rollback",
        "edit",
        "Go back to a checkpoint, by default the last good one.",
        chat=_both(
            "go back to a checkpoint, the last good one by default, or N turns",
            "チェックポイントに戻る(省略時は最後の良好な地点)、またはNターン戻る",
        ),
        argument=_both("[NAME|ID|N]", "[名前|ID|N]"),
    ),
    CommandEntry(
        "undo",
        "edit",
        "Take back the last step, a turn or a rollback.",
        chat=_both("take back the last step", "直前の操作を取り消す"),
    ),
    CommandEntry(
        "redo",
        "edit",
        "Make the step again that was undone last.",
        chat=_both("make again the last step that was taken back", "取り消した操作をやり直す"),
    ),
    CommandEntry(
        "retry",
        "chat",
        "Ask the last question again; print the new answer.",
        details="`unsay undo` brings the old answer back.",
        chat=_both(
            "ask the last question again; /undo brings the old answer back",
            "直前の質問にもう一度回答させる(/undo で前の回答に戻る)",
        ),
    ),
    CommandEntry("fork", "edit", "Begin a conversation as this one was; print its id."),
    CommandEntry(
        "branches",
        "edit",
        "List the live line, what was left, and the forks.",
        details="Each with its id, the turn after which it begins, its own turns and what they "
        "cost.",
    ),
    CommandEntry(
        "diff",
        "edit",
        "Show how two lines differ, B by default the live one.",
        details="A line is `live`, a checkpoint, a cut's id or a conversation's; `unsay branches` "
        "lists them.",
    ),
    CommandEntry(
        "restore",
        "edit",
        "Bring back a cut, what was forgotten, or a folded topic.",
        details="WHAT is the id of a cut, of something forgotten or of a message, or a topic's id "
        "or label.",
    ),
    CommandEntry(
        "pin",
        "edit",
        "Keep a message in every view, by default the last turn.",
        details="`unsay timeline --json` has the messages' ids.",
        chat=_both(
            "keep a turn in every view, the newest by default",
            "ターンを常にモデルに見せる(省略時は最新のターン)",
        ),
        argument=_both("[N]", "[N]"),
    ),
    CommandEntry(
        "unpin",
        "edit",
        "Take a pin off, by default those of the last turn.",
        chat=_both("take the pin off again", "ピンを外す"),
        argument=_both("[N]", "[N]"),
    ),
    CommandEntry(
        "forget",
        "edit",
        "Hide words from the model; the record keeps them.",
        details="WHAT is a message's id, the first of a span that ends with THROUGH, or a topic's "
        "id or label. `unsay restore` or `unsay undo` shows it to the model again.",
        chat=_both(
            "hide turns or a topic from the model; /undo shows them again",
            "ターンや話題をモデルから隠す(/undo で元に戻る)",
        ),
        argument=_both("[N|N-M|TOPIC]", "[N|N-M|話題]"),
    ),
    CommandEntry(
        "forgotten",
        "edit",
        "List what is forgotten.",
        chat=_both("list what is forgotten", "忘れたものの一覧"),
    ),
    CommandEntry(
        "recall",
        "edit",
        "Find what was said that bears on WORDS.",
        details="The model is shown it with the next question.",
        chat=_both(
            "find what was said, and show it to the model with the next question",
            "以前の発言を探し、次の質問と一緒にモデルに見せる",
        ),
        argument=_both("WORDS", "言葉"),
    ),
    CommandEntry(
        "pick",
        "edit",
        "Put messages of another line at the end of this one.",
        details="`unsay diff BRANCH --json` has the messages' ids.",
    ),
    CommandEntry(
        "tokens",
        "thread",
        "Show who uses the window, and what was spent on what.",
        details="On the answers that stand, on what was taken back, on judging, summaries and "
        "titles.",
        chat=_both("who uses the window, and what was spent", "文脈の内訳と消費トークン"),
    ),
    CommandEntry("runs", "event", "List what ran, the first run first, and how it ended."),
    CommandEntry("events", "event", "List everything that happened, oldest first."),
    CommandEntry(
        "replay",
        "replay",
        "Show what a model was sent, and ask another the same.",
        details="By default the newest attempt that failed; without one, the last turn.",
    ),
    CommandEntry("label", "thread", "Set labels to find a conversation by, and list them."),
    CommandEntry("end", "thread", "End a conversation for good."),
    CommandEntry("purge", "thread", "Remove a conversation, to the last byte."),
    CommandEntry("demo", "demo", "Show it all on a scripted conversation; no key needed."),
    CommandEntry("help", chat=_both("show this list", "この一覧を表示する")),
    CommandEntry(
        "resume",
        chat=_both("go on with a reply that was stopped", "止めた回答を続ける"),
        by_chat=True,
    ),
    CommandEntry("exit", chat=_both("leave", "終了する"), by_chat=True),
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
