"""What the commands of the ledger, the replay and a thread's end say, in two languages."""

from dataclasses import dataclass

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


ENGLISH = RecordLabels(
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

JAPANESE = RecordLabels(
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
    return JAPANESE if language == "ja" else ENGLISH
