"""Profiles of a rank's steps: which steps, what is reported of them, and that a script goes on."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kit.deferred import Deferred

MODULE = "rsctl.transport.pytorch.profiling"
torch = Deferred("torch")
profiling = Deferred(MODULE)

REMEDY = "set other profile.steps, use another profile.tool, or remove profile"


class Tool:
    """A profiler that notes after how many steps it was started and stopped."""

    def __init__(self) -> None:
        self.steps = 0
        self.calls: list[str] = []
        self.fails = ""
        self.fields: dict[str, object] = {"file": "f"}

    def start(self) -> None:
        self._note("start")

    def stop(self) -> dict[str, object]:
        self._note("stop")
        return self.fields

    def _note(self, name: str) -> None:
        self.calls.append(f"{name} {self.steps}")
        if name == self.fails:
            raise RuntimeError("it broke")


class Optimizer:
    """What makes a step."""


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Tool:
    made = Tool()
    monkeypatch.setattr(f"{MODULE}._TOOLS", {"torch": lambda: made, "nsys": lambda: made})
    monkeypatch.setenv("RSCTL_OUTPUT_DIR", str(tmp_path))
    monkeypatch.setenv("RANK", "3")
    return made


def said(capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    for line in lines:
        if line["rsctl"] == "finding":
            assert (line["severity"], line["code"], line["remedy"]) == (
                "warning",
                "profile",
                REMEDY,
            )
    return lines


def trained(tool: Tool, profiler: Any, steps: int) -> None:
    """So many steps of an optimizer, and a step of another one after each; then the script ends."""
    optimizers = Optimizer(), Optimizer()
    for number in range(1, steps + 1):
        tool.steps = number
        for optimizer in optimizers:
            profiler.stepped(optimizer, (), {})
    tool.steps = 99
    profiler.end()


def test_the_steps_of_the_first_optimizer_are_recorded(
    tool: Tool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    trained(tool, profiling.Profiler([0, 3], 3, 5, "torch"), 8)
    assert tool.calls == ["start 2", "stop 5"]
    assert (tmp_path / "rsctl-profile").is_dir()
    assert said(capfd) == [
        {"rsctl": "profile", "tool": "torch", "rank": 3, "steps": "3..5", "file": "f"}
    ]


@pytest.mark.parametrize(("steps", "shown"), [(2, "3..3"), (3, "3..3"), (4, "3..4")])
def test_a_script_that_ends_early_has_a_profile_of_its_steps(
    tool: Tool, capfd: pytest.CaptureFixture[str], steps: int, shown: str
) -> None:
    trained(tool, profiling.Profiler([3], 3, 5, "torch"), steps)
    profile, finding = said(capfd)
    assert profile["steps"] == shown
    assert finding["message"] == (
        f"the script of rank 3 has ended after step {steps}, before the last step of the profile, 5"
    )


@pytest.mark.parametrize(("ranks", "steps"), [([3], 1), ([0], 8)])
def test_without_a_step_or_a_rank_nothing_is_recorded_here(
    tool: Tool, capfd: pytest.CaptureFixture[str], ranks: list[int], steps: int
) -> None:
    trained(tool, profiling.Profiler(ranks, 3, 5, "torch"), steps)
    assert (tool.calls, said(capfd)) == ([], [])


def test_another_program_writes_the_profile_of_nsys(
    tool: Tool, capfd: pytest.CaptureFixture[str]
) -> None:
    tool.fields = {}
    profiler = profiling.Profiler([3], 2, 2, "nsys")
    profiler.give_way()  # a profile of PyTorch does not disturb it
    trained(tool, profiler, 2)
    assert (tool.calls, said(capfd)) == (["start 1", "stop 2"], [])


@pytest.mark.parametrize(
    ("fails", "calls", "verb"),
    [("start", ["start 1"], "is not"), ("stop", ["start 1", "stop 3"], "was not")],
)
def test_a_tool_that_fails_is_a_finding(
    tool: Tool, capfd: pytest.CaptureFixture[str], fails: str, calls: list[str], verb: str
) -> None:
    tool.fails = fails
    trained(tool, profiling.Profiler([3], 2, 3, "torch"), 8)
    assert tool.calls == calls
    assert [line["message"] for line in said(capfd)] == [f"rank 3 {verb} profiled: it broke"]


@pytest.mark.parametrize(("steps", "calls"), [(0, []), (2, ["start 1", "stop 2"])])
def test_a_profile_of_the_script_itself_comes_first(
    tool: Tool, capfd: pytest.CaptureFixture[str], steps: int, calls: list[str]
) -> None:
    profiler, optimizer = profiling.Profiler([3], 2, 5, "torch"), Optimizer()
    for tool.steps in range(1, steps + 1):
        profiler.stepped(optimizer)
    profiler.give_way()
    profiler.give_way()
    for _ in range(5):
        profiler.stepped(optimizer)
    assert tool.calls == calls
    assert [line["message"] for line in said(capfd)] == [
        "rank 3 is not profiled: the script uses PyTorch's profiler itself"
    ]


def event(name: str, start: float, end: float) -> SimpleNamespace:
    return SimpleNamespace(name=name, time_range=SimpleNamespace(start=start, end=end))


def averages(**times: float) -> list[SimpleNamespace]:
    return [
        SimpleNamespace(key=key, self_cpu_time_total=spent, self_device_time_total=0.0)
        for key, spent in times.items()
    ]


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What PyTorch's profiler has recorded, in a second."""
    found = SimpleNamespace(events=[], averages=[], activities=None)

    class Profile:
        def __init__(self, activities: list[Any]) -> None:
            found.activities = activities

        def start(self) -> None:
            pass

        def stop(self) -> None:
            pass

        def export_chrome_trace(self, path: str) -> None:
            Path(path).touch()

        def events(self) -> list[Any]:
            return list(found.events)

        def key_averages(self) -> list[Any]:
            return list(found.averages)

    monkeypatch.setattr("torch.profiler.profile", Profile)
    moments = iter([10.0, 11.0])
    monkeypatch.setattr(f"{MODULE}.time", SimpleNamespace(perf_counter=moments.__next__))
    return found


