"""One replica of a local target, read by hand."""

from __future__ import annotations

import json
import os
import selectors
from pathlib import Path

from rsctl.runs.stream.journal import JournalReader
from rsctl.targets.local.backend import ReplicaCommand
from rsctl.targets.local.replica import ReplicaProcess

REPORT = json.dumps({"rsctl": "exit", "rank": 0, "code": 1})
FAILS = f"""\
echo step 1
echo Traceback >&2
echo '{REPORT}'
echo stdout goes on
"""


def test_what_a_rank_wrote_to_stderr_stands_before_its_report(tmp_path: Path) -> None:
    """Though both pipes are read only after its end, and stdout first, as on a busy machine."""
    with selectors.DefaultSelector() as selector:
        command = ReplicaCommand(["sh", "-c", FAILS], str(tmp_path), dict(os.environ))
        replica = ReplicaProcess("worker-0", command, tmp_path / "log", selector)
        replica.process.wait()
        assert replica.process.stdout
        assert replica.process.stderr
        stdout, stderr = replica.process.stdout.fileno(), replica.process.stderr.fileno()
        lines = replica.read("stdout", stdout)
        assert lines.splitlines() == [
            *(b"step 1", b"Traceback"),
            *(REPORT.encode(), b"stdout goes on"),
        ]
        assert replica.read("stderr", stderr) == b""
        assert replica.open_pipes == 1
        assert replica.close() == b""
    reader = JournalReader(tmp_path / "log", "worker-0")
    assert [(line.stream, line.text) for line in reader.read()] == [
        ("stdout", "step 1"),
        ("stderr", "Traceback"),
        ("stdout", REPORT),
        ("stdout", "stdout goes on"),
    ]
    reader.close()


def test_only_the_first_output_can_be_for_the_supervisor_alone(tmp_path: Path) -> None:
    """What looks like an announcement later, or in stderr, is a line of the script."""
    said = '{"rsctl": "exits", "lock": "x"}'
    script = f"echo '{said}'; echo one; echo '{said}' >&2; echo '{said}'"
    with selectors.DefaultSelector() as selector:
        command = ReplicaCommand(["sh", "-c", script], str(tmp_path), dict(os.environ))
        replica = ReplicaProcess("worker-0", command, tmp_path / "log", selector)
        replica.process.wait()
        assert replica.process.stdout
        assert replica.process.stderr
        stderr = replica.read("stderr", replica.process.stderr.fileno())
        assert stderr.splitlines() == [said.encode()]
        stdout = replica.read("stdout", replica.process.stdout.fileno())
        assert stdout.splitlines() == [said.encode(), b"one", said.encode()]
        replica.close()
    reader = JournalReader(tmp_path / "log", "worker-0")
    assert [(line.stream, line.text) for line in reader.read()] == [
        ("stderr", said),
        ("stdout", "one"),
        ("stdout", said),
    ]
    reader.close()
