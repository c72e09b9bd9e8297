"""`rsctl-launch` on clouds, without torch: what nodes say, set, and end with."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rsctl.node import process_spec
from rsctl.node.cluster import Cluster
from rsctl.node.liveness_server import LivenessServer, WorkerLiveness
from tests.kit.polling import wait_until

from .sagemaker import TOKEN, Job, resource_config, write_config

Launch = Callable[..., Any]
Script = Callable[[str], str]
Addresses = Callable[[int], list[str]]

ONCE = ("--launcher", "once", "--")
PRINT = (
    "import json, os; print(json.dumps({n: v for n, v in os.environ.items() if n.startswith("
    "('SM_', 'RSCTL_', 'NCCL_', 'GLOO_', 'RANK', 'WORLD', 'NODE_RANK', 'NNODES', 'MASTER'))}))"
)


@pytest.fixture
def job(tmp_path: Path, launch: Launch, addresses: Addresses, free_port: int) -> Callable[..., Job]:
    """A job with so many workers and reducers."""

    def make(workers: int, reducers: int = 0) -> Job:
        hosts = addresses(workers + reducers)
        groups = {"workers": hosts[:workers], "reducers": hosts[workers:]}
        return Job(tmp_path, launch, {n: g for n, g in groups.items() if g}, free_port)

    return make


def printed(node: Any) -> list[str]:
    """The lines of a node that are not rsctl's own."""
    return [line for line in node.out.splitlines() if not line.startswith('{"rsctl": ')]


def environ_of(node: Any) -> dict[str, str]:
    assert node.wait() == 0, node.out
    found = dict(json.loads(printed(node)[-1]))
    for name in ("RSCTL_HOME", "RSCTL_CONFIG", "RSCTL_SLURM"):  # the tests' own
        found.pop(name, None)
    assert found.pop("NCCL_RAS_ADDR").startswith("localhost:")  # a port of each job's own
    assert not os.path.exists(found.pop("RSCTL_DEBUG_DIR"))  # it ends with the node
    assert found.pop("RSCTL_STOP_FOLDER")  # a new folder of each node
    return found


