"""What `unsay timeline --view` says, in two languages."""

from collections.abc import Mapping
from dataclasses import dataclass

from unsay.types import Language


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


ENGLISH = ViewLabels(
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

JAPANESE = ViewLabels(
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
    return JAPANESE if language == "ja" else ENGLISH
