"""The graph under `langgraph dev`: LangGraph's own server, its checkpointer and its store."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from llmock.pytest_plugin import LLMock
from llmock.scenarios import Delay, Fail

from tests.http.replies import ANSWERER, answers, bodies, grades
from tests.reading import listed_ids, listed_kinds
from unsay.state import Input, Output

pytestmark = pytest.mark.full

GOOD = "A spider has eight legs, two more than an insect has."
BAD = "A spider has six legs, just as every other insect has."
QUESTION = "How many legs does a spider have?"
REASON = "A spider has eight legs."


@pytest.fixture
def clean_log(server_url: str, server_log: Path) -> Iterator[None]:
    """What the server logs during a test holds no blocking call; a failed test shows it."""
    del server_url
    size = server_log.stat().st_size
    yield
    log = server_log.read_bytes()[size:].decode(errors="replace")
    print(log)
    assert "BlockingError" not in log


@pytest.fixture
async def client(
    server_url: str, llmock: LLMock, clean_log: None
) -> AsyncIterator[LangGraphClient]:
    """A client of the server."""
    del llmock, clean_log
    async with get_client(url=server_url, api_key=None) as sdk_client:
        yield sdk_client


class Thread:
    """One thread of the server, spoken with as a host does."""

    def __init__(self, client: LangGraphClient, thread_id: str) -> None:
        self.client = client
        self.thread_id = thread_id

    async def run(self, value: Any = None, **options: Any) -> dict[str, Any]:
        """The state after a run."""
        state = await self.client.runs.wait(self.thread_id, "unsay", input=value, **options)
        assert isinstance(state, dict)
        return state

    async def say(self, text: str, **options: Any) -> dict[str, Any]:
        """The state after a message of the user."""
        return await self.run({"messages": [{"role": "user", "content": text}]}, **options)

    async def state(self) -> dict[str, Any]:
        """The state as the server keeps it."""
        values = (await self.client.threads.get_state(self.thread_id))["values"]
        assert isinstance(values, dict)
        return values


@pytest.fixture
async def thread(client: LangGraphClient) -> Thread:
    """A new thread."""
    return Thread(client, (await client.threads.create())["thread_id"])


def transcript(state: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Who said what."""
    return [(message["type"], message["content"]) for message in state["messages"]]


TURN = [("human", QUESTION), ("ai", GOOD)]
OTHER = "How many legs does an insect have?"
OTHER_ANSWER = "An insect has six legs, in three pairs on its thorax."
TWO_TURNS = [*TURN, ("human", OTHER), ("ai", OTHER_ANSWER)]


async def two_turns(thread: Thread, llmock: LLMock) -> dict[str, Any]:
    """The state after two good turns."""
    llmock.add(answers(GOOD, times=1), answers(OTHER_ANSWER, times=1), grades(0.9))
    await thread.say(QUESTION)
    return await thread.say(OTHER)


async def test_good_turn_makes_a_checkpoint(thread: Thread, llmock: LLMock) -> None:
    """After one turn the server keeps every field of the seed's state, filled in."""
    llmock.add(answers(GOOD), grades(0.9))
    await thread.say(QUESTION)
    state = await thread.state()
    assert TURN == transcript(state)
    assert (0.9, False, None) == (
        state["quality_score"],
        state["should_rollback"],
        state["rollback_checkpoint_id"],
    )
    assert state["checkpoints"][0]["id"] == state["checkpoint_metadata"]["checkpoint_id"]
    assert state["current_topic"]
    assert ["detect_topic_change", "process_message", "create_checkpoint"] == [
        line["node"] for line in state["state_history"]
    ]


async def test_bad_draft_is_rolled_back_in_the_graph(thread: Thread, llmock: LLMock) -> None:
    """The judge's rejection reaches the retry, and the bad draft only the branches."""
    llmock.add(answers(BAD, times=1), answers(GOOD), grades(0.1, REASON, times=1), grades(0.9))
    await thread.say(QUESTION)
    state = await thread.state()
    assert TURN == transcript(state)
    assert ["draft"] == listed_kinds(state)
    retry = bodies(llmock, "answerer")[-1]["messages"]
    assert (True, False) == (REASON in retry[0]["content"], BAD in str(retry))


