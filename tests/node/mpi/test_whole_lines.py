"""What a rank of mpirun writes is passed on in whole lines."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rsctl.node import rank

RANK = {f"OMPI_COMM_WORLD_{name}": "0" for name in ("RANK", "LOCAL_RANK")}
SIZE = {f"OMPI_COMM_WORLD_{name}": "1" for name in ("SIZE", "LOCAL_SIZE")}

SOURCE = """\
import os
for part in ("one", " line\\ntwo", " and more", "\\n", "rest"):
    os.write({stream}, part.encode())
input()
os.write({stream}, b" of it")
"""


@pytest.mark.parametrize("stream", [1, 2])
def test_a_line_waits_for_its_end_and_the_last_one_gets_one(stream: int) -> None:
    command = [sys.executable, "-I", "-S", rank.__file__, "--mpi", "--", sys.executable, "-c"]
    with subprocess.Popen(
        [*command, SOURCE.format(stream=stream)],
        env={**os.environ, **RANK, **SIZE},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=False,
        bufsize=0,
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        pipe = process.stdout if stream == 1 else process.stderr
        seen = b""
        while len(seen) < len(b"one line\ntwo and more\n"):
            piece = pipe.read(100)
            assert piece
            assert piece.endswith(b"\n")
            seen += piece
        process.stdin.write(b"\n")
        process.stdin.close()
        assert seen + pipe.read() == b"one line\ntwo and more\nrest of it\n"
        assert process.wait(60) == 0
