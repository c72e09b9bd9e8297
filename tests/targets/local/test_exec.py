"""`rsctl exec` and `rsctl shell` on runs in progress."""

from __future__ import annotations

from tests.kit.docker import needs_docker

from ..conftest import Rsctl

STAY = "echo up; sleep 600"


def begin(rsctl: Rsctl, job: str, *more: str) -> str:
    started = rsctl.detach(job, *more)
    rsctl.wait_for_log(started, "up")
    return started


def test_a_command_has_the_variables_and_the_folder_of_its_node(rsctl: Rsctl) -> None:
    run = begin(rsctl, rsctl.write_job(bash=STAY, workers={"count": 2}))
    show = ("sh", "-c", 'echo "$RSCTL_REPLICA in $PWD"; exit 3')
    first = rsctl("exec", run, "--", *show)
    folder = first.stdout.partition(" in ")[2]
    assert (first.exit_code, first.stdout) == (3, f"worker-0 in {folder}")
    second = rsctl("exec", run, "worker-1", "--", *show)
    assert (second.exit_code, second.stdout) == (3, f"worker-1 in {folder}")
    assert rsctl("shell", run, "worker-1", SHELL="env").stdout.count("RSCTL_REPLICA=worker-1") == 1

    hostile = ("sh", "-c", "echo '##[error]x'; echo ' ::add-mask::y' >&2; kill -TERM $$")
    fenced = rsctl("exec", run, "--", *hostile, CI="true")
    assert (fenced.exit_code, fenced.stdout, fenced.stderr) == (
        143,
        "##\\u005berror]x\n",
        " :\\u003aadd-mask::y\n",
    )
    lost = rsctl("exec", run, "worker-1")
    assert (lost.exit_code, lost.stderr) == (
        2,
        "error: there is no command to run\n"
        f"    -> rsctl exec {run} worker-1 -- COMMAND, or rsctl shell {run}\n",
    )
    missing = rsctl("exec", run, "--", "no-such-program")
    assert (missing.exit_code, missing.stderr.splitlines()[0]) == (
        2,
        "error: cannot run no-such-program: No such file or directory",
    )
    wrong = rsctl("exec", run, "worker-7", "--", "true")
    assert (wrong.exit_code, wrong.stderr) == (
        2,
        f"error: {run} has no replica worker-7\n    -> its replicas are worker-0, worker-1\n",
    )
    other = rsctl("shell", run, "worker-7")
    assert other.stderr.splitlines()[0] == f"error: {run} has no replica worker-7"

    rsctl("cancel", run)
    ended = rsctl("shell", run)
    assert (ended.exit_code, ended.stderr) == (
        2,
        f"error: {run} has ended (cancelled), and its nodes with it\n    -> rsctl logs {run}\n",
    )


@needs_docker
def test_a_command_in_a_container(rsctl: Rsctl) -> None:
    job = rsctl.write_job(bash=STAY, image={"base": "rsctl-test-base:1"}, workers={"count": 2})
    run = begin(rsctl, job, "-t", "compose")
    done = rsctl("exec", run, "worker-1", "--", "sh", "-c", 'echo "$RSCTL_REPLICA"; exit 4')
    assert (done.exit_code, done.stdout) == (4, "worker-1\n")
    rsctl("cancel", run)
    assert "has ended" in rsctl("exec", run, "--", "true").stderr
