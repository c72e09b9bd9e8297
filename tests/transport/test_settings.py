"""Settings from the environment; what is wrong is named."""

from __future__ import annotations

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


def test_bandwidths_give_the_links() -> None:
    links = WorkerSettings.from_env(
        _ENVIRON | {"RSCTL_NET_BANDWIDTH": "1e9", "RSCTL_REDUCER_BANDWIDTH": "1e9,2e9,5e8"}
    ).links
    assert [round(bandwidth / links.worker, 6) for bandwidth in links.reducers] == [1, 2, 0.5]


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
            "RSCTL_TRANSPORT_FRAME must be a number of at least 4096 and at most 1.04858e+06, "
            "not '12'",
        ),
    ],
)
def test_what_makes_no_sense_is_named(changes: dict[str, str], message: str) -> None:
    with pytest.raises(TransportError) as refused:
        WorkerSettings.from_env(_ENVIRON | changes)
    assert refused.value.message == message
