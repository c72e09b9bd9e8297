"""What a rank tells its launcher: its collectives, and the steps that DDP times by itself."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit.deferred import Deferred

MODULE = "rsctl.transport.pytorch.inspection"
inspection = Deferred(MODULE)


def test_a_step_has_its_wait_for_the_data_loader(run: Callable[..., Any], tmp_path: Path) -> None:
    """No launcher has asked: each rank prints its last timed step by itself."""
    job = {"RSCTL_EXPECTED_RANKS": "2", "RSCTL_EXPECTED_NODES": "2"}
    ended = run("timed.py", "0.01", nodes=2, ranks=1, RSCTL_DEBUG_DIR=str(tmp_path), **job)
    assert ended.code == 0, ended.err
    steps = [step for line in ended.printed("telemetry") for step in line["ranks"]]
    assert sorted(step["rank"] for step in steps) == [0, 1]
    for step in steps:
        assert step["buckets"] == 2
        assert 5 <= step["data_ms"] <= step["step_ms"]


def test_no_thread_of_rsctl_is_in_torch_when_the_interpreter_ends(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    """It would abort the process: C++ cannot leave a thread that waits for an ended interpreter."""
    for number in range(5):
        folder = tmp_path / str(number)
        folder.mkdir()
        ended = run("read_to_the_end.py", nodes=1, ranks=1, RSCTL_DEBUG_DIR=str(folder))
        assert ended.code == 0, ended.err


def test_without_a_data_loader_the_wait_is_not_known(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    ended = run("timed.py", nodes=1, ranks=1, RSCTL_DEBUG_DIR=str(tmp_path))
    [line] = ended.printed("telemetry")
    [step] = line["ranks"]
    assert step.keys() == {"rank", "buckets", "step_ms", "wait_ms"}


PROGRAM = """
import json, os, time
import torch.distributed as dist
from rsctl.transport.pytorch import inspection
inspection.arm(os.environ)
inspection.arm(os.environ)
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(3, 2))
mine = f"{os.environ['RSCTL_DEBUG_DIR']}/{os.getpid()}"
with open(f"{mine}.pipe", "w") as pipe:
    pipe.write("probe 1\\ninspect 2\\nprobe x\\n\\nprobe 3\\n")
while not os.path.exists(f"{mine}.3.json"):
    time.sleep(0.005)
print(json.dumps({"pid": os.getpid(), "parent": os.getppid()}))
def fail():
    raise ValueError("it failed")
fail()
"""


def test_a_rank_answers_its_launcher_and_leaves_its_last_words(
    alone: Callable[..., Any], tmp_path: Path
) -> None:
    ended = alone(PROGRAM, RSCTL_DEBUG_DIR=str(tmp_path))
    assert ended.code == 1
    own = next(json.loads(row) for row in ended.out.splitlines() if row.startswith('{"pid"'))
    pid = own["pid"]
    found = {path.name: path for path in tmp_path.iterdir() if path.suffix != ".pipe"}
    answers = {f"{pid}.{name}.json" for name in ("1", "2", "3", "last")}
    assert set(found) - {".joined"} == {f"{pid}.rank", f"{pid}.stacks", *answers}
    who = json.loads(found[f"{pid}.rank"].read_text())
    assert who.pop("thread") > 0
    assert who == {
        **{"rank": 0, "local_rank": 0, "of_node": False, "parent": own["parent"]},
        "signal": signal.SIGRTMIN + 11,
    }
    probe, inspected, again, last = (
        json.loads(found[name].read_text()) for name in sorted(answers)
    )
    counts = {"called": 1, "ended": 1}
    entry = {"number": 1, "op": "all_reduce", "sizes": [[3, 2]], "dtypes": ["Float"], "ended": True}
    from torch._C import _distributed_c10d as c10d

    has_recorder = hasattr(c10d, "_dump_fr_trace_json")  # from PyTorch 2.13 on
    assert probe == again == {"groups": {"0": counts} if has_recorder else {}}
    whole = {"0": {**counts, "entries": [entry], "ranks": [0]}} if has_recorder else {}
    assert inspected["groups"] == last["groups"] == whole
    assert any(" <module>" in line for line in inspected["stack"])
    assert [line.rpartition(" ")[2] for line in last["stack"][:2]] == ["fail", "<module>"]


STUCK = """\
import os, threading
from rsctl.transport.pytorch import inspection
inspection._END_SECONDS = 0.01
held = threading.Event()
inspection._answer = lambda kind: held.set() or threading.Event().wait()
inspection.arm(os.environ)
with open(f"{os.environ['RSCTL_DEBUG_DIR']}/{os.getpid()}.pipe", "w") as pipe:
    pipe.write("probe 1\\n")
