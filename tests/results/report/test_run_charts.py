"""The charts of one run as data: what a node, a GPU or a cloud measures, in which unit."""

from __future__ import annotations

import pytest

from rsctl.findings import JobState
from rsctl.results.report.charts import (
    Bar,
    BarChart,
    ChartLine,
    ChartMark,
    HeatMap,
    LineChart,
    Point,
    Span,
    TimelineRow,
)
from rsctl.results.report.data import RunData, collect
from rsctl.results.report.exchange_charts import gradient_charts, straggler_charts
from rsctl.results.report.gpu_charts import gpu_charts
from rsctl.results.report.run_charts import (
    byte_unit,
    cloud_charts,
    machine_charts,
    metric_charts,
    timeline,
)
from tests.cli.conftest import MadeRun
from tests.results.report.conftest import Make


def data_of(made: MadeRun) -> RunData:
    run = made.store.get(made.run)
    assert run is not None
    return collect(made.store, run, {})


def log(made: MadeRun, name: str, replica: str, *values: tuple[float, float]) -> None:
    made.metrics((second, name, value, {"replica": replica}) for second, value in values)


SINCE = "time since the submission"


def over_time(title: str, axis: str, *lines: tuple[str, list[Point]], note: str = "") -> LineChart:
    found = [ChartLine(*line) for line in lines]
    return LineChart(title, f"{SINCE} (s)", axis, found, from_zero=True, note=note)


@pytest.mark.parametrize(
    ("most", "unit"),
    [
        (0, (1.0, "B")), (999, (1.0, "B")), (1e3, (1e3, "kB")), (999e3, (1e3, "kB")),
        (1e6, (1e6, "MB")), (1e9, (1e9, "GB")), (999e9, (1e9, "GB")), (1e12, (1e12, "TB")),
    ],
)  # fmt: skip
def test_the_unit_of_bytes(most: float, unit: tuple[float, str]) -> None:
    assert byte_unit(most) == unit


def test_what_the_nodes_measure(make_run: Make) -> None:
    made = make_run()
    log(made, "node.net_tx_bytes", "worker-0", (5, 1e6), (10, 3e6), (15, 5e5), (15, 6e5), (20, 6e5))
    log(made, "node.net_rx_bytes", "worker-1", (5, 1.0), (10, 51.0))
    log(made, "node.rss_bytes", "worker-0", (5, 2e9), (6, 5e8))
    log(made, "node.rss_bytes", "worker-1", (7, 1e9))
    log(made, "node.cpu_percent", "worker-1", (5, 150.0))
    rate = "Mean rate between two readings of the interface's counter."
    assert list(machine_charts(data_of(made))) == [
        over_time("CPU", "% of one core", ("worker-1", [(5.0, 150.0)])),
        over_time(
            "Memory", "GB", ("worker-0", [(5.0, 2.0), (6.0, 0.5)]), ("worker-1", [(7.0, 1.0)]),
            note="Resident memory of the job's processes; "
            "shared memory counts once for each process.",
        ),
        # a counter that begins anew, and two readings of one moment, have no rate
        over_time("Network, sent", "kB/s", ("worker-0", [(10.0, 400.0), (20.0, 0.0)]), note=rate),
        over_time("Network, received", "B/s", ("worker-1", [(10.0, 10.0)]), note=rate),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "title", "axis", "shown"),
    [
        ("cpu.utilization", "CPU", "%", 50.0),
        ("memory.percent", "Memory", "%", 0.5),
        ("disk_percent", "Disk", "%", 0.5),
        ("gpu.utilization", "GPU in use", "%", 50.0),
        ("gpu.memory.percent", "GPU memory", "%", 0.5),
        ("network.received_bytes_per_s", "Network received", "B/s", 0.5),
        ("network.sent.bytes_per_s", "Network sent", "B/s", 0.5),
        ("cache.bytes", "cache", "B", 0.5),
        ("queue_length", "queue length", "queue_length", 0.5),
    ],
)
def test_what_a_cloud_measures(
    make_run: Make, name: str, title: str, axis: str, shown: float
) -> None:
    made = make_run()
    log(made, f"cloud.{name}", "worker-0", (5, 0.5))
    chart = over_time(f"{title}, reported by the cloud", axis, ("worker-0", [(5.0, shown)]))
    assert list(cloud_charts(data_of(made))) == [chart]


