"""A batch script's `#SBATCH` options as the request of slurmrestd, which does not read them. Pure.

It has the fields of `job_submit_req` in the API v0.0.42 of Slurm 24.11. So rsctl sends what a plan
shows, by each connection.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rsctl.findings import ExitCode, RsctlError, error

_PREFIX = "#SBATCH "
_SIGNAL = re.compile(r"B:(?P<name>\w+)@(?P<seconds>\d+)")
_SWITCHES = re.compile(r"(?P<count>\d+)(?:@(?P<time>[\d:-]+))?")

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def _number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}


def _text(field: str) -> Callable[[str], dict[str, Any]]:
    return lambda value: {field: value}


def _whole(field: str) -> Callable[[str], dict[str, Any]]:
    return lambda value: {field: int(value)}


def _switches(value: str) -> dict[str, Any]:
    match = _SWITCHES.fullmatch(value)
    if match is None or match["time"]:
        raise ValueError("only a count, without @TIME")
    return {"required_switches": _number(int(match["count"]))}


def _signal(value: str) -> dict[str, Any]:
    match = _SIGNAL.fullmatch(value)
    if match is None:
        raise ValueError("only B:NAME@SECONDS")
    return {
        "kill_warning_signal": match["name"],
        "kill_warning_delay": _number(int(match["seconds"])),
        "kill_warning_flags": ["BATCH_JOB"],
    }


def _memory(value: str) -> dict[str, Any]:
    if not re.fullmatch(r"\d+M", value):
        raise ValueError("only MiB, such as 2048M")
    return {"memory_per_node": _number(int(value[:-1]))}


_FIELDS: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "job-name": _text("name"),
    "comment": _text("comment"),
    "output": _text("standard_output"),
    "open-mode": lambda value: {"open_mode": [value.upper()]},
    "requeue": lambda _: {"requeue": True},
    "no-requeue": lambda _: {"requeue": False},
    "time": lambda value: {"time_limit": _number(int(value))},
    "nodes": _text("nodes"),
    "ntasks-per-node": _whole("tasks_per_node"),
    "gpus-per-node": lambda value: {"tres_per_node": f"gres/gpu:{value}"},
    "gres": lambda value: {"tres_per_node": ",".join(f"gres/{each}" for each in value.split(","))},
    "cpus-per-task": _whole("cpus_per_task"),
    "exclusive": lambda _: {"shared": ["none"]},
    "partition": _text("partition"),
    "account": _text("account"),
    "qos": _text("qos"),
    "reservation": _text("reservation"),
    "constraint": _text("constraints"),
    "exclude": lambda value: {"excluded_nodes": _split_nodes(value)},
    "nodelist": lambda value: {"required_nodes": _split_nodes(value)},
    "mem": _memory,
    "switches": _switches,
    "segment": lambda value: {"segment_size": _number(int(value))},
    "licenses": _text("licenses"),
    "signal": _signal,
    "nice": _whole("nice"),
    "dependency": _text("dependency"),
    "mail-user": _text("mail_user"),
    "mail-type": lambda value: {"mail_type": value.split(",")},
    "wckey": _text("wckey"),
    "network": _text("network"),
}


def _split_nodes(value: str) -> list[str]:
    """Names with commas between, of which those in brackets belong to a name."""
    return re.findall(r"[^,\[]+(?:\[[^\]]*\][^,\[]*)*", value)


def options_of(script: str) -> list[list[str]]:
    """The `#SBATCH` options of each component of a script."""
    components: list[list[str]] = [[]]
    for line in script.splitlines():
        if line and not line.startswith("#"):
            break
        if not line.startswith(_PREFIX):
            continue
        option = shlex.split(line[len(_PREFIX) :])[0]
        if option == "hetjob":
            components.append([])
        else:
            components[-1].append(option)
    return components


def submission(script: str, environ: Mapping[str, str], folder: str) -> dict[str, Any]:
    """The body of `job/submit`. Raises RsctlError for an option without a field of the API.

    The environment must not be empty, and has a PATH: there is no login shell on the other side.
    """
    components = [_component(options) for options in options_of(script)]
    variables = {"PATH": _PATH, **environ}
    for component in components:
        component["current_working_directory"] = folder
        component["environment"] = [f"{name}={value}" for name, value in variables.items()]
    if len(components) == 1:
        return {"script": script, "job": components[0]}
    return {"script": script, "jobs": components}


def _component(options: Iterable[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for option in options:
        name, _, value = option.lstrip("-").partition("=")
        try:
            found = _FIELDS[name](value)
            if "tres_per_node" in fields.keys() & found.keys():
                found = {"tres_per_node": f"{fields['tres_per_node']},{found['tres_per_node']}"}
            fields |= found
        except (KeyError, ValueError) as problem:
            reason = f" with this value ({problem})" if isinstance(problem, ValueError) else ""
            message = f"slurmrestd has no field for the option {option!r} of sbatch{reason}"
            key = f"targets.slurm.{'switches' if name == 'switches' else 'sbatch'}"
            remedy = f"remove it from {key}, or use another targets.slurm.connection"
            finding = error("sbatch", message, remedy, key)
            raise RsctlError(ExitCode.USAGE, finding) from None
    return fields
