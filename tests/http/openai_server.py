"""A server of the OpenAI chat protocol whose replies are a function of the request.

`llmock` serves every test that only needs a queue of replies or faults; this one
is for scripts that depend on what was asked.
"""

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from langchain_core.messages import HumanMessage

from unsay.testing.scripts import question_of

PIECE = 6
"""Characters of a streamed piece."""


_END = re.compile(r"\n\n(?:The user's message ends here\.|利用者のメッセージはここまでです。)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as it came over the wire."""

    body: Mapping[str, Any]
    """The JSON that was posted."""

    @property
    def model(self) -> str:
        """Name of the model that was asked."""
        return str(self.body["model"])

    @property
    def question(self) -> str:
        """The newest words of the user; not what a view puts before or behind them."""
        texts = (m["content"] for m in self.body["messages"] if m["role"] == "user")
        return question_of([HumanMessage(text) for text in texts])

    @property
    def hints(self) -> str:
        """What the operator says of this attempt: behind the user's words, and in the system prompt."""
        question = next(
            m["content"] for m in reversed(self.body["messages"]) if m["role"] == "user"
        )
        return "\n".join([self.system, *_END.split(str(question), maxsplit=1)[1:]])

    @property
    def system(self) -> str:
        """The system prompt; empty without one."""
        return "\n".join(m["content"] for m in self.body["messages"] if m["role"] == "system")

    @property
    def text(self) -> str:
        """Everything that was sent, as JSON that keeps Japanese readable."""
        return json.dumps(self.body, ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """A reply that calls one tool."""

    name: str
    """Of the tool."""

    arguments: Mapping[str, Any]
    """As they are sent, encoded as JSON."""


Said = str | Mapping[str, Any] | Calls | Iterator[str]
"""Text, an object that is sent as JSON text, a tool call, or pieces that are sent as they come."""

Script = Callable[[Asked], Said]


class OpenAIServer:
    """A running server; it records its requests, oldest first."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[Asked] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def base_url(self) -> str:
        """What OPENAI_BASE_URL is set to."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def asked_of(self, model: str) -> list[Asked]:
        """The requests for one model, oldest first."""
        return [request for request in self.asked if request.model == model]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(server: OpenAIServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            request = Asked(body=body)
            server.asked.append(request)
            script_reply = server.script(request)
            if isinstance(script_reply, Iterator) and not body.get("stream"):
                script_reply = "".join(script_reply)
            if isinstance(script_reply, Iterator):
                self._send("text/event-stream", _pieces(body, script_reply))
                return
            message, finish = _message(script_reply)
            if body.get("stream"):
                self._send("text/event-stream", _events(body, message, finish))
            else:
                choice = {"index": 0, "message": message, "finish_reason": finish}
                reply = {**_head(body, "chat.completion"), "choices": [choice], "usage": USAGE}
                self._send("application/json", [json.dumps(reply)])

        def do_GET(self) -> None:
            models = [{"id": name} for name in ("answerer", "judge")]
            self._send("application/json", [json.dumps({"data": models})])

        def _send(self, kind: str, chunks: Iterable[str]) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.end_headers()
            with suppress(ConnectionError):  # the program that asked was stopped
                for chunk in chunks:
                    self.wfile.write(chunk.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing on the test's output."""

    return Handler


USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}


def _head(body: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 0, "model": body["model"]}


def _message(reply: str | Mapping[str, Any] | Calls) -> tuple[dict[str, Any], str]:
    if isinstance(reply, Calls):
        function = {"name": reply.name, "arguments": json.dumps(reply.arguments)}
        call = {"id": "call_1", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    text = reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)
    return {"role": "assistant", "content": text}, "stop"


def _events(body: Mapping[str, Any], message: Mapping[str, Any], finish: str) -> Iterator[str]:
    text = message["content"] or ""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": text[start : start + PIECE]} for start in range(0, len(text), PIECE)]
    deltas += [{"tool_calls": [{"index": 0, **c}]} for c in message.get("tool_calls", [])]
    head = _head(body, "chat.completion.chunk")
    for delta in deltas:
        yield _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield _event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if body.get("stream_options", {}).get("include_usage"):
        yield _event({**head, "choices": [], "usage": USAGE})
    yield "data: [DONE]\n\n"


def _pieces(body: Mapping[str, Any], pieces: Iterator[str]) -> Iterator[str]:
    head = _head(body, "chat.completion.chunk")
    for piece in pieces:
        delta = {"role": "assistant", "content": piece}
        yield _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield _event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    yield "data: [DONE]\n\n"


def _event(data: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"