async def test_bad_exchange_in_the_input_is_rolled_back(thread: Thread, llmock: LLMock) -> None:
    """An exchange that the host puts before a question is judged, and taken back if it fails."""
    llmock.add(answers(GOOD), grades(0.1, REASON, times=1), grades(0.9))
    put_in = [("user", "Is a spider an insect?"), ("assistant", BAD), ("user", QUESTION)]
    value = {"messages": [{"role": role, "content": text} for role, text in put_in]}
    lines = transcript(await thread.run(value))
    assert TURN == [lines[0], lines[-1]]
    assert [True] == [text.startswith("Automatic rollback") for _, text in lines[1:-1]]


async def test_host_orders_a_rollback_through_the_state(thread: Thread, llmock: LLMock) -> None:
    """`should_rollback` with a checkpoint's id goes there, and a notice says so."""
    first = (await two_turns(thread, llmock))["checkpoints"][0]["id"]
    state = await thread.run({"should_rollback": True, "rollback_checkpoint_id": first})
    assert TURN == transcript(state)[:2]
    assert (3, "ai", False) == (
        len(state["messages"]),
        state["messages"][-1]["type"],
        state["should_rollback"],
    )


async def test_host_orders_any_verb_as_data(thread: Thread, llmock: LLMock) -> None:
    """A client of the server gives an `order` without a message; a wrong one changes nothing."""
    await two_turns(thread, llmock)

    state = await thread.run({"order": {"verb": "rollback", "turns": 1}})
    assert TURN == transcript(state)[:2]
    assert OTHER not in str(transcript(state))
    await thread.run({"order": {"verb": "undo"}})
    assert TWO_TURNS == transcript(await thread.state())[:4]
    await thread.run({"order": {"verb": "checkpoint", "name": "脚の数"}})
    state = await thread.state()
    assert "脚の数" in [checkpoint["name"] for checkpoint in state["checkpoints"]]
    state = await thread.run({"order": {"verb": "rollback", "turns": -1}})
    assert "InputError" == state["refusal"]["kind"]
    assert TWO_TURNS == transcript(await thread.state())[:4]


async def test_rollback_and_undo_by_command(thread: Thread, llmock: LLMock) -> None:
    """`/rollback` takes the last turn off, `/undo` brings it back; no model is asked."""
    await two_turns(thread, llmock)
    request_count = len(llmock.requests)
    state = await thread.say("/rollback")
    undone = await thread.say("/undo")
    assert TURN == transcript(state)[:2]
    assert TWO_TURNS == [speech for speech in transcript(undone) if speech in TWO_TURNS]
    assert ("human", OTHER) not in transcript(state)
    assert request_count == len(llmock.requests)


async def test_undo_takes_a_turn_back(thread: Thread, llmock: LLMock) -> None:
    """`/undo` after a turn removes its question and its answer."""
    await two_turns(thread, llmock)
    assert [*TURN, ("human", "/undo")] == transcript(await thread.say("/undo"))[:3]


async def test_stream_shows_tokens_and_what_is_taken_back(thread: Thread, llmock: LLMock) -> None:
    """`messages-tuple` and `custom` together show both drafts, and which one was struck."""
    llmock.add(answers(BAD, times=1), answers(GOOD), grades(0.1, REASON, times=1), grades(0.9))
    drafts: dict[str, str] = {}
    struck: list[str] = []
    async for event in thread.client.runs.stream(
        thread.thread_id,
        "unsay",
        input={"messages": [{"role": "user", "content": QUESTION}]},
        stream_mode=["messages-tuple", "custom"],
    ):
        if event.event == "messages" and event.data[0]["content"]:
            chunk = event.data[0]
            drafts[chunk["id"]] = drafts.get(chunk["id"], "") + chunk["content"]
        if event.event == "custom" and event.data["unsay"] == "draft_rejected":
            struck.append(event.data["message_id"])
    assert [BAD, GOOD] == list(drafts.values())
    assert struck == list(drafts)[:1]


