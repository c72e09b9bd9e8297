"""The checks of `rsctl doctor JOB` on a cluster. They change nothing."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from rsctl.clients.endpoints import Endpoints
from rsctl.findings import ExitCode, RsctlError
from rsctl.job.job import Job
from rsctl.targets.base import Plan
from rsctl.targets.doctor import Check, ok, run_check, skipped
from rsctl.targets.managed.service import answer_of
from rsctl.targets.slurm.cluster import refused
from rsctl.targets.slurm.commands import CommandCluster
from rsctl.targets.slurm.connections import open_cluster
from rsctl.targets.slurm.options import SlurmOptions, slurm_options
from rsctl.targets.slurm.preflight import preflight_findings
from rsctl.targets.slurm.rest import RestCluster

OLDEST = (22, 5)
"""The oldest version of Slurm that rsctl is tested with."""

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.\d+)?")
_LIMIT = re.compile(r"(?:(?P<days>\d+)-)?(?:(?P<h>\d+):)?(?P<m>\d+):(?P<s>\d+)")


def slurm_checks(job: Job, plan: Plan) -> Iterator[Check]:
    """Check that the cluster has what the job asks for."""
    options = slurm_options(job)
    try:
        if lacking := preflight_findings(options.connection):
            raise RsctlError(ExitCode.ENVIRONMENT, *lacking)
        cluster = open_cluster(options.connection, Endpoints.of_environment())
    except RsctlError as problem:
        finding = problem.findings[0]
        yield Check(
            name="connection",
            verdict="error",
            message=finding.message,
            remedy=finding.remedy,
            path=finding.path,
        )
        return
    if isinstance(cluster, CommandCluster):
        yield from _command_checks(cluster, job, plan, options)
    elif isinstance(cluster, RestCluster):
        yield from _rest_checks(cluster, job, options)


def _command_checks(
    cluster: CommandCluster, job: Job, plan: Plan, options: SlurmOptions
) -> Iterator[Check]:
    def output(program: str, doing: str) -> str:
        return answer_of(lambda: cluster.output(program, doing))

    connection = run_check(
        "connection", lambda: _version(output("sinfo --version", "name its version"), options)
    )
    yield connection
    if connection.verdict == "error":
        return
    yield run_check(
        "partition",
        lambda: _partition(
            output("sinfo --all -h -o '%P %l %D %a'", "list partitions"), job, options
        ),
    )
    yield run_check("shared folder", lambda: _shared(cluster, options))
    yield run_check("schedule", lambda: answer_of(lambda: _schedule(cluster, plan)))
    if options.container != "none":
        found = run_check("container", lambda: _container(cluster, options))
        if found.verdict == "error" and options.setup:
            found = skipped("container", f"{found.message}: targets.slurm.setup may load it")
        yield found
    try:
        rows = output(
            'sacctmgr -nP show associations user="$(id -un)" format=account,partition,qos',
            "list associations",
        )
    except RsctlError:
        yield skipped("account", "the cluster has no accounting")
        return
    yield run_check("account", lambda: _account(rows, options))


def _version(text: str, options: SlurmOptions) -> str:
    found = _VERSION.search(text)
    if found is None:
        raise refused("slurm-version", f"{text.strip()[:80]!r} is not a version of Slurm", None)
    if (int(found[1]), int(found[2])) < OLDEST:
        message = f"Slurm {found[0]} is older than 22.05, the oldest that rsctl is tested with"
        raise refused("slurm-version", message, "use a newer cluster", "targets.slurm.connection")
    return f"Slurm {found[0]} by {options.connection}"


def _partition(text: str, job: Job, options: SlurmOptions) -> str:
    """The limits of the job's partitions. The default one has a * after its name."""
    rows = [line.split() for line in text.splitlines() if len(line.split()) == 4]
    wanted = options.partition.split(",") if options.partition else []
    found = {row[0].rstrip("*"): row for row in rows}
    if not wanted:
        wanted = [row[0].rstrip("*") for row in rows if row[0].endswith("*")]
    if not wanted:
        message = "the cluster has no default partition"
        raise refused("partition", message, _one_of(found), "targets.slurm.partition")
    for name in wanted:
        if name not in found:
            message = f"there is no partition {name}"
            raise refused("partition", message, _one_of(found), "targets.slurm.partition")
    asked = float(job.limits.timeout or 0)
    limits = {name: _seconds(found[name][1]) for name in wanted}
    # Of several partitions, Slurm takes one that allows the job.
    long = [name for name in wanted if (limit := limits[name]) is None or asked <= limit]
    if not long:
        allowed = ", ".join(f"{name} allows {found[name][1]}" for name in wanted)
        message = f"partition {allowed}, and limits.timeout is longer: the"
        message += " job would wait forever, or be refused"
        remedy = "set a shorter limits.timeout, or another partition"
        raise refused("time-limit", message, remedy, "limits.timeout")
    closed = [f"partition {name} is {found[name][3]}" for name in long if found[name][3] != "up"]
    if len(closed) == len(long):
        message = f"{', '.join(closed)}: it starts no jobs"
        raise refused("partition", message, "set another partition", "targets.slurm.partition")
    shown = ", ".join(f"{n} ({found[n][2]} nodes, at most {found[n][1]})" for n in wanted)
    return f"partition {shown}"


