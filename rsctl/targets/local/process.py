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
from rsctl.targets.chief import chief_job, worker_job
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
from rsctl.targets.roles import role_job
from rsctl.targets.variables import reducer_count, secrets_of


class ProcessTarget(LocalTarget):
    """Plain processes on this machine."""

    info = PROCESS

    def render(self, job: Job, run: str) -> Submission:
        """The commands and environments of all replicas."""
        share = rendering.share_out(job, self.host.gpus, self.host.cpus)
        commands = [
            *(self._worker(job, run, index, share) for index in range(job.workers.count)),
            *(self._reducer(job, run, index, share) for index in range(reducer_count(job))),
            *(
                self._of_role(job, run, name, index, share)
                for name, role in job.roles.items()
                for index in range(role.count)
            ),
        ]
        pools, world_size = rendering.pools(job, share), share.world_size
        plan = Plan(
            run=run,
            target=self.info.name,
            image=ImagePlan(tag=None, transport="rsctl" if reducer_count(job) else "none"),
            pools=pools,
            world_size=world_size,
            env=_script_env(chief_job(job), run, share),
            request={"commands": commands, **rendering.supervision(job)},
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

    def _worker(self, job: Job, run: str, index: int, share: rendering.Share) -> dict[str, Any]:
        replica_job = worker_job(job, index)
        env = {**_script_env(replica_job, run, share), **self._place(job, run, "worker", index)}
        return {
            "replica": f"worker-{index}",
            "role": "worker",
            "argv": self._argv(replica_job, run, share.ranks[index]),
            "cwd": working_directory(job, run, f"worker-{index}"),
            "env": self._visible(share.gpus[index]) | env | python_env(replica_job, run),
        }

    def _of_role(
        self, job: Job, run: str, role: str, index: int, share: rendering.Share
    ) -> dict[str, Any]:
        replica_job = role_job(job, role)
        env = {**rendering.role_env(replica_job, share), **_locations(job, run)}
        return {
            "replica": f"{role}-{index}",
            "role": role,
            "argv": self._argv(replica_job, run, 1),
            "cwd": working_directory(job, run, f"{role}-{index}"),
            "env": self._visible(share.role_gpus[role][index])
            | env
            | self._place(job, run, role, index)
            | python_env(replica_job, run),
        }

    def _visible(self, gpus: tuple[int, ...]) -> dict[str, Optional[str]]:
        """Hide the GPUs of other replicas, or all GPUs if none is requested."""
        return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))} if self.host.gpus else {}

    def _reducer(self, job: Job, run: str, index: int, share: rendering.Share) -> dict[str, Any]:
        """rsctl-launch derives the command from the node's role."""
        return {
            "replica": f"reducer-{index}",
            "role": "reducer",
            "argv": self._argv(job, run, share.ranks[-1]),
            "cwd": str(run_directory(run) / f"reducer-{index}"),
            "env": {
                **rendering.reducer_env(job),
                **self._place(job, run, "reducer", index),
                **python_env(job, run),
            },
        }

    def _place(self, job: Job, run: str, role: str, index: int) -> dict[str, Optional[str]]:
        workers = ["127.0.0.1"] * job.workers.count
        reducers = ["127.0.0.1"] * reducer_count(job)
        env = rendering.identity_env(job, run, self.info.name, role, f"{role}-{index}")
        roles = {
            name: ["127.0.0.1"] * job.roles[name].count for name in rendering.launched_roles(job)
        }
        nodes = workers, reducers, roles
        contract = rendering.cluster_json(role, index, *nodes, self.host.loopback)
        return {**env, "RSCTL_CLUSTER": contract}

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


def _script_env(job: Job, run: str, share: rendering.Share) -> dict[str, Optional[str]]:
    return {**rendering.script_env(job, share), **_locations(job, run)}


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
