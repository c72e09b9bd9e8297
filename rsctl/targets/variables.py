"""The environment variables that every target gives a job's containers, and their secrets. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from rsctl.findings import SECRET, Finding, error, note, warning
from rsctl.job.job import Comm, Job
from rsctl.job.secret_names import HIDDEN, is_secret_variable
from rsctl.job.source_roots import source_roots
from rsctl.targets.chief import chief_job
from rsctl.targets.roles import role_job
from rsctl.transport.tls_identity import IDENTITY_VARIABLE, TLS_VARIABLE, is_enabled, make_identity

if TYPE_CHECKING:
    from rsctl.targets.base import Submission

SLOTS = "RSCTL_SLOTS_"
"""The prefix of the variables with the slots of a packed job."""

TOKEN = "RSCTL_TOKEN"  # noqa: S105 - a name
"""The variable that has the run's secret, by which workers and reducers authenticate each other."""


def user_env(job: Job) -> dict[str, Optional[str]]:
    """The spec's own variables; None for a secret, which a plan does not show.

    With them, where packages lie in the source if that is not its own folder, as in a `src` layout.
    """
    roots = source_roots(Path(job.image.source)) if job.image.source and is_python(job) else []
    return {
        **_roots_env(roots),
        **{
            name: None if value.secret or is_secret_variable(name, value) else str(value)
            for name, value in job.run.env.items()
        },
    }


def _roots_env(roots: list[str]) -> dict[str, Optional[str]]:
    if not roots:
        return {}
    from rsctl.node.environment import SOURCE_ROOTS

    return {SOURCE_ROOTS: ":".join(roots)}


def is_python(job: Job) -> bool:
    """Whether rsctl-launch starts a job's own Python program in the source."""
    return job.run.is_launched and job.run.package is None


def secret_findings(job: Job, remedy: str) -> Iterator[Finding]:
    """The warning that anyone with permission to describe a job can see its secret variables."""
    hidden = [name for name, value in user_env(job).items() if value is None]
    if hidden:
        message = f"anyone with permission to describe the job can read {', '.join(hidden)}"
        yield warning(SECRET, message, remedy, f"run.env.{hidden[0]}")


def comm_env(job: Job, has_reducers: bool) -> dict[str, Optional[str]]:
    """The variables of the spec's `comm:` block for the PyTorch binding, without defaults."""
    comm = job.comm
    env: dict[str, Optional[str]] = {}
    if comm.backend != "auto":
        env["RSCTL_COMM_BACKEND"] = comm.backend
    if comm.bucket_mb != "auto":
        env["RSCTL_COMM_BUCKET_MB"] = str(comm.bucket_mb)
    if comm.compression != "none":
        env["RSCTL_COMM_COMPRESSION"] = comm.compression
    if comm.hook is not None:
        env["RSCTL_COMM_HOOK"] = comm.hook
    if comm.local_steps > 1:
        env |= _local_steps_env(comm)
    if has_reducers:
        env["RSCTL_ON_REDUCER_LOSS"] = comm.on_reducer_loss
    return env


def _local_steps_env(comm: Comm) -> dict[str, Optional[str]]:
    """The variables of local steps, in full: their defaults are the spec's."""
    quorum = {} if comm.quorum is None else {"RSCTL_COMM_QUORUM": str(comm.quorum)}
    return {
        **quorum,
        "RSCTL_COMM_LOCAL_STEPS": str(comm.local_steps),
        "RSCTL_COMM_OUTER_OPTIMIZER": comm.outer.optimizer,
        "RSCTL_COMM_OUTER_LR": f"{comm.outer.lr:.15g}",
        "RSCTL_COMM_OUTER_MOMENTUM": f"{comm.outer.momentum:.15g}",
        "RSCTL_COMM_FRAGMENTS": str(comm.fragments),
    }


def grace_env(job: Job, stop_after: Optional[float] = None) -> dict[str, Optional[str]]:
    """The variables of a soft stop for rsctl-launch, without defaults.

    `stop_after` is when a node asks its ranks to end by itself, in seconds from its start: for
    platforms that do not ask before they kill.
    """
    if job.limits.grace is None:
        return {}
    from rsctl.node.soft_stop import GRACE, STOP_AFTER

    env: dict[str, Optional[str]] = {GRACE: f"{float(job.limits.grace):.15g}"}
    return env if stop_after is None else {**env, STOP_AFTER: f"{stop_after:.15g}"}


