"""The backend `rsctl` as a process group: what it leaves to gloo and NCCL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.kit.deferred import Deferred

torch = Deferred("torch")
dist = Deferred("torch.distributed")
process_group = Deferred("rsctl.transport.pytorch.process_group")

REDUCED = {"allreduce"}
"""What goes by the reducers."""


def collectives() -> list[str]:
    """The collectives of this version of torch: what returns a Work, and the one that waits."""
    texts = {name: member.__doc__ or "" for name, member in vars(dist.ProcessGroup).items()}
    return ["monitored_barrier", *sorted(name for name in texts if "Work\n" in texts[name])]


@pytest.fixture
def group() -> Iterator[Any]:
    made = process_group.ReducerGroup(dist.HashStore(), 0, 1, timedelta(seconds=10))
    yield made
    if hasattr(made, "shutdown"):  # from PyTorch 2.5 on
        made.shutdown()


def test_torch_has_the_collectives_that_every_version_has() -> None:
    assert {"barrier", "broadcast", "gather", "recv_anysource", "send"} <= set(collectives())


def test_a_collective_of_a_coming_version_is_delegated() -> None:
    def coming() -> None:
        """coming(self: torch._C._distributed_c10d.ProcessGroup, x: torch.Tensor) -> c10d::Work

        What it does.
        """

    def of_2_4() -> None:
        """of_2_4(*args, **kwargs)
        Overloaded function.

        1. of_2_4(self: ProcessGroup, x: Tensor) -> torch._C._distributed_c10d.Work
        """

    def rank() -> None:
        """rank(self: torch._C._distributed_c10d.ProcessGroup) -> int

        Of a Work.
        """

    members = {"coming": coming, "of_2_4": of_2_4, "rank": rank, "allreduce": coming}
    assert process_group.delegated(type("Group", (), members)) == ["coming", "of_2_4"]


def test_every_other_collective_is_left_to_the_group_in_cpp(group: Any) -> None:
    calls: list[Any] = []

    class Plain:
        def __getattr__(self, called: str) -> Callable[..., str]:
            return lambda *args, **kwargs: calls.append((called, args, kwargs)) or "its work"

    group.plain = Plain()
    for name in {*collectives()} - REDUCED:
        assert getattr(group, name)("tensors", tag=1) == "its work"
        assert calls.pop() == (name, ("tensors",), {"tag": 1})


def test_the_group_in_cpp_has_no_part_in_python_and_the_same_backends(group: Any) -> None:
    cpu = torch.device("cpu")
    assert type(group.plain) is dist.ProcessGroup
    assert group.plain._get_backend(cpu) is group._get_backend(cpu)


def test_two_ranks_over_gloo(run: Callable[..., Any]) -> None:
    ended = run("delegated.py", RSCTL_COMM_BACKEND="rsctl")
    assert [line["found"] for line in ended.ranks] == [
        {
            "all_gather": [0, 1],
            "all_gather_flat": [0, 1],
            "all_to_all": [rank, rank + 2],
            "broadcast": 1,
            "gather": [0, 1] if rank == 0 else None,
            "reduce": 1 if rank == 1 else None,
            "reduce_scatter": 2 * rank,
            "scatter": rank + 5,
            "sent": 1 - rank,
            "from_any": 1 if rank == 0 else None,
            "objects": ["rank 0", "rank 1"],
        }
        for rank in range(2)
    ]


@pytest.mark.parametrize("how", ["destroyed", "kept", "left to the end"])
@pytest.mark.parametrize("backend", ["gloo", "rsctl"])
def test_a_group_ends_as_a_thread_of_gloo_needs_the_interpreters_lock(
    run: Callable[..., Any], backend: str, how: str
) -> None:
    """Torch before 2.8 waits for the thread with the lock held, and no version does at the end of
    the interpreter, which aborts the process then.
    """
    comm = {"RSCTL_COMM_BACKEND": "rsctl"} if backend == "rsctl" else {"RSCTL_EXPECTED_RANKS": "2"}
    ended = run("ends_in_time.py", backend, how, **comm)
    assert ended.code == 0, ended.err
