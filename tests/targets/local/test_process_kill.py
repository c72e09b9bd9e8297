"""Target process: what happens when something is killed, interrupted, cut off or misbehaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

import rsctl_start
from rsctl.runs.database import BUSY_SECONDS
from rsctl.runs.findings import findings_of
from rsctl.runs.folder import RunDescription, RunFolder
from rsctl.runs.store import Store
from tests.kit.disks import fill
from tests.kit.disks import small_disk as small_disk
from tests.kit.polling import DEADLINE_SECONDS, wait_until

from ...runs.conftest import a_run
from ..conftest import Rsctl

FOREVER = "echo up; sleep 600 & sleep 601; wait"


def test_the_job_outlives_a_killed_command_line(rsctl: Rsctl) -> None:
    job = rsctl.write_job(bash=FOREVER, workers={"count": 2})
    cli = rsctl.start("submit", job)
    assert cli.stdout is not None
    assert cli.stdout.readline().endswith("| up\n")
    cli.send_signal(signal.SIGKILL)
    cli.communicate()
    run = rsctl.status("@last")
    assert run["state"] == "running"
    assert rsctl("cancel", run["run"]).stderr == f"{run['run']} cancelled\n"
    assert rsctl.status(run["run"])["exit_code"] == 5
    assert rsctl.processes(run["run"]) == []


@pytest.mark.parametrize("cleaner", ["status", "cancel", "list", "submit"])
def test_a_killed_supervisor_leaves_nothing(rsctl: Rsctl, cleaner: str) -> None:
    run = rsctl.detach(rsctl.write_job(bash=FOREVER, workers={"count": 2}))
    rsctl.wait_for_log(run, "up")
    links = Path(os.readlink(rsctl.home / "runs" / run / "links"))
    os.kill(rsctl.supervisor(run), signal.SIGKILL)
    arguments = {"list": ["list"], "submit": ["submit", rsctl.write_job(bash="true")]}
    rsctl(*arguments.get(cleaner, [cleaner, run]))
    assert rsctl.processes(run) == []
    assert not links.exists()
    after = rsctl.status(run)
    assert after["state"] == "failed"
    assert after["reason"] == "its supervisor was killed; rsctl has removed its remaining processes"
    assert {r["state"] for r in after["replicas"]} == {"cancelled"}


@pytest.mark.parametrize("sent", ["", '{"TOKEN": "a'])
def test_a_submission_that_was_killed_before_its_secrets_were_sent(
    rsctl_home: Path, sent: str
) -> None:
    folder, store = RunFolder("t-1"), Store()
    store.add(a_run("t-1"))
    request = {"commands": [{"replica": "worker-0", "argv": ["true"], "cwd": None, "env": {}}]}
    description = RunDescription(
        run="t-1", target="process", request=request, replicas=["worker-0"]
    )
    lock = folder.begin(description)
    assert lock is not None
    argv = rsctl_start.command("rsctl.targets.local.supervisor_process")
    done = subprocess.run([*argv, "t-1", str(lock)], input=sent, text=True, pass_fds=[lock])
    os.close(lock)
    after = store.find("t-1")
    assert (done.returncode, after.state.value) == (1, "failed")
    assert after.reason == "rsctl was killed as it submitted the job"
    assert (findings_of("t-1"), after.replicas) == ([], [])


def test_a_killed_supervisor_leaves_nothing_though_its_description_is_damaged(rsctl: Rsctl) -> None:
    run = rsctl.detach(rsctl.write_job(bash=FOREVER, workers={"count": 2}))
    rsctl.wait_for_log(run, "up")
    os.kill(rsctl.supervisor(run), signal.SIGKILL)
    (rsctl.home / "runs" / run / "submission.json").write_bytes(b'{"run":"\xff"}')
    after = rsctl.status(run)
    assert rsctl.processes(run) == []
    assert (after["state"], {r["state"] for r in after["replicas"]}) == ("failed", {"cancelled"})


def test_a_run_whose_folder_was_deleted_does_not_say_that_its_supervisor_was_killed(
    rsctl: Rsctl,
) -> None:
    run = rsctl.detach(rsctl.write_job(bash=FOREVER, workers={"count": 2}))
    rsctl.wait_for_log(run, "up")
    os.kill(rsctl.supervisor(run), signal.SIGSTOP)  # else it may record the killed ranks first
    (rsctl.home / "runs" / run).rename(rsctl.folder / "deleted")
    after = rsctl.status(run)
    assert after["state"] == "failed"
    assert after["reason"] == (
        "its folder was deleted or damaged; rsctl has removed its remaining processes"
    )
    assert rsctl.processes(run) == []


def test_a_run_of_another_container_is_cancelled_without_a_signal(rsctl: Rsctl) -> None:
    """The supervisor's process id is another process's there: here a witness's."""
    run = rsctl.detach(rsctl.write_job(bash=FOREVER, workers={"count": 2}))
    rsctl.wait_for_log(run, "up")
    witness = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with (rsctl.home / "runs" / run / "supervisor.lock").open("r+") as lock:
        lock.write(f"{witness.pid:<10}{'':<10}login-2/pid:[1]")
        lock.truncate()
    assert rsctl("cancel", run).stderr == f"{run} cancelled\n"
    assert rsctl.processes(run) == []
    witness.communicate(b"\n", timeout=DEADLINE_SECONDS)
    assert witness.returncode == 0


