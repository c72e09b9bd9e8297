"""The variables of Google's script for NCCL on RDMA machines, as a node's command finds them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rsctl.node.environment import node_environment
from rsctl.node.platforms import read_cluster
from rsctl.node.platforms import vertex_nccl as nccl_setup

# What the script sets on A4 machines, as public training scripts write it down:
# tests/fixtures/real/gib_variables.json.
FIXTURE = Path(__file__).parents[2] / "fixtures" / "real" / "gib_variables.json"
REAL = json.loads(FIXTURE.read_text())["variables"]
EXPECTED = {"RSCTL_NCCL_SETUP": "gib", "PATH": "/usr/bin:/bin"}
CLUSTER = {
    "cluster": {"workerpool0": ["a:2222"], "workerpool1": ["b:2222"]},
    "environment": "cloud",
    "task": {"type": "workerpool0", "index": 0},
}


@pytest.fixture(autouse=True)
def no_rdma(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl_setup, "SCRIPT", str(tmp_path / "set_nccl_env.sh"))
    monkeypatch.setattr(nccl_setup, "RDMA_DEVICES", str(tmp_path / "infiniband"))


def write(tmp_path: Path, text: str) -> None:
    (tmp_path / "set_nccl_env.sh").write_text(text)


def exports(variables: dict[str, str]) -> str:
    return "".join(f"export {name}={value}\n" for name, value in variables.items())


def test_the_command_of_a_worker_gets_what_the_script_sets(tmp_path: Path) -> None:
    write(tmp_path, "echo setting up\n" + exports(REAL))
    environ = {**EXPECTED, "CLUSTER_SPEC": json.dumps(CLUSTER)}
    found = node_environment(read_cluster(environ), environ)
    assert {name: found.get(name) for name in REAL} == REAL


def test_what_the_user_has_set_stays_and_paths_are_added_to(tmp_path: Path) -> None:
    write(
        tmp_path,
        "export NCCL_NET=gIB NCCL_CROSS_NIC=0\n"
        "export LD_LIBRARY_PATH=/usr/local/gib/lib64:$LD_LIBRARY_PATH\nexport HOME=/elsewhere\n",
    )
    environ = {**EXPECTED, "NCCL_NET": "Socket", "LD_LIBRARY_PATH": "/mine", "HOME": "/root"}
    assert nccl_setup.nccl_variables(environ) == {
        "NCCL_CROSS_NIC": "0",
        "LD_LIBRARY_PATH": "/usr/local/gib/lib64:/mine",
    }


def test_values_are_text_whatever_they_contain(tmp_path: Path) -> None:
    write(tmp_path, "export NCCL_A=$'two\\nlines' NCCL_B='a b; touch x'\nfalse\n")
    hostile = {**EXPECTED, "MINE": "$(touch y)", "BASH_ENV": str(tmp_path / "never")}
    (tmp_path / "never").write_text("export NCCL_C=1\n")
    assert nccl_setup.nccl_variables(hostile) == {"NCCL_A": "two\nlines", "NCCL_B": "a b; touch x"}


@pytest.mark.parametrize(
    ("script", "environ", "words"),
    [
        (None, EXPECTED, "does not exist in this container: NCCL may use TCP"),
        ("exit 3\n", EXPECTED, "(it ended with code 3)"),
        ("true\n", {**EXPECTED, "PATH": "/nowhere"}, "could not source "),
        (None, {"PATH": "/usr/bin:/bin"}, None),
    ],
)
def test_a_node_without_the_variables_says_so(
    tmp_path: Path,
    script: str | None,
    environ: dict[str, str],
    words: str | None,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", environ["PATH"])
    if script is not None:
        write(tmp_path, script)
    assert nccl_setup.nccl_variables(environ) == {}
    said = capfd.readouterr().out
    if words is None:
        assert said == ""
    else:
        finding = json.loads(said)
        assert finding["code"] == "nccl-setup"
        assert finding["severity"] == "warning"
        assert words in finding["message"]


@pytest.mark.parametrize("has_device", [True, False])
def test_other_machines_need_an_rdma_device(tmp_path: Path, has_device: bool) -> None:
    """An image can bring the script to machines on which its settings make NCCL fail."""
    write(tmp_path, "export NCCL_NET=gIB\n")
    if has_device:
        (tmp_path / "infiniband" / "mlx5_0").mkdir(parents=True)
    found = nccl_setup.nccl_variables({"PATH": "/usr/bin:/bin"})
    assert found == ({"NCCL_NET": "gIB"} if has_device else {})
