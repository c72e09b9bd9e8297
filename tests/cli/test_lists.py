"""`rsctl list`, `status`, `prune` and `bench status` with all that they can show."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rsctl.api import Run
from rsctl.api.prune.items import Item, Kept, PruneLimits
from rsctl.bench.records import Benches, BenchRecord, Trial
from rsctl.cli import list as list_command
from rsctl.cli import prune, status
from rsctl.findings import ExitCode, JobState, RsctlError, error, warning
from rsctl.runs.cost import RunCost
from rsctl.runs.goodput_records import Goodput
from rsctl.runs.records import Fact, Replica, RunRecord
from rsctl.runs.store import Store
from rsctl.runs.stream.events import Attempt, TriedPlacement

from .conftest import LOSS, Cli, MadeRun, at

TRIED = [
    TriedPlacement(region="a", began=at(0), ended=at(9), state=JobState.EXPIRED),
    TriedPlacement(region="b\x07", began=at(9), state=JobState.SUCCEEDED, ended=at(13)),
    TriedPlacement(region="c"),
]


def recorded(name: str = "job-aaaaaa", **fields: Any) -> Run:
    """A run that nothing but its record knows."""
    known = {"name": "job", "target": "vertex", "url": f"vertex://{name}", "created": at(0)}
    pools = {"pools": [{"role": "worker", "count": 2}]}
    state = {"state": JobState.SUCCEEDED, "ended": at(13), "plan": pools}
    return Run(
        RunRecord(**{"run": name, **known, **state, "metrics_spec": {"loss": LOSS}, **fields})
    )


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the methods of a run return."""
    values: dict[str, Any] = {
        "cost": None, "last_values": {}, "disk_use": 0, "findings": [], "locations": {},
        "waiting": None, "goodput": Goodput(seconds=1.0, unknown="?"), "restarts_in_place": 0,
        "gradients": None, "slowest_rank": None,
    }  # fmt: skip
    for name in values:
        monkeypatch.setattr(Run, name, lambda _, name=name: values[name])
    return values


