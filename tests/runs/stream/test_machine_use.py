"""What machines do right now, in one line."""

from __future__ import annotations

from rsctl.runs.stream.events import LogEvent, MetricEvent
from rsctl.runs.stream.machine_use import MachineUse


def at(second: float) -> str:
    return f"2026-01-31T12:00:{second:09.6f}Z"


def reading(name: str, value: float, second: float = 1, replica: str = "worker-0") -> MetricEvent:
    return MetricEvent(time=at(second), replica=replica, name=f"node.{name}", value=value)


def shown(*events: MetricEvent | LogEvent) -> str:
    use = MachineUse()
    use.add(events)
    return use.format()


def test_nothing_is_known_at_first_nor_of_reducers_and_other_metrics() -> None:
    log = LogEvent(at(1), "worker-0", "0", "stdout", "x")
    others = [reading("rss_bytes", 1.0), reading("cpu_percent", 50, replica="reducer-0")]
    assert shown() == shown(log) == shown(*others) == ""


def test_the_last_reading_of_each_machine_counts() -> None:
    assert shown(reading("cpu_percent", 100), reading("cpu_percent", 380)) == "CPU 3.8 cores"
    both = shown(reading("cpu_percent", 100), reading("cpu_percent", 300, replica="worker-1"))
    assert both == "CPU 2 cores  (mean of 2 workers)"


def test_gpus_of_all_machines() -> None:
    events = [
        reading("gpu0.util_percent", 90),
        reading("gpu1.util_percent", 100),
        reading("gpu0.memory_bytes", 60e9),
        reading("gpu0.memory_total_bytes", 80e9),
    ]
    assert shown(*events) == "GPU 95 %, 60 GB of 80 GB"
    assert shown(*events[:3]) == "GPU 95 %"
    assert shown(*events[2:]) == "GPU 60 GB of 80 GB"


def network(*seconds_and_bytes: tuple[float, float]) -> list[MetricEvent]:
    return [
        reading(f"net_{way}_bytes", factor * count, second)
        for second, count in seconds_and_bytes
        for way, factor in (("tx", 1), ("rx", 2))
    ]


def test_bytes_a_second_are_those_between_the_last_two_readings() -> None:
    assert shown(*network((1, 0))) == ""
    assert shown(*network((1, 0), (3, 2e9))) == "network 1 GB/s out, 2 GB/s in"
    assert shown(*network((1, 0), (3, 2e9), (4, 5e9))) == "network 3 GB/s out, 6 GB/s in"
    stale = shown(*network((1, 0), (3, 2e9), (4, 1e9)))  # the counter began again
    assert stale == "network 1 GB/s out, 2 GB/s in"
    assert shown(*network((3, 0), (3, 2e9))) == ""  # at once
    assert shown(*network((3, 5), (4, 5))) == "network 0 B/s out, 0 B/s in"
    damaged = [reading("net_tx_bytes", 1.0), *network((3, 1e9))]
    broken = [
        MetricEvent(time="?", replica="worker-0", name=e.name, value=0.0) for e in damaged[:1]
    ]
    assert shown(*broken, *network((3, 1e9))) == ""
