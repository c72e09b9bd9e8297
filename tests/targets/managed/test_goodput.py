"""The goodput of whole jobs that are started twice, next to the times of their log and phases.

A line has the time at which the platform received it, as in the clouds. The tests do not measure
how long a busy machine needs to deliver a line, or to wake an emulator.
"""

from __future__ import annotations

import json
import re

import pytest

from rsctl.runs.stream.events import parse_time

from ..conftest import Rsctl

TRAIN = """\
import os, sys, time
path = os.path.join(os.environ["RSCTL_CHECKPOINT_DIR"], "step")
is_again = os.path.exists(path)
with open(path, "a+") as file:
    file.seek(0)
    step = int(file.read() or 0)
time.sleep(0.5)
print(f"start step={step}", flush=True)
while step < 20:
    time.sleep(0.1)
    step += 1
    print(f"step={step}", flush=True)
    if step % 6 == 0:
        with open(path, "w") as file:
            file.write(str(step))
    if step == 10 and not is_again:
        FAIL
time.sleep(0.3)
"""
STEP = re.compile(r"(start )?step=(\d+)")
FINEST = 0.002
"""Seconds: clouds have times in milliseconds."""
REHEARSED = ("--rehearse", "--rehearse-with", "process", "--behaviour", "pace=0.1")
PREEMPTED = (
    *("--behaviour", "preemptions=1", "--behaviour", "preempt_after=25"),
    *("--behaviour", "ingest=0", "--behaviour", "measure=0"),
)
VERTEX = ("preempt_after=60", "queue=10", "provision=30", "stagger=0", "grace=1")
SAGEMAKER = ("launch=5", "prepare=5", "image=10", "upload=5", "interrupted=8", "sync=1", "grace=1")


def measured(rsctl: Rsctl, run: str) -> tuple[float, float]:
    """The seconds of new steps and of repeated ones, by the times of the lines."""
    seconds = {True: 0.0, False: 0.0}
    highest, before = 0, 0.0
    for event in map(json.loads, rsctl.look("logs", run, "-o", "json").stdout.splitlines()):
        if found := STEP.match(event["text"]):
            number, time = int(found[2]), parse_time(event["time"]).timestamp()
            if not found[1]:
                seconds[number > highest] += time - before
            highest, before = max(highest, number), time
    return seconds[True], seconds[False]


@pytest.mark.parametrize(
    ("target", "behaviour", "paid", "unpaid"),
    [
        ("process", (), {}, {}),
        ("vertex", VERTEX, {}, {"queue": 1.0, "machines": 6.0}),
        ("sagemaker", SAGEMAKER, {"image": 2.0}, {"queue": 0.8, "machines": 2.0}),
    ],
)
def test_planted_times_are_found(
    rsctl: Rsctl,
    target: str,
    behaviour: tuple[str, ...],
    paid: dict[str, float],
    unpaid: dict[str, float],
) -> None:
    """On this machine the script fails at its tenth step, in a cloud it loses its machine."""
    is_cloud = target != "process"
    job = rsctl.write_job(
        run={"script": "train.py", "launcher": "once"},
        image={"base": "b"},
        checkpoints={"sagemaker": "s3://bucket/c", "vertex": "gs://bucket/c"}.get(
            target, "checkpoints"
        ),
        metrics={"reached": {"regex": r"step=(?P<step>(?P<value>\d+))"}},
        limits={"spot": True} if is_cloud else {"retries": 1},
    )
    wait = "time.sleep(600)" if is_cloud else "sys.exit(3)"
    (rsctl.folder / "source" / "train.py").write_text(TRAIN.replace("FAIL", wait))
    options = [part for pair in behaviour for part in ("--behaviour", pair)]
    rehearsal = (*REHEARSED, *PREEMPTED, *options) if is_cloud else ()
    done = rsctl("submit", job, "-t", target, *rehearsal, "-o", "json")
    assert (done.exit_code, done.result["attempt"]) == (0, 2), done.stdout + done.stderr
    found = rsctl.status(done.result["run"])["goodput"]
    parts = {cause: part["seconds"] for cause, part in found["parts"].items()}
    new, repeated = measured(rsctl, done.result["run"])
    assert parts["new_steps"] == pytest.approx(new, abs=FINEST)
    assert parts["repeated_steps"] == pytest.approx(repeated, abs=FINEST)
    assert (new, repeated) > (1.5, 0.3)
    assert parts["first_step"] > 1.0
    assert parts["end"] > 0.3
    for cause, seconds in paid.items():
        assert parts[cause] >= seconds - FINEST
    for cause, seconds in unpaid.items():
        assert found["unpaid"][cause] >= seconds - FINEST
    assert sum(parts.values()) == pytest.approx(found["seconds"], abs=1e-5)
    assert found["share"] == pytest.approx(parts["new_steps"] / found["seconds"])
    assert "unknown" not in parts
