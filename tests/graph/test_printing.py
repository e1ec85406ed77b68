"""Results print as text that a person reads, and notebooks show them as pictures and tables."""

import re
from collections.abc import Iterator
from contextlib import closing
from threading import Event, Thread
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from IPython.core.formatters import DisplayFormatter
from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from tests.reading import database_of
from tests.threads import registry_of
from unsay import Conversation, Registry, build_graph, evaluation, reversible
from unsay.context.plan import Omission
from unsay.errors import InputError
from unsay.orders.orders import NOT_IN_GRAPH
from unsay.storage.sqlite import open_database
from unsay.testing import ScriptedChat, ScriptedJudge, ToolCalls

REPLIES = {"Capital": ["Paris."], "Trains": ["Take the TGV."], "How long": ["Two days <b>fit</b>."]}


@pytest.fixture
def conversation() -> Iterator[Conversation]:
    """A thread of three turns, with a checkpoint after the first."""
    database = open_database(":memory:")
    model = ScriptedChat(replies=REPLIES)
    with Conversation.open(
        database, thread="trip", model=model, judge=ScriptedJudge()
    ) as conversation:
        conversation.say("Capital of France?")
        conversation.checkpoint("start")
        conversation.say("Trains to Paris?")
        conversation.say("How long should I stay?")
        yield conversation
    database.close()


def test_a_decision_without_a_draft_prints_what_is_asked() -> None:
    """The text of a reply about a budget is empty."""
    model = ScriptedChat(default="Two days.")
    small = {"session_budget_tokens": 100}
    with Conversation.open(
        ":memory:", model=model, judge=ScriptedJudge(), settings=small
    ) as conversation:
        reply = conversation.say("How long in Kyoto?")
    assert ("decision", "") == (reply.kind, reply.text)
    assert str(reply).startswith("This call would exceed the budget. Raise the limit to ")


def test_why_an_empty_draft_failed_is_in_the_language_of_the_question() -> None:
    """Lists of branches show the reason as it was stored."""
    model = ScriptedChat(replies={"京都": ["", "二日です。"]})
    with Conversation.open(":memory:", model=model, judge=ScriptedJudge()) as conversation:
        conversation.say("京都には何日いればいいですか?")
        (rejected,) = [branch for branch in conversation.branches() if branch.kind == "draft"]
    assert "モデルが何も返しませんでした。" == rejected.reason


def test_a_question_that_waits_is_in_the_tree() -> None:
    """Also while it is stored beside the transcript, as during its first model call or after a crash."""
    event = Event()
    go = Event()

    def answer(messages: list[AnyMessage]) -> str:
        if "Nara" in messages[-1].text:
            event.set()
            go.wait(30)
        return "Two days."

    with Conversation.open(":memory:", model=answer, judge=lambda _: 0.9) as conversation:
        conversation.say("How long in Kyoto?")
        turn = Thread(target=conversation.say, args=("And in Nara?",))
        turn.start()
        event.wait(30)
        timeline = conversation.timeline()
        go.set()
        turn.join()
        assert 1 == len(timeline.turns)
        assert str(timeline).endswith("\n   And in Nara? [waits for an answer]")
        assert "waits" not in str(conversation.timeline())


def test_a_first_question_that_waits_has_its_language() -> None:
    """The transcript is still empty while the first turn runs."""
    with Conversation.open(":memory:", thread="t", model=lambda _: "二日です。") as conversation:
        with closing(conversation.stream("京都は何日必要ですか?")) as events:
            next(events)
            text = str(conversation.timeline())
        assert text.splitlines()[0] == "スレッド t: 0ターン、0件のチェックポイント、0件のブランチ"
        assert text.endswith("京都は何日必要ですか? [回答待ち]")


@pytest.mark.parametrize(
    ("settings", "language"),
    [
        pytest.param(
            {"confirm_rollback": True},
            "The draft did not pass. Try again? If not, the draft is delivered. Reason: Wrong.",
            id="another draft",
        ),
        pytest.param(
            {"on_exhausted": "ask", "max_rollbacks": 1},
            "No draft passed. Deliver the best one, edit it, try again, or reject it? Reasons: Wrong.",
            id="the same reason twice",
        ),
    ],
)
def test_a_decision_about_drafts_names_each_reason_once(
    settings: dict[str, Any], language: str
) -> None:
    """And no messages, where only the draft is removed."""
    judge = ScriptedJudge(default={"score": 0.1, "reason": "Wrong."})
    model = ScriptedChat(default="A car.")
    with Conversation.open(":memory:", model=model, judge=judge, settings=settings) as conversation:
        request = conversation.say("How long in Kyoto?").request
    assert request is not None
    assert language == request["action_requests"][0]["description"]


