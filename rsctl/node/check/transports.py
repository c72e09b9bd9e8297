"""The requirements of each transport for an image, as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

FAST_SOCKET, REDUCTION_SERVER = "google-fast-socket", "google-reduction-server"
"""Debian packages of which an image may have one: their plugins have the same name."""


class Outdated(NamedTuple):
    """A setting that does harm today, and why.

    `name` is a variable, with `*` in it a pattern of some; `value` is what does the harm, None for
    anything.
    """

    name: str
    value: str | None
    reason: str

    def matches(self, name: str, value: str) -> bool:
        """Whether a variable with this value is such a setting."""
        return fnmatchcase(name, self.name) and self.value in (None, value.lower())


@dataclass(frozen=True)
class TransportRequirements:
    """The content that an image needs for a transport.

    `plugin` is what NCCL's network plugin is called in sentences; None if none is needed.
    Which one is there shows by `marker`, a text in its file, or else by `package`, the Debian
    package that brings it; `rival` is a package that brings another plugin of the same name.
    `folders` are where its installer puts it. `opens` are libraries that the plugin, if it names
    them, opens by itself when it starts. `module` is what Python must be able to import.
    `outdated` holds for plugins of version `outdated_from` or later.
    """

    plugin: str | None = None
    marker: bytes | None = None
    package: str | None = None
    rival: str | None = None
    folders: tuple[str, ...] = ()
    opens: tuple[str, ...] = ()
    module: str | None = None
    ready: str | None = None
    outdated: tuple[Outdated, ...] = ()
    outdated_from: int = 0
    remedy: str = ""


TRANSPORTS: Mapping[str, TransportRequirements] = {
    "none": TransportRequirements(),
    "efa": TransportRequirements(
        plugin="aws-ofi-nccl",
        marker=b"NET/OFI",
        folders=(
            *("/opt/amazon/ofi-nccl/lib", "/opt/amazon/ofi-nccl/lib64"),
            "/opt/aws-ofi-nccl/install/lib",
        ),
        opens=("libcudart.so",),
        # AWS's advice: doc/efa-env-var.md of aws-ofi-nccl.
        outdated=(
            Outdated("RDMAV_*", None, "do not use it: it can break things on newer kernels"),
            Outdated("NCCL_PROTO", "simple", "it is for versions up to 1.5"),
            Outdated("FI_PROVIDER", "efa", "it is for versions up to 1.5"),
        ),
        # Versions up to 1.5 export ncclNetPlugin_v6 at most.
        outdated_from=7,
        remedy="Install AWS's EFA software, or set image.transport: none.",
    ),
    "fast-socket": TransportRequirements(
        plugin="Google's Fast Socket",
        marker=b"FastSocket",
        package=FAST_SOCKET,
        rival=REDUCTION_SERVER,
        remedy="Install the package google-fast-socket, or set image.transport: none.",
    ),
    "reduction-server": TransportRequirements(
        plugin="Google's Reduction Server plugin",
        package=REDUCTION_SERVER,
        rival=FAST_SOCKET,
        remedy="Install the package google-reduction-server, or set image.transport: none.",
    ),
    "rsctl": TransportRequirements(
        module="rsctl.transport.import_check",
        ready="rsctl's own transport can run here",
        remedy="Build the image with a version of rsctl that has it, or set image.transport: none.",
    ),
}
