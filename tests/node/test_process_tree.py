"""The processes below a node's own are ended with its command, as far as the kernel permits."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rsctl.node import process_tree

ENDS = """
import os, subprocess
from rsctl.node import process_tree

def refuse(*_):
    raise PermissionError

child = subprocess.Popen(["sleep", "600"])
process_tree._KILL_SECONDS, kill, os.kill = 0.0, os.kill, refuse
process_tree.kill_descendants()
print("left" if child.poll() is None else "ended")
process_tree._KILL_SECONDS, os.kill = 60.0, kill
process_tree.kill_descendants()
print(*(process.pid == os.getpid() for process in process_tree.tree(os.getpid())))
"""


def test_a_process_that_cannot_be_killed_does_not_keep_the_node() -> None:
    """One of another user, as by sudo, or one that waits for a device."""
    done = subprocess.run(
        [sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout == "left\nTrue\n"


CHILDLESS = """
import os
from rsctl.node import left_behind, process_tree

os.listdir = None
process_tree.kill_descendants()
print(left_behind.left_behind_finding("worker-0", ["train.py"]))
"""


def test_a_process_without_children_looks_at_no_other_process() -> None:
    done = subprocess.run([sys.executable, "-c", CHILDLESS], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("None\n", "")


def test_a_system_without_proc_shows_no_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delattr(os, "waitid")
    assert not process_tree.has_children()
