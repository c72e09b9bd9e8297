"""`rsctl export` and `rsctl.results.frame`: what is in the tables, and what opens them."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from datetime import datetime, timezone
from pathlib import Path

import pytest

from rsctl.api import bench, run
from rsctl.bench.records import Benches, BenchRecord, Trial
from rsctl.cli.app import run as run_command
from rsctl.findings import ExitCode, JobState, RsctlError
from rsctl.installation import install_command
from rsctl.results import frame
from rsctl.results.export.formats import harmless
from rsctl.runs.folder import RunFolder
from rsctl.runs.store import RunRecord, Store
from rsctl.runs.stream.events import MetricEvent, StateEvent
from rsctl.runs.stream.metrics import MetricSpec
from tests.kit.deferred import Deferred

pa = Deferred("pyarrow")
pq = Deferred("pyarrow.parquet")

WHOLE = Path(__file__).with_name("whole.json")
"""All tables of the run of `add_run`."""


def at(second: float) -> str:
    return f"2026-01-31T12:00:{second:09.6f}Z"


def add_run(run: str, throughput: float = 100.0, reason: str | None = None) -> None:
    """A run of 20 seconds on two workers, with three metrics of its own and telemetry."""
    store = Store()
    store.add(
        RunRecord(
            run=run,
            name="job",
            target="process",
            url=f"process://{run}",
            state=JobState.QUEUED,
            created=at(0),
            plan={"pools": [{"role": "worker", "count": 2}], "world_size": 2},
            metrics_spec={"throughput": MetricSpec(goal="max", unit="samples/s", warmup="0 steps")},
            settings=["workers.count=2"],
        )
    )
    RunFolder(run).path.mkdir(parents=True)
    store.record(run, StateEvent(time=at(10), state=JobState.RUNNING))
    ended = StateEvent(time=at(30), state=JobState.SUCCEEDED, exit_code=0, reason=reason)
    store.record(run, ended)
    metrics = [
        ("throughput", throughput, 1),
        ("loss", math.nan, None),
        ("node.rss_bytes", 5e9, None),
    ]
    store.add_metrics(
        run,
        [
            MetricEvent(time=at(11 + i), replica="worker-0", name=name, value=value, step=step)
            for i, (name, value, step) in enumerate(metrics)
        ],
    )


def add_bench() -> None:
    cells = [{"workers.count": n, "comm.compression": c} for n, c in ((2, "none"), (4, "=fp16"))]
    store, benches = Store(), Benches(Store())
    bench = BenchRecord(
        bench="b-bench-aaaaaa", name="b", target="process", definition="d", created=at(0),
        cells=cells,
    )  # fmt: skip
    benches.claim(bench)
    for cell in range(2):
        add_run(f"b-run-{cell}", throughput=100.0 * (cell + 1))
        benches.begin(bench.bench, Trial(cell=cell, repetition=0, run=f"b-run-{cell}"))
    store.close()


def export(*arguments: str, code: int = 0) -> None:
    assert run_command(["export", *arguments]) == code


def test_csv_of_metrics_has_units_and_what_is_not_finite(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    add_run("job-a")
    export("job-a", "--table", "metrics")
    assert capfdbinary.readouterr().out.decode() == (
        "run,time,replica,name,step,value,unit\n"
        "job-a,2026-01-31T12:00:11.000000Z,worker-0,throughput,1,100.0,samples/s\n"
        "job-a,2026-01-31T12:00:12.000000Z,worker-0,loss,,nan,\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        " =1",
        "=cmd|' /C calc'!A0",
        "\uff1d1",
    ],
)
def test_a_text_never_becomes_a_formula(text: str) -> None:
    add_run("job-a", reason=text)
    cells = harmless(text)
    assert cells.startswith("'")
    assert "\n" not in cells
    assert "\r" not in cells


def test_hostile_texts_stay_in_their_cell(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    add_run("job-a", reason='x","=1+1"\r\n=2,\x1b[31mred')
    export("job-a", "--table", "runs")
    rows = list(csv.reader(io.StringIO(capfdbinary.readouterr().out.decode(), newline="")))
    assert len(rows) == 2
    assert len(rows[0]) == len(rows[1])
    assert rows[1][rows[0].index("reason")] == "' =2,red"


def test_numbers_stay_numbers_though_they_begin_with_a_sign(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    add_run("job-a", throughput=-1.5)
    export("job-a", "--table", "metrics")
    assert b",-1.5," in capfdbinary.readouterr().out


def test_json_has_all_tables_with_types_and_units(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """Programs read the columns by their names: a change is one of the format."""
    add_run("job-a")
    export("job-a", "--format", "json")
    assert capfdbinary.readouterr().out.decode() == WHOLE.read_text()


def test_parquet_of_a_bench_has_types_units_and_its_cells(tmp_path: Path) -> None:
    add_bench()
    export("b-bench-aaaaaa", "--format", "parquet", "-o", str(tmp_path / "out"))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "metrics.parquet", "runs.parquet", "samples.parquet", "telemetry.parquet"
    ]  # fmt: skip
    runs = pq.read_table(tmp_path / "out" / "runs.parquet")
    assert runs.schema.field("duration_s").metadata == {b"unit": b"s"}
    assert runs.schema.field("created").type == pa.timestamp("us", tz="UTC")
    assert runs.column("created")[0].as_py() == datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
    assert runs.column("cell.workers.count").to_pylist() == [2, 4]
    assert runs.schema.field("cell.workers.count").type == pa.int64()
    assert runs.column("cell.comm.compression").to_pylist() == ["none", "=fp16"]
    assert runs.column("bench").to_pylist() == ["b-bench-aaaaaa"] * 2
    samples = pq.read_table(tmp_path / "out" / "samples.parquet").to_pylist()
    assert [f["value"] for f in samples if f["name"] == "throughput"] == [100.0, 200.0]
    metrics = pq.read_table(tmp_path / "out" / "metrics.parquet")
    assert math.isnan(metrics.to_pylist()[1]["value"])
    assert metrics.column("step").to_pylist() == [1, None, 1, None]


def test_one_table_goes_to_a_file_and_replaces_it_whole(tmp_path: Path) -> None:
    add_bench()
    file = tmp_path / "samples.csv"
    file.write_text("old")
    export("b-bench-aaaaaa", "job", "--table", "samples", "-o", str(file), code=ExitCode.USAGE)
    assert file.read_text() == "old"
    export("b-bench-aaaaaa", "--table", "samples", "-o", str(file))
    rows = list(csv.DictReader(file.open()))
    assert rows[0]["cell.workers.count"] == "2"
    assert {row["cell.comm.compression"] for row in rows} == {"none", "'=fp16"}
    assert list(tmp_path.glob(".*")) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["job-a"], "standard output holds one table"),
        (["job-a", "-o", "x.csv"], "a file holds one table"),
        (["job-a", "--format", "parquet", "--table", "runs"], "parquet is a binary format"),
    ],
)
def test_what_does_not_go_together_is_wrong_usage(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    add_run("job-a")
    export(*arguments, code=ExitCode.USAGE)
    assert message in capsys.readouterr().err


def test_without_the_extra_parquet_is_refused_with_its_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    add_run("job-a")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    export("job-a", "--format", "parquet", "-o", str(tmp_path / "d"), code=ExitCode.ENVIRONMENT)
    assert install_command("arrow") in capsys.readouterr().err
    export("job-a", "--format", "json", "-o", str(tmp_path / "all.json"))
    assert json.loads((tmp_path / "all.json").read_text())["runs"]["rows"]


def test_a_frame_is_a_pyarrow_table_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    add_bench()
    monkeypatch.setattr("rsctl.results.find_spec", lambda name: name == "pyarrow" or None)
    made = frame("b-bench-aaaaaa", table="runs")
    assert made.column("cell.workers.count").to_pylist() == [2, 4]
    monkeypatch.setattr("rsctl.results.find_spec", lambda name: None)
    with pytest.raises(RsctlError, match="neither is installed"):
        frame("b-bench-aaaaaa")


def test_a_frame_takes_the_objects_of_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error was on the store: move it to another place."""
    add_bench()
    monkeypatch.setattr("rsctl.results.find_spec", lambda name: name == "pyarrow" or None)
    assert frame(run("b-run-0"), table="runs").column("run").to_pylist() == ["b-run-0"]
    made = frame(bench("b-bench-aaaaaa"), table="runs")
    assert made.equals(frame("b-bench-aaaaaa", table="runs"))


