"""Small files of the kernel: what a process chooses in them is not taken for the kernel's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.node.small_files import fields

COMM = Path("/proc/self/comm")


@pytest.mark.parametrize("separator", ["\r", "\v", "\x1c", "\x85"])
def test_the_name_of_a_process_adds_no_field(separator: str) -> None:
    """The kernel escapes line feeds in it, and no other character that ends a line in Python."""
    name, before = f"a{separator}SigCgt:zz", COMM.read_bytes()
    try:
        COMM.write_bytes(name.encode())
        found = fields("/proc/self/status")
    finally:
        COMM.write_bytes(before)
    assert found["Name"] == name
    assert int(found["SigCgt"], 16) >= 0
