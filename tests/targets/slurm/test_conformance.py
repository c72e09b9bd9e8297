"""Target slurm passes the conformance suite on real daemons."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from rsctl.targets.testing.conformance import TargetConformance
from tests.kit.slurm_cluster import SlurmCluster, needs_slurm


@needs_slurm()
class TestSlurm(TargetConformance):
    target_name = "slurm"
    other_machine = "large"
    job_keys: ClassVar[dict[str, Any]] = {}
    options_elsewhere: ClassVar[dict[str, str]] = {
        "gpu_type": "a job with accelerators",
        "reducer_placement": "a job with reducers",
        "reducer_partition": "a job with reducers",
    }
    option_samples: ClassVar[dict[str, Any]] = {
        "connection": "ssh://login",
        "shared": "/shared/me",
        "setup": ["module load cuda"],
        "python": "python3.12",
        "partition": "gpu",
        "account": "physics",
        "qos": "high",
        "reservation": "maintenance",
        "constraint": "a100",
        "exclude": "n3",
        "exclusive": False,
        "switches": "1",
        "memory": "1GB",
        "licenses": "matlab:1",
        "sbatch": ["--nice=10"],
        "srun": ["--mpi=pmix"],
    }

    @pytest.fixture(autouse=True)
    def job_keys_of_cluster(self, cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> None:
        keys = {
            "limits": {"timeout": "10m"},
            "targets": {"slurm": {"shared": str(cluster.shared), "setup": cluster.setup}},
        }
        monkeypatch.setattr(type(self), "job_keys", keys)