def test_a_sagemaker_script_finds_workers_only(job: Callable[..., Job], script: Script) -> None:
    made = job(2, 1)
    host, root = made.workers[1], made.root(made.workers[1])
    write_config(root, {"train": {}, "dev-set": {}}, "inputdataconfig.json")
    write_config(root, {"epochs": "10", "lr": "0.1", "a b": "c"}, "hyperparameters.json")
    command = ("--launcher", "once", "--python", "--", script(PRINT))
    given = {"SM_HPS": "mine", "SM_NUM_GPUS": "8", "SM_NUM_CPUS": "4"}
    made.start(made.reducers[0], *command)
    environ = environ_of(made.start(host, *command, **given))
    hosts = json.dumps(made.workers, separators=(",", ":"))
    whole = json.loads(environ.pop("SM_TRAINING_ENV"))
    assert whole["hosts"] == made.workers
    assert whole["hyperparameters"] == {"a b": "c", "epochs": 10, "lr": 0.1}
    config = json.loads(environ.pop("SM_RESOURCE_CONFIG"))
    assert sorted(config["hosts"]) == sorted(made.workers)
    group = {"hosts": config["instance_groups"][0]["hosts"], "instance_group_name": "workers"}
    group |= {"instance_type": "ml.c5n.9xlarge"}
    assert config["instance_groups"] == [group]
    assert sorted(group["hosts"]) == sorted(made.workers)
    assert json.loads(environ.pop("SM_INSTANCE_GROUPS_DICT")) == {"workers": group}
    assert environ == {
        "SM_HOSTS": hosts,
        "SM_HOST_COUNT": "2",
        "SM_CURRENT_HOST_RANK": "1",
        "SM_MASTER_ADDR": made.workers[0],
        "SM_MASTER_PORT": "7777",
        "SM_INSTANCE_GROUPS": '["workers"]',
        "SM_DISTRIBUTION_INSTANCE_GROUPS": "[]",
        "SM_IS_HETERO": "false",
        "SM_NUM_NEURONS": "0",
        "SM_LOG_LEVEL": "20",
        "SM_INPUT_DATA_CONFIG": '{"dev-set":{},"train":{}}',
        "SM_INPUT_DATA_DIR": f"{root}/opt/ml/input/data",
        "SM_OUTPUT_FAILURE": f"{root}/opt/ml/output/failure",
        "SM_OUTPUT_INTERMEDIATE_DIR": f"{root}/opt/ml/output/intermediate",
        "SM_USER_ARGS": '["--a b","c","--epochs","10","--lr","0.1"]',
        "SM_CURRENT_HOST": host,
        "SM_CURRENT_INSTANCE_TYPE": "ml.c5n.9xlarge",
        "SM_CURRENT_INSTANCE_GROUP": "workers",
        "SM_CURRENT_INSTANCE_GROUP_HOSTS": hosts,
        "SM_NETWORK_INTERFACE_NAME": "lo",
        "SM_INPUT_DIR": f"{root}/opt/ml/input",
        "SM_INPUT_CONFIG_DIR": f"{root}/opt/ml/input/config",
        "SM_MODEL_DIR": f"{root}/opt/ml/model",
        "SM_OUTPUT_DIR": f"{root}/opt/ml/output",
        "SM_OUTPUT_DATA_DIR": f"{root}/opt/ml/output/data",
        "SM_CHANNELS": '["dev-set","train"]',
        "SM_CHANNEL_DEV-SET": f"{root}/opt/ml/input/data/dev-set",
        "SM_CHANNEL_TRAIN": f"{root}/opt/ml/input/data/train",
        "SM_HP_EPOCHS": "10",
        "SM_HP_LR": "0.1",
        **given,
        "NCCL_HOSTID": host,
        "NCCL_SOCKET_IFNAME": "lo",
        "GLOO_SOCKET_IFNAME": "lo",
        "NODE_RANK": "1",
        "NNODES": "2",
        "RSCTL_EXPECTED_RANKS": "2",
        "RSCTL_EXPECTED_NODES": "2",
        "MASTER_ADDR": made.workers[0],
        "MASTER_PORT": environ["RSCTL_PORT"],
        "RSCTL_ROOT": str(root),
        "RSCTL_PORT": environ["RSCTL_PORT"],
        "RSCTL_RUN": "run-abc123",
        "RSCTL_TOKEN": TOKEN,
        "RSCTL_TARGET": "sagemaker",
        "RSCTL_ROLE": "worker",
        "RSCTL_REPLICA": "worker-1",
        "RSCTL_REDUCERS": f"{made.reducers[0]}:29600",
        "RSCTL_REDUCER_KIND": "rsctl",
        "RSCTL_TELEMETRY_SECONDS": "0",
        "RSCTL_FAILURE_FILE": f"{root}/opt/ml/output/failure",
    }
    assert (root / "opt/ml/output/data").is_dir()
    assert (root / "opt/ml/model").is_dir()


def vertex(pool: int, hosts: list[str], **extra: str) -> dict[str, str]:
    """The environment of the only node of a pool, each pool having one."""
    pools = {f"workerpool{number}": [f"{host}:2222"] for number, host in enumerate(hosts)}
    spec = {"cluster": pools, "task": {"type": f"workerpool{pool}", "index": 0}}
    return {"RSCTL_TARGET": "vertex", "CLUSTER_SPEC": json.dumps(spec), **extra}


def test_a_vertex_script_has_its_ranks(
    launch: Launch, script: Script, addresses: Addresses
) -> None:
    hosts = addresses(2)
    node = launch(
        *("--launcher", "once", "--python", "--", script(PRINT)),
        # What the platform itself says counts nodes, which torchrun's variables do not.
        **vertex(1, hosts, RANK="1", WORLD_SIZE="2", MASTER_ADDR="elsewhere", MASTER_PORT="7"),
    )
    environ = environ_of(node)
    assert environ == {
        "NCCL_SOCKET_IFNAME": "lo",
        "GLOO_SOCKET_IFNAME": "lo",
        "NODE_RANK": "1",
        "NNODES": "2",
        "RSCTL_EXPECTED_RANKS": "2",
        "RSCTL_EXPECTED_NODES": "2",
        "MASTER_ADDR": hosts[0],
        "MASTER_PORT": "2222",
        "RSCTL_TARGET": "vertex",
        "RSCTL_ROLE": "worker",
        "RSCTL_REPLICA": "worker-1",
        "RSCTL_REDUCERS": "",
        "RSCTL_TELEMETRY_SECONDS": "0",
    }
    assert node.out.startswith(
        f'{{"rsctl": "node", "replica": "worker-1", "host": "{hosts[1]}", "lock": "'
    )


