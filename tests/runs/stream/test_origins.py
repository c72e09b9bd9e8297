"""Who failed first, read from what mpirun, torchrun and DeepSpeed write."""

from __future__ import annotations

import pytest

from rsctl.runs.stream.origins import Origin, find_origin

TORCHRUN = """\
Root Cause (first observed failure):
[0]:
  time      : 2023-08-01_01:06:47
  host      : algo-2
  rank      : 4 (local_rank: 4)
  exitcode  : -9 (pid: 208585)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 208585
"""
EXITED = """\
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[56171,1],6]
  Exit code:    3
"""
LOST = """\
ORTE has lost communication with a remote daemon.

  HNP daemon   : [[58262,0],0] on node algo-1
  Remote daemon: [[58262,0],1] on node algo-2
"""
TAGGED = """\
[1,mpirank:1,algo-1]<stdout>:step 1
[1,mpirank:9,algo-2]<stderr>:Traceback (most recent call last):
[1,mpirank:9,algo-2]<stderr>:ValueError: x
"""


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("", Origin()),
        ("loss 1 at rank 3", Origin()),
        (TORCHRUN, Origin(4, "algo-2", 137, "SIGKILL")),
        (" ".join(TORCHRUN.split()), Origin(4, "algo-2", 137, "SIGKILL")),
        (
            "mpirun noticed that process rank 7 with PID 0 on node gpu7 exited on signal 9 (K)",
            Origin(7, "gpu7", 137, "SIGKILL"),
        ),
        (EXITED, Origin(6, None, 3)),
        (EXITED.replace("[[56171,1],6]", "[prterun-host-4711@1,6]"), Origin(6, None, 3)),
        (LOST, Origin(None, "algo-2")),
        (TAGGED, Origin(9, "algo-2")),
        (
            f"{TAGGED}MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD\n"
            "with errorcode 5.",
            Origin(1, "algo-1", 5),
        ),
        ("[rank3]: Traceback (most recent call last):\n[rank3]: ValueError", Origin(3)),
        (
            "failed (exitcode: -11) local_rank: 3 (pid: 8) of binary: python",
            Origin(None, None, 139, "SIGSEGV"),
        ),
        (
            "[launch.py:434:sigkill_handler] ['python'] exits with return code = -9",
            Origin(None, None, 137, "SIGKILL"),
        ),
    ],
)
def test_who_failed_first(text: str, origin: Origin) -> None:
    assert find_origin(text) == origin


def test_texts_that_are_made_to_be_slow() -> None:
    hostile = ("Root Cause (first observed failure): ", "[1,mpirank:1,a]<stderr>", "exit code ")
    assert find_origin("".join(text * 20_000 for text in hostile)) == Origin()
