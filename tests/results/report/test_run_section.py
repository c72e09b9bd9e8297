"""The section of a run: its past, its origin, its profiles, and how long its lists are."""

from __future__ import annotations

import json
import re
from pathlib import Path

from rsctl.findings import Finding, JobState, warning
from rsctl.results.report.build import make_report
from rsctl.results.report.data import collect
from rsctl.results.report.page import Page
from rsctl.results.report.run_section import named_parts
from rsctl.runs.profiles import keep_profile
from rsctl.runs.records import Fact, RunRecord
from rsctl.runs.stream.events import Attempt, Failure, FindingEvent
from rsctl.runs.stream.profiles import RankProfile
from rsctl.runs.versions import keep_versions
from tests.cli.conftest import MadeRun, at
from tests.results.report.conftest import Make
from tests.results.report.test_whole import compare, shown


def record_of(made: MadeRun) -> RunRecord:
    found = made.store.get(made.run)
    assert found is not None
    return found


def page_of(made: MadeRun, **locations: str) -> str:
    return make_report(made.store, [record_of(made)], {made.run: locations}).html


def tell(made: MadeRun, finding: Finding) -> None:
    made.tell(FindingEvent(time=at(3), finding=finding))


def test_the_page_of_a_run_with_a_past_and_an_origin(make_run: Make, tmp_path: Path) -> None:
    pool = {"role": "worker", "count": 2, "machine": "n1", "accelerator": "T4 x 1", "gbps": 32}
    made = make_run(
        spec="name: job  # <b>\nrun: {script: train.py}\n",
        pools=[pool],
        world_size=2,
        image={"reference": "host/job@sha256:abc", "tag": "job:1", "transport": "core"},
        env={"KEY": None, "LR": "0.1"},
        request={"body": {"Environment": {"KEY": None}}},
    )
    with made.store.transaction() as db:
        settings = json.dumps(["run.args.name=a b", "workers.count=2"])
        db.execute("UPDATE runs SET settings=? WHERE id=?", (settings, made.run))
    failure = Failure(replica="worker-1", time=at(2), exit_code=1, rank=1)
    made.store.record_attempt(made.run, Attempt(attempt=1, ended=at(2), failure=failure))
    made.store.record_attempt(made.run, Attempt(attempt=2, ended=at(3), reason="<preempted>"))
    made.store.record_attempt(made.run, Attempt(attempt=3, ended=at(4)))
    made.store.keep(made.run, [], b"{}", [Fact("billed_time", "<12 s>", 12)])
    keep_versions(made.store, made.run, "worker-0", {"torch": "2.9", "cpu": "EPYC"})
    keep_versions(made.store, made.run, "worker-1", {"torch": "2.9", "nccl": "<2>"})
    for finding in (
        warning("stall", "no <progress>", "rsctl debug job-aaaaaa"),
        warning("odd", "no remedy", None),
        Finding(severity="note", code="n", message="a note", remedy=None),
    ):
        tell(made, finding)
    for number, (tool, steps, part) in enumerate(
        [("torch", "5-7", 0.256), ("py-spy", None, None), ("nsys", None, 0.0)]
    ):
        top = [("<op>", 0.5), ("other", 0.1234)] if number < 2 else []
        profile = RankProfile(
            tool=tool, rank=number, file=f"profiles/{number}", steps=steps, communication=part,
            top=top,
        )  # fmt: skip
        keep_profile(made.store, made.run, profile)
    made.state(9, JobState.SUCCEEDED, exit_code=0, attempt=4)
    page = page_of(made, outputs="<folder>", checkpoints="gs://b/c")
    compare("origin.html", shown(page), tmp_path)


def test_a_run_on_plain_processes_has_no_image(make_run: Make) -> None:
    made = make_run(image={"reference": None, "tag": None}).succeed(9)
    assert '<th scope="row">image</th><td>none: plain processes</td>' in page_of(made)


def test_goodput_says_until_when_the_log_of_a_running_run_is_known(make_run: Make) -> None:
    made = make_run(target="vertex")
    made.state(1, JobState.RUNNING)
    for step in range(3):
        made.metric(2 + step, "loss", 1.0, step=step)
    made.store.keep(made.run, [], json.dumps({"read_until": at(5)}).encode(), [])
    said = "of the paid time went into new steps."
    assert f"{said} By the log until 2026-01-31 12:00:05 UTC.</p>" in page_of(made)
    made.succeed(9)
    assert f"{said}</p>" in page_of(made)


def test_the_parts_of_a_section_by_name(make_run: Make) -> None:
    """The live page of `rsctl ui` replaces each by its name."""
    made = make_run().succeed(9)
    parts = named_parts(Page(), collect(made.store, record_of(made), {}))
    assert list(parts) == [
        *("results", "problems", "metrics", "timeline", "goodput", "machines", "gradients"),
        *("stragglers", "profiles"),
    ]


def test_long_lists_are_cut_and_that_is_stated(make_run: Make) -> None:
    made = make_run(workers=101, metrics_spec={})
    made.metrics((3.0, f"m{number:03}", 1.0, {}) for number in range(161))
    for number in range(51):
        tell(made, warning(f"code-{number}", f"finding {number}", None))
    for rank in range(65):
        keep_profile(made.store, made.run, RankProfile(tool="torch", rank=rank, file=f"f{rank}"))
    for replica in made.replicas:
        keep_versions(made.store, made.run, replica, {"torch": f"of {replica}"})
    lines = [f"line {number}" for number in range(41)]
    made.fail(9, Failure(replica="worker-0", time=at(8), exit_code=1, lines=lines))
    page = page_of(made)
    assert page.count('<div class="card">') == 2 + 6
    assert re.findall(r"m\d\d\d over time", page)[-1] == "m011 over time"
    assert "149 more metrics not drawn</summary><p>m012, m013," in page
    assert "m110, m111 …</p>" in page
    assert re.findall(r'<th scope="row">(m\d\d\d)</th>', page)[-1] == "m059"
    assert "101 more metrics</summary><p>m060, m061," in page
    assert "m158, m159 …</p>" in page
    assert "States of 101 replicas</summary>" in page
    assert page.count('<span class="state failed">failed</span></td><td>12:00:09<') == 100
    assert page.count('<p class="faint">1 more replica not shown here</p>') == 2
    assert page.partition('<pre tabindex="0">')[2].startswith("line 1\n")
    assert re.findall(r"<li><strong>warning: </strong>(finding \d+)", page)[-1] == "finding 49"
    assert page.count('<p class="faint">1 more finding not shown here</p>') == 1
    assert re.findall(r"<td>(f\d+)</td>", page)[-1] == "f63"
    assert page.count('<p class="faint">1 more rank not shown here</p>') == 1
    versions = re.findall(r'<th scope="row">(worker-\d+)</th><td>of \1</td>', page)
    assert versions == made.replicas[:100]
