"""A reducer is lost, a worker is lost, torchrun starts again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch.distributed import TCPStore

from rsctl.transport.pytorch.attempt import separate

Run = Callable[..., Any]

STEPS = ("train.py", "--backend", "gloo", "--bucket", "0.02", "--steps", "6")


@pytest.fixture
def lose_a_reducer(launch: Run, until: Callable[..., None], tmp_path: Path) -> Run:
    """Three workers; a reducer dies between the third step and the fourth."""

    def lose_a_reducer(pool: Any, loss: str) -> Any:
        go = tmp_path / "go"
        job = launch(
            *(*STEPS, "--wait-for", str(go)), ranks=3, RSCTL_ON_REDUCER_LOSS=loss, **pool.environ
        )
        until(lambda: len(list(tmp_path.glob("ready-*"))) == 3)
        pool.processes[-1].kill()
        go.touch()
        return job.end()

    return lose_a_reducer


def test_fallback_gives_the_same_numbers(lose_a_reducer: Run, torchrun: Run, reducers: Run) -> None:
    undisturbed = torchrun(*STEPS, ranks=3, **reducers(3).environ)
    ended = lose_a_reducer(reducers(3), "fallback")
    assert ended.digest == undisturbed.digest
    (finding,) = ended.printed("finding")
    assert (finding["severity"], finding["code"]) == ("warning", "reducer-lost")
    assert "the workers go on by themselves from operation 6" in finding["message"]


def test_failure_names_reducer_and_operation(lose_a_reducer: Run, reducers: Run) -> None:
    ended = lose_a_reducer(reducers(3), "fail")
    assert ended.code == 1
    findings = ended.printed("finding")
    assert len(findings) == 3
    for finding in findings:
        assert (finding["severity"], finding["code"]) == ("error", "reducer-lost")
        assert "reducer 2" in finding["message"]
        assert "operation 6" in finding["message"]


def test_an_attempt_of_torchrun_does_not_meet_the_addresses_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = TCPStore("127.0.0.1", 0, 1, is_master=True, wait_for_workers=False)
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(server.port), "RANK": "0"}
    for name, value in (
        place | {"WORLD_SIZE": "1", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    ).items():
        monkeypatch.setenv(name, value)
    stores = []
    for attempt in range(3):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", str(attempt))
        arguments: dict[str, Any] = {}
        separate(arguments)
        stores.append(arguments.get("store", server))
        assert not stores[-1].check(["address"])
        stores[-1].set("address", str(attempt))
    assert [store.get("address") for store in stores] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("case", ["one is ahead", "all are level", "one cannot go on"])
def test_agreement(torchrun: Run, case: str) -> None:
    ended = torchrun("agreement.py", case, ranks=3)
    if case == "one cannot go on":
        error = "the transport broke; rank 2 cannot go on"
        assert [line["results"] for line in ended.ranks] == [[error] * 2] * 3
        return
    # What rank 1 had from the reducers is everyone's; the next is added in the order of ranks.
    fifth = [50.0] if case == "one is ahead" else [2.0]
    assert [line["results"] for line in ended.ranks] == [[fifth, [2.0]]] * 3