def test_the_states_of_a_run_until_its_end(make_run: Make) -> None:
    """Of each replica stretches of one state, and moments."""
    made = make_run()
    made.state(2, JobState.STARTING, replica="worker-0")
    made.state(4, JobState.RUNNING, replica="worker-0")
    made.state(5, JobState.RUNNING, replica="worker-0")
    log(made, "loss", "worker-0", (6, 1.0), (7, 1.0))
    log(made, "speed", "worker-0", (5.5, 1.0))
    made.state(8, JobState.FAILED, replica="worker-0", exit_code=1)
    made.state(9, JobState.FAILED, exit_code=1)
    assert timeline(data_of(made)).rows == [
        TimelineRow(
            "the job", [Span(0.0, 1.0, "queued"), Span(1.0, 9.0, "running")],
            [ChartMark(9.0, "failed")],
        ),
        TimelineRow(
            "worker-0", [Span(2.0, 4.0, "starting"), Span(4.0, 8.0, "running")],
            [ChartMark(5.5, "first metric"), ChartMark(8.0, "failed")],
        ),
    ]  # fmt: skip


def test_a_run_has_charts_of_twelve_metrics(make_run: Make) -> None:
    made = make_run()
    for number in range(13):
        log(made, f"m{number:02}", "worker-0", (5, 1.0))
    log(made, "loss", "worker-0", (55, 1.0))
    made.metric(5, "loss", 3.0, step=2)
    first, second, *others = metric_charts(data_of(made))
    assert first == LineChart("loss over steps", "step", "loss (nats)", [
        ChartLine("worker-0", [(2.0, 3.0)])
    ])  # fmt: skip
    assert second == LineChart("loss over time", f"{SINCE} (s)", "loss (nats)", [
        ChartLine("worker-0", [(5.0, 3.0), (55.0, 1.0)])
    ])  # fmt: skip
    names = [f"m{n:02}" for n in range(11)]
    assert [chart.title for chart in others] == [f"{name} over time" for name in names]
    assert [getattr(chart, "y", None) for chart in others] == names  # which have no unit


def with_gpus(make_run: Make, nodes: int, gpus: int) -> RunData:
    """Each node has GPUs whose use and memory tell them apart."""
    made = make_run(workers=nodes)
    for node, replica in enumerate(made.replicas):
        for gpu in range(gpus):
            log(made, f"node.gpu{gpu}.util_percent", replica, (5, 10.0 * node + gpu), (6, 99.26))
            log(made, f"node.gpu{gpu}.memory_bytes", replica, (5, 1e9 * (gpu + 1)))
            log(made, f"node.gpu{gpu}.memory_total_bytes", replica, (5, 8e10))
    return data_of(made)


@pytest.mark.parametrize(
    ("nodes", "gpus", "charts"),
    [
        (1, 9, {"": [f"worker-0 GPU {n}" for n in range(9)]}),
        (2, 4, {"": [f"worker-{n} GPU {g}" for n in range(2) for g in range(4)]}),
        (4, 3, {f", worker-{n}": ["GPU 0", "GPU 1", "GPU 2"] for n in range(4)}),
        (5, 2, {"": [f"worker-{n} GPU {g}" for n in range(5) for g in range(2)]}),
        (9, 1, {"": [f"worker-{n}" for n in range(9)]}),
    ],
)
def test_the_charts_of_gpus(
    make_run: Make, nodes: int, gpus: int, charts: dict[str, list[str]]
) -> None:
    """Of many nodes with too many GPUs for lines there is a heat map, too."""
    found = list(gpu_charts(with_gpus(make_run, nodes, gpus)))
    lines = [chart for chart in found if isinstance(chart, LineChart)]
    assert {chart.title: chart.labels for chart in lines} == {
        f"GPU {what}{where}": labels for what in ("in use", "memory") for where, labels in
        charts.items()
    }  # fmt: skip
    assert {(chart.y, chart.from_zero) for chart in lines} == {
        ("% of the time", True),
        ("GB", True),
    }
    heat = HeatMap(
        title="GPU in use, on average", unit="%", row_key="node",
        rows=[f"worker-{n}" for n in range(nodes)],
        column_key="GPU", columns=[str(gpu) for gpu in range(gpus)],
        values=[[round((10.0 * n + g + 99.26) / 2, 1) for g in range(gpus)] for n in range(nodes)],
        note="% of the time, mean of all readings; brighter is more.",
    )  # fmt: skip
    assert found[len(lines) :] == ([heat] if nodes > 4 else [])