@pytest.mark.parametrize("launcher", ["once", "torchrun"])
def test_a_vertex_job_of_one_replica_needs_no_name(
    launch: Launch, script: Script, launcher: str, free_port: int, torch_forks: dict[str, str]
) -> None:
    host = "cmle-training-workerpool0-4442549cc4-0"
    cluster = {"chief": [f"{host}:{free_port}"]}
    spec = {"cluster": cluster, "environment": "cloud", "task": {"type": "chief", "index": 0}}
    node = launch(
        *("--launcher", launcher, "--python", "--", script(PRINT)),
        CLUSTER_SPEC=json.dumps(spec),
        RSCTL_TARGET="vertex",
        **torch_forks,
    )
    environ = environ_of(node)
    assert environ["MASTER_ADDR"] == "127.0.0.1"
    # torchrun has its own store on the port, which a rank that is alone does not use.
    assert (environ["MASTER_PORT"] == str(free_port)) is (launcher == "once")
    names = ("NODE_RANK", "NNODES") if launcher == "once" else ("RANK", "WORLD_SIZE")
    assert [environ[name] for name in names] == ["0", "1"]
    assert environ["RSCTL_REPLICA"] == "worker-0"
    assert "NCCL_SOCKET_IFNAME" not in environ


def test_a_vertex_script_can_write_its_results_at_once(
    launch: Launch, script: Script, addresses: Addresses, tmp_path: Path
) -> None:
    write = "import os; open(os.environ['RSCTL_OUTPUT_DIR'] + '/model', 'w').close()"
    folders = {"RSCTL_OUTPUT_DIR": str(tmp_path / "run" / "outputs"),
               "RSCTL_CHECKPOINT_DIR": str(tmp_path / "run" / "checkpoints")}  # fmt: skip
    node = launch(
        *("--launcher", "once", "--python", "--", script(write)),
        **vertex(0, addresses(1), **folders),
    )
    assert node.wait() == 0
    assert (tmp_path / "run" / "outputs" / "model").is_file()
    assert (tmp_path / "run" / "checkpoints").is_dir()


def test_local_nodes_need_no_line_that_says_who_they_are(launch: Launch) -> None:
    node = launch(*ONCE, "sh", "-c", "echo $RSCTL_ROLE $RSCTL_REPLICA")
    assert (node.wait(), node.out) == (0, "worker worker-0\n")


def test_ranks_share_the_processors_of_a_node() -> None:
    def threads(platform: str, processes: int, **environ: str) -> str | None:
        node = Cluster("worker", 0, ("a",), (), None, 29500, platform=platform)
        return process_spec.torchrun(node, processes, ["true"], environ).environ.get(
            "OMP_NUM_THREADS"
        )

    cores = os.cpu_count() or 1
    assert threads("vertex", 1) == str(cores)
    assert threads("sagemaker", 2 * cores) == "1"
    assert threads("sagemaker", 1, OMP_NUM_THREADS="7") == "7"
    assert threads("local", 1) is None


def test_torchrun_itself_is_no_rank() -> None:
    """Vertex AI sets the variables of a rank for each node."""
    node = Cluster("worker", 1, ("a", "b"), (), None, 29500, platform="vertex")
    environ = {"RANK": "1", "WORLD_SIZE": "2", "CLUSTER_SPEC": "{}"}
    made = process_spec.torchrun(node, 8, ["true"], environ).environ
    assert environ.keys() & made.keys() == {"CLUSTER_SPEC"}


def test_an_interface_that_is_not_there(
    launch: Launch, script: Script, tmp_path: Path, addresses: Addresses
) -> None:
    hosts = addresses(2)
    write_config(tmp_path, resource_config({"workers": hosts}, hosts[0], "ethwe"))
    node = launch(
        *("--launcher", "once", "--python", "--", script(PRINT)),
        RSCTL_TARGET="sagemaker",
        RSCTL_ROOT=str(tmp_path),
    )
    environ = environ_of(node)
    assert (environ["GLOO_SOCKET_IFNAME"], environ["NCCL_SOCKET_IFNAME"]) == ("lo", "lo")
    (finding,) = node.lines("finding")
    assert (finding["severity"], finding["code"]) == ("warning", "interface-missing")
    message = finding["message"]
    assert message.startswith("sagemaker names the network interface ethwe, but this node has lo")
    assert message.endswith("; rsctl uses the one that leads to the other nodes")


