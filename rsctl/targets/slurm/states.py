"""Records that a job's batch script has written in the file `states` of the run's folder. Pure.

    TIME started CLUSTER/ID RESTART NODE
    TIME running EPOCH ROLE INDEX NODE ADDRESS PORT;…
    TIME failed EPOCH CODE          an attempt, after which another follows
    TIME suspects NODE STATE;…      nodes that were out of service or silent when the job failed
    TIME unhealthy NODE;…           nodes that have failed the job's checks
    TIME ended CODE REASON          REASON is done, time-limit, ended (by a signal), or a text

It is what remains when the controller has forgotten the job, MinJobAge seconds after its end.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

from rsctl.targets.base import Pool


class Ended(NamedTuple):
    """The end of the batch script."""

    time: str
    code: int
    reason: str


class States(NamedTuple):
    """The file. `owner` is CLUSTER/ID of the job that runs the run, `ended` its end, if it has one.

    `restart` is how often Slurm had requeued it, `nodes` are the names of the nodes by replica,
    `suspects` nodes that were down, drained or silent when the job failed,
    `unhealthy` those that have failed the job's checks. `failed` is how many attempts have failed
    within an allocation, and `code` the exit code of the last one in this start.
    """

    owner: Optional[str] = None
    restart: int = 0
    started: Optional[str] = None
    running: Optional[str] = None
    nodes: tuple[tuple[str, str], ...] = ()
    suspects: tuple[str, ...] = ()
    unhealthy: tuple[str, ...] = ()
    ended: Optional[Ended] = None
    failed: int = 0
    code: Optional[str] = None


def read_states(text: str) -> States:
    """The file's last word on each matter; lines that make no sense are left out."""
    states = States()
    for line in text.splitlines():
        time, word, *rest = [*line.split(" ", 2), ""][:3]
        fields = rest[0].split(" ")
        if word == "started" and len(fields) == 3 and fields[1].isdecimal():
            since, failed = states.started or time, states.failed
            states = States(fields[0], int(fields[1]), since, failed=failed)
        elif word == "running":
            nodes = rest[0].partition(" ")[2]
            states = states._replace(running=time, nodes=_nodes(nodes))
        elif word == "failed" and len(fields) == 2:
            states = states._replace(failed=states.failed + 1, code=fields[1])
        elif word == "suspects":
            states = states._replace(suspects=_suspects(rest[0]))
        elif word == "unhealthy":
            states = states._replace(unhealthy=_suspects(rest[0]))
        elif word == "ended" and fields[0].isdecimal():
            states = states._replace(ended=Ended(time, int(fields[0]), " ".join(fields[1:])))
    return states


def _nodes(text: str) -> tuple[tuple[str, str], ...]:
    rows = (entry.split(" ") for entry in text.split(";"))
    return tuple((f"{row[0]}-{row[1]}", row[2]) for row in rows if len(row) == 5)


def _suspects(text: str) -> tuple[str, ...]:
    names = (entry.partition(" ")[0] for entry in text.split(";"))
    return tuple(name for name in names if re.fullmatch(r"[A-Za-z0-9_.-]+", name))


def pools_of(states: States) -> list[Pool]:
    """The replicas that have run, as pools; one worker if none is known."""
    counts: dict[str, int] = {}
    for replica, _ in states.nodes:
        role = replica.rpartition("-")[0]
        counts[role] = counts.get(role, 0) + 1
    order = sorted(counts, key=lambda role: ({"worker": 0, "reducer": 1}.get(role, 2), role))
    return [Pool(role=role, count=counts[role]) for role in order] or [Pool(role="worker", count=1)]