def test_a_run_whose_lock_cannot_be_used_is_cancelled(rsctl: Rsctl) -> None:
    run = rsctl.detach(rsctl.write_job(bash=FOREVER))
    rsctl.wait_for_log(run, "up")
    lock = rsctl.home / "runs" / run / "supervisor.lock"
    lock.unlink()
    lock.mkdir()
    done = rsctl("cancel", run)
    assert (done.exit_code, f"cannot use {lock}: Is a directory" in done.stderr) == (3, True)
    wait_until(lambda: rsctl.status(run)["state"] == "cancelled", "the end of the run")
    assert rsctl.processes(run) == []


def test_a_killed_supervisor_ends_those_who_follow(rsctl: Rsctl) -> None:
    cli = rsctl.start("submit", rsctl.write_job(bash=FOREVER), "-o", "json")
    run = wait_until(lambda: rsctl.runs(), "the run")[0]["run"]
    rsctl.wait_for_log(run, "up")
    os.kill(rsctl.supervisor(run), signal.SIGKILL)
    stdout, _ = cli.communicate(timeout=DEADLINE_SECONDS)
    assert cli.returncode == 1
    assert '"type":"result"' in stdout.splitlines()[-1]
    assert rsctl.processes(run) == []


def test_a_killed_launcher_is_the_first_failure(rsctl: Rsctl) -> None:
    run = rsctl.detach(rsctl.write_job(bash="echo $PPID; " + FOREVER, workers={"count": 3}))
    for replica in range(3):
        rsctl.wait_for_log(run, f"worker-{replica} | up")
    lines = rsctl("logs", run, "--replica", "worker-1").stdout.splitlines()
    os.kill(int(lines[0].split("| ")[1]), signal.SIGKILL)
    assert rsctl("status", run, "--watch").exit_code == 1
    after = rsctl.status(run)
    failure = after["first_failure"]
    assert (failure["replica"], failure["exit_code"]) == ("worker-1", 137)
    assert rsctl.processes(run) == []


def test_an_interrupt_detaches(rsctl: Rsctl) -> None:
    cli = rsctl.start("submit", rsctl.write_job(bash=FOREVER))
    assert cli.stdout is not None
    cli.stdout.readline()
    cli.send_signal(signal.SIGINT)
    _, stderr = cli.communicate(timeout=DEADLINE_SECONDS)
    assert cli.returncode == 130
    run = rsctl.status("@last")
    assert run["state"] == "running"
    assert stderr.splitlines()[-4:] == [
        f"{run['run']} continues to run",
        f"  watch it again: rsctl watch {run['run']}",
        f"  show its state: rsctl status {run['run']}",
        f"  cancel it: rsctl cancel {run['run']}",
    ]


