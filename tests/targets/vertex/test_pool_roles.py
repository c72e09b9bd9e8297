"""Which role the replicas of each worker pool have: by the request, else the platform's names."""

from __future__ import annotations

from typing import Any

import pytest

from rsctl.targets.base import replica_names
from rsctl.targets.vertex.pools import pools_of, replica_of, replicas_of_pool, roles_of

REDUCTION_SERVER = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"


def job(*counts: int, image: str = "i", **env: str) -> dict[str, Any]:
    variables = [{"name": name, "value": value} for name, value in env.items()]
    pools: list[dict[str, Any]] = [
        {"replicaCount": str(n), "containerSpec": {"imageUri": "i", "env": variables}} if n else {}
        for n in counts
    ]
    if len(pools) > 2 and pools[2]:
        pools[2]["containerSpec"]["imageUri"] = image
    return {"jobSpec": {"workerPoolSpecs": pools}}


@pytest.mark.parametrize(
    ("found", "third", "fourth"),
    [
        (job(1, 1, 1, 1), "ps", "evaluator"),
        (job(1, 1, 2, image=REDUCTION_SERVER), "reducer", "evaluator"),
        (job(1, 1, 2, RSCTL_REDUCER_KIND="rsctl"), "reducer", "evaluator"),
        (job(1, 1, 1, 1, RSCTL_POOL_ROLES="workerpool2=data,workerpool3=ps"), "data", "ps"),
        (
            job(1, 1, 1, 1, RSCTL_REDUCER_KIND="rsctl", RSCTL_POOL_ROLES="workerpool3=data"),
            "reducer",
            "data",
        ),
        (job(1, RSCTL_POOL_ROLES="workerpool1=x,workerpool2=A B,workerpool3"), "ps", "evaluator"),
        ({}, "ps", "evaluator"),
    ],
)
def test_the_roles_of_pools(found: dict[str, Any], third: str, fourth: str) -> None:
    assert roles_of(found) == ("worker", "worker", third, fourth)


def test_replicas_are_called_by_their_roles() -> None:
    found = job(1, 2, 2, 1, RSCTL_POOL_ROLES="workerpool2=data,workerpool3=ps")
    names = ["worker-0", "worker-1", "worker-2", "data-0", "data-1", "ps-0"]
    assert replica_names(pools_of(found)) == names
    assert replicas_of_pool(found, 2) == ["data-0", "data-1"]
    assert replica_of("workerpool3-0", roles_of(found)) == "ps-0"
