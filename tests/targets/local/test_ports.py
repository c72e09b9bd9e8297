"""Ports of jobs on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from rsctl.findings import RsctlError
from rsctl.targets.local import ports
from rsctl.targets.local.ports import MOST, ReservedPort

RESERVE = """
import sys
from rsctl.targets.local import ports
ports._RANGE = range(*map(int, sys.argv[1:]))
here = [ports.ReservedPort(), ports.ReservedPort()]
print(*(each.number for each in here), flush=True)
input()
"""


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> range:
    """Room for three, beyond the ports of real jobs and below the kernel's."""
    start = 30_000 + os.getpid() % 200 * 10
    numbers = range(start, start + 3 * (MOST + 1), MOST + 1)
    monkeypatch.setattr(ports, "_RANGE", numbers)
    return numbers


def test_a_port_is_nobody_elses_until_it_is_given_back(few: range) -> None:
    reserved = [ReservedPort(), ReservedPort(MOST), ReservedPort()]
    assert sorted(each.number for each in reserved) == [*few]
    with pytest.raises(RsctlError) as none_left:
        ReservedPort()
    [finding] = none_left.value.findings
    assert finding.message == f"no port from {few.start} to {few.stop - 1} is free"
    given_back = reserved.pop()
    given_back.release()
    reserved.append(ReservedPort())
    assert reserved[-1].number == given_back.number
    for each in reserved:
        each.release()


def test_a_port_is_no_other_processes_whatever_their_home_until_they_end(few: range) -> None:
    argv = [sys.executable, "-c", RESERVE, *map(str, (few.start, few.stop, few.step))]
    env = {**os.environ, "RSCTL_HOME": "/nowhere"}
    with subprocess.Popen(argv, env=env, stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout
        taken = {int(number) for number in other.stdout.readline().split()}
        here = ReservedPort()
        assert {here.number} == {*few} - taken
        other.kill()
    after = [ReservedPort(), ReservedPort()]
    assert {each.number for each in after} == taken
    for each in (here, *after):
        each.release()


@pytest.mark.parametrize("host", ["0.0.0.0", "127.3.4.5"])
@pytest.mark.parametrize("beside", range(MOST))
def test_a_port_where_somebody_listens_is_not_given(few: range, host: str, beside: int) -> None:
    with socket.create_server((host, few[1] + beside)):
        found = [ReservedPort(MOST), ReservedPort(MOST)]
    assert {each.number for each in found} == {few[0], few[2]}
    for each in found:
        each.release()