def reducers_env(job: Job, has_reducers: bool) -> dict[str, Optional[str]]:
    """The secrets with which nodes authenticate each other: workers to reducers, perhaps with TLS,
    to the chief that starts MPI on them or compares their checks, or to the chief of a packed job.
    """
    env: dict[str, Optional[str]] = {}
    starts_mpi = job.run.launcher == "mpi" and job.run.package is None
    is_checked = bool(job.checks.chosen) and job.run.is_launched
    needs_chief = starts_mpi or is_checked or is_packed(job)
    if has_reducers or (needs_chief and job.workers.count > 1):
        env[TOKEN] = None
    if has_reducers and _asks_for_tls(job):
        env |= {TLS_VARIABLE: "1", IDENTITY_VARIABLE: None}
    return env


def is_packed(job: Job) -> bool:
    """Whether a job runs several runs of a bench, one after the other, see `rsctl.node.slots`."""
    return f"{SLOTS}0" in job.run.env


def tls_findings(job: Job, has_reducers: bool) -> Iterator[Finding]:
    """Findings on the job's setting of TLS between workers and reducers."""
    path = f"run.env.{TLS_VARIABLE}"
    try:
        is_enabled(_tls_setting(job))
    except ValueError as unclear:
        yield error("env", str(unclear), "write 1 or 0", path)
    if _asks_for_tls(job) and not has_reducers:
        reason = "there are no reducers, and workers do not use it without them"
        text = f"{TLS_VARIABLE} is not used: {reason}"
        yield note("unused", text, None, path)


def _asks_for_tls(job: Job) -> bool:
    try:
        return is_enabled(_tls_setting(job))
    except ValueError:
        return False  # `tls_findings` makes it an error


def _tls_setting(job: Job) -> str:
    return str(job.run.env.get(TLS_VARIABLE, ""))


def reducer_count(job: Job) -> int:
    """The size of the reducer pool. `auto` is one for each worker.

    All nodes here have links of one speed, and a pool is not the bottleneck if together it has as
    much bandwidth as the workers. A worker alone exchanges nothing.
    """
    if job.reducers.count != "auto":
        return job.reducers.count
    return job.workers.count if job.workers.count > 1 else 0


def secrets_of(job: Job) -> tuple[str, ...]:
    """The variables whose values travel outside the request, with `reducer_count` reducers."""
    return secret_names(job, bool(reducer_count(job)))


def secret_names(job: Job, has_reducers: bool) -> tuple[str, ...]:
    """The variables whose values a plan leaves out: the spec's, and the run's for its reducers."""
    of_reducers = reducers_env(job, has_reducers)
    names = [name for name, value in of_reducers.items() if value is None]
    return tuple(dict.fromkeys([*names, *_secrets(job)]))


def _secrets(job: Job) -> dict[str, str]:
    """The spec's own secrets; no node has another than the workers by the same name."""
    nodes = [(job.run.env, user_env(job)), (job.chief.env, user_env(chief_job(job)))]
    nodes += [(role.env, user_env(role_job(job, name))) for name, role in job.roles.items()]
    return {name: str(env[name]) for env, shown in nodes for name in env if shown[name] is None}


def values_of_secrets(job: Optional[Job], names: Iterable[str]) -> dict[str, str]:
    """The available values of some secrets: new ones of the run, and the job's.

    The job may have been read again, in which case a plain text value is not kept.
    """
    own = _secrets(job) if job is not None else {}
    kept = {name: own[name] for name in names if name in own and HIDDEN not in own[name]}
    return {**kept, **_made(names)}


def secret_values(submission: Submission) -> dict[str, str]:
    """The secrets that the plan omits: the spec's, and a new token of the run.

    If the job requests TLS, also the certificate of its reducers, with its key.
    """
    made, own = _made(submission.secrets), _secrets(submission.job)
    return {name: made[name] if name in made else own[name] for name in submission.secrets}


def _made(names: Iterable[str]) -> dict[str, str]:
    """New values for the names that are the run's own."""
    from secrets import token_hex  # not for `plan`, which needs none

    makers = {TOKEN: token_hex, IDENTITY_VARIABLE: make_identity}
    return {name: makers[name]() for name in names if name in makers}
