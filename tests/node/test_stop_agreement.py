"""Ranks agree on the step to stop at: with a store in this process, at any moment of each rank."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rsctl.node import should_stop
from rsctl.node.stop_agreement import StopAgreement
from tests.kit.polling import wait_until


class Store:
    """As much of torch.distributed.Store as the ranks use."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def set(self, key: str, value: str) -> None:
        self.values[key] = value.encode()

    def get(self, key: str) -> bytes:
        return self.values[key]

    def check(self, keys: list[str]) -> bool:
        return all(key in self.values for key in keys)


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    made = [tmp_path / str(node) for node in range(2)]
    for folder in made:
        folder.mkdir()
    return made


@pytest.fixture
def ranks(folders: list[Path]) -> Iterator[list[StopAgreement]]:
    """Four ranks on two nodes."""
    store = Store()
    made = [StopAgreement(str(folders[rank // 2]), store, rank, 4) for rank in range(4)]
    yield made
    for agreement in made:
        agreement.close()


def train(agreement: StopAgreement, meet: threading.Barrier) -> int:
    """Steps that need all ranks, until should_stop is True; how many there were."""
    steps = 0
    while True:
        meet.wait(60)
        steps += 1
        if random.random() < 0.01:
            threading.Event().wait(random.random() / 1000)
        if agreement.next_call():
            return steps


def test_all_ranks_stop_at_the_same_step(ranks: list[StopAgreement], folders: list[Path]) -> None:
    meet = threading.Barrier(4)
    steps: dict[int, int] = {}

    def run(rank: int) -> None:
        steps[rank] = train(ranks[rank], meet)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: (folders[0] / "used").exists() and (folders[1] / "used").exists())
    (folders[1] / "asked").touch()  # only one node is asked
    for thread in threads:
        thread.join(60)
    assert len(steps) == 4
    assert len(set(steps.values())) == 1
    assert (folders[0] / "stopped").exists()
    assert (folders[1] / "stopped").exists()


def test_a_rank_that_does_not_call_is_named(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rsctl.node.stop_agreement._AGREE_SECONDS", 0.3)
    agreement = StopAgreement(str(folders[0]), Store(), 0, 2)
    (folders[0] / "asked").touch()
    wait_until(lambda: "rank 1 has not called" in capfd.readouterr().err)
    assert agreement.next_call() is False
    assert not (folders[0] / "stopped").exists()
    agreement.close()


def test_a_rank_alone_needs_no_store(folders: list[Path]) -> None:
    agreement = StopAgreement(str(folders[0]))
    assert agreement.next_call() is False
    (folders[0] / "asked").touch()
    wait_until(agreement.next_call)
    assert agreement.next_call() is True
    agreement.close()


def test_outside_of_a_job_nothing_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RSCTL_STOP_FOLDER", raising=False)
    assert should_stop() is False


def test_a_script_that_is_done_ends_at_once(tmp_path: Path) -> None:
    """Its thread neither holds it up nor leaves an error behind."""
    script = "from rsctl.node import should_stop; print(should_stop())"
    environ = {**os.environ, "RSCTL_STOP_FOLDER": str(tmp_path), "WORLD_SIZE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["used"]


PLATFORM_SIGNALS_ALL = """
import os, pathlib, signal, sys, time
from rsctl.node import should_stop
asked = pathlib.Path(os.environ["RSCTL_STOP_FOLDER"], "asked")
should_stop()
for _ in range(2):
    os.kill(os.getpid(), signal.SIGTERM)
asked.touch()
os.kill(os.getpid(), signal.SIGTERM)
while not should_stop():
    time.sleep(0.01)
print("saved", flush=True)
os.utime(asked, (1, 1))
os.kill(os.getpid(), signal.SIGTERM)
print("never", flush=True)
"""


def test_a_sigterm_to_all_processes_waits_for_the_step(tmp_path: Path) -> None:
    """As Slurm sends it to each process; the one at the end of the grace ends the rank."""
    env = {**os.environ, "RSCTL_STOP_FOLDER": str(tmp_path), "RSCTL_SIGNALS_ALL": "1"}
    command = [sys.executable, "-c", PLATFORM_SIGNALS_ALL]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("saved\n", -signal.SIGTERM)
    env.pop("RSCTL_SIGNALS_ALL")
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("", -signal.SIGTERM)
