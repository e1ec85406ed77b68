"""The event log of whole conversations: events in order, and the transcript from them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, ToolMessage

from tests.events.events_kit import as_stored
from tests.graph.back_kit import SHIFTS
from tests.graph.kit import GOOD, Numbered, config, make, scores
from tests.graph.test_topics import ENGLISH
from tests.reading import events_of, handle_of, replayed, said, state_of, stored_items
from tests.threads import registry_of
from unsay.conversation.conversation import Conversation
from unsay.effects import drive
from unsay.errors import (
    EventConflictError,
    EventLogGapError,
    InputError,
    UnknownToolResultError,
)
from unsay.events.event_types import Stamp, make_event, planner_note
from unsay.messages.annotations import spoken
from unsay.moves.reconcile import logged_messages
from unsay.results.results import Checkpoint
from unsay.settings.settings import Context
from unsay.storage.event_log import make_page, put_pages
from unsay.storage.items import frozen
from unsay.storage.pages import EMPTY
from unsay.testing import ScriptedChat, ScriptedJudge, ToolCalls
from unsay.types import Event

ROOT = Path(__file__).parents[2]
TURN = ["user_message", "assistant_message", "verdict", "checkpoint"]
ASKING = {"on_exhausted": "ask", "max_rollbacks": 0}
Opening = Callable[..., Conversation]


def types(events: Sequence[Event]) -> list[str]:
    """What happened."""
    return [event["type"] for event in events]


def data_of(events: Sequence[Event], *kinds: str) -> list[dict[str, Any]]:
    """The data of the events of some types."""
    return [event["data"] for event in events if event["type"] in kinds]


def pages(conversation: Conversation) -> int:
    """How many pages the store holds."""
    return len(stored_items(conversation.graph.store, "events"))


def check_events(conversation: Conversation) -> list[Event]:
    """The events, once they have made the transcript and the checkpoints again."""
    events = registry_of(conversation).events()
    log = replayed(events)
    assert as_stored(conversation.messages()) == as_stored(log.messages)
    assert list(conversation.checkpoints()) == list(map(Checkpoint.of, log.checkpoints))
    assert len(events) == len({event["id"] for event in events})
    return events


def message_ids(conversation: Conversation) -> list[str]:
    """The transcript's message ids."""
    return [message.id or "" for message in conversation.messages()]


def edit(conversation: Conversation, *messages: Any) -> None:
    """What a host writes to the transcript itself."""
    conversation.graph.update_state(
        config("t"), {"messages": list(messages)}, as_node="create_checkpoint"
    )


def test_a_plain_turn_is_one_page(open_thread: Opening) -> None:
    """Question, answer, verdict and checkpoint, of one run and turn, in one item of the store."""
    conversation = open_thread(context=Context(labels={"tenant": "a"}))

    sizes = []
    for number in range(3):
        conversation.say(f"question {number}")
        sizes.append(pages(conversation))

    events = check_events(conversation)
    assert [1, 2, 3] == sizes
    assert TURN * 3 == types(events)
    assert [run.run_id for run in registry_of(conversation).runs().runs] == [
        e["run_id"] for e in events
    ][::4]
    assert message_ids(conversation)[::2] == [e["turn_id"] for e in events][::4]
    assert {("t", "a", 4)} == {
        (e["thread_id"], e["labels"]["tenant"], [x["run_id"] for x in events].count(e["run_id"]))
        for e in events
    }


def trains(to: str) -> str:
    """Tell when the next train leaves."""
    return f"10:15 to {to}"


def broken(to: str) -> str:
    """Tell nothing."""
    raise ValueError(f"no trains to {to}")


CALLS = [{"name": "trains", "args": {"to": "京都"}}, {"name": "broken", "args": {"to": "Mars"}}]
ASK = ToolCalls(calls=CALLS, then="It leaves at {result}.", text="Let me see.")
TOOL_TURN = ["user_message", "assistant_message", "tool_call", "tool_call"]
TOOL_TURN += ["tool_result", "tool_result", "assistant_message", "verdict", "checkpoint"]


