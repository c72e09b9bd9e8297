"""The choice of an image's gradient transport. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rsctl.data import containers_folder
from rsctl.findings import Finding, error, note, warning
from rsctl.job.job import Job
from rsctl.target_info import TargetInfo, all_targets, target_info

FRAGMENTS: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "reduction-server": ("reduction-server", "google-plugin"),
    "fast-socket": ("fast-socket", "google-plugin"),
    "efa": ("efa",),
    "rsctl": (),
}
"""By transport, the fragments in `containers/` that install it, in order."""


NEURON_EXCHANGE = "Trainium exchanges gradients with Neuron's own library"
"""Why neither a plugin of NCCL nor a reducer is of use to such workers: torch-neuronx compiles the
collectives into the graph, and libnccom carries them. Source: AWS Neuron's documentation."""


class TransportChoice(NamedTuple):
    """The transport of an image, and findings about the choice."""

    transport: str
    findings: list[Finding]


def choose_transport(job: Job, target: str) -> TransportChoice:
    """The meaning of `image.transport` on a target; an impossible one is among the findings."""
    wanted = job.image.transport
    if wanted == "auto":
        transport, why = _automatic(job, target_info(target))
        chosen = note("transport", f"transport {transport}: {why}", None, "image.transport")
        return TransportChoice(transport, [chosen, *_unbuilt(job, transport)])
    info = target_info(target)
    if wanted in info.transports:
        return TransportChoice(wanted, [*_unproven(job, wanted), *_unbuilt(job, wanted)])
    only = " and ".join(sorted(i.name for i in all_targets() if wanted in i.transports))
    if not info.is_managed:  # the file is one for a cloud, and is rehearsed here
        unused = f"target {target} builds without {wanted}, which works only on {only}"
        return TransportChoice("none", [note("unused", unused, None, "image.transport")])
    message = f"{wanted} works on {only}, not on {target}"
    remedy = "set image.transport: auto, which chooses by target"
    return TransportChoice("none", [error("unsupported", message, remedy, "image.transport")])


def fragment(name: str) -> str:
    """The instructions of a fragment, without the comment at its head, which is for its reader."""
    lines = (containers_folder() / f"{name}.dockerfile").read_text().splitlines(keepends=True)
    while lines and lines[0].startswith("#"):
        lines.pop(0)
    return f"# {name}: see containers/{name}.dockerfile\n" + "".join(lines)


def _automatic(job: Job, info: TargetInfo) -> tuple[str, str]:
    """The transport for a target, and the reason."""
    accelerator = job.workers.accelerator
    has_accelerators = accelerator is not None
    if not job.run.is_launched:
        return "none", "launcher none leaves the image unchanged"
    if job.comm.backend == "rsctl":
        return "rsctl", "comm.backend requires it"
    if accelerator and accelerator.is_neuron and not job.reducers.count:
        return "none", f"{NEURON_EXCHANGE}, which AWS's Neuron images have"
    if job.reducers.count and job.workers.count > 1:
        if info.transport_with_reducers and has_accelerators:
            return info.transport_with_reducers
        return "rsctl", "the open transport, which supports reducers on all targets"
    if info.transport_with_accelerators and has_accelerators and job.workers.count > 1:
        return info.transport_with_accelerators
    if job.workers.count == 1:
        return "none", "a single node exchanges no gradients"
    return "none", "the base image determines how gradients are exchanged"


def _unbuilt(job: Job, transport: str) -> list[Finding]:
    """Google's packages are only for amd64; there is no known build of AWS's installer for Arm."""
    if job.image.platform != "linux/arm64" or not FRAGMENTS[transport]:
        return []
    if transport == "efa":
        message = "the installation of EFA's software has not been tested for linux/arm64"
        remedy = "check the output of the build's last check, or set image.transport: none"
        return [warning("arm", message, remedy, "image.transport")]
    message = f"{transport} is installed from packages for linux/amd64"
    remedy = "set image.transport: rsctl or none, or image.platform: linux/amd64"
    return [error("unsupported", message, remedy, "image.transport")]


def _unproven(job: Job, transport: str) -> list[Finding]:
    """The proof of a transport is rsctl's, and launcher none leaves rsctl out."""
    if transport == "none" or job.run.is_launched:
        return []
    message = f"launcher none leaves rsctl out of the image, so {transport} cannot be verified"
    remedy = "use launcher once or torchrun, or an image.uri that contains the transport"
    return [error("unsupported", message, remedy, "image.transport")]
