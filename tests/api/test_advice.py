"""Advice from Python: what it assumes, what it asks for, and what it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rsctl import api
from rsctl.api.advice import advice_json, advise, advise_sweep, communication, write_recommendation
from rsctl.findings import ExitCode, RsctlError, error

JOB = """
name: step
target: vertex
run: {script: train.py}
image: {uri: us-docker.pkg.dev/p/r/i:1}
workers: {count: 2, accelerator: a100-40gb:8}
model: {parameters: 340M, dtype: bf16, step_seconds: 0.4}
targets: {vertex: {project: mine, region: us-central1}}
"""
COMPUTE = "the compute time of a worker does not depend on the number of workers"
RATE = "nodes have 100 Gbit/s in each direction by TCP"
COPIED = "each bucket is copied completely between GPU and host"


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(JOB)
    return "job.yaml"


def test_spot_machines_without_prices_of_their_own_count_at_the_price_on_demand(job: str) -> None:
    settings = ["image.uri=123456789012.dkr.ecr.us-east-1.amazonaws.com/a:1", "target=sagemaker"]
    settings += ["workers.accelerator=a10g:4", "targets.sagemaker.region=us-east-1"]
    on_demand = advise(api.load(job, set=settings))
    spot = advise(api.load(job, set=[*settings, "limits.spot=true"]))
    assert spot.recommendation.dollars_per_1000_steps is not None
    assert spot.recommendation == on_demand.recommendation
    assert "at on-demand prices: spot machines are billed for fewer seconds" in spot.assumptions


@pytest.mark.parametrize(
    ("settings", "assumed"),
    [
        ([], [RATE]),
        (
            ["comm.compression=powersgd"],
            [RATE, "PowerSGD is not modeled: gradients count at full size"],
        ),
        (
            ["comm.hook=module:hook"],
            [RATE, "comm.hook is not modeled: gradients count at full size"],
        ),
        (
            ["limits.spot=true"],
            [RATE, "at spot prices, without the time lost to preemptions"],
        ),
        (
            ["targets.vertex.capacity=spot"],
            [RATE, "at spot prices, without the time lost to preemptions"],
        ),
        (["target=process"], []),
    ],
)
def test_what_advice_assumes_of_the_machines(
    job: str, settings: list[str], assumed: list[str]
) -> None:
    found = advise(api.load(job, set=settings)).assumptions
    begin = found.index(COMPUTE)
    assert found[begin + 1 : -1] == assumed
    assert found[-1] == "not calibrated here: step times may differ by 15% or more"


SLOW = """
name: step
run: {command: [python, -c, pass]}
image: {uri: "image:1"}
workers: {count: 4}
reducers: {count: 4}
model: {parameters: 340M, step_seconds: 0.05}
targets: {compose: {network: {bandwidth: 1Gbit}}}
"""


@pytest.mark.parametrize(
    ("comm", "named"),
    [
        ("{}", {"comm.compression=bf16", "comm.compression=int8", "comm.local_steps=32"}),
        ("{hook: 'module:hook'}", set()),
        ("{compression: powersgd}", set()),
        ("{compression: int8}", set()),
        ("{compression: bf16}", {"comm.local_steps=32"}),
        ("{local_steps: 8}", {"comm.compression=bf16"}),
    ],
)
def test_advice_names_no_setting_that_the_job_refuses(job: str, comm: str, named: set[str]) -> None:
    Path(job).write_text(f"{SLOW}comm: {comm}\n")
    made = advise(api.load(job), "compose")
    found = {each.setting for each in made.changed_results}
    found |= {hint.setting for hint in made.hints if hint.setting}
    assert found == named
    for setting in named:
        assert api.plan(api.load(job, set=[setting]), "compose")


def test_a_region_that_the_job_does_not_name_is_assumed(job: str) -> None:
    Path(job).write_text(JOB.replace(", region: us-central1", ""))
    assert "using region us-central1, because the job names none" in advise(job).assumptions


REMEDY = (
    "add it to the file, such as model: {parameters: 340M, dtype: bf16, step_seconds: 0.4}; or "
    "measure it with --measure; or take it from a run with --run RUN"
)


@pytest.mark.parametrize(
    ("model", "message", "path"),
    [
        ("", "the size of the gradients and the time of a step are unknown", None),
        ("model: {parameters: 340M}", "advice needs model.step_seconds", "model"),
        ("model: {step_seconds: 0.4}", "advice needs model.parameters", "model"),
    ],
)
def test_what_is_not_known_of_a_step(job: str, model: str, message: str, path: str | None) -> None:
    lines = [line for line in JOB.splitlines() if not line.startswith("model")]
    Path(job).write_text("\n".join([*lines, model, ""]))
    with pytest.raises(RsctlError) as refused:
        advise(job)
    [finding] = [each for each in refused.value.findings if each.is_error]
    assert (finding.code, finding.message, finding.remedy, finding.path) == (
        "advise",
        message,
        REMEDY,
        path,
    )
    alone = communication(job)
    assert (alone is not None) is ("parameters" in model)


def test_communication_is_shown_where_a_step_cannot_be_predicted(job: str) -> None:
    assert communication(job) is None  # the step can be predicted
    Path(job).write_text(JOB.replace(", step_seconds: 0.4", ""))
    found = communication(job)
    assert found is not None
    assert RATE in found.assumptions
    assert COMPUTE not in found.assumptions


def test_the_json_leaves_out_what_is_long(job: str) -> None:
    shown = advice_json(advise(job))
    assert not {"every_option", "default_machine"} & set(shown)
    assert "buckets" not in shown["profile"]
    assert shown["target"] == "vertex"


def test_a_sweep_has_advice_for_each_value(job: str) -> None:
    file = api.load(job, strict=False)
    swept = advise_sweep(file, "workers.count", [2, 4])
    assert (swept.key, swept.values) == ("workers.count", [2, 4])
    assert [each.workers for each in swept.advice] == [2, 4]
    with pytest.raises(RsctlError) as refused:
        advise_sweep(file, "reducers.count", [1])
    message = "advice compares different numbers of reducers"
    finding = error("advise", message, "to see them: --plot, or -o json")
    assert (refused.value.exit_code, refused.value.findings) == (ExitCode.USAGE, (finding,))


@pytest.mark.parametrize(
    ("reducers", "machine", "more", "written"),
    [
        (0, None, "", {"reducers.count": "0"}),
        (
            0,
            None,
            "comm: {backend: rsctl}\n",
            {"reducers.count": "0", "comm.backend": "auto"},
        ),
        (
            0,
            None,
            "comm: {compression: int8}\n",
            {"reducers.count": "0", "comm.compression": "none"},
        ),
        (2, "usual", "comm: {backend: rsctl}\n", {"reducers.count": "2"}),
        (
            2,
            "n1-highcpu-16",
            "",
            {"reducers.count": "2", "reducers.machine": "{vertex: n1-highcpu-16}"},
        ),
    ],
)
def test_what_is_recommended_is_written(
    job: str, reducers: int, machine: str | None, more: str, written: dict[str, str]
) -> None:
    Path(job).write_text(JOB + more)
    chosen: Any = type("Chosen", (), {"reducers": reducers, "reducer_machine": machine})
    advice: Any = type(
        "Advice", (), {"recommendation": chosen, "default_machine": "usual", "target": "vertex"}
    )
    assert write_recommendation(job, advice) == written
    kept = api.load(job, strict=False).spec
    assert kept.reducers.count == reducers
