"""Ports for the services of jobs on this machine: concurrent jobs never share one."""

from __future__ import annotations

import random
import socket
from itertools import chain

from rsctl.findings import ExitCode, RsctlError, error

MOST = 2
"""How many ports in a row can be had."""

_RANGE = range(20000, 30000, MOST + 1)  # below the ports that the kernel assigns


class ReservedPort:
    """A free TCP port that no other job on this machine gets while it lives.

    `span` ports from it on, at most `MOST`, are free and reserved with it. The next port is the
    mark: the job binds it, which only one process of any user can do, and does not listen there. A
    process that ends has no reservations.
    """

    def __init__(self, span: int = 1) -> None:
        first = random.randrange(len(_RANGE))  # noqa: S311
        for number in chain(_RANGE[first:], _RANGE[:first]):
            mark = socket.socket()
            try:
                mark.bind(("127.0.0.1", number + MOST))
                for port in range(number, number + span):
                    _bind(port)
            except OSError:
                mark.close()
                continue
            self.number = number
            self._mark = mark
            return
        raise RsctlError(
            ExitCode.ENVIRONMENT,
            error(
                "port", f"no port from {_RANGE.start} to {_RANGE.stop - 1} is free", "cancel a run"
            ),
        )

    def release(self) -> None:
        """Give the port back."""
        self._mark.close()


def _bind(number: int) -> None:
    """Raises OSError if the port is in use."""
    with socket.socket() as probe:
        probe.bind(("0.0.0.0", number))  # noqa: S104 - torch's store listens on all addresses
