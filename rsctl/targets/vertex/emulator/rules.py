"""Rules of JobService for a well-formed CustomJob, from the documentation.

The rules are the service's; messages are invented if none are documented.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from rsctl.estimate.catalog import load
from rsctl.targets.managed.sdk_calls import snake
from rsctl.targets.vertex.catalog import has_tpus, rules
from rsctl.targets.vertex.emulator.machines import machine_problems
from rsctl.targets.vertex.proto_json import seconds

_MOST_POOLS = 4
_MOST_PACKAGES = 100
_LONGEST_NAME = 128
_DISKS = ("pd-ssd", "pd-standard", "hyperdisk-balanced")
_RESERVED = ("ANY_RESERVATION", "SPECIFIC_RESERVATION")
_LABEL_KEY = re.compile(r"[^\WA-Z_][^\WA-Z]*(-[^\WA-Z]*)*")
_LABEL_VALUE = re.compile(r"([^\WA-Z]|-)*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ACCOUNT = re.compile(r"[^@\s]+@[^@\s]+")
_NETWORK = re.compile(r"projects/\d+/global/networks/[a-z][-a-z0-9]*")
_TENSORBOARD = re.compile(r"projects/[^/]+/locations/[^/]+/tensorboards/[^/]+")


def problems(job: dict[str, Any], persistent: Collection[str] = ()) -> Iterator[str]:
    """The mistakes in a job from `wire.read_job`; `persistent` are IDs that exist."""
    name = job.get("displayName", "")
    if not name:
        yield "Required field is not set: custom_job.display_name"
    if len(name) > _LONGEST_NAME:
        yield f"display_name has more than {_LONGEST_NAME} characters"
    yield from _labels(job.get("labels", {}))
    spec = job.get("jobSpec", {})
    pools = spec.get("workerPoolSpecs", [])
    if not pools:
        yield "Required field is not set: custom_job.job_spec.worker_pool_specs"
        return
    yield from _order(pools)
    for number, pool in enumerate(pools):
        for problem in _pool(pool, bool(spec.get("persistentResourceId"))):
            yield f"worker_pool_specs[{number}]: {problem}"
    yield from _scheduling(spec.get("scheduling", {}), [pool for pool in pools if pool])
    yield from _environment(spec)
    if spec.get("persistentResourceId") and any(
        pool.get("machineSpec", {}).get("reservationAffinity", {}).get("reservationAffinityType")
        in _RESERVED
        for pool in pools
    ):
        yield "Reservations cannot be used on a persistent resource"
    wanted = spec.get("persistentResourceId", "")
    if wanted and wanted not in persistent:
        yield f"The PersistentResource {wanted} does not exist"


def _labels(labels: dict[str, str]) -> Iterator[str]:
    longest = rules().most_label
    if len(labels) > rules().most_labels:
        yield f"there are more than {rules().most_labels} labels"
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key) or len(key) > longest:
            yield f"Invalid label key: {key!r}"
        if not _LABEL_VALUE.fullmatch(value) or len(value) > longest:
            yield f"Invalid label value of {key}: {value!r}"


def _order(pools: list[dict[str, Any]]) -> Iterator[str]:
    if len(pools) > _MOST_POOLS:
        yield f"there are more than {_MOST_POOLS} worker pools"
    if not pools[0]:
        yield "the first worker pool is the primary replica and cannot be empty"
    elif pools[0].get("replicaCount", "1") != "1":
        yield "the first worker pool must have a replica_count of 1"


def _pool(pool: dict[str, Any], is_persistent: bool) -> Iterator[str]:
    if not pool:
        return
    if ("containerSpec" in pool) == ("pythonPackageSpec" in pool):
        yield "exactly one of container_spec and python_package_spec is required"
    if int(pool.get("replicaCount", "1")) < 1:
        yield "replica_count must be at least 1"
    if "containerSpec" in pool and not pool["containerSpec"].get("imageUri"):
        yield "Required field is not set: container_spec.image_uri"
    for name in ("containerSpec", "pythonPackageSpec"):
        yield from _variables(pool.get(name, {}).get("env", []), snake(name))
    if sum(map(len, pool.get("containerSpec", {}).get("args", []))) >= rules().args_limit:
        yield "container_spec.args: Container args should contain less than 100k characters"
    yield from _python_package(pool.get("pythonPackageSpec"))
    machine = pool.get("machineSpec", {})
    if machine or not is_persistent:
        yield from machine_problems(machine)
    yield from _disk(pool.get("diskSpec", {}), machine.get("machineType", ""))
    for mount in pool.get("nfsMounts", []):
        if not mount.get("server") or not mount.get("path", "").startswith("/"):
            yield "an nfs mount needs a server and a path that begins with /"
        if not mount.get("mountPoint"):
            yield "an nfs mount needs a mount_point"
    for mount in pool.get("lustreMounts", []):
        if not all(mount.get(n) for n in ("instanceIp", "volumeHandle", "filesystem")):
            yield "a lustre mount needs instance_ip, volume_handle and filesystem"
        if not mount.get("mountPoint"):
            yield "a lustre mount needs a mount_point"


def _python_package(spec: dict[str, Any] | None) -> Iterator[str]:
    if spec is None:
        return
    for field in ("executorImageUri", "packageUris", "pythonModule"):
        if not spec.get(field):
            yield f"Required field is not set: python_package_spec.{snake(field)}"
    uris = spec.get("packageUris", [])
    if len(uris) > _MOST_PACKAGES:
        yield f"python_package_spec.package_uris has more than {_MOST_PACKAGES} items"
    for uri in uris:
        if not re.match(r"gs://[^/]+/.", uri):
            yield f"python_package_spec.package_uris: {uri!r} is not a Cloud Storage object"


def _variables(env: list[dict[str, str]], spec: str) -> Iterator[str]:
    most = rules().most_env
    if len(env) > most:
        yield f"{spec}.env has {len(env)} variables, more than {most}"
    names = [variable.get("name", "") for variable in env]
    for name in names:
        if not _VARIABLE.fullmatch(name):
            yield f"{spec}.env: {name!r} is not the name of a variable"
    if len(set(names)) < len(names):
        yield f"{spec}.env has a name twice"
    for number, variable in enumerate(env):
        if re.search(r"(?<!\\)'", variable.get("value", "")):
            yield (
                f"{spec}.env[{number}].value: Env vars cannot contain any unescaped apostrophe "
                "character '"
            )


def default_disk(machine_type: str) -> str:
    """The type of boot disk that a machine gets where the job names none."""
    known = load("vertex").machines.get(machine_type)
    return known.disks[0] if known and known.disks else _DISKS[0]


def _disk(disk: dict[str, Any], machine_type: str) -> Iterator[str]:
    least, most = rules().disk_gb
    known, kind = load("vertex").machines.get(machine_type), disk.get("bootDiskType")
    if kind is not None and kind not in _DISKS:
        yield f"boot_disk_type is one of {', '.join(_DISKS)}"
    elif kind is not None and known and known.disks and kind not in known.disks:
        yield f'Disk type "{kind}" is not supported for machine type "{machine_type}".'
    if not least <= disk.get("bootDiskSizeGb", least) <= most:
        yield f"boot_disk_size_gb must be from {least} to {most}"


def _scheduling(scheduling: dict[str, Any], pools: list[dict[str, Any]]) -> Iterator[str]:
    strategy = scheduling.get("strategy", "STANDARD")
    timeout = scheduling.get("timeout")
    machines = [pool.get("machineSpec", {}) for pool in pools]
    has_tpu = any(has_tpus(machine) for machine in machines)
    reserved = [m.get("reservationAffinity", {}).get("reservationAffinityType") for m in machines]
    if strategy in ("FLEX_START", "SPOT") and any(kind in _RESERVED for kind in reserved):
        yield f"Reservations cannot be used with the strategy {strategy}"
    if timeout and seconds(timeout) <= 0:
        yield "scheduling.timeout must be greater than 0"
    if "maxWaitDuration" in scheduling and strategy != "FLEX_START":
        yield "scheduling.max_wait_duration is for the strategy FLEX_START only"
    if strategy == "FLEX_START":
        yield from _flex_start(machines, timeout)
    if has_tpu and len(pools) > 1:
        yield "a job with TPUs has one worker pool with one replica"
    if has_tpu and strategy in ("SPOT", "FLEX_START"):
        yield f"TPUs cannot be had with the strategy {strategy}"


def _flex_start(machines: list[dict[str, Any]], timeout: str | None) -> Iterator[str]:
    allowed, catalog = rules().flex_start, load("vertex")
    gpus = catalog.gpus
    if any(machine != machines[0] for machine in machines):
        yield "with FLEX_START all worker pools must have the same machine_spec"
    enums = {gpus[name].enum for name in allowed.gpus}
    kinds = (catalog.accelerator_named(machine.get("acceleratorType", "")) for machine in machines)
    if any(kind not in allowed.gpus for kind in kinds):
        yield f"FLEX_START is for machines with {', '.join(sorted(map(str, enums)))} only"
    if timeout and seconds(timeout) > allowed.longest:
        yield f"with FLEX_START scheduling.timeout is at most {allowed.longest}s"


def _environment(spec: dict[str, Any]) -> Iterator[str]:
    """The fields around the containers."""
    pools = spec.get("workerPoolSpecs", [])
    kinds = [pool.get("machineSpec", {}).get("acceleratorType") for pool in pools]
    if spec.get("network") and any(kind in rules().no_peering for kind in kinds):
        yield "VPC peering is not supported with these accelerators"
    has_nfs = any(pool.get("nfsMounts") for pool in pools)
    if has_nfs and not spec.get("network") and not spec.get("pscInterfaceConfig"):
        yield "nfs_mounts need network or psc_interface_config"
    account = spec.get("serviceAccount", "")
    if account and not _ACCOUNT.fullmatch(account):
        yield f"Service account {account!r} is not an email address"
    if spec.get("tensorboard"):
        if not _TENSORBOARD.fullmatch(spec["tensorboard"]):
            yield "tensorboard is not of the form projects/P/locations/L/tensorboards/ID"
        if not account:
            yield "service_account is required with tensorboard"
    if spec.get("network") and not _NETWORK.fullmatch(spec["network"]):
        yield "network is not of the form projects/NUMBER/global/networks/NAME"
    base = spec.get("baseOutputDirectory")
    if base is not None and not re.match(r"gs://[^/]+", base.get("outputUriPrefix", "")):
        yield "base_output_directory.output_uri_prefix must begin with gs://BUCKET"
    for peering in spec.get("pscInterfaceConfig", {}).get("dnsPeeringConfigs", []):
        if not peering.get("domain", "").endswith("."):
            yield "dns_peering_configs.domain must end with a dot"
