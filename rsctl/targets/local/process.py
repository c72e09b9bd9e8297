"""Target `process`: every replica a process group on loopback. No Docker, no account."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from shutil import which
from typing import Any, Optional

import rsctl_start
from rsctl.findings import Finding, error, note
from rsctl.images.events import Show
from rsctl.installation import install_command
from rsctl.job.job import Job
from rsctl.job.options import process_options
from rsctl.node.rank_profiler import TOOL, find_tool
from rsctl.runs.folder import unwritable
from rsctl.runs.home import run_directory
from rsctl.targets.base import ImagePlan, NodeCommand, Plan, Submission
from rsctl.targets.inputs import input_env, planned
from rsctl.targets.launch_command import launch_arguments, user_command
from rsctl.targets.local import rendering
from rsctl.targets.local.asking import ask_processes
from rsctl.targets.local.info import PROCESS
from rsctl.targets.local.inputs import disk_findings, input_plans
from rsctl.targets.local.other_python import (
    path_findings,
    probe,
    python_env,
    runtime_folder,
    write_runtime,
)
from rsctl.targets.local.oversubscription import oversubscription
from rsctl.targets.local.source_copy import copy_source, working_directory
from rsctl.targets.local.target import LocalTarget
from rsctl.targets.variables import reducer_count, secrets_of


class ProcessTarget(LocalTarget):
    """Plain processes on this machine."""

    info = PROCESS

    def render(self, job: Job, run: str) -> Submission:
        """The commands and environments of all replicas."""
        share = rendering.share_out(job, self.host.gpus, self.host.cpus)
        replicas = list(rendering.replicas(job, share))
        pools, world_size = rendering.pools(job, share), share.world_size
        plan = Plan(
            run=run,
            target=self.info.name,
            image=ImagePlan(tag=None, transport="rsctl" if reducer_count(job) else "none"),
            pools=pools,
            world_size=world_size,
            env={**replicas[0].env, **_locations(job, run)},
            request={
                "commands": [self._command(job, run, replica) for replica in replicas],
                **rendering.supervision(job),
            },
            findings=[
                *path_findings(job),
                *rendering.share_findings(job, share),
                *rendering.comm_findings(job, share),
                *_mpi_findings(job),
                *_role_findings(job),
                *rendering.restart_findings(job),
                *disk_findings(job, self.info.name),
                *oversubscription(job, pools, world_size, self.host.cpus),
            ],
            inputs=planned(input_plans(job, run, self.info.name)),
        )
        return Submission(plan, job, secrets=secrets_of(job))

    def _command(self, job: Job, run: str, replica: rendering.Replica) -> dict[str, Any]:
        """The process of a replica. rsctl-launch derives a reducer's command from its role."""
        target, loopback = self.info.name, self.host.loopback
        place = rendering.identity_env(job, run, target, replica, loopback, "127.0.0.1")
        folder, env = str(run_directory(run) / replica.name), replica.env
        if replica.role != "reducer":
            folder = working_directory(job, run, replica.name)
            env = {**self._visible(replica.gpus), **env, **_locations(job, run)}
        return {
            "replica": replica.name,
            "role": replica.role,
            "argv": self._argv(replica.job, run, replica.ranks),
            "cwd": folder,
            "env": {**env, **place, **python_env(replica.job, run)},
        }

    def _visible(self, gpus: tuple[int, ...]) -> dict[str, Optional[str]]:
        """Hide the GPUs of other replicas, or all GPUs if none is requested."""
        return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))} if self.host.gpus else {}

    def _argv(self, job: Job, run: str, ranks: int) -> list[str]:
        if job.run.launcher == "none":
            return user_command(job)
        python = process_options(job).python
        launch = (
            rsctl_start.command("rsctl.node.launch", self.host.python)
            if python is None
            else rsctl_start.command("rsctl.node.launch", str(python), runtime_folder(run))
        )
        inputs = input_plans(job, run, self.info.name)
        return launch + launch_arguments(job, ranks, inputs=inputs)

    def prepare(self, submission: Submission, show: Show) -> None:
        """See LocalTarget.prepare; the run's folder may get rsctl's runtime and the source."""
        super().prepare(submission, show)
        try:
            write_runtime(submission.job, submission.plan.run)
            copy_source(submission.job, submission.plan.run)
        except OSError as problem:
            raise unwritable(run_directory(submission.plan.run), problem) from None

    def ask_nodes(self, run: str, replicas: Sequence[str], number: int) -> None:
        """See `rsctl.api.debug.AskableTarget`."""
        ask_processes(run, replicas, number)

    def enter(
        self, run: str, replica: str, command: list[str], is_terminal: bool
    ) -> NodeCommand | None:
        """See Enterable. The command ends with the run, as all that has its variables does."""
        from rsctl.targets.local.enter import process_command

        return process_command(run, replica, command or [os.environ.get("SHELL") or "sh"])

    def _missing_profiler(self, job: Job) -> Finding | None:
        """The error that a tool of `profile` is not installed; nodes of another Python look for it
        there.
        """
        tool = job.profile.tool if job.profile is not None else "torch"
        if tool == "torch" or process_options(job).python is not None:
            return None
        if find_tool({**os.environ, TOOL: tool}) is not None:
            return None
        message = f"this machine has no {tool}"
        remedy = install_command("profile") if tool == "py-spy" else (
            "install NVIDIA Nsight Systems, or use profile.tool: torch"
        )  # fmt: skip
        return error("profile", message, remedy, "profile.tool")

    def results(self, plan: Mapping[str, Any]) -> dict[str, str]:
        """See Target.results."""
        env = plan.get("env", {})
        return {
            "outputs": env["RSCTL_OUTPUT_DIR"],
            "checkpoints": env["RSCTL_CHECKPOINT_DIR"],
        }

    def preflight(self, submission: Submission) -> list[Finding]:
        """Whether the launcher finds torch, or mpirun, and the profiler is installed."""
        if missing := self._missing_profiler(submission.job):
            return [missing]
        if submission.job.run.launcher == "mpi" and which("mpirun") is None:
            message = "launcher mpi needs Open MPI's mpirun, which this machine does not have"
            remedy = "install openmpi-bin, or use target compose with image.apt: [openmpi-bin]"
            return [error("mpirun", message, remedy, "run.launcher")]
        if process_options(submission.job).python is not None and submission.job.run.is_launched:
            return probe(submission.job)
        if submission.job.run.launcher == "torchrun" and find_spec("torch") is None:
            return [
                error(
                    "torch",
                    f"launcher torchrun needs torch, which {self.host.python} does not have",
                    f"{install_command('local')}, set another environment's interpreter in "
                    "targets.process.python, or use run.launcher: once",
                    "run.launcher",
                )
            ]
        return []


