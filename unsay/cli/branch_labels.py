"""What the commands of going back and forth say, in two languages."""

from collections.abc import Mapping
from dataclasses import dataclass

from unsay.graph.trees import CUT_WORDS
from unsay.types import Language


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


ENGLISH = BranchLabels(
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

JAPANESE = BranchLabels(
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
    return JAPANESE if language == "ja" else ENGLISH
