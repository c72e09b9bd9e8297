"""A node's part of `profile`: nsys around a rank, tools that do not exist, summaries."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from rsctl.node import profiling, rank_profiler
from rsctl.node.folded_stacks import summarize_stacks

NSYS = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
case "$1" in
  stats) printf 'Generating SQLite file\\n\\nTime (%%),Total Time (ns),Name\\n'
         printf '60.0,600,"gemm<float, 2>"\\n25.5,255,ncclDevKernel_AllReduce\\n' ;;
esac
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The variables of a rank that nsys profiles, with an nsys that records its calls."""
    tool = tmp_path / "bin" / "nsys"
    tool.parent.mkdir()
    tool.write_text(NSYS)
    tool.chmod(0o755)
    return {
        "PATH": f"{tool.parent}:/usr/bin:/bin",
        "RSCTL_OUTPUT_DIR": str(tmp_path),
        "RSCTL_PROFILE": "nsys",
        "RSCTL_PROFILE_RANKS": "0,3",
    }


def records(capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def test_nsys_starts_the_ranks_that_it_profiles(environ: dict[str, str], tmp_path: Path) -> None:
    command = ["python3", "train.py"]
    assert rank_profiler.wrapped(command, environ, 1) == command
    tool, verb, *options = rank_profiler.wrapped(command, environ, 3)
    assert (tool, verb) == (str(tmp_path / "bin" / "nsys"), "profile")
    assert options[-3:] == [str(tmp_path / "rsctl-profile" / "rank-3.nsys-rep"), *command]
    assert not any("capture-range" in option for option in options)
    some = {**environ, "RSCTL_PROFILE_STEPS": "2..3"}
    assert "--capture-range=cudaProfilerApi" in rank_profiler.wrapped(command, some, 3)


def test_the_kernels_of_a_report_are_its_summary(
    environ: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "rsctl-profile"
    folder.mkdir()
    (folder / "rank-3.nsys-rep").write_text("")
    profiling.report_profiles(environ, range(2, 5), 0)
    [record] = records(capfd)
    assert record == {
        **{"rsctl": "profile", "tool": "nsys", "rank": 3, "steps": None},
        **{"file": "rsctl-profile/rank-3.nsys-rep", "communication": 0.255},
        "top": [["gemm<float, 2>", 0.6], ["ncclDevKernel_AllReduce", 0.255]],
    }


@pytest.mark.parametrize(
    ("tool", "steps", "log", "why", "remedy"),
    [
        ("nsys", "", "", "nsys has written none", "see the log of the rank, or use {torch}"),
        (
            *("nsys", "5..6", "", "it has not made step 5 with an optimizer of torch.optim"),
            "set profile.steps to steps that the script makes, or remove it",
        ),
        (
            *("torch", "5..6", "", "it has not made step 5 with an optimizer of torch.optim"),
            "set profile.steps to steps that the script makes, or use profile.tool: py-spy",
        ),
        ("py-spy", "", "", "py-spy has written none", "see the log of the rank, or use {torch}"),
        ("py-spy", "", "a\n b \n\n", "b", "see the log of the rank, or use {torch}"),
        (
            *("py-spy", "", "Permission Denied: x", "Permission Denied: x"),
            "allow the container to trace its processes (SYS_PTRACE), or use {torch}",
        ),
    ],
)
def test_a_rank_without_a_file_is_a_finding(
    environ: dict[str, str],
    capfd: pytest.CaptureFixture[str],
    tool: str,
    steps: str,
    log: str,
    why: str,
    remedy: str,
) -> None:
    environ |= {"RSCTL_PROFILE": tool, **({"RSCTL_PROFILE_STEPS": steps} if steps else {})}
    if log:
        path = Path(rank_profiler.log_of(environ, 0))
        path.parent.mkdir()
        path.write_text(log)
    profiling.report_profiles(environ, range(2), 0)
    assert records(capfd) == [
        {
            **{"rsctl": "finding", "severity": "warning", "code": "profile"},
            "message": f"rank 0 has left no profile: {why}",
            "remedy": remedy.format(torch="profile.tool: torch"),
        }
    ]


def test_a_node_without_the_tool_runs_without_a_profile(
    environ: dict[str, str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    environ["PATH"] = "/nowhere"
    assert profiling.with_usable_tool(environ, range(1, 3)) is environ  # ranks of another node
    assert records(capfd) == []
    assert "RSCTL_PROFILE" not in profiling.with_usable_tool(environ, range(2, 5))
    [record] = records(capfd)
    assert record["message"] == "rank 3 is not profiled: this image has no nsys"
    assert record["severity"] == "warning"


def test_a_torch_that_does_not_load_the_binding_is_reported(
    environ: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    environ |= {"RSCTL_PROFILE": "torch", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    assert "RSCTL_PROFILE" not in profiling.with_usable_tool(environ, range(1))
    assert "loads rsctl's binding" in records(capfd)[0]["message"]


def test_stacks_are_summarized_by_their_innermost_function(tmp_path: Path) -> None:
    file = tmp_path / "stacks.txt"
    file.write_text(
        "main (a.py:1);step (a.py:9) 30\n"
        "main (a.py:1);all_reduce (/x/torch/distributed/c10d.py:5);wait (b.py:2) 10\n"
        " 5\nmain (a.py:1) x\nno number\n"
    )
    found = summarize_stacks(str(file))
    assert (found.samples, found.communication) == (40, 0.25)
    assert found.top == [("step (a.py:9)", 0.75), ("wait (b.py:2)", 0.25)]
    inside = "/x/rsctl/transport"
    file.write_text(
        f"main (a.py:1);noting ({inside}/pytorch/lost_peers.py:153);backward (/x/torch/b.py:1) 70\n"
        f"main (a.py:1);noting ({inside}/pytorch/data_waits.py:3);load (a.py:4) 10\n"
        f"main (a.py:1);hook ({inside}/pytorch/ddp.py:3) 15\n"
        f"main (a.py:1);send ({inside}/connection.py:3);sendmsg (/x/socket.py:4) 5\n"
    )
    assert summarize_stacks(str(file)).communication == 0.2  # not what rsctl only watches
    file.write_text("")
    assert summarize_stacks(str(file)) == (0, 0.0, [])