def test_a_turn_with_parallel_and_failed_calls(open_thread: Opening) -> None:
    """Each call and each result is an event, the failed one among them, in one page."""
    conversation = open_thread(
        ScriptedChat(replies={"train": ASK}), ScriptedJudge(), tools=[trains, broken]
    )

    conversation.say("When is the train?")

    events = check_events(conversation)
    assert (TOOL_TURN, 1) == (types(events), pages(conversation))
    calls = [data["call"] for data in data_of(events, "tool_call")]
    results = [data["message"]["data"] for data in data_of(events, "tool_result")]
    assert ["trains", "broken"] == [call["name"] for call in calls]
    assert [call["id"] for call in calls] == [result["tool_call_id"] for result in results]
    assert ["success", "error"] == [result["status"] for result in results]


def test_a_rejected_draft_is_told_and_taken_back(open_thread: Opening) -> None:
    """Its words, its verdict and its rollback stand before the answer's; the branch holds it."""
    conversation = open_thread(judge=scores(0.1, 0.9))

    conversation.say("q")

    events = check_events(conversation)
    (rollback,) = data_of(events, "rollback")
    drafts = ["user_message", "assistant_message", "verdict", "rollback"]
    assert [*drafts, *TURN[1:]] == types(events)
    assert (rollback["drafts"], "draft", message_ids(conversation)[:1]) == (
        rollback["removed"],
        rollback["kind"],
        rollback["keep"],
    )
    branch = replayed(events).branches[rollback["branch_id"]]
    assert ["ai: This is draft 1, about what was asked."] == said(branch)


def test_a_rejected_draft_leaves_its_finished_tool_steps(open_thread: Opening) -> None:
    """The answer that failed is in the event log alone; the steps are delivered with the next one."""
    chat = ScriptedChat(replies={"train": [ToolCalls(calls=CALLS, then="Fish."), GOOD]})
    conversation = open_thread(chat, ScriptedJudge(scores={"Fish": 0.1}), tools=[trains, broken])

    conversation.say("When is the train?")

    events = check_events(conversation)
    assert ["user_message", "assistant_message", "verdict", "rollback", *TOOL_TURN[1:]] == types(
        events
    )
    assert 1 == len(data_of(events, "rollback")[0]["drafts"])


def test_the_best_of_bad_drafts(open_thread: Opening) -> None:
    """All drafts have events; the delivered one is in the transcript again."""
    conversation = open_thread(judge=scores(0.9, 0.3, 0.2, 0.1))

    conversation.say("q1")
    conversation.say("q2")

    events = check_events(conversation)
    kinds = [data["kind"] for data in data_of(events, "rollback", "restore")]
    assert ["draft", "draft", "rejected"] == sorted(kinds)
    assert "ai: This is draft 2, about what was asked." == said(conversation.messages())[-1]


def test_documents_that_are_set_aside(open_thread: Opening) -> None:
    """A document has its verdict; a failed one stays in the transcript."""
    conversation = open_thread(judge=scores(0.9, 0.1, 0.9))

    conversation.say("What is a list?", documents=["Lists hold things.", "Fish swim."])

    events = check_events(conversation)
    assert [] == data_of(events, "rollback")
    outcomes = [data["annotation"]["outcome"] for data in data_of(events, "verdict")]
    assert ["passed", "failed", "passed"] == outcomes
    assert ["human: Fish swim.", "human: What is a list?"] == said(conversation.messages())[1:3]


def test_an_injected_answer_that_is_judged_down(open_thread: Opening) -> None:
    """An injected message has events for its entry, its verdict and its removal."""
    conversation = open_thread(judge=scores(0.9, 0.1, 0.9))
    conversation.say("q1")
    conversation.add([HumanMessage("Is it so?", id="h"), AIMessage("It is fish.", id="a")])
    waiting = check_events(conversation)

    conversation.say("q2")

    events = check_events(conversation)
    (rollback,) = data_of(events, "rollback")
    assert [*TURN, "user_message", "assistant_message"] == types(waiting)
    assert ("context", ["h", "a"]) == (rollback["kind"], rollback["removed"])
    assert types(waiting) == types(events)[: len(waiting)]
    assert ["h", "a"] == [
        message.id for message in replayed(events).branches[rollback["branch_id"]]
    ]
    assert ["human: q1", "human: q2"] == said(spoken(conversation.messages()))[::2]


