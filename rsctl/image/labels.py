"""The labels of an image: OCI annotations of where its source comes from, and the spec's hash."""

from __future__ import annotations

import hashlib
import re
import subprocess
import time

import msgspec
from msgspec.structs import replace

from rsctl.spec.job import Job

_PREFIX = "org.opencontainers.image"
_CREDENTIALS = re.compile(r"^([a-z][a-z0-9+.-]*://)[^/@]*@", re.IGNORECASE)


def make_labels(job: Job) -> dict[str, str]:
    """The labels of a job's image.

    `created` is the commit's time, so that one commit gives one set of labels; a tree with
    changes that are not committed has `-dirty` behind its revision. Without git there are fewer.
    """
    labels = {
        f"{_PREFIX}.title": job.name,
        f"{_PREFIX}.base.name": str(job.image.base),
        "dev.rsctl.spec": _spec_hash(job),
    }
    commit = _git(job, "show", "--no-patch", "--format=%H %ct", "HEAD") if job.image.source else ""
    if commit:
        revision, seconds = commit.split()
        dirty = "-dirty" if _git(job, "status", "--porcelain", "--", ".") else ""
        labels[f"{_PREFIX}.revision"] = revision + dirty
        moment = time.gmtime(int(seconds))
        labels[f"{_PREFIX}.created"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", moment)
    source = _git(job, "remote", "get-url", "origin") if commit else ""
    if source:
        labels[f"{_PREFIX}.source"] = _CREDENTIALS.sub(r"\1", source)
    return labels


def _spec_hash(job: Job) -> str:
    """A hash of the spec, less what differs by machine or is secret: paths and the environment."""
    image = replace(job.image, source=None, python=None)
    spec = replace(job, image=image, run=replace(job.run, env={}), inputs={}, outputs=None)
    spec = replace(spec, checkpoints=None)
    return hashlib.sha256(msgspec.json.encode(spec, enc_hook=str)).hexdigest()


def _git(job: Job, *arguments: str) -> str:
    """The first line of what git says of the source; empty if it says nothing."""
    safe = ["-c", "core.fsmonitor=false"]  # it could name a program to run
    command = ["git", *safe, "-C", str(job.image.source), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
    except OSError:
        return ""
    lines = done.stdout.splitlines() if done.returncode == 0 else []
    return lines[0] if lines else ""
