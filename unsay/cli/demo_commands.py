"""`unsay demo`: what unsay does, on a scripted conversation that needs no key.

Source: LayerX's article on forgetting (2025), its sample run (list comprehensions, the weather,
decorators, then an inserted exchange of low quality). Only words are scripted:
scores, topics, folds and rollbacks are what unsay makes of them.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from unsay.cli.output import print_json, versioned
from unsay.cli.session import event_object
from unsay.cli.strings import Labels
from unsay.cli.terminal import Screen, columns, wrapped
from unsay.conversation.conversation import Conversation
from unsay.conversation.results import Event
from unsay.conversation.tree import tree_text
from unsay.operations.commands import checkpoints_text
from unsay.prompts.fields import Texts
from unsay.settings import Settings
from unsay.testing import ScriptedChat
from unsay.types import Language


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One step of the demo."""

    title: str
    question: str
    replies: tuple[str, ...]
    """What the stand-in drafts, one for each attempt."""

    inserted: tuple[str, str] | None = None
    """A question and an answer put on the record before, without any model; `None` for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The whole script in one language."""

    heading: str
    acts: tuple[Act, ...]
    insertion: str
    checkpoints: str
    tree: str
    ending: str
    """Says where the conversation lies, or that it is gone; `{where}`."""

    kept: str
    """Where a database that was named keeps it; `{thread}`, `{db}`."""

    gone: str


def demo(*, lang: Language, db: str | None, as_json: bool) -> None:
    """Play the script and show what unsay makes of it."""
    script = scenario(lang)
    model = ScriptedChat(replies={act.question: list(act.replies) for act in script.acts})
    # The demo is the same everywhere: the environment's settings are not read, the rules judge.
    settings = Settings.model_construct(judging="local", language=lang)
    stage = _Objects() if as_json else _Terminal(lang)
    with tempfile.TemporaryDirectory(prefix="unsay-demo-") as folder:
        path = str(Path(folder) / "demo.db") if db is None else db
        with Conversation.open(path, model=model, settings=settings) as conversation:
            stage.begin(script, conversation)
            for number, act in enumerate(script.acts, 1):
                stage.raise_curtain(number, act, script)
                if act.inserted is not None:
                    asked, said = act.inserted
                    conversation.add([("user", asked), ("assistant", said)])
                for event in conversation.stream(act.question):
                    stage.show(event)
            where = script.gone
            if db is not None:
                where = script.kept.format(db=db, thread=conversation.thread_id)
            stage.end(script, conversation, where)


class _Terminal:
    """Shows the demo to a person; all of it is what was asked for, so all goes to one stream."""

    def __init__(self, lang: Language) -> None:
        self._lang = lang
        self._screen = Screen(Labels(lang), live=True, notes_apart=False)

    def begin(self, script: Scenario, conversation: Conversation) -> None:
        del conversation
        click.echo(wrapped(script.heading, columns=columns()))

    def raise_curtain(self, number: int, act: Act, script: Scenario) -> None:
        title = f"{number}. " + wrapped(act.title, columns=columns(), indent=3)
        click.echo("\n" + click.style(title, bold=True) + "\n")
        if act.inserted is not None:
            self._screen.note(script.insertion)
            for mark, words in zip("><", act.inserted, strict=True):
                self._screen.note(f"{mark} {words}")
            click.echo()
        click.echo("> " + wrapped(act.question, columns=columns(), indent=2))

    def show(self, event: Event) -> None:
        self._screen.show(event)

    def end(self, script: Scenario, conversation: Conversation, where: str) -> None:
        seen = conversation.timeline()
        for title, body in (
            (script.checkpoints, checkpoints_text(seen.checkpoints, Texts(self._lang))),
            (script.tree, tree_text(seen, color=True)),
        ):
            click.echo("\n" + click.style(title, bold=True) + f"\n\n{body}")
        click.echo("\n" + wrapped(script.ending.format(where=where), columns=columns()))