def test_a_profile_of_torch_has_its_operations_and_its_communication(
    recorded: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("RSCTL_OUTPUT_DIR", str(tmp_path))
    monkeypatch.setenv("RANK", "3")
    recorded.events = [
        event("gloo:all_reduce", 2e5, 5e5),
        event("ncclDevKernel_AllReduce", 4e5, 6e5),  # in part at the same time
        event("c10d::allreduce_", 4e5, 5e5),  # within another one
        event("rsctl:all_reduce", 8e5, 9e5),
        event("aten::mm", 0.0, 1e6),
        event("my_nccl:x", 0.0, 1e6),
    ]
    recorded.averages = averages(**{f"op{n}": float(n) for n in range(9)}, **{"x" * 161: 64.0})
    profiler, optimizer = profiling.Profiler([3], 2, 2, "torch"), Optimizer()
    profiler.stepped(optimizer)
    profiler.stepped(optimizer)
    assert [each.name for each in recorded.activities] == ["CPU"]
    assert (tmp_path / "rsctl-profile" / "rank-3.trace.json.gz").exists()
    assert said(capfd) == [
        {
            **{"rsctl": "profile", "tool": "torch", "rank": 3, "steps": "2..2"},
            **{"file": "rsctl-profile/rank-3.trace.json.gz", "seconds": 1.0, "communication": 0.5},
            "top": [["x" * 160, 0.64], *([f"op{n}", n / 100] for n in range(8, 1, -1))],
        }
    ]


@pytest.mark.parametrize(
    ("times", "top"),
    [
        ([("a", 5.0, 3.0), ("b", 9.0, 0.0), ("c", 0.0, 1.0)], [["a", 0.75], ["c", 0.25]]),
        ([("a", 1.0, 0.0), ("b", 3.0, 0.0)], [["b", 0.75], ["a", 0.25]]),
        ([("a", 0.0, 0.0)], []),
        ([], []),
    ],
)
@pytest.mark.parametrize("name", ["self_device_time_total", "self_cuda_time_total"])
def test_the_operations_with_the_most_time_are_those_of_gpus_if_there_are_any(
    recorded: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    times: list[tuple[str, float, float]],
    top: list[Any],
    name: str,
) -> None:
    """By the name that the version of torch has."""
    monkeypatch.setenv("RSCTL_OUTPUT_DIR", str(tmp_path))
    recorded.averages = [
        SimpleNamespace(key=key, self_cpu_time_total=cpu, **{name: gpu}) for key, cpu, gpu in times
    ]
    profiler, optimizer = profiling.Profiler([0], 2, 2, "torch"), Optimizer()
    profiler.stepped(optimizer)
    profiler.stepped(optimizer)
    assert [(line["communication"], line["top"]) for line in said(capfd)] == [(0.0, top)]


PY_SPY = """#!/bin/sh
echo "$@" > "$0.calls"
{}
trap 'echo stopped >> "$0.calls"; exit 0' INT
echo "py-spy> Sampling process 100 times a second. Press Control-C to exit."
while :; do sleep 0.01; done
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the interpreter."""
    monkeypatch.setenv("RSCTL_OUTPUT_DIR", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    return tmp_path


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("", None),
        ("echo 'Permission Denied: x' >&2; exit 1", "Permission Denied: x"),
        ("exit 1", "it does not start"),
    ],
)
def test_py_spy_samples_beside_the_rank(
    programs: Path, capfd: pytest.CaptureFixture[str], fault: str, message: str | None
) -> None:
    spy = programs / "py-spy"
    spy.write_text(PY_SPY.format(fault))
    spy.chmod(0o755)
    file = programs / "rsctl-profile" / "rank-0.folded.txt"
    file.parent.mkdir()
    file.write_text("of an earlier attempt")
    profiler, optimizer = profiling.Profiler([0], 2, 3, "py-spy"), Optimizer()
    for _ in range(3):
        profiler.stepped(optimizer)
    options = f"record --pid {os.getpid()} --format raw --full-filenames --nonblocking --output"
    ended = [] if fault else ["stopped"]
    assert spy.with_name("py-spy.calls").read_text().splitlines() == [f"{options} {file}", *ended]
    assert not file.exists()
    assert [line["message"] for line in said(capfd)] == (
        [f"rank 0 is not profiled: py-spy: {message}"] if message else []
    )


