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
from unsay.storage.event_log import (
    EMPTY,
    Head,
    make_page,
    put_page,
)
from unsay.storage.items import frozen
from unsay.testing import ScriptedChat, ScriptedJudge, ToolCalls
from unsay.types import Event

ROOT = Path(__file__).parents[2]
TURN = ["user_message", "assistant_message", "verdict", "checkpoint"]
ASKING = {"on_exhausted": "ask", "max_rollbacks": 0}
Opening = Callable[..., Conversation]


def types(events: Sequence[Event]) -> list[str]:
    """What happened."""
    return [event["type"] for event in events]


def of(events: Sequence[Event], *kinds: str) -> list[dict[str, Any]]:
    """The data of the events of some types."""
    return [event["data"] for event in events if event["type"] in kinds]


def pages(conversation: Conversation) -> int:
    """How many pages the store holds."""
    return len(stored_items(conversation.graph.store, "events"))


def checked(conversation: Conversation) -> list[Event]:
    """The events, once they have made the transcript and the checkpoints again."""
    events = registry_of(conversation).events()
    again = replayed(events)
    assert as_stored(conversation.messages()) == as_stored(again.messages)
    assert list(conversation.checkpoints()) == list(map(Checkpoint.of, again.checkpoints))
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


def test_a_plain_turn_is_one_page(opened: Opening) -> None:
    """Question, answer, verdict and checkpoint, of one run and turn, in one item of the store."""
    conversation = opened(context=Context(labels={"tenant": "a"}))

    sizes = []
    for number in range(3):
        conversation.say(f"question {number}")
        sizes.append(pages(conversation))

    events = checked(conversation)
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


def test_a_turn_with_parallel_and_failed_calls(opened: Opening) -> None:
    """Each call and each result is an event, the failed one among them, in one page."""
    conversation = opened(
        ScriptedChat(replies={"train": ASK}), ScriptedJudge(), tools=[trains, broken]
    )

    conversation.say("When is the train?")

    events = checked(conversation)
    assert (TOOL_TURN, 1) == (types(events), pages(conversation))
    calls = [data["call"] for data in of(events, "tool_call")]
    results = [data["message"]["data"] for data in of(events, "tool_result")]
    assert ["trains", "broken"] == [call["name"] for call in calls]
    assert [call["id"] for call in calls] == [result["tool_call_id"] for result in results]
    assert ["success", "error"] == [result["status"] for result in results]


def test_a_rejected_draft_is_told_and_taken_back(opened: Opening) -> None:
    """Its words, its verdict and its rollback stand before the answer's; the branch holds it."""
    conversation = opened(judge=scores(0.1, 0.9))

    conversation.say("q")

    events = checked(conversation)
    (back,) = of(events, "rollback")
    drafts = ["user_message", "assistant_message", "verdict", "rollback"]
    assert [*drafts, *TURN[1:]] == types(events)
    assert (back["drafts"], "draft", message_ids(conversation)[:1]) == (
        back["removed"],
        back["kind"],
        back["keep"],
    )
    branch = replayed(events).branches[back["branch_id"]]
    assert ["ai: This is draft 1, about what was asked."] == said(branch)


def test_a_rejected_draft_leaves_its_finished_tool_steps(opened: Opening) -> None:
    """The answer that failed is in the event log alone; the steps are delivered with the next one."""
    chat = ScriptedChat(replies={"train": [ToolCalls(calls=CALLS, then="Fish."), GOOD]})
    conversation = opened(chat, ScriptedJudge(scores={"Fish": 0.1}), tools=[trains, broken])

    conversation.say("When is the train?")

    events = checked(conversation)
    assert ["user_message", "assistant_message", "verdict", "rollback", *TOOL_TURN[1:]] == types(
        events
    )
    assert 1 == len(of(events, "rollback")[0]["drafts"])


def test_the_best_of_bad_drafts(opened: Opening) -> None:
    """All drafts have events; the delivered one is in the transcript again."""
    conversation = opened(judge=scores(0.9, 0.3, 0.2, 0.1))

    conversation.say("q1")
    conversation.say("q2")

    events = checked(conversation)
    kinds = [each["kind"] for each in of(events, "rollback", "restore")]
    assert ["draft", "draft", "rejected"] == sorted(kinds)
    assert "ai: This is draft 2, about what was asked." == said(conversation.messages())[-1]