def test_a_conversation_says_which_one_it_is() -> None:
    """In a log or a debugger, with its thread and its database."""
    with Conversation.open(":memory:", thread="trip") as conversation:
        assert "Conversation(thread='trip', database=':memory:')" == repr(conversation)


def test_a_registry_says_which_database_it_is_of() -> None:
    """Like a conversation."""
    with Registry.open(":memory:") as registry:
        assert "Registry(database=':memory:')" == repr(registry)


def test_a_preview_says_which_calls_cannot_be_undone() -> None:
    """A call that failed did nothing, so it is on neither list."""

    def send(to: str) -> str:
        """Send a mail."""
        return f"sent to {to}"

    @reversible(undo=lambda day: None)
    def book(day: str) -> str:
        """Book a day."""
        if day == "someday":
            raise ValueError(day)
        return f"booked {day}"

    calls = [
        {"name": "send", "args": {"to": "Ann"}},
        {"name": "book", "args": {"day": "someday"}},
        {"name": "book", "args": {"day": "Monday"}},
    ]
    model = ScriptedChat(default=ToolCalls(calls=calls, then="Done."))
    tools = [send, book]
    with Conversation.open(
        ":memory:", model=model, judge=ScriptedJudge(), tools=tools
    ) as conversation:
        conversation.say("Send a mail and book Monday.")
        assert str(conversation.preview(turns=1)).splitlines()[-2:] == [
            "calls to undo: book(day='Monday')",
            "effects that cannot be undone: send(to='Ann')",
        ]


def test_a_preview_and_a_rollback_print_what_is_removed(conversation: Conversation) -> None:
    """Both name the place, the sizes and the questions."""
    preview = str(conversation.preview("start")).splitlines()
    assert preview[0] == "Would roll back to checkpoint start. Nothing has been changed."
    assert preview[1].startswith("Turns: 2. Messages: 4. Tokens: ")
    assert preview[2:4] == ["  “Trains to Paris?”", "  “How long should I stay?”"]
    assert str(conversation.rollback("start")).splitlines() == [
        "The transcript ends at checkpoint start, after 1 turn.",
        "Messages removed: 4; restored: 0.",
        "First removed question: Trains to Paris?",
    ]


def test_a_timeline_prints_as_a_tree_and_shows_as_a_picture(conversation: Conversation) -> None:
    """The text is the tree of the terminal, the picture is SVG, the page has a table."""
    conversation.rollback("start")
    timeline = conversation.timeline()
    assert str(timeline).splitlines()[0] == "Thread trip: 1 turn, 1 checkpoint, 1 branch"
    assert "◆ start" in str(timeline)
    bundle = timeline._repr_mimebundle_()
    assert bundle["text/plain"] == str(timeline)
    assert ET.fromstring(bundle["image/svg+xml"]).tag.endswith("svg")  # noqa: S314 - our own text
    assert '<th scope="col">Checkpoint</th>' in bundle["text/html"]


def test_the_picture_of_a_thread_is_in_its_language() -> None:
    """A notebook shows a Japanese thread in Japanese, also when all its turns were removed."""
    model = ScriptedChat(default="京都は二日で十分です。")
    with Conversation.open(":memory:", model=model, judge=ScriptedJudge()) as conversation:
        conversation.say("京都には何日必要ですか?")
        assert "ja" == conversation.timeline().language
        assert ": 1ターン、" in str(conversation.timeline())
        assert "各ターンのスコア" in conversation._repr_mimebundle_()["image/svg+xml"]
        conversation.undo()
        assert "メッセージはまだありません。" in conversation._repr_mimebundle_()["image/svg+xml"]


def test_branches_and_a_diff_print_and_show_as_tables(conversation: Conversation) -> None:
    """Each row of a table is a branch, or a message that one side has alone; texts are escaped."""
    conversation.rollback("start")
    branch = conversation.branches()[1]
    diff = conversation.diff("live", branch.id)
    assert str(branch).startswith(f"{branch.id}  person  2 turns, 4 messages, ")
    assert "assistant: Two days <b>fit</b>." in str(diff)
    rows = ET.fromstring(branch._repr_html_()).findall("tbody/tr")  # noqa: S314 - our own text
    assert [[cell.text for cell in row][:4] for row in rows] == [[branch.id, "person", "2", "4"]]
    table = ET.fromstring(diff._repr_html_())  # noqa: S314 - our own text
    assert table.findtext("caption") == "Messages in common: 2"
    assert [row[2].text for row in table.findall("tbody/tr")][-3:-1] == [
        "How long should I stay?",
        "Two days <b>fit</b>.",
    ]


