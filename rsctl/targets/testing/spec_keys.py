"""For each key of the spec a value that a target has to notice, for the tests of rule one.

A target honours a key, which changes what it plans, or it refuses the key, or it says that it does
not use the key. `SAMPLES` has a change for every key of `rsctl.job.job.Job` but those of
`OF_RSCTL`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Sample(NamedTuple):
    """A key with a value other than its default.

    `common` is what the job has besides, with and without it. A value may be a text with the name
    of a field of `Values` in braces, alone.
    """

    key: str
    value: Any
    common: Mapping[str, Any] = {}


class Values(NamedTuple):
    """Values that depend on the target and the test's folder."""

    folder: str
    image: str
    other_image: str
    other_repository: str
    other_machine: str
    accelerator: str
    location: str
    other_location: str


FILES = {
    "train.py": "",
    "other.py": "",
    "requirements.txt": "msgspec\n",
    "Dockerfile": "FROM python:3.12-slim\n",
    "package/setup.py": "from setuptools import setup\nsetup(name='train', version='1')\n",
    "package/train.py": "",
    "source2/train.py": "",
}
"""Files of the test's folder, which the samples speak of."""

OF_RSCTL = {
    "name": "rsctl names the run by it",
    "target": "it names the target",
    "targets": "the target's own options have a test of their own",
    "bench": "a bench runs its repetitions by it",
    "tracking": "rsctl sends the run's metrics there",
    "notify": "rsctl sends messages about the run there",
    "watch": "rsctl judges the metrics that it reads by it",
    "metrics": "rsctl reads them from the log, which has a test of its own",
    "matrix": "rsctl makes a job of each cell",
    "gate": "rsctl gate judges by it",
    "model": "rsctl advise works with it",
}
"""Keys that no target must honour, with the part of rsctl that does."""

_SCRIPT = {"run": {"command": None, "script": "train.py"}}
_MODULE_ALONE = {"run": {"command": None, "module": "train", "launcher": "none"}}
_IMAGE = {"image": {"uri": "{image}", "base": None, "source": None}}
_RANKS = {"run": {"command": None, "script": "train.py", "launcher": "torchrun"}}
_SEVERAL = {**_RANKS, "workers": {"count": 2}}
_REDUCED = {**_SEVERAL, "reducers": {"count": 1}}
_LOCAL = {**_SEVERAL, "comm": {"local_steps": 8}}
_PROFILED = {**_RANKS, "profile": {"tool": "torch"}}
_ROLE = {"workers": {"count": 2}, "roles": {"data": {"command": ["true"]}}}
_INPUT = {"inputs": {"data": {"uri": "{location}"}}}

BUILT = "built"
"""The key of a sample's `common` that asks for an image which rsctl builds."""

