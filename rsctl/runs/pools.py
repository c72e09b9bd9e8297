"""The pools of a stored plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def pool_of_role(plan: Mapping[str, Any], role: str) -> dict[str, Any]:
    """The nodes of a role as one pool; empty if there are none.

    If they are of several kinds, it has the total count, a list of the kinds, and the bandwidth of
    the slowest.
    """
    pools: list[dict[str, Any]] = [p for p in plan.get("pools") or [] if p.get("role") == role]
    if len(pools) < 2:
        return pools[0] if pools else {}
    speeds = [pool.get("gbps") for pool in pools]
    return {
        "role": role,
        "count": sum(pool.get("count") or 0 for pool in pools),
        "machine": _joined([pool.get("machine") for pool in pools]),
        "accelerator": _joined([pool.get("accelerator") for pool in pools]),
        "gbps": min(speed for speed in speeds if speed) if all(speeds) else None,
    }


def _joined(values: list[str | None]) -> str | None:
    return ", ".join(dict.fromkeys(value for value in values if value)) or None
