"""What rsctl's own processes inherit, ids that a user gives, and pools of a stored plan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rsctl.findings import ExitCode, RsctlError
from rsctl.runs.environment import belongs_to_contract, own_environment
from rsctl.runs.ids import packed_job, require_run_id, slot_run
from rsctl.runs.pools import pool_of_role


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *[(name, True) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "NODE_RANK", "NNODES")],
        *[(name, True) for name in ("MASTER_ADDR", "MASTER_PORT", "RSCTL_ROLE", "RSCTL_HOME")],
        *[(name, True) for name in ("TORCHELASTIC_RUN_ID",)],
        *[(name, False) for name in ("PATH", "MASTER", "RANKS", "MY_RSCTL_ROLE", "TORCH_HOME")],
    ],
)
def test_ranks_and_roles_belong_to_the_job_around(name: str, expected: bool) -> None:
    assert belongs_to_contract(name) is expected


def test_rsctl_s_own_processes_inherit_all_but_the_job_around(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"RANK": "3", "RSCTL_ROLE": "worker", "RSCTL_DEBUG": "1", "MINE": "x"}
    for name, value in {**given, "RSCTL_CLOUD_PACE": "9", "RSCTL_HOME": "here"}.items():
        monkeypatch.setenv(name, value)
    found = own_environment()
    assert found["MINE"] == "x"
    assert {name: value for name, value in found.items() if belongs_to_contract(name)} == {
        "RSCTL_HOME": str(tmp_path / "here"),
        "RSCTL_DEBUG": "1",
        "RSCTL_CLOUD_PACE": "9",
    }


@pytest.mark.parametrize("text", ["a", "bert-7f3k2a", "a9", "a" * 63])
def test_a_run_id(text: str) -> None:
    assert require_run_id(text) == text


@pytest.mark.parametrize("text", ["", "-a", "a-", "A", "9a", "a.b", "a/b", "..", "a\n", "a" * 64])
def test_what_can_be_no_run_id(text: str) -> None:
    with pytest.raises(RsctlError) as caught:
        require_run_id(text)
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.findings[0].code == "run-id"


def test_the_ids_of_slots_name_their_job() -> None:
    assert [slot_run("bert-7f3k2a", number) for number in (0, 12)] == [
        *("bert-7f3k2a-s0", "bert-7f3k2a-s12"),
    ]
    slots = ("a-s0", "a-b-s9999", "a-s00", "a-s01", "a-s10000", "bert-7f3k2a", "-s1", "a-s1-")
    assert [packed_job(run) for run in slots] == ["a", "a-b", *[None] * 6]


def pool(count: int = 1, **fields: Any) -> dict[str, Any]:
    given = {"role": "worker", "count": count, "machine": "n1", "accelerator": "v100:2"}
    return {**given, "gbps": 16.0, **fields}


def test_the_pools_of_a_role_are_one() -> None:
    assert pool_of_role({}, "worker") == pool_of_role({"pools": None}, "worker") == {}
    one = {"pools": [pool(), pool(role="reducer")]}
    assert pool_of_role(one, "worker") == pool()
    assert pool_of_role(one, "ps") == {}
    several = [pool(), pool(3, machine="n2", gbps=10.0), pool(2, accelerator=None)]
    assert pool_of_role({"pools": several}, "worker") == {
        "role": "worker",
        "count": 6,
        "machine": "n1, n2",
        "accelerator": "v100:2",
        "gbps": 10.0,
    }


def test_a_bandwidth_that_is_not_known_is_not_that_of_the_others() -> None:
    found = pool_of_role({"pools": [pool(), pool(gbps=None)]}, "worker")
    assert found["gbps"] is None
    bare = [{"role": "worker"}, pool(2, machine=None, accelerator=None)]
    assert pool_of_role({"pools": bare}, "worker") == {
        **{"role": "worker", "count": 2, "machine": None, "accelerator": None, "gbps": None},
    }