SAMPLES = (
    Sample("run.script", "other.py", _SCRIPT),
    Sample("run.module", "other", {"run": {"command": None, "module": "train"}}),
    Sample("run.command", ["python3", "-c", "pass"]),
    Sample("run.package", "{folder}/package", {**_MODULE_ALONE, **_IMAGE}),
    Sample("run.args", ["--epochs", "3"], _SCRIPT),
    Sample("run.env", {"SUITE": "1"}),
    Sample("run.launcher", "torchrun", _SCRIPT),
    Sample("run.launcher", "mpi", _SCRIPT),
    Sample("run.launcher", "none", {"run": {"command": ["python3", "--version"]}}),
    Sample("image.uri", "{other_image}", _IMAGE),
    Sample("image.base", "python:3.13-slim", {BUILT: True}),
    Sample("image.dockerfile", "{folder}/Dockerfile", {BUILT: True, "image": {"base": None}}),
    Sample("image.env", {"SUITE": "1"}, {BUILT: True}),
    Sample("image.run", ["true"], {BUILT: True}),
    Sample("image.python", "{folder}/requirements.txt", {BUILT: True}),
    Sample(
        "image.secrets",
        ["PIP_INDEX_URL"],
        {BUILT: True, "image": {"python": "{folder}/requirements.txt"}},
    ),
    Sample("image.apt", ["git"], {BUILT: True}),
    Sample("image.source", "{folder}/source2", {BUILT: True, **_SCRIPT}),
    Sample("image.transport", "rsctl", {BUILT: True, **_RANKS}),
    Sample("image.repository", "{other_repository}", {BUILT: True}),
    Sample("image.platform", "linux/arm64", {BUILT: True}),
    Sample("workers.count", 2),
    Sample("workers.accelerator", "{accelerator}"),
    Sample("workers.machine", "{other_machine}"),
    Sample("workers.processes", 2, _RANKS),
    Sample("workers.disk", "300GB"),
    Sample("chief.machine", "{other_machine}", _SEVERAL),
    Sample("chief.accelerator", "{accelerator}", _SEVERAL),
    Sample("chief.args", ["--chief"], _SEVERAL),
    Sample("chief.env", {"SUITE": "1"}, _SEVERAL),
    Sample("chief.disk", "300GB", _SEVERAL),
    Sample("reducers.count", 1, _SEVERAL),
    Sample("reducers.machine", "{other_machine}", _REDUCED),
    Sample("reducers.disk", "300GB", _REDUCED),
    Sample("reducers.env", {"SUITE": "1"}, _REDUCED),
    Sample("roles", {"data": {"command": ["true"]}}, {"workers": {"count": 2}}),
    Sample("roles.data.count", 2, _ROLE),
    Sample("roles.data.machine", "{other_machine}", _ROLE),
    Sample("roles.data.accelerator", "{accelerator}", _ROLE),
    Sample("roles.data.disk", "300GB", _ROLE),
    Sample("roles.data.image", "{other_image}", _ROLE),
    Sample("roles.data.script", "other.py", {**_ROLE, "roles": {"data": {"script": "train.py"}}}),
    Sample("roles.data.module", "other", {**_ROLE, "roles": {"data": {"module": "train"}}}),
    Sample("roles.data.command", ["false"], _ROLE),
    Sample("roles.data.args", ["--data"], _ROLE),
    Sample("roles.data.env", {"SUITE": "1"}, _ROLE),
    Sample("roles.data.ends", "by-itself", _ROLE),
    Sample("comm.backend", "gloo", _SEVERAL),
    Sample("comm.bucket_mb", 7, _SEVERAL),
    Sample("comm.compression", "bf16", _REDUCED),
    Sample("comm.compression", "int8", _REDUCED),
    Sample("comm.compression", "fp8", _REDUCED),
    Sample("comm.hook", "package.hooks:reduce", _SEVERAL),
    Sample("comm.local_steps", 8, _REDUCED),
    Sample("comm.outer.optimizer", "sgd", _LOCAL),
    Sample("comm.outer.lr", 0.5, _LOCAL),
    Sample("comm.outer.momentum", 0.5, _LOCAL),
    Sample("comm.fragments", 4, _LOCAL),
    Sample("comm.quorum", 1, _LOCAL),
    Sample("comm.on_reducer_loss", "fallback", _REDUCED),
    Sample("comm.debug", "off", _SEVERAL),
    Sample("inputs", {"data": "{location}"}),
    Sample("inputs.data.uri", "{other_location}", _INPUT),
    Sample("inputs.data.mode", "copy", _INPUT),
    Sample("inputs.data.mode", "stream", _INPUT),
    Sample("outputs", "{location}"),
    Sample("checkpoints", "{location}"),
    Sample("profile", {"tool": "py-spy"}, _RANKS),
    Sample("profile.tool", "py-spy", _PROFILED),
    Sample("profile.ranks", [1], {**_PROFILED, "workers": {"count": 2}}),
    Sample("profile.steps", "2..3", _PROFILED),
    Sample("limits.timeout", "1h"),
    Sample("limits.queue", "30m"),
    Sample("limits.retries", 2),
    Sample("limits.restarts", 2),
    Sample("limits.grace", "1m", {"limits": {"timeout": "1h"}}),
    Sample("limits.stop_signal", "USR1"),
    Sample("limits.restarts_in_place", 2, _RANKS),
    Sample("limits.keep", "10m"),
    Sample("limits.spot", True),
    Sample("limits.stall", "5m"),
    Sample("limits.on_stall", "fail"),
    Sample("checks.network", True, _SEVERAL),
    Sample("checks.gpu", True),
    Sample("checks.cpu", True),
    Sample("limits.cost", "50 USD", {"limits": {"timeout": "1h"}}),
)


def with_value(keys: Mapping[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    """The keys of a job file with another value at a key path."""
    name, *rest = path
    inner = keys.get(name)
    below = inner if isinstance(inner, Mapping) else {}
    return {**keys, name: with_value(below, rest, value) if rest else value}


def merged(keys: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a job file with others over them, block by block."""
    result = dict(keys)
    for name, value in others.items():
        known = result.get(name)
        both = isinstance(known, Mapping) and isinstance(value, Mapping)
        result[name] = merged(known, value) if both else value  # type: ignore[arg-type]
    return result


def filled(value: Any, values: Values) -> Any:
    """A sample's value with the texts of this target and folder."""
    if isinstance(value, str):
        return value.format_map(values._asdict()) if "{" in value else value
    if isinstance(value, Mapping):
        return {name: filled(each, values) for name, each in value.items()}
    return value