@pytest.mark.parametrize(
    ("changes", "is_armed"),
    [
        ({}, True),
        ({"RANK": "1"}, False),
        ({"RANK": None}, True),  # the script starts its ranks itself
        ({"RSCTL_PROFILE": "perf"}, False),
        ({"RSCTL_PROFILE": None}, False),
    ],
)
def test_only_the_chosen_ranks_are_profiled(
    monkeypatch: pytest.MonkeyPatch, tool: Tool, changes: dict[str, str | None], is_armed: bool
) -> None:
    from torch.optim import optimizer as module

    hooks: list[Any] = []
    monkeypatch.setattr(module, "register_optimizer_step_post_hook", hooks.append)
    monkeypatch.setattr(f"{MODULE}.atexit", SimpleNamespace(register=hooks.append))
    kind = torch.autograd.profiler.profile
    monkeypatch.setattr(kind, "_prepare_trace", lambda self: "prepared", raising=False)
    environ = {
        **{"RSCTL_PROFILE": "torch", "RSCTL_PROFILE_RANKS": "0,3", "RSCTL_PROFILE_STEPS": "2..4"},
        **{"RANK": "3", **changes},
    }
    profiling.arm({name: value for name, value in environ.items() if value is not None})
    assert len(hooks) == 2 * is_armed
    if is_armed:
        stepped, end = hooks
        first = Optimizer()
        for tool.steps in range(1, 5):
            stepped(first)
        end()
        assert tool.calls == ["start 1", "stop 4"]
        assert kind._prepare_trace(None) == "prepared"
