"""What the command line says beside the conversation's own words."""

from dataclasses import dataclass

from unsay.conversation.tree import BRANCH_WORDS
from unsay.prompts.base import Table, Text
from unsay.prompts.fields import Texts


@dataclass(frozen=True, kw_only=True, repr=False)
class Labels(Texts):
    """The texts of the command line, and all others for a person, in one language."""

    # A turn in the terminal.
    score: Text = Text("score {score}", "スコア {score}")
    unscored: Text = Text("unscored: {reason}", "採点なし: {reason}")
    topic: Text = Text("topic “{label}”", "話題「{label}」")
    new_topic: Text = Text(
        "new topic “{label}” (similarity {similarity})",
        "新しい話題「{label}」(類似度 {similarity})",
    )
    back_to_topic: Text = Text(
        "back to the topic “{label}” (similarity {similarity})",
        "話題「{label}」に戻りました(類似度 {similarity})",
    )
    summarized: Text = Text(
        "folded “{label}” ({messages} messages): {summary}",
        "「{label}」をたたみました({messages}件): {summary}",
    )
    judged: Text = Text(
        "judged what was put in: score {score}. {reason}",
        "差し込まれた会話の評価: スコア {score}。{reason}",
    )
    taken_back: Text = Text(
        "taken back, score {score}: {reason}", "取り消し、スコア {score}: {reason}"
    )
    went_back: Text = Text(
        "rolled back to {to}; messages set aside: {removed}",
        "{to}に巻き戻しました。{removed}件のメッセージを保管しました",
    )
    checkpoint: Text = Text("checkpoint {id}", "チェックポイント {id}")
    low_quality: Text = Text(
        "no draft passed; this is the best one: {reason}",
        "合格した下書きがないため、最良のものです: {reason}",
    )
    set_aside: Text = Text(
        "the question before was never answered; it was set aside, and /undo brings it back",
        "前の質問には回答がありませんでした。保管され、/undo で元に戻せます",
    )
    summary_failed: Text = Text(
        "the summarizer failed ({error}); a local summary stands in",
        "要約に失敗したため({error})、簡易な要約を使います",
    )
    budget_warning: Text = Text("little is left: {text}", "予算が残りわずかです: {text}")

    # The chat.
    decide: Text = Text(
        "Decide: approve, reject, edit:YOUR WORDS, or what the next attempt should do.",
        "approve(採用)、reject(却下)、edit:ご自身の回答、または次の試行への指示を入力してください。",
    )
    asked: Text = Text("taken back: “{question}”", "取り消した質問: 「{question}」")
    stopped: Text = Text(
        "Stopped. /resume goes on; or say something else.",
        "止めました。/resume で続けるか、別のことを話してください。",
    )
    waiting: Text = Text(
        "“{question}” has no answer yet; /resume goes on.",
        "「{question}」にはまだ回答がありません。/resume で続けます。",
    )
    leave: Text = Text(
        "/help lists the commands; /exit or Ctrl-D leaves.",
        "/help でコマンドの一覧、/exit または Ctrl-D で終了します。",
    )

    # A thread's event log and its end.
    verified: Text = Text(
        "Events: {events}. None is missing, none was changed, and replaying them makes the record "
        "byte for byte. Messages: {messages}.",
        "イベント{events}件: 欠落も改変もなく、再生すると{messages}件のメッセージの記録と"
        "1バイトも違わず一致します。",
    )
    ended: Text = Text(
        "Thread {thread} is ended. It can be read; nothing more is said in it.",
        "スレッド {thread} を終了しました。読むことはできますが、続けることはできません。",
    )
    purge: Text = Text(
        "Purge thread {thread}, “{title}”, turns: {turns}? Nothing brings it back.",
        "スレッド {thread}「{title}」({turns}ターン)を完全に削除しますか? 元には戻せません。",
    )
    purged: Text = Text(
        "Thread {thread} is gone from the file, to the last byte. Checkpoints: {checkpoints}, "
        "writes: {writes}, stored items: {items}.",
        "スレッド {thread} をファイルから1バイトも残さず削除しました。"
        "チェックポイント{checkpoints}件、書き込み{writes}件、保存項目{items}件。",
    )
    kept: Text = Text("Thread {thread} stays as it was.", "スレッド {thread} はそのままです。")

    # A replayed request.
    attempt: Text = Text("turn {turn}, attempt {attempt}", "ターン{turn}、試行{attempt}")
    exact: Text = Text("exactly as it was sent", "送信されたとおりの依頼")
    planned: Text = Text(
        "planned anew from the record, as the request was not kept",
        "送信内容が保存されていないため、記録から組み立て直した依頼",
    )
    system: Text = Text("system", "システム")
    user: Text = Text("user", "ユーザー")
    assistant: Text = Text("assistant", "アシスタント")
    tool: Text = Text("tool", "ツール")
    recorded: Text = Text("then", "当時の結果")
    score_and_reason: Text = Text("score {score}: {reason}", "スコア {score}: {reason}")
    failed: Text = Text("failed, {error}: {reason}", "失敗、{error}: {reason}")
    silent: Text = Text("(no words)", "(言葉なし)")

    # Rollbacks and branches.
    restored: Text = Text(
        "Now at {where}. Turns: {turns}. Messages set aside: {removed}; brought back: {restored}.",
        "{where}に移りました。残りは{turns}ターンです。{removed}件を保管し、{restored}件を復元しました。",
    )
    forked: Text = Text("at {where}; turns: {turns}", "現在地は{where}、{turns}ターンです")
    preview: Text = Text(
        "Would go back to {where}; nothing was changed.",
        "{where}に戻ることになります。まだ何も変更していません。",
    )
    gone: Text = Text(
        "Turns: {turns}. Messages: {messages}. Tokens: {total} ({input} in, {output} out).",
        "{turns}ターン、{messages}件のメッセージ、{total}トークン(入力{input}、出力{output})が対象です。",
    )
    checkpoints: Text = Text("checkpoints: {names}", "チェックポイント: {names}")
    tools: Text = Text("tools called: {names}", "呼び出したツール: {names}")
    standing: Text = Text("what this did would stand: {names}", "取り消されずに残るもの: {names}")
    branch_start: Text = Text("start", "始め")
    branch_turn: Text = Text("turn {turn}", "ターン{turn}")
    branch_tokens: Text = Text("{total} tok", "{total}トークン")

    # The context of one turn's model calls.
    context: Text = Text("turn {turn}: “{question}”", "ターン{turn}: 「{question}」")
    call: Text = Text("attempt {attempt}, call {call}", "試行{attempt}、呼び出し{call}")
    call_taken_back: Text = Text("taken back, {branch}", "取り消し、{branch}")
    pending: Text = Text("waits for a decision", "判断待ち")
    messages: Text = Text("messages {places} ({count})", "{places}番目({count}件)")
    changed: Text = Text(
        "The record has changed since: these are the places of then.",
        "その後、記録が変わりました。以下は当時の位置です。",
    )
    unplaced: Text = Text("quoted from older parts: {count}", "古い部分からの引用: {count}件")
    reported: Text = Text(
        "Reported by the model: {input} in ({cached} cached), {output} out",
        "モデルの報告: 入力{input}(うちキャッシュ{cached})、出力{output}",
    )

    # By a branch's kind.
    branch_kinds: Table = Table.of(
        {
            "draft": (BRANCH_WORDS["draft"], "下書きの取り消し"),
            "context": (BRANCH_WORDS["context"], "文脈の取り消し"),
            "document": ("document set aside", "文書の除外"),
            "person": (BRANCH_WORDS["person"], "巻き戻し"),
            "undo": (BRANCH_WORDS["undo"], "元に戻した分"),
            "redo": (BRANCH_WORDS["redo"], "再び離れた分"),
            "restore": (BRANCH_WORDS["restore"], "入れ替え"),
            "retry": (BRANCH_WORDS["retry"], "再回答"),
            "order": (BRANCH_WORDS["order"], "指示"),
            "interrupted": (BRANCH_WORDS["interrupted"], "中断"),
            "rejected": (BRANCH_WORDS["rejected"], "不採用の下書き"),
            "live": ("live", "現在"),
            "thread": ("fork", "分岐"),
        }
    )

    # By the rule that kept messages out of a context; a strategy's own name is not listed.
    context_rules: Table = Table.of(
        {
            "sent": ("sent whole", "全文を送信"),
            "truncated": ("truncated", "切り詰め"),
            "cleared": ("cleared", "消去"),
            "size_limit": ("too large", "大きすぎる結果"),
            "middle": ("folded middle", "中ほどの折りたたみ"),
            "window": ("outside the window", "窓の外"),
            "turns": ("older turns", "古いターン"),
            "summary": ("folded beginning", "始めの折りたたみ"),
            "topic": ("other topics", "ほかの話題"),
            "forgotten": ("forgotten", "忘却"),
            "offloaded": ("offloaded", "封緘済み"),
            "notice": ("unsay's own", "unsayの通知"),
            "unsendable": ("not sendable", "送信不可"),
            "other": ("left out", "省略"),
            "summarized": ("summarized", "要約済み"),
            "recalled": ("recalled", "想起"),
            "pinned": ("pinned", "ピン留め"),
        }
    )
