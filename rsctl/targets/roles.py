"""The job of a role: `run`, overridden by `roles.NAME`. Pure.

Code that renders a worker can render a replica of a role with this job, which starts it once on
each node. `role_findings` names its findings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from rsctl.findings import Finding
from rsctl.job.job import Chief, Image, Job, Role, Workers
from rsctl.targets.chief import laid_over_args

_POOL_KEY = re.compile(r"\bworkers\.(count|machine|accelerator|disk)\b")
_PROGRAM = ("script", "module", "command", "args")


def role_job(job: Job, name: str) -> Job:
    """The job with the nodes of a role as its workers, and their program as its `run`.

    Containers of a role with its own image do not have rsctl, as with launcher none.
    """
    role = job.roles[name]
    run = replace(
        job.run,
        args=(role.args or []) if role.has_program else laid_over_args(job.run.args, role.args),
        env={**job.run.env, **role.env},
        launcher="once" if job.run.is_launched and role.image is None else "none",
    )
    if role.has_program:
        run = replace(run, script=role.script, module=role.module, command=role.command)
    return replace(
        job,
        chief=Chief(),
        run=run if role.image is None else replace(run, package=None),
        image=job.image if role.image is None else Image(uri=role.image),
        workers=Workers(
            count=role.count,
            accelerator=role.accelerator,
            machine=role.machine,  # type: ignore[arg-type]
            processes=1,
            disk=role.disk,
        ),
    )


def role_findings(
    job: Job, name: str, own: Iterable[Finding], workers: Iterable[Finding]
) -> Iterator[Finding]:
    """The findings of a check of `role_job` that do not apply to the workers.

    They name the role's keys.
    """
    known = list(workers)
    for finding in own:
        if finding not in known:
            yield replace(
                finding,
                message=f"role {name}: {_named(name, finding.message)}",
                remedy=finding.remedy and _named(name, finding.remedy),
                path=finding.path and _key(job.roles[name], name, finding.path),
            )


def _named(name: str, text: str) -> str:
    return _POOL_KEY.sub(rf"roles.{name}.\1", text)


def _key(role: Role, name: str, path: str) -> str:
    block, _, key = path.partition(".")
    first = key.partition(".")[0]
    is_own = (
        block == "workers"
        or (block == "run" and first in _PROGRAM and role.has_program)
        or (path == "run.args" and role.args is not None)
        or (first == "env" and key.partition(".")[2] in role.env)
    )
    return f"roles.{name}.{key}" if is_own else path