def test_documents_that_are_set_aside(opened: Opening) -> None:
    """A document has its verdict; a failed one stays in the transcript."""
    conversation = opened(judge=scores(0.9, 0.1, 0.9))

    conversation.say("What is a list?", documents=["Lists hold things.", "Fish swim."])

    events = checked(conversation)
    assert [] == of(events, "rollback")
    judged = [data["annotation"]["outcome"] for data in of(events, "verdict")]
    assert ["passed", "failed", "passed"] == judged
    assert ["human: Fish swim.", "human: What is a list?"] == said(conversation.messages())[1:3]


def test_an_injected_answer_that_is_judged_down(opened: Opening) -> None:
    """An injected message has events for its entry, its verdict and its removal."""
    conversation = opened(judge=scores(0.9, 0.1, 0.9))
    conversation.say("q1")
    conversation.add([HumanMessage("Is it so?", id="h"), AIMessage("It is fish.", id="a")])
    waiting = checked(conversation)

    conversation.say("q2")

    events = checked(conversation)
    (back,) = of(events, "rollback")
    assert [*TURN, "user_message", "assistant_message"] == types(waiting)
    assert ("context", ["h", "a"]) == (back["kind"], back["removed"])
    assert types(waiting) == types(events)[: len(waiting)]
    assert ["h", "a"] == [message.id for message in replayed(events).branches[back["branch_id"]]]
    assert ["human: q1", "human: q2"] == said(spoken(conversation.messages()))[::2]


def test_a_compaction_is_on_the_stream(opened: Opening) -> None:
    """A change of subject tells which topic views leave out, and up to which message."""
    conversation = opened(
        ScriptedChat(replies=ENGLISH), ScriptedJudge(), settings={"summaries": "local"}
    )
    first, second, third = ENGLISH
    conversation.say(first)

    conversation.say(second)

    events = checked(conversation)
    (summarized,) = of(events, "compaction")
    assert message_ids(conversation)[1] == summarized["through"]
    assert ("topic-1", True) == (
        summarized["topic_id"],
        "list comprehensions" in summarized["summary"],
    )
    assert ["user_message", "compaction", "assistant_message"] == types(events)[4:7]
    conversation.say(third)
    assert ["topic-1", "topic-2"] == [
        each["topic_id"] for each in of(checked(conversation), "compaction")
    ]


@pytest.mark.parametrize("by", ["command", "order"])
def test_checkpoints_rollbacks_and_undos_of_a_person(opened: Opening, by: str) -> None:
    """A typed command and a call give the same events; an undo restores."""
    conversation = opened()
    conversation.say("q1")
    conversation.say("/checkpoint here") if by == "command" else conversation.checkpoint("here")
    conversation.say("q2")
    conversation.say("/rollback here") if by == "command" else conversation.rollback("here")
    gone = checked(conversation)
    conversation.say("/undo") if by == "command" else conversation.undo()

    events = checked(conversation)
    (back,), (restored,) = of(events, "rollback"), of(events, "restore")
    assert [back["branch_id"]] == restored["branch_ids"]
    assert [] == of(gone, "restore")
    told = [data["message"]["data"]["id"] for data in of(events, *TURN[:2])]
    assert len(set(told)) == len(told)
    assert "here" in [each["checkpoint"]["name"] for each in of(events, "checkpoint")]
    assert "human: q2" in said(conversation.messages())


def test_an_order_has_no_run(opened: Opening) -> None:
    """What is done from outside names the turn it follows, and no run."""
    conversation = opened()
    conversation.say("q1")
    conversation.checkpoint("here")
    conversation.rollback("here")
    registry_of(conversation).note("looked at", labels={"by": "host"})

    events = checked(conversation)[len(TURN) :]
    assert [None] * len(events) == [event["run_id"] for event in events]
    assert "planner_note" == events[-1]["type"]
    assert {"by": "host"} == events[-1]["labels"]


def test_an_undone_turn_and_what_is_said_then(opened: Opening) -> None:
    """Undo over undo, with turns between, replays after each step and after a restart."""
    conversation = opened()
    for step in ("q1", "q2", "undo", "q3", "undo", "undo", "q4"):
        conversation.undo() if step == "undo" else conversation.say(step)
        checked(conversation)
    again = opened()
    again.undo()

    assert 4 == len(of(checked(again), "rollback", "restore"))


def test_events_keep_their_ids(opened: Opening) -> None:
    """An event that was read before its page was written keeps its id."""
    conversation = opened()
    conversation.say("q1")
    conversation.add([HumanMessage("Is it so?"), AIMessage("It is, as far as I can see.")])
    waiting = [event["id"] for event in registry_of(conversation).events()]
    assert waiting == [event["id"] for event in registry_of(conversation).events()]
    conversation.say("q2")
    assert waiting == [event["id"] for event in registry_of(conversation).events()][: len(waiting)]


