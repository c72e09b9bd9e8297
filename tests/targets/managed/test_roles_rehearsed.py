"""Jobs with roles of their own through the emulated clouds: parameter servers, and an evaluator."""

from __future__ import annotations

from typing import Any

import pytest

from ..conftest import Rsctl

CLOUDS = ("vertex", "sagemaker")
TRAIN = """\
import json, os, time, urllib.request

def ask(server, data=None):
    while True:
        try:
            return json.load(urllib.request.urlopen(f"http://{server}/", data, timeout=5))
        except OSError:
            time.sleep(0.05)

servers = json.loads(os.environ["RSCTL_ROLE_HOSTS"])["ps"]
for step in range(10):
    for server in servers:
        gradient = ask(server) / int(os.environ["NNODES"])
        ask(server, json.dumps(gradient / 2).encode())
print(f"weights={max(map(ask, servers)):.6f}", flush=True)
"""
SERVE = """\
import json, os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

mine = json.loads(os.environ["RSCTL_ROLE_HOSTS"])["ps"][int(os.environ["RSCTL_ROLE_INDEX"])]

class Server(BaseHTTPRequestHandler):
    weight = 8.0

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(Server.weight).encode())

    def do_POST(self):
        Server.weight -= json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.do_GET()

    def log_message(self, *_):
        pass

host, port = mine.rsplit(":", 1)
print("serving", flush=True)
ThreadingHTTPServer((host if host.startswith("127.") else "", int(port)), Server).serve_forever()
"""
EVALUATE = """\
import json, os, time
task = json.loads(os.environ["TF_CONFIG"])["task"]
time.sleep(1)
print("evaluated", task["type"], "RANK" in os.environ, flush=True)
"""


def write_job(rsctl: Rsctl, **changes: Any) -> str:
    roles = {
        "ps": {"count": 2, "script": "serve.py"},
        "evaluator": {"script": "evaluate.py", "ends": "by-itself"},
    }
    (rsctl.folder / "source").mkdir()
    for name, text in (("train", TRAIN), ("serve", SERVE), ("evaluate", EVALUATE)):
        (rsctl.folder / "source" / f"{name}.py").write_text(text)
    return rsctl.write_job(
        run={"script": "train.py", "launcher": "once"},
        image={"base": "b"},
        workers={"count": 2},
        roles={**roles, **changes},
        metrics={"weights": {"regex": "weights=([0-9.]+)"}},
    )


def rehearse(rsctl: Rsctl, job: str, cloud: str) -> Any:
    return rsctl(
        "submit", job, "-t", cloud, "--rehearse", "--rehearse-with", "process", "-o", "json"
    )


@pytest.mark.parametrize("cloud", CLOUDS)
def test_parameter_servers_and_an_evaluator(cloud: str, rsctl: Rsctl) -> None:
    done = rehearse(rsctl, write_job(rsctl), cloud)
    assert done.exit_code == 0, done.stderr
    assert 0 < done.result["metrics"]["weights"]["last"] < 1
    lines = {(e["replica"], e["text"]) for e in done.events if e["type"] == "log"}
    assert {("ps-0", "serving"), ("ps-1", "serving")} <= lines
    assert ("evaluator-0", "evaluated evaluator False") in lines
    ends = {r["replica"]: (r["state"], r["exit_code"]) for r in rsctl.status("@last")["replicas"]}
    assert ends == {
        **dict.fromkeys(("worker-0", "worker-1", "evaluator-0"), ("succeeded", 0)),
        **dict.fromkeys(("ps-0", "ps-1"), ("succeeded", None)),
    }


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_role_that_fails_is_the_first_failure(cloud: str, rsctl: Rsctl) -> None:
    fails = {"count": 2, "command": ["sh", "-c", '[ "$RSCTL_REPLICA" = ps-0 ] || exit 3; sleep 60']}
    done = rehearse(rsctl, write_job(rsctl, ps=fails), cloud)
    assert done.exit_code == 1, done.stderr
    failure = done.result["first_failure"]
    assert (failure["replica"], failure["exit_code"]) == ("ps-1", 3)
