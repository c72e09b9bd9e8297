"""The computation of ranks that share the cores of one machine. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from rsctl.estimate.advice.cluster import ModelledCluster
from rsctl.estimate.advice.profile import GradientBucket, Profile

_NOTICED = 1.05


def with_shared_cores(profile: Profile, cluster: ModelledCluster) -> Profile:
    """The step of one rank beside all others of the job, where nodes are on one machine.

    A step takes at least the time that its cores need for all ranks: ranks x cores that a rank
    keeps busy x step / cores of the machine. `assumed` says so. If the busy cores are unknown, the
    step stays and `assumed` has the risk.
    """
    if not cluster.shared_cores:
        return profile
    available, ranks = cluster.shared_cores, cluster.world
    shared = f"{ranks} ranks share {available:g} cores"
    if profile.cores is None:
        if ranks <= available:
            return profile
        risk = (
            f"{shared}: if they compute on the cores, a step takes {ranks / available:.2g} times "
            "as long or longer"
        )
        return replace(profile, assumed=(*profile.assumed, risk))
    factor = profile.cores * ranks / available
    if factor <= _NOTICED:
        return profile
    remark = (
        f"{shared}, and each keeps {profile.cores:.2g} busy: the computation of a step takes "
        f"{factor:.2g} times as long as measured"
    )
    return replace(
        profile,
        step_seconds=profile.step_seconds * factor,
        data_seconds=profile.data_seconds * factor,
        buckets=tuple(
            GradientBucket(bucket.bytes, bucket.ready_seconds * factor)
            for bucket in profile.buckets
        ),
        assumed=(*profile.assumed, remark),
    )