def test_a_verbose_list(rsctl: Cli, known: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without a price or placements shows neither."""
    found = [
        recorded("job-bbbbbb", state=JobState.RUNNING, ended=None, created=at(1)),
        recorded(exit_code=0, placements=TRIED, settings=["a=b c"]),
    ]
    known |= {"cost": RunCost(dollars=12.5), "disk_use": 2_500_000, "last_values": {"loss": 0.5}}
    monkeypatch.setattr(list_command, "runs", lambda *_, **__: found)
    monkeypatch.setattr(list_command, "now", lambda: at(4))
    done = rsctl("list", "-v")
    head = "RUN         TARGET  STATE      EXIT  CREATED (UTC)     TIME       COST    DISK  "
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"{head}OVERRIDES AND METRICS",
        "job-bbbbbb  vertex  running          2026-01-31 12:00  0:03  12.50 USD  2.5 MB  loss=0.5",
        "job-aaaaaa  vertex  succeeded     0  2026-01-31 12:00  0:13  12.50 USD  2.5 MB  "
        "b\\x07 (placement 2 of 3)  --set 'a=b c'  loss=0.5",
    ]
    known["cost"] = RunCost(unknown="no price")
    assert "COST" not in rsctl("list", "-v").out
    known["cost"] = None
    assert "COST" not in rsctl("list", "-v").out


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ([36.0, 4.5], "2 listed runs in progress: 40.50 USD per hour\n"),
        (
            [36.0, None],
            "2 listed runs in progress: 36.00 USD per hour, without 1 run of unknown price\n",
        ),
        ([None], ""),
        ([], ""),
    ],
)
def test_what_the_running_runs_cost_an_hour(
    rsctl: Cli, monkeypatch: pytest.MonkeyPatch, rates: list[float | None], said: str
) -> None:
    def made(number: int, rate: float | None, **fields: Any) -> Run:
        plan = {"pools": [], "cost": {"per_hour": rate, "seconds": 1.0, "spot": False}}
        return recorded(f"job-aaaaa{number}", plan=plan, **fields)

    running = {"state": JobState.RUNNING, "ended": None}
    found = [made(number, rate, **running) for number, rate in enumerate(rates)]
    others = [made(8, 9.0), made(9, 9.0, **running, target="process")]
    monkeypatch.setattr(list_command, "runs", lambda *_, **__: [*found, *others])
    done = rsctl("list")
    assert (done.code, done.err) == (0, said)
    assert rsctl("list", "-q").err == ""


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ([], {"limit": 21}),
        (["-n", "0"], {"limit": None}),
        (["-n", "7", "--name", "train*"], {"limit": 8, "name": "train*"}),
        (["--state", "failed", "--state", "running"], {"states": ["failed", "running"]}),
        (["-t", "vertex"], {"target": "vertex"}),
        (["--since", "2026-01-31"], {"since": "2026-01-31T00:00:00.000000Z"}),
    ],
)
def test_the_options_of_a_list(
    rsctl: Cli, monkeypatch: pytest.MonkeyPatch, words: list[str], asked: dict[str, Any]
) -> None:
    seen: dict[str, Any] = {}

    def found(limit: int | None, **options: Any) -> list[Run]:
        seen.update(limit=limit, **options)
        return []

    monkeypatch.setattr(list_command, "runs", found)
    done = rsctl("list", *words)
    default = {"limit": 21, "name": None, "states": [], "since": None, "target": None}
    assert {name: seen[name] for name in default} == {**default, **asked}
    has_filter = bool(words) and words[-2] != "-n"
    nothing = "no such runs" if has_filter else "no runs yet; start one: rsctl submit JOB"
    assert (done.code, done.out, done.err) == (0, "", f"{nothing}\n")


def test_a_status_with_everything(
    rsctl: Cli, known: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = recorded(
        state=JobState.RUNNING,
        ended=None,
        reason="it goes on\x07",
        attempt=2,
        attempts=[Attempt(attempt=1, ended=at(3), reason="a preemption")],
        placements=TRIED[:1],
        facts=[Fact("billed_time", "1:00", 60)],
        replicas=[
            Replica(replica="worker-0", state=JobState.RUNNING, since=at(1)),
            Replica(
                replica="worker-1", state=JobState.FAILED, since=at(2), exit_code=0, reason="lost"
            ),
        ],
    )
    described = SimpleNamespace(describe=lambda: "described", format=lambda: "formatted")
    known |= {"waiting": described, "gradients": described, "slowest_rank": described}
    known |= {"locations": {"outputs": "gs://b/o", "a_long_location": "gs://b/c"}}
    known |= {"restarts_in_place": 3, "findings": [warning("x", "slow", "wait"), warning("y", "z")]}
    known |= {"cost": RunCost(dollars=3.0, per_hour=36.0, seconds=300.0, note="a note")}
    known |= {"last_values": {"x": 1.0, "a\nb": 2.0, "c": 3.0, "d": 4.0}}
    known |= {"goodput": Goodput(seconds=100.0, share=1.0, unpaid={"queue": 90.0}, until=at(3))}
    monkeypatch.setattr(status, "find_run", lambda _: found)
    monkeypatch.setattr(status, "now", lambda: at(40))
    monkeypatch.setattr(Run, "is_rehearsed", property(lambda _: True))
    done = rsctl("status", "job")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "vertex://job-aaaaaa  running: it goes on\\x07",
        f"0:40 since {at(0)}, attempt 2, a rehearsal on this machine",
        "  worker-0         running",
        "  worker-1         failed      exit code 0, lost",
        "  waiting          described",
        "  metrics          x=1  a b=2  c=3  and 1 more",
        "  billed time      1:00",
        "  outputs          gs://b/o",
        "  a_long_location  gs://b/c",
        "  cost             3.00 USD so far: 5:00 at 36.00 USD per hour on demand",
        "                   a note",
        "  goodput          100.0% of 1:40 in new steps",
        "                   before and between, not counted: queue 1:30",
        "                   by the log until 2026-01-31 12:00:03 UTC",
        "  restarts         3 in place, of all ranks",
        "  gradients        formatted",
        "  slowest rank     described",
        "  placement 1      a: expired after 0:09",
        "  attempt 1        a preemption",
        "warning: slow",
        "    -> wait",
        "warning: z",
    ]


class FakePrune:
    """A prune of items of every kind."""

    def __init__(self, items: list[Item], **more: Any) -> None:
        self.items, self.asked = items, {}  # type: ignore[var-annotated]
        self.kept = more.get("kept", [])
        self.problems = more.get("problems", [])
        self.shrunk, self.database_bytes = more.get("shrunk", 0), 4_000_000
        self.bytes = sum(item.size for item in items)
        self.ends_early = more.get("ends_early", False)

    def make(self, _store: Store, limits: PruneLimits) -> FakePrune:
        self.asked["limits"] = limits
        return self

    def select(self, buckets: bool, program: str | None) -> None:
        self.asked |= {"buckets": buckets, "program": program}

    def remove(self, _program: str | None) -> None:
        self.asked["removed"] = True
        if self.ends_early:
            raise KeyboardInterrupt

    def shown(self, is_dry: bool) -> dict[str, Any]:
        return {"dry_run": is_dry}


def item(kind: str, **more: Any) -> Item:
    return Item(**{"kind": kind, "name": f"a-{kind}", "size": 1_000_000, **more})


KINDS = ("run", "bench", "folder", "bucket", "image", "checkout", "bisect")
ONE_EACH = [
    item("bench", state=JobState.FAILED, ended=at(3), runs=["r-1"]),
    *map(item, KINDS[2:]),
]
DAYS = 86400.0


@pytest.fixture
def pruned(rsctl: Cli, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs `rsctl prune` with a prune of our choice."""
    monkeypatch.setattr(prune, "runs", lambda **_: [])
    monkeypatch.setattr(prune, "one_at_a_time", lambda _: nullcontext())
    monkeypatch.setattr(prune, "find_engine", lambda: "docker")

    def run(fake: FakePrune, *words: str) -> Any:
        monkeypatch.setattr(prune, "Prune", fake.make)
        return rsctl("prune", *words)

    return run


def test_a_prune_counts_every_kind(pruned: Any) -> None:
    fake = FakePrune(ONE_EACH, shrunk=6_000_000, kept=[Kept("job-1", "it is in use")])
    done = pruned(fake)
    assert (done.code, done.out) == (
        0,
        "KIND      NAME        STATE   ENDED (UTC)       RUNS  DISK\n"
        "bench     a-bench     failed  2026-01-31 12:00  1     1 MB\n"
        "folder    a-folder                                    1 MB\n"
        "bucket    a-bucket                                    1 MB\n"
        "image     a-image                                     1 MB\n"
        "checkout  a-checkout                                  1 MB\n"
        "bisect    a-bisect                                    1 MB\n",
    )
    assert done.err == (
        "job-1 stays: it is in use\nthe database shrank by 6 MB to 4 MB\n"
        "removed: 1 run, 1 bench, 1 folder, 1 bucket, 1 image, 1 checkout, 1 bisect, 6 MB\n"
    )
    two = [item(kind) for kind in KINDS[1:]] * 2 + [item("run"), item("bench", runs=["a", "b"])]
    assert pruned(FakePrune(two)).err == (
        "removed: 3 runs, 3 benches, 2 folders, 2 buckets, 2 images, 2 checkouts, 2 bisections, "
        "14 MB\n"
    )


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ([], {"limits": (30 * DAYS, 100, False)}),
        (["--older-than", "2d"], {"limits": (2 * DAYS, 0, False)}),
        (["--older-than", "0"], {"limits": (0.0, 0, False)}),
        (["--keep", "5", "--outputs"], {"limits": (0, 5, True)}),
        (["--keep", "0", "--older-than", "90s"], {"limits": (90.0, 0, False)}),
        (["--buckets"], {"limits": (30 * DAYS, 100, False), "buckets": True}),
        (["--images"], {"limits": (30 * DAYS, 100, False), "program": "docker"}),
        (["--dry-run"], {"limits": (30 * DAYS, 100, False), "removed": False}),
    ],
)
def test_the_options_of_a_prune(pruned: Any, words: list[str], asked: dict[str, Any]) -> None:
    fake = FakePrune(ONE_EACH[:1])
    done = pruned(fake, *words)
    default = {"buckets": False, "program": None, "removed": True}
    assert {"removed": False, **fake.asked} == {**default, **asked}
    assert done.err.startswith("would be removed" if "--dry-run" in words else "removed")
    assert pruned(fake, *words, "-o", "json").json == {"dry_run": "--dry-run" in words}


