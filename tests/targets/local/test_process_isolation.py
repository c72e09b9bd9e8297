"""Target process: a job's variables stay with the job, and what a job starts ends with it."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.kit.polling import wait_until

from ..conftest import Rsctl

FORK_SERVER = (
    'from multiprocessing.forkserver import main; {"main_path": "train.py"}; '
    "import time; time.sleep(600)"
)
"""The one of Python 3.14 names the script, and ends a moment after it."""

ESCAPE = """\
import os, sys
def escape():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            devnull = os.open(os.devnull, os.O_RDWR)
            os.dup2(devnull, 1), os.dup2(devnull, 2)
            os.execve("/bin/sleep", ["sleep", sys.argv[1]], {})
        os._exit(0)
    os.wait()
escape()
print("up", flush=True)
"""

INTERPRETER = {"PYTHONUNBUFFERED": "1"}
"""With it rsctl and its supervisor begin as interpreters: /proc shows no variables of a copy."""


def sleepers(seconds: str) -> list[int]:
    """Processes that run `sleep SECONDS`."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError):
                if Path(f"/proc/{entry}/cmdline").read_bytes() == f"sleep\0{seconds}\0".encode():
                    found.append(int(entry))
    return found


def test_the_jobs_variables_are_not_the_supervisors(rsctl: Rsctl) -> None:
    names = ("PYTHONPATH", "PATH", "DOCKER_HOST", "LD_LIBRARY_PATH", "API_KEY")
    given = {f"MY_{name}": f"/of-the-job/{name}" for name in names}
    given["MY_PATH"] += ":" + os.environ["PATH"]
    job = rsctl.write_job(
        run={
            "command": ["bash", "-c", 'echo "$PYTHONPATH $API_KEY"; sleep 600'],
            "launcher": "none",
            "env": {name: f"${{MY_{name}}}" for name in names},
        }
    )
    run = rsctl.detach(job, **INTERPRETER, **given)
    rsctl.wait_for_log(run, "worker-0 | /of-the-job/PYTHONPATH /of-the-job/API_KEY")
    environ = Path(f"/proc/{rsctl.supervisor(run)}/environ").read_bytes().split(b"\0")
    # MY_... is the submitter's own; under the job's names none of it is there.
    own = [entry for entry in environ if not entry.startswith(b"MY_")]
    assert [entry for entry in own if b"of-the-job" in entry] == []


def test_a_run_inside_a_job_does_not_take_the_jobs_place(rsctl: Rsctl) -> None:
    job = rsctl.write_job(bash="echo $NODE_RANK; sleep 600")
    outer = {"RSCTL_RUN": "outer-aaaaaa", "RSCTL_REPLICA": "worker-9", "RANK": "9"}
    run = rsctl.detach(job, **INTERPRETER, **outer)
    rsctl.wait_for_log(run, "worker-0 | 0")
    environ = Path(f"/proc/{rsctl.supervisor(run)}/environ").read_bytes().split(b"\0")
    names = {entry.partition(b"=")[0] for entry in environ}
    assert names.isdisjoint({b"RSCTL_RUN", b"RSCTL_REPLICA", b"NODE_RANK"})


def test_a_relative_home_is_the_same_for_the_supervisor(rsctl: Rsctl) -> None:
    rsctl.env["RSCTL_HOME"] = "here"
    done = rsctl("submit", rsctl.write_job(bash="echo done"))
    assert (done.exit_code, done.stdout) == (0, "worker-0 | done\n"), done.stderr
    assert [run["state"] for run in rsctl.runs()] == ["succeeded"]


@pytest.mark.parametrize("launcher", ["once", "none"])
def test_a_child_that_left_group_and_environment_ends_with_the_job(
    rsctl: Rsctl, launcher: str
) -> None:
    seconds = f"{os.getpid()}.{len(launcher)}"
    (rsctl.folder / "source").mkdir()
    (rsctl.folder / "source" / "escape.py").write_text(ESCAPE)
    stay = f"{sys.executable} escape.py {seconds}; exec sleep 600"
    job = rsctl.write_job(run={"command": ["bash", "-c", stay], "launcher": launcher})
    run = rsctl.detach(job)
    rsctl.wait_for_log(run, "up")
    wait_until(lambda: sleepers(seconds), "the escaped child")
    assert rsctl("cancel", run).stderr == f"{run} cancelled\n"
    assert sleepers(seconds) == []


@pytest.mark.parametrize(
    ("line", "is_left"),
    [
        ("python train.py &", True),
        ("nohup python train.py > log 2>&1 &", True),
        ("python train.py & kill -KILL $!; wait", False),
        ("sleep 600 &", False),
        (f"python -c '{FORK_SERVER}' &", False),
    ],
)
def test_a_training_in_the_background_is_not_done_without_a_word(
    rsctl: Rsctl, line: str, is_left: bool
) -> None:
    job = rsctl.write_job(run={"command": ["bash", "-c", line], "launcher": "once"})
    (rsctl.folder / "source" / "train.py").write_text("import time\ntime.sleep(600)\n")
    done = rsctl("submit", job)
    assert done.exit_code == 0
    assert ("worker-0 has ended with exit code 0, and rsctl has ended" in done.stderr) is is_left


def test_orphans_that_end_leave_no_zombies(rsctl: Rsctl) -> None:
    orphan = "for i in $(seq 20); do (sleep 0.01 & ); done; sleep 0.5; echo up; exec sleep 600"
    run = rsctl.detach(rsctl.write_job(run={"command": ["bash", "-c", orphan], "launcher": "none"}))
    rsctl.wait_for_log(run, "up")
    supervisor = rsctl.supervisor(run)

    def zombies() -> list[str]:
        children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
        states = [Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] for pid in children]
        return [state for state in states if state == "Z"]

    wait_until(lambda: not zombies(), "the supervisor to reap its orphans")


LISTENERS = """\
import os
port = f"{int(os.environ['MASTER_PORT']):04X}"
for family in ("tcp", "tcp6"):
    for row in open(f"/proc/net/{family}").read().splitlines()[1:]:
        local, state = row.split()[1], row.split()[3]
        if state == "0A" and local.endswith(":" + port):
            print("listens at", local.split(":")[0])
"""


def test_the_store_of_torchrun_listens_on_the_loopback_only(
    rsctl: Rsctl, torch_forks: dict[str, str]
) -> None:
    rsctl.env.update(torch_forks)
    (rsctl.folder / "source").mkdir()
    (rsctl.folder / "source" / "train.py").write_text(LISTENERS)
    job = rsctl.write_job(run={"script": "train.py"}, workers={"count": 2})
    done = rsctl("submit", job)
    assert done.exit_code == 0, done.stderr
    lines = {line.partition("| ")[2] for line in done.stdout.splitlines()}
    assert {line for line in lines if line.startswith("listens")} == {"listens at 0100007F"}


@pytest.mark.parametrize("launcher", ["once", "none"])
def test_a_shell_script_runs_as_one(rsctl: Rsctl, launcher: str) -> None:
    job = rsctl.write_job(run={"script": "train.sh", "launcher": launcher, "args": {"epochs": 3}})
    (rsctl.folder / "source" / "train.sh").write_text('[[ $0 = train.sh ]] && echo "ran $*"\n')
    done = rsctl("submit", job)
    assert (done.exit_code, done.stdout) == (0, "worker-0 | ran --epochs 3\n"), done.stderr
