"""Decodes the YAML tree into typed values. Every mistake becomes a finding; none stops the rest.

What cannot be decoded is replaced by its default or left out, so that the checks which look at
several keys can still run; a job with error findings is never used for anything else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping as Environ
from typing import Any

import msgspec

from rsctl.findings import SECRET, Finding
from rsctl.job.scalars import read_scalar
from rsctl.job.secret_names import is_secret_name, public_text
from rsctl.job.type_descriptions import describe_pattern, describe_type
from rsctl.job.types import Field, SpecType, fields_of
from rsctl.job.units import URL_REMEDY, EnvReference, EnvValue
from rsctl.job.variables import VariableError, substitute
from rsctl.job.yaml_tree import (
    Mapping,
    MappingEntry,
    Node,
    Position,
    Scalar,
    Sequence,
    describe,
    join_path,
    last_name,
    quoted,
    shorten,
)

MAX_FINDINGS = 100
_URLS = "notify"
"""A key whose values may be URLs with credentials, which no message repeats."""

_NO_URL = "expected {}; the text is not shown, because it may be a URL with credentials"

_ANY = SpecType(Any)
_FREE = {dict: SpecType(dict, (SpecType(str), _ANY)), list: SpecType(list, (_ANY,))}


class _Wrong:
    """Stands for a value that could not be decoded; its finding has been reported."""


WRONG: Any = _Wrong()


class TooMany(Exception):
    """There are so many mistakes that more of them would not help."""


class Decoder:
    """Decodes the tree of one file into `root`; collects findings in `findings`.

    `environ` has the values of `${VAR}`; local paths are relative to `base`. `guessed` are the key
    paths that a misspelled key was taken for. `root` is the type that it was made with.
    """

    def __init__(
        self,
        root: type[msgspec.Struct],
        environ: Environ[str, str],
        base: str | os.PathLike[str],
    ) -> None:
        self.findings: list[Finding] = []
        self.guessed: set[str] = set()
        self._seen: list[tuple[Scalar, str]] = []
        self._reported: set[tuple[str | None, Position]] = set()
        self.root = root
        self._arguments: frozenset[str] = frozenset()
        self._environ = environ
        self._base = base

    def decode_root(self, node: Mapping) -> Any:
        """The whole file; keys that begin with `x-` are the user's own. Raises TooMany."""
        self._arguments = _script_arguments(node)
        keys = {k: e for k, e in node.entries.items() if not k.startswith("x-")}
        decoded = self.decode(Mapping(node.mark, keys), SpecType(self.root), "")
        if self._seen and not any(finding.is_error for finding in self.findings):
            from rsctl.job.secret_values import note_of_values

            self.findings.append(note_of_values(self._seen))
        return decoded

    def decode(self, node: Node, spec_type: SpecType, path: str) -> Any:
        """The value of a node as a type, or WRONG with a finding."""
        if isinstance(node, Scalar):
            return self._scalar(node, spec_type, path)
        form = _form_for(node, spec_type)
        if form is None:
            return self._mismatch(node, spec_type, path, (describe_type(spec_type),))
        if isinstance(node, Sequence):
            return self._list(node, form, path)
        return self._struct(node, form, path) if form.is_struct else self._dict(node, form, path)

    def _scalar(self, node: Scalar, spec_type: SpecType, path: str) -> Any:
        is_reference = spec_type.kind is EnvReference
        substituted = node if is_reference else self._substituted(node, path)
        if substituted is None:
            return WRONG
        if substituted.taken and spec_type.kind is not EnvValue:
            self._check_for_secret(substituted, path)
        try:
            return read_scalar(substituted, spec_type, self._base)
        except ValueError as problem:
            return self._mismatch(substituted, spec_type, path, problem.args)

    def _check_for_secret(self, node: Scalar, path: str) -> None:
        from rsctl.job.secret_values import secret_outside_env

        finding = secret_outside_env(node, self._environ, path)
        if finding:
            self._add(finding, node.mark)
        else:
            self._seen.append((node, path))

    def _substituted(self, node: Scalar, path: str) -> Scalar | None:
        if "$" not in node.text or node.substituted:
            return node
        try:
            return substitute(node, self._environ)
        except VariableError as problem:
            self._report(problem.mark, "variable", problem.message, problem.remedy, path)
            return None

    def _list(self, node: Sequence, spec_type: SpecType, path: str) -> Any:
        if len(node.items) < (spec_type.limit("min_length") or 0):
            return self._mismatch(node, spec_type, path, ("at least one item",))
        item = spec_type.arguments[0]
        values = [self.decode(n, item, f"{path}[{i}]") for i, n in enumerate(node.items)]
        return [value for value in values if value is not WRONG]

    def _dict(self, node: Mapping, spec_type: SpecType, path: str) -> Any:
        key_type, value_type = spec_type.arguments
        pattern = key_type.limit("pattern")
        result = {}
        for name, entry in node.entries.items():
            here = join_path(path, name)
            if pattern and not re.fullmatch(pattern, name):
                self._wrong_name(entry.key, key_type, here)
            value = self.decode(entry.value, value_type, here)
            if value is not WRONG:
                result[name] = value
        return result

    def _struct(self, node: Mapping, spec_type: SpecType, path: str) -> Any:
        fields = fields_of(spec_type.kind)
        entries = {name: e for name, e in node.entries.items() if name in fields}
        for name, entry in node.entries.items():
            if name not in fields:
                meant = self._unknown_key(entry, fields, path)
                if meant and meant not in entries:
                    entries[meant] = entry
                    self.guessed.add(join_path(path, meant))
        values = {
            name: self._field(field, entries.get(name), node.mark, path)
            for name, field in fields.items()
        }
        return spec_type.kind(**values)

    def _field(self, field: Field, entry: MappingEntry | None, mark: Position, path: str) -> Any:
        here = join_path(path, field.name)
        if entry is None:
            if field.required:
                self._missing(field, mark, path)
            return _fallback(field)
        value = self._unless_null(field, entry.value, here)
        return _fallback(field) if value is WRONG else value

    def _unless_null(self, field: Field, node: Node, path: str) -> Any:
        """The value of a key; its default if the value is null."""
        if not isinstance(node, Scalar) or field.type.kind is EnvReference:
            return self.decode(node, field.type, path)
        substituted = self._substituted(node, path)
        if substituted is None:
            return WRONG
        if substituted.value is None and not field.required:
            if substituted.taken and not substituted.text:
                return self._empty(substituted, path)
            return field.default
        return self.decode(substituted, field.type, path)

    def _empty(self, node: Scalar, path: str) -> Any:
        """Report variables that are set but empty: the user did not ask for the default."""
        name = shorten(node.taken[0])
        message = f"the environment variable {name} is empty"
        remedy = f"set it, or write ${{{name}:-}} for the default of {path}"
        self._report(node.mark, "variable", message, remedy, path)
        return WRONG

    def _missing(self, field: Field, mark: Position, path: str) -> None:
        where = f" in {path}" if path else ""
        what = describe_type(field.type)
        if field.type.is_struct:
            what += " with " + " or ".join(list(fields_of(field.type.kind))[:3])
        self._report(
            mark,
            "missing-key",
            f"the key {field.name!r} is missing{where}",
            f"add {field.name}: {what}",
            join_path(path, field.name),
        )

    def _unknown_key(self, entry: MappingEntry, fields: dict[str, Field], path: str) -> str | None:
        from rsctl.job.suggestions import key_remedy

        key, may_be_own = entry.key, entry.is_anchored and not path
        meant, remedy = key_remedy(key.text, fields, self.root, self._arguments, may_be_own)
        where = f" in {path}" if path else ""
        message = f"unknown key {quoted(key.text)}{where}"
        self._report(key.mark, "unknown-key", message, remedy, join_path(path, key.text))
        return meant

    def _wrong_name(self, key: Scalar, spec_type: SpecType, path: str) -> None:
        from rsctl.job.suggestions import name_remedy

        message = f"expected {describe_pattern(spec_type)}, got the key {quoted(key.text)}"
        self._report(
            key.mark, "name", message, name_remedy(key.text, spec_type.limit("pattern")), path
        )

    def _mismatch(
        self, node: Node, spec_type: SpecType, path: str, reasons: tuple[str, ...]
    ) -> Any:
        from rsctl.job.suggestions import value_remedy

        wanted, *why = reasons
        if path.partition("[")[0] == _URLS and spec_type.kind != "literal":
            self._report(node.mark, SECRET, _NO_URL.format(wanted), URL_REMEDY, path)
            return WRONG
        secret = spec_type.kind is EnvValue and isinstance(node, Scalar) and node.from_environment
        got = "a value from the environment" if secret else describe(node)
        remedy = value_remedy(node, spec_type, self._base)
        if is_secret_name(last_name(path)) and not (isinstance(node, Scalar) and not node.text):
            got, remedy, why = "a value that is not shown", None, []
        message = ": ".join([f"expected {wanted}, got {got}", *why])
        self._report(node.mark, "value", message, remedy and public_text(remedy), path)
        return WRONG

    def _report(
        self, mark: Position, code: str, message: str, remedy: str | None, path: str
    ) -> None:
        self._add(mark.error(code, message, remedy, path or None), mark)

    def _add(self, finding: Finding, mark: Position) -> None:
        key = (finding.path, mark)
        if key in self._reported:  # a matrix is read twice: as it is, and by its keys
            return
        if len(self.findings) == MAX_FINDINGS:
            raise TooMany
        self._reported.add(key)
        self.findings.append(finding)


def _script_arguments(root: Mapping) -> frozenset[str]:
    """The names in `run.args` that are not keys of the file's top level."""
    node: Node = root
    for name in ("run", "args"):
        entry = node.entries.get(name) if isinstance(node, Mapping) else None
        if entry is None:
            return frozenset()
        node = entry.value
    return frozenset(node.entries) if isinstance(node, Mapping) else frozenset()


def _form_for(node: Mapping | Sequence, spec_type: SpecType) -> SpecType | None:
    """The choice among a type's forms that a mapping or list can be."""
    for choice in spec_type.choices:
        if isinstance(node, Mapping) and (choice.kind is dict or choice.is_struct):
            return choice
        if isinstance(node, Sequence) and choice.kind is list:
            return choice
        if choice.kind is Any:
            return _FREE[dict if isinstance(node, Mapping) else list]
    return None


def _fallback(field: Field) -> Any:
    """Something of the right type, for the checks that run in spite of an error."""
    if not field.required:
        return field.default
    if field.type.is_struct:
        fields = fields_of(field.type.kind)
        return field.type.kind(**{name: _fallback(inner) for name, inner in fields.items()})
    return ""
