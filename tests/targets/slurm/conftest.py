"""One cluster for all tests of a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.slurm_cluster import SlurmCluster, slurm_cluster


@pytest.fixture(scope="session")
def started_cluster() -> Iterator[SlurmCluster]:
    """A cluster of Slurm 24.11."""
    with slurm_cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(started_cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    """The cluster, whose commands are those of this machine."""
    for name, value in started_cluster.environ.items():
        monkeypatch.setenv(name, value)
    return started_cluster
