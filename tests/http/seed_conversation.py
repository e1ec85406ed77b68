"""The seed article's four questions, and a model and judge that play them.

Source: LayerX, "AIエージェントで「不要な過去を忘れる」": list comprehensions, the
weather, decorators, then a low-quality exchange that is put in.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tests.http.openai_server import Asked, Said

_FENCED = re.compile(r'<answer key="([0-9]{15})">\n(.*)\n</answer key="\1">', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedConversation:
    """One conversation and what its two models say."""

    language: str
    """`en` or `ja`."""

    questions: tuple[str, ...]
    """List comprehensions, the weather, decorators, and one after the bad exchange."""

    answers: Mapping[str, str]
    """The good answer to each question."""

    poisoned: str
    """What the answerer says to the third question at first."""

    pushed_in: tuple[tuple[str, str], tuple[str, str]]
    """The exchange of low quality, as (role, words)."""

    reasons: Mapping[str, str]
    """The judge's reason for each bad answer."""

    def script(self, request: Asked) -> Said:
        """The judge's verdict or the answerer's words."""
        return self._verdict(request) if request.model == "judge" else self._answer(request)

    def _verdict(self, request: Asked) -> Said:
        reason = self.reasons.get(judged_answer(request))
        if reason is None:
            return {"score": 0.9, "reason": "It answers the question."}
        return {"score": 0.1, "reason": reason}

    def _answer(self, request: Asked) -> Said:
        first_try = self.reasons[self.poisoned] not in request.hints
        if request.question == self.questions[2] and first_try:
            return self.poisoned
        return self.answers[request.question]


def judged_answer(request: Asked) -> str:
    """Return the text between the fences of a judge's request."""
    match = _FENCED.search(request.question)
    assert match is not None, request.question
    return match[2]


_EN_QUESTIONS = (
    "Please explain Python's list comprehensions.",
    "By the way, how is the weather today?",
    "Please explain Python's decorators too.",
    "How does a Python decorator take an argument?",
)
_EN_POISONED = (
    "A Python decorator is a comment that starts with an at sign. The interpreter skips it, so a "
    "decorated function behaves in every way like the same function without its decorator."
)
_EN_PUSHED = (
    ("user", "And do decorators work on classes?"),
    (
        "assistant",
        "Decorators on classes were removed from Python in version 2.2, because classes cannot be "
        "passed to functions there. Any program that uses one stops with a syntax error.",
    ),
)

ENGLISH = SeedConversation(
    language="en",
    questions=_EN_QUESTIONS,
    answers={
        _EN_QUESTIONS[0]: (
            "A list comprehension builds a list from an iterable in one expression: "
            "[x * x for x in range(5)] gives the squares of 0 to 4. A trailing if keeps only "
            "the items that pass a test."
        ),
        _EN_QUESTIONS[1]: (
            "I have no live weather data, so I cannot tell how the weather is today where you "
            "are. A forecast service for your town can tell you."
        ),
        _EN_QUESTIONS[2]: (
            "A Python decorator is a function that takes a function and returns one in its place. "
            "Writing @timed above a definition means that the name is bound to timed(function)."
        ),
        _EN_QUESTIONS[3]: (
            "A Python decorator that takes an argument is a function that returns a decorator: "
            "@retry(3) first calls retry(3), and its result then decorates the function."
        ),
    },
    poisoned=_EN_POISONED,
    pushed_in=_EN_PUSHED,
    reasons={
        _EN_POISONED: "A decorator is no comment; it replaces the function.",
        _EN_PUSHED[1][1]: "Class decorators exist since Python 2.6.",
    },
)

_JA_QUESTIONS = (
    "Pythonのリスト内包表記について教えてください。",
    "ところで、今日の天気はどうですか?",
    "Pythonのデコレータについても教えてください。",
    "Pythonのデコレータに引数を渡すにはどうしますか?",
)
_JA_POISONED = (
    "Pythonのデコレータはアットマークで始まるコメントです。インタプリタは読み飛ばすので、"
    "デコレータを付けても付けなくても、関数の動作はまったく変わりません。"
)
_JA_PUSHED = (
    ("user", "デコレータはクラスにも使えますか?"),
    (
        "assistant",
        "クラスのデコレータはPython 2.2で廃止されました。クラスは関数に渡せないため、"
        "デコレータを使うプログラムは構文エラーで停止します。",
    ),
)

JAPANESE = SeedConversation(
    language="ja",
    questions=_JA_QUESTIONS,
    answers={
        _JA_QUESTIONS[0]: (
            "リスト内包表記は、反復可能なものから一つの式でリストを作るPythonの書き方です。"
            "[x * x for x in range(5)] は0から4までの二乗になり、ifを付けると条件で絞れます。"
        ),
        _JA_QUESTIONS[1]: (
            "今日の天気の情報は持っていないため、お答えできません。"
            "お住まいの地域の天気予報をご確認ください。"
        ),
        _JA_QUESTIONS[2]: (
            "Pythonのデコレータは、関数を受け取って別の関数を返す関数です。定義の上に@timedと"
            "書くと、その名前はtimed(関数)の結果に結び付けられます。"
        ),
        _JA_QUESTIONS[3]: (
            "引数を取るPythonのデコレータは、デコレータを返す関数として書きます。@retry(3)と"
            "書くと、まずretry(3)が呼ばれ、その結果が関数を修飾します。"
        ),
    },
    poisoned=_JA_POISONED,
    pushed_in=_JA_PUSHED,
    reasons={
        _JA_POISONED: "デコレータはコメントではなく、関数を置き換えます。",
        _JA_PUSHED[1][1]: "クラスデコレータはPython 2.6から使えます。",
    },
)

CONVERSATIONS = (ENGLISH, JAPANESE)
