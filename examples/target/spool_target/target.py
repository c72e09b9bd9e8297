"""Target `spool`: a job as the request that the queue takes. `ManagedTarget` does the rest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import rsctl_start
from rsctl.clients.endpoints import Endpoints
from rsctl.findings import Finding
from rsctl.images.events import Show
from rsctl.job.inputs import inputs_of
from rsctl.job.job import Job
from rsctl.runs.home import run_directory
from rsctl.targets.base import ImagePlan, Placeholder, Plan, Pool, Submission
from rsctl.targets.launch_command import launch_arguments, user_command
from rsctl.targets.managed.service import JobService
from rsctl.targets.managed.target import ManagedTarget
from rsctl.targets.variables import secret_names, user_env
from spool_target.info import INFO, SpoolOptions

_CLUSTER = {"role": "worker", "index": 0, "workers": ["127.0.0.1"], "reducers": []}


class SpoolTarget(ManagedTarget):
    """A queue of jobs in a folder of this machine."""

    info = INFO

    def render(self, job: Job, run: str) -> Submission:
        """The command with its variables. Nothing but the job and the run's ID goes in."""
        options: SpoolOptions = INFO.options_of(job)
        ranks = 1 if job.workers.processes == "auto" else job.workers.processes
        launch = [*rsctl_start.command("rsctl.node.launch"), *launch_arguments(job, ranks)]
        env = {
            **{given.variable: str(given.location) for given in inputs_of(job, INFO.name)},
            "RSCTL_RUN": run,
            "RSCTL_TARGET": INFO.name,
            "RSCTL_CLUSTER": json.dumps(_CLUSTER),  # from this rsctl-launch knows its node
            "RSCTL_OUTPUT_DIR": str(job.outputs or run_directory(run) / "outputs"),
            **({"RSCTL_CHECKPOINT_DIR": str(job.checkpoints)} if job.checkpoints else {}),
            **user_env(job),  # a secret is None
        }
        request = {
            "command": user_command(job) if job.run.launcher == "none" else launch,
            "env": env,
            "cwd": str(job.image.source or "/"),
            "folder": options.folder,
            "niceness": options.niceness,
        }
        plan = Plan(
            run=run,
            target=INFO.name,
            image=ImagePlan(tag=None, transport="none"),
            pools=[Pool(role="worker", count=1)],
            world_size=ranks,
            env=env,
            request=request,
        )
        secrets = secret_names(job, has_reducers=False)
        places = tuple(Placeholder(("env", name), name) for name in secrets)
        return Submission(plan, job, placeholders=places, secrets=secrets)

    def service(self, endpoints: Endpoints) -> JobService:
        """The queue; another service would be at the endpoints."""
        from spool_target.service import SpoolService  # which a plan does not need

        del endpoints
        return SpoolService()

    def have_image(self, submission: Submission, show: Show) -> str | None:
        """There are no containers."""
        del submission, show
        return None

    def preflight(self, submission: Submission) -> list[Finding]:
        """Nothing is needed but this Python."""
        del submission
        return []

    def results(self, plan: Mapping[str, Any]) -> dict[str, str]:
        """The folder for outputs."""
        return {"outputs": plan["request"]["env"]["RSCTL_OUTPUT_DIR"]}

    def pages(self, url: str, plan: Mapping[str, Any]) -> dict[str, str]:
        """A queue has no pages."""
        del url, plan
        return {}


TARGET = SpoolTarget()
