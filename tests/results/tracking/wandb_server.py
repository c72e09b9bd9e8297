"""A W&B server on loopback, as far as its client asks: runs, their rows, summaries and files.

The GraphQL operations are those that the client of 0.31 sends, and answers have the fields that
it selects. A run's rows are lines of a stream: what comes with an offset goes there.
"""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

_STREAM = re.compile(r"/files/team/proj/([\w-]+)/file_stream")


@dataclass
class StoredRun:
    """What the server has of a run."""

    rows: list[str] = field(default_factory=list)
    summary: str = "{}"
    config: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    is_complete: bool = False
    exit_code: int | None = None

    @property
    def history(self) -> list[dict[str, Any]]:
        """The rows."""
        return [json.loads(row) for row in self.rows]

    @property
    def values(self) -> dict[str, Any]:
        """The summary less what the client adds."""
        return {k: v for k, v in json.loads(self.summary).items() if not k.startswith("_")}

    @property
    def parameters(self) -> dict[str, Any]:
        """The configuration less what the client adds."""
        return {name: value["value"] for name, value in self.config.items() if name != "_wandb"}


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: a client that has ended leaves its connections."""


class WandbServer:
    """Keeps what it is sent; `refuses` is the status with which it answers rows, if it is set, and
    `refuses_run` the status and the message with which it answers the creation of a run.
    """

    def __init__(self) -> None:
        self.runs: dict[str, StoredRun] = {}
        self.refuses: int | None = None
        self.refuses_run: tuple[int, str] | None = None
        self._http = _Server(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> WandbServer:
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._http.shutdown()
        self._http.server_close()

    def operation(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        """The answer to a GraphQL operation."""
        if name == "RunResumeStatus":
            return {"model": {"id": "p", "name": "proj", "entity": {"id": "e", "name": "team"},
                    "bucket": self._bucket(given["name"])}}  # fmt: skip
        if name == "UpsertBucket":
            is_new = given["name"] not in self.runs
            run = self.runs.setdefault(given["name"], StoredRun())
            run.is_complete = False
            if given.get("config"):
                run.config = json.loads(given["config"])
            project = {"id": "p", "name": "proj", "entity": {"id": "e", "name": "team"}}
            bucket = {"id": "r", "name": given["name"], "displayName": given["name"],
                      "description": "", "config": json.dumps(run.config), "sweepName": None,
                      "project": project, "historyLineCount": len(run.rows)}  # fmt: skip
            return {"upsertBucket": {"bucket": bucket, "inserted": is_new}}
        if name == "CreateRunFiles":
            files = [
                {"name": file, "uploadUrl": f"{self.url}/put/{given['run']}/{file}"}
                for file in given["files"]
            ]
            return {"createRunFiles": {"runID": "r", "uploadHeaders": [], "files": files}}
        raise AssertionError(f"an operation that nobody expects: {name}")

    def _bucket(self, name: str) -> dict[str, Any] | None:
        run = self.runs.get(name)
        return run and {
            "id": "r", "name": name, "displayName": name, "summaryMetrics": run.summary,
            "logLineCount": 0, "eventsLineCount": 0, "eventsTail": "[]",
            "historyLineCount": len(run.rows), "historyTail": json.dumps(run.rows[-1:]),
            "config": json.dumps(run.config), "tags": [], "notes": "",
            "wandbConfig": json.dumps({"t": 1}),
        }  # fmt: skip

    def stream(self, name: str, sent: dict[str, Any]) -> None:
        """Keep rows and a summary, and how the run ended."""
        run, files = self.runs[name], sent.get("files", {})
        if history := files.get("wandb-history.jsonl"):
            run.rows[history["offset"] :] = history["content"]
        if summary := files.get("wandb-summary.json"):
            run.summary = summary["content"][-1]
        if sent.get("complete"):
            run.is_complete, run.exit_code = True, sent["exitcode"]


def _handler(server: WandbServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            sent = json.loads(self._body())
            if stream := _STREAM.fullmatch(self.path):
                if server.refuses:
                    return self._answer({"error": "no"}, server.refuses)
                server.stream(stream[1], sent)
                return self._answer({"limits": {}})
            if server.refuses_run and sent["operationName"] == "UpsertBucket":
                status, message = server.refuses_run
                refused = {"message": message, "path": ["upsertBucket"]}
                return self._answer({"errors": [refused], "data": {"upsertBucket": None}}, status)
            return self._answer(
                {"data": server.operation(sent["operationName"], sent["variables"])}
            )

        def do_PUT(self) -> None:
            _, _, run, file = self.path.split("/", 3)
            server.runs[run].files[file] = self._body()
            self._answer({})

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers["Content-Length"]))

        def _answer(self, content: dict[str, Any], status: int = 200) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    return Handler
