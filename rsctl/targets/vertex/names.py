"""Resource names that a job has for Vertex AI: their checks and their full form. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Optional

from rsctl.estimate.catalog.regions import unknown_region
from rsctl.findings import Finding, error, warning
from rsctl.job.job import Job
from rsctl.job.yaml_tree import quoted
from rsctl.targets.vertex.catalog import rules
from rsctl.targets.vertex.options import VertexOptions, vertex_options

RUN_LABEL = "rsctl-run"
"""The label for finding a run's job."""

JOB_LABEL = "rsctl-job"

PLACEMENT_LABEL = "rsctl-placement"
"""The label with the placement's number, which distinguishes a run's second and further jobs."""

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_PROJECT = r"[a-z0-9][a-z0-9.:-]*"
_FORMS = {
    "project": (_PROJECT, "a project ID, such as my-project"),
    "staging": (
        r"gs://[a-z0-9][a-z0-9._-]+(/\S*)?",
        "gs://BUCKET/FOLDER, with a bucket name of at least 3 characters of a-z, 0-9, "
        "'.', '_' and '-'",
    ),
    "service_account": (r"[^@\s/]+@[^@\s/]+", "NAME@PROJECT.iam.gserviceaccount.com"),
    "network": (
        r"projects/[0-9]+/global/networks/[a-z0-9-]+",
        "projects/NUMBER/global/networks/NAME, with the project's number instead of its ID",
    ),
    "tensorboard": (
        rf"{_NAME}|projects/{_PROJECT}/locations/{_NAME}/tensorboards/{_NAME}",
        "the TensorBoard's ID, or projects/PROJECT/locations/REGION/tensorboards/ID",
    ),
    "experiment": (r"[a-z0-9][a-z0-9-]{0,127}", "the experiment's name, of a-z, 0-9 and '-'"),
    "experiment_run": (r"[a-z0-9][a-z0-9-]{0,127}", "the run's name, of a-z, 0-9 and '-'"),
    "persistent_resource": (r"[a-z]([a-z0-9-]*[a-z0-9])?", "the persistent resource's ID"),
    "encryption_key": (
        rf"projects/{_PROJECT}/locations/{_NAME}/keyRings/{_NAME}/cryptoKeys/{_NAME}",
        "projects/PROJECT/locations/REGION/keyRings/RING/cryptoKeys/KEY",
    ),
}
_RESERVATION = rf"projects/{_PROJECT}/zones/{_NAME}/reservations/{_NAME}"
_LABEL_KEY = r"[a-z0-9][a-z0-9_-]*"
_LABEL = r"[a-z0-9_-]*"
_RESERVED = (RUN_LABEL, JOB_LABEL, PLACEMENT_LABEL)


def labels_of(job: Job, run: str) -> dict[str, str]:
    """The job's labels: the user's, and the labels by which rsctl finds it."""
    return {**vertex_options(job).labels, RUN_LABEL: run, JOB_LABEL: job.name}


def tensorboard_name(options: VertexOptions) -> str:
    """The full name of the TensorBoard."""
    given = str(options.tensorboard)
    return given if "/" in given else f"{_parent(options)}/tensorboards/{given}"


def experiment_name(options: VertexOptions, run: Optional[str] = None) -> str:
    """The full name of the experiment, or of a run of it: contexts in the default store."""
    name = f"{options.experiment}-{run}" if run else options.experiment
    return f"{_parent(options)}/metadataStores/default/contexts/{name}"


def name_findings(job: Job) -> Iterator[Finding]:
    """Find names that Vertex AI would refuse, and names that require another key."""
    options = vertex_options(job)
    yield from _required(options)
    yield from _forms(options)
    yield from _labels(options.labels)
    yield from _companions(options)
    yield from _elsewhere(options)


def _parent(options: VertexOptions) -> str:
    return f"projects/{options.project}/locations/{options.first_region}"


