"""What mpirun is started with."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.node.cluster import Cluster
from rsctl.node.mpi.mpirun import command_line, with_settings, write_hostfile

TWO = Cluster("worker", 0, ("one", "two"), (), "eth1", 29500)
INTERFACE = {
    "OMPI_MCA_oob_tcp_if_include": "eth1",
    "OMPI_MCA_btl_tcp_if_include": "eth1",
    "PRTE_MCA_prte_if_include": "eth1",
}


@pytest.mark.parametrize(
    ("cluster", "named"),
    [
        (TWO, INTERFACE),
        (TWO._replace(interface=None), {}),
        (TWO._replace(workers=("one",)), {}),  # which needs no network
    ],
)
def test_the_interface_between_nodes_is_named(cluster: Cluster, named: dict[str, str]) -> None:
    settings = with_settings(cluster, {})
    assert {name: value for name, value in settings.items() if "if_include" in name} == named


def test_settings_of_the_user_stay_but_for_the_agent() -> None:
    """Without rsctl's agent mpirun would look for ssh in the containers."""
    agents = ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent")
    policy = "OMPI_MCA_rmaps_base_mapping_policy"
    defaults = with_settings(TWO, {})
    assert defaults[policy] == "slot"
    own = with_settings(TWO, {policy: "node", "A": "1", **dict.fromkeys(agents, "ssh")})
    assert own == {**defaults, policy: "node", "A": "1"}
    for name in agents:
        assert own[name].endswith(" rsctl.node.mpi.agent")


def test_each_node_has_its_ranks_and_the_chief_is_this_one() -> None:
    path = Path(write_hostfile(TWO, 8))
    assert path.read_text() == "localhost slots=8\ntwo slots=8\n"
    path.unlink()
    words = command_line(TWO, 8, str(path), ["train", "--lr", "1"])
    assert words[:5] == ["mpirun", "-np", "16", "--hostfile", str(path)]
    assert words[-4:] == ["--", "train", "--lr", "1"]
