"""The container contract: environment variables, mounts and names of a job's replicas.

Real values with their sources: tests/fixtures/real/vertex_cluster_spec.json.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rsctl.targets.managed.emulator.nodes import JobNodes, Node
from rsctl.targets.vertex.emulator.reduction_server import REDUCERS, StandIn
from rsctl.targets.vertex.references import expanded

PORT = 2222
"""The port that CLUSTER_SPEC names for every host."""

_JOB = json.dumps({"python_module": "", "package_uris": [], "job_args": []}, separators=(",", ":"))
"""CLUSTER_SPEC's `job` of a container: a JSON string, contrary to the documentation."""

_START_PACKAGE = Path(__file__).with_name("package_start.py")

_PS_ROLES = ("chief", "worker", "ps", "evaluator")


class JobContext(NamedTuple):
    """Project, region and id of a job. `number` is the project's, `buckets` are folders by name."""

    project: str
    number: str
    region: str
    job_id: str
    buckets: Mapping[str, Path]


class EmulatedReplica(NamedTuple):
    """One machine of a job: `workerpool0-0`. Without a node there is nothing to run on it."""

    task: str
    pool: int
    number: int
    name: str
    node: Node | None

    @property
    def is_chief(self) -> bool:
        """Whether its end is the job's."""
        return self.pool == 0 and self.number == 0


def replicas(
    context: JobContext, spec: dict[str, Any], nodes: JobNodes, stand_in: StandIn
) -> list[EmulatedReplica]:
    """All replicas of a job, the chief first."""
    pools = spec["workerPoolSpecs"]
    names = host_names(context.job_id, pools)
    hosts = [[f"{nodes.address(n)}:{nodes.port(n, PORT)}" for n in pool] for pool in names]
    shared = {**_of_job(context, spec), **_addresses(hosts)}
    made = []
    for number, pool in enumerate(pools):
        source = pools[0] if number == REDUCERS and stand_in.kind == "rsctl" else pool
        is_absent = number == REDUCERS and stand_in.kind == "absent"
        for index, name in enumerate(names[number]):
            env = {**shared, **_of_replica(hosts, stand_in, number, index), **stand_in.env}
            node = None if is_absent else _node(name, container_of(source), env, context)
            made.append(EmulatedReplica(f"workerpool{number}-{index}", number, index, name, node))
    return made


def host_names(job_id: str, pools: list[dict[str, Any]]) -> list[list[str]]:
    """The names of all hosts, pool by pool; an empty pool has none."""
    tag = hashlib.sha256(job_id.encode()).hexdigest()[:10]
    return [
        [f"cmle-training-workerpool{number}-{tag}-{index}" for index in range(_count(pool))]
        for number, pool in enumerate(pools)
    ]


def bucket_names(spec: dict[str, Any]) -> set[str]:
    """The buckets that a job mentions as gs://BUCKET or /gcs/BUCKET."""
    found = set()
    for text in _texts(spec):
        for prefix in ("gs://", "/gcs/"):
            for rest in text.split(prefix)[1:]:
                found.add(rest.partition("/")[0].partition(":")[0].strip())
    return found


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value


def container_of(pool: dict[str, Any]) -> dict[str, Any]:
    """The program of a pool as a containerSpec; a package by a program that installs and starts
    it.
    """
    spec = pool.get("pythonPackageSpec")
    if spec is None:
        container: dict[str, Any] = pool.get("containerSpec", {})
        return container
    packages = [uri.replace("gs://", "/gcs/", 1) for uri in spec.get("packageUris", [])]
    module, count = spec["pythonModule"], str(len(packages))
    return {
        "imageUri": spec["executorImageUri"],
        "command": ["python3", "-I", "-c", _START_PACKAGE.read_text(), module, count, *packages],
        "args": spec.get("args", []),
        "env": spec.get("env", []),
    }


def _count(pool: dict[str, Any]) -> int:
    return int(pool.get("replicaCount", "1")) if pool else 0


def _node(name: str, container: dict[str, Any], env: dict[str, str], context: JobContext) -> Node:
    whole = dict(env)
    for variable in container.get("env", []):
        value = expanded(variable.get("value", ""), whole)
        whole.setdefault(variable["name"], value)
    command = container.get("command")
    return Node(
        name=name,
        image=container["imageUri"],
        entrypoint=None if command is None else [expanded(text, whole) for text in command],
        args=[expanded(text, whole) for text in container.get("args", [])],
        env=whole,
        mounts={f"/gcs/{bucket}": folder for bucket, folder in context.buckets.items()},
        hostname=_machine_name(name),
    )


def _machine_name(name: str) -> str:
    """A replica's own name: the name of its machine, not of its service."""
    tag = hashlib.sha256(name.encode()).hexdigest()
    return f"gke-cml-{tag[:8]}-{tag[8:12]}"


def _of_job(context: JobContext, spec: dict[str, Any]) -> dict[str, str]:
    env = {
        "CLOUD_ML_JOB_ID": context.job_id,
        "CLOUD_ML_PROJECT_ID": context.number,
        "CLOUD_ML_REGION": context.region,
    }
    base = spec.get("baseOutputDirectory", {}).get("outputUriPrefix", "").rstrip("/")
    if base:
        env["AIP_MODEL_DIR"] = f"{base}/model/"
        env["AIP_CHECKPOINT_DIR"] = f"{base}/checkpoints/"
        env["AIP_TENSORBOARD_LOG_DIR"] = f"{base}/logs/"
    if spec.get("tensorboard"):
        env["AIP_TENSORBOARD_RESOURCE_NAME"] = spec["tensorboard"]
    return env


def _addresses(hosts: list[list[str]]) -> dict[str, str]:
    """The variables that the samples for PyTorch rely on, for nodes instead of ranks."""
    host, _, port = hosts[0][0].rpartition(":")
    world = sum(map(len, hosts[:REDUCERS]))
    return {"MASTER_ADDR": host, "MASTER_PORT": port, "WORLD_SIZE": str(world)}


def _of_replica(hosts: list[list[str]], stand_in: StandIn, pool: int, index: int) -> dict[str, str]:
    is_alone = sum(map(len, hosts)) == 1
    cluster = {_pool_name(n, is_alone): names for n, names in enumerate(hosts) if names}
    task = {"type": _pool_name(pool, is_alone), "index": index}
    contract = {"cluster": cluster, "environment": "cloud", "task": task, "job": _JOB}
    env = {"CLUSTER_SPEC": json.dumps(contract)}
    if not is_alone:
        env["TF_CONFIG"] = json.dumps(_tf_config(hosts, stand_in, pool, index))
    if pool < REDUCERS:
        env["RANK"] = str(0 if pool == 0 else index + 1)
    return env


def _pool_name(number: int, is_alone: bool) -> str:
    return "chief" if is_alone else f"workerpool{number}"


def _tf_config(hosts: list[list[str]], stand_in: StandIn, pool: int, index: int) -> dict[str, Any]:
    """Evaluators are not in the cluster. Whether reducers are is not documented; here they are not
    where they are Google's."""
    left_out = {3} | ({REDUCERS} if stand_in.kind != "none" else set())
    cluster = {
        _PS_ROLES[number]: names
        for number, names in enumerate(hosts)
        if names and number not in left_out
    }
    task = {"type": _PS_ROLES[pool], "index": index}
    return {"cluster": cluster, "environment": "cloud", "task": task}
