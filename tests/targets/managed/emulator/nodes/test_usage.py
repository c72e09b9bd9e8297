"""What `docker stats` prints of a container."""

from __future__ import annotations

import pytest

from rsctl.targets.managed.emulator.nodes.usage import parse_stats

LINE = (
    '{"BlockIO":"0B / 0B","CPUPerc":"101.50%","Container":"c","ID":"4179b2a9f988",'
    '"MemPerc":"0.00%","MemUsage":"1.5MiB / 23.54GiB","Name":"c","NetIO":"1.2kB / 486B","PIDs":"1"}'
)


def test_a_line_of_docker_stats() -> None:
    assert parse_stats(LINE) == {
        "cpu_percent": 101.5,
        "rss_bytes": 1_572_864,
        "net_rx_bytes": 1200,
        "net_tx_bytes": 486,
    }


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"CPUPerc": "--"}', "no such container"])
def test_what_is_no_line_of_it(text: str) -> None:
    assert parse_stats(text) == {}