def _mpi_findings(job: Job) -> Iterator[Finding]:
    """mpirun treats all of these nodes as one: they share this machine's addresses."""
    if job.run.launcher == "mpi" and job.workers.count > 1:
        message = "mpirun treats the nodes of target process as one, because all are this machine"
        remedy = "set workers.count: 1 and workers.processes, or use target compose"
        yield error("mpi", message, remedy, "workers.count")


def _role_findings(job: Job) -> Iterator[Finding]:
    """A role with its own image is a program of this machine here."""
    for name, role in job.roles.items():
        if role.image is None:
            continue
        path = f"roles.{name}"
        if role.command is None:
            message = (
                "target process runs no images, so it needs a command that exists on this machine"
            )
            yield error("unsupported", message, f"set {path}.command", f"{path}.image")
        else:
            yield note(
                "unused",
                "target process runs on this machine, without an image",
                None,
                f"{path}.image",
            )


def _locations(job: Job, run: str) -> dict[str, Optional[str]]:
    directory = run_directory(run)
    env = input_env(input_plans(job, run, "process"))
    env["RSCTL_OUTPUT_DIR"] = str(job.outputs or directory / "outputs")
    env["RSCTL_CHECKPOINT_DIR"] = str(job.checkpoints or directory / "checkpoints")
    return env


TARGET = ProcessTarget()