def test_a_frame_is_a_data_frame_where_pandas_is() -> None:
    add_bench()
    made = frame("b-bench-aaaaaa", table="metrics")
    assert dict(made.dtypes.astype(str)) == {
        "run": "string", "bench": "string", "repetition": "Int64",
        "cell.workers.count": "Int64", "cell.comm.compression": "string",
        "time": "datetime64[us, UTC]", "replica": "string", "name": "string", "step": "Int64",
        "value": "float64", "unit": "string",
    }  # fmt: skip
    units = frame("b-run-0", table="runs").attrs["units"]
    assert {name: units[name] for name in ("duration_s", "cost_usd", "paid_first_step_s")} == {
        **{"duration_s": "s", "cost_usd": "USD", "paid_first_step_s": "s"}
    }


def test_a_frame_without_rows_has_its_columns() -> None:
    add_run("job-a")
    with Store().transaction() as db:
        db.execute("DELETE FROM metrics")
    made = frame("job-a")
    assert (len(made), str(made.dtypes["value"])) == (0, "float64")


def test_a_file_named_as_another_format_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_run("job-a")
    file = tmp_path / "x.parquet"
    assert run_command(["export", "job-a", "-o", str(file)]) == ExitCode.USAGE
    said = " ".join(capsys.readouterr().err.split())
    assert "x.parquet is for parquet, but the format is csv: add --format parquet" in said
    assert not file.exists()


