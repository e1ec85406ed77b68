"""What a change owes the world: reversals, stored calls, and which are due."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, tool
from langgraph.store.memory import InMemoryStore

from unsay.effects import adrive, drive
from unsay.errors import ConfigurationError, InputError
from unsay.graph.builder import make_services
from unsay.history.branch import Label, LiveBranch, replace_tail
from unsay.history.compensations import (
    Compensation,
    Entry,
    Outcome,
    Report,
    find_entries,
    list_entries,
    pack,
    put_entries,
    unpack,
)
from unsay.messages.annotations import annotate
from unsay.moves.compensate import (
    FAILED_CALL,
    NO_UNDO,
    compensations_of,
    disown,
    keeps_effects,
    report_text,
    run_compensations,
    schedule_compensations,
)
from unsay.prompts.catalogue import Texts
from unsay.runtime import Scope
from unsay.state import State, Update
from unsay.tools import Reversal, reversal_of, reversible, whole_args

SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    """Each test sees its own calls."""
    SEEN.clear()


def both(args: dict[str, Any], result: str) -> None:
    """Take a call back, by all of it."""
    SEEN.append((args, result))


def by_name(seat: str, seats: int = 9) -> None:
    """Take a call back, by the call's own arguments."""
    SEEN.append((seat, seats))


async def later(seat: str, result: str) -> None:
    """Take a call back on an event loop."""
    SEEN.append((seat, result))


def anything(**given: Any) -> None:
    """Compensate any call."""
    SEEN.append(given)


def seat_of(seat: str, seats: int = 1) -> str:
    """Reserve a seat."""
    return f"{seat} {seats}"


def of(undo: Any) -> Reversal:
    """The reversal that a function gives."""
    reversal = reversal_of(reversible(undo=undo)(lambda seat, seats=1: f"{seat} {seats}"))
    assert reversal is not None
    return reversal


@pytest.mark.parametrize(
    ("undo", "arguments"),
    [
        pytest.param(both, ({"seat": "4A"}, "booked"), id="whole"),
        pytest.param(by_name, ("4A", 9), id="by name"),
        pytest.param(later, ("4A", "booked"), id="asynchronous"),
        pytest.param(anything, {"seat": "4A"}, id="any name"),
    ],
)
async def test_an_undo_is_given_what_it_asks_for(undo: Any, arguments: Any) -> None:
    """By its parameters' names, blocking and on an event loop, one call each."""
    of(undo).undo_sync({"seat": "4A"}, "booked")
    await of(undo).undo_async({"seat": "4A"}, "booked")

    assert [arguments, arguments] == SEEN


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(reversible(undo=by_name)(seat_of), id="function"),
        pytest.param(tool(reversible(undo=by_name)(seat_of)), id="tool of a function"),
        pytest.param(reversible(undo=by_name)(tool(seat_of)), id="tool"),
        pytest.param(
            reversible(undo=by_name)(tool(seat_of)).model_copy(update={"name": "other"}), id="copy"
        ),
    ],
)
def test_a_reversal_is_found(example: Any) -> None:
    """On a function, on a tool that was made of one, and on a tool and its copies."""
    reversal = reversal_of(example)

    assert reversal is not None
    assert by_name is reversal.undo


def test_a_tool_of_ones_own_can_be_taken_back() -> None:
    """A class of tools works like a function."""

    class Booking(BaseTool):
        name: str = "book"
        description: str = "UsageAccount."

        def _run(self, seat: str) -> str:
            return seat

    own_tool = reversible(undo=lambda seat: None)(Booking())

    assert reversal_of(own_tool) is not None
    assert reversal_of(Booking()) is None
    assert "4A" == own_tool.invoke({"seat": "4A"})


@pytest.mark.parametrize(
    "undo",
    [
        pytest.param(lambda order: None, id="an unknown name"),
        pytest.param(lambda *rest: None, id="any number"),
        pytest.param(lambda seat, /: None, id="by position alone"),
    ],
)
@pytest.mark.parametrize("target", [seat_of, tool(seat_of)], ids=["function", "tool"])
def test_an_undo_that_no_call_can_fill_is_refused(undo: Any, target: Any) -> None:
    """The mistake shows where the tool is made, not in the middle of a rollback."""
    with pytest.raises(ConfigurationError, match="'args', 'result', 'seat', 'seats'"):
        reversible(undo=undo)(target)


def test_the_tools_own_defaults_are_the_calls() -> None:
    """What the model left out is what the tool did."""
    assert {"seat": "4A", "seats": 1} == whole_args(tool(seat_of), {"seat": "4A"})
    assert {"seat": "4A", "seats": 3} == whole_args(tool(seat_of), {"seat": "4A", "seats": 3})
    loose = StructuredTool(name="x", description="x", args_schema={"type": "object"}, func=seat_of)
    assert {"seat": "4A"} == whole_args(loose, {"seat": "4A"})
    schema = {"type": "object", "properties": {"seat": {}, "seats": {"default": 1}, "note": True}}
    remote = StructuredTool(name="x", description="x", args_schema=schema, func=seat_of)
    assert {"seat": "4A", "seats": 1} == whole_args(remote, {"seat": "4A"})