held.wait()
if child := os.fork():
    os.waitpid(child, 0)
raise ValueError("it failed")
"""


def test_a_rank_that_fails_ends_although_an_answer_is_stuck(
    alone: Callable[..., Any], tmp_path: Path
) -> None:
    """So does a process that it has forked meanwhile."""
    ended = alone(STUCK, RSCTL_DEBUG_DIR=str(tmp_path))
    assert ended.code == 1
    assert ended.err.count("ValueError: it failed") == 2


def collective(number: int, group: int, **changes: Any) -> dict[str, Any]:
    """An entry of Flight Recorder, with the fields of those of PyTorch 2.13 that are read."""
    return {
        **{"collective_seq_id": number, "pg_id": group, "process_group": [f"g{group}", "d"]},
        **{"profiling_name": "nccl:all_reduce", "input_sizes": [[4]], "input_dtypes": ["Float"]},
        **{"is_p2p": False, "retired": False, "state": "started", **changes},
    }


def status(called: object, ended: object) -> dict[str, object]:
    return {"last_enqueued_collective": called, "last_completed_collective": ended}


@pytest.fixture
def recorders(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the recorders of NCCL and of gloo have, and what went over reducers."""
    found: dict[str, Any] = {"nccl": {}, "fr": {}, "session": None}
    for name in ("nccl", "fr"):
        dump = f"torch._C._distributed_c10d._dump_{name}_trace_json"
        monkeypatch.setattr(
            dump, lambda with_entries, name=name: json.dumps(found[name]), raising=False
        )
    world = SimpleNamespace(pg_names={"a": "g0"}, pg_group_ranks={"a": {2: 1, 0: 0}})
    monkeypatch.setattr("torch.distributed.distributed_c10d._world", world)
    monkeypatch.setattr("rsctl.transport.pytorch.session.current", lambda: found["session"])
    return found


