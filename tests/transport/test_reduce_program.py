"""`rsctl-reduce` as a program: what it prints, where it listens, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import rsctl_start
from rsctl.transport import Transport, connect, reduce
from rsctl.transport.engine_interface import ReducerStats
from rsctl.transport.reduce import ReducerReport, interface_address, main
from rsctl.transport.server import Reducer
from rsctl.transport.settings import WorkerSettings
from tests.kit.polling import DEADLINE_SECONDS
from tests.transport.conftest import TOKEN, in_threads

_PROGRAM = [*rsctl_start.command("rsctl.transport.reduce")]
_ENVIRON = os.environ | {"RSCTL_TOKEN": TOKEN.decode(), "RSCTL_RUN": "run"}


class Program:
    """A running reducer; its first line says where it listens."""

    def __init__(self, *arguments: str) -> None:
        command = [*_PROGRAM, "--interface", "lo", "--port", "0", *arguments]
        self.process = subprocess.Popen(
            command,
            env=_ENVIRON,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.first = self.line()
        host, _, port = str(self.first["address"]).rpartition(":")
        self.address = (host, int(port))

    def line(self) -> dict[str, Any]:
        """The next line."""
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def end(self) -> tuple[int, list[dict[str, Any]], str]:
        """Wait for its end: exit code, the remaining lines, and stderr."""
        out, err = self.process.communicate(timeout=DEADLINE_SECONDS)
        lines = [json.loads(line) for line in (out or "").splitlines()]
        return self.process.returncode, lines, err


@pytest.fixture
def programs() -> Iterator[list[Program]]:
    """Reducers that are ended whatever happens."""
    started: list[Program] = []
    yield started
    for program in started:
        if program.process.poll() is None:
            program.process.kill()
            program.process.communicate()


def _reduce(address: tuple[str, int], epoch: int = 0, run: str = "run") -> list[Any]:
    def work(rank: int) -> list[float]:
        made: Transport
        with connect(WorkerSettings(run, TOKEN, rank, 2, (address,), epoch=epoch)) as made:
            data = np.full(5, rank + 1, np.float32)
            made.all_reduce(memoryview(data), op="avg").wait(30)
            return data.tolist()

    return in_threads(2, work)


def test_it_serves_tells_what_it_did_and_ends_on_a_signal(programs: list[Program]) -> None:
    programs.append(program := Program("--telemetry", "0"))
    assert program.first["rsctl"] == "reducer"
    assert program.address[0] == "127.0.0.1"
    assert _reduce(program.address) == [[1.5] * 5] * 2
    assert _reduce(program.address, epoch=1) == [[1.5] * 5] * 2
    program.process.send_signal(signal.SIGTERM)
    code, lines, err = program.end()
    assert (code, err, len(lines)) == (0, "", 1)
    assert list(lines[0]) == ["rsctl", "reducer"]
    last = lines[0]["reducer"]
    assert {name: last[name] for name in ("epoch", "blocks", "ended")} == {
        "epoch": 1,
        "blocks": 1,
        "ended": "all workers have left",
    }
    assert {late["rank"] for late in last["late"]} == {0, 1}


def test_it_serves_and_ends_in_order_after_its_output_has_gone(programs: list[Program]) -> None:
    program = Program("--once", "--telemetry", "0.05")
    programs.append(program)
    assert program.process.stdout is not None
    program.process.stdout.close()
    settings = WorkerSettings("run", TOKEN, 0, 1, (program.address,))
    with connect(settings) as transport:
        numbers = np.ones(4, np.float32)
        transport.all_reduce(numbers.data).wait()
    program.process.stdout = None
    assert program.end() == (0, [], "")


def test_it_ends_with_its_workers_if_asked(programs: list[Program]) -> None:
    programs.append(program := Program("--once", "--telemetry", "0.05"))
    assert _reduce(program.address) == [[1.5] * 5] * 2
    code, lines, _ = program.end()
    assert code == 0
    assert {line["rsctl"] for line in lines} == {"telemetry"}


def test_each_lane_is_a_run_of_its_own(programs: list[Program]) -> None:
    programs.append(program := Program("--lanes", "2", "--telemetry", "0"))
    assert _reduce(program.address) == [[1.5] * 5] * 2
    assert _reduce(program.address, run="run.1") == [[1.5] * 5] * 2
    refused = _reduce(program.address, run="run.2")
    assert all("this reducer serves run run, not run.2" in str(error) for error in refused)
    program.process.terminate()
    code, lines, _ = program.end()
    assert (code, lines[0]["reducer"]["blocks"]) == (0, 2)


def test_it_listens_on_its_interface_only(programs: list[Program]) -> None:
    programs.append(program := Program())
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", program.address[1]), timeout=5)


def test_the_token_is_in_no_argument_and_no_line(programs: list[Program]) -> None:
    programs.append(program := Program())
    _reduce(program.address)
    with open(f"/proc/{program.process.pid}/cmdline", "rb") as command:
        assert TOKEN not in command.read()
    program.process.terminate()
    assert TOKEN.decode() not in repr(program.end())


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"RSCTL_TOKEN": "short"}, "RSCTL_TOKEN must be a secret of at least 16 bytes"),
        ({"RSCTL_RUN": ""}, "RSCTL_RUN must be a run ID of 1 to 127 bytes, not ''"),
        ({"RSCTL_TRANSPORT_TLS": "?"}, "RSCTL_TRANSPORT_TLS must be 1 or 0, not '?'"),
        (
            {"RSCTL_TRANSPORT_TLS": "1", "RSCTL_TLS_IDENTITY": ""},
            "RSCTL_TRANSPORT_TLS requests TLS, but RSCTL_TLS_IDENTITY has no certificate with "
            "its key",
        ),
    ],
)
def test_wrong_settings_are_named(
    environ: dict[str, str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name, value in ({"RSCTL_TOKEN": TOKEN.decode(), "RSCTL_RUN": "run"} | environ).items():
        monkeypatch.setenv(name, value)
    assert main(["--bind", "127.0.0.1", "--port", "0"]) == 2
    assert capfd.readouterr().err == f"rsctl-reduce: {message}\n"


class Serving:
    """A reducer of two lanes that has done this much."""

    def __init__(self) -> None:
        self.epoch, self.refused = 3, 1
        self.flows = [
            ReducerStats(
                10**9, 2 * 10**9, 5, 2, [0.1, 0.4, 0.2, 0.0, 0.3], [1.0, 1.0, 1.0, 1.0, 1.0]
            ),
            ReducerStats(10**9, 10**9, 6, 3, [0.25, 0.0, 0.0, 0.0, 0.0], [0.5, 2.0, 0.0, 0.0, 0.0]),
        ]

    def stats(self) -> list[ReducerStats]:
        return self.flows

    def outcome(self) -> None:
        """It serves."""


def test_a_report_has_the_rates_since_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the ranks that others wait for most, by the slowest lane; a new epoch counts from 0."""
    clock = SimpleNamespace(monotonic=iter([100.0, 102.0, 106.0, 107.0]).__next__)
    monkeypatch.setattr(reduce, "time", clock)
    reducer = Serving()
    report = ReducerReport(cast("Reducer", reducer))
    assert report.read() == {
        "epoch": 3,
        "members": 3,
        "blocks": 11,
        "bytes_in": 2 * 10**9,
        "bytes_out": 3 * 10**9,
        "gbps_in": 8.0,
        "gbps_out": 12.0,
        "refused": 1,
        "late": [
            {"rank": 1, "mean_ms": 400.0, "most_ms": 2000.0},
            {"rank": 4, "mean_ms": 300.0, "most_ms": 1000.0},
            {"rank": 0, "mean_ms": 250.0, "most_ms": 1000.0},
            {"rank": 2, "mean_ms": 200.0, "most_ms": 1000.0},
        ],
        "ended": None,
    }
    reducer.flows = [ReducerStats(3 * 10**9, 4 * 10**9)]
    later = report.read()
    assert (later["gbps_in"], later["gbps_out"], later["late"]) == (2.0, 2.0, [])
    reducer.flows = [ReducerStats(10**9, 5 * 10**9)]
    latest = report.read()
    assert (latest["gbps_in"], latest["gbps_out"]) == (8.0, 8.0)


def test_an_address_that_is_taken_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [*_PROGRAM, "--bind", "127.0.0.1", "--port", port],
            env=_ENVIRON,
            capture_output=True,
            text=True,
        )
    expected = "rsctl-reduce: cannot listen on 127.0.0.1: Address already in use\n"
    assert (done.returncode, done.stderr) == (3, expected)


def test_an_interface_that_is_not_there_is_said() -> None:
    with pytest.raises(OSError, match="No such device"):
        interface_address("nothing0")
