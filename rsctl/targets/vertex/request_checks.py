"""Checks of the request as it is sent, overlay included: values that the service refuses or
ignores. Pure.

Sources, all of the platform's documentation: boot disks and the network of RDMA machines,
"Configure compute resources"; reservations, "Use reservations with training"
and Compute Engine's "Consume reservations"; persistent
resources, "Overview of persistent resources"; NFS, "Mount an NFS share"; TPUs, "Train with TPU
VMs"; peering, "Use private IP for training"; references to variables, `EnvVar` in the API. Users
have seen the refusals of apostrophes and of long arguments (tests/fixtures/real/cloud_errors.json).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rsctl.estimate.catalog import Machine, load
from rsctl.findings import Finding, error, note, warning
from rsctl.job.job import Job
from rsctl.targets.launch_command import script_arguments, unlaunched
from rsctl.targets.vertex.catalog import has_tpus, rules
from rsctl.targets.vertex.options import vertex_options
from rsctl.targets.vertex.pools import (
    Roles,
    count_of,
    key_of_role,
    roles_of,
    specs_of,
    variables_of,
)
from rsctl.targets.vertex.references import REFERENCE
from rsctl.targets.vertex.tpus import several_replicas

_OPTIONS = "targets.vertex"
_RESERVED = ("ANY_RESERVATION", "SPECIFIC_RESERVATION")
_APOSTROPHE = re.compile(r"(?<!\\)'")
_OWN = ("AIP_", "CLOUD_ML_")
"""The beginnings of most names of Vertex AI's own variables."""
_PLUGINS = {
    "tcpx": "us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpx/nccl-plugin-gpudirecttcpx-dev",
    "tcpxo": "us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpxo/nccl-plugin-gpudirecttcpxo-dev",
}
"""Google's images of the plugins for NCCL: GoogleCloudPlatform/container-engine-accelerators."""


def request_findings(job: Job, body: dict[str, Any]) -> Iterator[Finding]:
    """The mistakes in a CustomJob, by the keys of the spec that set its fields."""
    spec, roles = body.get("jobSpec"), roles_of(body)
    spec = spec if isinstance(spec, dict) else {}
    pools = [(number, pool) for number, pool in enumerate(specs_of(body)) if pool]
    yield from _disks(pools, roles)
    if any(_is_reserved(pool) for _, pool in pools):
        yield from _reservation(spec)
    if spec.get("persistentResourceId"):
        yield _persistent(job, str(spec["persistentResourceId"]))
    if any(pool.get("nfsMounts") for _, pool in pools):
        yield from _nfs(spec)
    yield from _tpus(pools)
    if spec.get("network"):
        yield from _peering([_mapping(pool, "machineSpec") for _, pool in pools])
    yield from _texts(job, [_mapping(pool, "containerSpec") for _, pool in pools])
    yield from _network(job, pools)


def _mapping(parent: dict[str, Any], name: str) -> dict[str, Any]:
    value = parent.get(name)
    return value if isinstance(value, dict) else {}


def _strings(parent: dict[str, Any], name: str) -> list[str]:
    value = parent.get(name)
    return [str(each) for each in value] if isinstance(value, list) else []


def _machine(pool: dict[str, Any]) -> Machine | None:
    return load("vertex").machines.get(str(_mapping(pool, "machineSpec").get("machineType")))


def _disks(pools: list[tuple[int, dict[str, Any]]], roles: Roles) -> Iterator[Finding]:
    """Boot disks that machines do not support, once for each machine and type."""
    wrong: dict[tuple[str, str], list[str]] = {}
    for number, pool in pools:
        kind, machine = _mapping(pool, "diskSpec").get("bootDiskType"), _machine(pool)
        if kind is not None and machine is not None and kind not in (machine.disks or [kind]):
            own = key_of_role(roles[min(number, len(roles) - 1)]).removeprefix("roles.")
            role = "chief" if number == 0 else own
            wrong.setdefault((machine.name, str(kind)), []).append(role)
    for (name, kind), named in wrong.items():
        disks = load("vertex").machines[name].disks
        each = ", ".join(f"{role}: {disks[0]}" for role in named)
        message = f"{name} supports only the boot disk {' or '.join(disks)}, not {kind}"
        remedy = f"remove it, which selects {disks[0]}, or set one for each pool: "
        remedy += f"boot_disk: {{{each}}}"
        yield error("disk", message, remedy, f"{_OPTIONS}.boot_disk")


def _is_reserved(pool: dict[str, Any]) -> bool:
    affinity = _mapping(_mapping(pool, "machineSpec"), "reservationAffinity")
    return affinity.get("reservationAffinityType") in _RESERVED


def _reservation(spec: dict[str, Any]) -> Iterator[Finding]:
    path = f"{_OPTIONS}.reservation"
    kind = {"FLEX_START": "flex start does", "SPOT": "spot machines do"}.get(
        str(_mapping(spec, "scheduling").get("strategy"))
    )
    if kind:
        message = f"{kind} not use machines of a reservation"
        remedy = "remove it, or set targets.vertex.capacity: standard"
        yield error("reservation", message, remedy, path)
    if spec.get("persistentResourceId"):
        message = "a job on a persistent resource uses that resource's machines, reserved or not"
        remedy = "remove it, or remove targets.vertex.persistent_resource"
        yield error("reservation", message, remedy, path)


