"""Verifies that NCCL will use a transport here, by NCCL's and the loader's own rules.

Otherwise the failure would be silent: without its plugin NCCL continues with plain sockets, and the
job is slow and expensive.
"""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import rsctl_start
from rsctl.node.check import child, elf
from rsctl.node.check.finding import Finding
from rsctl.node.check.loader import Loader
from rsctl.node.check.nccl import Nccl, Torch, find_nccl, find_torch
from rsctl.node.check.packages import installed
from rsctl.node.check.plugins import Plugin, find_plugin, plugin_names
from rsctl.node.check.transports import FAST_SOCKET, REDUCTION_SERVER, TransportRequirements
from rsctl.node.settings import number

_SECONDS = 300
_IMPORT = f"""
import sys
sys.path[0] = {os.path.dirname(rsctl_start.__file__)!r}
import rsctl_start
del sys.path[0]
rsctl_start.keep_to_own_path()
import importlib
for name in sys.argv[1:]:
    if importlib.import_module(name).__file__ is None:
        sys.exit(f"{{name}} is a folder without code")
print("imported")
"""


class Proof(NamedTuple):
    """The findings, and what was proven, as text."""

    findings: list[Finding]
    proven: str


def time_limit(environ: Mapping[str, str]) -> float:
    """How many seconds one library or module may take to load. Raises LaunchError."""
    return number(environ, "RSCTL_CHECK_SECONDS", _SECONDS)


def prove(transport: TransportRequirements, environ: Mapping[str, str]) -> Proof:
    """Check all requirements of the transport. Nothing is changed, and torch is not imported.

    Raises LaunchError if the environment's time limit is not a number.
    """
    seconds, loader, torch = time_limit(environ), Loader(environ), find_torch()
    nccl = find_nccl(torch, loader)
    severity = "error" if transport.plugin else "warning"
    found = find_plugin(environ, loader, severity, seconds)
    packages = installed((FAST_SOCKET, REDUCTION_SERVER), environ)
    findings = [*found.findings, *_exclusive(packages, severity)]
    if not found.is_there:
        findings += _missing(transport, environ)
    if found.plugin:
        findings += _compare(found.plugin, nccl, torch, transport, severity)
        findings += _identify(found.plugin, transport, packages)
        findings += _opened(found.plugin, transport, loader)
        findings += _outdated(found.plugin, transport, environ)
    if transport.module:
        findings += _module(transport.module, transport, seconds)
    return Proof(findings, transport.ready or _format_proof(found.plugin, nccl, torch))


def import_failure(modules: Iterable[str], seconds: float) -> str | None:
    """Why these modules cannot be imported, in a process of its own; None if they can."""
    ended = child.run([sys.executable, "-c", _IMPORT, *modules], seconds)
    return None if ended.out.endswith("imported\n") else ended.reason


def _exclusive(packages: set[str], severity: str) -> list[Finding]:
    if len(packages) < 2:
        return []
    message = f"{' and '.join(sorted(packages))} are both installed, with plugins of the same name"
    return [Finding(severity, "plugin-doubled", message, "Remove one of the two packages.")]


def _missing(transport: TransportRequirements, environ: Mapping[str, str]) -> list[Finding]:
    if transport.plugin is None:
        return []
    names = plugin_names(environ)
    if not names:
        value = environ["NCCL_NET_PLUGIN"]
        message = f"NCCL_NET_PLUGIN={value} keeps NCCL from loading {transport.plugin}"
        return [Finding("error", "plugin-missing", message, "Do not set NCCL_NET_PLUGIN.")]
    message = f"NCCL would not find {transport.plugin}: no file has the name {' or '.join(names)}"
    misplaced = [
        path
        for folder in transport.folders
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), "libnccl-net*.so")))
    ]
    if not misplaced:
        return [Finding("error", "plugin-missing", message, transport.remedy)]
    folder = os.path.dirname(misplaced[0])
    remedy = f"Add {folder} to the loader's path (ld.so.conf and ldconfig), with such a name in it."
    message += f"; {misplaced[0]} exists, but not on the loader's path under that name"
    return [Finding("error", "plugin-missing", message, remedy)]


