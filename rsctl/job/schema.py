"""The JSON Schema of the job spec, made from its types, for editors and other tools.

An editor with a YAML language server checks and completes a job file that begins with

    # yaml-language-server: $schema=schema/rsctl.schema.json

where the file is what `rsctl schema` prints; it is also checked in. What the schema cannot say
(rules over several keys, files on disk) `rsctl validate` does.
"""

from __future__ import annotations

from inspect import cleandoc
from typing import Any

import msgspec

from rsctl.job.installed_targets import complete_job
from rsctl.job.job import RunBlock
from rsctl.job.types import Field, SpecType, fields_of
from rsctl.job.units import Bound, Count, EnvValue, Regression

_LIMITS = {
    "ge": "minimum",
    "le": "maximum",
    "gt": "exclusiveMinimum",
    "min_length": "minLength",
    "pattern": "pattern",
}
_PLAIN: dict[Any, Any] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    None: "null",
    str: ["string", "number"],
    EnvValue: ["string", "number", "boolean"],
}
_OUR_LAUNCHERS = ["torchrun", "mpi", "once"]
_ALSO_NUMBERS = {Count: "integer", Regression: "number", Bound: "number"}
_VARIABLE = {
    "description": (
        "A text with ${NAME} or ${NAME:-default}, which is replaced from the environment."
    ),
    "type": "string",
    "pattern": r"\$\{",
}


def _given(*names: str) -> dict[str, Any]:
    """A mapping with these keys, and something behind each."""
    return {
        "required": list(names),
        "properties": {name: {"not": {"type": "null"}} for name in names},
    }


_WHAT_RUNS = {
    "anyOf": [
        *(_given(name) for name in ("script", "module", "command")),
        {"required": ["launcher"], "properties": {"launcher": {"not": {"enum": _OUR_LAUNCHERS}}}},
    ],
    "not": {
        "anyOf": [
            _given("script", "module"),
            _given("script", "command"),
            _given("module", "command"),
        ]
    },
}
"""Exactly one of the three; a foreign image may have a command of its own."""


def json_schema() -> dict[str, Any]:
    """The schema, as JSON Schema 2020-12."""
    definitions: dict[str, Any] = {}
    job = _struct(complete_job(), definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:rsctl:schema:job",
        "title": "rsctl job",
        **job,
        "patternProperties": {"^x-": {"description": "Ignored; for YAML anchors."}},
        "$defs": {"variable": _VARIABLE, **dict(sorted(definitions.items()))},
    }


def text() -> str:
    """The schema as the text of `schema/rsctl.schema.json`."""
    return msgspec.json.format(msgspec.json.encode(json_schema()), indent=2).decode() + "\n"


def _struct(struct: type[msgspec.Struct], definitions: dict[str, Any]) -> dict[str, Any]:
    fields = fields_of(struct).values()
    schema = {
        "description": cleandoc(struct.__doc__ or ""),  # as Python 3.13 keeps it by itself
        "type": "object",
        "properties": {field.name: _property(field, definitions) for field in fields},
        "additionalProperties": False,
    }
    required = [field.name for field in fields if field.required]
    rules = _WHAT_RUNS if struct is RunBlock else {}
    return {**schema, **({"required": required} if required else {}), **rules}


def _definition_name(struct: type[msgspec.Struct]) -> str:
    """The class's name; for the options of a third-party target with its module, to keep it
    unique.
    """
    is_ours = struct.__module__.partition(".")[0] == "rsctl"
    return struct.__name__ if is_ours else f"{struct.__module__}.{struct.__name__}"


def _property(field: Field, definitions: dict[str, Any]) -> dict[str, Any]:
    forms = [form for choice in field.type.choices for form in _forms(choice, definitions)]
    if not field.required:
        forms.append({"type": "null"})
    schema = {"description": field.type.limit("description"), **_any_of(forms)}
    if field.required or field.default is None or field.type.is_struct:
        return schema
    return {**schema, "default": msgspec.to_builtins(field.default, enc_hook=str)}


def _schema(spec_type: SpecType, definitions: dict[str, Any]) -> dict[str, Any]:
    return _any_of([form for choice in spec_type.choices for form in _forms(choice, definitions)])


def _forms(spec_type: SpecType, definitions: dict[str, Any]) -> list[dict[str, Any]]:
    """The ways to write a value of a type other than a union."""
    if spec_type.kind is Any:
        return [{}]
    if spec_type.is_struct:
        name = _definition_name(spec_type.kind)
        if name not in definitions:
            definitions[name] = _struct(spec_type.kind, definitions)
        return [{"$ref": f"#/$defs/{name}"}]
    if spec_type.kind is list:
        items = {"type": "array", "items": _schema(spec_type.arguments[0], definitions)}
        return [
            {**items, "minItems": spec_type.limit("min_length")}
            if spec_type.limit("min_length")
            else items
        ]
    if spec_type.kind is dict:
        return [_mapping(spec_type, definitions)]
    scalar = _scalar(spec_type)
    takes_any_text = spec_type.kind in (None, str, EnvValue) and "pattern" not in scalar
    return [scalar] if takes_any_text else [scalar, {"$ref": "#/$defs/variable"}]


def _mapping(spec_type: SpecType, definitions: dict[str, Any]) -> dict[str, Any]:
    names, values = spec_type.arguments
    schema = {"type": "object", "additionalProperties": _schema(values, definitions)}
    pattern = names.limit("pattern")
    return {**schema, "propertyNames": {"pattern": pattern}} if pattern else schema


def _scalar(spec_type: SpecType) -> dict[str, Any]:
    if spec_type.kind == "literal":
        return {"enum": list(spec_type.arguments)}
    limits = {
        keyword: spec_type.limit(name)
        for name, keyword in _LIMITS.items()
        if spec_type.limit(name) is not None
    }
    if spec_type.kind in _PLAIN:
        plain = "string" if "pattern" in limits else _PLAIN[spec_type.kind]
        return {"type": plain, **limits}
    schema = {"type": "string", "pattern": spec_type.kind.pattern}
    also = _ALSO_NUMBERS.get(spec_type.kind)
    return {**schema, "type": ["string", also]} if also else schema


def _any_of(forms: list[dict[str, Any]]) -> dict[str, Any]:
    unique = [form for index, form in enumerate(forms) if form not in forms[:index]]
    return unique[0] if len(unique) == 1 else {"anyOf": unique}