def test_a_status_and_a_summary_print(conversation: Conversation) -> None:
    """The status as the bottom line of the chat, and what was summarized with its summary."""
    assert str(conversation.tokens(spent=False)).splitlines()[-1].startswith("Context: ")
    omission = Omission(why="order", message_ids=("a", "b"), summary="They met.")
    assert str(omission) == "2 messages (order): They met."
    assert str(Omission(why="topic", message_ids=("a",))) == "1 message (topic)"


def test_tokens_and_status_of_a_japanese_thread_print_in_japanese() -> None:
    """As its timeline and its rollbacks do; a budget's line too."""
    settings = {"session_budget_tokens": 9_000}
    model = ScriptedChat(default="二日あれば足ります。")
    with Conversation.open(
        ":memory:", model=model, judge=ScriptedJudge(), settings=settings
    ) as conversation:
        conversation.say("京都には何日いればいいですか。")
        tokens = str(conversation.tokens())
        status = str(conversation.tokens(spent=False))
    assert status.startswith("話題: ")
    for text in (tokens, status):
        assert re.search(r"^コンテキスト", text, re.MULTILINE)
        assert not re.search("Context|Topic|Used|budget", text)


@pytest.mark.sample(every=2)
@pytest.mark.parametrize(
    "result",
    [
        pytest.param(lambda conversation: conversation.tokens(), id="tokens"),
        pytest.param(lambda conversation: conversation.tokens(spent=False), id="status"),
        pytest.param(lambda conversation: conversation.preview("start"), id="preview"),
        pytest.param(lambda conversation: conversation.rollback("start"), id="rollback"),
        pytest.param(lambda conversation: conversation.branches(), id="branches"),
        pytest.param(lambda conversation: conversation.checkpoints(), id="checkpoints"),
        pytest.param(lambda conversation: registry_of(conversation).runs(), id="runs"),
        pytest.param(lambda conversation: conversation.context(2), id="context"),
        pytest.param(lambda conversation: conversation.replay(turn=2), id="replay"),
        pytest.param(evaluation.bisect, id="bisect"),
        pytest.param(
            lambda conversation: Registry(conversation.graph.store).sessions(), id="sessions"
        ),
    ],
)
def test_a_notebook_shows_the_text_of_a_result(conversation: Conversation, result: Any) -> None:
    """Without pictures a cell shows what `print` does, not classes with all their fields."""
    shown_result = result(conversation)
    assert {"text/plain": str(shown_result)} == DisplayFormatter().format(shown_result)[0]


def test_usage_runs_threads_and_calls_print(conversation: Conversation) -> None:
    """Each prints one line for each row, without the names of Python classes."""
    registry = Registry(conversation.graph.store)
    assert str(conversation.tokens()).startswith("Context: ")
    assert [line.split("  ")[2] for line in str(registry_of(conversation).runs()).splitlines()] == [
        "completed"
    ] * 3
    assert str(registry_of(conversation).runs(limit=1)).splitlines()[1].startswith("More: cursor='")
    assert str(registry.sessions()).endswith("  trip  active  turns: 3  Capital of France?")
    assert str(registry.sessions(status="ended")) == "Nothing here."
    calls = str(conversation.context(2)).splitlines()
    assert calls[0] == "Turn 2: Trains to Paris?"
    assert calls[1].startswith("attempt 1, call 1: 3 messages, ")
    replay = str(conversation.replay(turn=1, model=ScriptedChat(default="Lyon."))).splitlines()
    assert replay[0] == "Turn 1, attempt 1: Capital of France?"
    assert replay[-1] == "Lyon."


def test_a_checkpoint_is_accepted_wherever_its_name_is(conversation: Conversation) -> None:
    """The object that `checkpoint()` returned can be given in place of its name, and prints as text."""
    start = next(
        checkpoint for checkpoint in conversation.checkpoints() if checkpoint.name == "start"
    )
    last = conversation.checkpoint("last")

    assert f"{start.id}  start  after turn 1, score 0.90, topic Capital" in str(start)
    assert (start.name, start.turn) == (start["name"], start["turn"])
    assert conversation.preview("start") == conversation.preview(start)
    assert conversation.diff("start").a == conversation.diff("start", "live").a
    assert conversation.diff(start, last).common == conversation.diff("start", "last").common
    assert (last,) == conversation.checkpoints(start_after=conversation.checkpoints()[-2])
    assert conversation.fork("start").messages() == conversation.fork(start).messages()
    assert start in conversation.timeline().checkpoints
    assert 1 == conversation.rollback(start).turns
    assert conversation.compact(start)


