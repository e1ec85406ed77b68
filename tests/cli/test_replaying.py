import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from tests.cli.conftest import Run
from tests.cli.scripted_conversation import CARS, LISTS, NESTED, ON_LISTS, ON_NESTED
from tests.cli.terminal import Terminal
from tests.http.openai_server import Asked, Calls, OpenAIServer, Said
from unsay.conversation.conversation import Conversation
from unsay.messages.content import cells_of

JAPANESE = "リスト内包表記は入れ子にできますか?"
ON_JAPANESE = "はい、入れ子にできます。ただし、三重以上の入れ子は読みにくくなるのでお勧めしません。"
NOWHERE = "http://127.0.0.1:9/v1"
"""No process listens at the discard port."""


def script(request: Asked) -> Said:
    """The answerer writes about cars unless it gets a hint; `other` is right at once."""
    if request.model == "judge":
        score = 0.1 if "Buy a car" in request.text else 0.9
        return {"score": score, "reason": f"It is worth {score}."}
    if request.model == "caller":
        return Calls(name="weather", arguments={"city": "京都"})
    if request.question == JAPANESE:
        return ON_JAPANESE
    if request.question == LISTS:
        return ON_LISTS
    return CARS if request.model == "answerer" and "Attempt" not in request.hints else ON_NESTED


@pytest.fixture
def server(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    """A server of several models, and an environment that names one and its judge."""
    del home
    monkeypatch.setenv("OPENAI_API_KEY", "test-key")
    monkeypatch.setenv("UNSAY_MODEL", "answerer")
    monkeypatch.setenv("UNSAY_JUDGE_MODEL", "judge")
    with OpenAIServer(script) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.base_url)
        yield running


@pytest.fixture
def chat_server(run: Run, server: OpenAIServer) -> OpenAIServer:
    """`talk`, whose second turn took a draft back."""
    for question in (LISTS, NESTED):
        assert 0 == run("say", question, "--thread", "talk").exit_code
    server.asked.clear()
    return server


def test_replay(run: Run, chat_server: OpenAIServer) -> None:
    """Without a choice it is the attempt that failed: what was sent, and what came of it."""
    result = run("replay")
    assert (0, "thread talk\n", []) == (result.exit_code, result.stderr, chat_server.asked)
    head, *sections = result.stdout.split("\n\n")
    assert head.startswith("turn 2, attempt 1 · exactly as sent · run-")
    assert [
        f"user\n  {LISTS}",
        f"assistant\n  {ON_LISTS}",
        f"user\n  {NESTED}",
        "original result\n  score 0.10: It is worth 0.1.",
        f"  {CARS}\n",
    ] == sections


def test_replay_of_a_turn_that_succeeded(run: Run, chat_server: OpenAIServer) -> None:
    """Its request was not stored, so it is planned again."""
    del chat_server
    output = run("replay", "--turn", "1").stdout
    assert output.startswith("turn 1, attempt 1 · rebuilt from the conversation")
    assert f"user\n  {LISTS}" in output
    assert NESTED not in output
    assert output.endswith(f"score 0.90: It is worth 0.9.\n\n  {ON_LISTS}\n")


def test_replay_of_what_was_put_in(run: Run, server: OpenAIServer, home: Path) -> None:
    """Tool calls, images and results of a request are named; unscored answers say so."""
    del server
    call = {"name": "weather", "args": {"city": "京都"}, "id": "c1"}
    picture = [{"type": "text", "text": "Where is it?"}, {"type": "image_url", "image_url": "x"}]
    messages = [HumanMessage(picture), AIMessage("I look.", tool_calls=[call])]
    with Conversation.open(home / "unsay.db", thread="talk") as conversation:
        conversation.add([*messages, ToolMessage("18 °C", tool_call_id="c1", name="weather")])
        conversation.add([AIMessage("In Kyoto."), HumanMessage(LISTS), AIMessage("")])
    output = run("replay", "--turn", "2").stdout
    assert "user\n  Where is it?\n  [image_url]\n" in output
    assert 'assistant\n  I look.\n  weather({"city": "京都"})\n' in output
    assert "tool weather\n  18 °C\n" in output
    assert output.endswith("original result\n  unscored\n\n  (no text)\n")


def test_replay_of_an_attempt(run: Run, chat_server: OpenAIServer) -> None:
    """An attempt is chosen by its run, its turn and its number."""
    del chat_server
    failed = json.loads(run("runs", "--json").stdout)["runs"][-1]["run_id"]
    options = ["--run", failed, "--turn", "2", "--attempt", "1"]
    assert run("replay").stdout == run("replay", *options).stdout


def test_payload(run: Run, chat_server: OpenAIServer) -> None:
    """The output is the provider's body, exactly as it was sent."""
    del chat_server
    body = json.loads(run("replay", "--payload").stdout)
    assert "answerer" == body["model"]
    assert [LISTS, ON_LISTS, NESTED] == [message["content"] for message in body["messages"]]
    assert "test-key" not in json.dumps(body)


def test_json(run: Run, chat_server: OpenAIServer) -> None:
    """Programs get the request, its body, what came of it, and what the other model made of it."""
    del chat_server
    answer = json.loads(run("replay", "--json").stdout)
    assert (2, "talk", 2, 1, True, NESTED, None) == tuple(
        answer[key]
        for key in ("schema_version", "thread_id", "turn", "attempt", "exact", "question", "again")
    )
    assert ["human", "ai", "human"] == [message["type"] for message in answer["messages"]]
    assert (CARS, 0.1, None) == tuple(answer["recorded"][k] for k in ("answer", "score", "error"))
    replay = json.loads(run("replay", "--json", "--model", "other").stdout)["again"]
    assert ("other", ON_NESTED, 0.9) == (replay["model"], replay["answer"], replay["score"])


