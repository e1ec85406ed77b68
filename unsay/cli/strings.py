"""What the command line says beside the conversation's own words, English and Japanese in one row."""

from collections.abc import Mapping

from unsay.conversation.tree import CUT_WORDS
from unsay.types import Language


class Label:
    """One row: a text in both languages; braces are filled by `str.format`."""

    def __init__(self, en: str, ja: str) -> None:
        """Hold the texts."""
        self.words: Mapping[Language, str] = {"en": en, "ja": ja}

    def __get__(self, labels: "Labels", owner: type["Labels"]) -> str:
        return self.words[labels.language]


class Labels:
    """All labels in one language."""

    def __init__(self, language: Language) -> None:
        """Choose the language."""
        self.language: Language = language

    # A turn in the terminal.
    score = Label("score {score}", "スコア {score}")
    unscored = Label("unscored: {reason}", "採点なし: {reason}")
    topic = Label("topic “{label}”", "話題「{label}」")
    new_topic = Label(
        "new topic “{label}” (similarity {similarity})",
        "新しい話題「{label}」(類似度 {similarity})",
    )
    back_to_topic = Label(
        "back to the topic “{label}” (similarity {similarity})",
        "話題「{label}」に戻りました(類似度 {similarity})",
    )
    folded = Label(
        "folded “{label}” ({messages} messages): {summary}",
        "「{label}」をたたみました({messages}件): {summary}",
    )
    judged = Label(
        "judged what was put in: score {score}. {reason}",
        "差し込まれた会話の評価: スコア {score}。{reason}",
    )
    taken_back = Label("taken back, score {score}: {reason}", "取り消し、スコア {score}: {reason}")
    rolled_back = Label(
        "rolled back to {to}; messages set aside: {removed}",
        "{to}に巻き戻しました。{removed}件のメッセージを保管しました",
    )
    checkpoint = Label("checkpoint {id}", "チェックポイント {id}")
    low_quality = Label(
        "no draft passed; this is the best one: {reason}",
        "合格した下書きがないため、最良のものです: {reason}",
    )
    set_aside = Label(
        "the question before was never answered; it was set aside, and /undo brings it back",
        "前の質問には回答がありませんでした。保管され、/undo で元に戻せます",
    )
    summary_failed = Label(
        "the summarizer failed ({error}); a local summary stands in",
        "要約に失敗したため({error})、簡易な要約を使います",
    )
    budget_warning = Label("little is left: {text}", "予算が残りわずかです: {text}")

    # The chat.
    decide = Label(
        "Decide: approve, reject, edit:YOUR WORDS, or what the next attempt should do.",
        "approve(採用)、reject(却下)、edit:ご自身の回答、または次の試行への指示を入力してください。",
    )
    asked = Label("taken back: “{question}”", "取り消した質問: 「{question}」")
    stopped = Label(
        "Stopped. /resume goes on; or say something else.",
        "止めました。/resume で続けるか、別のことを話してください。",
    )
    waiting = Label(
        "“{question}” has no answer yet; /resume goes on.",
        "「{question}」にはまだ回答がありません。/resume で続けます。",
    )
    leave = Label(
        "/help lists the commands; /exit or Ctrl-D leaves.",
        "/help でコマンドの一覧、/exit または Ctrl-D で終了します。",
    )

    # A thread's event log and its end.
    verified = Label(
        "Events: {events}. None is missing, none was changed, and replaying them makes the record "
        "byte for byte. Messages: {messages}.",
        "イベント{events}件: 欠落も改変もなく、再生すると{messages}件のメッセージの記録と"
        "1バイトも違わず一致します。",
    )
    ended = Label(
        "Thread {thread} is ended. It can be read; nothing more is said in it.",
        "スレッド {thread} を終了しました。読むことはできますが、続けることはできません。",
    )
    purge = Label(
        "Purge thread {thread}, “{title}”, turns: {turns}? Nothing brings it back.",
        "スレッド {thread}「{title}」({turns}ターン)を完全に削除しますか? 元には戻せません。",
    )
    purged = Label(
        "Thread {thread} is gone from the file, to the last byte. Checkpoints: {checkpoints}, "
        "writes: {writes}, stored items: {items}.",
        "スレッド {thread} をファイルから1バイトも残さず削除しました。"
        "チェックポイント{checkpoints}件、書き込み{writes}件、保存項目{items}件。",
    )
    kept = Label("Thread {thread} stays as it was.", "スレッド {thread} はそのままです。")

    # A replayed request.
    attempt = Label("turn {turn}, attempt {attempt}", "ターン{turn}、試行{attempt}")
    exact = Label("exactly as it was sent", "送信されたとおりの依頼")
    planned = Label(
        "planned anew from the record, as the request was not kept",
        "送信内容が保存されていないため、記録から組み立て直した依頼",
    )
    system = Label("system", "システム")
    user = Label("user", "ユーザー")
    assistant = Label("assistant", "アシスタント")
    tool = Label("tool", "ツール")
    recorded = Label("then", "当時の結果")
    score_and_reason = Label("score {score}: {reason}", "スコア {score}: {reason}")
    failed = Label("failed, {error}: {reason}", "失敗、{error}: {reason}")
    silent = Label("(no words)", "(言葉なし)")

    # Rollbacks and branches.
    restored = Label(
        "Now at {where}. Turns: {turns}. Messages set aside: {removed}; brought back: {restored}.",
        "{where}に移りました。残りは{turns}ターンです。{removed}件を保管し、{restored}件を復元しました。",
    )
    forked = Label("at {where}; turns: {turns}", "現在地は{where}、{turns}ターンです")
    preview = Label(
        "Would go back to {where}; nothing was changed.",
        "{where}に戻ることになります。まだ何も変更していません。",
    )
    gone = Label(
        "Turns: {turns}. Messages: {messages}. Tokens: {total} ({input} in, {output} out).",
        "{turns}ターン、{messages}件のメッセージ、{total}トークン(入力{input}、出力{output})が対象です。",
    )
    question = Label("“{question}”", "「{question}」")
    checkpoints = Label("checkpoints: {names}", "チェックポイント: {names}")
    tools = Label("tools called: {names}", "呼び出したツール: {names}")
    standing = Label("what this did would stand: {names}", "取り消されずに残るもの: {names}")
    branch_start = Label("start", "始め")
    branch_turn = Label("turn {turn}", "ターン{turn}")
    branch_tokens = Label("{total} tok", "{total}トークン")

    # The context of one turn's model calls.
    view = Label("turn {turn}: “{question}”", "ターン{turn}: 「{question}」")
    call = Label("attempt {attempt}, call {call}", "試行{attempt}、呼び出し{call}")
    call_taken_back = Label("taken back, {cut}", "取り消し、{cut}")
    pending = Label("waits for a decision", "判断待ち")
    messages = Label("messages {places} ({count})", "{places}番目({count}件)")
    changed = Label(
        "The record has changed since: these are the places of then.",
        "その後、記録が変わりました。以下は当時の位置です。",
    )
    unplaced = Label("quoted from older parts: {count}", "古い部分からの引用: {count}件")
    reported = Label(
        "Reported by the model: {input} in ({cached} cached), {output} out",
        "モデルの報告: 入力{input}(うちキャッシュ{cached})、出力{output}",
    )


