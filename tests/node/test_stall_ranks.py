"""Which processes of a node are its ranks, and what is kept of the answers of ranks."""

from __future__ import annotations

import faulthandler
import json
import os
import re
import threading
from pathlib import Path

import pytest

from rsctl.node.stall import evidence
from rsctl.node.stall.evidence import Evidence
from rsctl.node.stall.ranks import ArmedRank, armed_ranks, main_stack_of

OWN, PARENT = os.getpid(), os.getppid()  # processes that are alive
GONE = 1 << 30  # above the highest number of a process


def write_rank(folder: Path, pid: int, rank: int, parent: int, of_node: bool = False) -> None:
    """What a process that can be asked leaves in the folder."""
    who = {"rank": rank, "local_rank": rank % 2, "signal": 40, "thread": pid + 1, "parent": parent}
    who["of_node"] = of_node
    (folder / f"{pid}.rank").write_text(json.dumps(who))


def armed(pid: int, rank: int) -> ArmedRank:
    return ArmedRank(pid, rank, rank % 2, 40, pid + 1)


def test_the_ranks_of_a_node_are_its_processes_that_are_alive(tmp_path: Path) -> None:
    write_rank(tmp_path, OWN, 3, PARENT)
    write_rank(tmp_path, PARENT, 2, 1)
    write_rank(tmp_path, GONE, 0, PARENT)
    (tmp_path / "1.rank").write_text('{"rank": 1}')
    (tmp_path / "1.pipe").touch()
    assert armed_ranks(str(tmp_path)) == [armed(PARENT, 2), armed(OWN, 3)]
    assert armed_ranks(str(tmp_path / "gone")) == []


@pytest.mark.parametrize(
    ("parent", "child"),
    [(PARENT, OWN), (OWN, PARENT), (OWN, 1)],
    ids=["higher", "lower", "lowest"],
)
def test_a_child_of_a_rank_is_not_the_rank(tmp_path: Path, parent: int, child: int) -> None:
    """Whatever the child's number is beside the rank's."""
    write_rank(tmp_path, parent, 0, GONE)
    write_rank(tmp_path, child, 0, parent)
    assert armed_ranks(str(tmp_path)) == [armed(parent, 0)]


def test_a_launcher_that_has_started_ranks_is_not_one(tmp_path: Path) -> None:
    """Such as `accelerate launch` on the node of this number."""
    write_rank(tmp_path, PARENT, 0, 1, of_node=True)
    assert armed_ranks(str(tmp_path)) == [armed(PARENT, 0)]
    write_rank(tmp_path, OWN, 0, PARENT)
    assert armed_ranks(str(tmp_path)) == [armed(OWN, 0)]


def test_a_rank_that_another_rank_has_started_is_one(tmp_path: Path) -> None:
    """As by torch.multiprocessing."""
    write_rank(tmp_path, PARENT, 0, 1)
    write_rank(tmp_path, OWN, 1, PARENT)
    assert armed_ranks(str(tmp_path)) == [armed(PARENT, 0), armed(OWN, 1)]


@pytest.mark.parametrize("is_current", [True, False])
def test_the_stack_of_the_main_thread_in_what_faulthandler_writes(
    tmp_path: Path, is_current: bool
) -> None:
    """The thread that got the signal, and otherwise the last one."""
    has_begun, may_end = threading.Event(), threading.Event()

    def wait() -> None:
        has_begun.set()
        may_end.wait()

    other = threading.Thread(target=wait)
    other.start()
    has_begun.wait()
    with (tmp_path / "stacks").open("w") as file:
        faulthandler.dump_traceback(file, all_threads=True)
    may_end.set()
    other.join()
    text = (tmp_path / "stacks").read_text()
    assert text.startswith("Thread 0x")
    if is_current:
        text += '\nThread 0x1 (most recent call first):\n  File "x.py", line 1 in after\n'
    else:
        text = text.replace("Current thread", "Thread")
    frames = main_stack_of(text)
    function = "test_the_stack_of_the_main_thread_in_what_faulthandler_writes"
    assert re.fullmatch(rf"{re.escape(__file__)}:\d+ {function}", frames[0])
    assert len(frames) > 3
    assert all(re.fullmatch(r".+:\d+ \S+", frame) for frame in frames)
    assert not any(frame.endswith((" wait", " after")) for frame in frames)


def test_the_answer_of_a_rank_is_reported_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank that does not answer is reported without one."""
    monkeypatch.setattr(evidence, "_ANSWER_SECONDS", 0.0)
    monkeypatch.setenv("PATH", str(tmp_path))  # without py-spy
    answer = {"stack": ["train.py:9 main"], "groups": {"0": {"called": 4, "ranks": [0, 1]}}}
    (tmp_path / f"{OWN}.7.json").write_text(json.dumps(answer))
    kept = tmp_path / "evidence"
    ranks = [ArmedRank(OWN, 0, 0, 0), ArmedRank(PARENT, 1, 1, 0)]
    first, second = Evidence(str(kept), str(tmp_path)).of_ranks(ranks, 7)
    assert first.pop("state") in "RS"
    assert second.pop("state") in "RS"
    assert first == {
        **{"rank": 0, "local_rank": 0, "pid": OWN, "answers": True, "locked": False},
        "groups": {"0": {"called": 4, "ranks": "0-1"}},
        **{"at": "train.py:9 main", "inside": None, "stack": ["train.py:9 main"]},
    }
    assert second == {
        **{"rank": 1, "local_rank": 1, "pid": PARENT, "answers": False, "locked": False},
        **{"groups": {}, "at": None, "inside": None, "stack": []},
    }
    assert json.loads((kept / "rank-0.json").read_text()) == answer
    assert not (kept / "rank-1.json").exists()
