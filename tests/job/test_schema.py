"""The JSON Schema: valid, documented, checked in, and of one mind with the decoder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rsctl.job.file_text import YamlError
from rsctl.job.job import Job
from rsctl.job.matrix import plain
from rsctl.job.schema import json_schema, text
from rsctl.job.types import SpecType, fields_of
from rsctl.job.yaml_parser import parse
from rsctl.target_info import all_targets

CHECKED_IN = Path(__file__).parents[2] / "schema" / "rsctl.schema.json"
SCHEMA = json_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def objects(schema: Any, where: str = "#") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema of an object, wherever it is."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield where, schema
        for name, inner in schema.items():
            yield from objects(inner, f"{where}/{name}")
    if isinstance(schema, list):
        for index, inner in enumerate(schema):
            yield from objects(inner, f"{where}/{index}")


def accepts(text_of_spec: str) -> bool:
    """Whether an editor with the schema finds nothing wrong."""
    root = parse(text_of_spec, "f", [])
    return root is not None and VALIDATOR.is_valid(plain(root))


def test_it_is_json_schema_2020_12() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert json.loads(text()) == SCHEMA


def test_the_file_that_is_checked_in_is_the_generated_one() -> None:
    """If this fails: python -c 'from rsctl.job import schema; print(schema.text(), end="")'."""
    assert CHECKED_IN.read_text() == text()
    assert "\\n  " not in text()  # the indentation of docstrings, which Python 3.13 removes
    assert text().endswith("}\n")


def test_every_key_at_every_level_is_described() -> None:
    described = 0
    for where, schema in objects(SCHEMA):
        for name, key in schema.get("properties", {}).items():
            assert key["description"].endswith("."), f"{where}/{name}"
            described += 1
    assert described > 70
    assert all(definition["description"] for definition in SCHEMA["$defs"].values())


def test_no_object_with_known_keys_takes_others() -> None:
    structs = [schema for _, schema in objects(SCHEMA) if "properties" in schema]
    assert len(structs) == len(SCHEMA["$defs"])
    assert all(schema["additionalProperties"] is False for schema in structs)
    assert [s for s in structs if "patternProperties" in s] == [SCHEMA]


def test_every_definition_is_used() -> None:
    written = json.dumps(SCHEMA)
    assert [name for name in SCHEMA["$defs"] if f'"#/$defs/{name}"' not in written] == []


def test_defaults_ranges_and_choices_are_told() -> None:
    definitions = SCHEMA["$defs"]
    count = definitions["Workers"]["properties"]["count"]
    assert count["default"] == 1
    assert count["anyOf"][0] == {"type": "integer", "minimum": 1, "maximum": 10_000}
    assert count["anyOf"][1] == {"$ref": "#/$defs/variable"}
    assert definitions["Comm"]["properties"]["backend"]["anyOf"][0]["enum"][0] == "auto"
    assert "required" not in definitions["Metric"]
    assert SCHEMA["required"] == ["name", "run"]


def test_it_accepts_what_the_decoder_accepts(valid: Path) -> None:
    assert accepts(valid.read_text())


BEYOND_THE_SCHEMA = ("rules: ", "variables: ", "yaml: ")
UNSAYABLE = {
    "a leading zero is octal",
    "durations that are zero or too long",
    "sizes that are zero",
    "numbers of another script",
    "regular expressions",
    "a NUL",
    "a regular expression that never ends",
}


def test_it_rejects_what_the_decoder_rejects(broken: Any) -> None:
    """But for rules over several keys, files and variables, which no schema can know of."""
    may_pass = broken.title.startswith(BEYOND_THE_SCHEMA) or any(
        words in broken.title for words in UNSAYABLE
    )
    try:
        assert may_pass or not accepts(broken.text)
    except YamlError:
        assert any(finding.path is None for finding in broken.expected)


@pytest.mark.parametrize(
    "line",
    [
        "workers: {count: '${N}'}",
        "limits: {spot: '${SPOT:-true}', timeout: '${T}h'}",
        "comm: {backend: '${BACKEND}'}",
        "targets: {compose: {cpus: '${CPUS}', network: {bandwidth: '${RATE}'}}}",
        "image: {base: 'a:${TAG}'}",
        "outputs: 'gs://${BUCKET}/x'",
        "workers: {count: }",
        "reducers:",
        "x-anything: [1, {a: b}]",
    ],
)
def test_it_accepts_variables_nulls_and_free_keys(line: str) -> None:
    assert accepts(f"name: j\nrun: {{script: train.py}}\n{line}\n")


@pytest.mark.parametrize(
    ("run", "is_right"),
    [
        ("{script: a.py}", True),
        ("{script: a.py, module: null}", True),
        ("{launcher: none}", True),
        ("{launcher: none, command: [a]}", True),
        ("{}", False),
        ("{script: null}", False),
        ("{launcher: once}", False),
        ("{script: a.py, module: b}", False),
        ("{script: a.py, command: [b]}", False),
        ("{module: a, command: [b], launcher: none}", False),
    ],
)
def test_exactly_one_thing_runs(run: str, is_right: bool) -> None:
    assert accepts(f"name: j\nrun: {run}\n") is is_right


def test_no_constraint_is_beside_the_choices_of_a_union() -> None:
    """The decoder and the schema apply those of a choice alone."""

    def lost(spec_type: SpecType, where: str) -> Iterator[str]:
        limits = ("pattern", "ge", "le", "gt", "lt", "min_length", "max_length")
        if spec_type.kind == "union" and any(spec_type.limit(name) is not None for name in limits):
            yield where
        for choice in spec_type.choices:
            if choice.kind in (list, dict):
                yield from lost(choice.arguments[-1], where)
            if choice.is_struct:
                for name, field in fields_of(choice.kind).items():
                    yield from lost(field.type, f"{where}.{name}")

    structs = [Job, *(info.options_type() for info in all_targets())]
    assert [each for struct in structs for each in lost(SpecType(struct), struct.__name__)] == []