def test_a_second_interrupt_stops_waiting(rsctl: Rsctl) -> None:
    script = "trap '' TERM; echo up; while true; do sleep 0.1; done"
    stubborn = rsctl.write_job(bash=script, limits={"grace": "3s"})
    cli = rsctl.start("submit", "--cancel-on-interrupt", stubborn)
    assert cli.stdout is not None
    assert cli.stderr is not None
    cli.stdout.readline()
    cli.send_signal(signal.SIGINT)
    assert any("cancelling" in line for line in cli.stderr)
    cli.send_signal(signal.SIGINT)
    _, reported = cli.communicate(timeout=DEADLINE_SECONDS)
    assert cli.returncode == 130
    run = rsctl.status("@last")["run"]
    assert reported.splitlines()[-1] == (
        f"{run} is being cancelled. Watch it end: rsctl watch {run}"
    )
    assert rsctl("status", run, "--watch").exit_code == 5


def test_a_reader_that_has_seen_enough(rsctl: Rsctl) -> None:
    cli = rsctl.start("submit", rsctl.write_job(bash="while echo line; do sleep 0.01; done"))
    assert cli.stdout is not None
    assert cli.stderr is not None
    assert cli.stdout.readline() == "worker-0 | line\n"
    cli.stdout.close()
    stderr = cli.stderr.read()
    assert cli.wait(timeout=DEADLINE_SECONDS) == 130
    assert "Traceback" not in stderr
    assert "its job was accepted and continues: process://" in stderr
    assert rsctl.status("@last")["state"] == "running"


def test_output_that_is_no_text(rsctl: Rsctl) -> None:
    script = r"printf 'bad \xff\xfe byte\n\033[2J\033]0;title\007clear\nbar 1%%\rbar 99%%\r\n'"
    done = rsctl("submit", rsctl.write_job(bash=script))
    assert done.exit_code == 0
    assert done.stdout == ("worker-0 | bad \\xff\\xfe byte\nworker-0 | clear\nworker-0 | bar 99%\n")


def test_a_worker_that_prints_nothing(rsctl: Rsctl) -> None:
    done = rsctl("submit", rsctl.write_job(bash="true"))
    assert (done.exit_code, done.stdout) == (0, "")


def test_a_worker_that_prints_very_much(rsctl: Rsctl) -> None:
    line = "a line of a worker that prints far too much"
    done = rsctl("submit", "-q", rsctl.write_job(bash=f"yes '{line}' | head -n 300000"))
    assert done.exit_code == 0
    assert done.stdout == f"worker-0 | {line}\n" * 300_000


def test_a_stray_child_that_keeps_the_pipe_open(rsctl: Rsctl) -> None:
    run = rsctl.detach(rsctl.write_job(bash="setsid sleep 600 & echo done"))
    assert rsctl("status", run, "--watch").exit_code == 0
    assert rsctl.processes(run) == []


def test_a_full_disk_costs_log_lines_and_nothing_else(rsctl: Rsctl, small_disk: Path) -> None:
    job = rsctl.write_job(
        bash="yes 'a line that fills the disk' | head -c 20000000; echo end >&2",
        workers={"count": 2},
    )
    done = rsctl("submit", job, RSCTL_HOME=str(small_disk))
    assert done.exit_code == 0
    assert "logs are incomplete from here on, the job continues" in done.stderr
    rsctl.env["RSCTL_HOME"] = str(small_disk)
    assert rsctl.status("@last")["state"] == "succeeded"


def test_a_disk_without_any_space(rsctl: Rsctl, small_disk: Path) -> None:
    job = rsctl.write_job(bash="true")
    fill(small_disk)
    done = rsctl("submit", job, RSCTL_HOME=str(small_disk))
    assert done.exit_code == 3
    assert "Traceback" not in done.stderr
    assert "set RSCTL_HOME to another folder" in done.stderr


