"""The texts of the command line."""

import re
from copy import copy
from dataclasses import dataclass
from typing import Self

from unsay.cli.shell_texts import SHELL_TEXTS
from unsay.operations.command_table import SLASH_COMMANDS
from unsay.prompts.base import Table, Text
from unsay.prompts.fields import Texts

_COMMAND = re.compile(
    rf"/((?:{'|'.join(each.name for each in SLASH_COMMANDS)})\b(?: (?:\{{branch\}}|ID\b))?)"
)


@dataclass(frozen=True, kw_only=True, repr=False)
class Labels(Texts):
    """The texts of the command line, and all others for a person, in one language."""

    refusals: Table = Table(
        {},
        {**Texts.refusals.ja, **SHELL_TEXTS, Texts.judge_skipped.en: Texts.judge_skipped.ja},  # type: ignore[attr-defined]
    )

    # A turn in the terminal.
    score: Text = Text("score {score}", "スコア {score}")
    unscored: Text = Text("unscored: {reason}", "採点なし: {reason}")
    topic: Text = Text("topic “{label}”", "話題「{label}」")
    new_topic: Text = Text(
        "new topic “{label}” (similarity {similarity}); /same if it is not",
        "新しい話題「{label}」(類似度 {similarity})。話題が同じなら /same",
    )
    back_to_topic: Text = Text(
        "back to topic “{label}” (similarity {similarity}); /same if the topic did not change",
        "話題「{label}」に戻りました(類似度 {similarity})。話題が変わっていなければ /same",
    )
    same_topic: Text = Text("still topic “{label}”", "話題「{label}」の続きです")
    summarized: Text = Text(
        "summarized topic “{label}” ({messages} messages): {summary}",
        "話題「{label}」を要約しました(メッセージ{messages}件): {summary}",
    )
    # Judging after the fact, and calibration.
    outcomes: Table = Table.of(
        {
            "passed": ("passed", "合格"),
            "failed": ("failed", "不合格"),
            "unscored": ("unscored", "採点なし"),
        }
    )
    judged_turn: Text = Text(
        "{turn}. {score}  {outcome}  {question}\n   {reason}",
        "ターン{turn}  {score}  {outcome}  {question}\n   {reason}",
    )
    imported: Text = Text("Imported {count} ratings.", "{count}件の評価を取り込みました。")
    bisected: Text = Text(
        "It went wrong in turn {turn} (judgements: {judgements}, turns: {turns}): {reason}",
        "ターン{turn}で品質が落ちました(全{turns}ターン、判定{judgements}回): {reason}",
    )
    bisected_nothing: Text = Text(
        "No turn fails (judgements: {judgements}, turns: {turns})",
        "不合格になるターンはありません(全{turns}ターン、判定{judgements}回)",
    )
    bisected_unjudged: Text = Text(
        "The last answer could not be judged, so no turn was looked for: {reason}",
        "最後の回答を判定できなかったため、原因のターンを探せませんでした: {reason}",
    )
    bisected_unsure: Text = Text(
        "This is not certain: up to the next turn the conversation passes again.",
        "ただし、次のターンまで含めると合格するため、確実ではありません。",
    )
    bisected_offer: Text = Text(
        "`unsay rollback --turns {count}` goes back to before it, and so does --yes.",
        "`unsay rollback --turns {count}` でその前に戻れます。--yes を付けて実行しても戻ります。",
    )
    bisected_back: Text = Text(
        "Rolled back {count} turns; `unsay undo` restores them.",
        "{count}ターン戻りました。`unsay undo` で復元できます。",
    )
    calibrated: Text = Text(
        "{language}: quality threshold {threshold}, from {labels} labels",
        "{language}: 品質のしきい値 {threshold}(ラベル{labels}件から)",
    )
    calibrated_held_out: Text = Text(
        "Each label decided by a threshold that was fitted without it:",
        "各ラベルを、それを除いて決めたしきい値で判定した結果:",
    )
    calibrated_heads: Text = Text("|passes|fails", "|合格|不合格")
    calibrated_rows: Text = Text("rated good|rated bad", "良いと評価|悪いと評価")
    calibrated_alarms: Text = Text("good that fail: {share}", "良いのに不合格: {share}")
    calibrated_caught: Text = Text("bad that fail: {share}", "悪くて不合格: {share}")
    calibrated_share: Text = Text(
        "{value} (95 %: {low} to {high}; labels: {items})",
        "{value}(95%信頼区間: {low}〜{high}、ラベル{items}件)",
    )
    calibrated_curve: Text = Text(
        "All labels at each threshold; > is the chosen one:",
        "各しきい値での全ラベルの結果(> が選ばれたしきい値):",
    )
    calibrated_columns: Text = Text(
        "threshold|good that fail|bad that pass|cost",
        "しきい値|良いのに不合格|悪いのに合格|コスト",
    )
    calibrated_claim: Text = Text(
        "At most {share} of good answers fail (95 % sure, {labels} good labels).",
        "良い回答が不合格になる割合は{share}以下です(信頼度95%、良い評価{labels}件)。",
    )
    calibrated_no_claim: Text = Text(
        "No claim: to say that at most {share} of good answers fail, {needed} good labels of which "
        "none fails are needed. There are {labels}, of which {alarms} fail.",
        "「良い回答が不合格になる割合は{share}以下」とは言えません。不合格が1件もない良い評価が{needed}件必要です。"
        "現在は{labels}件で、そのうち{alarms}件が不合格です。",
    )
    calibrated_written: Text = Text(
        "Wrote quality_thresholds to {file}.", "quality_thresholds を {file} に書き込みました。"
    )
    calibrated_few: Text = Text(
        "Not written: too few good labels ({labels}).",
        "書き込んでいません: 良い評価が足りません({labels})。",
    )
    judged: Text = Text(
        "judged the added messages: score {score}. {reason}",
        "追加されたメッセージの評価: スコア {score}。{reason}",
    )
    draft_rejected: Text = Text(
        "rejected, score {score}: {reason}", "不合格、スコア {score}: {reason}"
    )
    rolled_back_to: Text = Text(
        "rolled back to {to}; messages removed: {removed}",
        "{to}に戻りました。{removed}件のメッセージを取り除きました",
    )
    checkpoint: Text = Text("checkpoint {id}", "チェックポイント {id}")
    checkpoints_removed: Text = Text(
        "checkpoints removed: {names}", "取り除いたチェックポイント: {names}"
    )
    low_quality: Text = Text(
        "no draft passed, so the best one is delivered; its fault: {reason}",
        "合格した下書きがないため、最良のものを採用しました。不合格の理由: {reason}",
    )
    question_removed: Text = Text(
        "the previous question had no answer and was removed; /branches lists it",
        "回答のなかった前の質問を取り除きました。/branches で確認できます",
    )
    restored_nothing: Text = Text(
        "no draft passed; the conversation before this question is unchanged",
        "合格した下書きはありませんでした。この質問より前の会話は変わっていません",
    )
    restored_messages: Text = Text(
        "no draft passed; restored all messages that the rollbacks had removed: {messages}",
        "合格した下書きがなかったため、取り除いたメッセージ{messages}件をすべて元に戻しました",
    )
    starting: Text = Text("starting the turn", "回答の準備をしています")
    asking: Text = Text("waiting for the model", "モデルの応答を待っています")
    judging: Text = Text("judging the answer", "回答を評価しています")
    running_tool: Text = Text("running {name}", "{name} を実行しています")
    called: Text = Text("called {call}", "ツールを呼び出しました: {call}")
    call_failed: Text = Text(
        "{name} failed: {reason}", "ツール {name} でエラーが発生しました: {reason}"
    )
    earlier_turns: Text = Text("earlier turns: {count}", "これより前: {count}ターン")
    summary_failed: Text = Text(
        "the summarizer failed ({error}); using a local summary, also in the next turns",
        "要約モデルでエラーが発生したため({error})、しばらくは簡易な要約を使用します",
    )
    context_warning: Text = Text("warning: {text}", "警告: {text}")
    budget_warning: Text = Text(
        "the budget is nearly used up: {text}", "予算が残りわずかです: {text}"
    )
    budget_exceeded: Text = Text("the budget is exceeded: {text}", "予算を超えています: {text}")

    # The chat.
    decide: Text = Text(
        "Enter approve (or yes), reject (or no), edit:YOUR TEXT, or instructions for the next attempt.",
        "approve または「はい」(採用)、reject または「いいえ」(却下)、edit:修正した回答、または次の試行への指示を入力してください。",
    )
    choice_text: Text = Text("YOUR TEXT", "修正した回答")
    choice_instructions: Text = Text("instructions", "指示")
    decide_yes_no: Text = Text(
        "Enter yes or no.",
        "「はい」または「いいえ」を入力してください。",
    )
    choice_yes: Text = Text("yes", "はい")
    choice_no: Text = Text("no", "いいえ")
    asked: Text = Text("removed question: “{question}”", "取り除いた質問: 「{question}」")
    stopped: Text = Text("Stopped.", "停止しました。")
    stopped_note: Text = Text(
        "Stopped answer to “{question}”: {draft}", "「{question}」への途中までの回答: {draft}"
    )
    complete: Text = Text(
        "The answer was complete already; /undo removes it.",
        "回答はすでに完了していました。/undo で取り除けます。",
    )
    stop_title: Text = Text("“{question}” has no answer yet", "「{question}」は未回答です")
    stop_resume: Text = Text("resume the answer", "回答を再開する")
    stop_edit: Text = Text("edit the question", "質問を書き直す")
    stop_drop: Text = Text("drop the question", "質問を取り除く")
    stop_later: Text = Text("decide later", "あとで決める")
    turns_replaced: Text = Text(
        "later turns that were removed: {turns}; /undo restores them",
        "以降の{turns}ターンを取り除きました。/undo で元に戻せます",
    )
    dropped: Text = Text(
        "Removed the question; earlier turns are unchanged. /branches lists it.",
        "質問を取り除きました。以前のターンは変わっていません。/branches で確認できます。",
    )
    dropped_new: Text = Text(
        "Removed the new question; the messages that it replaced are back.",
        "新しい質問を取り除き、元のメッセージに戻しました。",
    )
    waiting: Text = Text(
        "“{question}” has no answer yet; /resume continues.",
        "「{question}」にはまだ回答がありません。/resume で再開します。",
    )
    later: Text = Text(
        "“{question}” has no answer yet. /resume continues; another message is answered together with it.",
        "「{question}」にはまだ回答がありません。/resume で再開します。次のメッセージを送ると、一緒に回答します。",
    )
    leave: Text = Text(
        "/help lists the commands; /exit or Ctrl-D quits.",
        "/help でコマンドの一覧を表示、/exit または Ctrl-D で終了します。",
    )
    keys: Text = Text(
        "Alt-Enter adds a line; Esc Esc goes back to an earlier turn.",
        "Alt-Enter で改行、Esc Esc で以前のターンに戻れます。",
    )
    list_keys: Text = Text(
        "↑ ↓ choose · Enter selects · Esc cancels", "↑ ↓ で選択 · Enter で決定 · Esc で取り消し"
    )
    list_numbers: Text = Text(
        "Type a number and Enter; Enter alone cancels.",
        "番号を入力して Enter を押してください。Enter だけで取り消します。",
    )
    back_title: Text = Text("Roll back to", "どこに戻りますか?")
    back_turn: Text = Text(
        "before turn {turn}  {score}  “{question}”", "ターン{turn}の前  {score}  「{question}」"
    )
    back_checkpoint: Text = Text(
        "checkpoint {name}, after turn {turn}", "チェックポイント {name}(ターン{turn}の後)"
    )
    back_nothing: Text = Text("There is no turn to go back to.", "戻れるターンはまだありません。")
    back_hint: Text = Text(
        "Words alone take nothing back: /undo removes the last turn, /rollback N the last N turns.",
        "言葉だけでは元に戻りません。/undo は直前のターン、/rollback N は最後のNターンを取り除きます。",
    )
    thread_title: Text = Text("Which conversation?", "どの会話を開きますか?")
    thread_new: Text = Text("a new conversation", "新しい会話")
    thread_row: Text = Text(
        "{moment} · turns: {turns} · {title}", "{moment} · {turns}ターン · {title}"
    )
    thread_keys: Text = Text(
        "Type a question, or ↑ ↓ and Enter · Esc quits",
        "質問を入力するか ↑ ↓ Enter で選択 · Esc で終了",
    )
    thread_heads: Text = Text("id|last message|turns|title", "ID|最後のメッセージ|ターン|タイトル")
    attached: Text = Text(
        "attached to the next message: {names}", "次のメッセージに添付します: {names}"
    )
    budget: Text = Text("{layer} {share}", "{layer} {share}")

    # The event log, and ending or deleting a thread.
    verified: Text = Text(
        "The event log is complete and unchanged, and replaying it gives exactly the stored messages. Events: {events}. Messages: {messages}.",
        "イベントログに欠落や改変はなく、再生結果は保存されたメッセージと完全に一致します。イベント{events}件、メッセージ{messages}件。",
    )
    stored_answer: Text = Text(
        "This turn was removed from the conversation: this is the answer that it had.",
        "このターンは会話から取り除かれています。表示しているのは、そのときの回答です。",
    )
    no_labels: Text = Text(
        "No labels. NAME=VALUE sets one.", "ラベルはありません。NAME=VALUE で設定できます。"
    )
    ended: Text = Text(
        "Thread {thread} is ended: it takes no new messages. It can still be read, rolled back and labelled.",
        "スレッド {thread} を終了しました。新しいメッセージは送信できませんが、閲覧、ロールバック、ラベルの変更はできます。",
    )
    purge: Text = Text(
        "Permanently delete thread {thread}, “{title}”, turns: {turns}? This cannot be undone.",
        "スレッド {thread}「{title}」({turns}ターン)を完全に削除しますか? この操作は元に戻せません。",
    )
    purged: Text = Text(
        "Permanently deleted thread {thread}. Checkpoints: {checkpoints}, writes: {writes}, stored items: {items}.",
        "スレッド {thread} を完全に削除しました(チェックポイント{checkpoints}件、書き込み{writes}件、保存項目{items}件)。",
    )
    not_purged: Text = Text(
        "Thread {thread} was not changed.", "スレッド {thread} は変更していません。"
    )

    # A replayed request.
    attempt: Text = Text("turn {turn}, attempt {attempt}", "ターン{turn}、試行{attempt}")
    exact: Text = Text("exactly as sent", "送信時のリクエスト")
    planned: Text = Text(
        "rebuilt from the conversation; the sent request was not stored",
        "送信内容が保存されていないため、会話から再構成したリクエスト",
    )
    system: Text = Text("system", "システム")
    user: Text = Text("user", "ユーザー")
    assistant: Text = Text("assistant", "アシスタント")
    tool: Text = Text("tool", "ツール")
    recorded: Text = Text("original result", "当時の結果")
    score_and_reason: Text = Text("score {score}: {reason}", "スコア {score}: {reason}")
    failed: Text = Text("failed with {error}: {reason}", "エラー {error}: {reason}")
    silent: Text = Text("(no text)", "(テキストなし)")

    # Rollbacks and branches.
    forked: Text = Text("at {where}; turns: {turns}", "現在地は{where}、{turns}ターンです")
    preview: Text = Text(
        "Would roll back to {where}. Nothing has been changed.",
        "{where}に戻ります。まだ何も変更していません。",
    )
    preview_removed: Text = Text(
        "Turns: {turns}. Messages: {messages}. Tokens: {total} ({input} in, {output} out).",
        "{turns}ターン、{messages}件のメッセージ、{total}トークン(入力{input}、出力{output})を取り除きます。",
    )
    checkpoints: Text = Text("checkpoints: {names}", "チェックポイント: {names}")
    tools: Text = Text("tool calls: {names}", "ツール呼び出し: {names}")
    not_undoable: Text = Text("effects that cannot be undone: {names}", "取り消せない処理: {names}")
    needs_tools: Text = Text(
        "The calls of a tool with @reversible are undone if you name it: --tools MODULE:NAME",
        "@reversible を付けたツールの呼び出しは、--tools MODULE:NAME で指定すると取り消されます",
    )
    event_heads: Text = Text("time|event|turn|run|text", "日時|イベント|ターン|実行|内容")
    run_heads: Text = Text("run|status|started|seconds|question", "実行|状態|開始|秒数|質問")
    run_heads_of_all: Text = Text(
        "run|status|started|seconds|thread", "実行|状態|開始|秒数|スレッド"
    )
    checkpoint_heads: Text = Text("id|name|turn|score|topic", "ID|名前|ターン|スコア|話題")
    compared_common: Text = Text("common: {messages}", "共通: {messages}")
    compared_side: Text = Text(
        "{name}: {messages}, score mean {mean}, last {last}, {total} tokens ({input} in, {output} out)",
        "{name}: {messages}、スコアの平均{mean}、最後{last}、{total}トークン(入力{input}、出力{output})",
    )
    compared_topics: Text = Text("  own topics: {topics}", "  こちらだけの話題: {topics}")
    branch_heads: Text = Text(
        "id|kind|after|turns|used|first question or reason",
        "ID|種類|位置|数|使用量|最初の質問または理由",
    )
    branch_start: Text = Text("start", "先頭")
    branch_turn: Text = Text("turn {turn}", "ターン{turn}")
    branch_tokens: Text = Text("{total} tokens", "{total}トークン")

    # The context of one turn's model calls.
    context: Text = Text("turn {turn}: “{question}”", "ターン{turn}: 「{question}」")
    call: Text = Text("attempt {attempt}, call {call}", "試行{attempt}、呼び出し{call}")
    call_removed: Text = Text("removed, {branch}", "取り除き済み、{branch}")
    pending: Text = Text("waiting for a decision", "判断待ち")
    messages: Text = Text("messages {places} ({count})", "{places}番目({count}件)")
    changed: Text = Text(
        "The conversation has changed since then; these are the old positions.",
        "その後、会話が変更されました。位置は当時のものです。",
    )
    unplaced: Text = Text(
        "quotes from offloaded messages: {count}", "退避済みメッセージからの引用: {count}件"
    )
    reported: Text = Text(
        "Reported by the model: {input} in ({cached} cached), {output} out",
        "モデルの報告: 入力{input}(うちキャッシュ{cached})、出力{output}",
    )

    # By the rule that kept messages out of a context; a strategy's own name is not listed.
    context_rules: Table = Table.of(
        {
            "sent": ("sent in full", "全文を送信"),
            "truncated": ("truncated", "切り詰め"),
            "cleared": ("cleared", "消去"),
            "size_limit": ("too large", "サイズ超過"),
            "middle": ("summarized middle", "中間部分の要約"),
            "window": ("outside the window", "範囲外"),
            "turns": ("older turns", "古いターン"),
            "summary": ("summarized beginning", "冒頭部分の要約"),
            "topic": ("other topics", "ほかの話題"),
            "forgotten": ("forgotten", "送信対象外"),
            "offloaded": ("offloaded", "退避済み"),
            "notice": ("unsay's notices", "unsayの通知"),
            "unsendable": ("cannot be sent", "送信不可"),
            "other": ("left out", "省略"),
            "summarized": ("summarized", "要約済み"),
            "recalled": ("recalled", "関連する以前の発言"),
            "pinned": ("pinned", "ピン留め"),
        }
    )

    def for_shell(self) -> Self:
        """Return a copy whose texts name `unsay undo` and not the chat's `/undo`."""
        made = copy(self)
        for name, text in vars(self).items():
            if isinstance(text, str):
                vars(made)[name] = _COMMAND.sub(r"`unsay \1`", text)
        return made
