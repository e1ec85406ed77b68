"""What the command line says beside the conversation's own words, in two languages."""

from dataclasses import dataclass

from unsay.types import Language


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """All notes in one language; braces are filled by `str.format`."""

    language: Language

    score: str
    """Of an answer; `{score}`."""

    unscored: str
    """An answer without a score; `{reason}`."""

    topic: str
    """The topic under way; `{label}`."""

    new_topic: str
    """The subject changed; `{label}`, `{similarity}`."""

    back_to_topic: str
    """The talk returned to an earlier topic; `{label}`, `{similarity}`."""

    folded: str
    """A topic was left out of the view; `{label}`, `{messages}`, `{summary}`."""

    judged: str
    """Messages that were put in were judged; `{score}`, `{reason}`."""

    taken_back: str
    """A draft was rejected; `{score}`, `{reason}`."""

    rolled_back: str
    """The record went back; `{to}`, `{removed}`."""

    checkpoint: str
    """The answer became a checkpoint; `{id}`."""

    low_quality: str
    """No draft passed and the best was delivered; `{reason}`."""

    set_aside: str
    """An unanswered question was set aside."""

    summary_failed: str
    """The summarizer failed and the local summary stands in; `{error}`."""

    budget_warning: str
    """A budget comes to its end; `{text}`."""

    decide: str
    """How to decide about rejected drafts."""

    asked: str
    """The question that was taken back; `{question}`."""

    stopped: str
    """Ctrl-C stopped the reply."""

    waiting: str
    """The last question has no answer yet; `{question}`."""

    leave: str
    """How to leave the chat."""


ENGLISH = Labels(
    language="en",
    score="score {score}",
    unscored="unscored: {reason}",
    topic="topic “{label}”",
    new_topic="new topic “{label}” (similarity {similarity})",
    back_to_topic="back to the topic “{label}” (similarity {similarity})",
    folded="folded “{label}” ({messages} messages): {summary}",
    judged="judged what was put in: score {score}. {reason}",
    taken_back="taken back, score {score}: {reason}",
    rolled_back="rolled back to {to}; messages set aside: {removed}",
    checkpoint="checkpoint {id}",
    low_quality="no draft passed; this is the best one: {reason}",
    set_aside="the question before was never answered; it was set aside, and /undo brings it back",
    summary_failed="the summarizer failed ({error}); a local summary stands in",
    budget_warning="little is left: {text}",
    decide="Decide: approve, reject, edit:YOUR WORDS, or what the next attempt should do.",
    asked="taken back: “{question}”",
    stopped="Stopped. /resume goes on; or say something else.",
    waiting="“{question}” has no answer yet; /resume goes on.",
    leave="/help lists the commands; /exit or Ctrl-D leaves.",
)


JAPANESE = Labels(
    language="ja",
    score="スコア {score}",
    unscored="採点なし: {reason}",
    topic="話題「{label}」",
    new_topic="新しい話題「{label}」(類似度 {similarity})",
    back_to_topic="話題「{label}」に戻りました(類似度 {similarity})",
    folded="「{label}」をたたみました({messages}件): {summary}",
    judged="差し込まれた会話の評価: スコア {score}。{reason}",
    taken_back="取り消し、スコア {score}: {reason}",
    rolled_back="{to}に巻き戻しました。{removed}件のメッセージを保管しました",
    checkpoint="チェックポイント {id}",
    low_quality="合格した下書きがないため、最良のものです: {reason}",
    set_aside="前の質問には回答がありませんでした。保管され、/undo で元に戻せます",
    summary_failed="要約に失敗したため({error})、簡易な要約を使います",
    budget_warning="予算が残りわずかです: {text}",
    decide="approve(採用)、reject(却下)、edit:ご自身の回答、または次の試行への指示を入力してください。",
    asked="取り消した質問: 「{question}」",
    stopped="止めました。/resume で続けるか、別のことを話してください。",
    waiting="「{question}」にはまだ回答がありません。/resume で続けます。",
    leave="/help でコマンドの一覧、/exit または Ctrl-D で終了します。",
)


def labels(language: Language) -> Labels:
    """The notes in one language."""
    return JAPANESE if language == "ja" else ENGLISH