def test_a_prune_that_does_not_remove_all(pruned: Any) -> None:
    problem = RsctlError(ExitCode.ENVIRONMENT, error("x", "no"))
    done = pruned(FakePrune([], problems=[problem]))
    assert (done.code, done.out, done.err) == (3, "", "error: no\nnothing to remove\n")
    done = pruned(FakePrune([], ends_early=True))
    assert "interrupted; removed: nothing. The next prune removes the rest\n" in done.err
    done = pruned(FakePrune([item("run")], ends_early=True))
    assert "interrupted; removed: 1 run. The next prune removes the rest\n" in done.err
    assert done.code == 130


def bench(state: JobState = JobState.SUCCEEDED, **more: Any) -> None:
    cells = [{"n": 1}, {"n": 2}]
    known = {"name": "b", "target": "vertex", "definition": "d", "repeat": 2, "cells": cells}
    made = BenchRecord(**{"bench": "b-1", "created": at(0), "state": state, **known, **more})
    benches = Benches(Store())
    benches.claim(made)
    ends = [JobState.SUCCEEDED, JobState.FAILED, JobState.SUCCEEDED, JobState.RUNNING]
    for number, end in enumerate(ends):
        why = "no disk\x07" if end is JobState.FAILED else None
        trial = Trial(
            cell=number // 2, repetition=number % 2, run=f"r-{number}", state=end, reason=why
        )
        benches.begin("b-1", trial)


