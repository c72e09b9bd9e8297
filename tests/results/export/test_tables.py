"""The columns of tables: types, casts, units, arguments, and a bench's own."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from rsctl.bench.records import BenchRecord, Trial
from rsctl.findings import JobState
from rsctl.results.export import formats
from rsctl.results.export.arguments import arguments_of
from rsctl.results.export.columns import Column, cast, column_type
from rsctl.results.export.formats import arrow_table, write_csv, write_json
from rsctl.results.export.tables import (
    TABLES,
    ExportSource,
    Table,
    make_table,
    sources_of,
    telemetry_unit,
)
from rsctl.runs.store import RunRecord, Store

from .test_export import add_run, add_spec


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([True, None], "boolean"),
        ([1, 2, None], "integer"),
        ([2**63 - 1, -(2**63)], "integer"),
        ([2**63], "float"),
        ([1, 2.5], "float"),
        ([1, True], "text"),
        (["a", 1], "text"),
        ([[1]], "text"),
        ([None], "text"),
        ([], "text"),
    ],
)
def test_the_type_that_all_values_have(values: list[Any], kind: str) -> None:
    assert column_type(values) == kind


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (None, "float", None),
        (1, "float", 1.0),
        (1, "integer", 1),
        (True, "boolean", True),
        ("a", "text", "a"),
        (1, "text", "1"),
        ([1, "a"], "text", '[1,"a"]'),
        ("2026", "time", "2026"),
    ],
)
def test_a_value_as_its_column_has_it(value: Any, kind: Any, expected: Any) -> None:
    found = cast(value, kind)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("node.rss_bytes", "B"),
        ("node.cpu_percent", "%"),
        ("node.gpu0.util_percent", "%"),
        ("node.step_seconds", "s"),
        ("node.rtt_ms", "ms"),
        ("node.gbit_per_second", "Gbit/s"),
        ("node.threads", None),
        ("node_bytes.threads", None),
    ],
)
def test_the_unit_of_a_node_s_measurement(name: str, unit: str | None) -> None:
    assert telemetry_unit(name) == unit


def arguments(spec: str, settings: tuple[str, ...] = (), **cell: Any) -> dict[str, Any]:
    run = RunRecord(
        **{"run": "j", "name": "j", "target": "process", "url": "u", "state": JobState.SUCCEEDED},
        **{"created": "x", "spec": spec, "settings": list(settings)},
    )
    found = arguments_of(run, {f"run.args.{name}": value for name, value in cell.items()})
    return {name.removeprefix("run.args."): value for name, value in found.items()}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("run: {args: {lr: 0.1, on: true, name: a, l: [1, b], m: {x: 1}}}", {
            "lr": 0.1, "on": True, "name": "a", "l": "1 b"}),
        ("run: {args: [--lr, '0.1', --fp16, --seed=3, --last]}", {
            "lr": 0.1, "fp16": True, "seed": 3, "last": True}),
        ("run: {args: [x, --a, b, c, -d, --, --e=]}", {"a": "b", "e": None}),
        ("run: {args: {api_key: a, lr: 1}}", {"lr": 1}),
        ("run: {args: text}", {}),
        ("run: {args: []}", {}),
        ("run: {}", {}),
        ("[]", {}),
        ("run: {args: [", {}),
        ("", {}),
    ],
)  # fmt: skip
def test_the_arguments_of_a_script(spec: str, expected: dict[str, Any]) -> None:
    found = arguments(spec)
    assert {name: value for name, value in found.items() if value not in (None, "")} == {
        name: value for name, value in expected.items() if value is not None
    }


def test_settings_and_the_cell_count_more_than_the_file() -> None:
    spec = "run: {args: {lr: 0.1, seed: 1, n: 1}}"
    assert arguments(spec, ("run.args.lr=0.2", "run.args.seed=2"), lr=0.3) == {
        **{"lr": 0.3, "seed": 2, "n": 1},
    }
    assert arguments(spec, (), api_key="x") == {"lr": 0.1, "seed": 1, "n": 1}


def test_a_bench_s_runs_have_their_cell_and_repetition() -> None:
    for run in ("job-a", "job-b"):
        add_run(run)
    store = Store()
    bench = BenchRecord(
        **{"bench": "b-1", "name": "b", "target": "process", "definition": "d", "created": "x"},
        cells=[{"workers.count": 1, "comm": "a"}, {"workers.count": 2.5, "comm": None}],
        trials=[
            Trial(cell=1, repetition=0, run="job-b"),
            Trial(cell=0, repetition=1, run="job-a"),
            Trial(cell=0, repetition=0, run="gone-1"),
        ],
    )
    sources = sources_of(store, bench)
    assert [(s.run.run, s.bench, s.repetition) for s in sources] == [
        *(("job-a", "b-1", 1), ("job-b", "b-1", 0)),
    ]
    table = make_table("runs", store, sources)
    assert table.columns[:5] == [
        Column("run", "text"),
        Column("bench", "text"),
        Column("repetition", "integer"),
        Column("cell.workers.count", "float"),
        Column("cell.comm", "text"),
    ]
    rows = [dict(zip((c.name for c in table.columns), row, strict=True)) for row in table.rows()]
    assert [(row["run"], row["cell.workers.count"], row["cell.comm"]) for row in rows] == [
        *(("job-a", 1.0, "a"), ("job-b", 2.5, None)),
    ]
    assert rows[0]["duration_s"] == 20.0
    assert (rows[0]["workers"], rows[0]["reducers"], rows[0]["world_size"]) == (2, 0, 2)
    assert (rows[0]["state"], rows[0]["exit_code"]) == ("succeeded", 0)
    assert (rows[0]["settings"], rows[0]["cost_usd"]) == ('["workers.count=2"]', None)
    assert [
        c.name for c in make_table("runs", store, [ExportSource(s.run) for s in sources]).columns
    ][:2] == ["run", "name"]


def test_telemetry_and_metrics_are_apart() -> None:
    add_run("job-a")
    store = Store()
    [source] = sources_of(store, store.find("job-a"))
    names = {
        table: [row[3] for row in make_table(table, store, [source]).rows()]
        for table in ("metrics", "telemetry")
    }
    assert set(names["metrics"]) == {"throughput", "loss"}
    assert set(names["telemetry"]) == {"node.rss_bytes"}
    figures = {row[1]: row for row in make_table("samples", store, [source]).rows()}
    assert figures["throughput"][2:5] == [100.0, "samples/s", "max"]
    assert figures["throughput"][-1] == "succeeded"
    for name in TABLES:
        table = make_table(name, store, [source])
        assert all(len(row) == len(table.columns) for row in table.rows())


def test_at_most_two_hundred_arguments_have_columns() -> None:
    add_run("job-a")
    spec = json.dumps({"run": {"args": {f"a{number}": number for number in range(250)}}})
    add_spec("job-a", spec)
    store = Store()
    table = make_table("runs", store, sources_of(store, store.find("job-a")))
    assert len([c for c in table.columns if c.name.startswith("run.args.")]) == 200


def of(*rows: list[Any], columns: tuple[Column, ...] = ()) -> Table:
    columns = columns or (Column("n", "integer"), Column("=x", "text"))
    return Table("runs", list(columns), lambda: iter(rows))


def test_csv_and_json_of_the_same_rows() -> None:
    rows = [[1, "=1+1"], [None, "a\nb"], [-3, "plain"]]
    file = io.BytesIO()
    write_csv(of(*rows), file)
    found = list(csv.reader(io.StringIO(file.getvalue().decode(), newline="")))
    assert found == [["n", "'=x"], ["1", "'=1+1"], ["", "a b"], ["-3", "plain"]]
    file = io.BytesIO()
    write_json([of(*rows), of()], file)
    document = json.loads(file.getvalue().decode().replace('"runs"', '"first"', 1))
    assert document["first"]["rows"][0] == {"n": 1, "=x": "=1+1"}
    assert document["runs"]["rows"] == []
    assert document["runs"]["columns"][0] == {"name": "n", "type": "integer", "unit": None}


def test_tables_of_many_blocks_and_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "_ROWS_AT_ONCE", 2)
    columns = (Column("t", "time"), Column("v", "float", "s"), Column("x", "text"))
    time = "2026-01-31T12:00:00.000000Z"
    rows = [[time, 1.5, "a"], ["broken", None, "\ud800"], [None, 2.5, None]]
    table = arrow_table(of(*rows, columns=columns))
    assert table.num_rows == 3
    assert table.column("v").to_pylist() == [1.5, None, 2.5]
    assert table.column("x").to_pylist() == ["a", "?", None]
    assert [t and t.isoformat() for t in table.column("t").to_pylist()] == [
        *("2026-01-31T12:00:00+00:00", None, None),
    ]
    assert table.schema.field("v").metadata == {b"unit": b"s"}
    assert table.schema.field("x").metadata is None
    assert arrow_table(of(columns=columns)).num_rows == 0