def _one_of(names: dict[str, list[str]]) -> str:
    return f"set targets.slurm.partition to one of {', '.join(sorted(names)[:10])}"


def _seconds(text: str) -> float | None:
    """D-HH:MM:SS as seconds; None for infinite."""
    match = _LIMIT.fullmatch(text)
    if match is None:
        return None
    parts = {name: int(value or 0) for name, value in match.groupdict().items()}
    return parts["days"] * 86400.0 + parts["h"] * 3600 + parts["m"] * 60 + parts["s"]


def _shared(cluster: CommandCluster, options: SlurmOptions) -> str:
    folder = shlex.quote(str(options.shared))
    program = f"[ -d {folder} ] && [ -w {folder} ] && echo yes || true"
    answer = answer_of(lambda: cluster.output(program, "look at the shared folder"))
    if answer.strip() != "yes":
        message = f"{options.shared} does not exist there, or you may not write to it"
        remedy = "make the folder, and set targets.slurm.shared to it"
        raise refused("shared", message, remedy, "targets.slurm.shared")
    return f"{options.shared} is writable; each job proves on its nodes that they share it"


def _schedule(cluster: CommandCluster, plan: Plan) -> str:
    """The answer of `sbatch --test-only`, which submits nothing."""
    text = cluster.test(plan.request["script"]).splitlines()
    return re.sub(r"^sbatch: ", "", text[-1]) if text else "Slurm would accept the job"


def _container(cluster: CommandCluster, options: SlurmOptions) -> str:
    program = {
        "pyxis": "srun --help 2>&1 | grep -c -e --container-image || true",
        "apptainer": "command -v apptainer || true",
    }[options.container]
    found = answer_of(lambda: cluster.output(program, "look for containers")).strip()
    if found in ("", "0"):
        where = "there is no command apptainer"
        if options.container == "pyxis":
            where = "srun has no option --container-image"
        remedy = "set another targets.slurm.container, or load its module in targets.slurm.setup"
        raise refused("container", where, remedy, "targets.slurm.container")
    return f"{options.container} is installed"


def _account(rows: str, options: SlurmOptions) -> str:
    accounts = list(dict.fromkeys(row.partition("|")[0] for row in rows.splitlines() if row))
    if not accounts:
        message = "you have no association with an account of the cluster"
        raise refused("account", message, "ask the cluster's administrators for one")
    if options.account is not None and options.account.lower() not in accounts:
        message = f"you have no association with account {options.account}"
        remedy = f"set targets.slurm.account to one of {', '.join(accounts[:10])}"
        raise refused("account", message, remedy, "targets.slurm.account")
    if options.account is None and len(accounts) > 1:
        return f"your default account, of {', '.join(accounts[:10])}"
    return f"account {options.account or accounts[0]}"


def _rest_checks(cluster: RestCluster, job: Job, options: SlurmOptions) -> Iterator[Check]:
    def version() -> str:
        body = answer_of(lambda: cluster.get("/ping/", "name its version"))
        release = ((body.get("meta") or {}).get("slurm") or {}).get("release", "")
        return _version(str(release), options)

    connection = run_check("connection", version)
    yield connection
    if connection.verdict == "error":
        return

    def partitions() -> str:
        body = answer_of(lambda: cluster.get("/partitions/", "list partitions"))
        rows = [_partition_row(each) for each in body.get("partitions", ())]
        return _partition("\n".join(rows), job, options)

    if options.partition is None:
        yield skipped("partition", "slurmrestd does not name the default partition")
    else:
        yield run_check("partition", partitions)
    if cluster.has_files(f"{options.shared}/run"):
        yield ok("shared folder", f"{options.shared} exists on this machine")
    else:
        message = f"{options.shared} does not exist on this machine: logs and results stay there"
        remedy = "mount it here, or set targets.slurm.connection: ssh://LOGIN-NODE"
        yield Check(
            name="shared folder",
            verdict="warning",
            message=message,
            remedy=remedy,
            path="targets.slurm.connection",
        )
    yield skipped("schedule", "slurmrestd has no test of a job: `sbatch --test-only` has")


def _partition_row(partition: dict[str, object]) -> str:
    """A partition of the API as a line of `sinfo -o '%P %l %D %a'`."""
    maximums = partition.get("maximums")
    time = maximums.get("time") if isinstance(maximums, dict) else None
    is_limited = isinstance(time, dict) and time.get("set") and not time.get("infinite")
    minutes = int(time["number"]) if is_limited and isinstance(time, dict) else None
    limit = f"{minutes // 60}:{minutes % 60:02d}:00" if minutes is not None else "infinite"
    nodes = partition.get("nodes")
    total = nodes.get("total", 0) if isinstance(nodes, dict) else 0
    own = partition.get("partition")
    states = own.get("state") if isinstance(own, dict) else None
    state = str(states[0]).lower() if isinstance(states, list) and states else "up"
    return f"{partition.get('name')} {limit} {total} {state}"