def test_a_place_that_makes_no_sense_is_told_to_the_platform(
    launch: Launch, tmp_path: Path
) -> None:
    write_config(tmp_path, {"current_host": "algo-1", "hosts": []})
    node = launch(*ONCE, "true", RSCTL_TARGET="sagemaker", RSCTL_ROOT=str(tmp_path))
    assert node.wait() == 2
    assert (tmp_path / "opt/ml/output/failure").read_text() == (
        "/opt/ml/input/config/resourceconfig.json has hosts that are not a list of host names. "
        "The platform writes it. Check whether targets.sagemaker.overlay changes the groups."
    )


def test_a_failure_of_the_attempt_before_is_forgotten(job: Callable[..., Job]) -> None:
    made = job(1)
    (host,) = made.workers
    command = ("sh", "-c", 'echo "$0" >&2; exit 3')
    for words in ("first", "second"):
        node = made.start(host, *ONCE, *command, words)
        assert (node.wait(), node.err) == (3, f"{words}\n")
        assert made.failure(host) == f"worker-0, rank 0, failed (exit code 3)\n{words}"
    assert made.start(host, *ONCE, "true").wait() == 0
    assert made.failure(host) is None


STAY = """
import signal, sys
def stop(*_):
    print("saved")
    sys.exit(int(sys.argv[1]))
signal.signal(signal.SIGTERM, stop)
print("up")
while True:
    signal.pause()
"""


def test_a_stopped_job_has_not_failed(job: Callable[..., Job], script: Script) -> None:
    made = job(1, 1)
    (host,), (reducer_host,) = made.workers, made.reducers
    command = ("--launcher", "once", "--python", "--", script(STAY))
    worker = made.start(host, *command, "0")
    reducer = made.start(reducer_host, *command, "0")
    worker.printed("up")
    wait_until(lambda: reducer.lines("reducer"))
    for node in (worker, reducer):
        node.process.send_signal(signal.SIGTERM)
    assert [worker.wait(), reducer.wait()] == [143, 0]
    assert "saved" in worker.out
    assert [made.failure(host), made.failure(reducer_host)] == [None, None]


def test_reducers_end_when_a_worker_never_came_to_its_script(job: Callable[..., Job]) -> None:
    made = job(1, 2)
    reducers = [made.start(host, *ONCE, "true") for host in made.reducers]
    worker = made.start(made.workers[0], *ONCE, "no-such-program")
    assert [node.wait() for node in (worker, *reducers)] == [127, 0, 0]
    assert made.failure(made.workers[0]) == (
        "worker-0, rank 0, failed (exit code 127)\n"
        "rsctl: cannot run no-such-program: there is no such program"
    )


def test_reducers_end_when_a_worker_was_refused(job: Callable[..., Job]) -> None:
    made = job(1, 1)
    reducer = made.start(made.reducers[0], *ONCE, "true")
    binding_off = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    worker = made.start(made.workers[0], "--", "true", **binding_off)
    assert [worker.wait(), reducer.wait()] == [78, 0]
    assert (made.failure(made.workers[0]) or "").startswith("reducers and comm: reach the script")


def test_a_worker_whose_reducers_do_not_come(job: Callable[..., Job]) -> None:
    made = job(1, 1)
    (host,) = made.workers
    node = made.start(host, *ONCE, "echo", "ran", RSCTL_RESOLVE_SECONDS="0.5")
    assert node.wait() == 75
    (finding,) = node.lines("finding")
    assert (finding["code"], finding["message"]) == (
        "peers-silent",
        f"after 0.5 s the reducers do not listen: {made.reducers[0]}:29600 (Connection refused)",
    )
    assert "ran" not in node.out


