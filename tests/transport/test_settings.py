"""Settings from the environment; what is wrong is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rsctl.transport import TransportError, WorkerSettings
from rsctl.transport.settings import format_address

_ENVIRON = {
    "RSCTL_REDUCERS": "10.0.0.5:29600, reducer-1,[fd00::1]:7",
    "RSCTL_TOKEN": "0123456789abcdef",
    "RSCTL_RUN": "bert-1",
    "RANK": "1",
    "WORLD_SIZE": "4",
}


def test_a_worker_reads_its_place() -> None:
    settings = WorkerSettings.from_env(_ENVIRON | {"TORCHELASTIC_RESTART_COUNT": "2"})
    assert settings == WorkerSettings(
        run="bert-1",
        token=b"0123456789abcdef",
        rank=1,
        world=4,
        reducers=(("10.0.0.5", 29600), ("reducer-1", 29600), ("fd00::1", 7)),
        epoch=2,
    )
    assert [format_address(address) for address in settings.reducers] == [
        "10.0.0.5:29600",
        "reducer-1:29600",
        "[fd00::1]:7",
    ]


def test_each_variable_is_a_setting() -> None:
    more = {
        "RSCTL_EPOCH": "5",
        "TORCHELASTIC_RESTART_COUNT": "2",
        "RSCTL_PEERS": "a:1,b:2",
        "RSCTL_TRANSPORT_BIND": "10.0.0.1",
        "RSCTL_NET_BANDWIDTH": "1e9",
        "RSCTL_TRANSPORT_MTU": "9000",
        "RSCTL_TRANSPORT_FRAME": "8192",
        "RSCTL_TRANSPORT_WINDOW": "3",
        "RSCTL_TRANSPORT_FLOWS": "64",
        "RSCTL_TRANSPORT_SILENCE": "0.5",
        "RSCTL_TRANSPORT_TIMEOUT": "60",
        "RSCTL_TRANSPORT_PATIENCE": "0",
        "RSCTL_TRANSPORT_CORE": "off",
        "RSCTL_TRANSPORT_CONGESTION": "reno",
    }
    known = WorkerSettings.from_env(_ENVIRON)
    assert WorkerSettings.from_env(_ENVIRON | more) == replace(
        known,
        epoch=5,
        peers=(("a", 1), ("b", 2)),
        bind="10.0.0.1",
        bandwidth=1e9,
        mtu=9000,
        frame=8192,
        window=3,
        flows=64,
        silence=0.5,
        timeout=60,
        patience=0,
        core=False,
        congestion="reno",
    )
    assert WorkerSettings.from_env(_ENVIRON | dict.fromkeys(more, "")) == known


@pytest.mark.parametrize(
    ("variable", "lowest", "too_low", "highest", "too_high"),
    [
        ("RANK", "0", "-1", "3", "4"),
        ("WORLD_SIZE", "2", "1", None, None),  # of rank 1
        ("RSCTL_EPOCH", "0", "-1", "4294967295", "4294967296"),
        ("RSCTL_NET_BANDWIDTH", "0", "-1", None, "inf"),
        ("RSCTL_TRANSPORT_MTU", "576", "575", None, "inf"),
        ("RSCTL_TRANSPORT_FRAME", "4096", "4095", "1048576", "1048577"),
        ("RSCTL_TRANSPORT_WINDOW", "1", "0", "1024", "1025"),
        ("RSCTL_TRANSPORT_FLOWS", "1", "0", "64", "65"),
        ("RSCTL_TRANSPORT_SILENCE", "0.1", "0.09", None, "inf"),
        ("RSCTL_TRANSPORT_TIMEOUT", "0.1", "0.09", None, "inf"),
        ("RSCTL_TRANSPORT_PATIENCE", "0", "-0.1", None, "nan"),
    ],
)
def test_numbers_at_their_limits(
    variable: str, lowest: str, too_low: str, highest: str | None, too_high: str | None
) -> None:
    for text in filter(None, (lowest, highest)):
        WorkerSettings.from_env(_ENVIRON | {variable: text})
    for text in filter(None, (too_low, too_high)):
        with pytest.raises(TransportError, match=r"must be a number of at"):
            WorkerSettings.from_env(_ENVIRON | {variable: text})


@pytest.mark.parametrize("text", ["", "0", "false", "OFF", " no "])
def test_tls_that_is_not_wanted(text: str) -> None:
    assert WorkerSettings.from_env(_ENVIRON | {"RSCTL_TRANSPORT_TLS": text}).tls is None


@pytest.mark.parametrize(
    ("reducers", "parts"),
    [("1e9,2e9,5e8", [1, 2, 0.5]), ("2e9", [2, 2, 2]), ("", [1, 1, 1]), ("2e9,0,0", [2, 1, 1])],
)
def test_bandwidths_give_the_links(reducers: str, parts: list[float]) -> None:
    given = {"RSCTL_NET_BANDWIDTH": "1e9", "RSCTL_REDUCER_BANDWIDTH": reducers}
    links = WorkerSettings.from_env(_ENVIRON | given).links
    assert [round(bandwidth / links.worker, 6) for bandwidth in links.reducers] == parts


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"RSCTL_TOKEN": ""}, "RSCTL_TOKEN must be a secret of at least 16 bytes"),
        (
            {"RSCTL_RUN": "x" * 128},
            f"RSCTL_RUN must be a run ID of 1 to 127 bytes, not {'x' * 128!r}",
        ),
        ({"RANK": "4"}, "RANK must be a number of at least 0 and at most 3, not '4'"),
        ({"WORLD_SIZE": "many"}, "WORLD_SIZE must be a number of at least 1, not 'many'"),
        ({"RSCTL_REDUCERS": "host:port"}, "RSCTL_REDUCERS has 'host:port', which is not host:port"),
        (
            {"RSCTL_REDUCERS": "host:70000"},
            "RSCTL_REDUCERS has 'host:70000', which is not host:port",
        ),
        (
            {"RSCTL_REDUCER_BANDWIDTH": "1e9,1e9"},
            "RSCTL_REDUCER_BANDWIDTH has 2 numbers, but there are 3 reducers",
        ),
        (
            {"RSCTL_TRANSPORT_FRAME": "12"},
            "RSCTL_TRANSPORT_FRAME must be a number of at least 4096 and at most 1048576, not '12'",
        ),
        (
            {"RSCTL_EPOCH": "4294967296"},
            "RSCTL_EPOCH must be a number of at least 0 and at most 4294967295, not '4294967296'",
        ),
        (
            {"RSCTL_TRANSPORT_SILENCE": "inf"},
            "RSCTL_TRANSPORT_SILENCE must be a number of at least 0.1, not 'inf'",
        ),
    ],
)
def test_what_makes_no_sense_is_named(changes: dict[str, str], message: str) -> None:
    with pytest.raises(TransportError) as refused:
        WorkerSettings.from_env(_ENVIRON | changes)
    assert refused.value.message == message