def test_a_note_enters_once(opened: Opening) -> None:
    """The same note under an id of the host's is one event; another one under it is refused."""
    conversation = opened()
    conversation.say("q")

    assert [True, False] == [
        registry_of(conversation).note("seen", event_id="n1") for _ in range(2)
    ]
    with pytest.raises(EventConflictError, match="n1"):
        registry_of(conversation).note("heard", event_id="n1")
    conversation.say("q2")

    events = checked(conversation)
    assert [*TURN, "planner_note", *TURN] == types(events)
    assert "n1" == events[4]["id"]
    assert "seen" not in str([said([m]) for m in conversation.messages()])


@pytest.mark.parametrize(
    "wrong",
    [{"event_id": ""}, {"event_id": " "}, {"labels": {"": "x"}}],
    ids=["no-id", "spaces", "no-name"],
)
def test_a_note_with_an_empty_name_is_refused(opened: Opening, wrong: Any) -> None:
    """An id or a label's name that nobody can ask for is refused, and nothing is stored."""
    conversation = opened()
    conversation.say("q")
    before = registry_of(conversation).events()
    with pytest.raises(InputError):
        registry_of(conversation).note("seen", **wrong)
    assert before == registry_of(conversation).events()


def test_a_log_without_the_offloaded_messages_is_damaged(opened: Opening) -> None:
    """Messages that the state offloaded and the event log lacks are named as a gap of the log."""
    conversation = opened(settings={"live_messages": 4}, detector=SHIFTS)
    for number in range(6):
        conversation.say(f"NEW q{number}")
    known: Any = state_of(conversation)
    scope = handle_of(conversation).scope()
    assert known["messages"] == drive(logged_messages(known, scope))
    known["offloaded"] = {**known["offloaded"], "last": "another"}
    with pytest.raises(EventLogGapError):
        drive(logged_messages(known, scope))


def test_a_persons_guidance_is_a_note(opened: Opening) -> None:
    """What a person asks of the next attempt is in the event log, and not in the transcript."""
    conversation = opened(judge=scores(0.1, 0.9), settings=ASKING)
    conversation.say("q")

    conversation.resume({"decisions": [{"type": "respond", "message": "Be shorter, 短く."}]})

    events = checked(conversation)
    assert [{"text": "Be shorter, 短く."}] == of(events, "planner_note")
    assert "短く" not in str(said(conversation.messages()))
    assert ["draft"] == [each["kind"] for each in of(events, "rollback")]


@pytest.mark.parametrize("decision", ["approve", "reject", {"type": "edit", "args": "Eight."}])
def test_a_persons_decision(opened: Opening, decision: Any) -> None:
    """Every decision about rejected drafts replays."""
    conversation = opened(judge=scores(0.9, 0.1), settings=ASKING)
    conversation.say("q1")
    conversation.say("q2")
    checked(conversation)

    conversation.resume(decision if isinstance(decision, str) else {"decisions": [decision]})
    conversation.say("q3")

    checked(conversation)


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
    opened: Opening, change: Callable[[AnyMessage], Any]
) -> None:
    """An answer with the same words and other data is in the event log at once and later."""
    conversation = opened(judge=scores(0.5, 0.5))
    conversation.say("q1")
    edit(conversation, change(conversation.messages()[-1]))

    waiting = checked(conversation)
    conversation.say("q2")

    assert 1 == len(of(waiting, "edit"))
    assert "edit" == waiting[-1]["type"]
    events = checked(conversation)
    assert 1 == len(of(events, "edit"))
    assert waiting[:-1] == events[: len(waiting) - 1]


@pytest.mark.parametrize("change", REPLACED_ANSWERS)
def test_a_host_that_replaces_or_removes_an_answer(
    opened: Opening, change: Callable[[AnyMessage], Any]
) -> None:
    """The event log tells that the old answer became a branch, and what stands in its place."""
    conversation = opened(judge=scores(0.5, 0.5))
    conversation.say("q1")
    old = conversation.messages()[-1]
    before = registry_of(conversation).events()
    changed = change(old)
    edit(conversation, changed)

    waiting = checked(conversation)
    conversation.say("q2")

    in_place = [] if changed.type == "remove" else ["assistant_message"]
    assert ["rollback", *in_place] == types(waiting[len(before) :])
    events = checked(conversation)
    (left,) = of(events, "rollback")
    assert ("host", [old.id]) == (left["kind"], left["removed"])
    assert said([old]) == said(replayed(events).branches[left["branch_id"]])
    assert [*before, waiting[len(before)]] == events[: len(before) + 1]


