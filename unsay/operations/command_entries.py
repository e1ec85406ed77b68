"""The commands, one entry each: what they do, in the chat and on the command line."""

from dataclasses import dataclass

from unsay.types import Language


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One command: what it does, and where it is available."""

    name: str
    # `unsay.cli.<module>_commands` has the function of this name; empty: not a shell command.
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
        "chat",
        "Chat in the terminal; /help lists the commands.",
        details="Without a terminal, the exit code is that of the first message that failed.",
    ),
    CommandEntry("say", "chat", "Send TEXT (- reads standard input) and print the answer."),
    CommandEntry(
        "threads",
        "list",
        "List the conversations, newest first.",
        details="Sorted by the last message, or with filters by the start.",
    ),
    CommandEntry(
        "timeline",
        "thread",
        "Show the turns with their scores, checkpoints and branches.",
        details="Below them: the parts of the context and the tokens used.",
        chat_en="list the turns with their scores",
        chat_ja="ターンとスコアの一覧",
        reads=True,
    ),
    CommandEntry(
        "checkpoints",
        "thread",
        "List the checkpoints.",
        chat_ja="チェックポイントの一覧",
        reads=True,
    ),
    CommandEntry(
        "checkpoint",
        "edit",
        "Save this point as a checkpoint, with an optional name.",
        chat_en="save this point as a checkpoint",
        chat_ja="現在の地点をチェックポイントとして保存する",
        argument="[NAME]",
        argument_ja="[名前]",
    ),
    CommandEntry(
        "task",
        "edit",
        "Start a task: save this point under its NAME.",
        chat_en="start a task: save this point under its name",
        chat_ja="タスクの開始地点として、名前を付けて保存する",
        argument="NAME",
        argument_ja="名前",
    ),
    CommandEntry(
        "rollback",
        "edit",
        "Roll back to a checkpoint, by default the last good one.",
        chat_en="roll back to a checkpoint (by default the last good one) or by N turns",
        chat_ja="チェックポイント(省略時は最後の良好なもの)に戻る、またはNターン戻る",
        argument="[NAME|ID|N]",
        argument_ja="[名前|ID|N]",
        aliases=("rewind",),
    ),
    CommandEntry(
        "undo",
        "edit",
        "Undo the last operation, such as a turn or a rollback.",
        chat_en="undo the last operation",
        chat_ja="直前の操作を元に戻す",
    ),
    CommandEntry(
        "redo",
        "edit",
        "Redo the operation that was undone last.",
        chat_ja="元に戻した操作をやり直す",
    ),
    CommandEntry(
        "retry",
        "chat",
        "Ask the last question again and print the new answer.",
        details="`unsay undo` restores the old answer.",
        chat_en="ask the last question again; /undo restores the old answer",
        chat_ja="直前の質問にもう一度回答させる(/undo で前の回答に戻す)",
    ),
    CommandEntry(
        "edit",
        "chat",
        "Replace the question of turn N and answer it again.",
        details="The old messages from this turn on are kept as a branch; `unsay undo` restores them.",
        chat_en="replace the question of turn N and answer it again; /undo restores the old messages",
        chat_ja="ターンNの質問を書き換えて回答し直す(/undo で元のメッセージに戻す)",
        argument="N TEXT",
        argument_ja="N 新しい質問",
    ),
    CommandEntry(
        "remove",
        "edit",
        "Take turn N out and keep the later ones.",
        details="The turn is kept as a branch; `unsay undo` puts it back.",
        chat_en="take turn N out and keep the later ones; /undo puts it back",
        chat_ja="ターンNだけを取り除く。以降のターンは残る(/undo で元に戻す)",
        argument="N",
    ),
    CommandEntry(
        "compact",
        "chat",
        "Summarize the context up to turn N, by default all of it.",
        details="UP_TO is a turn's number or a checkpoint. The transcript stays as it is; `unsay "
        "undo` sends the messages in full again.",
        chat_en="summarize the context up to turn N, by default all of it; /undo reverses this",
        chat_ja="コンテキストをターンNまで(省略時は全体を)要約する(/undo で元に戻す)",
        argument="[N]",
    ),
    CommandEntry("fork", "edit", "Copy this conversation, or its beginning, and print the id."),
    CommandEntry(
        "branches",
        "edit",
        "List the current branch, removed branches and forks.",
        details="Each with its id, the turn it starts after, its number of turns and its tokens.",
        chat_en="list the branches that were removed from the transcript",
        chat_ja="会話から取り除いたブランチの一覧",
        reads=True,
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
        "label; by default the newest branch.",
        chat_en="restore a branch, by default the newest; /undo reverses this",
        chat_ja="ブランチ(省略時は最新)を会話に復元する(/undo で取り消せる)",
        argument="[ID]",
    ),
    CommandEntry(
        "pin",
        "edit",
        "Always include a message, by default the last turn.",
        details="A pinned message is always included in the prompt. `unsay timeline --json` lists "
        "the ids of messages.",
        chat_en="always include a turn in the prompt, by default the newest",
        chat_ja="ターンを常にモデルに送信する(省略時は最新のターン)",
        argument="[N]",
    ),
    CommandEntry(
        "unpin",
        "edit",
        "Remove a pin, by default those of the last turn.",
        chat_en="remove the pin",
        chat_ja="ピン留めを解除する",
        argument="[N]",
    ),
    CommandEntry(
        "forget",
        "edit",
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
        "edit",
        "List the forgotten messages.",
        chat_ja="送信対象外のメッセージの一覧",
        reads=True,
    ),
    CommandEntry(
        "same",
        "edit",
        "Say that the topic did not change: join it to the topic before.",
        details="For a new topic, or a return to an earlier one, that was detected by mistake. The "
        "messages of both are sent to the model together; `unsay undo` separates them.",
        chat_en="say that the topic did not change; /undo reverses this",
        chat_ja="話題は変わっていないと伝え、直前の話題に含める(/undo で元に戻す)",
    ),
    CommandEntry(
        "recall",
        "edit",
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
        "judging",
        "List why drafts were rejected, which later turns are sent.",
        chat_en="list why drafts were rejected, which later answers avoid",
        chat_ja="以後の回答で避ける注意点(不合格の理由)の一覧",
        reads=True,
    ),
    CommandEntry(
        "lesson",
        "judging",
        "Change the text of lesson N.",
        chat_en="change the text of lesson N",
        chat_ja="注意点Nを書き換える",
        argument="N TEXT",
        argument_ja="N 新しい文",
    ),
    CommandEntry(
        "unlearn",
        "judging",
        "Remove lesson N.",
        chat_ja="注意点Nを取り除く",
        argument="N",
    ),
    CommandEntry(
        "rate",
        "judging",
        "Rate the answer of turn N as good or bad.",
        details="Ratings are labels for `unsay calibrate`; the note of a bad one is a lesson for later turns.",
    ),
    CommandEntry(
        "ratings",
        "judging",
        "Print the rated turns as JSON Lines.",
        details="--all prints those of all conversations, for `unsay calibrate`. With --import FILE the ratings of such a file are given to the turns of this conversation.",
    ),
    CommandEntry(
        "judge",
        "judging",
        "Score the answers of an old conversation again.",
        details="The transcript does not change.",
    ),
    CommandEntry(
        "bisect",
        "judging",
        "Find the turn from which a conversation went wrong.",
        details="Beginnings of the conversation are judged; --yes rolls back to before the turn.",
    ),
    CommandEntry(
        "calibrate",
        "judging",
        "Choose the threshold of quality from rated turns (JSON Lines).",
        details="The figures are measured on labels that the threshold was not fitted to. --write "
        "stores the threshold in unsay.toml.",
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
        chat_ja="コンテキストの内訳と使用トークン数",
        reads=True,
        aliases=("context", "usage"),
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
