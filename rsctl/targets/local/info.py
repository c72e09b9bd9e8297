"""The targets on this machine, as data."""

from __future__ import annotations

from rsctl.target_info import TargetInfo, Unsupported

_REFUSED = {
    "comm.backend": Unsupported(
        "this machine has no SageMaker library", "set comm.backend: auto", frozenset({"smddp"})
    ),
    "limits.cost": Unsupported("your own machines have no price", "remove limits.cost"),
    "run.package": Unsupported(
        "this target has no vendor's container to install the package, and rsctl does "
        "not install it into your Python",
        "set image.source: FOLDER instead, or rehearse the cloud's job: --rehearse",
    ),
}
_UNUSED = {
    "workers.machine": "the job runs on this machine",
    "workers.disk": "the job runs on this machine",
    "chief.machine": "the job runs on this machine",
    "chief.disk": "the job runs on this machine",
    "roles.NAME.machine": "the job runs on this machine",
    "roles.NAME.disk": "the job runs on this machine",
    "reducers.machine": "the job runs on this machine",
    "reducers.disk": "the job runs on this machine",
    "limits.queue": "this machine has no queue",
    "limits.spot": "this machine is not preempted",
    "image.repository": "no image is pushed",
}
_NO_IMAGE = "processes use the Python of this machine, without an image"

COMPOSE = TargetInfo(
    name="compose",
    title="docker compose on this machine",
    target="rsctl.targets.local.compose:TARGET",
    options="rsctl.job.options:ComposeOptions",
    fetched_schemes=frozenset({"gs", "s3"}),
    input_modes=frozenset({"mount", "copy", "shards"}),
    refused=_REFUSED,
    honoured=frozenset({"chief", "roles", "profile"}),
    unused=_UNUSED,
    needs=frozenset({"docker"}),
)
PROCESS = TargetInfo(
    name="process",
    title="plain processes on this machine",
    target="rsctl.targets.local.process:TARGET",
    options="rsctl.job.options:ProcessOptions",
    fetched_schemes=frozenset({"gs", "s3"}),
    input_modes=frozenset({"mount", "copy", "shards"}),
    refused=_REFUSED,
    honoured=frozenset({"chief", "roles", "profile"}),
    unused={
        **_UNUSED,
        "image.uri": _NO_IMAGE,
        "image.base": _NO_IMAGE,
        "image.dockerfile": _NO_IMAGE,
        "image.env": f"{_NO_IMAGE}; set the script's variables in run.env",
        "image.run": f"{_NO_IMAGE}; run the commands on this machine if the job needs them",
        "image.platform": _NO_IMAGE,
        "image.python": f"{_NO_IMAGE}; install the requirements into that Python",
        "image.secrets": _NO_IMAGE,
        "image.apt": _NO_IMAGE,
        "image.transport": _NO_IMAGE,
    },
    needs=frozenset({"torch"}),
)
