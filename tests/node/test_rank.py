"""`rank.py` as torchrun starts it: what it prints and what it ends with."""

from __future__ import annotations

import datetime
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rsctl.node import rank, structured_lines

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start rank.py around a Python program."""
    started: list[subprocess.Popen[str]] = []

    def start(source: str, *command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", rank.__file__, "--"]
            + (list(command) or [sys.executable, "-u", "-c", source]),
            env={**os.environ, "RANK": "3", "LOCAL_RANK": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def the_exit_line(out: str) -> dict[str, object]:
    """The only line there is, with its time checked and taken off."""
    (line,) = out.splitlines()
    fields: dict[str, object] = json.loads(line)
    time = str(fields.pop("time"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", time)
    moment = datetime.datetime.fromisoformat(time.replace("Z", "+00:00"))
    age = datetime.datetime.now(datetime.timezone.utc) - moment
    assert datetime.timedelta() <= age < datetime.timedelta(minutes=5)
    return fields


def test_success_is_silent(start: Start) -> None:
    process = start("print('trained')")
    assert process.communicate() == ("trained\n", "")
    assert process.returncode == 0


def test_failure_is_told(start: Start) -> None:
    process = start("raise SystemExit(7)")
    out, err = process.communicate()
    assert the_exit_line(out) == {
        "rsctl": "exit", "rank": 3, "local_rank": 1, "code": 7, "signal": None
    }  # fmt: skip
    assert (err, process.returncode) == ("", 7)


def test_death_by_a_signal_is_told(start: Start) -> None:
    process = start("import os; os.kill(os.getpid(), 9)")
    out, _ = process.communicate()
    line = the_exit_line(out)
    assert line.pop("oom_kills") in (0, None)
    assert line == {
        "rsctl": "exit", "rank": 3, "local_rank": 1, "code": 137, "signal": "SIGKILL"
    }  # fmt: skip
    assert process.returncode == 137


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_what_was_told_to_stop_did_not_fail(start: Start, number: signal.Signals) -> None:
    process = start("import time; print('up'); time.sleep(999)")
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(number)
    out, _ = process.communicate()
    assert out == ""
    assert process.returncode == 128 + number


def test_one_stop_signal_to_the_group_reaches_the_command_once(start: Start) -> None:
    process = start(
        "import signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
        "print('up')\n"
        "signal.sigwait([signal.SIGTERM])\n"
        "print('saving')\n"
        "print('again' if signal.sigtimedwait([signal.SIGTERM], 0.5) else 'saved')\n"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    os.killpg(process.pid, signal.SIGTERM)
    assert process.stdout.readline() == "saving\n"
    os.killpg(process.pid, signal.SIGTERM)
    assert process.communicate()[0] == "saved\n"
    assert process.returncode == 0


def test_the_command_dies_with_it(start: Start, gone: Callable[[int], None]) -> None:
    process = start("import os, time; print(os.getpid()); time.sleep(999)")
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    process.kill()
    gone(pid)


def test_a_command_that_is_not_there(start: Start) -> None:
    process = start("", "no-such-command")
    out, err = process.communicate()
    assert the_exit_line(out)["code"] == 127
    assert err == "rsctl: cannot run no-such-command: there is no such program\n"


def test_signals_are_as_a_shell_leaves_them(start: Start) -> None:
    """Not blocked, and those not ignored that Python ignores, or that end a rank; what else we
    inherit ignored stays so."""
    process = start("", "sh", "-c", "grep -E 'SigBlk|SigIgn' /proc/self/status")
    inherited = int(re.search(r"SigIgn:\s*(\w+)", Path("/proc/self/status").read_text())[1], 16)
    for number in (*rank.STOP_SIGNALS, signal.SIGPIPE, signal.SIGXFSZ):
        inherited &= ~(1 << (number - 1))
    words = ["SigBlk:", "0" * 16, "SigIgn:", f"{inherited:016x}"]
    assert process.communicate()[0].split() == words


def test_a_line_never_exceeds_what_a_pipe_takes_whole(capfd: pytest.CaptureFixture[str]) -> None:
    fields = {"severity": "error", "message": "é" * 9000, "remedy": "Do this."}
    structured_lines.emit("finding", fields)
    (line,) = capfd.readouterr().out.splitlines(keepends=True)
    assert len(line.encode()) <= 4096
    fields = json.loads(line)
    assert fields["message"].startswith("ééé")
    assert fields["message"].endswith("...")
    assert fields["remedy"] == "Do this."


def test_nobody_listening_changes_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *("sh", "-c", 'exec >&-; exec "$@"', "sh"),
            *(sys.executable, "-I", "-S", rank.__file__, "--", "false"),
        ],
        env={**os.environ, "RANK": "0", "LOCAL_RANK": "0"},
    )
    assert done.returncode == 1
