"""One node's part of a job, from the platform's contract to the exit code of its command."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import chain
from types import FrameType
from typing import TYPE_CHECKING

from rsctl.node import (
    awaited_roles,
    environment,
    exit_report,
    inputs,
    liveness,
    lost_files,
    path_placeholders,
    process_spec,
    process_tree,
    profiling,
    rank,
    rank_profiler,
)
from rsctl.node.check.recheck import Recheck, image_transport, start_recheck
from rsctl.node.cluster import Cluster
from rsctl.node.errors import ENVIRONMENT, LaunchError
from rsctl.node.health.settings import CHECKS
from rsctl.node.kept_node import KeptNode
from rsctl.node.left_behind import left_behind_finding
from rsctl.node.network import is_loopback, named_interface, with_interface
from rsctl.node.peers import wait_at_barrier, wait_for_listeners, wait_for_names
from rsctl.node.platforms import LOCAL, read_cluster
from rsctl.node.process_spec import ProcessSpec
from rsctl.node.rank_output import RankOutput
from rsctl.node.settings import number
from rsctl.node.soft_stop import SoftStop
from rsctl.node.stall.agent import StallAgent, debug_environment
from rsctl.node.stderr_tail import StderrTail
from rsctl.node.structured_lines import emit
from rsctl.node.telemetry import start_telemetry
from rsctl.node.threads import stop_signals_blocked
from rsctl.node.traffic_control import NetworkLimits, limit_network
from rsctl.node.versions import VersionReport

if TYPE_CHECKING:
    from rsctl.node import liveness_server, slots
    from rsctl.node.mpi.chief import HeldNodes
    from rsctl.node.options import Options

_TELEMETRY_SECONDS = 10


def main(options: Options) -> int:
    """Run this node's part of the job and return the exit code of its command.

    Where the job cannot start, it prints a `finding` line; errors.py has the exit codes.
    """
    try:
        return _launch(options, os.environ)
    except LaunchError as error:
        emit("finding", error.finding())
        exit_report.write_failure(os.environ, f"{error.message}. {error.remedy}")
        return error.exit_code


def _launch(options: Options, environ: Mapping[str, str]) -> int:
    _end_on_stop_signals()
    if environ.get("RSCTL_TARGET") == "process":
        _end_with_supervisor(environ)
    exit_report.remove_failure(environ)
    cluster = read_cluster(environ)
    if key := exit_report.announce_start(cluster, environ):
        environ = {**environ, rank.EXIT_KEY: key}
    client = None
    if cluster.role == "worker" and liveness.stopped_nodes(cluster, environ):
        from rsctl.node import liveness_client  # few jobs have such nodes

        client = liveness_client.start_client(cluster, environ)
    to_chief = awaited_roles.start_client(cluster, environ)
    kept = KeptNode(options.keep, environ)
    try:
        code = _run_checked(cluster, options, environ, kept)
    finally:
        if client is not None:
            client.close()
    if to_chief is not None and code == 0:
        code = awaited_roles.end_client(to_chief, cluster, environ)
    kept.hold(cluster.replica, code)  # the reducers, which the client has told, may end
    return code


def _run_checked(
    cluster: Cluster, options: Options, environ: Mapping[str, str], kept: KeptNode
) -> int:
    """Run the node's process; the proof of the image's transport runs beside it and may end it."""
    process_spec.require_modules(cluster, options.launcher, environ)
    recheck = start_recheck(image_transport(), environ) if cluster.role == "worker" else None
    try:
        code = _run(cluster, recheck, options, environ, kept)
    except SystemExit:
        if recheck is None or not recheck.must_end():
            raise
        code = ENVIRONMENT
    if recheck is not None and recheck.must_end():
        code = ENVIRONMENT
        exit_report.write_failure(
            environ, f"{cluster.replica}: the image's transport cannot work here"
        )
    return code


def _run(
    cluster: Cluster,
    recheck: Recheck | None,
    options: Options,
    environ: Mapping[str, str],
    kept: KeptNode,
) -> int:
    """Prepare the node, run its command, and return the node's exit code."""
    telemetry_seconds = number(environ, "RSCTL_TELEMETRY_SECONDS", _TELEMETRY_SECONDS)
    limit_network(NetworkLimits.from_env(environ), cluster.interface)
    environ = inputs.provide(cluster, options, environ)  # nodes start apart: others may be waiting
    cluster = _wait_for_peers(cluster, environ)
    if environ.get(CHECKS):
        from rsctl.node.health.checks import run_checks

        run_checks(cluster, environ)
    environ = profiling.with_usable_tool(environ, _profiled_ranks(cluster, options))
    process_tree.adopt_orphans()
    if cluster.role == "worker" and f"{environment.SLOTS}0" in environ:
        from rsctl.node import slots

        packed = slots.decode(environ)
        awaited = awaited_roles.start_server(cluster, environ)
        run = _runner(recheck, telemetry_seconds)
        code = slots.run_slots(packed, cluster, options, environ, run)
        return awaited.wait() if awaited is not None and code == 0 else code

    job = _process_spec(cluster, options, environment.node_environment(cluster, environ))
    began = time.time()
    if not job.argv:
        from rsctl.node.mpi.starter import run_for_chief

        job = job._replace(environ={**job.environ, **debug_environment(job.environ)})
        interface = _own_interface(cluster, environ)
        with stop_signals_blocked():
            start_telemetry(telemetry_seconds, interface)
            agent = StallAgent.start(cluster, job.environ, interface, ())
        try:
            code = run_for_chief(cluster, job.environ)
        finally:
            if agent is not None:
                agent.close()
        profiling.report_profiles(environ, _profiled_ranks(cluster, options), began)
        return code
    job = job._replace(environ={**job.environ, **debug_environment(job.environ)})
    nodes = _held_nodes(cluster, options, environ)
    awaited = awaited_roles.start_server(cluster, environ)
    code = _run_command(job, cluster, recheck, options, environ, telemetry_seconds, kept=kept)
    if nodes is not None:
        nodes.end(code)
    if awaited is not None and code == 0:
        code = awaited.wait()
    if code == 0:
        _report_lost_files(job, cluster, environ, began)
    return code