def test_a_host_that_changes_a_tools_arguments(opened: Opening) -> None:
    """A call and a result that a host rewrote are in the event log as rewritten."""
    conversation = opened(
        ScriptedChat(replies={"train": ASK}), ScriptedJudge(), tools=[trains, broken]
    )
    conversation.say("When is the train?")
    _, call, result, *_ = conversation.messages()
    assert isinstance(call, AIMessage)
    assert isinstance(result, ToolMessage)

    calls = [{**each, "args": {"to": "大阪"}} for each in call.tool_calls]
    edit(conversation, call.model_copy(update={"tool_calls": calls}))
    checked(conversation)
    edit(conversation, result.model_copy(update={"status": "error", "artifact": {"rows": [1]}}))

    assert "edit" == types(checked(conversation))[-1]


def test_a_restart_makes_no_edit(opened: Opening) -> None:
    """Messages read from the file count like those that were written, for any content."""
    odd = AIMessage(
        [{"type": "text", "text": "It is odd, 🙈."}, {"type": "image", "data": "aGk="}],
        additional_kwargs={"a": [1, 2.5, None, {"b": "c"}], "nan": float("inf")},
        response_metadata={"logprobs": {"x": (1, 2)}, "model_name": "m"},
        usage_metadata={"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
    )
    opened(lambda _: odd.model_copy()).say("q1")
    opened(ScriptedChat(default=ASK), ScriptedJudge(), tools=[trains, broken]).say("train?")
    conversation = opened()
    conversation.say("Thank you, and goodbye.")

    assert [] == of(checked(conversation), "edit")


def test_a_page_that_was_never_committed_does_not_count(opened: Opening) -> None:
    """A page in the store that no state leads to is not reached, and the next one follows on."""
    conversation = opened()
    conversation.say("q1")
    store: Any = conversation.graph.store
    head = conversation.graph.get_state(config("t")).values["event_log"]
    place = Head(page_id=head["page_id"], count=head["count"])
    lost = make_page(
        place, [make_event(*planner_note("lost"), stamp=Stamp(thread_id="t", at="2026-01-01"))]
    )
    drive(_put(store, lost))
    conversation.say("q2")

    assert 3 == pages(conversation)
    assert TURN * 2 == types(checked(conversation))


def _put(store: Any, page: Any) -> Any:
    yield from put_page(store, "t", page)


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
def test_a_crash_between_page_and_commit(opened: Opening, tmp_path: Path) -> None:
    """Killed when the page is there and the turn is not, the next process tells one turn once."""
    killed = subprocess.run(
        [sys.executable, "-c", CRASH, str(tmp_path / "t.db")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert -signal.SIGKILL == killed.returncode, killed.stderr
    conversation = opened()
    left = pages(conversation)
    assert [] == list(registry_of(conversation).events())
    conversation.say("q1")

    assert 1 == left
    assert (TURN, 2) == (types(checked(conversation)), pages(conversation))
    assert ["human: q1", "ai: This is draft 1, about what was asked."] == said(
        conversation.messages()
    )


@pytest.mark.parametrize("by", ["invoke", "update_state"])
def test_a_fork_continues_the_event_log(opened: Opening, by: str) -> None:
    """LangGraph's time travel is a rollback in the event log, which replays both before and after it."""
    conversation = opened()
    conversation.say("q1")
    conversation.say("q2")
    main, ends = checked(conversation), list(conversation.graph.get_state_history(config("t")))
    old = next(each for each in ends if len(each.values["messages"]) == 2 and not each.next)

    if by == "invoke":
        conversation.graph.invoke({"messages": [("user", "other")]}, old.config)
    else:
        conversation.graph.update_state(old.config, {"messages": [HumanMessage("other", id="h")]})
        fork = checked(conversation)
        assert [*types(main), "rollback", "user_message"] == types(fork)
        conversation.say("another")

    fork = checked(conversation)
    assert main == fork[: len(main)]
    assert "rollback" == fork[len(main)]["type"]
    there = events_of(ends[0].values, conversation.graph.store)
    assert as_stored(ends[0].values["messages"]) == as_stored(replayed(there).messages)


def _without(store: Any, item: Any) -> None:
    store.delete(item.namespace, item.key)


def _emptied(store: Any, item: Any) -> None:
    page = make_page(
        EMPTY, [make_event(*planner_note("nothing"), stamp=Stamp(thread_id="t", at="now"))]
    )
    store.put(item.namespace, item.key, {**item.value, "body": frozen(page.body or b"")})


def _counted(store: Any, item: Any) -> None:
    store.put(item.namespace, item.key, {**item.value, "count": item.value["count"] + 1})


@pytest.mark.sample(every=2)
@pytest.mark.parametrize("fault", [_without, _emptied, _counted])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_tampering_is_found(opened: Opening, fault: Callable[[Any, Any], None], which: int) -> None:
    """A missing or changed page anywhere in the event log is a gap."""
    conversation = opened()
    for number in range(3):
        conversation.say(f"question {number}")
    store: Any = conversation.graph.store
    items = sorted(stored_items(store, "events"), key=lambda item: item.value["count"])
    fault(store, items[which])

    with pytest.raises(EventLogGapError, match="backup"):
        registry_of(conversation).events()


def test_another_threads_page_is_no_part_of_it(opened: Opening, tmp_path: Path) -> None:
    """Two threads of one file keep two event logs."""
    conversation = opened()
    conversation.say("q1")
    other = Conversation.open(tmp_path / "t.db", thread="t2", model=Numbered(), judge=scores())
    other.say("q1")

    assert {"t"} == {event["thread_id"] for event in checked(conversation)}
    assert {"t2"} == {event["thread_id"] for event in checked(other)}
    other.close()


def test_each_run_can_be_replayed_to_its_end(opened: Opening) -> None:
    """The transcript as it stood when an earlier run ended follows from the events."""
    conversation = opened(judge=scores(0.9, 0.1, 0.9))
    records = []
    for text in ("q1", "q2", "/rollback", "q3"):
        conversation.say(text)
        if not text.startswith("/"):  # a command is no run
            records.append(as_stored(conversation.messages()))

    events = checked(conversation)
    ends = [
        as_stored(replayed(events, run_id=run.run_id).messages)
        for run in registry_of(conversation).runs().runs
    ]
    assert records == ends


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
        events = checked(conversation)
    assert ["user_message", "user_message", "rollback", *TURN[1:]] == types(events)
    assert "interrupted" == of(events, "rollback")[0]["kind"]


ROWS = "行 row " * 2_000


def rows(about: str) -> str:
    """Tell very much."""
    return f"{about}: {ROWS}"


def test_a_large_tool_result_is_left_out_of_contexts_alone(
    opened: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model sees the beginning; transcript, event log and `tool_result` have the whole."""
    monkeypatch.setattr("unsay.context.view.RESULT_BYTES", 1_000)
    asks = ToolCalls(calls=[{"name": "rows", "args": {"about": "花"}, "id": "c1"}], then=GOOD)
    chat = ScriptedChat(replies={"rows": asks, "And": "Well, that is all there is to say of it."})
    options = {"tools": [rows]}
    conversation = opened(chat, ScriptedJudge(), **options)
    conversation.say("Show me the rows.")
    conversation.say("And then?")
    conversation = opened(chat, ScriptedJudge(), **options)

    seen = [m.text for call in chat.calls for m in call if m.type == "tool"]
    whole = f"花: {ROWS}"
    assert [seen[0]] * 2 == seen
    transcript = json.loads(seen[0])
    assert (True, "size_limit", len(whole.encode())) == (
        transcript["omitted"],
        transcript["reason"],
        transcript["bytes"],
    )
    assert whole.startswith(transcript["preview"])
    assert len(seen[0].encode()) <= 1_000
    events = checked(conversation)
    assert whole == of(events, "tool_result")[0]["message"]["data"]["content"]
    assert whole == conversation.tool_result("c1") == conversation.messages()[2].text
    with pytest.raises(UnknownToolResultError, match="'c9'"):
        conversation.tool_result("c9")


def test_a_tool_result_at_the_limit_is_shown(
    opened: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fits is sent as it is."""
    monkeypatch.setattr("unsay.context.view.RESULT_BYTES", len(f"花: {ROWS}".encode()))
    asks = ToolCalls(calls=[{"name": "rows", "args": {"about": "花"}}], then=GOOD)
    chat = ScriptedChat(replies={"rows": asks})
    conversation = opened(chat, ScriptedJudge(), tools=[rows])
    conversation.say("Show me the rows.")
    assert f"花: {ROWS}" == chat.calls[-1][-1].text
