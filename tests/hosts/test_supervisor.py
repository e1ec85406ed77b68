"""The graph as a worker of LangGraph's supervisor, which returns only a part of its messages."""

import warnings
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from tests.graph.kit import Numbered, config, scores
from tests.reading import said
from unsay.graph import as_node, build_graph
from unsay.messages.content import text_of
from unsay.testing import ScriptedChat

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it imports an agent that LangGraph deprecates
    supervisor: Any = pytest.importorskip("langgraph_supervisor")


def supervisor_app(mode: str, *graphs: Any, model: Any, **options: Any) -> Any:
    """A supervisor over graphs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = supervisor.create_supervisor(list(graphs), model=model, output_mode=mode)
    return graph.compile(checkpointer=InMemorySaver(), **options)


def handing(messages: list[BaseMessage]) -> AIMessage:
    """Hand a question over; a worker's answer ends the run."""
    if messages[-1].type != "human":
        return AIMessage(f"Done after {len(messages)} messages.")
    name = "second" if "second" in text_of(messages[-1]) else "talker"
    call = {"name": f"transfer_to_{name}", "args": {}, "id": f"call-{len(messages)}"}
    return AIMessage("", tool_calls=[call])


MODES = pytest.mark.parametrize("mode", ["last_message", "full_history"])


@pytest.mark.sample(every=4)
@MODES
@pytest.mark.parametrize("kind", ["None", "True", "own", "as_node"])
@pytest.mark.parametrize(
    ("form", "texts"),
    [("invoke", ("one", "two", "three")), ("ainvoke", ("一つ目", "二つ目", "三つ目"))],
)
async def test_orders_hold_in_a_supervisor(
    mode: str, kind: str, form: str, texts: tuple[str, str, str]
) -> None:
    """What an undo removes is sent to no model, neither the worker's nor the supervisor's."""
    one, two, three = texts
    worker = Numbered()
    boss = Numbered()
    saver: Any = {"True": True, "own": InMemorySaver()}.get(kind)
    graph = build_graph(worker, judge=scores(), name="talker", checkpointer=saver)
    graph = as_node(graph) if kind == "as_node" else graph
    store = InMemoryStore() if kind == "None" else None
    app = supervisor_app(mode, graph, model=recording(boss), store=store)

    async def send(text: str) -> list[str]:
        value = {"messages": [("user", text)]}
        if form == "invoke":
            app.invoke(value, config())
        else:
            await app.ainvoke(value, config())
        return said(app.get_state(config()).values["messages"])

    await send(one)
    before = await send(two)
    undone = await send("/undo")
    assert f"human: {two}" not in undone
    assert f"human: {one}" in undone
    restored = await send("/redo")
    assert before == restored[: len(before)]
    assert f"human: {two}" not in await send("/undo")
    await send(three)

    assert not any(two in text for text in worker.texts())
    assert not any(two in text for text in boss.texts())
    assert any(one in text for text in worker.texts())


def recording(model: Numbered) -> Any:
    """The supervisor's model, whose requests are recorded."""

    class Model(ScriptedChat):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            del tools
            return self

        def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> Any:
            model.inputs.append(list(messages))
            return ChatResult(generations=[ChatGeneration(message=handing(messages))])

        async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> Any:
            return self._generate(messages)

    return Model(default="")


@MODES
def test_two_workers_with_names(mode: str) -> None:
    """Each has its own name; an order to one removes the messages from both."""
    models = [Numbered(), Numbered()]
    graphs = [
        build_graph(model, judge=scores(), name=name)
        for model, name in zip(models, ("talker", "second"), strict=True)
    ]
    app = supervisor_app(mode, *graphs, model=recording(Numbered()))
    for text in ("one", "two for the second", "three", "/undo", "four for the second"):
        state = app.invoke({"messages": [("user", text)]}, config())

    assert "human: three" not in said(state["messages"])
    assert not any("three" in text for text in models[1].texts())
    assert any("two for the second" in text for text in models[1].texts())


@MODES
def test_a_rejected_injected_message_leaves_the_supervisor(mode: str) -> None:
    """The worker's judge rejects what an app wrote into the supervisor's messages."""

    def judge(documents: Any) -> float:
        return 0.1 if "nonsense" in str(documents) else 0.9

    worker = Numbered()
    boss = Numbered()
    graph = build_graph(worker, judge=judge, name="talker")
    app = supervisor_app(mode, graph, model=recording(boss))
    messages = [("user", "what?"), ("assistant", "some nonsense"), ("user", "one")]
    app.invoke({"messages": messages}, config())
    state = app.invoke({"messages": [("user", "two")]}, config())

    assert not any("nonsense" in text for text in said(state["messages"]))
    assert not any("nonsense" in text for text in [*worker.texts(), *boss.texts()])


@pytest.mark.sample(every=2)
@MODES
def test_a_question_is_one_turn_whoever_answers(mode: str) -> None:
    """Counts, `/rollback N` and the timeline show what a person sees: one question, one turn."""
    graph = build_graph(Numbered(), judge=scores(), name="talker")
    store = InMemoryStore()
    app = supervisor_app(mode, graph, model=recording(Numbered()), store=store)

    def send(text: str) -> str:
        state = app.invoke({"messages": [("user", text)]}, config())
        notices = [m for m in state["messages"] if str(m.id).startswith("notice")]
        return text_of(notices[-1]) if notices else ""

    for text in ("one", "two", "three"):
        send(text)
    assert "Removed 1 turn. /redo restores it." == send("/undo")
    assert "Restored 1 turn. /undo reverses this." == send("/redo")
    assert "The conversation has 1 turn." in send("/rollback 2")
    questions = [m for m in app.get_state(config()).values["messages"] if m.type == "human"]
    assert ["one", "/rollback 2"] == [text_of(message) for message in questions]
    assert "Restored 2 turns" in send("/undo")
    timeline = send("/timeline").splitlines()
    assert ["one", "two", "three"] == [line.split()[-1] for line in timeline]
    assert ["1", "2", "3"] == [line.split()[0].strip("[].:#T") for line in timeline]