def test_the_collectives_of_both_recorders_and_of_reducers(recorders: dict[str, Any]) -> None:
    """NCCL and gloo count the groups by themselves, so that their numbers may be the same."""
    recorders["nccl"] = {
        "pg_status": {"0": status("3", "2"), "5": status("-1", "x"), "6": status("1", "1")},
        "entries": [
            *(collective(number, 0, state="completed") for number in range(1, 41)),
            collective(41, 0, retired=True, profiling_name="broadcast"),
            collective(42, 0),
            collective(1, 0, is_p2p=True),
            collective(7, 5),
        ],
    }
    recorders["fr"] = {
        "pg_status": {"0": status(1, 1)},
        "entries": [collective(1, 0, profiling_name="gloo:barrier", state="completed")],
    }
    pending = SimpleNamespace(begun=3, ended=2, recent=lambda: [(2, 10, "fp32"), (3, 20, "bf16")])
    recorders["session"] = SimpleNamespace(
        pipeline=SimpleNamespace(pending=pending), topology=SimpleNamespace(lane_ranks=(0, 2))
    )
    assert inspection.counters() == {
        "0": {"called": 3, "ended": 2},
        "5": {"called": 0, "ended": 0},
        "6": {"called": 1, "ended": 1},
        "0 of gloo": {"called": 1, "ended": 1},
        "reducers": {"called": 3, "ended": 2},
    }

    def entry(number: int, op: str, is_over: bool) -> dict[str, Any]:
        shape = {"sizes": [[4]], "dtypes": ["Float"]}
        return {"number": number, "op": op, **shape, "ended": is_over}

    inspected = inspection.inspect_rank()
    assert inspected["groups"] == {
        "g0": {
            **{"called": 3, "ended": 2, "ranks": [0, 2]},
            "entries": [
                *(entry(number, "all_reduce", True) for number in range(3, 41)),
                *(entry(41, "broadcast", True), entry(42, "all_reduce", False)),
            ],
        },
        "g5": {
            **{"called": 0, "ended": 0, "ranks": []},
            "entries": [entry(7, "all_reduce", False)],
        },
        "g0 of gloo": {
            **{"called": 1, "ended": 1, "ranks": [0, 2]},
            "entries": [entry(1, "barrier", True)],
        },
        "reducers": {
            **{"called": 3, "ended": 2, "ranks": [0, 2]},
            "entries": [
                {"number": number, "op": "all_reduce", "sizes": [[size]], "dtypes": [dtype],
                 "ended": number == 2}
                for number, size, dtype in ((2, 10, "fp32"), (3, 20, "bf16"))
            ],
        },
    }  # fmt: skip
    functions = [line.rpartition(" ")[2] for line in inspected["stack"]]
    assert functions[2] == "test_the_collectives_of_both_recorders_and_of_reducers"
    assert len(functions) <= 40


class Model:
    """A model whose steps DDP has timed, in nanoseconds."""

    def __init__(self, *samples: dict[str, Any]) -> None:
        self._samples = list(samples)

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        return self._samples.pop(0)


def sample(iteration: int, began: int, comm: int = 0, overlap: int = 0, **more: str) -> Any:
    return {
        **{"iteration": iteration, "forward_compute_time_start": began},
        **{"backward_comm_time": comm, "backward_compute_comm_overlap_time": overlap, **more},
    }


def test_a_step_is_the_mean_since_the_one_that_was_timed_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = sample(100, 10**9)
    model = Model(
        *(first, first),
        sample(200, 3 * 10**9, 5_000_000, 2_000_000, rebuilt_bucket_sizes="100, 20"),
        sample(300, 4 * 10**9, 1_000_000, 2_000_000, bucket_sizes="7"),
        *(sample(400, 4 * 10**9), sample(500, 0), sample(600, 10 * 10**9)),
    )
    steps = f"{MODULE}._Steps"
    for name, value in (
        *(("models", [model]), ("iteration", 0), ("began", 0), ("data", 0.0), ("read", (0.0, 0.0))),
    ):
        monkeypatch.setattr(f"{steps}.{name}", value)
    moments = iter([0.0, 10.0, 20.0, 30.0, 40.0])
    monkeypatch.setattr(f"{MODULE}.time", SimpleNamespace(monotonic=moments.__next__))
    assert [inspection.step_times() for _ in range(2)] == [{}, {}]
    assert inspection.step_times() == {"step": {"buckets": 2, "step_ms": 20.0, "wait_ms": 3.0}}
    monkeypatch.setattr(f"{steps}.data", 4.0)  # of 10 seconds
    times = {"data_ms": 4.0, "buckets": 1, "step_ms": 10.0, "wait_ms": 0.0}
    assert inspection.step_times() == {"step": times}
    assert [inspection.step_times() for _ in range(2)] == [{}, {}]  # another clock, or none
    monkeypatch.setattr(f"{steps}.data", 99.0)
    assert inspection.step_times() == {
        "step": {"data_ms": 30.0, "step_ms": 30.0, "wait_ms": 0.0},
    }
