"""The labels of an image: OCI annotations of where its source comes from, and the spec's hash."""

from __future__ import annotations

import hashlib
import re
import time
from pathlib import Path

import msgspec
from msgspec.structs import replace

from rsctl.images.git_commit import commit_of
from rsctl.job.job import Job

LABEL = "dev.rsctl.spec"
"""The label that every image has which rsctl built, and no other."""

_PREFIX = "org.opencontainers.image"
_CREDENTIALS = re.compile(r"^([a-z][a-z0-9+.-]*://)[^/@]*@", re.IGNORECASE)


def make_labels(job: Job) -> dict[str, str]:
    """The labels of a job's image.

    `created` is the commit's time, so that one commit gives one set of labels; a tree with
    changes that are not committed has `-dirty` behind its revision. Without git there are fewer.
    """
    labels = {f"{_PREFIX}.title": job.name, LABEL: _spec_hash(job)}
    if job.image.base:
        labels[f"{_PREFIX}.base.name"] = job.image.base
    commit = commit_of(Path(job.image.source)) if job.image.source else None
    if commit:
        labels[f"{_PREFIX}.revision"] = commit.revision + ("-dirty" if commit.is_changed else "")
        moment = time.gmtime(commit.seconds)
        labels[f"{_PREFIX}.created"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", moment)
    if commit and commit.origin:
        labels[f"{_PREFIX}.source"] = _CREDENTIALS.sub(r"\1", commit.origin)
    return labels


def _spec_hash(job: Job) -> str:
    """A hash of the spec without parts that differ by machine or are secret: paths and the
    environment.
    """
    image = replace(job.image, source=None, python=None, dockerfile=None)
    spec = replace(job, image=image, run=replace(job.run, env={}), inputs={}, outputs=None)
    spec = replace(spec, checkpoints=None)
    return hashlib.sha256(msgspec.json.encode(spec, enc_hook=str)).hexdigest()
