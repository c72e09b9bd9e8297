"""NCCL's network plugin by NCCL's own rules: its name, the file, and whether it loads.

The rules follow NCCL's source, src/plugin/net.cc and src/plugin/plugin_open.cc.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

from rsctl.node.check import child
from rsctl.node.check.finding import Finding
from rsctl.node.check.loader import Loader
from rsctl.node.check.nccl import plugin_versions

_DEFAULT_NAME = "libnccl-net.so"
_DRIVER = ("libcuda.so.1", "libnvidia-ml.so.1")
_PROBE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "probe.py")


class Plugin(NamedTuple):
    """The file that NCCL takes, and the versions N of the `ncclNetPlugin_vN` that it exports."""

    path: str
    versions: frozenset[int]


class PluginSearch(NamedTuple):
    """The plugin, if there is one that can be used, and the findings about it.

    `is_there` holds also for one that cannot be loaded.
    """

    plugin: Plugin | None
    findings: list[Finding]
    is_there: bool = True


_NOTHING = PluginSearch(None, [], is_there=False)


def plugin_names(environ: Mapping[str, str]) -> list[str]:
    """The names under which NCCL looks for a plugin, in order; none if that is turned off."""
    given = environ.get("NCCL_NET_PLUGIN")
    if given is None:
        return [_DEFAULT_NAME]
    names: list[str] = []
    for name in filter(None, given.split(",")) if given.lower() != "none" else ():
        is_whole = "/" in name or (name.startswith("lib") and name.endswith(".so"))
        names += [name] if is_whole else [name, f"libnccl-net-{name}.so"]
    return names


def find_plugin(
    environ: Mapping[str, str], loader: Loader, severity: str, seconds: float
) -> PluginSearch:
    """Load NCCL's plugin in a separate process, within `seconds`.

    `severity` is the severity of a plugin that cannot be used.
    """
    names = plugin_names(environ)
    files = {name: loader.find(name) for name in names}
    if not names:
        return _NOTHING
    ended = child.run([sys.executable, "-I", "-S", _PROBE, str(os.getpid()), *names], seconds)
    if ended.returncode != 0 or not ended.out:
        name = next((name for name in names if files[name]), names[0])
        return PluginSearch(None, [_unloadable(_first(files, name), ended, severity)])
    answer = json.loads(ended.out)
    if "path" in answer:
        plugin = Plugin(answer["path"], frozenset(answer["versions"]))
        return PluginSearch(plugin, _doubled(answer["name"], plugin.path, files, severity))
    for name, reason in answer["errors"].items():
        if not _is_absent(name, reason):
            path = _first(files, name)
            plain = _refused(path, reason, loader, severity)
            return plain._replace(findings=plain.findings + _doubled(name, path, files, severity))
    return _NOTHING


def _refused(path: str, reason: str, loader: Loader, severity: str) -> PluginSearch:
    """Why a file does not load. The GPU's driver comes with the machine, not the image."""
    lacking = [name for name in _DRIVER if reason.startswith(f"{name}: ")]
    others = [name for name in loader.missing(path) if name not in _DRIVER] if lacking else []
    if lacking and not others:
        message = (
            f"{path} needs {lacking[0]}, part of the GPU driver, which this machine does not have"
        )
        remedy = "No action is needed: on a node with a GPU it is loaded before the job begins."
        note = Finding("note", "driver-missing", message, remedy)
        return PluginSearch(Plugin(path, plugin_versions(path)), [note])
    if others:
        reason = f"it needs {', '.join(others)}, which no file provides"
    message = f"{path} does not load: {reason}"
    remedy = (
        "Install the missing libraries, or add their folder to the loader's path (ld.so.conf and "
        "ldconfig)."
    )
    return PluginSearch(None, [Finding(severity, "plugin-load", message, remedy)])


def _unloadable(path: str, ended: child.ChildResult, severity: str) -> Finding:
    return Finding(
        severity,
        "plugin-load" if ended.returncode is not None else "plugin-hang",
        f"{path} does not load: a process that tried {ended.how}",
        "Use a version of the plugin that is built for this image's system and CUDA.",
    )


def _doubled(name: str, path: str, files: Mapping[str, list[str]], severity: str) -> list[Finding]:
    others = [file for file in files[name] if os.path.realpath(file) != os.path.realpath(path)]
    if not others:
        return []
    order = ", ".join([path, *others])
    message = f"{name} is more than one file, in the loader's order: {order}; NCCL takes {path}"
    remedy = "Remove all but one, or set NCCL_NET_PLUGIN to the path of the one to use."
    return [Finding(severity, "plugin-doubled", message, remedy)]


def _first(files: Mapping[str, list[str]], name: str) -> str:
    return (files[name] or [name])[0]


def _is_absent(name: str, reason: str) -> bool:
    """Whether the loader found no such file, by the rule of NCCL's tryOpenLib."""
    return reason.startswith(f"{name}: ") and "No such file or directory" in reason
