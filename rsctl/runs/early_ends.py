"""Who left a job while others waited for it in a collective. Pure.

A rank that ends with exit code 0, or leaves the process group, has not failed; the ranks that wait
for it do. The records are the `exit` lines of launchers, and what the binding to PyTorch reports:
`left` before a rank leaves its group, `ending` when its script has ended, `lost` when a collective
has lost a peer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Optional

from rsctl.findings import Finding, error
from rsctl.runs.stream.events import EARLY_END, Failure, LogEvent, unix_time
from rsctl.runs.stream.structured import record_of

_LATER_SECONDS = {"exit": 3.0, "left": 0.05, "ending": 0.05}
"""How long after a peer has noticed it the record may come: a process ends after its connections
have closed, and clocks of nodes differ. Where a script's own end is known, that counts.
"""

_NAMES = {"collective": "collective operation"}

_REMEDY = (
    "give all ranks the same number of steps: drop_last=True, a sampler that pads, a fixed number "
    "of steps, or torch.distributed.algorithms.join.Join; no rank may end or destroy the process "
    "group while others still use it"
)


class RankRecord(NamedTuple):
    """The end of a rank with exit code 0 (`exit`), of its script (`ending`), its leaving of its
    group (`left`) or its loss of a peer in the operation `op` (`lost`), from the log of `log`.
    """

    kind: str
    replica: str
    rank: Optional[int]
    time: str
    log: str
    op: str = "collective"

    @property
    def who(self) -> tuple[str, Optional[int]]:
        """The replica and the rank."""
        return self.replica, self.rank


def rank_record(line: LogEvent) -> RankRecord | None:
    """The record in a line; None for other lines and for invalid records."""
    record = record_of(line.text, "exit", "ending", "left", "lost")
    if not record or (record["rsctl"] == "exit" and record.get("code") != 0):
        return None
    rank, replica, op = record.get("rank"), record.get("replica"), record.get("op")
    return RankRecord(
        kind=record["rsctl"],
        replica=replica if isinstance(replica, str) else line.replica,
        rank=rank if isinstance(rank, int) else None,
        time=str(record.get("time")),
        log=line.replica,
        op=op if isinstance(op, str) and op.replace("_", "").isalpha() else "collective",
    )


def early_end(records: Iterable[RankRecord], victim: Failure) -> Failure | None:
    """The rank that left while the victim, which has lost a peer, waited for it, as the failure.

    None if no rank did. That is the earliest which left, before the victim noticed it, and lost no
    peer itself.
    """
    times = {record: time for record in records if (time := unix_time(record.time)) is not None}
    ending = {record.who: time for record, time in times.items() if record.kind == "ending"}
    noticed = unix_time(victim.time)
    waiting = RankRecord("lost", victim.replica, victim.rank, victim.time, victim.replica)
    losses = sorted((each for each in times if each.kind == "lost"), key=times.__getitem__)
    if losses:
        waiting = next((each for each in losses if each.who == waiting.who), losses[0])
        noticed = times[waiting]
    exited = {each.who for each in times if each.kind == "exit"}
    have_waited = {each.who for each in losses} | {waiting.who}
    before = [
        each
        for each, time in times.items()
        if each.kind in _LATER_SECONDS and each.who not in have_waited
        if each.kind != "ending" or each.who not in exited  # an exit says more
        if noticed is not None
        and min(time, ending.get(each.who, time)) <= noticed + _LATER_SECONDS[each.kind]
    ]
    if not before:
        return None
    first = min(before, key=times.__getitem__)
    how = "left the process group"
    if first.who in exited:
        how = "ended with exit code 0"
    elif first.who in ending:
        how = "reached the end of its script"
    return Failure(
        replica=first.replica,
        log=first.log if first.log != first.replica else None,
        rank=first.rank,
        time=first.time,
        exit_code=0,
        causes=[_cause(first, how, waiting)],
    )


def _cause(left: RankRecord, how: str, waiting: RankRecord) -> Finding:
    is_one_node = left.replica == waiting.replica
    who, other = (f"rank {r.rank}" if is_one_node else r.replica for r in (left, waiting))
    name = _NAMES.get(waiting.op, waiting.op.replace("_", "-"))
    article = "an" if name[:1] in "aeiou" else "a"
    return error(EARLY_END, f"{who} {how} while {other} waited for it in {article} {name}", _REMEDY)
