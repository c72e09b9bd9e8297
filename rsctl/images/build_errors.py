"""The error of a failed build: its step, its last lines, and the known error with its remedy."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from rsctl.findings import ExitCode, Finding, RsctlError, error, note
from rsctl.images.dockerfile_base import DockerfileBase
from rsctl.images.events import BuildEvent, BuildOutput, BuildStep, one_line
from rsctl.images.known_errors import KNOWN_ERRORS
from rsctl.images.recipe import Recipe
from rsctl.known_errors import find_known_error

_KEPT_LINES = 200
_SHOWN_LINES = 12
_MAX_FINDINGS = 50
_MAX_LINE = 1000  # characters
_MAX_INSTRUCTION = 300  # characters

_FIELDS = (
    ("FROM |pull |.*load metadata for ", "image.base"),
    ("RUN set -e; ", "image.transport"),  # as the fragments in containers/ begin
    ("ENV ", "image.env"),
    ("RUN .*apt-get ", "image.apt"),
    ("RUN .* -m pip ", "image.python"),
    ("RUN .*rsctl-launch --check ", "image.transport"),
    ("COPY .*source/ ", "image.source"),
)
"""The field of the spec for each instruction."""


class FailureDetails:
    """Collects, in bounded memory, the events of a build for its error."""

    def __init__(self) -> None:
        self.errors: list[Finding] = []
        self._failed: BuildStep | None = None
        self._last: BuildStep | None = None
        self._lines: defaultdict[int, deque[str]] = defaultdict(lambda: deque(maxlen=_KEPT_LINES))

    def add(self, event: BuildEvent) -> None:
        """Collect an event."""
        if isinstance(event, BuildStep):
            self._add_step(event)
        elif isinstance(event, BuildOutput):
            self._lines[event.step].append(event.line[:_MAX_LINE])
        elif event.is_error and len(self.errors) < _MAX_FINDINGS:
            self.errors.append(event)

    def to_error(self, recipe: Recipe, program: str) -> RsctlError:
        """The error of the build of a recipe by `program`, which has failed."""
        reference = recipe.reference
        step = self._failed or self._last
        lines = [*self._lines[0], *(self._lines[step.number] if step and step.number else ())]
        instruction = step.instruction if step else ""
        failed = f"{program} could not build {reference}{_where(step)}"
        field = _field_in(recipe, instruction)
        if self.errors:
            found = [replace(finding, path=finding.path or field) for finding in self.errors]
            return RsctlError(ExitCode.USAGE, *found, error("build", failed, None, field))
        known = explain_failure(lines, instruction, _base_in(recipe, instruction))
        return _with_lines(failed, lines, field, _about(known, field, recipe))

    def _add_step(self, step: BuildStep) -> None:
        if step.failed:
            self._failed = self._failed or step
        elif step.seconds is not None:
            self._lines.pop(step.number, None)
        self._last = step


def explain_failure(lines: Iterable[str], instruction: str, base: str) -> RsctlError | None:
    """The first known error in these lines, which this instruction printed; None if none is."""
    text = "\n".join(lines)
    known = find_known_error(KNOWN_ERRORS, text, source=instruction)
    if known is None:
        return None
    shown = known.fill(text, base=base)
    path = known.path or field_of(instruction)
    finding = error(known.code, shown.summary or "", shown.remedy, path)
    return RsctlError(known.exit_code, finding)


def of_dockerfile(problem: RsctlError, base: DockerfileBase) -> RsctlError:
    """The error of the build of the user's Dockerfile: its findings are about that."""

    def text(given: str | None) -> str | None:
        return given and re.sub(r"\bimage\.\w+|(?<=correct )image\b", "the file", given)

    findings = [
        replace(
            finding,
            message=str(text(finding.message)),
            remedy=text(finding.remedy),
            path="image.dockerfile",
        )
        for finding in problem.findings
    ]
    where = note("dockerfile", f"it is {base.path} that failed", None, "image.dockerfile")
    return RsctlError(problem.exit_code, *findings, where)


def _field_in(recipe: Recipe, instruction: str) -> str:
    """The field that an instruction comes from, including the commands of `image.run`.

    BuildKit shows commands with the values of the image's variables.
    """
    for index, command in enumerate(recipe.commands):
        parts = re.split(r"\$\w+|\$\{\w+\}", one_line(command))
        if re.fullmatch("RUN " + ".*".join(map(re.escape, parts)), instruction):
            return f"image.run[{index}]"
    return _base_field(recipe, field_of(instruction))


def _base_in(recipe: Recipe, instruction: str) -> str:
    """The name of the base image in messages: the one in an instruction of a Dockerfile."""
    if recipe.dockerfile_base is None:
        return recipe.base
    named = re.search(r"(?:FROM|load metadata for) (?:--\S+ )?(\S+)", instruction)
    return named[1] if named else "the Dockerfile's base"


def _base_field(recipe: Recipe, field: str) -> str:
    return "image.dockerfile" if recipe.dockerfile_base and field == "image.base" else field


def _about(known: RsctlError | None, field: str, recipe: Recipe) -> RsctlError | None:
    """An error in a user's own command is reported as such, even if it matches other known
    errors.
    """
    if known is None:
        return None
    paths = [
        field if field.startswith("image.run") else _base_field(recipe, finding.path or field)
        for finding in known.findings
    ]
    findings = [replace(f, path=path) for f, path in zip(known.findings, paths, strict=True)]
    return RsctlError(known.exit_code, *findings)


def field_of(instruction: str) -> str:
    """The field of the spec that an instruction comes from."""
    return next((path for pattern, path in _FIELDS if re.match(pattern, instruction)), "image")


def _where(step: BuildStep | None) -> str:
    if step is None:
        return ""
    which = f"step {step.number}/{step.total}" if step.number else "a step"
    return f", {which} failed: {step.instruction[:_MAX_INSTRUCTION]}"


def _with_lines(
    failed: str, lines: Sequence[str], field: str, known: RsctlError | None
) -> RsctlError:
    shown = "".join(f"\n  {line}" for line in lines[-_SHOWN_LINES:])
    remedy = None if known else f"correct {field}, or check the builder's network and disk"
    build = error("build", failed + (f"; its last lines:{shown}" if shown else ""), remedy, field)
    if known:
        return RsctlError(known.exit_code, *known.findings, build)
    return RsctlError(ExitCode.ENVIRONMENT, build)