def test_a_compaction_is_on_the_stream(open_thread: Opening) -> None:
    """A change of subject tells which topic views leave out, and up to which message."""
    conversation = open_thread(
        ScriptedChat(replies=ENGLISH), ScriptedJudge(), settings={"summaries": "local"}
    )
    first, second, third = ENGLISH
    conversation.say(first)

    conversation.say(second)

    events = check_events(conversation)
    (compaction,) = data_of(events, "compaction")
    assert message_ids(conversation)[1] == compaction["through"]
    assert ("topic-1", True) == (
        compaction["topic_id"],
        "list comprehensions" in compaction["summary"],
    )
    assert ["user_message", "compaction", "assistant_message"] == types(events)[4:7]
    conversation.say(third)
    assert ["topic-1", "topic-2"] == [
        data["topic_id"] for data in data_of(check_events(conversation), "compaction")
    ]


@pytest.mark.parametrize("door", ["command", "order"])
def test_checkpoints_rollbacks_and_undos_of_a_person(open_thread: Opening, door: str) -> None:
    """A typed command and a call give the same events; an undo restores."""
    conversation = open_thread()
    conversation.say("q1")
    conversation.say("/checkpoint here") if door == "command" else conversation.checkpoint("here")
    conversation.say("q2")
    conversation.say("/rollback here") if door == "command" else conversation.rollback("here")
    remaining_events = check_events(conversation)
    conversation.say("/undo") if door == "command" else conversation.undo()

    events = check_events(conversation)
    (rollback,) = data_of(events, "rollback")
    (restored,) = data_of(events, "restore")
    assert [rollback["branch_id"]] == restored["branch_ids"]
    assert [] == data_of(remaining_events, "restore")
    ids = [data["message"]["data"]["id"] for data in data_of(events, *TURN[:2])]
    assert len(set(ids)) == len(ids)
    assert "here" in [data["checkpoint"]["name"] for data in data_of(events, "checkpoint")]
    assert "human: q2" in said(conversation.messages())


def test_an_order_has_no_run(open_thread: Opening) -> None:
    """What is done from outside names the turn it follows, and no run."""
    conversation = open_thread()
    conversation.say("q1")
    conversation.checkpoint("here")
    conversation.rollback("here")
    registry_of(conversation).note("looked at", labels={"by": "host"})

    events = check_events(conversation)[len(TURN) :]
    assert [None] * len(events) == [event["run_id"] for event in events]
    assert "planner_note" == events[-1]["type"]
    assert {"by": "host"} == events[-1]["labels"]


def test_an_undone_turn_and_what_is_said_then(open_thread: Opening) -> None:
    """Undo over undo, with turns between, replays after each step and after a restart."""
    conversation = open_thread()
    for step in ("q1", "q2", "undo", "q3", "undo", "undo", "q4"):
        conversation.undo() if step == "undo" else conversation.say(step)
        check_events(conversation)
    second_conversation = open_thread()
    second_conversation.undo()

    assert 4 == len(data_of(check_events(second_conversation), "rollback", "restore"))


def test_events_keep_their_ids(open_thread: Opening) -> None:
    """An event that was read before its page was written keeps its id."""
    conversation = open_thread()
    conversation.say("q1")
    conversation.add([HumanMessage("Is it so?"), AIMessage("It is, as far as I can see.")])
    waiting = [event["id"] for event in registry_of(conversation).events()]
    assert waiting == [event["id"] for event in registry_of(conversation).events()]
    conversation.say("q2")
    assert waiting == [event["id"] for event in registry_of(conversation).events()][: len(waiting)]