def _runner(recheck: Recheck | None, telemetry_seconds: float) -> slots.Run:
    """How the slots of a packed job are run."""

    def run(cluster: Cluster, options: Options, environ: Mapping[str, str], stop: SoftStop) -> int:
        job = _process_spec(cluster, options, environment.node_environment(cluster, environ))
        job = job._replace(environ={**job.environ, **debug_environment(job.environ)})
        return _run_command(job, cluster, recheck, options, environ, telemetry_seconds, stop)

    return run


def _run_command(
    job: ProcessSpec,
    cluster: Cluster,
    recheck: Recheck | None,
    options: Options,
    environ: Mapping[str, str],
    telemetry_seconds: float,
    soft_stop: SoftStop | None = None,
    kept: KeptNode | None = None,
) -> int:
    """Run the node's command, with what watches it, to its end; returns the node's exit code.

    `soft_stop` ends it; by default a stop of the node does. `kept` learns of a failure.
    """
    tail = exit_report.keep_stderr_tail(options.launcher, cluster, environ)
    output = _separate_output(cluster, options)
    server: liveness_server.LivenessServer | None = None
    ends_with_workers = cluster.role in liveness.stopped_nodes(cluster, environ)
    are_workers_there: Callable[[], bool] | None = None
    if ends_with_workers:
        are_workers_there = lambda: server is None or not server.has_ended  # noqa: E731
    elif cluster.role == "reducer":  # the supervisor stops it after the workers
        are_workers_there = lambda: False  # noqa: E731
    stop_signal = signal.SIGTERM if cluster.role == "reducer" else stop_signal_of(options)
    soft_stop = soft_stop or _soft_stop(environ, are_workers_there, stop_signal)
    began = time.time()
    child = _start(job, tail, output, soft_stop)
    sampler = None
    if cluster.role == "worker" and options.launcher == "once":  # others: rank.py starts it
        sampler = rank_profiler.start_sampler(child, job.argv, job.environ, cluster.index)
    # Threads begin here: they hold back the signals that this one waits for, and none is forked.
    if ends_with_workers:
        from rsctl.node import liveness_server

        server = liveness_server.start_server(cluster, environ)
    versions = VersionReport(environ) if telemetry_seconds > 0 else None
    start_telemetry(telemetry_seconds, _own_interface(cluster, environ))
    interface, ranks = _own_interface(cluster, environ), _ranks_here(cluster, options)
    agent = StallAgent.start(cluster, job.environ, interface, ranks)

    status = rank.wait(child, soft_stop)
    if agent is not None:
        agent.command_ended(status.code != 0)
    stderr = tail.end() if tail is not None else ""
    rank_profiler.end_sampler(sampler)
    profiling.report_profiles(job.environ, _profiled_ranks(cluster, options), began)
    if output is not None:
        output.pass_on_written()  # before the report: a diagnosis reads what stands above it
    workers_ended = server is not None and server.has_ended
    code = exit_report.report_exit(
        status, stderr, options.launcher, cluster, workers_ended, environ
    )
    if kept is not None:
        kept.has_failed = status.is_failure and code != 0
    if recheck is not None and status.is_failure:  # its proof may be why the command failed
        recheck.wait()
    if versions is not None:
        versions.finish()
    if code == 0 and (left := left_behind_finding(cluster.replica, job.argv)):
        emit("finding", left)
    process_tree.kill_descendants()  # before the end of `output`, whose pipes they hold open
    if agent is not None:
        agent.close()
    if output is not None:
        output.end()
    if soft_stop is None:
        return code
    is_exact = options.launcher == "torchrun" and cluster.platform == LOCAL
    was_stopped = soft_stop.has_told_ranks if is_exact else soft_stop.has_ended_ranks
    return _code_after(soft_stop, code, was_stopped)


