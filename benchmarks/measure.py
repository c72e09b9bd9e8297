"""Runs commands in turn and keeps what they used."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

ROOT = Path(__file__).resolve().parent.parent
_METER = [sys.executable, "-I", "-S", str(Path(__file__).with_name("meter.py"))]


class Failed(Exception):
    """A measured command did not do what it should: its numbers would mean nothing."""


class Command(NamedTuple):
    """A command line and where it runs."""

    argv: list[str]
    cwd: Path = ROOT


class Usage(msgspec.Struct):
    """What one run of a command used. Seconds and bytes; `began` is Unix time.

    `left_cpu` is of what the command left running when it had ended, such as a supervisor.
    """

    began: float
    wall: float
    cpu: float
    peak: int
    left_cpu: float
    exit_code: int


def rsctl(*arguments: str) -> Command:
    """A command line of this environment's rsctl."""
    return Command([str(Path(sys.executable).with_name("rsctl")), *arguments])


def measure(command: Command, stdout: str | Path = os.devnull) -> Usage:
    """Run a command once. Raises Failed if it does not exit with 0."""
    done = subprocess.run(
        [*_METER, str(stdout), *command.argv],
        cwd=command.cwd,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise Failed(f"{' '.join(command.argv)}: {done.stderr}")
    usage = msgspec.json.decode(done.stdout, type=Usage)
    if usage.exit_code:
        raise Failed(f"{' '.join(command.argv)} exited with {usage.exit_code}: {done.stderr}")
    return usage


def measure_in_turn(commands: Mapping[str, Command], runs: int) -> dict[str, list[Usage]]:
    """Run all commands `runs` times, A B A B; before several runs, a round that does not count.

    What the machine does meanwhile meets all of them alike, so that the ratio of two commands of
    the same round says more than the numbers themselves.
    """
    for command in commands.values() if runs > 1 else ():
        measure(command)
    used: dict[str, list[Usage]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            used[name].append(measure(command))
    return used


def _environment() -> dict[str, str]:
    """The caller's, without what would make Python compile anew or rsctl behave differently."""
    unwanted = ("PYTHON", "CI", "RSCTL_DEBUG", "FORCE_COLOR")
    return {name: v for name, v in os.environ.items() if not name.startswith(unwanted)}
