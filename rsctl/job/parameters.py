"""The parameters of a job, as trackers of experiments show them."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from rsctl.job.inputs import Input
from rsctl.job.job import Job
from rsctl.job.secret_names import is_secret_name, public_document, public_text
from rsctl.job.types import fields_of

_NOT_PARAMETERS = frozenset(
    {"name", "run.env", "chief.env", "image.source", "inputs", "targets", "metrics", "gate"}
    | {"matrix", "bench", "tracking", "notify"}
)
_ENV_OF_ROLE = re.compile(r"roles\.[^.]+\.env")
_LONGEST_VALUE = 500


def parameters_of(job: Job) -> dict[str, Any]:
    """The scalars of a job by key path, those that are not the default; lists as JSON texts.

    Left out are the job's variables, which may be secrets, and what no run depends on.
    """
    found: dict[str, Any] = {}
    _flatten(job, "", found)
    modes = {n: each.mode for n, each in job.inputs.items() if isinstance(each, Input)}
    found |= {f"inputs.{name}.mode": mode for name, mode in modes.items() if mode}
    return {
        name: public_text(value) if isinstance(value, str) else value
        for name, value in found.items()
        if not is_secret_name(name.rpartition(".")[2])
    }


def _flatten(value: Any, path: str, found: dict[str, Any]) -> None:
    if path in _NOT_PARAMETERS or _ENV_OF_ROLE.fullmatch(path) or value is None:
        return
    if isinstance(value, msgspec.Struct):
        for name, field in fields_of(type(value)).items():
            inner = getattr(value, name)
            if field.required or inner != field.default:
                _flatten(inner, f"{path}.{name}" if path else name, found)
    elif isinstance(value, dict):
        for name, inner in value.items():
            _flatten(inner, f"{path}.{name}", found)
    elif isinstance(value, bool):
        found[path] = value
    elif isinstance(value, (int, float)):
        found[path] = int(value) if value == int(value) else float(value)
    elif isinstance(value, str):
        found[path] = str(value)[:_LONGEST_VALUE]
    else:
        text = msgspec.json.encode(public_document(value), enc_hook=str).decode()
        found[path] = text[:_LONGEST_VALUE]