def test_an_undo_that_lacks_an_argument_of_the_call_says_so() -> None:
    """The call left out an argument that has no default in the tool's schema."""
    reversal = Reversal(undo=lambda seat, note: None)
    with pytest.raises(InputError, match=r"no argument 'note'.*default"):
        reversal.undo_sync({"seat": "4A"}, "done")
    Reversal(undo=lambda seat, note=None, **rest: None).undo_sync({"seat": "4A"}, "done")


@pytest.mark.parametrize(
    ("describe", "text"),
    [
        pytest.param(None, "book(seat='4A')", id="none"),
        pytest.param("the booking of {seat}", "the booking of 4A", id="text"),
        pytest.param("{nothing}", "book(seat='4A')", id="a text that fails"),
        pytest.param(lambda seat, result: f"{seat}: {result}", "4A: done", id="function"),
        pytest.param(lambda args: 1 / 0, "book(seat='4A')", id="a function that fails"),
    ],
)
def test_a_call_is_described(describe: Any, text: str) -> None:
    """In the developer's words, and where these fail by its name and arguments."""
    reversal = Reversal(undo=by_name, confirm=False, idempotent=False, describe=describe)

    assert text == reversal.describe_call("book", {"seat": "4A"}, "done")


@reversible(undo=both, confirm=True, describe="booking {seat}")
def booked(seat: str) -> str:
    """Reserve a seat."""
    return seat


@reversible(undo=None)
def looked(at: str) -> str:
    """Look something up."""
    return at


def sent(to: str) -> str:
    """Send a letter."""
    return to


SERVICES = make_services(lambda _: "x", tools=[booked, looked, sent])


def calling(name: str, *example: tuple[str, str]) -> AIMessage:
    """A message that calls tools, each with an id."""
    made = [{"name": tool_name, "args": {"seat": i}, "id": i} for tool_name, i in example]
    return AIMessage("", id=name, tool_calls=made)


def gave(call: str) -> ToolMessage:
    """A call's result."""
    return ToolMessage(f"gave {call}", tool_call_id=call, id=f"r-{call}")


RECORD: list[AnyMessage] = [
    HumanMessage("q", id="q"),
    calling("a", ("booked", "1"), ("booked", "2")),
    gave("1"),
    gave("2"),
    calling("b", ("looked", "3"), ("sent", "4"), ("unknown", "5")),
    gave("3"),
    gave("4"),
    gave("5"),
    calling("c", ("booked", "6"), ("booked", "7"), ("sent", "8")),
    ToolMessage("broken", tool_call_id="6", id="r6", status="error"),
    ToolMessage("broken", tool_call_id="8", id="r8", status="error"),
]
LABEL = Label(kind="person", reason="r", created_at="")


def test_the_calls_that_a_change_takes_are_due_newest_first() -> None:
    """Each with its result, or with what prevents it; calls without consequences are left out."""
    change = replace_tail(LiveBranch(messages=tuple(RECORD)), "q", label=LABEL)
    compensations = compensations_of(change, SERVICES)

    assert [
        ("8", "broken", FAILED_CALL),
        ("7", None, "no_result"),
        ("6", "broken", FAILED_CALL),
        ("5", "gave 5", NO_UNDO),
        ("4", "gave 4", NO_UNDO),
        ("2", "gave 2", ""),
        ("1", "gave 1", ""),
    ] == [
        (compensation.tool_call_id, compensation.result, compensation.obstacle_code)
        for compensation in compensations
    ]
    assert ("booking 1", True, "a") == (
        compensations[-1].description,
        compensations[-1].confirm,
        compensations[-1].message_id,
    )
    assert not keeps_effects(RECORD, SERVICES)
    assert keeps_effects(RECORD[4:8], SERVICES)


def test_two_calls_with_one_id_are_two() -> None:
    """Some servers number their calls from the start in every reply."""
    messages = [
        calling("a", ("booked", "1")),
        gave("1"),
        calling("b", ("booked", "1")),
        ToolMessage("other", tool_call_id="1", id="y"),
    ]
    live = LiveBranch(messages=tuple(messages))
    compensations = compensations_of(replace_tail(live, None, label=LABEL), SERVICES)

    assert ["other", "gave 1"] == [compensation.result for compensation in compensations]
    assert 2 == len({compensation.key for compensation in compensations})


def test_what_a_copied_message_did_is_not_the_copys_to_take_back() -> None:
    """It was made elsewhere, and may stand there still."""
    copy = annotate(calling("a", ("booked", "1")), picked={"from": "other", "id": "a"})
    change = replace_tail(LiveBranch(messages=(copy, gave("1"))), None, label=LABEL)

    assert ["copied"] == [
        compensation.obstacle_code for compensation in compensations_of(change, SERVICES)
    ]


