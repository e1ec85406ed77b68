"""The commands, one entry each: what they do, in the chat and on the command line."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from unsay.errors import InputError
from unsay.types import CommandName, Language


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One command: what it does, and where it is available."""

    name: str
    # `unsay.cli.<module>` has the function of this name; empty: not a shell command.
    module: str = ""
    summary: str = ""
    # What `unsay NAME --help` adds to the summary.
    details: str = ""
    # What it does in the chat, where the summary does not say it.
    chat_en: str = ""
    # What it does in the chat; empty: not a slash command.
    chat_ja: str = ""
    # The argument of the slash command as `/help` shows it; empty: it takes none.
    argument: str = ""
    # The argument in Japanese where it has other words.
    argument_ja: str = ""
    # Whether the terminal's chat carries out the slash command, and not the graph.
    by_chat: bool = False
    # Whether the slash command only shows something: it changes nothing in the thread.
    reads: bool = False
    # Other names of the slash command, as people know it from elsewhere.
    aliases: tuple[str, ...] = ()

    def usage(self, language: Language) -> str:
        """Return how a user types the command in the chat, such as `/pin [N]`."""
        argument = self.argument_ja if language == "ja" and self.argument_ja else self.argument
        return f"/{self.name} {argument}".rstrip()

    def meaning(self, language: Language) -> str:
        """Return what the command does in the chat, for `/help`, without a period at the end."""
        others = ", ".join(f"/{alias}" for alias in self.aliases)
        if language == "ja":
            return f"{self.chat_ja}(別名 {others})" if others else self.chat_ja
        text = self.chat_en or self.summary.removesuffix(".")
        text = text[:1].lower() + text[1:]
        return f"{text} (also {others})" if others else text