def test_a_reducer_that_cannot_listen(job: Callable[..., Job]) -> None:
    made = job(1, 1)
    (host,) = made.reducers
    with socket.create_server((host, 29600)):
        node = made.start(host, *ONCE, "true")
        assert node.wait() == 3
    assert made.failure(host) == (
        "reducer-0 failed (exit code 3)\n"
        f"rsctl-reduce: cannot listen on {host}: Address already in use"
    )


def test_a_reducer_that_workers_can_do_without(job: Callable[..., Job]) -> None:
    made = job(1, 1)
    (host,) = made.reducers
    with socket.create_server((host, 29600)):
        node = made.start(host, *ONCE, "true", RSCTL_ON_REDUCER_LOSS="fallback")
        assert node.wait() == 0
    assert made.failure(host) is None
    (finding,) = node.lines("finding")
    assert (finding["severity"], finding["code"], finding["message"]) == (
        "warning",
        "reducer-lost",
        "reducer-0 failed (exit code 3); the workers continue without reducers",
    )


def test_a_reducer_whose_workers_could_not_reach_it(job: Callable[..., Job]) -> None:
    made = job(1, 1)
    (host,) = made.reducers
    with socket.create_server((host, 29599)):
        node = made.start(host, *ONCE, "true")
        assert node.wait() == 3
    (finding,) = node.lines("finding")
    assert finding["code"] == "watch-address"


def test_a_vertex_reducer_serves_until_it_is_stopped(launch: Launch, addresses: Addresses) -> None:
    hosts = addresses(3)
    given = {"RSCTL_REDUCER_KIND": "rsctl", "RSCTL_TOKEN": TOKEN, "RSCTL_RUN": "r"}
    reducer = launch(*ONCE, "true", **vertex(2, hosts, **given))
    (line,) = wait_until(lambda: reducer.lines("reducer"))
    assert line["address"] == f"{hosts[2]}:2222"
    worker = launch(*ONCE, "sh", "-c", "exit 4", **vertex(0, hosts, **given))
    assert worker.wait() == 4
    assert reducer.process.poll() is None
    reducer.process.terminate()
    assert reducer.wait() == 0


