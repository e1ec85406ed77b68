"""The Japanese of reasons that the code gives in English: refusals of commands and verdicts."""

import re
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
    inconsistent: Text = Text(
        "consistency {consistency} failed. ", "一貫性 {consistency} で不合格。"
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


@dataclass(frozen=True, kw_only=True, repr=False)
class PictureTexts(RollbackTexts):
    """Adds the words of trees and pictures of a thread; `Texts` has them all."""

    tree_words: Table = Table.of(
        {
            "thread": ("Thread {thread}: {counts}", "スレッド {thread}: {counts}"),
            "start": ("start", "先頭"),
            "waits": ("waits for an answer", "回答待ち"),
            "decides": ("waits for a decision", "決定待ち"),
            "low_quality": ("low quality", "低品質"),
            "by_person": ("by a person", "人による回答"),
            "rejected_once": ("rejected once", "不合格が1回"),
            "rejected": ("rejected {count} times", "不合格が{count}回"),
            "no_question": ("(no question)", "(質問なし)"),
            "elsewhere": ("other branches", "その他のブランチ"),
            "earlier": ("{turns} not shown", "以前の{turns}は非表示"),
            "at_them": (", {branches} at them", "({branches}を含む)"),
            "older": ("{branches} not shown", "以前の{branches}は非表示"),
        }
    )
    picture_words: Table = Table.of(
        {
            "title": ("Score of each turn", "各ターンのスコア"),
            "hint": (
                "The first answer and its score will appear here.",
                "最初の回答とそのスコアがここに表示されます。",
            ),
            # The rows below the scores, and the lines of the two thresholds.
            "turn": ("turn", "ターン"),
            "no_score": ("no score", "採点なし"),
            "rejections": ("rejected", "下書き"),
            "saved_from": ("checkpoint", "保存"),
            "fails_under": ("fails", "不合格"),
            "passed": ("passed", "合格"),
            "failed": ("failed", "不合格"),
            "unscored": ("unscored", "採点なし"),
            "not_judged": ("not judged", "未評価"),
            "checkpoint": ("checkpoint", "チェックポイント"),
            "rejected": (
                "rejected before this answer, how often",
                "この回答の前に不合格になった下書き(回数)",
            ),
            # Read aloud in place of the picture.
            "point": ("Turn {number}: {score} {result}", "ターン{number}: {score} {result}"),
            "span": ("Scores from {least} to {most}", "スコアは{least}から{most}"),
            "no_scores": ("No scores", "スコアなし"),
            "description": (
                "{span}; {failed}. Answers fail under {low} and become checkpoints from {high} on.",
                "{span}、{failed}。{low}未満は不合格、{high}以上はチェックポイントになります。",
            ),
            "table": ("The turns as a table", "ターンの表"),
            "columns": (
                "Turn|Score|Result|Topic|Question|Checkpoint",
                "ターン|スコア|結果|話題|質問|チェックポイント",
            ),
        }
    )


# A budget and a call, as `Gauge` prints them.
_GAUGE = re.compile(
    r"(session|task|agent) budget: ([\d,.e-]+) used, ([\d,.e-]+) for this call, "
    r"limit (\d+(?:,\d{3})*(?:\.\d+)?(?:e-\d+)?)( tokens)?"
)
_JAPANESE = {
    "session": "セッション",
    "task": "タスク",
    "agent": "エージェント",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class ReasonTexts(PictureTexts):
    """Adds the translations of reasons; `Texts` has them all."""

    # Refusals of commands by their English sentence, whose values stand for `{}` in both.
    refusals: Table = Table(
        {},
        {
            "There is no turn {}: the conversation has turns 1 to {}; {} lists them": (
                "ターン{}はありません(全{}ターン)。{} で一覧を表示できます"
            ),
            "{} is not a turn: write a turn number N": "{}はターンではありません。ターン番号を入力してください",
            "{} is not a turn: write a turn number N or a range N-M": (
                "{}はターンではありません。ターン番号 N または範囲 N-M を入力してください"
            ),
            "The conversation has no turns yet: ask a question first": "まだターンがありません。先に質問してください",
            "This conversation has no turns to roll back yet": "ロールバックできるターンがまだありません",
            "{} is neither yes nor no: answer 'approve' or 'reject'": (
                "{}は承認でも却下でもありません。approve(承認)か reject(却下)で答えてください"
            ),
            "{} is no decision: resume with {}": (
                "{}は判断として読み取れません。{} の形で再開してください"
            ),
            "A decision to {} needs the text, as in {}: {} has none": (
                "{}には、{} のように文が必要です。{}には文がありません"
            ),
            "{} has {} decisions; give {}, one an action": (
                "{}には判断が{}件あります。操作ごとに1件ずつ、合わせて{}件にしてください"
            ),
            "A person must confirm that these calls are undone: {}. Nothing was changed: {}": (
                "次の呼び出しの取り消しには確認が必要です: {}。何も変更していません"
            ),
            "The command has no argument: write {}": "次の形で入力してください: {}",
            "There is no removed branch to restore in this conversation": (
                "復元できるブランチはありません"
            ),
            "This thread has no branch {}; {} lists its {} branches": (
                "ブランチ{}はありません。{} で一覧を表示できます"
            ),
            "No branch, compacted topic or removed message has the id {}, and nothing that is forgotten; {}, {} and {} list the branches, the topics and what is forgotten": (
                "{}というIDのブランチ、話題、取り除いたメッセージ、送信対象外のメッセージはありません。{} でブランチ、{} で話題、{} で送信対象外の一覧を表示できます"
            ),
            "{} is the beginning of {} branch ids; give more of the id": (
                "{}で始まるブランチのIDが{}件あります。IDをもう少し長く入力してください"
            ),
            "Message {} is in the transcript already": "メッセージ{}はすでに会話にあります",
            "Message {} is a rejected draft, which was never in the transcript: pick it from its branch to add a copy at the end": (
                "メッセージ{}は不合格の下書きで、会話に入ったことがありません。unsay pick で末尾にコピーを追加できます"
            ),
            "The messages of branch {} are in the transcript already; pick them to add copies at the end": (
                "ブランチ{}のメッセージはすでに会話にあります。unsay pick で末尾にコピーを追加できます"
            ),
            "The messages of branch {} are only a rejected draft; pick them to add copies at the end": (
                "ブランチ{}は不合格の下書きだけです。unsay pick で末尾にコピーを追加できます"
            ),
            "These messages followed message {}, which is no longer there: restore branch {} first": (
                "これらのメッセージの直前にあったメッセージ{}がありません。先にブランチ{}を復元してください"
            ),
            "These messages followed message {}, which is no longer there: pick them to add copies at the end": (
                "これらのメッセージの直前にあったメッセージ{}がありません。unsay pick で末尾にコピーを追加できます"
            ),
            "Topic {} is not compacted: contexts include its messages already": (
                "話題{}は要約されていません。そのメッセージはすでにモデルに送信されています"
            ),
            "There is no step left to undo in this conversation": "元に戻せる操作はもうありません",
            "There is nothing to redo: nothing was undone, a later message or step replaced it, or "
            "it was a question without an answer, which a restore brings back": (
                "やり直せる操作はありません。取り消した質問に回答がまだなければ、復元で戻せます"
            ),
            "There is no lesson {}; {} lists all lessons": (
                "注意点{}はありません。{} で一覧を表示できます"
            ),
            "No turn of this thread was stopped; send a new message": (
                "停止中のターンはありません。新しいメッセージを送ってください"
            ),
            "This thread waits for no decision; send a new message": (
                "判断待ちのターンはありません。新しいメッセージを送ってください"
            ),
            "A question waits for its answer: send another message first": (
                "回答待ちの質問があります。先に別のメッセージを送ってください"
            ),
            "There is no question to ask again": "もう一度回答できる質問がありません",
            "{} is not a number of turns: give a whole number of 1 or more": (
                "{}はターン数ではありません。1以上の整数を入力してください"
            ),
            "{} turn{} cannot be rolled back: the conversation has {} answered turn{}": (
                "{0}ターン分は戻れません。回答済みのターンは{2}件です"
            ),
            "This thread has no checkpoint {}; the newest: {}": (
                "チェックポイント{}はありません。最新のものは {} です"
            ),
            "This thread has no checkpoint {}; it has none yet": (
                "チェックポイント{}はありません。まだ1件も作成されていません"
            ),
            "A checkpoint named {} exists already: choose another name": (
                "チェックポイント{}はすでにあります。別の名前を指定してください"
            ),
            "{} is reserved for branches and ids: choose another name, such as {}": (
                "{}は予約されています。{}のような別の名前を指定してください"
            ),
            "The context has no message up to there that a summary could replace": (
                "その地点までに、要約で置き換えられるメッセージはありません"
            ),
            "{} is a range: write only its last turn": "{}は範囲です。最後のターンだけを指定してください",
            "No message in the context precedes the checkpoint {}": (
                "チェックポイント{}より前に、コンテキストのメッセージはありません"
            ),
            "Message {} is pinned already; {} it to remove the pin": "すでにピン留めされています",
            "Message {} is forgotten already; {} it to show it again": "すでに送信対象から外れています",
            "Not pinned: {}; {}": "ピン留めされていません",
            "The new text of turn {} is empty: write the text after the number": "ターン{}の新しい質問を、番号のあとに入力してください",
            "{} is not a turn and a text: write a turn number N and the text": "{}には、ターン番号と新しい質問を入力してください",
            "Turn {} cannot be removed alone: {}": "ターン{}だけを取り除くことはできません。/rollback で前に戻ってください",
            "{} is not a name for a checkpoint: use 1 to 64 printable characters, and do not begin with a slash": (
                "{}はチェックポイントの名前に使えません。1文字以上64文字以内で、先頭に / のない名前を指定してください"
            ),
            "The thread has {} named checkpoints, which is the limit: save this one unnamed": (
                "名前付きのチェックポイントが上限の{}件に達しています。名前なしで保存してください"
            ),
            "{} checkpoint ids begin with {}: {}; give more of the id": (
                "{1}で始まるチェックポイントのIDが{0}件あります。IDをもう少し長く入力してください"
            ),
            "Message {} is forgotten: restore it first, then pin it": (
                "送信対象から外れているメッセージです。先に /undo などで元に戻してください"
            ),
            "Message {} is a command or a notice, which no model is sent: pin a question or an answer": (
                "コマンドと通知はモデルに送られないため、ピン留めできません。質問か回答を指定してください"
            ),
            "A thread may have {} pins, and this would make {}: unpin some first": (
                "ピン留めは{}件までです。先にいくつか外してください"
            ),
            "Topic {} is forgotten already; restore it to show it again": "この話題はすでに送信対象から外れています",
            "The conversation has only one topic, so there is no change to take back": (
                "話題はまだ1つしかないため、取り消す話題の変更はありません"
            ),
            "Topic {} is forgotten: restore it first, then join the topics": (
                "直前の話題は送信対象から外れています。先に /undo などで元に戻してください"
            ),
            "Topic {} has only the question that waits for its answer: undo it instead": (
                "この話題には回答待ちの質問しかありません。/undo で取り消してください"
            ),
            "Message {} waits for its answer and cannot be forgotten: undo it instead": (
                "回答待ちの質問は送信対象から外せません。/undo で取り消してください"
            ),
            "{} are system messages, which every context includes: forget questions, answers or tool results": (
                "システムメッセージは常に送信されるため、外せません。質問、回答またはツールの結果を指定してください"
            ),
            "{} is the label of {} topics: give the id of one: {}": (
                "{}という話題は{}件あります。次のIDのいずれかを指定してください: {}"
            ),
            "A turn of this thread was stopped: resume it, say something else, or undo it first": (
                "停止中のターンがあります。先に再開するか、別のメッセージを送るか、/undo で取り消してください"
            ),
            "Branch {} is no longer kept: {}": "ブランチ{}はもう保存されていません",
            "The query is empty: give words to search for": "検索語を入力してください",
            "The message is empty: write a text": "メッセージが空です。文を入力してください",
            "The message has {} characters, the limit is {}: shorten it": (
                "メッセージが{}文字で、上限の{}文字を超えています。短くしてください"
            ),
            "A lesson has 1 to {} characters, got {}": (
                "注意点は1文字以上{}文字以内で入力してください(入力: {}文字)"
            ),
            "A checkpoint needs an answer, and there is none yet": (
                "チェックポイントは回答のあとに作成できます。まだ回答がありません"
            ),
            "Turn {} has no question that could be edited": (
                "ターン{}には、書き換えられる質問がありません"
            ),
            "Message {} is no longer in the transcript of this thread: list its checkpoints to see where a rollback can go": (
                "メッセージ{}は会話に残っていません。/checkpoints で戻れる地点を確認してください"
            ),
            "Message {} was judged irrelevant, and contexts leave it out also with a pin: send its text in a question instead": (
                "質問と無関係と評価されたため、ピン留めしてもモデルには送信されません。必要な文は質問に書いて送ってください"
            ),
            "{} matches {} topics: give the id of one: {}": (
                "{}に一致する話題は{}件あります。次のIDのいずれかを指定してください: {}"
            ),
            "This would make {} forgotten entries with {} messages; the limits are {} and {}: forget a whole topic, roll back, or restore some": (
                "送信対象から外せるのは{2}回、{3}件までです。話題をまとめて指定するか、いくつか元に戻してください"
            ),
            "No message or topic of this thread matches {}; {} lists them": (
                "{}に一致するメッセージや話題はありません。{} で一覧を表示できます"
            ),
        },
    )

    undecided: Text = Text(
        "the local checks cannot decide it without a judge: {reason}",
        "モデルによる評価がないため、簡易チェックだけでは判断できません: {reason}",
    )

    # Reasons by their English sentence; one that is not listed stays English.
    rules: Table = Table(
        {},
        {
            "no compensation is registered": "取り消し方法が登録されていません",
            "this thread did not make the call": "このスレッドが行った呼び出しではありません",
            "no result of the call is known": "呼び出しの結果が分かりません",
            "the call itself failed": "呼び出し自体が失敗しました",
            "the message was copied here from elsewhere": "別のスレッドからコピーされたメッセージです",
            "a person declined it": "承認されませんでした",
            "the call returned to the transcript first": "先に会話へ復元されました",
            "the stored entry of the call is damaged": "この呼び出しの保存データが壊れています",
            "The answer is empty.": "回答が空です。",
            "The answer refuses the request.": "回答が依頼を断っています。",
            "The answer declines in part.": "回答が依頼の一部を断っています。",
            "The answer only says that it does not know.": "回答が「分からない」としか述べていません。",
            "The answer repeats itself.": "回答が同じことを繰り返しています。",
            "The answer repeats the question.": "回答が質問を繰り返しているだけです。",
            "The answer repeats an earlier answer to another question.": "別の質問への以前の回答を繰り返しています。",
            "The answer was cut off, by a length limit or a lost connection.": "回答が途中で切れています(長さの上限か、接続の切断)。",
            "The answer's last code block is never closed.": "最後のコードブロックが閉じられていません。",
            "The answer stops in the middle of a sentence.": "回答が文の途中で終わっています。",
            "The answer shares no word with the question or the conversation before it.": "回答に質問や直前の会話と共通する語がありません。",
            "The answer seems to be about something other than the question.": "回答が質問とは別のことについて述べているようです。",
            "The answer may stop in the middle of a sentence.": "回答が文の途中で終わっている可能性があります。",
            "The answer resembles an earlier answer.": "回答が以前の回答に似ています。",
            "The answer tells the judge what to say.": "回答が評価者に指示を出しています。",
            "The answer takes up the question at a fitting length.": "回答が適切な長さで質問に応えています。",
            "The answer takes up the question in part, or briefly.": "回答が質問に一部だけ、または短く応えています。",
            "The answer hardly takes up the question.": "回答が質問にほとんど応えていません。",
            "The answer gives another number, name or date than an earlier answer.": "以前の回答と異なる数値、名前、日付を述べています。",
            "A later verdict names this answer as the cause of a mistake.": "後の評価が、誤りの原因としてこの回答を挙げています。",
            "The question has no telling words.": "質問に手がかりとなる語がありません。",
            "The document shares words with the question.": "文書に質問と共通する語があります。",
            "The document shares no word with the question.": "文書に質問と共通する語がありません。",
            "the model stopped in mid-reply, and the fallback model answers": "モデルの応答が途切れたため、別のモデルが回答します",
            "the context was too long for the model, and a shorter one is sent": (
                "モデルにとって長すぎたため、短くして送り直します"
            ),
            "the model returned nothing": "モデルが何も返しませんでした。",
        },
    )

    def budgets(self, text: str) -> str:
        """Return a text in which budgets, as `Gauge` prints them, are in the catalogue's language."""

        def in_japanese(found: re.Match[str]) -> str:
            layer, used, asked, limit, tokens = found.groups()
            head = f"{_JAPANESE[layer]}の予算: 使用済み{used}、今回{asked}"
            return f"{head}、上限{limit}{'トークン' if tokens else ''}"

        return _GAUGE.sub(in_japanese, text) if self.language == "ja" else text
