"""An answer that was paid for and could not be saved reaches the caller, and is paid for once."""

import inspect
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from tests.graph.kit import config
from tests.reading import database_of
from unsay import AsyncConversation, Conversation
from unsay.errors import ConflictError, InputError, StorageError
from unsay.graph import build_graph
from unsay.history.unsaved_answers import UnsavedAnswer, UnsavedAnswers
from unsay.judging.verdict import unscored
from unsay.storage.sqlite import FileDatabase, FileSaver, FileStore, open_database
from unsay.testing import ScriptedChat, ScriptedJudge, ToolCalls


class Fault:
    """A disk that fails at the writes after the model's answer."""

    def __init__(self) -> None:
        self.answered = self.mended = False
        self.good = 0
        """Writes after the answer that still work."""

    def check(self) -> None:
        """Fail, or count one write that works."""
        if not self.answered or self.mended:
            return
        if self.good <= 0:
            raise sqlite3.OperationalError("disk I/O error")
        self.good -= 1


class Model:
    """A model that is paid for each call."""

    def __init__(self, fault: Fault) -> None:
        self.asked: list[str] = []
        self.fault = fault

    def __call__(self, messages: list[Any]) -> AIMessage:
        """Answer with the number of the call."""
        self.asked.append(messages[-1].text)
        self.fault.answered = True
        return AIMessage(f"Answer {len(self.asked)}.")


class FailingSaver(FileSaver):
    """A checkpointer on a file whose disk fails."""

    fault: Fault

    def put(self, *args: Any, **options: Any) -> Any:
        """Write, if the disk works."""
        self.fault.check()
        return super().put(*args, **options)

    def put_writes(self, *args: Any, **options: Any) -> Any:
        """Write, if the disk works."""
        self.fault.check()
        return super().put_writes(*args, **options)


class FailingStore(FileStore):
    """A store on the same file."""

    fault: Fault

    def batch(self, ops: Any) -> Any:
        """Write, if the disk works."""
        self.fault.check()
        return super().batch(ops)


class FailingMemory(InMemorySaver):
    """A host's own checkpointer that fails."""

    def __init__(self, fault: Fault) -> None:
        super().__init__()
        self.fault = fault

    def put(self, *args: Any, **options: Any) -> Any:
        """Write, if the disk works."""
        self.fault.check()
        return super().put(*args, **options)


def failing(path: Path, fault: Fault) -> FileDatabase:
    """Open a file whose writes fail once the model has answered."""
    database = open_database(path)
    assert isinstance(database, FileDatabase)
    database.saver.__class__ = FailingSaver
    database.store.__class__ = FailingStore
    database.saver.fault = database.store.fault = fault  # type: ignore[attr-defined]
    return database


@pytest.fixture
def fault() -> Fault:
    """The disk of a test."""
    return Fault()


@pytest.fixture
def model(fault: Fault) -> Model:
    """The model of a test."""
    return Model(fault)


@pytest.fixture
def database(tmp_path: Path, fault: Fault) -> Iterator[FileDatabase]:
    """A file that fails once the model has answered."""
    database_with_faults = failing(tmp_path / "t.db", fault)
    yield database_with_faults
    fault.mended = True
    database_with_faults.close()


def open_thread(database: Any, model: Model, **options: Any) -> Conversation:
    """Open the thread of a test."""
    judge = options.pop("judge", ScriptedJudge(default=0.9))
    return Conversation.open(database, thread="t", model=model, judge=judge, **options)


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("good", range(5))
@pytest.mark.parametrize("question", ["Where is the key?", "鍵はどこですか。"])
def test_the_same_turn_returns_the_answer(
    database: FileDatabase, fault: Fault, model: Model, good: int, question: str
) -> None:
    """Wherever saving fails, the error has the answer, and sent again the turn returns it."""
    fault.good = good
    judge = ScriptedJudge(default=0.9)
    conversation = open_thread(database, model, judge=judge)

    with pytest.raises(StorageError) as raises:
        conversation.say(question, turn_id="a")
    fault.mended = True
    reply = conversation.say(question, turn_id="a")

    assert "Answer 1." == raises.value.answer == reply.text
    assert ("answer", 0.9) == (reply.kind, reply.score)
    assert (1, 1) == (len(model.asked), len(judge.calls))
    assert [question, "Answer 1."] == [m.text for m in conversation.messages()]
    assert reply.text == conversation.say(question, turn_id="a").text
    assert "Answer 2." == conversation.say("Next").text


