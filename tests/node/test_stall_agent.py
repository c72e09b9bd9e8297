"""What a node's launcher makes and removes, and what it reports."""

from __future__ import annotations

import os
import re
import shutil
import socket
import threading
from pathlib import Path

import pytest

from rsctl.node.cluster import Cluster
from rsctl.node.platforms import LOCAL
from rsctl.node.stall import agent
from rsctl.node.stall.evidence import Evidence
from rsctl.node.stall.ranks import ArmedRank
from rsctl.node.stall.reachability import start_reaching
from rsctl.node.stall.request import request_pipe
from rsctl.node.structured_lines import LINE_BYTES, line
from rsctl.runs.stalls.reports import StallReports
from rsctl.runs.stream.events import LogEvent

CLUSTER = Cluster("worker", 0, ("127.0.0.1",), (), None, 29500, platform=LOCAL)


@pytest.mark.parametrize("named", [None, "", "own"])
def test_a_folder_of_others_is_never_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str | None
) -> None:
    removed: list[str] = []
    monkeypatch.setattr(shutil, "rmtree", lambda path, **_: removed.append(str(path)))
    own = tmp_path / "own"
    own.mkdir()
    environ = {"TMPDIR": str(tmp_path), "RSCTL_INSPECT": "off", "RSCTL_OUTPUT_DIR": str(tmp_path)}
    if named is not None:
        environ[agent.DEBUG_DIR] = str(own) if named else ""
    assert agent.debug_environment(environ) == {}
    agent.StallAgent(CLUSTER, environ, None).close()
    assert removed == []


def test_the_launchers_own_folder_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[str] = []
    monkeypatch.setattr(shutil, "rmtree", lambda path, **_: removed.append(str(path)))
    environ = {"TMPDIR": str(tmp_path), "RSCTL_OUTPUT_DIR": str(tmp_path)}
    made = agent.debug_environment(environ)
    agent.StallAgent(CLUSTER, {**environ, **made}, None).close()
    assert removed == [made[agent.DEBUG_DIR]]
    assert Path(removed[0]).name.startswith("rsctl-debug-")


def test_each_job_on_a_machine_has_its_own_address_of_ras_unless_the_user_sets_one(
    tmp_path: Path,
) -> None:
    environ = {"TMPDIR": str(tmp_path)}
    made = agent.debug_environment(environ)
    assert re.fullmatch(r"localhost:\d+", made["NCCL_RAS_ADDR"])
    own = agent.debug_environment({**environ, "NCCL_RAS_ADDR": "localhost:9"})
    assert "NCCL_RAS_ADDR" not in own
    for folder in (made, own):
        Path(folder[agent.DEBUG_DIR]).rmdir()


def test_the_answer_of_ras_at_the_jobs_address_is_kept_twice(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            for number in (1, 2):
                peer, _ = server.accept()
                with peer:
                    assert peer.recv(100) == b"verbose status\n"
                    peer.sendall(b"NCCL version 2.28, answer %d\n" % number)

        thread = threading.Thread(target=answer)
        thread.start()
        address = f"localhost:{server.getsockname()[1]}"
        Evidence(str(tmp_path / "evidence"), "", address).of_node([], has_nccl=True)
        thread.join()
    kept = (tmp_path / "evidence" / "ras.txt").read_text()
    assert kept.splitlines() == [
        "NCCL version 2.28, answer 1",
        "",
        "",
        "NCCL version 2.28, answer 2",
    ]


@pytest.mark.parametrize("kind", ["file", "fifo"])
def test_a_file_in_place_of_the_pipe_is_not_removed(tmp_path: Path, kind: str) -> None:
    """A pipe may be what a killed launcher has left; another file is not used either."""
    environ = {"TMPDIR": str(tmp_path), "RSCTL_INSPECT": "off", "RSCTL_REPLICA": "worker-0"}
    path = Path(request_pipe(environ))
    path.touch() if kind == "file" else os.mkfifo(path)
    agent.StallAgent(CLUSTER, environ, None).close()
    assert path.exists()


def test_another_users_pipe_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a cluster users share /tmp, and the pipe's name is known."""
    pipe = tmp_path / "rsctl-ask-worker-0"
    os.mkfifo(pipe, 0o666)
    own = agent._open_pipe(str(pipe))
    assert own is not None
    os.close(own)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert agent._open_pipe(str(pipe)) is None


def test_many_process_groups_of_a_rank_go_over_several_lines() -> None:
    entries = [
        {"number": n, "op": "all_reduce", "sizes": [[n]], "dtypes": ["Float"], "ended": True}
        for n in range(40)
    ]
    groups = {
        f"{n:040}": {"called": n, "ended": n, "entries": entries, "ranks": "0-7"} for n in range(30)
    }
    report = {"number": 3, "rank": 5, "pid": 9, "stack": ["train.py:1 main"], "groups": groups}
    lines = [line("rank", part).decode() for part in agent.rank_lines(report)]
    assert len(lines) > 1
    assert max(map(len, lines)) <= LINE_BYTES
    reports = StallReports()
    for text in [*lines, '{"rsctl": "stall", "number": 3, "ranks": 1}']:
        node = reports.read(LogEvent("2026-01-01T00:00:00Z", "worker-0", "1", "stdout", text))
    assert node is not None
    [rank] = node.reports
    assert {name: group.called for name, group in rank.groups.items()} == {
        name: group["called"] for name, group in groups.items()
    }


@pytest.mark.parametrize(
    ("inner", "inside"),
    [
        (["torch/utils/data/dataloader.py:9 get"], "data"),
        (["torch/distributed/distributed_c10d.py:9 barrier"], "collective"),
        (["rsctl/transport/pytorch/hook.py:9 exchange"], "collective"),
        (
            ["torch/serialization.py:9 __init__", "rsctl/transport/pytorch/x.py:9 save"],
            "checkpoint",
        ),
        (["torch/distributed/checkpoint/filesystem.py:9 write_data"], "checkpoint"),
        (
            ["torch/distributed/distributed_c10d.py:9 f", "torch/distributed/checkpoint/x.py:9 f"],
            "collective",
        ),
        (["torch/nn/modules/linear.py:9 forward", "torch/distributed/fsdp/x.py:9 forward"], None),
        (["torch/optim/adam.py:9 step", "rsctl/transport/pytorch/local_steps.py:9 f"], None),
        (["torch/_dynamo/convert_frame.py:9 _compile"], "compile"),
        (["threading.py:9 _shutdown"], "exit"),
        ([], None),
    ],
)
def test_the_innermost_library_call_is_the_one_that_a_rank_waits_in(
    tmp_path: Path, inner: list[str], inside: str | None
) -> None:
    """rsctl's own wrapper of the DataLoader does not count as a collective."""
    loader = ["rsctl/transport/pytorch/data_waits.py:30 __next__", "torch/utils/data/x.py:3 f"]
    frames = [f"/x/site-packages/{frame}" for frame in [*inner, *(loader if inner else [])]]
    content = {"stack": [*frames, "train.py:9 main"], "groups": {}}
    [report] = Evidence(str(tmp_path), "").of_ended([(ArmedRank(1, 2, 0, 0), content)])
    assert (report["inside"], report["at"]) == (inside, "train.py:9 main")


def test_a_refused_connection_is_an_answer_and_a_name_without_address_is_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    unknown = "x" * 70  # longer than a name can be
    hosts = ["own", "localhost", unknown]
    assert start_reaching(hosts, 0, port)() == [2]
    assert start_reaching(["127.0.0.1", unknown], 0, port)() == []  # one machine