class _Objects:
    """Shows the demo to a program: one event a line."""

    def begin(self, script: Scenario, conversation: Conversation) -> None:
        self._print("demo", script.heading, {"thread_id": conversation.thread_id})

    def raise_curtain(self, number: int, act: Act, script: Scenario) -> None:
        del script
        if act.inserted is not None:
            asked, said = act.inserted
            self._print("added", "", {"question": asked, "answer": said})
        self._print("question", act.question, {"number": number, "title": act.title})

    def show(self, event: Event) -> None:
        print_json(event_object(event))

    def end(self, script: Scenario, conversation: Conversation, where: str) -> None:
        ending = script.ending.format(where=where)
        self._print("timeline", ending, conversation.timeline().to_dict())

    def _print(self, event: str, text: str, data: Mapping[str, Any]) -> None:
        print_json(versioned(event=event, text=text, message_id=None, data=data))


ENGLISH = Scenario(
    heading=(
        "The answers below come from a script: no model is asked and no key is needed. Everything "
        "else is computed here and now by unsay: the scores (by its rules), the topics, the "
        "summaries, the rollbacks and the checkpoints."
    ),
    insertion="Put on the record from outside, unjudged:",
    checkpoints="Checkpoints",
    tree="The whole conversation, and what was taken off it",
    ending="{where} For a conversation of your own: unsay chat",
    kept="Go on reading with: unsay timeline --db {db} --thread {thread}.",
    gone="The demo's file was temporary and is gone.",
    acts=(
        Act(
            title="A question. The answer is judged, and a good one becomes a checkpoint.",
            question="Please tell me about list comprehensions in Python.",
            replies=(
                "A list comprehension in Python builds a list in a single expression, such as "
                "`[x * x for x in numbers if x > 0]`. The part before `for` says what each element "
                "becomes, and an optional `if` leaves elements out. It replaces a loop that calls "
                "`append`, and is usually both shorter and a little faster. Once it no longer fits "
                "on one line, an ordinary loop is easier to read.",
            ),
        ),
        Act(
            title="Another subject. What was said before is folded away, with a summary.",
            question="By the way, how is the weather today?",
            replies=(
                "I cannot look outside from here, so I do not know today's weather where you are. "
                "Your national weather service, or the weather app on your phone, has the "
                "temperature and the chance of rain by the hour. If you tell me what it says, I "
                "can help you decide what to wear.",
            ),
        ),
        Act(
            title="Back to Python. The earlier topic is opened again; the weather is folded.",
            question="Please tell me about decorators in Python, too.",
            replies=(
                "A decorator in Python is a function that takes a function and returns another one "
                "in its place. Writing `@timed` above `def load():` means the same as "
                "`load = timed(load)`. Decorators are used for logging, caching and access checks, "
                "because they add behaviour without touching the function's body.",
            ),
        ),
        Act(
            title="A bad draft. It is judged, taken back, and the question is answered anew.",
            question="Show me a decorator that measures how long a function takes.",
            replies=(
                "I'm sorry, but I can't help with that.",
                "This decorator reads the clock before and after the call and prints the "
                "difference:\n\n"
                "    def timed(function):\n"
                "        @functools.wraps(function)\n"
                "        def wrapper(*args, **kwargs):\n"
                "            start = time.perf_counter()\n"
                "            try:\n"
                "                return function(*args, **kwargs)\n"
                "            finally:\n"
                "                print(time.perf_counter() - start)\n"
                "        return wrapper\n\n"
                "The `finally` makes sure that the time is measured even when the function raises "
                "an error.",
            ),
        ),
        Act(
            title="A bad exchange was put in. It is found, rolled back, and the question survives.",
            inserted=("Can a decorator take arguments?", "dunno lol, whatever"),
            question="How do I give a decorator arguments, for example a number of retries?",
            replies=(
                "Add one more layer: a function that takes the arguments and returns the "
                "decorator. `@retry(3)` first calls `retry(3)`, and what comes back decorates the "
                "function below it. The wrapper inside can use both the number of retries and the "
                "function.",
            ),
        ),
    ),
)