@pytest.mark.parametrize("good", range(3))
def test_the_answer_of_a_budget_is_not_lost(
    database: FileDatabase, fault: Fault, model: Model, good: int
) -> None:
    """Also where the first write that fails is that of the call's cost."""
    fault.good = good
    conversation = open_thread(database, model, settings={"session_budget_tokens": 100_000})

    with pytest.raises(StorageError) as raises:
        conversation.say("Hello", turn_id="a")
    fault.mended = True

    assert "Answer 1." == raises.value.answer == conversation.say("Hello", turn_id="a").text
    assert ["Hello"] == model.asked


def test_the_same_words_return_the_answer(
    database: FileDatabase, fault: Fault, model: Model
) -> None:
    """A person who repeats the question, or resumes the turn, has no id at hand."""
    conversation = open_thread(database, model)
    with pytest.raises(StorageError):
        conversation.say("Hello")
    fault.mended = True

    assert ("Answer 1.", ["Hello"]) == (conversation.say("Hello").text, model.asked)

    fault.mended = fault.answered = False
    with pytest.raises(StorageError):
        conversation.say("More")
    fault.mended = True
    assert ("Answer 2.", ["Hello", "More"]) == (conversation.resume().text, model.asked)


def test_another_question_gets_its_own_answer(
    database: FileDatabase, fault: Fault, model: Model
) -> None:
    """An unsaved answer belongs to its question alone, also in another thread."""
    conversation = open_thread(database, model)
    with pytest.raises(StorageError):
        conversation.say("Hello", turn_id="a")
    fault.mended = True
    elsewhere = Conversation.open(database, thread="other", model=model, judge=lambda _: 0.9)

    assert "Answer 2." == elsewhere.say("Hello", turn_id="a").text
    with pytest.raises(ConflictError):
        conversation.say("Goodbye", turn_id="a")
    assert "Answer 3." == conversation.say("Other", turn_id="b").text


def test_a_new_object_over_the_same_file_knows_the_answer(
    tmp_path: Path, database: FileDatabase, fault: Fault, model: Model
) -> None:
    """The process keeps the answer, not the conversation; another file has its own."""
    with pytest.raises(StorageError):
        open_thread(database, model).say("Hello", turn_id="a")
    with open_thread(tmp_path / "t.db", model) as conversation:
        assert "Answer 1." == conversation.say("Hello", turn_id="a").text
    with open_thread(tmp_path / "other.db", model) as conversation:
        assert "Answer 2." == conversation.say("Hello", turn_id="a").text


def test_the_caller_hands_the_answer_back(tmp_path: Path) -> None:
    """In another process the text from the error is saved, and no model or judge is called."""
    fault = Fault()
    model = Model(fault)
    judge = ScriptedJudge(default=0.1)

    with open_thread(tmp_path / "t.db", model, judge=judge) as conversation:
        reply = conversation.say("Hello", turn_id="a", answer="Answer 7.")
        second_reply = conversation.say("Hello", turn_id="a", answer="Another.")

        assert ("Answer 7.", "unscored", reply) == (reply.text, reply.outcome, second_reply)
        assert [] == model.asked
        assert ["Hello", "Answer 7."] == [m.text for m in conversation.messages()]
        for bad in ({"answer": "x"}, {"answer": " ", "turn_id": "b"}):
            with pytest.raises(InputError, match="turn_id"):
                conversation.say("Hello", **bad)


def test_the_flagged_answer_of_failed_drafts_is_returned(
    database: FileDatabase, fault: Fault, model: Model
) -> None:
    """Also the best of several failed drafts is delivered again, with its flag."""
    fault.good = 6
    conversation = open_thread(
        database, model, judge=ScriptedJudge(default=0.1), settings={"max_rollbacks": 0}
    )
    with pytest.raises(StorageError) as raises:
        conversation.say("Hello", turn_id="a")
    fault.mended = True

    reply = conversation.say("Hello", turn_id="a")

    assert (raises.value.answer, "low_quality") == (reply.text, reply.flag)
    assert 1 == len(model.asked)


async def test_async_code_has_the_answer(
    database: FileDatabase, fault: Fault, model: Model
) -> None:
    """`AsyncConversation` and its stream do the same."""
    conversation = AsyncConversation.open(database, thread="t", model=model, judge=lambda _: 0.9)
    with pytest.raises(StorageError) as raises:
        await conversation.say("Hello", turn_id="a")
    assert "Answer 1." == raises.value.answer
    fault.mended = True
    assert "Answer 1." == (await conversation.say("Hello", turn_id="a")).text

    fault.mended = fault.answered = False
    with pytest.raises(StorageError) as error_info:
        async for _ in conversation.stream("More", turn_id="b"):
            pass
    assert "Answer 2." == error_info.value.answer
    fault.mended = True
    events = [event async for event in conversation.stream("More", turn_id="b")]

    assert events[-1].reply is not None
    assert ("Answer 2.", ["Hello", "More"]) == (events[-1].reply.text, model.asked)