@pytest.mark.parametrize(
    ("resume", "answer"),
    [
        pytest.param({"decisions": [{"type": "approve"}]}, BAD, id="approve"),
        pytest.param(
            {
                "decisions": [
                    {
                        "type": "edit",
                        "edited_action": {"name": "deliver_answer", "args": {"answer": "Eight."}},
                    }
                ]
            },
            "Eight.",
            id="edit",
        ),
        pytest.param([{"type": "accept", "args": None}], BAD, id="inbox-accept"),
        pytest.param([{"type": "response", "args": "Count again."}], GOOD, id="inbox-response"),
        pytest.param(
            [{"type": "edit", "args": {"action": "deliver_answer", "args": {"answer": "Eight."}}}],
            "Eight.",
            id="inbox-edit",
        ),
    ],
)
async def test_person_decides_about_rejected_drafts(
    thread: Thread, llmock: LLMock, resume: Any, answer: str
) -> None:
    """With `on_exhausted="ask"` the run is interrupted, and either front end's answer ends it."""
    llmock.add(answers(BAD, times=1), answers(GOOD), grades(0.1, REASON, times=1), grades(0.9))
    asking = {"on_exhausted": "ask", "max_rollbacks": 0}
    await thread.say(QUESTION, context=asking)
    waiting = await thread.client.threads.get_state(thread.thread_id)
    request = waiting["tasks"][0]["interrupts"][0]["value"]
    assert (BAD, "deliver_answer") == (
        request["action_requests"][0]["args"]["answer"],
        request["review_configs"][0]["action_name"],
    )
    state = await thread.run(command={"resume": resume}, context=asking)
    assert [("human", QUESTION), ("ai", answer)] == transcript(state)


async def test_person_rejects_every_draft(thread: Thread, llmock: LLMock) -> None:
    """The Agent Inbox's `ignore` delivers nothing but a notice, and the draft is kept aside."""
    llmock.add(answers(BAD), grades(0.1, REASON))
    asking = {"on_exhausted": "ask", "max_rollbacks": 0}
    await thread.say(QUESTION, context=asking)
    await thread.run(command={"resume": [{"type": "ignore", "args": None}]}, context=asking)
    state = await thread.state()
    assert BAD not in str(transcript(state))
    assert ["rejected"] == listed_kinds(state)


async def test_context_of_a_run_overrides_settings(thread: Thread, llmock: LLMock) -> None:
    """A stricter `quality_threshold` fails what passes otherwise, for that run alone."""
    llmock.add(answers(GOOD, times=1), answers(OTHER_ANSWER), grades(0.9))
    strict = {"quality_threshold": 0.95, "checkpoint_threshold": 0.99, "max_rollbacks": 0}
    await thread.say(QUESTION, context=strict)
    await thread.say(OTHER)
    state = await thread.state()
    assert TWO_TURNS == transcript(state)
    assert [("failed", "low_quality"), ("passed", None)] == [
        (annotation["outcome"], annotation.get("flag"))
        for annotation in (m["response_metadata"]["unsay"] for m in state["messages"][1::2])
    ]


async def test_failed_run_is_answered_once_when_asked_again(thread: Thread, llmock: LLMock) -> None:
    """After an error of the model the same question leads to one question and one answer."""
    llmock.add(Fail(401, match=ANSWERER), answers(GOOD), grades(0.9))
    failed = await thread.say(QUESTION, raise_error=False)
    assert "ModelRefusedError" == failed["__error__"]["error"]
    assert TURN == transcript(await thread.say(QUESTION))


async def test_failed_run_goes_on_where_it_stopped(thread: Thread, llmock: LLMock) -> None:
    """A run without input finishes the turn that an error interrupted."""
    llmock.add(Fail(401, match=ANSWERER), answers(GOOD), grades(0.9))
    await thread.say(QUESTION, raise_error=False)
    assert TURN == transcript(await thread.run())


async def search_store(thread: Thread, *namespace: str, **options: Any) -> list[Any]:
    """What the server's store holds in a namespace and under it."""
    page = await thread.client.store.search_items(namespace, limit=1_000, **options)
    return list(page["items"])


async def items(thread: Thread, kind: str, **options: Any) -> list[Any]:
    """What the server's store holds of one kind for the thread, oldest first."""
    entries = await search_store(thread, "unsay", kind, thread.thread_id, **options)
    return sorted(entries, key=lambda item: str(item["created_at"]))


async def server_runs(thread: Thread) -> list[str]:
    """The server's own ids of the thread's runs, oldest first."""
    runs = await thread.client.runs.list(thread.thread_id)
    return [run["run_id"] for run in sorted(runs, key=lambda run: str(run["created_at"]))]


