"""The failure file that a platform reads, and stderr that is passed on unchanged."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rsctl.node import rank, stderr_tail

TRACEBACK = "Traceback (most recent call last):\n"


@pytest.fixture
def failure_file(tmp_path: Path) -> Callable[..., str | None]:
    """The text of the failure file after a failure that ended with this text on stderr."""

    def write(stderr: str, head: str = "worker-1 failed") -> str | None:
        path = tmp_path / "output" / "failure"
        stderr_tail.write_failure_file(str(path), head, stderr)
        return path.read_text() if path.exists() else None

    return write


FailureFile = Callable[..., "str | None"]


def test_the_last_traceback(failure_file: FailureFile) -> None:
    stderr = f"step 1\n{TRACEBACK}KeyError: 1\n\nDuring it:\n\n{TRACEBACK}  File x\nValueError: 2\n"
    assert failure_file(stderr) == f"worker-1 failed\n{TRACEBACK}  File x\nValueError: 2"


def test_the_last_lines_where_there_is_no_traceback(failure_file: FailureFile) -> None:
    stderr = "".join(f"line {number}\n" for number in range(30))
    assert failure_file(stderr) == "worker-1 failed\n" + "\n".join(
        f"line {n}" for n in range(20, 30)
    )


def test_noise_is_left_out(failure_file: FailureFile) -> None:
    stderr = (
        "10%|#    |\r100%|#####|\r\n"
        f"[rank1]: {TRACEBACK}[rank1]: \x1b[31mOSError: 5\x1b[0m\x07\n"
        "[rank1]:[W1121 17:39:49.4 ProcessGroup.cpp:1] Warning: no destroy_process_group\n"
    )
    assert failure_file(stderr) == f"worker-1 failed\n[rank1]: {TRACEBACK}[rank1]: OSError: 5"


def test_lines_of_the_runtime_are_left_out(failure_file: FailureFile) -> None:
    """Those of mpirun's ranks come on stderr."""
    report = '{"rsctl": "exit", "rank": 1, "code": 1}'
    assert failure_file(f"{TRACEBACK}KeyError: 1\n{report}\n") == (
        f"worker-1 failed\n{TRACEBACK}KeyError: 1"
    )


def test_it_fits_by_whole_lines_of_the_end(failure_file: FailureFile) -> None:
    text = failure_file(TRACEBACK + "".join(f"{number:04} {'é' * 95}\n" for number in range(50)))
    assert text is not None
    assert len(text) <= 1024
    assert text.splitlines()[:2] == ["worker-1 failed", f"0041 {'é' * 95}"]
    assert text.endswith(f"0049 {'é' * 95}")


def test_one_endless_line_is_cut(failure_file: FailureFile) -> None:
    assert failure_file("x" * 9000, head="h" * 24) == "h" * 24 + "\n" + "x" * 999


def test_an_endless_head_is_cut(failure_file: FailureFile) -> None:
    assert failure_file("x", head="h" * 9000) == "h" * 1024


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: [pair.cc:537] Read error [127.0.0.1]:9603: Connection reset by peer",
        "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a "
        "network error, NCCL version 2.27.3",
        "RuntimeError: reducer 1 (10.0.0.7:29600) ended the run during operation 4: rank 1 left "
        "before operation 4",
        "RuntimeError: reducer 0 (10.0.0.7:29600) was lost during operation 4: Broken pipe",
    ],
)
def test_one_that_only_lost_a_peer_writes_nothing(failure_file: FailureFile, line: str) -> None:
    assert failure_file(f"{TRACEBACK}{line}\n") is None


def test_the_first_failure_of_a_node_stays(failure_file: FailureFile) -> None:
    failure_file("first\n")
    assert failure_file("second\n") == "worker-1 failed\nfirst"


def test_a_link_is_not_followed(failure_file: FailureFile, tmp_path: Path) -> None:
    (tmp_path / "output").mkdir()
    (tmp_path / "output" / "failure").symlink_to(tmp_path / "elsewhere")
    assert failure_file("text\n") is None
    assert not (tmp_path / "elsewhere").exists()


def run(source: str, path: Path) -> subprocess.CompletedProcess[bytes]:
    """rank.py around a program, on a platform that reads a failure file."""
    environ = {"RANK": "3", "LOCAL_RANK": "1", "RSCTL_REPLICA": "worker-1"}
    return subprocess.run(
        [sys.executable, "-I", "-S", rank.__file__, "--", sys.executable, "-c", source],
        env={**os.environ, **environ, "RSCTL_FAILURE_FILE": str(path)},
        capture_output=True,
    )


def test_stderr_comes_through_whole(tmp_path: Path) -> None:
    source = (
        "import os, sys\n"
        "for number in range(20000): os.write(2, b'%d %s\\n' % (number, b'x' * (number % 7000)))\n"
        "os.write(2, b'no newline')\n"
    )
    done = run(source, tmp_path / "failure")
    lines = b"".join(b"%d %s\n" % (number, b"x" * (number % 7000)) for number in range(20000))
    assert done.stderr == lines + b"no newline"
    assert (done.returncode, done.stdout) == (0, b"")
    assert not (tmp_path / "failure").exists()


def test_a_rank_that_raises(tmp_path: Path) -> None:
    done = run("raise ValueError(5)", tmp_path / "failure")
    assert done.returncode == 1
    text = (tmp_path / "failure").read_text()
    assert text.replace("    raise ValueError(5)\n", "") == (  # Python 3.14 shows that line
        "worker-1, rank 3, failed (exit code 1)\n"
        'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\nValueError: 5'
    )


def test_a_child_that_keeps_stderr_open_holds_nothing_up(tmp_path: Path) -> None:
    source = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '999'])\n"
        "print(child.pid, flush=True)\n"
        "sys.exit('words')"
    )
    path = tmp_path / "failure"
    command = [sys.executable, "-I", "-S", rank.__file__, "--", sys.executable, "-c", source]
    environ = {**os.environ, "RANK": "0", "LOCAL_RANK": "0", "RSCTL_FAILURE_FILE": str(path)}
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            assert process.wait(60) == 1
        finally:
            os.kill(child, 9)
    assert path.read_text() == "this node, rank 0, failed (exit code 1)\nwords"
