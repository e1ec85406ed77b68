"""The texts about automatic rollbacks, and the descriptions of `state_history`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from unsay.prompts.base import Table, Text
from unsay.prompts.model_texts import ModelTexts


@dataclass(frozen=True, kw_only=True, repr=False)
class RollbackTexts(ModelTexts):
    """Adds the texts for a person about automatic rollbacks; `Texts` has them all."""

    ask_rollback: Text = Text(
        "Messages that were added did not pass. Remove them from the conversation ({turns} turns, {messages} messages)? Reason: {reason}",
        "追加されたメッセージが不合格でした。会話から取り除きますか({turns}ターン、メッセージ{messages}件)? 理由: {reason}",
    )
    ask_rollback_draft: Text = Text(
        "The draft did not pass. Roll back ({turns} turns, {messages} messages are removed) and try again? If not, the draft is delivered. Reason: {reason}",
        "下書きが不合格でした。ロールバックで{turns}ターン(メッセージ{messages}件)を取り除き、再試行しますか? 再試行しない場合は、この下書きを採用します。不合格の理由: {reason}",
    )
    ask_another_draft: Text = Text(
        "The draft did not pass. Try again? If not, the draft is delivered. Reason: {reason}",
        "下書きが不合格でした。再試行しますか? 再試行しない場合は、この下書きを採用します。不合格の理由: {reason}",
    )
    removed_by_judge: Text = Text(
        "Automatic rollback: turns removed: {turns}, messages removed: {messages}. /restore {branch} brings them back and keeps what follows.",
        "自動ロールバックで{turns}ターン({messages}件のメッセージ)を取り除きました。/restore {branch} で、以降の会話を残したまま復元できます。",
    )
    judge_skipped: Text = Text(
        "the local checks found nothing to doubt, so the judge was not asked (the setting judge_share = 1 always asks)",
        "簡易チェックで疑わしい点がなかったため、モデルによる評価を省きました(設定 judge_share = 1 で毎回評価します)",
    )
    removal_reason: Text = Text("Reason: {reason}", "その理由: {reason}")
    undo_hint: Text = Text("/undo reverses this.", "/undo で取り消せます。")
    branch_kinds: Table = Table.of(
        {
            "draft": ("draft rejected", "不合格の下書き"),
            "context": ("context rejected", "不合格のやり取り"),
            # Older versions removed documents from the transcript.
            "document": ("document excluded", "文書の除外"),
            "person": ("rolled back", "ロールバック"),
            "undo": ("undone", "取り消し"),
            "redo": ("removed by redo", "やり直しによる削除"),
            "restore": ("replaced by restore", "復元による置き換え"),
            "retry": ("earlier answer", "前の回答"),
            "edit": ("before an edit", "編集前"),
            "remove": ("removed", "削除"),
            "order": ("command", "コマンド"),
            "interrupted": ("not finished", "未完了"),
            "rejected": ("draft not delivered", "未採用の下書き"),
            "host": ("left by the app", "アプリによる変更"),
            "live": ("live", "現在"),
            "thread": ("fork", "分岐"),
        }
    )
    forgotten_kinds: Table = Table.of(
        {
            "message": ("message", "メッセージ"),
            "span": ("messages", "複数のメッセージ"),
            "topic": ("topic", "話題"),
            "tool_results": ("tool results", "ツールの結果"),
        }
    )
    forgotten_hint: Text = Text(
        "/restore ID lets the model see it again.", "/restore ID で再びモデルに送信します。"
    )
    history: Table = Table.of(
        {
            "judged": ("Judged the added answers.", "追加された回答を評価"),
            "documents_judged": ("Judged the documents.", "文書を評価"),
            "new": (
                "New topic: older messages are summarized.",
                "話題変更検出 - コンテキスト圧縮開始",
            ),
            "first": ("The first topic begins.", "最初の話題を開始"),
            "same": ("The topic did not change.", "話題は変わっていないと判定"),
            "back": ("Back to an earlier topic.", "以前の話題に戻ったことを検出"),
            "draft_rejected": (
                "The quality is too low: a rollback is requested.",
                "品質低下によりロールバックフラグ設定",
            ),
            "passed": ("The answer passed.", "回答が合格"),
            "failed": (
                "No draft passed: the best one is delivered.",
                "合格した下書きがなく、最良のものを採用",
            ),
            "unscored": ("The answer was delivered unscored.", "採点なしで回答を採用"),
            "created": ("Saved a checkpoint.", "チェックポイントを作成"),
            "draft": (
                "Low quality: the draft was removed.",
                "会話品質の低下を検出したため、前の状態に戻しました",
            ),
            "context": (
                "Low quality: added messages were removed.",
                "追加されたメッセージの品質低下を検出したため、取り除きました",
            ),
            "person": ("Rolled back by a person.", "利用者の指示でロールバック"),
            "retry": ("The last question is asked again.", "最後の質問に再回答"),
            "edit": ("A question was edited and asked again.", "質問を編集して再回答"),
            "remove": ("A turn was removed by a person.", "利用者の指示でターンを削除"),
            "restore": ("Restored removed messages.", "取り除いたメッセージを復元"),
            "pick": ("Copied messages of a branch.", "ブランチのメッセージをコピー"),
            "undo": ("Undid the last step.", "直前の操作を取り消し"),
            "redo": ("Redid the last undone step.", "取り消した操作をやり直し"),
        }
    )

    def removal_text(self, removed: Iterable[Mapping[str, Any]]) -> str:
        """Return the text of a notice about what automatic rollbacks removed, and why.

        Each mapping has the numbers of `turns` and `messages`, the id of the `branch`, and the
        `reason`; equal reasons come once. Without mappings, the text is empty.
        """
        listed = list(removed)
        parts = [
            self.removed_by_judge.format(
                turns=each["turns"], messages=each["messages"], branch=each["branch"]
            )
            for each in listed
        ]
        reasons = dict.fromkeys(each["reason"] for each in listed if each["reason"])
        parts += [self.removal_reason.format(reason=reason) for reason in reasons]
        return self.sentences(parts)