JAPANESE = Scenario(
    heading=(
        "以下の回答は台本によるものです。モデルは呼び出さず、鍵も要りません。それ以外、"
        "つまりスコア(規則による採点)、話題、要約、巻き戻し、チェックポイントは、"
        "すべてunsayがこの場で計算しています。"
    ),
    insertion="外から記録に差し込まれた、未評価の会話:",
    checkpoints="チェックポイント",
    tree="会話の全体と、取り除かれたもの",
    ending="{where}ご自身の会話は unsay chat で始められます。",
    kept="続きは unsay timeline --db {db} --thread {thread} で見られます。",
    gone="デモのファイルは一時的なもので、削除しました。",
    acts=(
        Act(
            title="最初の質問。回答は評価され、良い回答はチェックポイントになります。",
            question="Pythonのリスト内包表記について教えてください。",
            replies=(
                "リスト内包表記は、リストを一つの式で作るPythonの書き方です。たとえば "
                "`[x * x for x in numbers if x > 0]` は、正の数だけを二乗したリストになります。"
                "`append` を繰り返すループより短く書け、たいてい少し速く動きます。一行に収まらないほど"
                "複雑なときは、普通の `for` 文のほうが読みやすくなります。",
            ),
        ),
        Act(
            title="別の話題。それまでの話は要約とともにたたまれます。",
            question="ところで、今日の天気はどうですか?",
            replies=(
                "申し訳ありませんが、私は外の様子を見られないので、今日の天気は分かりません。"
                "気象庁のサイトやスマートフォンの天気アプリなら、気温や降水確率を時間ごとに確かめられます。"
                "予報を教えていただければ、服装や傘の要否を一緒に考えます。",
            ),
        ),
        Act(
            title="Pythonの話に戻ります。前の話題が開かれ、天気の話がたたまれます。",
            question="Pythonのデコレータについても教えてください。",
            replies=(
                "デコレータは、関数を受け取って別の関数を返すPythonの仕組みです。`def load():` の上に "
                "`@timed` と書くと、`load = timed(load)` と同じ意味になります。関数の中身を変えずに、"
                "ログの記録やキャッシュ、権限の確認を加えたいときに使います。",
            ),
        ),
        Act(
            title="悪い下書き。評価されて取り消され、質問には改めて回答します。",
            question="関数の実行時間を測るデコレータの例を見せてください。",
            replies=(
                "申し訳ありませんが、お手伝いできません。",
                "次のデコレータは、呼び出しの前後で時計を読み、その差を表示します。\n\n"
                "    def timed(function):\n"
                "        @functools.wraps(function)\n"
                "        def wrapper(*args, **kwargs):\n"
                "            start = time.perf_counter()\n"
                "            try:\n"
                "                return function(*args, **kwargs)\n"
                "            finally:\n"
                "                print(time.perf_counter() - start)\n"
                "        return wrapper\n\n"
                "`finally` に書いておけば、関数が例外を投げたときにも実行時間が表示されます。",
            ),
        ),
        Act(
            title="質の低い会話が差し込まれました。見つけて巻き戻し、質問は失われません。",
            inserted=("デコレータは引数を取れますか?", "さあ、知りません。"),
            question="再試行の回数のような引数をデコレータに渡すには、どうすればいいですか?",
            replies=(
                "もう一段、引数を受け取ってデコレータを返す関数を用意します。`@retry(3)` と書くと、"
                "まず `retry(3)` が呼ばれ、返ってきたデコレータがその下の関数に適用されます。"
                "内側の関数からは、再試行の回数と元の関数の両方を使えます。",
            ),
        ),
    ),
)


def scenario(language: Language) -> Scenario:
    """The script in one language."""
    return JAPANESE if language == "ja" else ENGLISH
