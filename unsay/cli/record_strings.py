"""What the commands of the ledger, the replay and a thread's end say, in two languages."""

from collections.abc import Mapping
from dataclasses import dataclass

from unsay.conversation.tree import CUT_WORDS
from unsay.types import Language


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLabels:
    """All words in one language; braces are filled by `str.format`."""

    verified: str
    """The ledger is whole; `{events}`, `{messages}`."""

    ended: str
    """The thread was ended; `{thread}`."""

    purge: str
    """Asks whether a thread may go; `{thread}`, `{title}`, `{turns}`."""

    purged: str
    """What went; `{thread}`, `{checkpoints}`, `{writes}`, `{items}`."""

    kept: str
    """The thread may not go; `{thread}`."""

    attempt: str
    """Which request is shown; `{turn}`, `{attempt}`."""

    exact: str
    """It is what was sent."""

    planned: str
    """It is planned anew."""

    system: str
    """Role of a message."""

    user: str
    """Role of a message."""

    assistant: str
    """Role of a message."""

    tool: str
    """Role of a message."""

    recorded: str
    """Stands over what came of the request then."""

    score: str
    """Of an answer; `{score}`, `{reason}`."""

    unscored: str
    """An answer without a score; `{reason}`."""

    failed: str
    """The model failed; `{error}`, `{reason}`."""

    silent: str
    """There are no words."""


RECORD_ENGLISH = RecordLabels(
    verified="Events: {events}. None is missing, none was changed, and replaying them makes the "
    "record byte for byte. Messages: {messages}.",
    ended="Thread {thread} is ended. It can be read; nothing more is said in it.",
    purge="Purge thread {thread}, “{title}”, turns: {turns}? Nothing brings it back.",
    purged="Thread {thread} is gone from the file, to the last byte. Checkpoints: {checkpoints}, "
    "writes: {writes}, stored items: {items}.",
    kept="Thread {thread} stays as it was.",
    attempt="turn {turn}, attempt {attempt}",
    exact="exactly as it was sent",
    planned="planned anew from the record, as the request was not kept",
    system="system",
    user="user",
    assistant="assistant",
    tool="tool",
    recorded="then",
    score="score {score}: {reason}",
    unscored="unscored: {reason}",
    failed="failed, {error}: {reason}",
    silent="(no words)",
)


RECORD_JAPANESE = RecordLabels(
    verified="イベント{events}件: 欠落も改変もなく、再生すると{messages}件のメッセージの記録と"
    "1バイトも違わず一致します。",
    ended="スレッド {thread} を終了しました。読むことはできますが、続けることはできません。",
    purge="スレッド {thread}「{title}」({turns}ターン)を完全に削除しますか? 元には戻せません。",
    purged="スレッド {thread} をファイルから1バイトも残さず削除しました。"
    "チェックポイント{checkpoints}件、書き込み{writes}件、保存項目{items}件。",
    kept="スレッド {thread} はそのままです。",
    attempt="ターン{turn}、試行{attempt}",
    exact="送信されたとおりの依頼",
    planned="送信内容が保存されていないため、記録から組み立て直した依頼",
    system="システム",
    user="ユーザー",
    assistant="アシスタント",
    tool="ツール",
    recorded="当時の結果",
    score="スコア {score}: {reason}",
    unscored="採点なし: {reason}",
    failed="失敗、{error}: {reason}",
    silent="(言葉なし)",
)


def record_labels(language: Language) -> RecordLabels:
    """The words in one language."""
    return RECORD_JAPANESE if language == "ja" else RECORD_ENGLISH


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchLabels:
    """All words in one language; braces are filled by `str.format`."""

    restored: str
    """Where the talk stands after something came back; `{where}`, `{turns}`, `{removed}`,
    `{restored}`."""

    forked: str
    """Where a new thread stands; `{where}`, `{turns}`."""

    preview: str
    """Where a rollback would lead; `{where}`."""

    gone: str
    """What it would take; `{turns}`, `{messages}`, `{total}`, `{input}`, `{output}`."""

    question: str
    """One of the questions that would go; `{question}`."""

    checkpoints: str
    """The checkpoints that would go; `{names}`."""

    tools: str
    """The tools that were called; `{names}`."""

    standing: str
    """What those calls did and a rollback from here would not take back; `{names}`."""

    kinds: Mapping[str, str]
    """What a person calls each kind of branch; one that is missing stays."""

    start: str
    """Where a branch begins that has nothing in common with the live one."""

    turn: str
    """The turn after which a branch begins; `{turn}`."""

    elsewhere: str
    """A branch begins at what is no longer on the live one."""

    tokens: str
    """What a branch cost; `{total}`."""
    judging: str
    """What judges cost; `{total}`, `{input}`, `{output}`."""

    summaries: str
    """What summaries cost; `{total}`, `{input}`, `{output}`."""

    titles: str
    """What naming the thread cost; `{total}`, `{input}`, `{output}`."""

    cost: str
    """What it all came to; `{cost}`."""


