"""The words of a thread's tree, and of its pictures in notebooks."""

from dataclasses import dataclass

from unsay.prompts.base import Table
from unsay.prompts.rollback_texts import RollbackTexts


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