async def test_runs_are_listed_under_the_servers_ids(thread: Thread, llmock: LLMock) -> None:
    """Each run of the server is one completed line, with the labels of its context."""
    llmock.add(answers(GOOD, times=1), answers(OTHER_ANSWER, times=1), grades(0.9))
    await thread.say(QUESTION, context={"labels": {"tenant": "a"}})
    await thread.say(OTHER)

    lines = await items(thread, "runs")
    assert await server_runs(thread) == [line["key"] for line in lines]
    assert [("completed", {"tenant": "a"}), ("completed", {})] == [
        (line["value"]["status"], line["value"].get("labels", {})) for line in lines
    ]
    everywhere = await search_store(thread, "unsay", "runs")
    assert {line["key"] for line in lines} <= {line["key"] for line in everywhere}


async def test_runs_are_found_by_their_status(thread: Thread, llmock: LLMock) -> None:
    """A run that failed says why, is found as failed, and is completed once its turn went on."""
    llmock.add(answers(GOOD, times=1), grades(0.9))
    await thread.say(QUESTION)
    llmock.add(Fail(401, match=ANSWERER), answers(OTHER_ANSWER))
    await thread.say(OTHER, raise_error=False)
    (failed,) = await items(thread, "runs", filter={"status": "failed"})
    (completed_run,) = await items(thread, "runs", filter={"status": "completed"})
    (request,) = await items(thread, "requests")
    await thread.run()

    assert (await server_runs(thread))[:2] == [completed_run["key"], failed["key"]]
    assert failed["value"]["error"].startswith("ModelRefusedError: The provider refused")
    assert (failed["key"], OTHER) == (request["value"]["run_id"], request["value"]["question"])
    assert [] == await items(thread, "runs", filter={"status": "failed"})
    (retried_run,) = [line for line in await items(thread, "runs") if line["key"] == failed["key"]]
    assert ("completed", 2) == (retried_run["value"]["status"], retried_run["value"]["attempt"])


async def test_a_run_that_the_server_cancels(thread: Thread, llmock: LLMock) -> None:
    """A run stopped in the middle of the model call is canceled, and the question kept."""
    llmock.add(Delay(20.0, match=ANSWERER), answers(GOOD), grades(0.9))
    value = {"messages": [{"role": "user", "content": QUESTION}]}
    run = await thread.client.runs.create(
        thread.thread_id, "unsay", input=value, stream_mode="custom", stream_resumable=True
    )
    heard = thread.client.runs.join_stream(thread.thread_id, run["run_id"], stream_mode="custom")
    while (await anext(heard)).event != "custom":
        """Until it plans."""
    await heard.aclose()
    await thread.client.runs.cancel(thread.thread_id, run["run_id"], wait=True)

    (line,) = await items(thread, "runs")
    assert (run["run_id"], "canceled", "the host stopped it") == (
        line["key"],
        line["value"]["status"],
        line["value"]["error"],
    )
    assert TURN == transcript(await thread.run())


async def test_a_paused_run_says_what_it_waits_for(thread: Thread, llmock: LLMock) -> None:
    """It is paused under the interrupt's id until a person decides, and completed then."""
    llmock.add(answers(BAD), grades(0.1, REASON))
    asking = {"on_exhausted": "ask", "max_rollbacks": 0}
    await thread.say(QUESTION, context=asking)
    waiting = (await thread.client.threads.get_state(thread.thread_id))["tasks"][0]["interrupts"]
    (paused_run,) = await items(thread, "runs", filter={"status": "paused"})
    await thread.run(command={"resume": "approve"}, context=asking)

    assert waiting[0]["id"] == paused_run["value"]["suspension"]["suspension_id"]
    (line,) = await items(thread, "runs")
    assert (paused_run["key"], "completed") == (line["key"], line["value"]["status"])


async def test_the_event_log_and_the_branches_are_in_the_servers_store(
    thread: Thread, llmock: LLMock
) -> None:
    """A page for the draft that failed and one for the answer, chained to the state's end."""
    llmock.add(answers(BAD, times=1), answers(GOOD), grades(0.1, REASON, times=1), grades(0.9))
    await thread.say(QUESTION)
    head = (await thread.state())["event_log"]
    pages = {page["key"]: page["value"] for page in await items(thread, "event_log")}
    (branch,) = await items(thread, "branches")

    newest_page = pages[head["page_id"]]
    first = pages[newest_page["before"]]
    assert (2, None) == (len(pages), first["before"])
    assert 0 < first["count"] < newest_page["count"] == head["count"]
    assert [branch["key"]] == listed_ids(await thread.state())


