"""The log of many tasks, read while it is written and by readers that are killed."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from rsctl.targets.slurm.commands import CommandCluster
from rsctl.targets.slurm.logs import SlurmLog

TASKS, LINES = 64, 30


def run_here(program: str) -> subprocess.CompletedProcess[bytes]:
    """As `ssh HOST sh -s` would run it."""
    return subprocess.run(["sh", "-s"], input=program.encode(), capture_output=True)


@pytest.mark.parametrize("is_local", [True, False])
def test_sixty_four_tasks(tmp_path: Path, is_local: bool) -> None:
    """Each line once and in the order of its task, whatever part of it a reader finds, over two
    starts of the job.
    """
    chance = random.Random(7)
    cluster = CommandCluster("local", run_here, is_local=is_local)
    waiting: dict[Path, bytes] = {}
    for epoch in (0, 1):
        for task in range(TASKS):
            path = tmp_path / "logs" / str(epoch) / f"worker-{task}.log"
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = [f"2026-01-01T00:00:0{epoch}.{n:06d}Z {epoch} {n} é" for n in range(LINES)]
            waiting[path] = "".join(f"{line}\n" for line in lines).encode()
    found: dict[str, list[str]] = {}
    log = SlurmLog(cluster, str(tmp_path), {})
    while waiting or not log.is_complete:
        for path in chance.sample(sorted(waiting), min(40 if is_local else 80, len(waiting))):
            size = chance.randrange(*((1, 900) if is_local else (300, 2000)))
            with path.open("ab") as file:
                file.write(waiting[path][:size])
            waiting[path] = waiting[path][size:]
            if not waiting[path]:
                del waiting[path]
        log._due = 0.0
        for line in log.read() or ():
            found.setdefault(line.replica, []).append(line.text)
        if waiting and chance.random() < 0.3:  # the next reader continues from the cursor
            log = SlurmLog(cluster, str(tmp_path), log.cursor())
        if not waiting:
            log.finish("2026-01-01T00:00:02.000000Z")
    texts = [f"{epoch} {n} é" for epoch in (0, 1) for n in range(LINES)]
    assert sorted(found) == sorted(f"worker-{task}" for task in range(TASKS))
    for replica, lines in found.items():
        assert sorted(lines) == sorted(texts), replica
        for epoch in "01":
            own = [line for line in lines if line.startswith(epoch)]
            assert own == [text for text in texts if text.startswith(epoch)], replica