def test_lists_print_one_line_for_each_item(conversation: Conversation) -> None:
    """Checkpoints, branches, pins and matches are tuples that read like a table."""
    conversation.pins.add(turn=1)
    conversation.forget(turns=2)
    conversation.rollback("start")
    lists = (
        conversation.checkpoints(),
        conversation.branches(),
        conversation.pins.list(),
        conversation.recall("capital France"),
    )
    for item in (*lists, conversation.undo() and conversation.forgotten()):
        assert isinstance(item, tuple)
        assert len(item) == len(str(item).splitlines())
        assert not {"{", "Branch(", "Find("} & set(str(item).split("'"))
        assert "content=" not in str(item)
    conversation.ratings.add(2, "bad", note="too short")
    assert "2.  0.90  bad  Trains to Paris?  too short" == str(conversation.ratings.list())
    text = str(evaluation.judge(conversation, turn=2))
    assert "2. 0.90  passed  Trains to Paris?\n   scripted by default" == text
    assert "turn 1" in str(lists[0])
    assert "user: “Capital of France?”" in str(lists[3])


def test_a_closed_conversation(conversation: Conversation) -> None:
    """It says that it is closed, and what to do; so does a registry over the same database."""
    database = database_of(conversation)
    registry = Registry.open(database)
    database.close()
    reads = (registry.sessions, registry.runs, lambda: registry.purge("trip"))
    for use in (
        conversation.messages,
        conversation.undo,
        conversation.timeline,
        lambda: conversation.say("Hi?"),
        *reads,
    ):
        with pytest.raises(InputError, match="':memory:' was closed: open it again"):
            use()


@pytest.mark.sample(every=4)
@pytest.mark.parametrize("verb", sorted(NOT_IN_GRAPH))
def test_a_command_that_the_chat_does_not_have(conversation: Conversation, verb: str) -> None:
    """It is answered with a notice, in a chat over the compiled graph too; no model is asked."""
    before = len(conversation.messages())
    state = conversation.graph.invoke(
        {"messages": [("user", f"/{verb} branch-1")]},
        {"configurable": {"thread_id": conversation.thread_id}},
    )
    notice = state["messages"][-1].content
    assert notice.startswith(f"/{verb} is not available in this chat. Nothing was changed")
    assert len(conversation.timeline().turns) == before / 2


def test_the_language_is_that_of_words() -> None:
    """A message of signs or digits does not change the language of notices."""
    model = ScriptedChat(default="京都は二日で十分です。")
    with Conversation.open(":memory:", model=model, judge=ScriptedJudge()) as conversation:
        conversation.say("京都には何日必要ですか?")
        conversation.say("??? 123 :-)")
        assert "取り除きました" in conversation.say("/undo").text
        assert "ターン" in conversation.say("/rollback 1").text
        assert [] == conversation.messages()
        assert "復元しました" in conversation.say("/undo").text


def test_a_branch_counts_what_a_rollback_counts(conversation: Conversation) -> None:
    """Commands and their notices are not counted on the timeline."""
    conversation.say("/timeline")
    conversation.say("/tokens")
    assert 4 == len(conversation.preview("start").message_ids)
    assert 4 == conversation.rollback("start").removed
    assert "rolled back, 4 messages" in str(conversation.timeline())


def test_a_rollback_by_turns_gives_no_reason(conversation: Conversation) -> None:
    """The timeline says only once that messages were rolled back."""
    conversation.rollback(turns=1)
    (line,) = [line for line in str(conversation.timeline()).splitlines() if "×" in line]
    assert line.endswith("× rolled back, 2 messages")


WRONG_USES = """
/undo 3|/redo|/retry x|/edit|/edit x|/edit 9 何泊?|/edit 1|/remove|/remove 9|/remove x|/remove 1-2
/rollback 99|/rollback x|/rollback 0|/rollback -1|/checkpoint /x|/checkpoint live|/task
/compact 9|/compact x|/pin 9|/pin x y|/unpin 3|/unpin|/forget 9|/forget zzz|/forget 5-2
/recall|/recall zzz|/good 9|/good x|/bad 9 why|/lesson|/lesson 9 x|/lesson x|/unlearn
/unlearn 9|/same|/branches x|/timeline 3|/checkpoints x|/help x|/restore b|/purge
"""


