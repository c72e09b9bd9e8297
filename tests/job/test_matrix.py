"""The cells of a matrix."""

from __future__ import annotations

from typing import Any

import pytest

from rsctl.job import document
from rsctl.job.matrix import cells, plain

HEAD = "name: j\nrun: {module: x}\n"


def cells_of(read_text: Any, matrix: str) -> list[dict[str, Any]]:
    """The cells as plain values."""
    document = read_text(HEAD + matrix)
    assert not document.has_errors
    return [{name: plain(node) for name, node in cell.items()} for cell in cells(document.root)]


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [
        ("", []),
        ("matrix:\n", []),
        ("matrix: {}\n", []),
        ("matrix: {workers.count: [2, 4]}\n", [{"workers.count": 2}, {"workers.count": 4}]),
        (
            "matrix: {workers.count: [2, 4], comm.backend: [nccl, gloo], "
            "exclude: [{workers.count: 2, comm.backend: nccl}]}\n",
            [
                {"workers.count": 2, "comm.backend": "gloo"},
                {"workers.count": 4, "comm.backend": "nccl"},
                {"workers.count": 4, "comm.backend": "gloo"},
            ],
        ),
        (
            "matrix: {workers.count: [2, 4], exclude: [{workers.count: 2}, {workers.count: 4}], "
            "include: [{workers.count: 8, limits.spot: true}]}\n",
            [{"workers.count": 8, "limits.spot": True}],
        ),
        ("matrix: {include: [{workers.count: 3}]}\n", [{"workers.count": 3}]),
        (
            "matrix: {workers.machine: [{vertex: a}, small]}\n",
            [{"workers.machine": {"vertex": "a"}}, {"workers.machine": "small"}],
        ),
    ],
)
def test_cells(read_text: Any, matrix: str, expected: list[dict[str, Any]]) -> None:
    assert cells_of(read_text, matrix) == expected


@pytest.mark.parametrize(
    ("matrix", "key", "message"),
    [
        ("{run.args.w: [1, 1]}", "matrix.run.args.w[1]", "run.args.w has the number 1 twice"),
        (
            "{run.args.w: [1, 2, 1.0]}",
            "matrix.run.args.w[2]",
            "run.args.w has the number 1.0 twice",
        ),
        ("{run.args.w: [true, 1]}", "matrix.run.args.w[1]", "run.args.w has the number 1 twice"),
        (
            "{workers.count: [2, 4], include: [{workers.count: 4}]}",
            "matrix",
            "the matrix has this cell twice",
        ),
        (
            "{include: [{workers.count: 4, limits.spot: true}, "
            "{limits.spot: true, workers.count: 4}]}",
            "matrix",
            "the matrix has this cell twice",
        ),
    ],
)
def test_equal_cells(read_text: Any, matrix: str, key: str, message: str) -> None:
    findings = [f for f in read_text(HEAD + f"matrix: {matrix}\n").findings if f.is_error]
    assert [(f.path, f.message) for f in findings] == [(key, message)]


def test_an_excluded_cell_may_be_included_again(read_text: Any) -> None:
    text = (
        "matrix: {workers.count: [2, 4], exclude: [{workers.count: 4}], "
        "include: [{workers.count: 4}]}\n"
    )
    assert cells_of(read_text, text) == [{"workers.count": 2}, {"workers.count": 4}]


def test_a_thousand_cells_and_no_more(read_text: Any) -> None:
    numbers = ", ".join(str(n + 1) for n in range(1000))
    assert len(cells_of(read_text, f"matrix: {{workers.count: [{numbers}]}}\n")) == 1000
    document = read_text(HEAD + f"matrix: {{workers.count: [{numbers}], limits.retries: [1, 2]}}\n")
    assert cells(document.root) == []
    assert document.has_errors


def test_workers_that_are_varied_may_need_reducers(read_text: Any) -> None:
    text = HEAD + "reducers: {count: 2}\nmatrix: {workers.count: [2, 4]}\n"
    assert read_text(text).findings == []


@pytest.mark.parametrize(
    ("settings", "counts"),
    [
        ([], [2, 4]),
        (["workers.count=8"], [8]),
        (["workers.count=[1, 2, 3]"], [1, 2, 3]),
        (["matrix.workers.count=[5]"], [5]),
    ],
)
def test_a_setting_of_a_key_that_is_varied_sets_its_values(
    read_text: Any, settings: list[str], counts: list[int]
) -> None:
    """It would not count if it set the job's own value."""
    read = read_text(HEAD + "matrix: {workers.count: [2, 4]}\n", *settings)
    jobs = [one.require_job() for _, one in document.cells_of(read)]
    assert [job.workers.count for job in jobs] == counts
    assert [job.matrix for job in jobs] == [{}] * len(jobs)


@pytest.mark.parametrize("matrix", ["", "matrix: {}\n", "matrix:\n"])
def test_a_job_without_a_matrix_is_one_cell(read_text: Any, matrix: str) -> None:
    """Without values."""
    read = read_text(HEAD + matrix)
    assert [values for values, _ in document.cells_of(read)] == [{}]
