"""A run on a disk, or with a limit, that has no space for what it writes; a flood of lines."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rsctl.runs import exit_reports
from rsctl.runs.stream.events import now
from rsctl.targets.local import output_scanner
from tests.kit.disks import fill
from tests.kit.disks import small_disk as small_disk

from ..conftest import Rsctl

_MANY_VALUES = "for i in $(seq 1 30000); do echo loss=$i; done; echo end >&2"


def _submit(rsctl: Rsctl, job: str, limit: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rsctl", "submit", job, "-o", "json"]
    return subprocess.run(
        ["bash", "-c", f'ulimit {limit}; exec "$@"', "bash", *command],
        cwd=rsctl.folder,
        env=rsctl.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_run_may_have_more_files_open_than_a_shell_allows(rsctl: Rsctl) -> None:
    """As with 350 replicas: many systems have a soft limit of 1,024 files."""
    job = rsctl.write_job(run={"command": ["true"], "launcher": "none"}, workers={"count": 24})
    done = _submit(rsctl, job, "-Sn 64")
    assert done.returncode == 0, done.stdout


def test_a_limit_of_file_sizes_loses_values_and_says_so(rsctl: Rsctl) -> None:
    """The ends of the run and of its replicas are known all the same."""
    job = rsctl.write_job(
        bash=_MANY_VALUES,
        workers={"count": 2},
        metrics={"loss": {"regex": "loss=(?P<value>[0-9]+)"}},
    )
    done = _submit(rsctl, job, "-f 200")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["state"] == "succeeded"
    assert "values of metrics are not stored" in done.stdout
    assert "ulimit" in done.stdout
    known = rsctl.status(result["run"])
    assert [replica["state"] for replica in known["replicas"]] == ["succeeded"] * 2
    assert known["metrics"]["loss"] == result["metrics"]["loss"]["last"]
    with sqlite3.connect(rsctl.home / "runs.db") as db:
        values = db.execute("SELECT value FROM metrics WHERE name='loss' ORDER BY rowid").fetchall()
    assert len(values) < 60000
    shown = "the last values shown may differ from the job's last values" in done.stdout
    assert (known["metrics"]["loss"] == 30000) is not shown


def test_a_run_makes_the_space_in_which_it_is_forgotten(rsctl: Rsctl, small_disk: Path) -> None:
    rsctl.env["RSCTL_HOME"] = str(small_disk)
    job = rsctl.write_job(bash="yes 'a line of a log' | head -c 1000000")
    run = rsctl("submit", job, "-o", "json").result["run"]
    fill(small_disk)
    done = rsctl("forget", run)
    assert (done.exit_code, done.stderr) == (0, f"removed the records of {run}\n")
    assert not (small_disk / "runs" / run).exists()
    assert rsctl.runs() == []


def test_a_job_cannot_print_findings_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are compared with each new one, and the supervisor does nothing else."""
    monkeypatch.setattr(exit_reports, "MOST_FINDINGS", 3)
    taken: list[str] = []
    recorder: Any = SimpleNamespace(
        finding=lambda finding, _: taken.append(finding.message), metrics=bool, reports=bool
    )
    printed = '{{"rsctl": "finding", "severity": "warning", "code": "x", "message": "{}"}}\n'
    lines = "".join(map(printed.format, range(9))).encode()
    output_scanner.OutputScanner({}, recorder, {}).scan("worker-0", lines, now())
    assert taken == ["0", "1", "2", "the job reports more findings; see them in its log"]