def test_a_note_enters_once(open_thread: Opening) -> None:
    """The same note under an id of the host's is one event; another one under it is refused."""
    conversation = open_thread()
    conversation.say("q")

    assert [True, False] == [
        registry_of(conversation).note("seen", event_id="n1") for _ in range(2)
    ]
    with pytest.raises(EventConflictError, match="n1"):
        registry_of(conversation).note("heard", event_id="n1")
    conversation.say("q2")

    events = check_events(conversation)
    assert [*TURN, "planner_note", *TURN] == types(events)
    assert "n1" == events[4]["id"]
    assert "seen" not in str([said([m]) for m in conversation.messages()])


@pytest.mark.parametrize(
    "wrong",
    [{"event_id": ""}, {"event_id": " "}, {"labels": {"": "x"}}],
    ids=["no-id", "spaces", "no-name"],
)
def test_a_note_with_an_empty_name_is_refused(open_thread: Opening, wrong: Any) -> None:
    """An id or a label's name that nobody can ask for is refused, and nothing is stored."""
    conversation = open_thread()
    conversation.say("q")
    before = registry_of(conversation).events()
    with pytest.raises(InputError):
        registry_of(conversation).note("seen", **wrong)
    assert before == registry_of(conversation).events()


def test_a_log_without_the_states_messages_is_damaged(open_thread: Opening) -> None:
    """Messages that a state had and the event log lacks are named as a gap of the log."""
    conversation = open_thread(settings={"live_messages": 4}, detector=SHIFTS)
    for number in range(6):
        conversation.say(f"NEW q{number}")
    state: Any = state_of(conversation)
    scope = handle_of(conversation).scope()
    assert state["messages"] == drive(logged_messages(state, scope))
    state["event_log"] = {**state["event_log"], "live": [[7_000, 7_001]]}
    with pytest.raises(EventLogGapError):
        drive(logged_messages(state, scope))


def test_a_persons_guidance_is_a_note(open_thread: Opening) -> None:
    """What a person asks of the next attempt is in the event log, and not in the transcript."""
    conversation = open_thread(judge=scores(0.1, 0.9), settings=ASKING)
    conversation.say("q")

    conversation.resume({"decisions": [{"type": "respond", "message": "Be shorter, 短く."}]})

    events = check_events(conversation)
    assert [{"text": "Be shorter, 短く."}] == data_of(events, "planner_note")
    assert "短く" not in str(said(conversation.messages()))
    assert ["draft"] == [data["kind"] for data in data_of(events, "rollback")]


@pytest.mark.parametrize("decision", ["approve", "reject", {"type": "edit", "args": "Eight."}])
def test_a_persons_decision(open_thread: Opening, decision: Any) -> None:
    """Every decision about rejected drafts replays."""
    conversation = open_thread(judge=scores(0.9, 0.1), settings=ASKING)
    conversation.say("q1")
    conversation.say("q2")
    check_events(conversation)

    conversation.resume(decision if isinstance(decision, str) else {"decisions": [decision]})
    conversation.say("q3")

    check_events(conversation)


ANSWER_EDITS: list[Any] = [
    pytest.param(lambda m: m.model_copy(update={"additional_kwargs": {"up": 1}}), id="aside"),
    pytest.param(lambda m: m.model_copy(update={"response_metadata": {"own": 1}}), id="metadata"),
    pytest.param(lambda m: m.model_copy(update={"name": "Ada"}), id="name"),
    pytest.param(
        lambda m: m.model_copy(
            update={"usage_metadata": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}}
        ),
        id="usage",
    ),
    pytest.param(
        lambda m: m.model_copy(update={"content": [{"type": "text", "text": m.text}]}), id="form"
    ),
]
REPLACED_ANSWERS: list[Any] = [
    pytest.param(lambda m: m.model_copy(update={"content": "Other words."}), id="words"),
    pytest.param(
        lambda m: m.model_copy(update={"content": [{"type": "text", "text": "A"}]}), id="blocks"
    ),
    pytest.param(lambda m: RemoveMessage(m.id), id="removed"),
]