def test_runs_are_shown_on_a_full_disk_at_once(rsctl: Rsctl, small_disk: Path) -> None:
    """Also by a command that opens the database twice, as bringing a run up to date does."""
    rsctl.env["RSCTL_HOME"] = str(small_disk)
    run = rsctl("submit", rsctl.write_job(bash="echo hi"), "-o", "json").result["run"]
    filler = fill(small_disk)
    started = monotonic()
    shown = rsctl("status", run)
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert rsctl("logs", run).stdout == "worker-0 | hi\n"
    assert rsctl("cancel", run).stderr == f"{run} has already ended: succeeded\n"
    forgotten = rsctl("forget", run)
    assert (forgotten.exit_code, "its disk is full" in forgotten.stderr) == (3, True)
    assert monotonic() - started < BUSY_SECONDS
    filler.unlink()
    assert rsctl("forget", run).exit_code == 0


@pytest.mark.parametrize("command", ["status", "metrics", "bench"])
def test_an_end_that_no_disk_can_keep_is_an_error_and_no_wait(
    rsctl: Rsctl, small_disk: Path, command: str
) -> None:
    """A supervisor that is killed after the disk is full, down to the space kept for the end."""
    rsctl.home, rsctl.env["RSCTL_HOME"] = small_disk, str(small_disk)
    job = rsctl.write_job(
        bash="echo loss=1; echo begun; sleep 600", metrics={"loss": {"regex": "loss=([0-9.]+)"}}
    )
    commands = {
        "status": ("status", "@last", "--watch"),
        "metrics": ("metrics", "@last", "--follow"),
        "bench": ("bench", "run", job),
    }
    if command != "bench":
        rsctl.detach(job)
    cli = rsctl.start(*commands[command])
    assert cli.stdout is not None
    if command != "bench":  # which starts the run itself
        assert cli.stdout.readline()  # it follows the run: one that begins later sees it failed
    folder = small_disk / "runs"
    [run] = wait_until(lambda: [path.name for path in folder.glob("*")])
    rsctl.wait_for_log(run, "begun")
    supervisor = rsctl.supervisor(run)
    os.kill(supervisor, signal.SIGSTOP)
    for name in ("outcome.json", "reserve"):
        (folder / run / name).unlink()
    filler = fill(small_disk)
    os.kill(supervisor, signal.SIGKILL)
    assert cli.wait(timeout=DEADLINE_SECONDS) == 3
    assert cli.stderr is not None
    assert f"cannot use {small_disk}/runs.db: its disk is full" in cli.stderr.read()
    filler.unlink()
    assert rsctl.status(run)["state"] == "failed"
    assert rsctl.processes(run) == []


def test_a_run_can_be_cancelled_the_moment_it_is_known(rsctl: Rsctl) -> None:
    run = rsctl.detach(rsctl.write_job(bash=FOREVER))
    done = rsctl("cancel", run)
    assert (done.exit_code, done.stderr) == (0, f"{run} cancelled\n")
    assert rsctl.processes(run) == []


EAT_ALL = (
    'for i in 1 2 3 4 5 6 7 8; do cat /dev/zero > "$RSCTL_OUTPUT_DIR/$i" 2>/dev/null; sleep 0.3; '
    "echo loss=$i; done; exit {code}"
)


@pytest.mark.parametrize(("code", "state"), [(0, "succeeded"), (3, "failed")])
def test_a_job_that_eats_the_whole_disk_ends_as_it_ended(
    rsctl: Rsctl, small_disk: Path, code: int, state: str
) -> None:
    """Also what was kept in reserve; and nothing of it ever comes back."""
    rsctl.env["RSCTL_HOME"] = str(small_disk)
    job = rsctl.write_job(bash=EAT_ALL.format(code=code))
    done = rsctl("submit", job, "-o", "json")
    assert done.exit_code == min(code, 1), done.stderr
    assert done.result["state"] == state
    listed = rsctl("list", "-o", "json")
    assert (listed.exit_code, "Traceback" in listed.stderr) == (0, False)
    assert [run["state"] for run in json.loads(listed.stdout)["runs"]] == [state]
    assert "move it to another place" not in listed.stderr
    assert rsctl.status("@last")["state"] == state
    for path in small_disk.glob("runs/*/outputs/*"):
        path.unlink()
    after = rsctl.status("@last")
    assert (after["state"], after["exit_code"]) == (state, min(code, 1))
