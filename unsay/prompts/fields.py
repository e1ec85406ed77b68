"""Every text that a model or a person reads, with English and Japanese in one place."""

import re
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Self

from unsay.errors import ConfigurationError
from unsay.prompts.base import StepChange, Table, Text
from unsay.prompts.reason_texts import ReasonTexts
from unsay.types import Language


@dataclass(frozen=True, kw_only=True, repr=False)
class Texts(ReasonTexts):
    """All texts in one language, for a model and for a person; a user may replace any of them."""

    # Questions to a person, and notices about rollbacks.
    ask_person: Text = Text(
        "No draft passed. Deliver the best one, edit it, try again, or reject it? Reasons: {reasons}",
        "合格した下書きがありません。最良の下書きを採用しますか、編集しますか、再試行しますか、却下しますか? 不合格の理由: {reasons}",
    )
    ask_budget: Text = Text(
        "This call would exceed the budget. Raise the limit to {raised} and allow it? If not, the turn ends without an answer. {limits}",
        "この呼び出しは予算を超えます。上限を{raised}に引き上げて許可しますか? 許可しない場合、このターンは回答なしで終了します。{limits}",
    )
    ask_undo: Text = Text(
        "This removes the tool call {call} from the conversation. Also undo its effect?",
        "この操作により、ツール呼び出し「{call}」が会話から取り除かれます。その実行結果も取り消しますか?",
    )
    refused: Text = Text("{reason}. Nothing was changed.", "{reason}。何も変更していません。")
    not_in_chat: Text = Text(
        "/{verb} is not available in this chat. Nothing was changed; /help lists the commands.",
        "/{verb} はこのチャットでは使えません。何も変更していません。/help でコマンドの一覧を表示できます。",
    )
    command_refused: Text = Text(
        "{command} is not available here. The model was sent nothing.",
        "{command} はここでは使えません。モデルには何も送っていません。",
    )
    command_suggested: Text = Text(
        "There is no such command. Did you mean {command}? /help lists the commands. Nothing was changed, and the model was sent nothing. To send a text that begins with a slash, begin it with //.",
        "そのコマンドはありません。{command} のことですか? /help でコマンドの一覧を表示できます。何も変更せず、モデルにも送っていません。スラッシュで始まる文を送るには、// で始めてください。",
    )
    command_alone: Text = Text(
        "Send {command} as a message of its own, and the rest as another. Nothing was changed, and the model was sent nothing.",
        "{command} は単独のメッセージとして送り、ほかの文は別に送ってください。何も変更せず、モデルにも送っていません。",
    )
    command_done: Text = Text("{command} was carried out already.", "{command} は実行済みです。")
    question_waits: Text = Text(
        "Your question “{words}” still waits; it is answered together with your next message.",
        "質問「{words}」は回答待ちのままです。次のメッセージと一緒に回答します。",
    )
    decision_waits: Text = Text(
        "Your question “{words}” waits for your decision.", "質問「{words}」は判断待ちです。"
    )
    stopped_question_waits: Text = Text(
        "Your question “{words}” still waits: send it again to continue, or send another message.",
        "質問「{words}」は回答待ちのままです。同じ質問をもう一度送ると再開します。別のメッセージを送ることもできます。",
    )
    declined: Text = Text(
        "No answer was given: the call would exceed the budget and was declined. Ask again, or raise the budget ({settings}).",
        "予算を超える呼び出しが許可されなかったため、回答はありません。もう一度質問するか、予算の設定({settings})を増やしてください。",
    )
    no_answer: Text = Text(
        "No answer was given. Later answers are not sent the question; to have it answered, ask it again.",
        "回答はありません。この質問は以後モデルに送信されません。回答が必要な場合は、もう一度質問してください。",
    )
    rolled_back: Text = Text(
        "Rolled back to {where}. {changes} /undo reverses this; later, /restore brings the messages back.",
        "{where}に戻りました。{changes}/undo で取り消せます。あとからは /restore で復元できます。",
    )
    already_there: Text = Text(
        "The conversation is at {where} already. Nothing was removed.",
        "会話はすでに{where}にあります。何も取り除いていません。",
    )
    restored: Text = Text(
        "Now at {where}. {changes} /undo reverses this.",
        "{where}まで復元しました。{changes}/undo で取り消せます。",
    )
    undone: Text = Text("{changes} /redo restores it.", "{changes}/redo で復元できます。")
    undone_restored: Text = Text(
        "{changes} /redo reverses this.", "{changes}/redo でやり直せます。"
    )
    redone: Text = Text("{changes} /undo reverses this.", "{changes}/undo で取り消せます。")
    removed_turn: Text = Text(
        "Removed turn {turn}. /undo restores it.",
        "ターン{turn}を取り除きました。/undo で元に戻せます。",
    )
    compacted: Text = Text(
        "Summarized {count} messages of the context. /undo sends them in full again.",
        "コンテキストのメッセージ{count}件を要約しました。/undo で全文の送信に戻せます。",
    )
    # What undoing or redoing a step did, if it changed no message; else `counts` says it.
    step_changes: Table = Table.of(
        {
            "pinned": ("Pinned again.", "再びピン留めしました。"),
            "unpinned": ("Removed the pin.", "ピン留めを解除しました。"),
            "shown": (
                "The messages are sent to the model again.",
                "メッセージを再びモデルに送信します。",
            ),
            "hidden": (
                "The messages are no longer sent to the model.",
                "メッセージをモデルに送信しないようにしました。",
            ),
            "compact": (
                "A summary replaces the messages in the context.",
                "コンテキストのメッセージを要約に置き換えました。",
            ),
            "expanded": (
                "The topic is sent to the model in full.",
                "話題の全文をモデルに送信します。",
            ),
            "shortened": (
                "The topic is sent to the model as a summary again.",
                "話題を再び要約としてモデルに送信します。",
            ),
            "topics_joined": ("Joined the two topics.", "2つの話題を1つにまとめました。"),
            "topics_apart": (
                "The topics are separate again.",
                "話題を再び別々に扱います。",
            ),
            "checkpoint": ("Restored the checkpoint.", "チェックポイントを復元しました。"),
            "checkpoint_removed": ("Removed the checkpoint.", "チェックポイントを取り除きました。"),
            "checkpoint_changed": (
                "The checkpoint is as it was before.",
                "チェックポイントを変更前に戻しました。",
            ),
            "label": ("Changed the labels again.", "ラベルを再び変更しました。"),
            "label_back": ("Changed the labels back.", "ラベルを元に戻しました。"),
            "nothing": ("No message changed.", "メッセージの変更はありません。"),
        }
    )
    counts: Table = Table.of(
        {
            "removed": ("Removed {count} messages.", "{count}件のメッセージを取り除きました。"),
            "removed_one": ("Removed 1 message.", "1件のメッセージを取り除きました。"),
            "restored": ("Restored {count} messages.", "{count}件のメッセージを復元しました。"),
            "restored_one": ("Restored 1 message.", "1件のメッセージを復元しました。"),
            "removed_turns": ("Removed {count} turns.", "{count}ターンを取り除きました。"),
            "removed_turns_one": ("Removed 1 turn.", "1ターンを取り除きました。"),
            "restored_turns": ("Restored {count} turns.", "{count}ターンを復元しました。"),
            "restored_turns_one": ("Restored 1 turn.", "1ターンを復元しました。"),
            "turns": ("The conversation has {count} turns.", "現在は{count}ターンです。"),
            "turns_one": ("The conversation has 1 turn.", "現在は1ターンです。"),
        }
    )
    at_start: Text = Text("the start of the conversation", "会話の先頭")
    at_checkpoint: Text = Text("checkpoint {name}", "チェックポイント「{name}」")
    at_answer: Text = Text("the answer to “{words}”", "「{words}」への回答")
    at_message: Text = Text("“{words}”", "「{words}」")
    effects_undone: Text = Text("Undone: {calls}.", "取り消した処理: {calls}。")
    effects_left: Text = Text(
        "Not undone, still in effect: {calls}.", "取り消せなかった処理(有効なまま): {calls}。"
    )
    effects_unknown: Text = Text(
        "Possibly undone, please check: {calls}.",
        "取り消されたか不明な処理(ご確認ください): {calls}。",
    )
    effects_returned: Text = Text(
        "Restored in the conversation, but already undone and not run again: {calls}.",
        "会話には復元されましたが、取り消し済みで再実行されていない処理: {calls}。",
    )

    # Checkpoints and the timeline.
    checkpoint_made: Text = Text(
        "Created checkpoint {name}.", "チェックポイント「{name}」を作成しました。"
    )
    no_checkpoints: Text = Text(
        "There are no checkpoints yet.", "チェックポイントはまだありません。"
    )
    checkpoint_line: Text = Text(
        "{id}  {name}  turn {turn}  score {score}  {topic}",
        "{id}  {name}  ターン{turn}  スコア {score}  {topic}",
    )
    branch_row: Text = Text(
        "{id}  {kind}  messages: {size}  “{words}”  {reason}",
        "{id}  {kind}  メッセージ: {size}件  「{words}」  {reason}",
    )
    no_branches: Text = Text("There are no branches yet.", "ブランチはまだありません。")
    restore_hint: Text = Text(
        "/restore ID restores a branch.", "/restore ID でブランチを復元できます。"
    )
    timeline_line: Text = Text("{turn}. {score}  {question}", "{turn}. {score}  {question}")
    no_turns: Text = Text("There are no messages yet.", "メッセージはまだありません。")
    pinned_label: Text = Text("pinned", "ピン留め")
    forgotten_label: Text = Text("forgotten", "送信対象外")

    # Pins and forgotten messages.
    pinned: Text = Text(
        "Pinned: “{words}”. It is always included in the prompt; /unpin removes the pin.",
        "ピン留めしました: 「{words}」。常にモデルに送信されます。/unpin で解除できます。",
    )
    pins_over_window: Text = Text(
        "{messages} pinned messages with about {tokens} tokens do not fit into the window ({limit}). "
        "They are sent all the same; unpin some",
        "ピン留めした{messages}件のメッセージ(約{tokens}トークン)がウィンドウ({limit})に収まりません。"
        "そのまま送信されます。一部のピン留めを解除してください",
    )
    unpinned: Text = Text("Unpinned: “{words}”.", "ピン留めを解除しました: 「{words}」。")
    forgot: Text = Text(
        "Forgotten: “{words}”. It is no longer sent to the model, but stays in the conversation. /undo reverses this.",
        "送信対象から外しました: 「{words}」。会話には残ります。/undo で取り消せます。",
    )
    topics_joined: Text = Text(
        "Topic “{label}” goes on; its messages are sent to the model again. /retry answers the last question with them, /undo reverses this.",
        "話題「{label}」の続きとして扱い、そのメッセージも再びモデルに送信します。直前の質問は /retry で回答し直せます。/undo で取り消せます。",
    )
    forgotten_line: Text = Text("{id}  {kind}  “{words}”", "{id}  {kind}  「{words}」")
    forgotten_reason: Text = Text("  {reason}", "  外した理由: {reason}")
    no_forgotten: Text = Text("Nothing has been forgotten.", "送信対象外のメッセージはありません。")

    # Lessons and ratings.
    lesson_row: Text = Text(
        "{number}. {text}  (about: “{rejected}”)",
        "{number}. {text}  (対象の回答: 「{rejected}」)",
    )
    no_lessons: Text = Text("There are no lessons yet.", "注意点はまだありません。")
    lesson_changed: Text = Text(
        "Changed lesson {number}: {text}", "注意点{number}を変更しました: {text}"
    )
    lesson_removed: Text = Text("Removed lesson {number}.", "注意点{number}を取り除きました。")
    rated: Table = Table.of(
        {
            "good": ("Rated as good: “{words}”.", "良い回答として記録しました: 「{words}」。"),
            "bad": ("Rated as bad: “{words}”.", "悪い回答として記録しました: 「{words}」。"),
        }
    )

    # Matches of a recall. The reasons are named as in `recall.Why`.
    recalled_list: Text = Text(
        "Found these messages. The next prompt includes them:",
        "次のメッセージが見つかりました。次の質問と一緒にモデルに送信します:",
    )
    recalled_line: Text = Text(
        "{turn}. {speaker}: “{words}” ({why})",
        "ターン{turn} {speaker}: 「{words}」({why})",
    )
    speakers: Table = Table.of(
        {
            "user": ("user", "あなた"),
            "assistant": ("assistant", "回答"),
            "tool": ("tool", "ツール"),
            "document": ("document", "文書"),
        }
    )
    recalled_none: Text = Text(
        "No message matches “{words}”.", "「{words}」に一致するメッセージはありません。"
    )
    recall_reasons: Table = Table.of(
        {
            "words": ("contains {words}", "「{words}」を含む"),
            "meaning": ("similar meaning", "意味が近い"),
            "nearby": ("next to a match", "一致したメッセージの前後"),
            "step": ("same step as the message beside it", "前後のメッセージと同じステップ"),
            "asked": ("requested by id", "IDで指定"),
        }
    )

    # The parts of the context, and token usage.
    tokens_window: Text = Text(
        "Context: {used} of {window} tokens ({share})",
        "コンテキスト: {window}トークン中{used}({share})",
    )
    tokens_used: Text = Text(
        "Context: {used} tokens (window size unknown)",
        "コンテキスト: {used}トークン(上限は不明)",
    )
    tokens_unknown: Text = Text(
        "No model call has been measured yet.", "計測できるモデル呼び出しはまだありません。"
    )
    tokens_spent: Text = Text("Used: {total} tokens", "使用量: {total}トークン")
    tokens_least: Text = Text(
        "Used, at least: {total} tokens", "使用量(確認できる分): {total}トークン"
    )
    tokens_flow: Text = Text(
        "{input} in ({cached} cached), {output} out",
        "入力{input}(うちキャッシュ{cached})、出力{output}",
    )
    tokens_cost: Text = Text(", cost {cost}", "、費用は{cost}")
    tokens_budget: Text = Text("{used} of {limit} ({share})", "{limit}のうち{used}({share})")
    tokens_since: Text = Text(
        ", calls with a budget since {since}",
        "、{since}以降に予算付きで行った呼び出し",
    )
    tokens_not_yet: Text = Text(", counts from the next call", "、次の呼び出しから数える")
    tokens_names: Table = Table.of(
        {
            "system": ("system", "システム"),
            "tools": ("tools", "ツール"),
            "summary": ("summary", "要約"),
            "recents": ("recent messages", "最近のメッセージ"),
            "recalled": ("recalled", "関連する以前の発言"),
            "reply": ("reply (maximum)", "回答(最大)"),
            "live": ("current branch", "現在のブランチ"),
            "abandoned": ("removed", "取り除いた分"),
            "judging": ("judging", "評価"),
            "summaries": ("summaries", "要約の作成"),
            "titles": ("titles", "タイトルの作成"),
            "session": ("session budget", "セッションの予算"),
            "task": ("task budget", "タスクの予算"),
            "agent": ("agent budget", "エージェントの予算"),
        }
    )

    def refusal(self, reason: str) -> str:
        """Return the notice for a command that failed; `reason` is an error's English text.

        The reason is in the catalogue's language, or English if it has no translation.
        """
        return self.refused.format(reason=self.reason(reason).rstrip(".。"))

    def reason(self, reason: str) -> str:
        """Return the English text of an error in the catalogue's language.

        Without a translation it stays English.
        """
        # The longest text first: a short one such as "Try {}." fits many others.
        for english, own in sorted(self.refusals.items(), key=lambda each: -len(each[0])):
            pattern = re.escape(english).replace(r"\{\}", "(.*?)")
            if found := re.fullmatch(pattern, reason):
                values = [re.sub(r"^(['\"])([^'\"]*)\1$", r"「\2」", v) for v in found.groups()]
                return self.budgets(own.format(*values))
        return self.budgets(reason)

    def changes(self, *, turns: int, removed: int, restored: int = 0) -> str:
        """Return sentences with the numbers of messages removed and restored, and of turns left.

        A number of messages that is 0 gets no sentence.
        """
        counted = {"removed": removed, "restored": restored, "turns": turns}
        names = {name: name if count != 1 else f"{name}_one" for name, count in counted.items()}
        parts = [
            self.counts[names[name]].format(count=count)
            for name, count in counted.items()
            if count or name == "turns"
        ]
        return self.sentences(parts)

    def step_text(self, change: StepChange) -> str:
        """Return sentences about what undoing or redoing a step did; also if it changed nothing."""
        if change.what:
            return self.step_changes[change.what]
        counted = {
            "removed_turns": change.removed_turns,
            "removed": 0 if change.removed_turns else change.removed,
            "restored_turns": change.restored_turns,
            "restored": 0 if change.restored_turns else change.restored,
        }
        parts = [
            self.counts[name if count != 1 else f"{name}_one"].format(count=count)
            for name, count in counted.items()
            if count
        ]
        return self.sentences(parts) or self.step_changes["nothing"]

    def with_read_tool(self) -> Self:
        """Return a copy whose shortened tool results name the tool that reads them in full."""
        made = copy(self)
        # `dataclasses.replace` would check these texts, which have more placeholders than the defaults.
        vars(made)["result_truncated"] = self.readable_truncated
        vars(made)["result_cleared"] = self.readable_cleared
        return made


ENGLISH = Texts("en")
JAPANESE = Texts("ja")


def by_language(prompts: Texts | Iterable[Texts] | None = None) -> Mapping[Language, Texts]:
    """Return the catalogue of each language: the one in `prompts`, or unsay's own.

    Raises `ConfigurationError` if an object is not a catalogue (`Texts`), or if two of them have
    the same language.
    """
    given = () if prompts is None else prompts
    chosen: dict[Language, Texts] = {}
    for each in given if isinstance(given, Iterable) else [given]:
        if not isinstance(each, Texts):
            raise ConfigurationError(
                f"prompts={each!r}: give a catalogue, such as dataclasses.replace(ENGLISH, ...) "
                "with ENGLISH from unsay.prompts"
            )
        if each.language in chosen:
            raise ConfigurationError(f"prompts: two catalogues have language={each.language!r}")
        chosen[each.language] = each
    return {"en": ENGLISH, "ja": JAPANESE, **chosen}