@pytest.mark.sample(every=4)
@pytest.mark.parametrize(
    "line", [field for line in WRONG_USES.split("\n") for field in line.split("|") if field]
)
def test_a_wrong_use_in_japanese(line: str) -> None:
    """No refusal is half English, and none names a Python call."""
    model = ScriptedChat(default="京都は二日で十分です。")
    with Conversation.open(":memory:", model=model, judge=ScriptedJudge()) as conversation:
        conversation.say("京都には何日必要ですか?")
        text = conversation.say(line).text
    assert re.search("[ぁ-ん]", text)
    assert not re.search(r"[A-Za-z]{3,} [a-z]{2,}|\w\(\)|\w=", text)


def test_matches_in_japanese() -> None:
    """Matches of a recall say in Japanese who wrote them, and why they match."""
    model = ScriptedChat(default="東山と嵐山を回れます。")
    with Conversation.open(":memory:", model=model, judge=ScriptedJudge()) as conversation:
        conversation.say("京都には何日必要ですか?")
        lines = conversation.say("/recall 嵐山").text.splitlines()
        assert "ターン1 あなた: 「京都には何日必要ですか?」(一致したメッセージの前後)" in lines
        assert "ターン1 回答: 「東山と嵐山を回れます。」(「嵐山」を含む)" in lines


@pytest.mark.parametrize(
    ("message_text", "reason"),
    [
        ("", "メッセージが空です。文を入力してください"),
        (
            "あ" * 50,
            "メッセージが50文字で、上限の30文字を超えています。短くしてください",
        ),
        (
            f"/edit 1 {'あ' * 31}",
            "メッセージが31文字で、上限の30文字を超えています。短くしてください",
        ),
        (
            f"/lesson 1 {'あ' * 501}",
            "注意点は1文字以上500文字以内で入力してください(入力: 501文字)",
        ),
    ],
    ids=["empty", "too long", "too long an edit", "too long a lesson"],
)
def test_what_the_compiled_graph_refuses_in_japanese(
    message_text: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole notice is in the language of the thread, not only its end."""
    monkeypatch.setattr("unsay.transcript.pending.MESSAGE_CHARS", 30)
    model = ScriptedChat(replies={"京都": ["車を買いましょう。", "二日で十分です。"]})
    judge = ScriptedJudge(scores={"車": {"score": 0.1, "reason": "質問に答えていません。"}})
    graph = build_graph(model, judge=judge, checkpointer=InMemorySaver())
    config: RunnableConfig = {"configurable": {"thread_id": "t"}}
    graph.invoke({"messages": [("user", "京都には何日必要ですか?")]}, config)

    state = graph.invoke({"messages": [("user", message_text)]}, config)

    assert f"{reason}。何も変更していません。" == state["messages"][-1].text


def test_a_checkpoint_of_nothing_in_japanese() -> None:
    """Before the first answer there is no point to save."""
    with Conversation.open(
        ":memory:", model=ScriptedChat(), settings={"language": "ja"}
    ) as conversation:
        assert (
            "チェックポイントは回答のあとに作成できます。まだ回答がありません。何も変更していません。"
            == conversation.say("/checkpoint").text
        )


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("/pin 9", "ターン9はありません(全1ターン)。/timeline で一覧を表示できます"),
        ("/pin abc", "「abc」はターンではありません。"),
        ("/rollback 9", "9ターン分は戻れません。回答済みのターンは1件です"),
        ("/rollback 京都", "チェックポイント「京都」はありません。"),
        ("/redo", "やり直せる操作はありません"),
        ("/recall", "次の形で入力してください: /recall 検索語"),
        ("/edit", "次の形で入力してください: /edit N 新しい質問"),
        ("/unpin", "ピン留めされていません"),
        ("/forget 大阪", "「大阪」に一致するメッセージや話題はありません。"),
        ("/checkpoint live", "「live」は予約されています。"),
        (f"/checkpoint {'x' * 80}", f"「{'x' * 80}」はチェックポイントの名前に使えません。"),
    ],
)
def test_a_refusal_in_japanese(command: str, reason: str) -> None:
    """The reason is in the conversation's language, with the values of the English one."""
    model = ScriptedChat(default="京都は二日で十分です。")
    with Conversation.open(
        ":memory:", model=model, judge=ScriptedJudge(default=0.6)
    ) as conversation:
        conversation.say("京都には何日必要ですか?")
        text = conversation.say(command).text
        assert text.startswith(reason)
        assert text.endswith("。何も変更していません。")
        assert str(conversation.preview(turns=1)).splitlines() == [
            "会話の先頭に戻ります。まだ何も変更していません。",
            "1ターン、2件のメッセージ、13トークン(入力7、出力6)を取り除きます。",
            "  「京都には何日必要ですか?」",
        ]
        assert str(conversation.rollback(turns=1)).startswith("現在地: 会話の先頭(0ターン)")
