"""What a rank of mpirun writes is passed on in whole lines."""

from __future__ import annotations

import os
import subprocess
import sys

from rsctl.runtime import rank

RANK = {f"OMPI_COMM_WORLD_{name}": "0" for name in ("RANK", "LOCAL_RANK")}
SIZE = {f"OMPI_COMM_WORLD_{name}": "1" for name in ("SIZE", "LOCAL_SIZE")}

SOURCE = """\
import os
for part in ("one", " line\\ntwo", "\\rbar", "\\n", "rest"):
    os.write(1, part.encode())
input()
os.write(1, b" of it")
"""


def test_a_line_waits_for_its_end_and_the_last_one_needs_none() -> None:
    command = [sys.executable, "-I", "-S", rank.__file__, "--mpi", "--", sys.executable, "-c"]
    with subprocess.Popen(
        [*command, SOURCE],
        env={**os.environ, **RANK, **SIZE},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=False,
        bufsize=0,
    ) as process:
        assert process.stdin
        assert process.stdout
        seen = b""
        while len(seen) < len(b"one line\ntwo\rbar\n"):
            piece = process.stdout.read(100)
            assert piece
            assert piece.endswith((b"\n", b"\r"))
            seen += piece
        process.stdin.write(b"\n")
        process.stdin.close()
        assert seen + process.stdout.read() == b"one line\ntwo\rbar\nrest of it"
        assert process.wait(60) == 0
