"""Histories: what their lines say, what is refused, and appends that do not lose a line."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rsctl.bench.fingerprint import CellPrint, Fingerprint
from rsctl.bench.history import (
    HistoryRecord,
    RecordedCell,
    RecordedMetric,
    decode_history,
    encode_record,
    make_record,
)
from rsctl.bench.history_files import append_record, read_history
from rsctl.bench.history_series import HistorySeries, make_series, select
from rsctl.bench.results import CellRuns, Results, Series
from rsctl.findings import ExitCode, RsctlError, error

CELL = {"workers.count": 2}


def commit(number: int) -> str:
    return f"{number:040x}"


def record(
    number: int,
    values: Sequence[float] = (100.0,),
    of: str = "",
    job: str = "job",
    machine: str = "EPYC",
    metric: str = "throughput",
    cell: dict[str, Any] = CELL,
) -> HistoryRecord:
    """What one bench measured at the commit of a number, a day after the one before."""
    made = RecordedMetric(
        name=metric,
        unit="x/s",
        goal="max",
        definition={"aggregate": "median"},
        values=list(values),
    )
    fixed = {"target": "process", "machine": machine}
    return HistoryRecord(
        commit=commit(number),
        committed=f"2026-{1 + number // 28:02}-{1 + number % 28:02}T00:00:00Z",
        recorded="2026-12-01T00:00:00Z",
        job=job,
        of=of or f"bench-{number}",
        cells=[RecordedCell(cell=cell, fixed=fixed, metrics=[made])],
    )


def written(records: Sequence[HistoryRecord]) -> bytes:
    return b"".join(map(encode_record, records))


def series_of(records: Sequence[HistoryRecord]) -> list[HistorySeries]:
    return make_series(decode_history(written(records), "h"))


def values_of(series: HistorySeries) -> list[list[float]]:
    return [point.values for point in series.points]


def test_a_line_says_what_was_measured(tmp_path: Path) -> None:
    results = Results(
        label="job-bench-1",
        kind="bench",
        fingerprint=Fingerprint(
            [CellPrint(CELL, {"target": "process"})],
            {"throughput": {"aggregate": "median"}},
            {"torch": "2.8.0"},
        ),
        series=[
            Series(name="throughput", unit="x/s", goal="max", cell=CELL, values=[1.0, None, 3.0]),
            Series(name="run.queue", cell=CELL, values=[1.0]),
            Series(name="loss", cell=CELL, values=[None]),
        ],
        cells=[CellRuns(cell=CELL), CellRuns(cell={"workers.count": 4}, lost=["x failed"])],
    )
    made = make_record(results, "job", commit(7), 1_767_225_600)
    place = append_record(made, "deep/h.jsonl", str(tmp_path))
    [line] = Path(place).read_text().splitlines()
    assert {**json.loads(line), "recorded": ""} == {
        "version": 1,
        "commit": commit(7),
        "committed": "2026-01-01T00:00:00Z",
        "recorded": "",
        "job": "job",
        "of": "job-bench-1",
        "cells": [
            {
                "cell": CELL,
                "fixed": {"target": "process"},
                "metrics": [
                    {
                        "name": "throughput",
                        "unit": "x/s",
                        "goal": "max",
                        "definition": {"aggregate": "median"},
                        "values": [1.0, 3.0],
                    }
                ],
            }
        ],
        "shown": {"torch": "2.8.0"},
    }
    assert read_history("deep/h.jsonl", str(tmp_path)).records == [made]


def test_of_a_run_itself_its_time_cost_and_goodput_are_recorded() -> None:
    kept = ["run.time", "run.step", "run.cost", "run.goodput", "runs"]
    names = [*kept, "run.queue", "run.start", "run.ring"]
    series = [Series(name=name, values=[1.0]) for name in names]
    results = Results(label="b", kind="bench", series=series, cells=[CellRuns()])
    [cell] = make_record(results, "job", commit(1), 0).cells
    assert [metric.name for metric in cell.metrics] == kept


def test_without_data_nothing_is_recorded() -> None:
    lost = [CellRuns(lost=[reason]) for reason in ("b-1 failed: out of memory", "late", "late")]
    results = Results(label="b", kind="bench", cells=lost)
    with pytest.raises(
        RsctlError, match=r"b has no data to record: b-1 failed: out of memory; late$"
    ) as caught:
        make_record(results, "job", commit(1), 0)
    assert caught.value.exit_code is ExitCode.INCONCLUSIVE


def broken(change: dict[str, Any]) -> bytes:
    return json.dumps({**json.loads(encode_record(record(1))), **change}).encode()


def with_metric(change: dict[str, Any]) -> bytes:
    line = json.loads(encode_record(record(1)))
    line["cells"][0]["metrics"][0] |= change
    return json.dumps(line).encode()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "truncated"),
        (b"[]", "Expected `object`"),
        (b"\xff\xfe", "malformed"),
        (b"[" * 100_000, ""),
        (broken({"version": 2}), "its version is 2, but this rsctl reads 1"),
        (broken({"commit": "HEAD"}), "'HEAD' is not a full commit ID"),
        (broken({"commit": "--output=x"}), "is not a full commit ID"),
        (broken({"committed": "yesterday"}), "yesterday"),
        (broken({"committed": "2026-01-01T00:00:00"}), "has no time zone"),
        (broken({"job": "x" * 500}), "longer than 400"),
        (broken({"cells": 5}), "Expected `array`"),
        (with_metric({"values": ["1"]}), "Expected `float`"),
        (with_metric({"values": [1] * 10_001}), "more than 10000 values"),
        (with_metric({"goal": "up"}), "Invalid enum value"),
        (b'{"version":1,"commit":1e999}', ""),
    ],
)
def test_a_line_that_is_refused_is_named(line: bytes, why: str) -> None:
    data = encode_record(record(1)) + line + b"\n" + encode_record(record(2))
    with pytest.raises(RsctlError) as caught:
        decode_history(data, "h.jsonl")
    [finding] = caught.value.findings
    assert finding.message.startswith("h.jsonl:2 is not a valid line of a history: ")
    assert why in finding.message
    assert caught.value.exit_code is ExitCode.USAGE


def test_numbers_that_are_not_finite() -> None:
    data = encode_record(record(1)).replace(b"100.0", b"1e999") + b"\n"
    with pytest.raises(RsctlError, match="h:1"):
        decode_history(data, "h")


def test_two_entries_for_one_cell() -> None:
    twice = record(1)
    twice.cells = [*twice.cells, *twice.cells]
    with pytest.raises(RsctlError, match="two entries of throughput for one cell"):
        decode_history(encode_record(twice), "h")


def test_a_history_is_for_all_whom_the_umask_allows(tmp_path: Path) -> None:
    """As git and CI systems expect of a file that people share; an older file keeps its mode."""
    place = tmp_path / "h.jsonl"
    before = os.umask(0o020)
    try:
        append_record(record(1), str(place))
        assert place.stat().st_mode & 0o777 == 0o646
        place.chmod(0o604)
        append_record(record(2), str(place))
        assert place.stat().st_mode & 0o777 == 0o604
    finally:
        os.umask(before)


def test_the_rest_of_a_killed_writer_is_replaced(tmp_path: Path) -> None:
    place = tmp_path / "h.jsonl"
    place.write_bytes(encode_record(record(1)) + encode_record(record(2))[:40])
    assert [r.commit for r in read_history(str(place)).records] == [commit(1)]
    append_record(record(3), str(place))
    assert place.read_bytes() == encode_record(record(1)) + encode_record(record(3))


def test_a_whole_last_line_without_its_newline_counts(tmp_path: Path) -> None:
    place = tmp_path / "h.jsonl"
    place.write_bytes(encode_record(record(1)).rstrip())
    append_record(record(2), str(place))
    assert [r.commit for r in read_history(str(place)).records] == [commit(1), commit(2)]


def test_a_byte_order_mark_of_an_editor_is_skipped() -> None:
    assert len(decode_history(b"\xef\xbb\xbf" + encode_record(record(1)), "h").records) == 1


def test_the_same_record_is_not_written_again(tmp_path: Path) -> None:
    place = str(tmp_path / "h.jsonl")
    for _ in range(2):
        append_record(record(1), place)
    assert Path(place).read_bytes() == encode_record(record(1))
    append_record(record(1, [101.0, 102.0]), place)  # more runs of the same bench
    [series] = make_series(read_history(place))
    assert values_of(series) == [[101.0, 102.0]]


def test_an_invalid_history_does_not_grow(tmp_path: Path) -> None:
    place = tmp_path / "h.jsonl"
    place.write_text("hello\nworld\n")
    with pytest.raises(RsctlError, match=r"h.jsonl:1 is not a valid line"):
        append_record(record(1), str(place))
    assert place.read_text() == "hello\nworld\n"


def test_what_is_not_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    for use in (
        lambda: read_history(str(tmp_path / "pipe.jsonl")),
        lambda: append_record(record(1), str(tmp_path / "pipe.jsonl")),
    ):
        with pytest.raises(RsctlError, match="it is not a regular file"):
            use()
    place = str(tmp_path / "no such.jsonl")
    with pytest.raises(RsctlError, match="does not exist") as caught:
        read_history(place)
    assert [(finding.code, finding.remedy) for finding in caught.value.findings] == [
        (
            "no-history",
            f"create one: rsctl history add '{place}' BENCH, or rsctl gate JOB --record '{place}'",
        )
    ]
    with pytest.raises(RsctlError, match="does not exist") as caught:
        read_history("-x.jsonl")
    assert "rsctl history add ./-x.jsonl BENCH, or rsctl gate JOB --record -x.jsonl" in str(
        caught.value.findings[0].remedy
    )
    with pytest.raises(RsctlError, match="Is a directory"):
        append_record(record(1), str(tmp_path))


def _append_many(place: str, first: int) -> None:
    for number in range(first, first + 25):
        append_record(record(number), place)


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    place = str(tmp_path / "h.jsonl")
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_append_many, args=(place, 25 * n)) for n in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [w.exitcode for w in writers] == [0, 0, 0, 0]
    assert [r.commit for r in read_history(place).records] == [commit(n) for n in range(100)]


def test_commits_are_in_the_order_of_their_times() -> None:
    [series] = series_of([record(3), record(1), record(2)])
    assert [point.commit for point in series.points] == [commit(1), commit(2), commit(3)]


def test_benches_of_one_commit_are_one_point() -> None:
    [series] = series_of([record(1, [1.0, 2.0], "a"), record(1, [3.0], "b")])
    assert values_of(series) == [[1.0, 2.0, 3.0]]


def test_runs_count_once_where_successive_commits_have_the_same_bench() -> None:
    """As after changes of the documentation; a revert measures what was measured before."""
    records = [
        *(record(1, [1.0], "a"), record(2, [1.0, 3.0], "a"), record(2, [2.0], "b")),
        *(record(3, [1.0, 3.0, 5.0], "a"), record(4, [9.0], "c"), record(4, [9.0], "a", job="z")),
        *(record(5, [9.0], "c"), record(6, [1.0, 3.0, 5.0], "a")),
    ]
    series, other = series_of(records)
    assert values_of(series) == [[1.0, 3.0, 5.0], [2.0], [9.0], [1.0, 3.0, 5.0]]
    assert [point.commit for point in series.points] == [commit(n) for n in (1, 2, 4, 6)]
    assert values_of(other) == [[9.0]]


def test_few_benches_of_many_commits_have_no_steps() -> None:
    """The noise of runs, which is a step where each bench counts as a level without noise."""
    benches = [[100.0, 103.0, 97.0], [95.0, 96.0, 103.0], [104.0, 101.0, 99.0]]
    records = [record(i, benches[i // 10], f"bench-{i // 10}") for i in range(30)]
    [series] = series_of(records)
    assert (values_of(series), series.steps) == (benches, [])


def test_other_machines_are_a_series_of_their_own() -> None:
    slow = [record(n, [90.0], f"x{n}", machine="Xeon") for n in (2, 4)]
    one, other = series_of([record(1), *slow, record(3)])
    assert (one.title, values_of(one)) == (
        "throughput (workers.count=2): machine EPYC",
        [[100.0], [100.0]],
    )
    assert (other.title, values_of(other)) == (
        "throughput (workers.count=2): machine Xeon",
        [[90.0], [90.0]],
    )


def test_other_jobs_cells_and_metrics_are_series_of_their_own() -> None:
    records = [record(1), record(1, job="b"), record(2, metric="m"), record(2, of="c", cell={})]
    titles = [(s.job, s.title) for s in series_of(records)]
    assert titles == [
        ("job", "throughput (workers.count=2)"),
        ("b", "throughput (workers.count=2)"),
        ("job", "m (workers.count=2)"),
        ("job", "throughput"),
    ]


def test_a_step_names_its_commits() -> None:
    values = [100.0, 101, 99, 100, 101, 99, 100, 100, 90, 91, 89, 90, 91, 89, 90, 90]
    [series] = series_of([record(n, [v]) for n, v in enumerate(values)])
    [step] = series.steps
    assert (step.commit, step.after, step.until) == (commit(8), commit(7), commit(8))
    assert (step.size_text, step.is_worse) == ("-10 %", True)
    assert step.range == "0000000000..0000000000"
    assert [p.commit for p in series.window(3)] == [commit(13), commit(14), commit(15)]
    assert [p.commit for p in series.window(50)] == [commit(n) for n in range(8, 16)]
    assert series.levels() == [(0, 7, 100.0), (8, 15, 90.0)]
    assert series.found == "1"


@pytest.mark.parametrize(
    ("commits", "found"),
    [
        (16, "none"),
        (8, "none"),
        (7, "unknown, at least 8 commits are necessary"),
    ],
)
def test_a_history_without_steps(commits: int, found: str) -> None:
    [series] = series_of([record(number, [100.0]) for number in range(commits)])
    assert series.found == found


def test_selection() -> None:
    records = [
        record(1),
        record(1, cell={"workers.count": 4}, of="b"),
        record(1, metric="m", of="c"),
    ]
    history = decode_history(written(records), "h")
    series = make_series(history)
    assert [s.title for s in select(series, history, ["m"], [])] == ["m (workers.count=2)"]
    assert [s.cell for s in select(series, history, [], ["workers.count=4"])] == [
        {"workers.count": 4}
    ]
    for metrics, cells, message, remedy in (
        (["troughput"], [], "h has no metric 'troughput'", "did you mean throughput?"),
        (["qqq"], [], "h has no metric 'qqq'", "metrics: throughput, m"),
        (
            *([], ["workers.count=8", "b=1"], "h has no cell with workers.count=8, b=1"),
            "cells: workers.count=2; workers.count=4",
        ),
        ([], ["4"], "--cell '4' is not KEY=VALUE", "for example workers.count=4"),
        ([], ["=4"], "--cell '=4' is not KEY=VALUE", "for example workers.count=4"),
    ):
        with pytest.raises(RsctlError) as caught:
            select(series, history, metrics, cells)
        [finding] = caught.value.findings
        assert (finding.message, finding.remedy) == (message, remedy)


@pytest.mark.parametrize("value", [True, None, 1e-5, [1, 2], "x", ""])
def test_a_cell_is_selected_by_what_its_title_shows(value: Any) -> None:
    history = decode_history(encode_record(record(1, cell={"run.args.x": value})), "h")
    [series] = make_series(history)
    assert select([series], history, [], [series.where]) == [series]


def test_the_metrics_of_the_run_itself_are_selected_where_a_job_has_none() -> None:
    for names in (["run.time"], ["run.time", "loss"]):
        records = [record(1, metric=name, of=name) for name in names]
        history = decode_history(written(records), "h")
        assert [s.metric for s in select(make_series(history), history, [], [])] == names[-1:]
    nothing = decode_history(b"", "h")
    assert select([], nothing, [], ["a=1"]) == []
    with pytest.raises(RsctlError) as caught:
        select([], nothing, ["loss"], [])
    assert caught.value.findings[0].remedy == "metrics: none"


def test_a_history_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode_record(record(1))
    monkeypatch.setattr("rsctl.bench.history_files.LARGEST", 1 << 20)
    place = tmp_path / "h.jsonl"
    place.write_bytes(data.ljust((1 << 20) - 1, b" ") + b"\n")
    assert [r.commit for r in read_history(str(place)).records] == [commit(1)]
    with open(place, "ab") as file:
        file.write(b"\n")
    for use in (
        lambda: read_history(str(place)),
        lambda: append_record(record(2), str(place)),
    ):
        with pytest.raises(RsctlError) as caught:
            use()
        assert caught.value.exit_code is ExitCode.USAGE
        assert caught.value.findings == (
            error("history", f"{place} is larger than 1 MiB", "start a new file"),
        )
    assert place.stat().st_size == (1 << 20) + 1