SPEC = """
name: job
run:
  script: train.py
  args: {lr: 0.1, model: small, fp16: true, api_key: hidden, layers: [1, 2]}
"""


def add_spec(run: str, spec: str, *settings: str) -> None:
    with Store().transaction() as db:
        row = (spec, json.dumps(settings), run)
        db.execute("UPDATE runs SET spec=?, settings=? WHERE id=?", row)


def test_arguments_are_columns() -> None:
    add_run("job-a")
    add_run("job-b")
    add_run("job-c")
    add_run("job-d")
    add_spec("job-a", SPEC)
    add_spec("job-b", SPEC, "run.args.lr=1", "run.args.seed=7")
    add_spec("job-c", "run: {command: [python3, t.py], args: [--lr, '0.5', --fp16, --seed=3, x]}")
    found = frame("job-a", "job-b", "job-c", "job-d", table="runs")
    columns = [name for name in found.columns if name.startswith("run.args.")]
    assert columns == [
        *("run.args.lr", "run.args.model", "run.args.fp16", "run.args.layers", "run.args.seed")
    ]
    assert list(found["run.args.lr"])[:3] == [0.1, 1.0, 0.5]
    assert list(found["run.args.fp16"])[:3] == [True, True, True]
    assert list(found["run.args.layers"])[:1] == ["1 2"]
    assert list(found["run.args.seed"])[1:3] == [7, 3]
    assert math.isnan(list(found["run.args.lr"])[3])
    assert "hidden" not in found.to_string()
    metrics = frame("job-b")
    assert set(metrics["run.args.lr"]) == {1}


@pytest.mark.parametrize("spec", [SPEC, "run: {args: [--lr, '0.1', --api-key, hidden]}"])
def test_a_hidden_secret_leaves_the_other_arguments(spec: str) -> None:
    """The kept job file has *** in its place, which alone would be an alias in YAML."""
    from rsctl.job.kept_text import kept_text

    kept = kept_text(spec)
    assert kept is not None
    assert "hidden" not in kept
    add_run("job-a")
    add_spec("job-a", kept)
    assert set(frame("job-a")["run.args.lr"]) == {0.1}


def test_runs_that_were_repeated_are_named(capfd: pytest.CaptureFixture[str]) -> None:
    add_bench()
    benches = Benches(Store())
    for number in range(1, 8):
        add_run(f"b-again-{number}")
        again = Trial(cell=0, repetition=0, run=f"b-again-{number}", attempt=number)
        benches.begin("b-bench-aaaaaa", again)
    export("b-bench-aaaaaa", "--table", "runs")
    out, err = capfd.readouterr()
    assert [line.partition(",")[0] for line in out.splitlines()] == ["run", "b-again-7", "b-run-1"]
    assert err == (
        "b-bench-aaaaaa: not exported, because rsctl repeated them: b-again-1, b-again-2, "
        "b-again-3, b-again-4, b-again-5 and 2 more; to export these runs, name them too\n"
    )