COMMANDS = (
    CommandEntry(
        "chat",
        "chat_commands",
        "Chat in the terminal; /help lists the commands.",
        details="Without a terminal, the exit code is that of the first message that failed.",
    ),
    CommandEntry(
        "say", "chat_commands", "Send TEXT (- reads standard input) and print the answer."
    ),
    CommandEntry(
        "threads",
        "threads",
        "List the conversations, newest first.",
        details="Sorted by the last message, or with filters by the start.",
    ),
    CommandEntry(
        "timeline",
        "records",
        "Show the turns with their scores, checkpoints and branches.",
        details="Below them: the parts of the context and the tokens used.",
        chat_en="list the turns with their scores",
        chat_ja="ターンとスコアの一覧",
        reads=True,
    ),
    CommandEntry(
        "checkpoints",
        "records",
        "List the checkpoints.",
        chat_ja="チェックポイントの一覧",
        reads=True,
    ),
    CommandEntry(
        "checkpoint",
        "verbs",
        "Save this point as a checkpoint, with an optional name.",
        chat_en="save this point as a checkpoint",
        chat_ja="現在の地点をチェックポイントとして保存する",
        argument="[NAME]",
        argument_ja="[名前]",
    ),
    CommandEntry(
        "task",
        "verbs",
        "Start a task: save this point under its NAME.",
        chat_en="start a task: save this point under its name",
        chat_ja="タスクの開始地点として、名前を付けて保存する",
        argument="NAME",
        argument_ja="名前",
    ),
    CommandEntry(
        "rollback",
        "verbs",
        "Roll back to a checkpoint, by default the last good one.",
        chat_en="roll back to a checkpoint (by default the last good one) or by N turns",
        chat_ja="チェックポイント(省略時は最後の良好なもの)に戻る、またはNターン戻る",
        argument="[NAME|ID|N]",
        argument_ja="[名前|ID|N]",
        aliases=("rewind",),
    ),
    CommandEntry(
        "undo",
        "verbs",
        "Undo the last operation, such as a turn or a rollback.",
        chat_en="undo the last operation",
        chat_ja="直前の操作を元に戻す",
    ),
    CommandEntry(
        "redo",
        "verbs",
        "Redo the operation that was undone last.",
        chat_ja="元に戻した操作をやり直す",
    ),
    CommandEntry(
        "retry",
        "chat_commands",
        "Ask the last question again and print the new answer.",
        details="`unsay undo` restores the old answer.",
        chat_en="ask the last question again; /undo restores the old answer",
        chat_ja="直前の質問にもう一度回答させる(/undo で前の回答に戻す)",
    ),
    CommandEntry(
        "edit",
        "chat_commands",
        "Replace the question of turn N and answer it again.",
        details="The old messages from this turn on are kept as a branch; `unsay undo` restores them.",
        chat_en="replace the question of turn N and answer it again; /undo restores the old messages",
        chat_ja="ターンNの質問を書き換えて回答し直す(/undo で元のメッセージに戻す)",
        argument="N TEXT",
        argument_ja="N 新しい質問",
    ),
    CommandEntry(
        "remove",
        "verbs",
        "Take turn N out and keep the later ones.",
        details="The turn is kept as a branch; `unsay undo` puts it back.",
        chat_en="take turn N out and keep the later ones; /undo puts it back",
        chat_ja="ターンNだけを取り除く。以降のターンは残る(/undo で元に戻す)",
        argument="N",
    ),
    CommandEntry(
        "compact",
        "chat_commands",
        "Summarize the context up to turn N, by default all of it.",
        details="UP_TO is a turn's number or a checkpoint. The transcript stays as it is; `unsay "
        "undo` sends the messages in full again.",
        chat_en="summarize the context up to turn N, by default all of it; /undo reverses this",
        chat_ja="コンテキストをターンNまで(省略時は全体を)要約する(/undo で元に戻す)",
        argument="[N]",
    ),
    CommandEntry("fork", "verbs", "Copy this conversation, or its beginning, and print the id."),
    CommandEntry(
        "branches",
        "verbs",
        "List the current branch, removed branches and forks.",
        details="Each with its id, the turn it starts after, its number of turns and its tokens.",
        chat_en="list the branches that were removed from the transcript",
        chat_ja="会話から取り除いたブランチの一覧",
        reads=True,
    ),
    CommandEntry(
        "diff",
        "verbs",
        "Compare two branches; B is by default the current one.",
        details="A branch is `live` (the current one), a checkpoint, a branch's id or a thread's id; "
        "`unsay branches` lists them.",
    ),
    CommandEntry(
        "restore",
        "verbs",
        "Restore a branch, forgotten messages or a summarized topic.",
        details="WHAT is the id of a branch, a forgotten entry, a message or a topic, or a topic's "
        "label; by default the newest branch.",
        chat_en="restore a branch, by default the newest; /undo reverses this",
        chat_ja="ブランチ(省略時は最新)を会話に復元する(/undo で取り消せる)",
        argument="[ID]",
    ),
    CommandEntry(
        "pin",
        "verbs",
        "Always include a message, by default the last turn.",
        details="A pinned message is always included in the prompt. `unsay timeline --json` lists "
        "the ids of messages.",
        chat_en="always include a turn in the prompt, by default the newest",
        chat_ja="ターンを常にモデルに送信する(省略時は最新のターン)",
        argument="[N]",
    ),
    CommandEntry(
        "unpin",
        "verbs",
        "Remove a pin, by default those of the last turn.",
        chat_en="remove the pin",
        chat_ja="ピン留めを解除する",
        argument="[N]",
    ),
    CommandEntry(
        "forget",
        "verbs",
        "Hide messages from the model without deleting them.",
        details="WHAT is the id of a message, the first message of a span that ends with THROUGH, "
        "or a topic's id or label. `unsay restore` or `unsay undo` reverses this.",
        chat_en="hide turns or a topic from the model; /undo reverses this",
        chat_ja="ターンや話題をモデルに送信しないようにする(/undo で元に戻す)",
        argument="[N|N-M|TOPIC]",
        argument_ja="[N|N-M|話題]",
    ),
    CommandEntry(
        "forgotten",
        "verbs",
        "List the forgotten messages.",
        chat_ja="送信対象外のメッセージの一覧",
        reads=True,
    ),
    CommandEntry(
        "same",
        "verbs",
        "Say that the topic did not change: join it to the topic before.",
        details="For a new topic, or a return to an earlier one, that was detected by mistake. The "
        "messages of both are sent to the model together; `unsay undo` separates them.",
        chat_en="say that the topic did not change; /undo reverses this",
        chat_ja="話題は変わっていないと伝え、直前の話題に含める(/undo で元に戻す)",
    ),
    CommandEntry(
        "recall",
        "verbs",
        "Search earlier messages and add the matches to the next prompt.",
        chat_ja="以前のメッセージを検索し、次の質問と一緒にモデルに送信する",
        argument="WORDS",
        argument_ja="検索語",
    ),
    CommandEntry(
        "good",
        chat_en="rate the answer of turn N, by default the newest, as good",
        chat_ja="ターンN(省略時は最新)の回答を良いと評価する",
        argument="[N]",
    ),
    CommandEntry(
        "bad",
        chat_en="rate the answer of turn N as bad; WHY is a lesson for later answers",
        chat_ja="ターンNの回答を悪いと評価する。理由は以後の回答の注意点になる",
        argument="[N] [WHY]",
        argument_ja="[N] [理由]",
    ),
    CommandEntry(
        "lessons",
        "evaluation",
        "List why drafts were rejected, which later turns are sent.",
        chat_en="list why drafts were rejected, which later answers avoid",
        chat_ja="以後の回答で避ける注意点(不合格の理由)の一覧",
        reads=True,
    ),
    CommandEntry(
        "lesson",
        "evaluation",
        "Change the text of lesson N.",
        chat_en="change the text of lesson N",
        chat_ja="注意点Nを書き換える",
        argument="N TEXT",
        argument_ja="N 新しい文",
    ),
    CommandEntry(
        "unlearn",
        "evaluation",
        "Remove lesson N.",
        chat_ja="注意点Nを取り除く",
        argument="N",
    ),
    CommandEntry(
        "rate",
        "evaluation",
        "Rate the answer of turn N as good or bad.",
        details="Ratings are labels for `unsay calibrate`; the note of a bad one is a lesson for later turns.",
    ),
    CommandEntry(
        "ratings",
        "evaluation",
        "Print the rated turns as JSON Lines.",
        details="--all prints those of all conversations, for `unsay calibrate`. With --import FILE the ratings of such a file are given to the turns of this conversation.",
    ),
    CommandEntry(
        "judge",
        "evaluation",
        "Score the answers of an old conversation again.",
        details="The transcript does not change.",
    ),
    CommandEntry(
        "bisect",
        "evaluation",
        "Find the turn from which a conversation went wrong.",
        details="Beginnings of the conversation are judged; --yes rolls back to before the turn.",
    ),
    CommandEntry(
        "calibrate",
        "evaluation",
        "Choose the threshold of quality from rated turns (JSON Lines).",
        details="The figures are measured on labels that the threshold was not fitted to. --write "
        "stores the threshold in unsay.toml.",
    ),
    CommandEntry(
        "pick",
        "verbs",
        "Copy messages of another branch to the end of this one.",
        details="`unsay diff BRANCH --json` lists the ids of messages.",
    ),
    CommandEntry(
        "tokens",
        "records",
        "Show the parts of the context and the tokens used.",
        details="Tokens used by the current branch, removed branches, judging, summaries and titles.",
        chat_ja="コンテキストの内訳と使用トークン数",
        reads=True,
        aliases=("context", "usage"),
    ),
    CommandEntry("runs", "records", "List the runs and how they ended, oldest first."),
    CommandEntry("events", "records", "List the event log, oldest first."),
    CommandEntry(
        "replay",
        "replay",
        "Show a past request, and send it to another model.",
        details="By default the newest failed attempt, or the last turn if none failed.",
    ),
    CommandEntry("label", "records", "Set, remove or list the labels of a conversation."),
    CommandEntry("end", "records", "End a conversation; it can still be read."),
    CommandEntry("purge", "records", "Permanently delete a conversation."),
    CommandEntry("demo", "demo", "Play a scripted conversation; no API key needed."),
    CommandEntry(
        "doctor",
        "setup",
        "Check key, server, model, database and clock, and say what to do.",
        details="No model is called. The exit code is 1 if a check fails.",
    ),
    CommandEntry(
        "settings",
        "settings",
        "Show the settings in force and where each one comes from.",
        details="A setting comes from an argument, a preset, the environment, the file unsay.toml or the "
        "default; `derived` is a default that another setting changed. Keys are not shown.",
    ),
    CommandEntry(
        "schema",
        "setup",
        "Print the JSON Schema of what COMMAND prints with --json.",
        details="Also for `rollback --preview`, `timeline --context`, `events --verify`, `ratings --import` and "
        "`replay --payload`, in quotes, and for `error`, which a failed command prints.",
    ),
    CommandEntry(
        "completion",
        "setup",
        "Print the script that completes commands in bash, zsh or fish.",
        details='For bash, add this line to ~/.bashrc: eval "$(unsay completion bash)"',
    ),
    CommandEntry(
        "help",
        chat_en="list the commands, or explain one",
        chat_ja="コマンドの一覧、または指定したコマンドの説明",
        argument="[COMMAND]",
        argument_ja="[コマンド]",
        reads=True,
    ),
    CommandEntry(
        "resume",
        chat_en="continue an interrupted turn",
        chat_ja="中断した回答を再開する",
        by_chat=True,
    ),
    CommandEntry("exit", chat_en="quit", chat_ja="終了する", by_chat=True, aliases=("quit",)),
)
"""All commands, in the order of `unsay --help`."""


