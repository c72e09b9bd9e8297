"""The log of many tasks, read while it is written and by readers that are killed."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from rsctl.targets.slurm import logs
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


@pytest.mark.parametrize("is_local", [True, False])
def test_whose_line_it_is(tmp_path: Path, is_local: bool) -> None:
    """What srun says of a step is its first task's, but for what follows from ends of tasks."""
    folder = tmp_path / "t-1"
    (folder / "logs" / "0").mkdir(parents=True)
    (folder / "logs" / "old").mkdir()
    at = "2026-01-01T00:00:00.000001Z"
    files = {
        "logs/0/worker-1.log": f"{at} 10%\r20%\n{at} \n{at} the last line has no end",
        "logs/0/workers.step": "srun: error: n2: task 1: Exited with exit code 1\n"
        "srun: error: n3: cannot find python3\n",
        "logs/0/reducers.step": "slurmstepd: error: *** STEP 7.1 ON n1 CANCELLED AT now ***\n"
        "srun: error: no space\n",
        "logs/0/ps.step": "of the role\n",
        "logs/old/worker-0.log": "of another program\n",
        "logs/0/notes.txt": "of another program\n",
        "../t-1.batch.log": "rsctl: the nodes do not share the folder\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    cluster = CommandCluster("local", run_here, is_local=is_local)
    log = SlurmLog(cluster, str(folder), {})
    expected = {
        ("worker-1", "10%\r20%"),
        ("worker-1", ""),
        ("worker-0", "srun: error: n3: cannot find python3"),
        ("reducer-0", "srun: error: no space"),
        ("ps-0", "of the role"),
        ("worker-0", "rsctl: the nodes do not share the folder"),
    }
    lines = log.read()
    assert lines is not None
    assert {(line.replica, line.text) for line in lines} == expected
    assert {line.time for line in lines if line.replica == "worker-1"} == {at}
    assert [log.read(), log.read()] == [[], None]  # soon again after lines, and then after a pause
    log.finish("2026-01-01T00:00:01.000000Z")
    last = log.read()
    assert last is not None
    [rest] = [(line.replica, line.text) for line in last]
    assert rest == ("worker-1", "the last line has no end")
    assert SlurmLog(cluster, str(folder), log.cursor()).read() == []


def test_a_clock_that_is_behind_the_clusters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log ended as late as the difference of the clocks."""
    monkeypatch.setattr(logs, "_SETTLED_SECONDS", 0.0)
    log = SlurmLog(CommandCluster("local", run_here, is_local=True), str(tmp_path), {})
    log.finish("2999-01-01T00:00:00.000000Z")
    log.read()
    assert log.is_complete