BRANCH_ENGLISH = BranchLabels(
    restored="Now at {where}. Turns: {turns}. Messages set aside: {removed}; brought back: "
    "{restored}.",
    forked="at {where}; turns: {turns}",
    preview="Would go back to {where}; nothing was changed.",
    gone="Turns: {turns}. Messages: {messages}. Tokens: {total} ({input} in, {output} out).",
    question="“{question}”",
    checkpoints="checkpoints: {names}",
    tools="tools called: {names}",
    standing="what this did would stand: {names}",
    kinds={
        **{str(kind): words for kind, words in CUT_WORDS.items()},
        "document": "document set aside",
        "live": "live",
        "thread": "fork",
    },
    start="start",
    turn="turn {turn}",
    elsewhere="–",
    tokens="{total} tok",
    judging="judging: {total} tokens ({input} in, {output} out)",
    summaries="summaries: {total} tokens ({input} in, {output} out)",
    titles="titles: {total} tokens ({input} in, {output} out)",
    cost="cost: {cost:g}",
)


BRANCH_JAPANESE = BranchLabels(
    restored="{where}に移りました。残りは{turns}ターンです。{removed}件を保管し、{restored}件を復元しました。",
    forked="現在地は{where}、{turns}ターンです",
    preview="{where}に戻ることになります。まだ何も変更していません。",
    gone="{turns}ターン、{messages}件のメッセージ、{total}トークン(入力{input}、出力{output})が対象です。",
    question="「{question}」",
    checkpoints="チェックポイント: {names}",
    tools="呼び出したツール: {names}",
    standing="取り消されずに残るもの: {names}",
    kinds={
        "draft": "下書きの取り消し",
        "context": "文脈の取り消し",
        "document": "文書の除外",
        "person": "巻き戻し",
        "undo": "元に戻した分",
        "redo": "再び離れた分",
        "restore": "入れ替え",
        "retry": "再回答",
        "order": "指示",
        "interrupted": "中断",
        "rejected": "不採用の下書き",
        "live": "現在",
        "thread": "分岐",
    },
    start="始め",
    turn="ターン{turn}",
    elsewhere="–",
    tokens="{total}トークン",
    judging="評価: {total}トークン(入力{input}、出力{output})",
    summaries="要約: {total}トークン(入力{input}、出力{output})",
    titles="題名: {total}トークン(入力{input}、出力{output})",
    cost="費用: {cost:g}",
)


def branch_labels(language: Language) -> BranchLabels:
    """The words in one language."""
    return BRANCH_JAPANESE if language == "ja" else BRANCH_ENGLISH


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewLabels:
    """All words in one language; braces are filled by `str.format`."""

    turn: str
    """Which turn is shown; `{turn}`, `{question}`."""

    call: str
    """One model call; `{attempt}`, `{call}`."""

    taken_back: str
    """What it returned was taken back; `{cut}`."""

    pending: str
    """A person has not decided yet about what it returned."""

    score: str
    """Of the answer; `{score}`."""

    messages: str
    """The messages that a rule names; `{places}`, `{count}`."""

    changed: str
    """The record is another one now; the places are those of then."""

    unplaced: str
    """Quoted messages whose places nobody knew; `{count}`."""

    reported: str
    """What the model reported; `{input}`, `{cached}`, `{output}`."""

    rules: Mapping[str, str]
    """What a person calls each rule; a strategy's own name stays."""


VIEW_ENGLISH = ViewLabels(
    turn="turn {turn}: “{question}”",
    call="attempt {attempt}, call {call}",
    taken_back="taken back, {cut}",
    pending="waits for a decision",
    score="score {score}",
    messages="messages {places} ({count})",
    changed="The record has changed since: these are the places of then.",
    unplaced="quoted from older parts: {count}",
    reported="Reported by the model: {input} in ({cached} cached), {output} out",
    rules={
        "sent": "sent whole",
        "middle": "folded middle",
        "window": "outside the window",
        "turns": "older turns",
        "summary": "folded beginning",
        "size_limit": "too large",
        "unsendable": "not sendable",
        "notice": "unsay's own",
        "topic": "other topics",
        "other": "left out",
    },
)


VIEW_JAPANESE = ViewLabels(
    turn="ターン{turn}: 「{question}」",
    call="試行{attempt}、呼び出し{call}",
    taken_back="取り消し、{cut}",
    pending="判断待ち",
    score="スコア {score}",
    messages="{places}番目({count}件)",
    changed="その後、記録が変わりました。以下は当時の位置です。",
    unplaced="古い部分からの引用: {count}件",
    reported="モデルの報告: 入力{input}(うちキャッシュ{cached})、出力{output}",
    rules={
        "sent": "全文を送信",
        "truncated": "切り詰め",
        "cleared": "消去",
        "size_limit": "大きすぎる結果",
        "middle": "中ほどの折りたたみ",
        "window": "窓の外",
        "turns": "古いターン",
        "summary": "始めの折りたたみ",
        "topic": "ほかの話題",
        "forgotten": "忘却",
        "sealed": "封緘済み",
        "notice": "unsayの通知",
        "unsendable": "送信不可",
        "other": "省略",
        "summarized": "要約済み",
        "recalled": "想起",
        "pinned": "ピン留め",
    },
)


def view_labels(language: Language) -> ViewLabels:
    """The words in one language."""
    return VIEW_JAPANESE if language == "ja" else VIEW_ENGLISH