def _required(options: VertexOptions) -> Iterator[Finding]:
    if not options.project:
        message, remedy = (
            "target vertex needs a project",
            ("set it to your Google Cloud project's ID"),
        )
        yield error("vertex", message, remedy, "targets.vertex.project")
    if not options.first_region:
        message, remedy = "target vertex needs a region", "set it, such as us-central1"
        yield error("vertex", message, remedy, "targets.vertex.region")
    elif rules().multi_region(options.first_region) is None:
        zone = re.fullmatch(r"([a-z]+-[a-z]+[0-9]+)-[a-z]", options.first_region)
        remedy = f"its region is {zone[1]}" if zone else "use a region such as us-central1"
        message = f"{quoted(options.first_region)} is not a region of Google Cloud"
        yield error("region", message, remedy, "targets.vertex.region")
    elif unknown := unknown_region("vertex", options.first_region):
        yield unknown


def _forms(options: VertexOptions) -> Iterator[Finding]:
    for key, (pattern, form) in _FORMS.items():
        value = getattr(options, key)
        if value is not None and not re.fullmatch(pattern, value):
            path = f"targets.vertex.{key}"
            yield error("name", f"{quoted(value)} is not a valid name", f"write {form}", path)
    reserved = options.reservation
    for index, name in enumerate(reserved if isinstance(reserved, list) else ()):
        if not re.fullmatch(_RESERVATION, name):
            remedy = "write projects/PROJECT/zones/ZONE/reservations/NAME"
            path = f"targets.vertex.reservation[{index}]"
            yield error("name", f"{quoted(name)} is not a reservation's full name", remedy, path)


def _labels(labels: dict[str, str]) -> Iterator[Finding]:
    most = rules().most_label
    for key, value in labels.items():
        path = f"targets.vertex.labels.{key}"
        if key in _RESERVED:
            yield error("label", f"rsctl sets {key} itself", "use another key", path)
        for text, pattern in ((key, _LABEL_KEY), (value, _LABEL)):
            if len(text) > most or not re.fullmatch(pattern, text):
                form = f"at most {most} of a-z, 0-9, '_' and '-'"
                form += ", first a letter or digit" if pattern == _LABEL_KEY else ""
                yield error("label", f"{quoted(text)} is not valid in a label", f"use {form}", path)
    own = rules().most_labels - len(_RESERVED)
    if len(labels) > own:
        message = f"a job has at most {own} labels of your own, but these are {len(labels)}"
        yield error("label", message, "remove some", "targets.vertex.labels")


def _companions(options: VertexOptions) -> Iterator[Finding]:
    if options.tensorboard and not options.service_account:
        message = "TensorBoard needs your own service account, which writes to it"
        remedy = "set targets.vertex.service_account"
        yield error("vertex", message, remedy, "targets.vertex.tensorboard")
    if options.experiment and not options.service_account:
        message = "an experiment needs your own service account, which writes to it"
        remedy = "set targets.vertex.service_account"
        yield warning("vertex", message, remedy, "targets.vertex.experiment")
    if options.experiment and options.tensorboard:
        message = "experiment and tensorboard cannot be combined"
        remedy = "keep one; an experiment uses the TensorBoard that backs it"
        yield error("vertex", message, remedy, "targets.vertex.tensorboard")
    if options.experiment_run and not options.experiment:
        message, remedy = "a run must belong to an experiment", "set targets.vertex.experiment"
        yield error("vertex", message, remedy, "targets.vertex.experiment_run")
    if options.reserved_ip_ranges and not options.network:
        message, remedy = "the ranges must belong to a network", "set targets.vertex.network"
        yield error("vertex", message, remedy, "targets.vertex.reserved_ip_ranges")
    for domain in options.psc.dns if options.psc else ():
        if not domain.endswith("."):
            message = f"the domain {quoted(domain)} does not end with a dot"
            yield error("name", message, f"write {domain}.", "targets.vertex.psc.dns")


def _elsewhere(options: VertexOptions) -> Iterator[Finding]:
    """Find resources whose full name has another region than the job."""
    for key in ("tensorboard", "encryption_key"):
        location = re.match(r"projects/[^/]+/locations/([^/]+)/", getattr(options, key) or "")
        if location and options.first_region and location[1] != options.first_region:
            message = f"it is in {location[1]}, but the job is in {options.first_region}"
            remedy = f"use one in {options.first_region}: {{region}} in its name stands for it"
            yield warning("region", message, remedy, f"targets.vertex.{key}")