def test_the_status_of_a_bench(rsctl: Cli) -> None:
    bench()
    done = rsctl("bench", "status", "b-1")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "b-1 on vertex  succeeded  2 of 4 runs",
        "CELL  RUNS",
        "n=1   1/2, 1 failed",
        "n=2   1/2, 1 running",
        "failed: n=1 #2  r-1  no disk\\x07",
    ]
    found = rsctl("bench", "status", "b-1", "-o", "json").json
    assert (found["bench"], [cell["values"] for cell in found["cells"]]) == (
        "b-1",
        [{"n": 1}, {"n": 2}],
    )


def test_a_bench_in_a_narrow_terminal(rsctl: Cli) -> None:
    bench()
    shown = rsctl.terminal("bench", "status", "b-1", COLUMNS="16", NO_COLOR="1").out
    assert "CELL\n    RUNS\nn=1\n    1/2, 1 failed\n" in shown.replace("\r\n", "\n")


def test_the_status_of_a_bench_that_no_process_runs(rsctl: Cli) -> None:
    bench(JobState.RUNNING, rehearsed=True, file=str(Path("job.yaml").resolve()))
    lines = rsctl("bench", "status", "b-1").out.splitlines()
    assert lines[0] == "b-1 on vertex, a rehearsal on this machine  incomplete  2 of 4 runs"
    assert lines[1].startswith("no process runs this bench; to continue: rsctl bench run ")
    assert rsctl("bench", "list").out.splitlines() == [
        "BENCH  TARGET  STATE       RUNS  CREATED (UTC)",
        "b-1    vertex  incomplete  2/4   2026-01-31 12:00:00",
    ]
    assert rsctl("bench", "list", "-n", "1", "-o", "json").json["benches"][0]["bench"] == "b-1"


def test_no_benches_yet(rsctl: Cli) -> None:
    done = rsctl("bench", "list")
    assert (done.code, done.out) == (0, "")
    assert done.err == "no benches yet; start one: rsctl bench run JOB\n"


def test_cancelling_a_bench_that_has_ended(rsctl: Cli) -> None:
    bench()
    done = rsctl("bench", "cancel", "b-1")
    assert (done.code, done.out, done.err) == (0, "", "b-1 has already ended: succeeded\n")
    assert rsctl("bench", "cancel", "b-1", "-o", "json", "-q").json["bench"] == "b-1"


def test_a_database_that_was_lost_is_told(
    rsctl: Cli, make_run: Callable[..., MadeRun], rsctl_home: Path
) -> None:
    for run in ("job-aaaaaa", "job-bbbbbb"):
        make_run(run).succeed(2)
    for file in rsctl_home.glob("runs.db*"):
        file.unlink()
    done = rsctl("list")
    folders = rsctl_home / "runs"
    assert (done.code, done.out) == (0, "")
    assert done.err == (
        f"warning: the store has no runs, but {folders} has folders of job-aaaaaa and 1 more\n"
        "    -> restore runs.db from a backup if it was lost; otherwise remove the rest: "
        "rsctl prune\n"
    )
    make_run("job-cccccc").succeed(2)
    assert rsctl("list").err == ""


def test_a_folder_of_a_run_that_was_never_recorded_is_not_a_loss(
    rsctl: Cli, rsctl_home: Path
) -> None:
    """The emulator of a rehearsal starts before its run is recorded, and may be interrupted."""
    folder = rsctl_home / "runs" / "job-aaaaaa"
    folder.mkdir(parents=True)
    (folder / "rehearsal.json").touch()
    assert rsctl("list").err == "no runs yet; start one: rsctl submit JOB\n"