@pytest.mark.parametrize("change", ANSWER_EDITS)
def test_a_host_that_changes_the_record_itself(
    open_thread: Opening, change: Callable[[AnyMessage], Any]
) -> None:
    """An answer with the same words and other data is in the event log at once and later."""
    conversation = open_thread(judge=scores(0.5, 0.5))
    conversation.say("q1")
    edit(conversation, change(conversation.messages()[-1]))

    waiting = check_events(conversation)
    conversation.say("q2")

    assert 1 == len(data_of(waiting, "edit"))
    assert "edit" == waiting[-1]["type"]
    events = check_events(conversation)
    assert 1 == len(data_of(events, "edit"))
    assert waiting[:-1] == events[: len(waiting) - 1]


@pytest.mark.parametrize("change", REPLACED_ANSWERS)
def test_a_host_that_replaces_or_removes_an_answer(
    open_thread: Opening, change: Callable[[AnyMessage], Any]
) -> None:
    """The event log tells that the old answer became a branch, and what stands in its place."""
    conversation = open_thread(judge=scores(0.5, 0.5))
    conversation.say("q1")
    old = conversation.messages()[-1]
    before = registry_of(conversation).events()
    new_message = change(old)
    edit(conversation, new_message)

    waiting = check_events(conversation)
    conversation.say("q2")

    in_place = [] if new_message.type == "remove" else ["assistant_message"]
    assert ["rollback", *in_place] == types(waiting[len(before) :])
    events = check_events(conversation)
    (host_rollback,) = data_of(events, "rollback")
    assert ("host", [old.id]) == (host_rollback["kind"], host_rollback["removed"])
    assert said([old]) == said(replayed(events).branches[host_rollback["branch_id"]])
    assert [*before, waiting[len(before)]] == events[: len(before) + 1]


def test_a_host_that_changes_a_tools_arguments(open_thread: Opening) -> None:
    """A call and a result that a host rewrote are in the event log as rewritten."""
    conversation = open_thread(
        ScriptedChat(replies={"train": ASK}), ScriptedJudge(), tools=[trains, broken]
    )
    conversation.say("When is the train?")
    _, call, result, *_ = conversation.messages()
    assert isinstance(call, AIMessage)
    assert isinstance(result, ToolMessage)

    calls = [{**call, "args": {"to": "大阪"}} for call in call.tool_calls]
    edit(conversation, call.model_copy(update={"tool_calls": calls}))
    check_events(conversation)
    edit(conversation, result.model_copy(update={"status": "error", "artifact": {"rows": [1]}}))

    assert "edit" == types(check_events(conversation))[-1]


