"""Launcher mpi over compose with a real Open MPI, Debian's: one image for all of it."""

from __future__ import annotations

import pytest

from tests.kit.docker import needs_docker

from ..conftest import Rsctl

pytestmark = needs_docker

# MPI's own all-reduce by ctypes: it needs neither a compiler nor a package in the image.
ALL_REDUCE = """\
import ctypes, os, sys
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
mpi.MPI_Init(None, None)
rank, size, replica = (os.environ[name] for name in ("RANK", "WORLD_SIZE", "RSCTL_REPLICA"))
mine, total = ctypes.c_double(float(rank) + 1), ctypes.c_double()
handle = lambda name: ctypes.byref(ctypes.c_char.in_dll(mpi, name))
names = ("ompi_mpi_double", "ompi_mpi_op_sum", "ompi_mpi_comm_world")
mpi.MPI_Allreduce(ctypes.byref(mine), ctypes.byref(total), 1, *map(handle, names))
print(f"rank {rank} of {size} on {replica}: {total.value:g}", flush=True)
if rank == os.environ.get("FAILS"):
    raise SystemExit("no more")
mpi.MPI_Finalize()
"""


@pytest.fixture
def job(rsctl: Rsctl) -> str:
    job = rsctl.write_job(
        run={"script": "all_reduce.py", "launcher": "mpi"},
        workers={"count": 2, "processes": 2},
        roles={"watch": {"command": ["sh", "-c", "echo $RSCTL_ROLE_COUNT node, rank $RANK"]}},
        image={"base": "rsctl-test-base:1", "apt": ["openmpi-bin"]},
    )
    (rsctl.folder / "source" / "all_reduce.py").write_text(ALL_REDUCE)
    return job


def test_ranks_on_two_nodes_reduce_and_the_first_failure_has_its_replica(
    rsctl: Rsctl, job: str
) -> None:
    done = rsctl("submit", job, "-t", "compose")
    assert done.exit_code == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        "watch-0  | 1 node, rank",
        "worker-0/0 | rank 0 of 4 on worker-0: 10",
        "worker-0/1 | rank 1 of 4 on worker-0: 10",
        "worker-1/0 | rank 2 of 4 on worker-1: 10",
        "worker-1/1 | rank 3 of 4 on worker-1: 10",
    ]
    assert rsctl("submit", job, "-t", "compose", "--set", "run.env.FAILS=2").exit_code == 1
    failure = rsctl.status("@last")["first_failure"]
    seen = {name: failure[name] for name in ("replica", "rank", "exit_code", "log")}
    assert seen == {"replica": "worker-1", "rank": 2, "exit_code": 1, "log": "worker-0"}
    assert "no more" in failure["lines"]
    [cause] = failure["causes"]
    assert cause["message"].endswith("its last line on standard error: no more")


def test_an_image_without_mpirun_is_not_built(rsctl: Rsctl, job: str) -> None:
    done = rsctl("submit", job, "-t", "compose", "--set", "image.apt=[]")
    assert done.exit_code == 2
    assert "the launcher mpi needs Open MPI's mpirun, and PATH has none" in done.stderr
    assert "Add openmpi-bin to image.apt" in done.stderr
