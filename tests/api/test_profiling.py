"""Which ranks are profiled and entered, and what is said where that is not possible."""

from __future__ import annotations

import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rsctl.api import entering, profiling
from rsctl.api.profiling import SampledRank, profile_run
from rsctl.findings import ExitCode, JobState, RsctlError, error
from rsctl.installation import install_command
from rsctl.targets.base import NodeCommand
from rsctl.targets.local.rank_processes import RankProcess

RANKS = [RankProcess(n, f"worker-{n // 2}", 100 + n) for n in range(4)]
TOOL = """#!/bin/sh
# As py-spy: record --pid PID ... --output FILE --duration SECONDS
while [ $# -gt 1 ]; do
  case $1 in --pid) pid=$2 ;; --output) file=$2 ;; --duration) seconds=$2 ;; esac
  shift
done
[ $pid = 101 ] && printf 'Permission denied\\033[1m\\n\\n' && exit 1
[ $pid = 102 ] && printf 'Error: Failed to find python version from target process\n\n\
Stack backtrace:\n   0: py_spy::new\n' && exit 1
[ $pid = 103 ] && exit 0
printf 'main;step%s 3\\nmain;torch/distributed/x.py 1\\n' "$seconds" > "$file"
"""


@pytest.fixture(autouse=True)
def _tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampler, found as beside the interpreter."""
    tool = tmp_path / "bin" / "py-spy"
    tool.parent.mkdir()
    tool.write_text(TOOL)
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(profiling.sys, "executable", str(tool.with_name("python")))
    monkeypatch.setattr(profiling, "rank_processes", lambda run: RANKS if run == "job-1" else [])


def made(target: str = "process", **fields: Any) -> Any:
    known = {
        "id": "job-1",
        "state": JobState.RUNNING,
        "is_rehearsed": False,
        "replicas": ["worker-0", "worker-1"],
        "record": SimpleNamespace(target=target),
    }
    return SimpleNamespace(**{**known, **fields})


def test_each_rank_has_a_file_and_a_summary(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    profiles, findings = profile_run(made(), [], 7, folder)
    file = folder / "rank-0.folded.txt"
    top = [("step7", 0.75), ("torch/distributed/x.py", 0.25)]
    assert profiles == [SampledRank(0, "worker-0", str(file), 4, profiles[0].communication, top)]
    assert profiles[0].to_dict()["samples"] == 4
    assert file.read_text() == "main;step7 3\nmain;torch/distributed/x.py 1\n"
    denied = "run the command as root, or let this user trace: sysctl kernel.yama.ptrace_scope=0"
    assert findings == [
        error("profile", "rank 1 was not profiled: Permission denied", denied),
        error("profile", "rank 2 was not profiled: process 102 is not a Python program"),
        error("profile", "rank 3 was not profiled: py-spy has ended"),
    ]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("ranks", "replicas", "profiled"),
    [
        ([], [], [0, 1, 2, 3]),
        ([3, 0, 3], [], [3, 0]),
        ([], ["worker-1"], [2, 3]),
        ([2], ["worker-1"], [2]),
    ],
)
def test_the_chosen_ranks(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ranks: list[int],
    replicas: list[str],
    profiled: list[int],
) -> None:
    every = [rank._replace(pid=200) for rank in RANKS]
    monkeypatch.setattr(profiling, "rank_processes", lambda _: every)
    profiles, findings = profile_run(made(), ranks, 1, tmp_path / "out", replicas)
    assert ([profile.rank for profile in profiles], findings) == (profiled, [])


LOCAL_ONLY = "set the key profile in the job file, which works on every target"
NOT_YET = "try again once they run; with run.launcher: none rsctl knows no ranks"


@pytest.mark.parametrize(
    ("run", "ranks", "replicas", "finding"),
    [
        (
            made("vertex"),
            [],
            [],
            error(
                "profile",
                "job-1 does not run on target process or compose, but on vertex",
                LOCAL_ONLY,
            ),
        ),
        (
            made("process", is_rehearsed=True),
            [],
            [],
            error(
                "profile",
                "job-1 does not run on target process or compose, but on process",
                LOCAL_ONLY,
            ),
        ),
        (
            made(state=JobState.FAILED),
            [],
            [],
            error("profile", "job-1 has already ended: failed"),
        ),
        (
            made(),
            [],
            ["worker-0", "worker-9"],
            error(
                "replica",
                "job-1 has no replica worker-9",
                "its replicas are worker-0, worker-1",
            ),
        ),
        (
            made(),
            [1, 7],
            [],
            error("profile", "job-1 has no running rank 7", "its running ranks: 0, 1, 2, 3"),
        ),
        (
            made(),
            [0],
            ["worker-1"],
            error("profile", "job-1 has no running rank 0 on worker-1", "its running ranks: 2, 3"),
        ),
        (made(id="job-2"), [], [], error("profile", "no rank of job-2 runs yet", NOT_YET)),
        (
            made(id="job-2"),
            [],
            ["worker-0"],
            error("profile", "no rank of job-2 runs on worker-0", NOT_YET),
        ),
        (
            made(id="job-2"),
            [3],
            [],
            error("profile", "job-2 has no running rank 3", NOT_YET),
        ),
    ],
)
def test_ranks_that_cannot_be_profiled(
    tmp_path: Path, run: Any, ranks: list[int], replicas: list[str], finding: Any
) -> None:
    with pytest.raises(RsctlError) as refused:
        profile_run(run, ranks, 1, tmp_path / "out", replicas)
    assert (refused.value.exit_code, refused.value.findings) == (ExitCode.USAGE, (finding,))


@pytest.mark.parametrize(
    ("user", "remedy"),
    [
        (1000, "run the command as root: the processes of containers belong to other users"),
        (0, NOT_YET),
    ],
)
def test_the_ranks_of_containers_are_seen_by_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, remedy: str
) -> None:
    monkeypatch.setattr(profiling.os, "geteuid", lambda: user)
    with pytest.raises(RsctlError) as refused:
        profile_run(made("compose", id="job-2"), [], 1, tmp_path)
    assert refused.value.findings[0].remedy == remedy


def test_what_is_missing_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RsctlError) as refused:
        profile_run(made(), [], 1, tmp_path / "file" / "out")
    message = f"cannot write {tmp_path / 'file' / 'out'}: Not a directory"
    assert refused.value.findings == (error("profile", message),)
    assert refused.value.exit_code is ExitCode.ENVIRONMENT
    monkeypatch.setattr(profiling.sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RsctlError) as refused:
        profile_run(made(), [], 1, tmp_path)
    finding = error("profile", "rsctl profile needs py-spy", install_command("profile"))
    assert (refused.value.exit_code, refused.value.findings) == (ExitCode.ENVIRONMENT, (finding,))


class Enterable:
    """A target whose nodes can be entered; worker-1 does not run."""

    def enter(
        self, run: str, replica: str, command: list[str], is_terminal: bool
    ) -> NodeCommand | None:
        if replica == "worker-1":
            return None
        return NodeCommand([run, replica, *command], env={"terminal": str(is_terminal)})


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entering, "get", lambda name: object() if name == "slurm" else Enterable())


@pytest.mark.usefixtures("target")
def test_a_command_runs_on_the_first_node_or_on_a_named_one() -> None:
    found = entering.node_command(made(), None, ("ls", "-l"), True)
    assert found == NodeCommand(["job-1", "worker-0", "ls", "-l"], env={"terminal": "True"})
    assert entering.node_command(made(), "worker-0", (), False) == NodeCommand(
        ["job-1", "worker-0"], env={"terminal": "False"}
    )
    assert entering.shell_of(made(), None, True) == NodeCommand(
        ["job-1", "worker-0"], env={"terminal": "True"}
    )


ELSEWHERE = "use target process or compose"


@pytest.mark.usefixtures("target")
@pytest.mark.parametrize(
    ("run", "replica", "finding"),
    [
        (
            made("slurm"),
            None,
            error(
                "unsupported",
                "rsctl cannot run commands on the nodes of target slurm",
                "run `srun --jobid=JOB --overlap --nodelist=NODE --pty bash`, with the job and the "
                "node that `rsctl status` shows",
            ),
        ),
        (
            made(is_rehearsed=True),
            None,
            error(
                "unsupported",
                "rsctl cannot run commands on the nodes of a rehearsed cloud",
                ELSEWHERE,
            ),
        ),
        (
            made(state=JobState.CANCELLED),
            None,
            error(
                "ended",
                "job-1 has ended (cancelled), and its nodes with it",
                "rsctl logs job-1",
            ),
        ),
        (
            made(),
            "worker-2",
            error(
                "replica",
                "job-1 has no replica worker-2",
                "its replicas are worker-0, worker-1",
            ),
        ),
        (
            made(),
            "worker-1",
            error("replica", "worker-1 of job-1 does not run", "see its state: rsctl status job-1"),
        ),
    ],
)
def test_nodes_that_cannot_be_entered(run: Any, replica: str | None, finding: Any) -> None:
    for call in (
        lambda: entering.node_command(run, replica, ["ls"], False),
        lambda: entering.shell_of(run, replica, False),
    ):
        with pytest.raises(RsctlError) as refused:
            call()
        assert (refused.value.exit_code, refused.value.findings) == (ExitCode.USAGE, (finding,))