@pytest.mark.parametrize("store", [None, InMemoryStore()], ids=["no store", "store"])
@pytest.mark.parametrize("form", ["invoke", "ainvoke", "stream"])
async def test_a_host_has_the_answer(
    fault: Fault, model: Model, form: str, store: InMemoryStore | None
) -> None:
    """The error of a host's own checkpointer has the answer; the same message id returns it."""
    saver = FailingMemory(fault)
    graph = build_graph(model, judge=lambda _: 0.9, checkpointer=saver, store=store)
    value = {"messages": [HumanMessage("Hello", id=f"a-{form}")]}

    async def run() -> Any:
        if form == "ainvoke":
            return await graph.ainvoke(value, config(form))
        if form == "stream":
            return list(graph.stream(value, config(form), stream_mode="values"))[-1]
        return graph.invoke(value, config(form))

    with pytest.raises(sqlite3.OperationalError) as raises:
        await run()
    fault.mended = True
    state = await run()

    assert "Answer 1." == raises.value.answer  # type: ignore[attr-defined]
    assert ["Hello", "Answer 1."] == [m.text for m in state["messages"]]
    assert ["Hello"] == model.asked


@pytest.mark.parametrize("good", range(6))
def test_tools_do_not_run_again(database: FileDatabase, fault: Fault, good: int) -> None:
    """The tool steps of an unsaved answer are saved with it, in their order."""
    fault.good = good
    ran: list[str] = []

    def look(what: str) -> str:
        """Look at something."""
        ran.append(what)
        return "red"

    def judge(_: Any) -> float:
        fault.answered = True
        return 0.9

    calls = ToolCalls(calls=[{"name": "look", "args": {"what": "key"}}], then="It is {result}.")
    chat = ScriptedChat(replies={"key": calls})
    conversation = Conversation.open(database, thread="t", model=chat, judge=judge, tools=[look])

    with pytest.raises(StorageError) as raises:
        conversation.say("Which key?", turn_id="a")
    fault.mended = True
    reply = conversation.say("Which key?", turn_id="a")

    assert "It is red." == raises.value.answer == reply.text
    assert (["key"], 2) == (ran, len(chat.calls))
    assert ["human", "ai", "tool", "ai"] == [m.type for m in conversation.messages()]


def test_an_answer_is_for_a_later_run_only() -> None:
    """Runs at once, as two of one step of a parent graph, each give their own answer."""
    answers = UnsavedAnswers()
    store = InMemoryStore()
    verdict = unscored("nobody judged it")
    answer = UnsavedAnswer(question="How long?", draft=[AIMessage("Two days.")], verdict=verdict)

    def run() -> None:
        with answers.run(store, "t"):
            answers.keep(store, "t", "1", answer)
            assert answers.find(UnsavedAnswer, store, "t", "1", "How long?") is None
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        run()
    assert answer == answers.find(UnsavedAnswer, store, "t", "1", "How long?")


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("good", range(8))
@pytest.mark.parametrize("kind", [Conversation, AsyncConversation])
async def test_a_rejected_draft_is_paid_for_once(
    tmp_path: Path, fault: Fault, good: int, kind: Any
) -> None:
    """If saving fails after a rejected draft, the next run goes on with the second draft."""
    requests: list[str] = []

    def model(messages: list[Any]) -> str:
        requests.append("again" if "too short" in str(messages) else "first")
        fault.answered = True
        return "Two days are enough." if requests[-1] == "again" else "Days."

    def judge(messages: list[Any]) -> dict[str, Any]:
        is_first = "Two days" not in str(messages)
        return {"score": 0.1 if is_first else 0.9, "reason": "too short" if is_first else "good"}

    database = failing(tmp_path / "t.db", fault)
    fault.good = good
    conversation: Any = kind.open(database, thread="t", model=model, judge=judge)

    async def say() -> Any:
        reply: Any = conversation.say("How long?", turn_id="1")
        return await reply if inspect.isawaitable(reply) else reply

    with suppress(StorageError):
        await say()
    fault.mended = True
    reply = await say()

    assert "Two days are enough." == reply.text
    assert ["first", "again"] == requests
    database_of(conversation).close()