async def test_a_forked_threads_calls_are_the_originals() -> None:
    """The fork's journal says so before its first rollback."""
    store = InMemoryStore()
    scope = Scope(
        services=SERVICES,
        settings=SERVICES.settings,
        config={},
        store=store,
        thread_id="fork",
        stream_writer=lambda _: None,
    )
    drive(disown(RECORD, scope, "t"))
    scope.step_log.changes.append(
        replace_tail(LiveBranch(messages=tuple(RECORD)), "q", label=LABEL)
    )
    drive(schedule_compensations(State(), scope, Update()))
    report = drive(run_compensations(State(), scope))

    assert ["skipped"] * 7 == [outcome.result for outcome in report.outcomes]
    assert ["it was made in thread 't'"] * 2 == [outcome.reason for outcome in report.outcomes[-2:]]


def test_what_stays_is_not_due() -> None:
    """Only what the change takes off counts, and the drafts that it keeps."""
    live = LiveBranch(messages=tuple(RECORD))
    drafts = (calling("d", ("booked", "9")), gave("9"), AIMessage("no", id="e"))
    label = Label(kind="draft", reason="r", created_at="", drafts=drafts)

    assert ["9"] == [
        c.tool_call_id for c in compensations_of(replace_tail(live, "r6", label=label), SERVICES)
    ]


def compensation(key: str = "1@a", args: Any = None, result: str | None = "r") -> Compensation:
    """A compensation as it is journaled."""
    return Compensation(
        key=key,
        tool_call_id="1",
        message_id="a",
        tool="booked",
        args=args or {},
        result=result,
        description="booking 1",
    )


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(args=st.dictionaries(st.text(), PLAIN, max_size=4), result=st.none() | st.text())
def test_an_entry_comes_back_as_it_was(args: dict[str, Any], result: str | None) -> None:
    """This holds for any arguments of the model and any result."""
    entry = Entry(compensation=compensation(args=args, result=result), status="pending", error="e")

    assert entry == unpack(pack(entry))


async def test_the_store_keeps_one_entry_for_each_call() -> None:
    """Written together, read together, each in its last state; blocking and not."""
    store = InMemoryStore()
    first, second = (Entry(compensation=compensation(key), status="pending") for key in "12")
    drive(iter_of(put_entries(store, "t", [first, second])))
    await adrive(iter_of(put_entries(store, "t", [first.to("failed", "x" * 900)])))

    entries = drive(find_entries(store, "t", ["1", "2", "3"]))

    assert {"1": "failed", "2": "pending"} == {key: item.status for key, item in entries.items()}
    assert 500 == len(entries["1"].error)
    assert entries == await adrive(find_entries(store, "t", ["1", "2"]))
    assert 2 == len(drive(list_entries(store, "t")))
    assert [] == drive(list_entries(store, "other"))
    assert {} == drive(find_entries(store, "t", []))


def iter_of(call: Any) -> Any:
    """A step of one call."""
    yield from call


async def test_the_entries_are_not_embedded() -> None:
    """A store that embeds what it keeps is asked to embed nothing of stored calls."""
    embedded: list[str] = []

    def embed(texts: Sequence[str]) -> list[list[float]]:
        embedded.extend(texts)
        return [[1.0, 0.0] for _ in texts]

    store = InMemoryStore(index={"dims": 2, "embed": embed, "fields": ["$"]})
    entry = Entry(compensation=compensation(), status="pending")
    drive(iter_of(put_entries(store, "t", [entry])))
    await adrive(iter_of(put_entries(store, "t", [entry.to("done")])))

    assert [] == embedded
    assert [entry.to("done")] == drive(list_entries(store, "t"))
    store.put(("host",), "k", {"words": "of the host"})
    assert 1 == len(embedded)


def test_a_report_tells_what_a_person_must_look_after() -> None:
    """What was taken back and what was not, in both languages, the reasons translated."""
    call = compensation()
    report = Report(
        outcomes=(
            Outcome(compensation=call, result="undone"),
            Outcome(compensation=call, result="skipped", reason_code=NO_UNDO, reason="?"),
            Outcome(compensation=call, result="failed", reason="OSError: down"),
            Outcome(compensation=call, result="unknown", reason="it was interrupted"),
            Outcome(compensation=call, result="returned", reason="it was taken back before"),
        )
    )

    assert 4 == len(report.left)
    assert (
        "Undone: booking 1. Not undone, still in effect: booking 1 (no compensation is registered), "
        "booking 1 (OSError: down). Possibly undone, please check: booking 1. Restored in the "
        "conversation, but already undone and not run again: booking 1."
    ) == report_text(report, Texts("en"))
    assert "取り消し方法が登録されていません" in report_text(report, Texts("ja"))
    assert "" == report_text(Report(), Texts("en"))