def _compare(
    plugin: Plugin,
    nccl: Nccl | None,
    torch: Torch | None,
    transport: TransportRequirements,
    severity: str,
) -> list[Finding]:
    """Whether the plugin and NCCL have a version of their interface in common."""
    if nccl is None:
        if transport.plugin is None:
            return []
        lack = f"torch {torch.version} contains no NCCL" if torch else "the image contains no NCCL"
        message = f"{lack}, so the versions of {plugin.path} could not be compared"
        return [
            Finding("note", "nccl-missing", message, "A job on GPUs needs a torch build for CUDA.")
        ]
    if plugin.versions & nccl.takes:
        return []
    message = f"{plugin.path} has {_span(plugin.versions)} of ncclNetPlugin, and "
    message += f"{_owner(nccl, torch)} takes {_span(nccl.takes)}"
    remedy = "Use a version of the plugin that is built for this NCCL, or an older or newer torch."
    return [Finding(severity, "plugin-abi", message, remedy)]


def _identify(
    plugin: Plugin, transport: TransportRequirements, packages: set[str]
) -> list[Finding]:
    if transport.plugin is None:
        message = (
            f"the base image contains a network plugin for NCCL, {plugin.path}, which rsctl keeps"
        )
        return [Finding("note", "plugin-kept", message)]
    if packages == {transport.rival}:
        reason = f"the package {transport.rival} installs a plugin of the same name"
    elif transport.marker and not _has(plugin.path, re.escape(transport.marker)):
        reason = f"the file does not contain {transport.marker.decode()}"
    elif not transport.marker and transport.package and transport.package not in packages:
        reason = f"the package {transport.package} is not installed"
    else:
        return []
    message = f"{plugin.path} is not {transport.plugin}: {reason}"
    return [Finding("error", "plugin-foreign", message, transport.remedy)]


def _opened(plugin: Plugin, transport: TransportRequirements, loader: Loader) -> list[Finding]:
    return [
        Finding(
            "warning",
            "library-missing",
            f"{plugin.path} opens {name} when it starts, and no file has that name",
            f"Link {name} to one of its existing versions, on the loader's path.",
        )
        for name in transport.opens
        if _has(plugin.path, rb"\0" + re.escape(name.encode()) + rb"\0")
        and not loader.find(name, needed_by=plugin.path)
    ]


def _outdated(
    plugin: Plugin, transport: TransportRequirements, environ: Mapping[str, str]
) -> list[Finding]:
    if max(plugin.versions, default=0) < transport.outdated_from:
        return []
    return [
        Finding(
            "warning",
            "environment-outdated",
            f"{name}={value} is set for {transport.plugin}: {setting.reason}",
            f"Remove {name} from run.env, or from the base image's environment.",
        )
        for setting in transport.outdated
        for name, value in sorted(environ.items())
        if setting.matches(name, value)
    ]


def _module(module: str, transport: TransportRequirements, seconds: float) -> list[Finding]:
    failure = import_failure([module], seconds)
    if failure is None:
        return []
    message = f"Python cannot import {module}: {failure}"
    return [Finding("error", "transport-missing", message, transport.remedy)]


def _format_proof(plugin: Plugin | None, nccl: Nccl | None, torch: Torch | None) -> str:
    if plugin is None:
        return "NCCL has no network plugin"
    if nccl is None:
        return f"{plugin.path} has {_span(plugin.versions)} of ncclNetPlugin"
    has = f"{plugin.path} has ncclNetPlugin_v{max(plugin.versions & nccl.takes, default=0)}"
    return f"{has}, {_owner(nccl, torch)} takes {_span(nccl.takes)}"


def _owner(nccl: Nccl, torch: Torch | None) -> str:
    return f"NCCL {nccl.version} of " + (f"torch {torch.version}" if torch else nccl.path)


def _span(versions: frozenset[int]) -> str:
    """Versions as text: v6 to v10, or those that there are."""
    ordered = sorted(versions)
    if not ordered:
        return "no version"
    if len(ordered) > 2 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"v{ordered[0]} to v{ordered[-1]}"
    return ", ".join(f"v{version}" for version in ordered)


def _has(path: str, pattern: bytes) -> bool:
    return next(elf.search(path, b"(" + pattern + b")"), None) is not None