async def test_an_ended_thread_refuses_the_next_run(thread: Thread, llmock: LLMock) -> None:
    """A line in the catalogue ends a thread on a server too; the server names the error.

    It shows no words of any error.
    """
    llmock.add(answers(GOOD), grades(0.9))
    await thread.say(QUESTION)
    moment = "2026-01-01T00:00:00.000+00:00"
    line = {"title": "Spiders", "turns": 1, "created_at": moment, "updated_at": moment}
    entry = {**line, "status": "ended", "ended_at": moment, "labels": {}}
    await thread.client.store.put_item(("unsay", "threads"), thread.thread_id, entry)
    request_count = len(llmock.requests)
    state = await thread.say(OTHER, raise_error=False)

    assert "SessionEndedError" == state["__error__"]["error"]
    assert (request_count, 1) == (len(llmock.requests), len(await items(thread, "runs")))


async def test_server_publishes_nodes_and_context(client: LangGraphClient) -> None:
    """Studio can draw the seed's five nodes, and offers what a run may override."""
    assistant = (await client.assistants.search(graph_id="unsay"))[0]["assistant_id"]
    drawing = await client.assistants.get_graph(assistant)
    schemas = await client.assistants.get_schemas(assistant)
    nodes = {node["id"] for node in drawing["nodes"]} - {"__start__", "__end__"}
    assert {
        "evaluate_quality",
        "detect_topic_change",
        "process_message",
        "create_checkpoint",
        "rollback",
    } == nodes
    assert "quality_threshold" in schemas["context_schema"]["properties"]


async def test_studio_gets_three_schemas(client: LangGraphClient) -> None:
    """The schema endpoint names what a host may write and what it reads."""
    assistant = (await client.assistants.search(graph_id="unsay"))[0]["assistant_id"]
    schemas = await client.assistants.get_schemas(assistant)

    assert list(Input.__annotations__) == list(schemas["input_schema"]["properties"])
    assert list(Output.__annotations__) == list(schemas["output_schema"]["properties"])
    assert "labels" in schemas["context_schema"]["properties"]


async def mcp(server_url: str, method: str, **parameters: Any) -> Any:
    """Call the server's MCP endpoint."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
    headers = {"Accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient(timeout=60) as http:
        reply = await http.post(f"{server_url}/mcp", json=body, headers=headers)
    return reply.raise_for_status().json()["result"]


async def test_the_graph_is_an_mcp_tool(
    server_url: str, llmock: LLMock, client: LangGraphClient
) -> None:
    """Its arguments are those of the input schema, and it answers."""
    del client
    llmock.add(answers(GOOD), grades(0.9))
    (tool,) = (await mcp(server_url, "tools/list"))["tools"]
    result = await mcp(
        server_url, "tools/call", name=tool["name"], arguments={"messages": QUESTION}
    )

    assert list(Input.__annotations__) == list(tool["inputSchema"]["properties"])
    assert not result.get("isError")
    assert GOOD in str(result["content"])
    assert "event_log" not in str(result["content"])


@pytest.mark.parametrize(
    "options",
    [
        {"value": {"messages": 5}},
        {"value": {"messages": "x", "turn": {"done": True}}},
        {"value": {"messages": {"__overwrite__": []}}},
        {"command": {"update": {"topics": 5}}},
        {"command": {"goto": {"node": "process_message", "input": {}}}},
    ],
    ids=["no messages", "private", "overwrite", "command", "send"],
)
async def test_a_client_cannot_break_a_thread(
    thread: Thread, llmock: LLMock, options: dict[str, Any]
) -> None:
    """The server names the error, and the thread goes on."""
    llmock.add(answers(GOOD), grades(0.9))
    state = await thread.run(**options, raise_error=False)

    assert "InputError" == state["__error__"]["error"]
    assert TURN == transcript(await thread.say(QUESTION))


async def test_a_client_cannot_update_a_private_channel(thread: Thread, llmock: LLMock) -> None:
    """Not through the endpoint for states either."""
    llmock.add(answers(GOOD), grades(0.9))
    await thread.say(QUESTION)
    before = await thread.state()
    with pytest.raises(httpx.HTTPError):
        await thread.client.threads.update_state(thread.thread_id, {"turn": {"done": False}})
    with suppress(
        httpx.TransportError
    ):  # the server closed the connection, which the pool may keep
        await thread.state()

    assert before == await thread.state()
