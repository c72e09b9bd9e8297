"""Every command shows the same samples of a run, to the last digit."""

from __future__ import annotations

import csv
import io
import json
import sys

from ..conftest import Rsctl

METRICS = {
    "loss": {"regex": r"step (?P<step>\d+) loss=(?P<value>\S+)", "goal": "min",
             "aggregate": "last", "warmup": "0 steps"},
    "eval": {"goal": "max", "aggregate": "mean", "warmup": "0 steps"},
}  # fmt: skip

SCRIPT = """
import os
rank = int(os.environ["NODE_RANK"])
for step in range(1, 7 if rank else 5):
    print(f"step {step} loss=0.{rank}123456789{step}")
    if rank:
        print(f'{{"rsctl":"metrics","step":{step},"eval":0.{step}{rank}}}')
print('{"rsctl": "metrics", "step": 9, "eval": 0.99, "loss": 0.0')
"""


def test_all_commands_agree(rsctl: Rsctl) -> None:
    """The chief ends first, and other workers log more and lower values after it; the last line of
    each is cut off."""
    job = rsctl.write_job(
        run={"command": [sys.executable, "-c", SCRIPT], "launcher": "once"},
        workers={"count": 3},
        metrics=METRICS,
    )
    done = rsctl("submit", job, "-o", "json")
    assert done.exit_code == 0, done.stdout
    result = done.result["metrics"]
    assert result["loss"] == {"last": 0.01234567894, "count": 16, "best": 0.01234567891}
    assert result["eval"]["last"] == (0.61 + 0.62) / 2
    assert result["eval"]["best"] == (0.61 + 0.62) / 2
    assert [f["code"] for f in done.events if f["type"] == "finding"] == ["metric-line"]
    last = {name: statistics["last"] for name, statistics in result.items()}

    assert rsctl.status("@last")["metrics"] == last
    listed = json.loads(rsctl("list", "-o", "json").stdout)["runs"][0]
    assert listed["metrics"] == last
    table = csv.DictReader(io.StringIO(rsctl("export", "@last", "--table", "samples").stdout))
    exported = {row["name"]: row for row in table}
    assert float(exported["loss"]["value"]) == last["loss"]
    assert exported["eval"]["total"] == "6"
    shown = rsctl("metrics", "@last").stdout.splitlines()
    assert [line.split()[0] for line in shown] == [*result]

    streamed = [e for e in done.events if e["type"] == "metric"]
    stored = rsctl("metrics", "@last", "-o", "json").events
    assert streamed == sorted(stored, key=lambda event: str(event["time"]))
