"""The variable by which a job on Vertex AI says which role each of its worker pools has.

    RSCTL_POOL_ROLES=workerpool2=ps,workerpool3=evaluator

Pools that it does not name have the platform's roles, or reducers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

POOL_ROLES = "RSCTL_POOL_ROLES"

_ENTRY = re.compile(r"(workerpool[23])=([a-z][a-z0-9-]{0,62})")


def read_pool_roles(text: str) -> dict[str, str]:
    """The roles by pool; ignores invalid entries."""
    found = (_ENTRY.fullmatch(entry) for entry in text.split(","))
    return {entry[1]: entry[2] for entry in found if entry}


def write_pool_roles(roles: Mapping[str, str]) -> str:
    """The variable's value."""
    return ",".join(f"{pool}={role}" for pool, role in roles.items())