_BY_NAME = {each.name: each for each in COMMANDS}

SLASH_COMMANDS = tuple(_BY_NAME[name] for name in (*get_args(CommandName), "resume", "exit"))
"""The commands of the chat, in the order of `/help`."""

VERBS = {each.name: bool(each.argument) for each in SLASH_COMMANDS if not each.by_chat}
"""The name of each command that the graph carries out, and whether it takes an argument."""

ALIASES = {alias: each.name for each in SLASH_COMMANDS for alias in each.aliases}
"""The command that each other name stands for."""

READING = frozenset(each.name for each in SLASH_COMMANDS if each.reads)
"""The commands that only show something."""

NOT_IN_GRAPH = frozenset(each.name for each in COMMANDS) - VERBS.keys()
"""Commands that the graph answers with a notice: the command line's, and the terminal chat's own."""


def chat_help(
    language: Language,
    *,
    by_chat: bool = False,
    only: str = "",
    allows: Callable[[str], bool] = lambda _: True,
) -> str:
    """Return the help, a command a line: the graph's commands, or with `by_chat` the chat's own.

    Only commands are listed for whose names `allows` returns `True`. `only` is what a person typed
    after `/help`: if it is not empty, only the command of this name or alias is listed. The result
    is empty if there is none.
    """
    name = only.lower().removeprefix("/")
    commands = [
        each
        for each in SLASH_COMMANDS
        if each.by_chat == by_chat
        and allows(each.name)
        and (not name or name in (each.name, *each.aliases))
    ]
    return "\n".join(f"{each.usage(language)}  {each.meaning(language)}" for each in commands)