def _soft_stop(
    environ: Mapping[str, str],
    are_workers_there: Callable[[], bool] | None,
    stop_signal: signal.Signals,
) -> SoftStop | None:
    """The requests to this node's ranks to end before they are signalled; None without a folder.

    A reducer is needed until the workers have ended. Where it learns of that by itself, it ends
    then; elsewhere the platform or rsctl's own supervisor ends it after them.
    """
    with suppress(OSError):
        return SoftStop(environ, are_workers_there, stop_signal)
    return None


def stop_signal_of(options: Options) -> signal.Signals:
    """The signal that asks the ranks to end."""
    return signal.Signals[f"SIG{options.stop_signal}"]


def _code_after(soft_stop: SoftStop, code: int, was_stopped: bool) -> int:
    """The node's exit code. Ranks that ended because of a stop have not completed their work.

    torchrun ends with 0 after a signal only if its ranks had ended before it. On the machines of a
    cloud that does not count: a chief's 0 could be taken for the success of the job.
    After a stop by this node's own time limit the platform ends the job: it knows why.
    """
    is_complete = code == 0 and not was_stopped
    has_failed = code not in (0, 128 + signal.SIGTERM, 128 + soft_stop.stop_signal)
    if not is_complete and not has_failed and soft_stop.is_own:
        print("rsctl: the ranks have ended; waiting for the job's time limit", flush=True)
        code = 128 + signal.sigwait(rank.STOP_SIGNALS)
    elif not is_complete and not has_failed:
        code = 128 + signal.SIGTERM
    soft_stop.end()
    return code


def _report_lost_files(
    job: ProcessSpec, cluster: Cluster, environ: Mapping[str, str], began: float
) -> None:
    """Print a finding if the command has written files that end with this container."""
    has_outputs = cluster.role != "reducer" and "RSCTL_OUTPUT_DIR" in job.environ
    if has_outputs and _is_container(cluster, environ):
        lost = lost_files.lost_files_finding(os.getcwd(), began, job.environ)
        if lost is not None:
            emit("finding", lost)


def _ranks_here(cluster: Cluster, options: Options) -> range:
    """The ranks that torchrun starts on this node."""
    return _profiled_ranks(cluster, options) if options.launcher == "torchrun" else range(0)


def _profiled_ranks(cluster: Cluster, options: Options) -> range:
    """The ranks of this node that may be profiled; with launcher once, the node's number."""
    if cluster.role != "worker":
        return range(0)
    first = cluster.index * options.processes
    return range(first, first + options.processes)


def _separate_output(cluster: Cluster, options: Options) -> RankOutput | None:
    """The output that keeps lines of this node's ranks, and its own structured lines, whole.

    A node that cannot create named pipes continues without it: all write to one output.
    """
    is_shared = options.launcher == "torchrun" and options.processes > 1
    with suppress(OSError):
        ranks = options.processes if cluster.role == "worker" and is_shared else 0
        return RankOutput(cluster.replica, ranks)
    return None


def _start(
    job: ProcessSpec,
    tail: StderrTail | None,
    output: RankOutput | None,
    soft_stop: SoftStop | None,
) -> int:
    environ = {**job.environ, **(soft_stop.environ if soft_stop is not None else {})}
    if output is None:
        return rank.start(job.argv, environ, tail)
    child = rank.start(job.argv, {**environ, **output.environ}, tail, output.writers)
    output.begin()
    return child


