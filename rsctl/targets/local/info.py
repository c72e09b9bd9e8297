"""The targets on this machine, as data."""

from __future__ import annotations

from rsctl.target_info import TargetInfo, Unsupported

_REFUSED = {
    "comm.backend": Unsupported(
        "this machine has no SageMaker library", "set comm.backend: auto", frozenset({"smddp"})
    ),
    "limits.cost": Unsupported("machines of one's own have no price", "remove limits.cost"),
    "run.package": Unsupported(
        "no vendor's container installs a package here, nor does rsctl into your Python",
        "set image.source: FOLDER in its place, or rehearse the cloud's job: --rehearse",
    ),
}
_UNUSED = {
    "workers.machine": "it runs on this machine",
    "workers.disk": "it runs on this machine",
    "chief.machine": "it runs on this machine",
    "chief.disk": "it runs on this machine",
    "roles.NAME.machine": "it runs on this machine",
    "roles.NAME.disk": "it runs on this machine",
    "reducers.machine": "it runs on this machine",
    "reducers.disk": "it runs on this machine",
    "limits.queue": "nothing queues on this machine",
    "limits.spot": "this machine is not preempted",
    "image.repository": "nothing is pushed",
}
_NO_IMAGE = "processes run in this Python, with no image"

COMPOSE = TargetInfo(
    name="compose",
    title="docker compose on this machine",
    target="rsctl.targets.local.compose:TARGET",
    options="rsctl.job.options:ComposeOptions",
    fetched_schemes=frozenset({"gs", "s3"}),
    input_modes=frozenset({"mount", "copy", "shards"}),
    refused=_REFUSED,
    honoured=frozenset({"chief", "roles"}),
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
    honoured=frozenset({"chief", "roles"}),
    unused={
        **_UNUSED,
        "image.uri": _NO_IMAGE,
        "image.base": _NO_IMAGE,
        "image.dockerfile": _NO_IMAGE,
        "image.env": f"{_NO_IMAGE}; give the script's variables as run.env",
        "image.run": f"{_NO_IMAGE}; run the commands on this machine where it needs them",
        "image.platform": _NO_IMAGE,
        "image.python": f"{_NO_IMAGE}; install the requirements into it",
        "image.apt": _NO_IMAGE,
        "image.transport": _NO_IMAGE,
    },
    needs=frozenset({"torch"}),
)
