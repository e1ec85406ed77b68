"""Budgets in a graph's state: a person is asked before money is spent, and the answer resumes."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypedDict

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from unsay.budget.books import Book, Place, new_book, settle, used_of
from unsay.budget.budgets import Limit, Limits, demand, extend, reserve
from unsay.budget.pricing import Usage, amount_of, usage_of
from unsay.errors import BudgetExceededError

LIMITS = Limits(session=Limit(tokens=2_000), task=Limit(tokens=250), mode="hard")
REPLY = AIMessage(
    "words",
    usage_metadata={
        "input_tokens": 80,
        "output_tokens": 20,
        "total_tokens": 100,
        "input_token_details": {"cache_read": 60},
    },
)
CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Working(TypedDict, total=False):
    """What the graph keeps."""

    turn: int
    task: str
    budget: Book
    refused: bool


def graph(limits: Limits, asked: list[int]) -> Any:
    """One node that asks a model, if its budget has room, as a node of ours would."""

    def answer(state: Working) -> Working:
        book, place = state.get("budget", new_book()), Place(task_id=state["task"])
        key, most = f"{state['turn']}", amount_of(Usage(input=80, output=40))
        tried = reserve(book, limits, most, key=key, place=place)
        demand(tried.check)
        if tried.check.outcome == "ask":
            if not interrupt([str(gauge) for gauge in tried.check.exceeded]):
                return {"refused": True}
            book = extend(book, limits, most, place=place)
            tried = reserve(book, limits, most, key=key, place=place)
        asked.append(state["turn"])
        spent = amount_of(usage_of(REPLY.usage_metadata))
        return {"budget": settle(tried.book, spent, key=key, place=place), "refused": False}

    builder = StateGraph(Working)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    strict = JsonPlusSerializer(allowed_msgpack_modules=None)
    return builder.compile(checkpointer=InMemorySaver(serde=strict))


@pytest.fixture
def turns() -> Callable[..., tuple[Any, list[int]]]:
    """A graph in which some turns of one task were answered."""

    def turns(limits: Limits, count: int) -> tuple[Any, list[int]]:
        asked: list[int] = []
        made = graph(limits, asked)
        for turn in range(count):
            made.invoke({"turn": turn, "task": "first"}, CONFIG)
        return made, asked

    return turns


def used(made: Any, task: str = "first") -> list[int]:
    """What the kept book says: of the session, and of a task."""
    book = made.get_state(CONFIG).values["budget"]
    return [used_of(book, layer, Place(task_id=task)).tokens for layer in ("session", "task")]


def test_a_hard_limit_refuses_before_the_model_is_asked(turns: Callable[..., Any]) -> None:
    """The state is as it was, and the next task is answered."""
    made, asked = turns(LIMITS, 2)
    with pytest.raises(BudgetExceededError, match=r"task budget: 200 \+ 120 of 250 tokens"):
        made.invoke({"turn": 2, "task": "first"}, CONFIG)
    assert ([0, 1], [200, 200]) == (asked, used(made))

    made.invoke({"turn": 3, "task": "second"}, CONFIG)

    assert ([0, 1, 3], [300, 100]) == (asked, used(made, "second"))


def test_a_yes_resumes_and_is_remembered(turns: Callable[..., Any]) -> None:
    """The model is asked once, after the answer, and the next call has room as well."""
    made, asked = turns(replace(LIMITS, mode="ask"), 2)
    waiting = made.invoke({"turn": 2, "task": "first"}, CONFIG)
    assert ["task budget: 200 + 120 of 250 tokens"] == waiting["__interrupt__"][0].value
    assert ([0, 1], [200, 200]) == (asked, used(made))

    made.invoke(Command(resume=True), CONFIG)
    after = made.invoke({"turn": 3, "task": "first"}, CONFIG)

    assert ([0, 1, 2, 3], [400, 400]) == (asked, used(made))
    assert "__interrupt__" not in after


def test_a_no_spends_nothing(turns: Callable[..., Any]) -> None:
    """And the next call is asked about again."""
    made, asked = turns(replace(LIMITS, mode="ask"), 2)
    made.invoke({"turn": 2, "task": "first"}, CONFIG)
    made.invoke(Command(resume=False), CONFIG)
    again = made.invoke({"turn": 3, "task": "first"}, CONFIG)

    assert ([0, 1], [200, 200]) == (asked, used(made))
    assert "__interrupt__" in again


def test_a_soft_limit_lets_the_talk_go_on(turns: Callable[..., Any]) -> None:
    """What is over it is booked like the rest."""
    made, asked = turns(replace(LIMITS, mode="soft"), 5)

    assert ([0, 1, 2, 3, 4], [500, 500]) == (asked, used(made))
