"""A reducer is lost, a worker is lost, torchrun starts again."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kit.deferred import Deferred
from tests.kit.polling import wait_until
from tests.kit.processes import freeze

backend = Deferred("rsctl.transport.pytorch.backend")
distributed = Deferred("torch.distributed")

Run = Callable[..., Any]

STEPS = ("train.py", "--backend", "gloo", "--bucket", "0.02", "--steps", "6")


@pytest.fixture
def lose_a_reducer(launch: Run, tmp_path: Path) -> Run:
    """Three workers; a reducer dies between the third step and the fourth."""

    def lose_a_reducer(pool: Any, loss: str) -> Any:
        go = tmp_path / "go"
        job = launch(
            *(*STEPS, "--wait-for", str(go)), ranks=3, RSCTL_ON_REDUCER_LOSS=loss, **pool.environ
        )
        wait_until(lambda: len(list(tmp_path.glob("ready-*"))) == 3)
        pool.processes[-1].kill()
        go.touch()
        return job.end()

    return lose_a_reducer


@pytest.fixture
def break_a_reducer(launch: Run, tmp_path: Path) -> Run:
    """Three workers; a reducer stops answering in the fourth step, with blocks of an operation
    unread, and is killed then, if `killed`."""

    def break_a_reducer(pool: Any, loss: str, killed: bool) -> Any:
        go, victim = tmp_path / "go", pool.processes[-1]
        job = launch(
            *(*STEPS, "--wait-for", str(go)),
            ranks=3,
            RSCTL_ON_REDUCER_LOSS=loss,
            RSCTL_TRANSPORT_SILENCE="60" if killed else "5",
            **pool.environ,
        )
        wait_until(lambda: len(list(tmp_path.glob("ready-*"))) == 3)
        freeze(victim.pid)
        go.touch()
        port = int(pool.environ["RSCTL_REDUCERS"].rpartition(":")[2])
        try:
            wait_until(lambda: unread(port) > 3 * LONGEST_WITHOUT_BLOCKS)
        finally:
            if killed:
                victim.kill()
            ended = job.end()
        victim.send_signal(signal.SIGCONT)
        return ended

    return break_a_reducer


@pytest.fixture(scope="module")
def digests() -> list[str]:
    """What the script computes when nothing is lost, once it is known."""
    return []


@pytest.fixture
def undisturbed(run: Run, reducers: Run, digests: list[str]) -> str:
    """The digest of a run over reducers in which nothing is lost."""
    if not digests:
        digests.append(run(*STEPS, ranks=3, **reducers(3).environ).digest)
    return digests[0]


LONGEST_WITHOUT_BLOCKS = 10 * 64
"""More than the heartbeats that a worker sends before it gives a silent reducer up, in bytes."""


def unread(port: int) -> int:
    """The bytes that have come to this port of 127.0.0.1 and that nobody has read."""
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    here = f"0100007F:{port:04X}"
    return sum(int(row[4].partition(":")[2], 16) for row in rows if row[1] == here)


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "frozen"])
def test_a_reducer_that_breaks_within_an_operation_ends_the_job_by_name(
    break_a_reducer: Run, reducers: Run, killed: bool
) -> None:
    ended = break_a_reducer(reducers(3), "fail", killed)
    assert ended.code == 1
    findings = ended.printed("finding")
    assert len(findings) == 3
    what = "was lost" if killed else "has been silent for 5 s"
    for finding in findings:
        assert (finding["severity"], finding["code"]) == ("error", "reducer-lost")
        assert re.search(rf"reducer 2( \(\S+\))? {what}", finding["message"])
        assert re.search(r"\boperation \d+", finding["message"])
    # A worker that had not begun the operation yet when the connection broke names it as failed.
    assert any(f"{what} during operation" in finding["message"] for finding in findings)


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "frozen"])
def test_a_reducer_that_breaks_within_an_operation_changes_no_number(
    break_a_reducer: Run, undisturbed: str, reducers: Run, killed: bool
) -> None:
    ended = break_a_reducer(reducers(3), "fallback", killed)
    assert ended.digest == undisturbed
    (finding,) = ended.printed("finding")
    assert (finding["severity"], finding["code"]) == ("warning", "reducer-lost")
    assert "the workers continue without reducers from operation" in finding["message"]


def test_fallback_gives_the_same_numbers(
    lose_a_reducer: Run, undisturbed: str, reducers: Run
) -> None:
    ended = lose_a_reducer(reducers(3), "fallback")
    assert ended.digest == undisturbed
    (finding,) = ended.printed("finding")
    assert (finding["severity"], finding["code"]) == ("warning", "reducer-lost")
    assert "the workers continue without reducers from operation 6" in finding["message"]


def test_fallback_gives_the_same_numbers_with_eight_bits(
    run: Run, lose_a_reducer: Run, reducers: Run
) -> None:
    pools = [reducers(3), reducers(3)]
    for pool in pools:
        pool.environ["RSCTL_COMM_COMPRESSION"] = "int8"
    undisturbed = run(*STEPS, ranks=3, **pools[0].environ)
    ended = lose_a_reducer(pools[1], "fallback")
    assert ended.digest == undisturbed.digest
    assert [finding["code"] for finding in ended.printed("finding")] == ["reducer-lost"]


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
    server = distributed.TCPStore("127.0.0.1", 0, 1, is_master=True, wait_for_workers=False)
    environ = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(server.port), "RANK": "0"}
    for name, value in (
        environ | {"WORLD_SIZE": "1", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    ).items():
        monkeypatch.setenv(name, value)
    stores = []
    for attempt in range(3):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", str(attempt))
        arguments: dict[str, Any] = {}
        backend.separate_attempts(arguments)
        stores.append(arguments.get("store", server))
        assert not stores[-1].check(["address"])
        stores[-1].set("address", str(attempt))
    assert [store.get("address") for store in stores] == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    "own", [{"store": "a store"}, {"init_method": "tcp://10.0.0.1:1234"}], ids=["store", "address"]
)
def test_a_rendezvous_of_the_script_s_own_is_left_alone(
    own: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    arguments: dict[str, Any] = dict(own)
    backend.separate_attempts(arguments)
    assert arguments == own


@pytest.mark.parametrize("case", ["one is ahead", "all are level", "one cannot go on"])
def test_agreement(run: Run, case: str) -> None:
    ended = run("agreement.py", case, ranks=3)
    if case == "one cannot go on":
        error = "the transport broke; rank 2 cannot continue"
        assert [line["results"] for line in ended.ranks] == [[error] * 2] * 3
        return
    # What rank 1 had from the reducers is everyone's; the next is added in the order of ranks.
    fifth = [50.0] if case == "one is ahead" else [2.0]
    assert [line["results"] for line in ended.ranks] == [[fifth, [2.0]]] * 3
