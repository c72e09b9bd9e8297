"""The page of the clouds' request fields: which key of the job file sets each, or why none does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

FIELDS = Path(__file__).parent / "request_fields.yaml"
TITLES = {"vertex": "Vertex AI: CustomJob", "sagemaker": "SageMaker: CreateTrainingJob"}
WAYS = ("key", "overlay", "never")


class RequestField(NamedTuple):
    """One field of a request: the way it is set, the keys if it is by `key`, and the reason."""

    name: str
    way: str
    keys: tuple[str, ...]
    why: str


def request_fields(target: str) -> list[RequestField]:
    """The fields of a cloud's request, in the order of the file. Raises LookupError."""
    listed: dict[str, dict[str, str]] = yaml.safe_load(FIELDS.read_text())
    return [_field(name, text) for name, text in listed[target].items()]


def page(known_keys: set[str]) -> str:
    """The page. Raises LookupError for a key that the job file does not have."""
    lines = [
        "# The fields of the clouds' requests\n",
        "This page lists each field of the two requests that rsctl sends, and the key of the job",
        "file that sets it. `overlay`: no key sets the field; `targets.NAME.overlay` patches the",
        "request, and `plan` shows the result. `never`: rsctl sets the field itself, or the cloud",
        "sets it in its answer.",
    ]
    for target, title in TITLES.items():
        lines += [f"\n## {title}\n", "| field | set by | reason |", "|---|---|---|"]
        lines += _rows(request_fields(target), known_keys)
    return "\n".join(lines) + "\n"


def _rows(fields: list[RequestField], known_keys: set[str]) -> Iterator[str]:
    for field in fields:
        if unknown := set(field.keys) - known_keys:
            raise LookupError(f"{FIELDS}: {field.name}: no keys {sorted(unknown)} in the job file")
        ways = ", ".join(f"`{key}`" for key in field.keys) or field.way
        yield f"| `{field.name}` | {ways} | {field.why} |"


def _field(name: str, text: str) -> RequestField:
    ways, _, why = text.partition(" | ")
    way, _, listed = ways.partition(" ")
    keys = tuple(listed.split(", ")) if listed else ()
    if way not in WAYS or bool(keys) != (way == "key") or not (keys or why):
        raise LookupError(f"{FIELDS}: {name}: give `key KEYS`, `overlay | why` or `never | why`")
    return RequestField(name, way, keys, why)