@pytest.mark.parametrize(
    ("used", "totals", "reference"),
    [
        (2e9, [8e10, 8e10], [(5.0, 80.0), (6.0, 80.0)]),
        (2e9, [2e9, 2e9], [(5.0, 2.0), (6.0, 2.0)]),
        (2e9, [1.9e9, 1.9e9], None),
        (2e9, [8e10, 4e10], None),
        (2e9, [1e15, 1e15], None),
        (2e9, [], None),
    ],
)
def test_the_memory_of_gpus_that_are_alike_is_beside_what_they_use(
    make_run: Make, used: float, totals: list[float], reference: list[Point] | None
) -> None:
    made = make_run()
    log(made, "node.gpu0.memory_bytes", "worker-0", (5, used), (6, used))
    for replica, total in zip(made.replicas, totals, strict=False):
        log(made, "node.gpu0.memory_total_bytes", replica, (5, total))
    [chart] = gpu_charts(data_of(made))
    assert isinstance(chart, LineChart)
    expected = ChartLine("memory of a GPU", reference) if reference else None
    assert chart.reference == expected


def test_whom_the_others_wait_for(make_run: Make) -> None:
    made = make_run(workers=3)
    for replica, ms in (("reducer-0", 12.0), ("reducer-1", 15.0), ("reducer-2", 11.0)):
        log(made, "node.reducer.late.2.mean_ms", replica, (5, 99.0), (6, ms))
    log(made, "node.reducer.late.0.mean_ms", "reducer-0", (6, 1.0))
    for step in range(3):
        for late, replica in enumerate(made.replicas):
            made.metric(5 + step + late * step / 4, "loss", 1.0, step=step, replica=replica)
    assert list(straggler_charts(data_of(made))) == [
        BarChart(
            "How long reducers wait for each rank",
            "ms per block on average, after the first",
            [Bar("rank 0", 1.0), Bar("rank 2", 15.0)],
        ),
        BarChart(
            "How far each replica is behind the first at the same step",
            "s, median over steps",
            [Bar("worker-0", 0.0), Bar("worker-1", 0.25), Bar("worker-2", 0.5)],
            "Calculated from the times at which lines of the same step were logged; between "
            "machines this includes the difference of their clocks.",
        ),
    ]


@pytest.mark.parametrize("ranks", [20, 21])
def test_of_many_delays_the_twenty_longest_are_drawn(make_run: Make, ranks: int) -> None:
    made = make_run()
    for rank in range(ranks):
        log(made, f"node.reducer.late.{rank}.mean_ms", "reducer-0", (6, 100.0 + rank % 2 - rank))
    [chart] = straggler_charts(data_of(made))
    assert isinstance(chart, BarChart)
    shown = [int(bar.label.removeprefix("rank ")) for bar in chart.bars]
    if ranks == 20:
        assert (shown, chart.note) == ([*range(20)], "")
    else:
        assert len(shown) == 20
        assert 20 not in shown
        assert [bar.value for bar in chart.bars] == sorted(
            (bar.value or 0.0 for bar in chart.bars), reverse=True
        )
        assert chart.note == "The 20 longest of 21."


def test_what_workers_and_reducers_exchange(make_run: Make) -> None:
    """Totals are the last reading; a rate has a line if one replica has two readings."""
    made = make_run()
    for replica, last in (("worker-0", 2e9), ("worker-1", 1e9)):
        log(made, "node.transport.sent_bytes", replica, (5, 9e9), (6, last))
        log(made, "node.transport.stalled_seconds", replica, (6, 0.0))
    log(made, "node.reducer.bytes_out", "reducer-0", (6, 3e9))
    log(made, "node.transport.busy_seconds", "worker-1", (5, 9.0), (6, 0.5))
    log(made, "node.transport.gbit_per_second", "worker-0", (5, 9.0))
    log(made, "node.reducer.gbps_in", "reducer-0", (5, 9.0), (6, 8.0))
    assert list(gradient_charts(data_of(made))) == [
        BarChart(
            "Gradient bytes sent",
            "GB in all",
            [Bar("worker-0", 2.0), Bar("worker-1", 1.0), Bar("reducer-0", 3.0)],
        ),
        BarChart("Time of gradients on each worker", "s", [Bar("worker-1", 0.5)]),
        over_time("Reducers: received", "Gbit/s", ("reducer-0", [(5.0, 9.0), (6.0, 8.0)])),
    ]