def check_argument(verb: str, argument: str, language: Language) -> None:
    """Raise `InputError`, which says how to type it, for a command that needs an argument and has none."""
    entry = _BY_NAME[verb]
    if entry.argument and not entry.argument.startswith("[") and not argument:
        raise InputError(f"The command has no argument: write {entry.usage(language)}")


# Methods that are not commands, and the command that lists the same.
_ELSEWHERE = {"pins": "timeline", "sessions": "threads"}

_NAMED = re.compile(
    rf"`?(?<!-)\b(?:unsay |Registry\.)?({'|'.join([*_BY_NAME, *_ELSEWHERE])})(?:`|(?:\.list)?\(\)`?)"
)

_OPTIONS = {
    "run_id": "run",
    "below": "results-below",
    "thread_id": "thread",
    "labels": "label",
    "turns": "turn",  # of `unsay forget`
}
_OPTION = re.compile(
    r"^(since|until|cursor|limit|run_id|below|thread_id|labels)=|the option `(\w+)`"
)


def in_terms_of(interface: Literal["chat", "shell"], message: str) -> str:
    """Return an error's text in which commands are named as one types them in this interface.

    The library names a command by its method, such as `branches()`, and a value at the beginning of
    the text by its argument, such as `since=`.

    >>> in_terms_of("chat", "timeline() lists the turns, events() the events")
    '/timeline lists the turns, `unsay events` the events'
    >>> in_terms_of("shell", "since='now' is not a time")
    "--since 'now' is not a time"
    """

    def typed(match: re.Match[str]) -> str:
        name = _ELSEWHERE.get(match[1], match[1])
        in_chat = interface == "chat" and _BY_NAME[name] in SLASH_COMMANDS
        return f"/{name}" if in_chat else f"`unsay {name}`"

    def option(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        option_text = f"--{_OPTIONS.get(name, name)}"
        return f"{option_text} " if match[1] else f"the option {option_text}"

    return _OPTION.sub(option, _NAMED.sub(typed, message))
