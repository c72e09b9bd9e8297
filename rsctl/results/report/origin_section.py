"""The section on a run's origin: nodes, versions, fingerprint, environment and request."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rsctl.job.secret_names import public_document, public_variables
from rsctl.results.report.data import RunData
from rsctl.results.report.documents import document, text_document
from rsctl.results.report.html import NONE, Child, details, facts, paragraph, table
from rsctl.results.report.page import left_out
from rsctl.runs.records import RunRecord

REPLICAS = 100
"""Replicas in the table of versions at most."""


def origin_parts(data: RunData) -> Iterator[Child]:
    """Facts and tables that are open, and the longer documents, folded."""
    run, plan = data.run, data.run.plan
    yield _run_facts(run)
    if plan.get("pools"):
        yield _pools_table(plan["pools"])
    if data.versions:
        title = "Versions and machine of each replica"
        more = left_out(len(data.versions) - REPLICAS, "replica")
        yield details(title, _versions_table(data.versions), more)
    yield details(
        "Fingerprint",
        paragraph("Must be equal for a comparison", class_="faint"),
        facts(data.fixed.items()),
        paragraph("May differ", class_="faint"),
        facts(data.shown.items()),
    )
    if run.spec is not None:
        yield details("Spec as read, without secrets", text_document(run.spec))
    if run.metrics_spec:
        specs = {name: msgspec.to_builtins(spec) for name, spec in run.metrics_spec.items()}
        yield details("Metrics as defined in the job file", document(specs))
    if plan.get("env"):
        yield details(
            "Environment; secrets are shown as null", document(public_variables(plan["env"]))
        )
    if plan.get("request"):
        title = "Request as sent, without secrets"
        yield details(title, document(public_document(plan["request"])))


def _run_facts(run: RunRecord) -> Child:
    overrides = shlex.join(part for each in run.settings for part in ("--set", each))
    return facts([
        ("run", run.run),
        ("address", run.url),
        ("world size", run.plan.get("world_size")),
        ("overrides", overrides or None),
        ("image", _image(run.plan)),
    ])  # fmt: skip


def _pools_table(pools: list[dict[str, Any]]) -> Child:
    keys = ("role", "count", "machine", "accelerator", "gbps")
    rows = [[pool.get(key) for key in keys] for pool in pools]
    return table(("role", "nodes", "machine", "accelerator", "Gbit/s per node"), rows)


def _versions_table(versions: Mapping[str, Mapping[str, str]]) -> Child:
    """A row for each replica, a column for each name that one of them reports."""
    names = list(dict.fromkeys(name for known in versions.values() for name in known))
    rows = [
        (replica, *(known.get(name, NONE) for name in names))
        for replica, known in list(versions.items())[:REPLICAS]
    ]
    return table(("replica", *names), rows)


def _image(plan: Mapping[str, Any]) -> str | None:
    image = plan.get("image") or {}
    known = [f"transport {image['transport']}"] if image.get("transport") else []
    name = image.get("reference") or image.get("tag")
    return ", ".join([str(name or "none: plain processes"), *known]) if image else None
