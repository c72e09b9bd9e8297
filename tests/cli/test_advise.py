"""`rsctl advise`: the table, the sentence, JSON, charts, what is written, and wrong inputs."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rsctl.runs.step_times import keep_steps, reported_steps
from rsctl.runs.store import Store
from rsctl.runs.stream.events import LogEvent
from rsctl.targets.local import compose, process
from rsctl.targets.local.host import LocalMachine

from .conftest import Cli, MadeRun

SHAPED = """\
name: job
target: compose
run: {script: train.py}
image: {base: "pytorch/pytorch:2.8.0", source: src}
workers: {count: 4}   # as many as there are
reducers: {count: 0}
model: {parameters: 5M, step_seconds: 0.2, batch: 32, steps: 10K}
targets: {compose: {network: {bandwidth: 200Mbit}}}
"""
CLOUD = """\
name: job
target: sagemaker
run: {script: train.py}
image:
  base: pytorch/pytorch:2.8.0
  source: src
  repository: 123456789012.dkr.ecr.us-east-1.amazonaws.com/x
workers: {count: 4, accelerator: "v100:8"}
reducers: {count: auto}
outputs: s3://bucket/runs
model: {parameters: 340M, step_seconds: 0.3}
targets: {sagemaker: {region: us-east-1, role: "arn:aws:iam::123456789012:role/train"}}
"""


@pytest.fixture(autouse=True)
def fixed_host(monkeypatch: pytest.MonkeyPatch) -> None:
    host = LocalMachine(cpus=8, gpus=0, python="/py", loopback="lo", may_lock_memory=False)
    monkeypatch.setattr(process.TARGET, "_host", host)
    monkeypatch.setattr(compose.TARGET, "_host", host)
    monkeypatch.setattr("rsctl.targets.local.host.this_host", lambda: host)


@pytest.fixture(autouse=True)
def source(tmp_path: Path, rsctl: Cli) -> Path:
    folder = rsctl.folder / "src"
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text("print(1)\n")
    return folder


def test_a_table_and_one_sentence(rsctl: Cli) -> None:
    done = rsctl("advise", rsctl.write(SHAPED))
    assert done.code == 0
    assert done.out.splitlines() == [
        "TOPOLOGY      REDUCERS  STEP    EFFICIENCY  BOTTLENECK",
        "pool          4         1.06 s  19%         workers' network",
        "hybrid        2         1.24 s  16%         workers' network",
        "hybrid        1         1.35 s  15%         workers' network",
        "ring          -         1.41 s  14%         workers' network",
        "co-located *  -         1.41 s  14%         workers' network",
        "tree *        -         1.82 s  11%         workers' network",
        "central *     1         3.49 s  5.7%        server's network",
        "",
        "Use 4 reducers (pool): a step of 1.06 s (921 ms to 1.25 s), 25% less than the "
        "1.41 s without reducers.",
        "Throughput: 120.8 samples/s.",
        "Reducers: 4 make the workers the bottleneck, a pool alone beats a ring from 3.",
    ]
    assert "* for comparison only: rsctl cannot select it" in done.err
    assert "assumed: nodes have 0.2 Gbit/s in each direction by TCP" in done.err


def test_json_has_all_that_the_table_rests_on(rsctl: Cli) -> None:
    shown = rsctl("advise", rsctl.write(CLOUD), "-o", "json").json
    assert list(shown) == [
        *("target", "workers", "recommendation", "options", "assumptions", "hints"),
        *("pool_sizes", "profile", "calibration", "fastest", "changed_results"),
    ]
    best, first = shown["recommendation"], shown["options"][0]
    for key in (
        "topology",
        "reducers",
        "reducer_machine",
        "step_seconds",
        "dollars_per_1000_steps",
    ):
        assert best[key] == first[key]
    assert first["machine"] == "ml.p3.16xlarge"
    assert first["dollars_per_1000_steps"] == pytest.approx(
        first["dollars_per_hour"] / 3600 * first["step_seconds"] * 1000
    )
    assert shown["profile"] == {
        "gradient_bytes": 1_360_000_000,
        "step_seconds": 0.3,
        "data_seconds": 0.0,
        "data_overlaps": True,
        "bucket_mb": None,
        "cores": None,
        "source": "spec",
        "assumed": [
            "gradients become ready evenly over the backward pass",
            "the backward pass is the last two thirds of the computation",
        ],
    }


def test_the_choice_is_written_and_the_file_stays_as_it_is(rsctl: Cli) -> None:
    job = rsctl.write(SHAPED)
    done = rsctl("advise", job, "--write", "-q")
    assert done.code == 0
    assert Path(job).read_text() == SHAPED.replace("{count: 0}", "{count: 4}")
    again = rsctl("advise", job, "-o", "json").json
    assert again["recommendation"]["reducers"] == 4


def test_a_machine_that_is_not_the_usual_one_is_written_for_its_target(rsctl: Cli) -> None:
    job = rsctl.write(CLOUD)
    best = rsctl("advise", job, "--write", "-o", "json").json["recommendation"]
    written = f"{{machine: {{sagemaker: {best['reducer_machine']}}}, count: {best['reducers']}}}"
    assert Path(job).read_text() == CLOUD.replace("{count: auto}", written)
    assert rsctl("plan", job, "-q").code == 0


def test_a_run_whose_script_waits_for_its_input(rsctl: Cli) -> None:
    MadeRun("train-aaaaaa")
    record = {
        **{"rsctl": "steps", "steps": 20, "seconds": 0.5, "low": 0.49, "high": 0.5, "world": 2},
        **{"compute": 0.5, "data": 0.4, "prefetches": True, "communicates": True},
        **{"part": 0, "parts": 1, "buckets": [[400_000, 0.5, 0.5]]},
    }
    line = LogEvent("2026-01-01T00:00:00.000000Z", "worker-0", "0", "stdout", json.dumps(record))
    part = reported_steps(line)
    assert part is not None
    with closing(Store()) as store:
        keep_steps(store, "train-aaaaaa", part)
    done = rsctl("advise", rsctl.write(SHAPED), "--run", "train-aaaaaa")
    assert (
        "Use no reducers (ring): a step of 500 ms (435 ms to 588 ms), limited by input data."
        in done.out
    )
    assert "instead: the step spends 80% of its time waiting for input data" in done.err
    shown = rsctl("advise", "job.yaml", "--run", "train-aaaaaa", "-o", "json").json
    assert shown["profile"]["source"] == "run train-aaaaaa"


def test_a_sweep_has_a_row_for_each_value(rsctl: Cli) -> None:
    job = rsctl.write(SHAPED)
    lines = rsctl("advise", job, "--sweep", "workers.count=2..4", "-q").out.splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["WORKERS.COUNT", "TOPOLOGY", "REDUCERS"],
        ["2", "ring", "-"],
        ["3", "pool", "3"],
        ["4", "pool", "4"],
    ]
    swept = rsctl("advise", job, "--sweep", "comm.bucket_mb=5,25", "-o", "json").json
    assert (swept["key"], swept["values"]) == ("comm.bucket_mb", [5, 25])
    assert [advice["recommendation"]["reducers"] for advice in swept["advice"]] == [4, 4]


def test_charts(rsctl: Cli) -> None:
    job = rsctl.write(SHAPED)
    done = rsctl("advise", job, "--plot", "--svg", "step.svg")
    assert "4 workers on compose: predicted step" in done.out
    assert "(reducers)" in done.out
    assert "chart: step.svg" in done.err
    texts = [
        "".join(node.itertext())
        for node in ElementTree.parse("step.svg").iter("{http://www.w3.org/2000/svg}text")
    ]
    assert {"4 workers on compose: predicted step", "reducers"} <= set(texts)
    assert {"with reducers", "without reducers"} <= set(texts)
    assert rsctl("advise", job, "--sweep", "workers.count=2..4", "--svg", "sweep.svg").code == 0
    assert "as recommended" in Path("sweep.svg").read_text()


def test_a_chart_that_cannot_be_written(rsctl: Cli) -> None:
    done = rsctl("advise", rsctl.write(SHAPED), "--svg", "nowhere/step.svg")
    assert done.code == 3
    assert "cannot write nowhere/step.svg: No such file or directory" in done.err


def test_a_run_without_steps_is_refused(rsctl: Cli) -> None:
    done = rsctl("advise", rsctl.write(SHAPED), "--run", "nope")
    assert done.code == 2
    assert "nope" in done.err


@pytest.mark.parametrize("sweep", ["workers.count", "=1,2", "workers.count="])
def test_sweeps_that_are_none(rsctl: Cli, sweep: str) -> None:
    done = rsctl("advise", rsctl.write(SHAPED), "--sweep", sweep)
    assert (done.code, done.out) == (2, "")
    assert "KEY=LOW..HIGH" in done.err


def test_a_sweep_the_wrong_way_round(rsctl: Cli) -> None:
    done = rsctl("advise", rsctl.write(SHAPED), "--sweep", "workers.count=4..2")
    assert (done.code, done.out) == (2, "")
    assert (
        "the lower end of the range in 4..2 is above its upper end: write workers.count=2..4."
    ) in done.err


def test_a_sweep_writes_nothing(rsctl: Cli) -> None:
    done = rsctl("advise", rsctl.write(SHAPED), "--sweep", "workers.count=2..4", "--write")
    assert done.code == 2
    assert "--write needs one job file and cannot be combined with --sweep" in done.err


def test_errors_of_the_job_come_with_their_lines(rsctl: Cli) -> None:
    done = rsctl("advise", rsctl.write(SHAPED.replace("count: 4", "count: four")), "-o", "json")
    assert done.code == 2
    [finding] = done.json["findings"]
    assert (finding["path"], finding["line"]) == ("workers.count", 5)


def test_a_sharded_script_has_its_own_communication_and_no_ring(rsctl: Cli, source: Path) -> None:
    (source / "train.py").write_text("from torch.distributed.fsdp import fully_shard\n")
    done = rsctl("advise", rsctl.write(SHAPED))
    assert done.code == 0
    assert done.out.splitlines() == [
        "COLLECTIVE            REDUCERS  SENT   TIME    BOTTLENECK",
        "all-gather, forward   -         15 MB  640 ms  workers' network",
        "all-gather, backward  -         15 MB  640 ms  workers' network",
        "reduce-scatter        -         15 MB  640 ms  workers' network",
        "",
        "Use no reducers: train.py shards its model (fully_shard): reduce-scatter and all-gather "
        "send (N-1)/N of it each, and reducers help all-reduces only. Communication of a step: "
        "1.92 s; a step takes 1.92 s if all of it is prefetched, 2.12 s if none.",
    ]
    assert "assumed: parameters are gathered twice in a step: FSDP's default" in done.err
    shown = rsctl("advise", "job.yaml", "-o", "json").json
    assert (shown["sharded"], len(shown["collectives"])) == ("fully_shard", 3)
    assert shown["high"] == pytest.approx(shown["low"] + 0.2)
    for option in (("--write",), ("--sweep", "workers.count=2,4")):
        refused = rsctl("advise", "job.yaml", *option)
        assert (refused.code, refused.out) == (2, "")
        assert "train.py shards its model (fully_shard)" in refused.err


def test_deepspeed_may_gather_once(rsctl: Cli, source: Path) -> None:
    (source / "train.py").write_text("import deepspeed\n")
    done = rsctl("advise", rsctl.write(SHAPED))
    assert "assumed: stages 1 and 2 of ZeRO gather once: 1.28 s" in done.err


def test_without_the_time_of_a_step_the_exchange_is_compared(rsctl: Cli) -> None:
    job = rsctl.write(SHAPED.replace("step_seconds: 0.2, ", ""))
    done = rsctl("advise", job)
    assert done.code == 0
    rows = [line.split()[:2] for line in done.out.splitlines()[1:-2]]
    assert rows == [["ring", "-"], ["hybrid", "1"], ["hybrid", "2"], ["pool", "4"]]
    assert done.out.splitlines()[-1].endswith(
        "with 4 reducers; 4 make the workers the bottleneck. Give model.step_seconds to learn "
        "whether reducers pay off."
    )
    for option in (("--write",), ("--plot",)):
        refused = rsctl("advise", job, *option)
        assert (refused.code, refused.out) == (2, "")
        assert "--write, --plot and --svg need the time of a step" in refused.err


def test_machines_with_a_transport_of_their_own_need_none(rsctl: Cli) -> None:
    job = rsctl.write(CLOUD.replace("v100:8", "a100-40gb:8").replace("auto", "0"))
    done = rsctl("advise", job)
    assert done.code == 0
    assert "Use no reducers" in done.out
    assert "EFA" in done.err
    assert "nodes have 400 Gbit/s: reducers use TCP" in done.err


def test_advice_on_a_cloud_comes_before_the_account(rsctl: Cli) -> None:
    """No project, role, region or repository is needed to learn whether reducers are worth it."""
    rsctl.write(
        "name: job\nrun: {script: train.py}\n"
        'image: {base: "pytorch/pytorch:2.8.0", source: src}\n'
        'workers: {count: 4, accelerator: "v100:8"}\n'
        "model: {parameters: 340M, step_seconds: 0.3}\n"
    )
    for target, region in (("vertex", "us-central1"), ("sagemaker", "us-east-1")):
        done = rsctl("advise", "job.yaml", "-t", target, "-o", "json")
        assert done.code == 0, done.err
        assert f"using region {region}, because the job names none" in done.json["assumptions"]
        assert done.json["recommendation"]["step_seconds"] > 0.3


def test_the_fastest_option_is_the_cheapest_of_the_fastest_and_has_a_machine(rsctl: Cli) -> None:
    model = "model: {parameters: 340M, dtype: bf16, step_seconds: 0.3}\n"
    job = "name: t\nrun: {script: src/train.py}\nimage: {base: 'a:1'}\n"
    rsctl.write(f"{job}workers: {{count: 8, accelerator: 'a10g:4'}}\n{model}")
    done = rsctl("advise", "job.yaml", "-t", "sagemaker", "-o", "json")
    fast = done.json["fastest"]
    for row in done.json["options"]:
        if row["is_offered"] and row["step_seconds"] <= fast["step_seconds"]:
            assert fast["dollars_per_1000_steps"] <= row["dollars_per_1000_steps"]
    [line] = [
        text
        for text in rsctl("advise", "job.yaml", "-t", "sagemaker").out.splitlines()
        if text.startswith("The fastest option has ")
    ]
    assert f" {fast['reducers']} reducers on {fast['reducer_machine']}: " in line


def test_a_single_reducer_is_not_called_reducers(
    rsctl: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = LocalMachine(cpus=2, gpus=0, python="/py", loopback="lo", may_lock_memory=False)
    monkeypatch.setattr(process.TARGET, "_host", host)
    monkeypatch.setattr("rsctl.targets.local.host.this_host", lambda: host)
    small = "name: t\ntarget: process\nrun: {script: src/train.py}\nworkers: {count: 4}\n"
    done = rsctl("advise", rsctl.write(small + "model: {parameters: 40K, step_seconds: 0.0164}\n"))
    assert "The fastest option has 1 reducer: 17 ms." in done.out.splitlines()


def test_a_sweep_with_a_wrong_value_is_refused_before_it_begins(rsctl: Cli) -> None:
    rsctl.write(SHAPED)
    done = rsctl("advise", "job.yaml", "--sweep", "workers.count=2..99999")
    assert (done.code, done.out) == (2, "")
    assert "expected a whole number from 1 to 10000" in done.err


@pytest.mark.parametrize(
    ("accelerator", "assumed"),
    [
        (
            "h200:8",
            "nodes have 400 Gbit/s in each direction by TCP; RDMA of 3200 Gbit/s, with the "
            "variables of /usr/local/gib/scripts/set_nccl_env.sh, is not taken into account",
        ),
        (
            "h100:8",
            "nodes have 1000 Gbit/s in each direction by GPUDirect-TCPX, with Google's plugin "
            "for NCCL in the image; with TCP alone it is lower",
        ),
        ("a100-40gb:8", "nodes have 100 Gbit/s in each direction by TCP"),
    ],
)
def test_a_network_of_the_machines_own_is_promised_with_what_it_needs(
    rsctl: Cli, accelerator: str, assumed: str
) -> None:
    job = rsctl.write(
        "name: j\nimage: {uri: us-docker.pkg.dev/p/r/i:1}\nrun: {script: t.py}\n"
        f"outputs: gs://bucket/out\nworkers: {{count: 4, accelerator: '{accelerator}'}}\n"
        "model: {parameters: 7B, dtype: bf16, step_seconds: 0.4}\n"
        "targets: {vertex: {project: my-project, region: us-central1}}\n"
    )
    done = rsctl("advise", job, "-t", "vertex", "-o", "json")
    assert assumed in done.json["assumptions"]