Names = Mapping[str, tuple[str, str]]

BRANCH_KINDS: Names = {
    "draft": (CUT_WORDS["draft"], "下書きの取り消し"),
    "context": (CUT_WORDS["context"], "文脈の取り消し"),
    "document": ("document set aside", "文書の除外"),
    "person": (CUT_WORDS["person"], "巻き戻し"),
    "undo": (CUT_WORDS["undo"], "元に戻した分"),
    "redo": (CUT_WORDS["redo"], "再び離れた分"),
    "restore": (CUT_WORDS["restore"], "入れ替え"),
    "retry": (CUT_WORDS["retry"], "再回答"),
    "order": (CUT_WORDS["order"], "指示"),
    "interrupted": (CUT_WORDS["interrupted"], "中断"),
    "rejected": (CUT_WORDS["rejected"], "不採用の下書き"),
    "live": ("live", "現在"),
    "thread": ("fork", "分岐"),
}

CONTEXT_RULES: Names = {
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
    "sealed": ("sealed", "封緘済み"),
    "notice": ("unsay's own", "unsayの通知"),
    "unsendable": ("not sendable", "送信不可"),
    "other": ("left out", "省略"),
    "summarized": ("summarized", "要約済み"),
    "recalled": ("recalled", "想起"),
    "pinned": ("pinned", "ピン留め"),
}


def named(name: str, names: Names, language: Language) -> str:
    """Return the words for a name; one that is not listed stays, as a strategy's own does."""
    english, japanese = names.get(name, (name, name))
    return japanese if language == "ja" else english
