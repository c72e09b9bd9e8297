"""Target `spool` as data. Every plan imports this module, so it imports nothing else of ours."""

from __future__ import annotations

from typing import Annotated

import msgspec

from rsctl.target_info import TargetInfo, Unsupported


class SpoolOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A queue in a folder of this machine."""

    folder: Annotated[
        str, msgspec.Meta(description="The queue's folder, an absolute path.", pattern=r"^/.+")
    ] = "/tmp/rsctl-spool"
    niceness: Annotated[
        int, msgspec.Meta(description="How far its jobs stand back.", ge=0, le=19)
    ] = 0


_ONE_NODE = Unsupported("a queue starts one node for each job", "leave it out")
_NO_LIMIT = Unsupported("the queue lets a job run to its end, once", "leave it out")
_NO_LAUNCHER = Unsupported("the queue starts the script itself", "leave it out")
_THIS_MACHINE = ("workers.machine", "workers.disk", "workers.accelerator", "limits.spot")
_IMAGE = (
    *("uri", "base", "dockerfile", "env", "run", "python", "secrets", "apt", "transport"),
    *("repository", "platform"),
)

INFO = TargetInfo(
    name="spool",
    title="a queue on this machine",
    target="spool_target.target:TARGET",
    options="spool_target.info:SpoolOptions",
    is_managed=True,
    refused={
        "run.package": Unsupported("the queue has no containers", "set image.source: FOLDER"),
        **dict.fromkeys(("workers.count", "reducers.count", "comm.backend"), _ONE_NODE),
        **{
            f"limits.{key}": _NO_LIMIT
            for key in ("timeout", "grace", "stall", "on_stall", "queue", "retries", "restarts")
        },
        **dict.fromkeys(("checks.network", "checks.gpu", "checks.cpu"), _NO_LAUNCHER),
        "limits.cost": Unsupported("this machine has no price", "remove limits.cost"),
    },
    unused={
        **dict.fromkeys(_THIS_MACHINE, "its jobs run on this machine"),
        **{f"image.{key}": "the queue has no containers" for key in _IMAGE},
        **{f"comm.{key}": "a job has one node" for key in ("bucket_mb", "compression", "hook")},
        **{f"comm.{key}": "a job has one node" for key in ("local_steps", "outer", "fragments")},
    },
)