def _held_nodes(cluster: Cluster, options: Options, environ: Mapping[str, str]) -> HeldNodes | None:
    """The other nodes whose ranks this node's mpirun starts; None if there are none."""
    if cluster.role != "worker" or options.launcher != "mpi" or len(cluster.workers) < 2:
        return None
    from rsctl.node.mpi.chief import HeldNodes

    return HeldNodes(cluster, environ)


def _wait_for_peers(cluster: Cluster, environ: Mapping[str, str]) -> Cluster:
    """Wait for the other nodes, then find the interface to them if the platform names none.

    A reducer that knows its interface does not wait: workers connect to it. On clouds, nodes start
    minutes apart, longer than scripts wait for reducers.
    """
    named = cluster._replace(interface=named_interface(cluster))
    if named.platform != LOCAL and named.role == "reducer" and named.interface is not None:
        return named
    timeout = environment.peer_timeout(cluster, environ)
    if len(cluster.hosts) > 1:
        wait_for_names(cluster.hosts, timeout)
    if "RSCTL_READY" in environ:
        attempt, own = environ.get("RSCTL_ATTEMPT", ""), cluster.own_host
        wait_at_barrier(environ["RSCTL_READY"], attempt, own, cluster.hosts, timeout)
    if named.platform != LOCAL and named.role == "worker":
        wait_for_listeners(zip(named.reducers, named.reducer_ports, strict=True), timeout)
        wait_for_listeners(_stopped_roles(named, environ), timeout, "the roles")
    return with_interface(named)


def _stopped_roles(cluster: Cluster, environ: Mapping[str, str]) -> list[tuple[str, int]]:
    """Where the nodes of roles that end with the workers wait for these to report.

    A short script would else end before they have learnt that there was a worker.
    """
    stopped = liveness.stopped_nodes(cluster, environ)
    nodes = chain(*(nodes for role, nodes in stopped.items() if role != "reducer"))
    return [(host, liveness.liveness_port(port)) for host, port in nodes]


def _process_spec(cluster: Cluster, options: Options, environ: Mapping[str, str]) -> ProcessSpec:
    """The process that this node starts. The key of the `exit` lines goes to the program that
    starts ranks, and from there to rank.py, which keeps it from the script.
    """
    with_key = environ
    environ = {name: value for name, value in environ.items() if name != rank.EXIT_KEY}
    if cluster.role == "reducer":
        return process_spec.reducer(cluster, options.processes, environ)
    command = path_placeholders.replace_placeholders(options.command, options.fill, environ)
    if cluster.role != "worker":
        return process_spec.of_role(cluster, command, inputs.of_first_rank(environ))
    if options.launcher == "mpi":
        return process_spec.mpi(cluster, options.processes, command, with_key)
    if options.launcher == "once":
        command = rank_profiler.wrapped(command, environ, cluster.index)
        return process_spec.once(cluster, command, inputs.of_first_rank(environ))
    restarts = options.restarts_in_place
    return process_spec.torchrun(cluster, options.processes, command, with_key, restarts)


def _own_interface(cluster: Cluster, environ: Mapping[str, str]) -> str | None:
    """The interface whose traffic is this replica's alone, if there is one."""
    return cluster.interface if _is_container(cluster, environ) else None


def _is_container(cluster: Cluster, environ: Mapping[str, str]) -> bool:
    """Whether this node's files go with it: not those of processes on the user's own machine."""
    is_rehearsed = cluster.platform != LOCAL and is_loopback(cluster.own_host)
    return environ.get("RSCTL_TARGET") != "process" and not is_rehearsed


def _end_on_stop_signals() -> None:
    """End at a stop signal, until there is a command to pass the signals on to. Further signals do
    not interrupt what the first one requires.

    The kernel does not end a container's first process by a signal that it does not handle.
    """
    earlier = itertools.count()

    def end(signum: int, _: FrameType | None) -> None:
        if not next(earlier):
            sys.exit(128 + signum)

    for signum in rank.STOP_SIGNALS:
        signal.signal(signum, end)


def _end_with_supervisor(environ: Mapping[str, str]) -> None:
    """Get SIGTERM when the process that started this replica dies, even by SIGKILL."""
    supervisor = int(number(environ, "RSCTL_PARENT", os.getppid()))
    rank.die_with_parent(signal.SIGTERM, supervisor)
