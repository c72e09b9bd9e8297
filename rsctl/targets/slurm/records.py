"""Jobs as Slurm's commands print them, read into `JobRecord`. Pure.

The module reads the forms of `scontrol show job -o` and `sacct --parsable2` in Slurm 22.05 and
24.11, with SLURM_TIME_FORMAT=%s, which makes times independent of the cluster's time zone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Optional

from rsctl.targets.slurm.cluster import JobRecord

_FIELD = re.compile(r"(?:^| )([A-Z][A-Za-z/:]*)=")


def fields_of(line: str) -> dict[str, str]:
    """NAME=VALUE of a line, in which values may have spaces."""
    found = list(_FIELD.finditer(line))
    ends = [*(match.start() for match in found[1:]), len(line)]
    return {m[1]: line[m.end() : end].strip() for m, end in zip(found, ends, strict=True)}


def record_of_scontrol(text: str, job: int) -> JobRecord | None:
    """The job of `scontrol show job -o`, whose lines are the components of a heterogeneous job."""
    rows = [fields_of(line) for line in text.splitlines() if line.strip()]
    own = [row for row in rows if row.get("JobId") == str(job)]
    if not own:
        return None
    nodes = [row.get("NodeList", "") for row in rows]
    return JobRecord(
        id=job,
        state=own[0].get("JobState", ""),
        name=own[0].get("JobName", ""),
        reason=_value(own[0], "Reason"),
        comment=_value(own[0], "Comment"),
        nodes=",".join(each for each in nodes if each and each != "(null)"),
        failed_node=next(filter(None, (_value(row, "FailedNode") for row in rows)), ""),
        submitted=_seconds(own[0].get("SubmitTime", "")),
        started=_seconds(own[0].get("StartTime", "")),
        ended=_seconds(own[0].get("EndTime", "")),
        restarts=int(own[0].get("Restarts") or 0),
        exit_code=own[0].get("ExitCode", "0:0"),
    )


def record_of_sacct(text: str, job: int) -> JobRecord | None:
    """The job of `sacct`: State, ExitCode, Submit, Start, End, NodeList, Restarts, JobName.

    Accounting has the comment only with AccountingStoreFlags=job_comment.
    """
    line = next((line for line in text.splitlines() if line.count("|") >= 7), None)
    if line is None:
        return None
    state, code, submitted, started, ended, nodes, restarts, name = line.split("|", 7)
    return JobRecord(
        id=job,
        state=state.partition(" ")[0],  # CANCELLED by 1000
        name=name,
        nodes="" if nodes == "None assigned" else nodes,
        submitted=_seconds(submitted),
        started=_seconds(started),
        ended=_seconds(ended),
        restarts=int(restarts) if restarts.isdigit() else 0,
        exit_code=code,
    )


def _value(row: Mapping[str, str], name: str) -> str:
    value = row.get(name, "")
    return "" if value in ("None", "(null)", "N/A") else value


def _seconds(text: str) -> Optional[float]:
    return float(text) if text.isdigit() and int(text) > 0 else None