def test_a_restart_makes_no_edit(open_thread: Opening) -> None:
    """Messages read from the file count like those that were written, for any content."""
    odd = AIMessage(
        [{"type": "text", "text": "It is odd, 🙈."}, {"type": "image", "data": "aGk="}],
        additional_kwargs={"a": [1, 2.5, None, {"b": "c"}], "nan": float("inf")},
        response_metadata={"logprobs": {"x": (1, 2)}, "model_name": "m"},
        usage_metadata={"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
    )
    open_thread(lambda _: odd.model_copy()).say("q1")
    open_thread(ScriptedChat(default=ASK), ScriptedJudge(), tools=[trains, broken]).say("train?")
    conversation = open_thread()
    conversation.say("Thank you, and goodbye.")

    assert [] == data_of(check_events(conversation), "edit")


def test_a_page_that_was_never_committed_does_not_count(open_thread: Opening) -> None:
    """A page in the store that no state leads to is not reached, and the next one follows on."""
    conversation = open_thread()
    conversation.say("q1")
    store: Any = conversation.graph.store
    head = conversation.graph.get_state(config("t")).values["event_log"]
    position = head
    page = make_page(
        position, [make_event(*planner_note("lost"), stamp=Stamp(thread_id="t", at="2026-01-01"))]
    )
    drive(_write_page(store, page))
    conversation.say("q2")

    assert 3 == pages(conversation)
    assert TURN * 2 == types(check_events(conversation))


def _write_page(store: Any, page: Any) -> Any:
    yield from put_pages(store, "t", [page])


CRASH = """
import os, signal, sys
from unsay.conversation.conversation import Conversation
from unsay.storage.sqlite import open_database

database = open_database(sys.argv[1])
def dies(*_):
    os.kill(os.getpid(), signal.SIGKILL)
database.saver.put = dies
model, judge = lambda _: "An answer that is never committed.", lambda _: 0.9
Conversation.open(database, thread="t", model=model, judge=judge).say("q1")
"""


@pytest.mark.full
def test_a_crash_between_page_and_commit(open_thread: Opening, tmp_path: Path) -> None:
    """Killed when the page is there and the turn is not, the next process tells one turn once."""
    process = subprocess.run(
        [sys.executable, "-c", CRASH, str(tmp_path / "t.db")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert -signal.SIGKILL == process.returncode, process.stderr
    conversation = open_thread()
    remaining_pages = pages(conversation)
    assert [] == list(registry_of(conversation).events())
    conversation.say("q1")

    assert 1 == remaining_pages
    assert (TURN, 2) == (types(check_events(conversation)), pages(conversation))
    assert ["human: q1", "ai: This is draft 1, about what was asked."] == said(
        conversation.messages()
    )


@pytest.mark.parametrize("door", ["invoke", "update_state"])
def test_a_fork_continues_the_event_log(open_thread: Opening, door: str) -> None:
    """LangGraph's time travel is a rollback in the event log, which replays both before and after it."""
    conversation = open_thread()
    conversation.say("q1")
    conversation.say("q2")
    main = check_events(conversation)
    ends = list(conversation.graph.get_state_history(config("t")))
    old = next(end for end in ends if len(end.values["messages"]) == 2 and not end.next)

    if door == "invoke":
        conversation.graph.invoke({"messages": [("user", "other")]}, old.config)
    else:
        conversation.graph.update_state(old.config, {"messages": [HumanMessage("other", id="h")]})
        fork = check_events(conversation)
        assert [*types(main), "rollback", "user_message"] == types(fork)
        conversation.say("another")

    fork = check_events(conversation)
    assert main == fork[: len(main)]
    assert "rollback" == fork[len(main)]["type"]
    events = events_of(ends[0].values, conversation.graph.store)
    assert as_stored(ends[0].values["messages"]) == as_stored(replayed(events).messages)


def _delete_page(store: Any, item: Any) -> None:
    store.delete(item.namespace, item.key)


def _empty_page(store: Any, item: Any) -> None:
    page = make_page(
        EMPTY, [make_event(*planner_note("nothing"), stamp=Stamp(thread_id="t", at="now"))]
    )
    store.put(item.namespace, item.key, {**item.value, "body": frozen(page.body or b"")})


def _change_count(store: Any, item: Any) -> None:
    store.put(item.namespace, item.key, {**item.value, "count": item.value["count"] + 1})


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("fault", [_delete_page, _empty_page, _change_count])
@pytest.mark.parametrize("item_index", [0, 1, 2])
def test_tampering_is_found(
    open_thread: Opening, fault: Callable[[Any, Any], None], item_index: int
) -> None:
    """A missing or changed page anywhere in the event log is a gap."""
    conversation = open_thread()
    for number in range(3):
        conversation.say(f"question {number}")
    store: Any = conversation.graph.store
    items = sorted(stored_items(store, "events"), key=lambda item: item.value["count"])
    fault(store, items[item_index])

    with pytest.raises(EventLogGapError, match="backup"):
        registry_of(conversation).events()


def test_another_threads_page_is_no_part_of_it(open_thread: Opening, tmp_path: Path) -> None:
    """Two threads of one file keep two event logs."""
    conversation = open_thread()
    conversation.say("q1")
    other_conversation = Conversation.open(
        tmp_path / "t.db", thread="t2", model=Numbered(), judge=scores()
    )
    other_conversation.say("q1")

    assert {"t"} == {event["thread_id"] for event in check_events(conversation)}
    assert {"t2"} == {event["thread_id"] for event in check_events(other_conversation)}
    other_conversation.close()


def test_each_run_can_be_replayed_to_its_end(open_thread: Opening) -> None:
    """The transcript as it stood when an earlier run ended follows from the events."""
    conversation = open_thread(judge=scores(0.9, 0.1, 0.9))
    transcripts = []
    for text in ("q1", "q2", "/rollback", "q3"):
        conversation.say(text)
        if not text.startswith("/"):  # a command is no run
            transcripts.append(as_stored(conversation.messages()))

    events = check_events(conversation)
    ends = [
        as_stored(replayed(events, run_id=run.run_id).messages)
        for run in registry_of(conversation).runs().runs
    ]
    assert transcripts == ends


@pytest.mark.parametrize("form", ["invoke", "ainvoke"])
async def test_a_plain_graph_keeps_an_event_log_in_memory(form: str) -> None:
    """A host's graph over an in-memory store writes the same pages, blocking or not."""
    graph = make(Numbered(), scores(0.9, 0.1, 0.9))
    for text in ("q1", "q2", "/undo"):
        value = {"messages": [("user", text)]}
        graph.invoke(value, config()) if form == "invoke" else await graph.ainvoke(value, config())

    values = graph.get_state(config()).values
    assert as_stored(values["messages"]) == as_stored(replayed(graph).messages)


def test_an_interrupted_question_that_is_set_aside() -> None:
    """A turn that failed for good leaves its question in the event log and in a branch."""
    failures = [ConnectionError("down")]

    def model(_: Any) -> str:
        if failures:
            raise failures.pop()
        return GOOD

    with Conversation.open(":memory:", model=model, judge=scores()) as conversation:
        with pytest.raises(Exception, match="could not be reached"):
            conversation.say("q1")
        conversation.say("q2")
        events = check_events(conversation)
    assert ["user_message", "user_message", "rollback", *TURN[1:]] == types(events)
    assert "interrupted" == data_of(events, "rollback")[0]["kind"]


ROWS = "行 row " * 2_000


def rows(about: str) -> str:
    """Tell very much."""
    return f"{about}: {ROWS}"


def test_a_large_tool_result_is_left_out_of_contexts_alone(
    open_thread: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model sees the beginning; transcript, event log and `tool_result` have the whole."""
    monkeypatch.setattr("unsay.context.view.RESULT_BYTES", 1_000)
    asks = ToolCalls(calls=[{"name": "rows", "args": {"about": "花"}, "id": "c1"}], then=GOOD)
    chat = ScriptedChat(replies={"rows": asks, "And": "Well, that is all there is to say of it."})
    options = {"tools": [rows]}
    conversation = open_thread(chat, ScriptedJudge(), **options)
    conversation.say("Show me the rows.")
    conversation.say("And then?")
    conversation = open_thread(chat, ScriptedJudge(), **options)

    texts = [m.text for call in chat.calls for m in call if m.type == "tool"]
    text = f"花: {ROWS}"
    assert [texts[0]] * 2 == texts
    transcript = json.loads(texts[0])
    assert (True, "size_limit", len(text.encode())) == (
        transcript["omitted"],
        transcript["reason"],
        transcript["bytes"],
    )
    assert text.startswith(transcript["preview"])
    assert len(texts[0].encode()) <= 1_000
    events = check_events(conversation)
    assert text == data_of(events, "tool_result")[0]["message"]["data"]["content"]
    assert text == conversation.tool_result("c1") == conversation.messages()[2].text
    with pytest.raises(UnknownToolResultError, match="'c9'"):
        conversation.tool_result("c9")


def test_a_tool_result_at_the_limit_is_shown(
    open_thread: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fits is sent as it is."""
    monkeypatch.setattr("unsay.context.view.RESULT_BYTES", len(f"花: {ROWS}".encode()))
    asks = ToolCalls(calls=[{"name": "rows", "args": {"about": "花"}}], then=GOOD)
    chat = ScriptedChat(replies={"rows": asks})
    conversation = open_thread(chat, ScriptedJudge(), tools=[rows])
    conversation.say("Show me the rows.")
    assert f"花: {ROWS}" == chat.calls[-1][-1].text