ROLE = """
import json, os, signal, time
print("up", os.environ["RSCTL_REPLICA"], os.environ.get("RANK"), flush=True)
print(os.environ["RSCTL_ROLE_HOSTS"], flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def job_with_roles(
    tmp_path: Path, launch: Launch, addresses: Addresses, free_port: int
) -> tuple[Job, list[str]]:
    """One worker and two nodes of role ps; the hosts of the latter."""
    hosts = addresses(3)
    servers = sorted(hosts[1:], key=lambda host: int(host.rpartition(".")[2]))
    return Job(tmp_path, launch, {"workers": hosts[:1], "ps": hosts[1:]}, free_port), servers


def test_roles_that_end_with_the_workers_are_stopped(
    job_with_roles: tuple[Job, list[str]], script: Script, tmp_path: Path
) -> None:
    """On SageMaker the job has ended only when they have; what they exit with is not their end."""
    made, servers = job_with_roles
    stopped = {"RSCTL_STOPPED_ROLES": "ps"}
    program = ("--launcher", "once", "--python", "--", script(ROLE))
    nodes = [made.start(host, *program, **stopped) for host in servers]
    trains = ("sh", "-c", f"until [ -e {tmp_path}/mark ]; do sleep 0.05; done; echo trained")
    worker = made.start(made.workers[0], *ONCE, *trains, **stopped)
    for number, node in enumerate(nodes):
        node.printed(f"up ps-{number} None")
    (tmp_path / "mark").touch()
    assert [node.wait() for node in (worker, *nodes)] == [0, 0, 0]
    assert "trained" in worker.out
    port = str(made.port)
    found = {"worker": [f"{made.workers[0]}:{port}"], "ps": [f"{host}:{port}" for host in servers]}
    assert json.loads(printed(nodes[1])[-1]) == found
    assert [made.failure(host) for host in servers] == [None, None]


def test_a_role_that_loses_workers_which_are_just_ending_has_not_failed(
    job_with_roles: tuple[Job, list[str]], tmp_path: Path
) -> None:
    made, servers = job_with_roles
    stopped, up, lost = {"RSCTL_STOPPED_ROLES": "ps"}, tmp_path / "up", tmp_path / "lost"
    loses = ("sh", "-c", f"until [ -e {up} ]; do sleep 0.05; done; exit 3")
    works = ("sh", "-c", f"touch {up}; until [ -e {lost} ]; do sleep 0.05; done")
    nodes = [made.start(host, *ONCE, *loses, **stopped) for host in servers]
    worker = made.start(made.workers[0], *ONCE, *works, **stopped)
    wait_until(lambda: [line["code"] for each in nodes for line in each.lines("exit")] == [3, 3])
    lost.touch()
    assert [node.wait() for node in (worker, *nodes)] == [0, 0, 0]
    assert [made.failure(host) for host in servers] == [None, None]


def test_a_sagemaker_script_finds_the_groups_of_roles(
    job_with_roles: tuple[Job, list[str]], script: Script
) -> None:
    """As scripts for heterogeneous clusters look for them; ranks are counted by SM_HOSTS."""
    made, servers = job_with_roles
    command = ("--launcher", "once", "--python", "--", script(PRINT))
    nodes = [made.start(host, *command) for host in (*servers, *made.workers)]
    server, _, worker = (environ_of(node) for node in nodes)
    groups = json.loads(worker["SM_INSTANCE_GROUPS_DICT"])
    assert {name: sorted(group["hosts"]) for name, group in groups.items()} == {
        "workers": made.workers,
        "ps": sorted(servers),
    }
    assert [one["SM_HOSTS"] for one in (server, worker)] == [json.dumps(made.workers)] * 2
    assert (server["SM_CURRENT_INSTANCE_GROUP"], server["SM_IS_HETERO"]) == ("ps", "true")
    assert json.loads(server["SM_TRAINING_ENV"])["is_master"] is False


def test_a_role_that_fails_before_is_the_jobs_failure(
    job_with_roles: tuple[Job, list[str]],
) -> None:
    made, servers = job_with_roles
    node = made.start(
        servers[1], *ONCE, "sh", "-c", "echo no >&2; exit 3", RSCTL_STOPPED_ROLES="ps"
    )
    assert node.wait() == 3
    assert (made.failure(servers[1]) or "").startswith("ps-1 failed (exit code 3)")
    (report,) = node.lines("exit")
    assert report["code"] == 3


def test_a_worker_waits_for_roles_that_end_with_it(
    job_with_roles: tuple[Job, list[str]],
) -> None:
    """Else a short one would be over before they have learnt that there was any."""
    made, servers = job_with_roles
    more = {"RSCTL_STOPPED_ROLES": "ps", "RSCTL_RESOLVE_SECONDS": "0.5"}
    node = made.start(made.workers[0], *ONCE, "echo", "ran", **more)
    assert node.wait() == 75
    (finding,) = node.lines("finding")
    silent = ", ".join(f"{host}:{made.port - 1} (Connection refused)" for host in servers)
    assert finding["message"] == f"after 0.5 s the roles do not listen: {silent}"


def test_roles_that_end_by_themselves_are_left_alone(
    job_with_roles: tuple[Job, list[str]], script: Script
) -> None:
    made, servers = job_with_roles
    slow = "import time; time.sleep(0.5); print('evaluated')"
    nodes = [made.start(host, *ONCE, "python3", script(slow)) for host in servers]
    worker = made.start(made.workers[0], *ONCE, "true")
    assert [node.wait() for node in (worker, *nodes)] == [0, 0, 0]
    assert all("evaluated" in node.out for node in nodes)


def with_evaluator(pool: int, hosts: list[str]) -> dict[str, str]:
    """The environment of a job on Vertex AI with a chief and an evaluator that ends by itself."""
    pools = {"workerpool0": [f"{hosts[0]}:2222"], "workerpool3": [f"{hosts[1]}:2222"]}
    spec = {"cluster": pools, "task": {"type": f"workerpool{pool}", "index": 0}}
    roles = {
        "RSCTL_POOL_ROLES": "workerpool3=evaluator",
        "RSCTL_AWAITED_ROLES": "evaluator",
        "RSCTL_TOKEN": TOKEN,
    }
    return {"RSCTL_TARGET": "vertex", "CLUSTER_SPEC": json.dumps(spec), **roles}


def test_a_vertex_chief_waits_for_a_role_that_ends_by_itself(
    launch: Launch, addresses: Addresses, tmp_path: Path
) -> None:
    """The chief's end is the job's, and would stop what still runs."""
    hosts, mark = addresses(2), tmp_path / "mark"
    until = f"until [ -e {mark} ]; do sleep 0.05; done; echo evaluated"
    evaluator = launch(*ONCE, "sh", "-c", until, **with_evaluator(3, hosts))
    chief = launch(*ONCE, "echo", "trained", **with_evaluator(0, hosts))
    chief.printed("rsctl: waiting for evaluator-0 to end")
    assert chief.process.poll() is None
    mark.touch()
    assert [evaluator.wait(), chief.wait()] == [0, 0]
    assert "evaluated" in evaluator.out


class Chief(WorkerLiveness):
    """A chief that notes whether the nodes that it waits for end in order."""

    def __init__(self) -> None:
        super().__init__(1, start_timeout=300)
        self.connections: list[int] = []
        self.ends: list[bool] = []

    def connected(self, index: int) -> None:
        self.connections.append(index)

    def disconnected(self, index: int, in_order: bool) -> None:
        self.ends.append(in_order)


@pytest.mark.parametrize("code", [0, 3])
def test_a_role_that_fails_says_no_goodbye_to_the_chief(
    code: int, launch: Launch, addresses: Addresses, tmp_path: Path
) -> None:
    """The chief would end with success before the platform has noticed the failure."""
    hosts, chief, mark = addresses(2), Chief(), tmp_path / "mark"
    LivenessServer((hosts[0], 3333), chief, "", TOKEN.encode(), lambda: None)
    until = f"until [ -e {mark} ]; do sleep 0.05; done; exit {code}"
    evaluator = launch(*ONCE, "sh", "-c", until, **with_evaluator(3, hosts))
    wait_until(lambda: chief.connections == [0], "its connection")
    mark.touch()
    assert evaluator.wait() == code
    wait_until(lambda: chief.ends, "the end of the connection")
    assert chief.ends == [code == 0]


def of_two_workers(pool: int, hosts: list[str]) -> dict[str, str]:
    """The environment of a job on Vertex AI with a chief and another worker."""
    pools = {"workerpool0": [f"{hosts[0]}:2222"], "workerpool1": [f"{hosts[1]}:2222"]}
    spec = {"cluster": pools, "task": {"type": f"workerpool{pool}", "index": 0}}
    more = {"RSCTL_AWAITED_ROLES": "worker", "RSCTL_TOKEN": TOKEN}
    return {"RSCTL_TARGET": "vertex", "CLUSTER_SPEC": json.dumps(spec), **more}


def test_a_vertex_chief_waits_for_the_other_workers(
    launch: Launch, addresses: Addresses, tmp_path: Path
) -> None:
    hosts, mark = addresses(2), tmp_path / "mark"
    until = f"until [ -e {mark} ]; do sleep 0.05; done"
    worker = launch(*ONCE, "sh", "-c", until, **of_two_workers(1, hosts))
    chief = launch(*ONCE, "true", **of_two_workers(0, hosts))
    chief.printed("rsctl: waiting for worker-1 to end")
    mark.touch()
    assert [worker.wait(), chief.wait()] == [0, 0]


def test_a_worker_that_ends_before_the_chief_starts_waits_to_say_so(
    launch: Launch, addresses: Addresses
) -> None:
    """Otherwise the chief would wait for it as for a machine that comes late."""
    hosts = addresses(2)
    worker = launch(*ONCE, "echo", "worked", **of_two_workers(1, hosts))
    worker.printed("worked")
    chief = launch(*ONCE, "true", **of_two_workers(0, hosts))
    assert [worker.wait(), chief.wait()] == [0, 0]


def test_a_vertex_chief_that_waits_can_be_stopped(launch: Launch, addresses: Addresses) -> None:
    hosts = addresses(2)
    chief = launch(*ONCE, "true", **with_evaluator(0, hosts))
    chief.printed("rsctl: waiting for evaluator-0 to end")
    chief.process.send_signal(signal.SIGTERM)
    assert chief.wait() == 128 + signal.SIGTERM


def test_a_vertex_chief_that_has_failed_waits_for_nobody(
    launch: Launch, addresses: Addresses
) -> None:
    chief = launch(*ONCE, "sh", "-c", "exit 4", **with_evaluator(0, addresses(2)))
    assert chief.wait() == 4
