"""What ran: a run's nodes, versions, fingerprint, environment and request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from rsctl.job.secret_names import public_document
from rsctl.results.report.data import RunData
from rsctl.results.report.documents import document, text_document
from rsctl.results.report.html import NONE, Child, details, facts, paragraph, table

REPLICAS = 100
"""Replicas in the table of versions at most."""


def origin_parts(data: RunData) -> Iterator[Child]:
    """Facts and tables that are open, and the longer documents, folded."""
    run, plan = data.run, data.run.plan
    pools = plan.get("pools") or []
    yield facts(
        [
            ("run", run.run),
            ("address", run.url),
            ("world size", plan.get("world_size")),
            ("overrides", " ".join(f"--set {s}" for s in run.settings) or None),
            *(("image", value) for value in [_image(plan)] if value),
        ]
    )
    if pools:
        keys = ("role", "count", "machine", "accelerator", "gbps")
        rows = [[pool.get(key) for key in keys] for pool in pools]
        yield table(("role", "nodes", "machine", "accelerator", "Gbit/s a node"), rows)
    if data.versions:
        names = list(dict.fromkeys(n for v in data.versions.values() for n in v))
        versions = [
            (replica, *(of.get(n, NONE) for n in names))
            for replica, of in list(data.versions.items())[:REPLICAS]
        ]
        yield details("Versions and machine of each replica", table(("replica", *names), versions))
    yield details(
        "Fingerprint",
        paragraph("Must be equal for a comparison", class_="faint"),
        facts(data.fixed.items()),
        paragraph("May differ", class_="faint"),
        facts(data.shown.items()),
    )
    if run.spec is not None:
        yield details("Spec, as it was read, without secrets", text_document(run.spec))
    specs = {name: msgspec.to_builtins(spec) for name, spec in run.metrics_spec.items()}
    if specs:
        yield details("Metrics as the job file defines them", document(specs))
    if plan.get("env"):
        yield details("Environment; the value of a secret is null", document(plan["env"]))
    if plan.get("request"):
        title = "Request as it was sent, without secrets"
        yield details(title, document(public_document(plan["request"])))


def _image(plan: Mapping[str, Any]) -> str | None:
    image = plan.get("image") or {}
    known = [f"transport {image['transport']}"] if image.get("transport") else []
    name = image.get("reference") or image.get("tag")
    return ", ".join([str(name or "none: plain processes"), *known]) if image else None