def _persistent(job: Job, name: str) -> Finding:
    message = (
        "its machines are billed until it is deleted, with and without jobs: neither the cost of "
        "the plan nor limits.cost includes that; type and disks of the machines must be the same "
        "as here"
    )
    region = vertex_options(job).first_region
    remedy = f"delete it after use: `gcloud ai persistent-resources delete {name}"
    path = f"{_OPTIONS}.persistent_resource"
    return note("persistent-resource", message, f"{remedy} --region={region}`", path)


def _nfs(spec: dict[str, Any]) -> Iterator[Finding]:
    if spec.get("network") or spec.get("pscInterfaceConfig"):
        return
    message = "an NFS server is in your network, and the job is not connected to a network"
    remedy = f"set {_OPTIONS}.network, or {_OPTIONS}.psc"
    yield error("mount", message, remedy, f"{_OPTIONS}.nfs")


def _peering(machines: list[dict[str, Any]]) -> Iterator[Finding]:
    without = [
        machine for machine in machines if machine.get("acceleratorType") in rules().no_peering
    ]
    if without:
        message = f"Vertex AI does not peer {without[0].get('machineType')} with a network"
        remedy = f"remove it, and set {_OPTIONS}.psc: a network attachment, which these support"
        yield error("network", message, remedy, f"{_OPTIONS}.network")


def _texts(job: Job, containers: list[dict[str, Any]]) -> Iterator[Finding]:
    """Variables and arguments that Vertex AI changes or refuses, once for each key."""
    found: dict[str, Finding] = {}
    for container in containers:
        env = variables_of(container)
        for name, value in env.items():
            path, in_spec = _setting(job, name)
            text = in_spec if value is None else str(value)  # None for a secret
            if _APOSTROPHE.search(text):
                found[f"{path}'"] = _apostrophe(name, path)
            if _refers(text, env):
                found[path] = _reference(path)
        command, args = _strings(container, "command"), _strings(container, "args")
        for text in (text for text in command + args if _refers(text, env)):
            path = "run.args" if text in script_arguments(job) else "run.command"
            found[path] = _reference(path)
        if (length := sum(map(len, args))) >= rules().args_limit:
            found["long"] = _long(length)
    yield from found.values()


def _setting(job: Job, name: str) -> tuple[str, str]:
    """The key that sets a variable, and its value there."""
    roles = {f"roles.{role}.env": each.env for role, each in job.roles.items()}
    keys = {"run.env": job.run.env, "chief.env": job.chief.env, **roles}
    found = ((f"{key}.{name}", str(env[name])) for key, env in keys.items() if name in env)
    return next(found, ("run.env", ""))


def _refers(text: str, env: Mapping[str, Any]) -> bool:
    """Whether it has `$$`, or `$(NAME)` of a variable that the job or Vertex AI sets."""
    names = [found["name"] for found in REFERENCE.finditer(text)]
    own = (*rules().own_env, *env)
    return any(name is None or name in own or name.startswith(_OWN) for name in names)


def _reference(path: str) -> Finding:
    message = (
        "Vertex AI replaces $(NAME) by the value of the variable NAME, and $$ by $; other targets "
        "do not"
    )
    return note("expansion", message, "to keep this text on Vertex AI, write $$ for each $", path)


def _apostrophe(name: str, path: str) -> Finding:
    message = f"Vertex AI has refused variables with an apostrophe such as in {name}"
    remedy = "remove the apostrophe, pass the text as an argument, or put it in a file of the image"
    return warning("env", message, remedy, path)


def _long(length: int) -> Finding:
    limit = rules().args_limit
    message = f"a container's arguments have {length} characters, and must have fewer than {limit}"
    remedy = "put them in a file of the image or of an input, and pass its path"
    return error("args", message, remedy, "run.args")


def _tpus(pools: list[tuple[int, dict[str, Any]]]) -> Iterator[Finding]:
    if not any(has_tpus(_mapping(pool, "machineSpec")) for _, pool in pools):
        return
    if len(pools) > 1 or any(count_of(pool) != 1 for _, pool in pools):
        yield several_replicas()


def _network(job: Job, pools: list[tuple[int, dict[str, Any]]]) -> Iterator[Finding]:
    """NCCL's requirements on machines with their own network, if gradients leave a node at all."""
    workers = [pool for number, pool in pools if number in (0, 1)]
    if sum(count_of(pool) for pool in workers) < 2:
        return
    for machine in {m.name: m for m in map(_machine, workers) if m and m.nccl_setup}.values():
        if machine.nccl_setup == "gib":
            yield from _rdma(job, machine)
        else:
            message = (
                f"{machine.name} exchanges gradients with {machine.own_transport} only if "
                "Google's plugin for NCCL is in the image; without it NCCL uses TCP, at a "
                "fraction of the rate"
            )
            remedy = f"install the plugin from {_PLUGINS[str(machine.nccl_setup)]} in the image"
            remedy += "; NCCL_DEBUG=INFO shows which plugin NCCL has loaded"
            yield warning("nccl-plugin", message, remedy, "image")


def _rdma(job: Job, machine: Machine) -> Iterator[Finding]:
    script = "/usr/local/gib/scripts/set_nccl_env.sh"
    needs = f"NCCL uses {machine.own_transport} of {machine.name} with the variables of {script}"
    if job.run.is_launched:
        message = (
            f"{needs}: rsctl-launch sets them, and prints a warning if a node does not have this "
            "file"
        )
        yield note("nccl-setup", message, None, "workers.machine")
        return
    message = f"{needs}, and {unlaunched(job)[0]} does not use rsctl-launch, which would set them"
    remedy = f"start the command with: source {script}"
    yield warning("nccl-setup", message, remedy, "run.command")