def test_another_model(run: Run, chat_server: OpenAIServer) -> None:
    """The same request is sent and judged, both answers are shown, and nothing is stored."""
    before = [run("events", "--json").stdout, run("threads", "--json").stdout]
    output = run("replay", "--model", "other").stdout
    assert output.endswith(
        f"original result\n  score 0.10: It is worth 0.1.\n\n  {CARS}\n\n"
        f"other\n  score 0.90: It is worth 0.9.\n\n  {ON_NESTED}\n"
    )
    assert ["other", "judge"] == [request.model for request in chat_server.asked]
    texts = [message["content"] for message in chat_server.asked[0].body["messages"]]
    assert [LISTS, ON_LISTS, NESTED] == texts
    assert before == [run("events", "--json").stdout, run("threads", "--json").stdout]


def test_another_judge(
    run: Run, chat_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A judge by name judges; without any configured model the other one judges itself."""
    run("replay", "--model", "other", "--judge-model", "critic")
    assert ["other", "critic"] == list(
        dict.fromkeys(request.model for request in chat_server.asked)
    )
    chat_server.asked.clear()
    monkeypatch.delenv("UNSAY_MODEL")
    monkeypatch.delenv("UNSAY_JUDGE_MODEL")
    run("replay", "--model", "other")
    assert {"other"} == {request.model for request in chat_server.asked}


def test_another_model_that_calls_a_tool(run: Run, chat_server: OpenAIServer) -> None:
    """What it wants to call is shown, and not called."""
    del chat_server
    output = run("replay", "--model", "caller").stdout
    assert "unscored: it wants to call tools first" in output
    assert 'weather({"city": "京都"})' in output


def test_a_model_that_failed(
    run: Run, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error is what came of the request; another model answers it."""
    monkeypatch.setenv("OPENAI_BASE_URL", NOWHERE)
    assert 1 == run("say", JAPANESE, "--thread", "talk").exit_code
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)

    output = run("replay", "--model", "other").stdout

    assert "送信時のリクエスト" in output
    assert "当時の結果\n  エラー OpenAIConnectionError: Connection error." in output
    assert output.endswith(f"other\n  スコア 0.90: It is worth 0.9.\n\n  {ON_JAPANESE}\n")
    assert "failed" == json.loads(run("runs", "--json").stdout)["runs"][0]["status"]


def test_another_model_that_fails(
    run: Run, chat_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error is shown beside what was there, and the command has failed."""
    del chat_server
    monkeypatch.setenv("OPENAI_BASE_URL", NOWHERE)
    result = run("replay", "--model", "other")
    assert 1 == result.exit_code
    assert "other\n  failed with OpenAIConnectionError: Connection error." in result.stdout
    assert CARS in result.stdout


@pytest.mark.full
@pytest.mark.parametrize(
    ("question", "heads"),
    [(NESTED, ("original result", "other")), (JAPANESE, ("当時の結果", "other"))],
)
def test_two_columns_on_a_wide_terminal(
    run: Run, server: OpenAIServer, question: str, heads: tuple[str, str]
) -> None:
    """The answers stand side by side, and the line between them is straight."""
    del server
    run("say", question, "--thread", "talk")
    with Terminal("replay", "--model", "other", columns=120) as terminal:
        assert 0 == terminal.wait()
        lines = [line for line in terminal.screen.split("\r\n") if " │" in line]
    plain = [line.replace("\x1b[1m", "").replace("\x1b[0m", "") for line in lines]
    assert heads == tuple(half.strip() for half in plain[0].split("│"))
    assert {59} == {cells_of(line[: line.index("│")]) for line in plain}
    assert max(map(cells_of, plain)) <= 120
    first, second = (
        "".join(line.split("│")[side].strip() + " " for line in plain[3:]) for side in (0, 1)
    )
    answers = (CARS, ON_NESTED) if question == NESTED else (ON_JAPANESE, ON_JAPANESE)
    assert [answer.replace(" ", "") for answer in answers] == [
        output.replace(" ", "") for output in (first, second)
    ]


@pytest.mark.full
def test_one_column_on_a_narrow_terminal(chat_server: OpenAIServer) -> None:
    """There the answers stand one below the other, broken where the terminal ends."""
    del chat_server
    with Terminal("replay", "--model", "other", columns=80) as terminal:
        assert 0 == terminal.wait()
        lines = terminal.screen[terminal.screen.index("turn 2") :].split("\r\n")
    assert not [line for line in lines if "│" in line]
    assert max(map(cells_of, lines)) <= 80
    assert "  does." in lines


@pytest.mark.sample(every=4)
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(["--run", "nowhere"], 3, id="unknown run"),
        pytest.param(["--turn", "99"], 3, id="unknown turn"),
        pytest.param(["--attempt", "7"], 3, id="unknown attempt"),
        pytest.param(["--thread", "nowhere"], 3, id="unknown thread"),
        pytest.param(["--judge-model", "judge"], 2, id="nothing to judge"),
        pytest.param(["--payload", "--model", "other"], 2, id="nobody to ask"),
    ],
)
def test_bad_usage(run: Run, chat_server: OpenAIServer, arguments: list[str], code: int) -> None:
    """What cannot be replayed says why, and no model is asked."""
    result = run("replay", *arguments)
    assert (code, "", []) == (result.exit_code, result.stdout, chat_server.asked)


def test_no_key_for_the_other_model(
    run: Run, chat_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking needs no model; asking another needs a key or an address."""
    del chat_server
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "UNSAY_MODEL", "UNSAY_JUDGE_MODEL"):
        monkeypatch.delenv(name)
    assert 0 == run("replay").exit_code
    result = run("replay", "--model", "other")
    assert 1 == result.exit_code
    assert "OPENAI_API_KEY" in result.stderr
