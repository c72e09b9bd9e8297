"""The replica on a host, by the names that clouds give to the hosts of a job."""

from __future__ import annotations

import re

from rsctl.targets.base import Pool, replica_names

_SAGEMAKER = re.compile(r"algo-([1-9]\d{0,5})")
_VERTEX = re.compile(r"(?:[\w-]{1,60}-)?workerpool([01])-(?:\w{1,40}-)?(\d{1,5})")


def replica_on(host: str, pools: list[Pool]) -> str | None:
    """The replica on `algo-2`, `cmle-training-workerpool1-4442549cc4-0` or `worker-1`.

    None for a host of another form, and for `algo-N` of a job with several pools: then only the log
    names the host's pool.
    """
    names = replica_names(pools)
    if host in names:
        return host
    if match := _VERTEX.fullmatch(host.partition(".")[0]):
        name = f"worker-{int(match[1]) + int(match[2])}"
        return name if name in names else None
    match = _SAGEMAKER.fullmatch(host)
    if match and len({pool.role for pool in pools}) == 1 and int(match[1]) <= len(names):
        return names[int(match[1]) - 1]
    return None
