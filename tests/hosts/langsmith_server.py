"""A server on loopback that takes runs and feedback as LangSmith's does."""

import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

PROJECT = {
    "id": "00000000-0000-4000-8000-000000000001",
    "name": "unsay-tests",
    "start_time": "2026-01-01T00:00:00Z",
    "tenant_id": "00000000-0000-4000-8000-000000000002",
    "reference_dataset_id": None,
}
LIMITS = {
    "size_limit": 100,
    "size_limit_bytes": 20_000_000,
    "scale_up_qsize_trigger": 1000,
    "scale_up_nthreads_limit": 16,
    "scale_down_nempty_trigger": 4,
}
_PART = re.compile(
    rb'name="(post|patch|feedback)\.([0-9a-f-]+)"(.*?)\r\n\r\n(.*?)\r\n--', re.DOTALL
)


@dataclass
class LangSmithServer:
    """A running server. With `multipart` it takes runs and feedback in one form, as new ones do."""

    multipart: bool
    status: int = 200
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    feedback: list[dict[str, Any]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """The address for `Client(api_url=…)`."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def names(self, run_id: str) -> list[str]:
        """Names of a run and of those around it, the outermost first."""
        run = self.runs[run_id]
        parent = run.get("parent_run_id")
        return [*(self.names(parent) if parent else []), run["name"]]

    def take(self, path: str, kind: str, body: bytes) -> None:
        """Keep what was posted."""
        if path == "/feedback":
            self.feedback.append(json.loads(body))
        elif path == "/runs/multipart":
            assert "multipart/form-data" in kind
            for part_kind, name, _, value in _PART.findall(body):
                if part_kind == b"feedback":
                    self.feedback.append(json.loads(value))
                else:
                    self.runs.setdefault(name.decode(), {}).update(json.loads(value))
        elif path == "/runs/batch":
            batch = json.loads(body)
            for run in [*(batch.get("post") or []), *(batch.get("patch") or [])]:
                self.runs.setdefault(run["id"], {}).update(run)


def _handler(server: LangSmithServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self, value: Any) -> None:
            body = json.dumps(value).encode()
            self.send_response(server.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            if self.path == "/info":
                config = {**LIMITS, "use_multipart_endpoint": server.multipart}
                self._answer({"version": "0.12.0", "batch_ingest_config": config})
            else:
                self._answer([PROJECT] if self.path.startswith("/sessions") else {})

        def do_POST(self) -> None:
            if "chunked" in self.headers.get("Transfer-Encoding", ""):
                body = b""
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
            else:
                body = self.rfile.read(int(self.headers["Content-Length"]))
            if server.status == 200:
                server.take(self.path, self.headers["Content-Type"], body)
            self._answer({})

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    return Handler
