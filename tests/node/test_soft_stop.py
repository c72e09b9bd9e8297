"""Soft stops of one node: what its ranks are told, what signal they get, how the node ends."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Launch = Callable[..., Any]
Script = Callable[[str], str]

STEPS = """
import time
from rsctl.node import should_stop
step = 0
while not should_stop():
    step += 1
    if step == 3:
        print("training", flush=True)
    time.sleep(0.01)
print("saved", flush=True)
"""

DEAF = """
import signal, time
from rsctl.node import should_stop
should_stop()
def save(*_):
    print("signalled", flush=True)
    raise SystemExit(0)
signal.signal(signal.SIGTERM, save)
signal.signal(signal.SIGINT, save)
print("training", flush=True)
while True:
    time.sleep(0.05)
"""

WITHOUT = DEAF.replace("should_stop()\n", "", 1).replace("from rsctl.node import should_stop\n", "")


@pytest.mark.parametrize("launcher", ["once", "torchrun"])
def test_a_script_that_listens_saves_and_ends(
    launch: Launch, script: Script, launcher: str, torch_forks: dict[str, str]
) -> None:
    node = launch("--launcher", launcher, "--python", "--", script(STEPS), **torch_forks)
    node.printed("training")
    node.process.send_signal(signal.SIGTERM)
    assert node.wait() == 128 + signal.SIGTERM  # it has not completed its work
    assert node.printed("saved") == ""


@pytest.mark.parametrize(("source", "grace"), [(DEAF, "0.4"), (WITHOUT, "600")])
def test_one_that_does_not_end_or_listen_gets_the_signal(
    launch: Launch, script: Script, source: str, grace: str
) -> None:
    """One that does not listen gets it immediately, and its own handler ends it with 0."""
    node = launch(
        *("--launcher", "once", "--python", "--", script(source)), RSCTL_GRACE_SECONDS=grace
    )
    node.printed("training")
    node.process.send_signal(signal.SIGTERM)
    node.printed("signalled")
    assert node.wait() == 128 + signal.SIGTERM


def test_a_second_signal_is_passed_on_at_once(launch: Launch, script: Script) -> None:
    node = launch(
        *("--launcher", "once", "--python", "--", script(DEAF)), RSCTL_GRACE_SECONDS="600"
    )
    node.printed("training")
    node.process.send_signal(signal.SIGTERM)
    node.process.send_signal(signal.SIGINT)
    node.printed("signalled")
    assert node.wait() == 128 + signal.SIGTERM


@pytest.mark.parametrize(("source", "last"), [(STEPS, "saved"), (WITHOUT, "signalled")])
def test_a_node_asks_before_its_time_limit(
    launch: Launch, script: Script, source: str, last: str
) -> None:
    """It then waits for the platform to end the job, which knows that the limit was the reason."""
    node = launch(
        *("--launcher", "once", "--python", "--", script(source)), RSCTL_STOP_AFTER_SECONDS="1"
    )
    node.printed(last)
    node.printed("rsctl: the ranks have ended; waiting for the job's time limit")
    node.process.send_signal(signal.SIGTERM)
    assert node.wait() == 128 + signal.SIGTERM


def test_a_job_that_is_done_before_its_time_limit(launch: Launch) -> None:
    node = launch("--launcher", "once", "--", "true", RSCTL_STOP_AFTER_SECONDS="300")
    assert node.wait() == 0


def test_a_failure_while_saving_is_a_failure(launch: Launch, script: Script) -> None:
    source = STEPS.replace('print("saved", flush=True)', "raise SystemExit(7)")
    node = launch(
        *("--launcher", "once", "--python", "--", script(source)), RSCTL_STOP_AFTER_SECONDS="1"
    )
    assert node.wait() == 7


def test_no_folder_is_left(launch: Launch, tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    assert launch("--launcher", "once", "--", "true", TMPDIR=str(folder)).wait() == 0
    assert list(folder.iterdir()) == []


NAMED = """
import os, signal, sys
def save(number, _):
    rank = os.environ.get("RANK") or os.environ["NODE_RANK"]
    sys.stdout.write(f"rank {rank} got {signal.Signals(number).name}\\n")
    sys.stdout.flush()
    sys.exit(0)
for name in sys.argv[1:]:
    signal.signal(signal.Signals[name], save)
sys.stdout.write("training\\n")
sys.stdout.flush()
while True:
    signal.pause()
"""


@pytest.mark.parametrize("name", ["USR1", "USR2", "INT"])
@pytest.mark.parametrize("launcher", ["once", "torchrun"])
def test_ranks_get_the_signal_that_they_expect(
    launch: Launch,
    script: Script,
    launcher: str,
    name: str,
    free_port: int,
    torch_forks: dict[str, str],
) -> None:
    """Also through torchrun, which passes only four signals on by itself."""
    node = launch(
        *("--launcher", launcher, "--stop-signal", name),
        *("--python", "--", script(NAMED), f"SIG{name}"),
        RSCTL_PORT=str(free_port),
        **torch_forks,
    )
    node.printed("training")
    node.process.send_signal(signal.SIGTERM)
    node.printed(f"rank 0 got SIG{name}")
    assert node.wait() == 128 + signal.SIGTERM


def test_a_rank_that_the_signal_ends_has_not_failed(launch: Launch, script: Script) -> None:
    """SIGUSR1 ends a program without a handler: exit code 138 would look like a failure."""
    node = launch(
        *("--launcher", "once", "--stop-signal", "USR1", "--python", "--", script(NAMED)),
    )
    node.printed("training")
    node.process.send_signal(signal.SIGTERM)
    assert node.wait() == 128 + signal.SIGTERM
    assert node.lines("exit") == []
