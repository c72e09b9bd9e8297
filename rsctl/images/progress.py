"""Parses the output of builders into events that are the same for every builder.

It reads the formats of `docker build` with and without BuildKit (`--progress plain`) and `podman
build`; samples of each are in `tests/images/progress/`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from rsctl.images.events import BuildEvent, BuildOutput, BuildStep, one_line, output_or_finding

Clock = Callable[[], float]


class BuildOutputReader(Protocol):
    """Reads the output of one build."""

    def read(self, line: str | None) -> Iterator[BuildEvent]:
        """The events of a line without its end; None means no output for a moment."""
        ...

    def end(self, failed: bool) -> Iterator[BuildEvent]:
        """The events that follow from the end of the build."""
        ...


class StepwiseFormat(NamedTuple):
    """How a builder that works step by step marks its steps among their output.

    `step` has the groups stage, stages, number, total and instruction; `builder_lines` are the
    lines of the builder itself.
    """

    step: re.Pattern[str]
    cached: re.Pattern[str]
    builder_lines: re.Pattern[str]


CLASSIC = StepwiseFormat(
    step=re.compile(r"()()Step (\d{1,6})/(\d{1,6}) : (.+)"),
    cached=re.compile(r" ---> Using cache$"),
    builder_lines=re.compile(
        r" ---> (?:Running in )?[0-9a-f]{12}$"
        r"|Removing intermediate container [0-9a-f]{12}$"
        r"|Sending build context to Docker daemon "
        r"|Successfully built [0-9a-f]{12}$|Successfully tagged \S+$"
        r"|DEPRECATED: The legacy builder "  # chosen on purpose, so not shown
        r"| {12}(?:BuildKit is currently disabled|environment-variable)"
    ),
)
PODMAN = StepwiseFormat(
    # Each stage counts its own steps.
    step=re.compile(r"(?:\[(\d{1,6})/(\d{1,6})\] )?STEP (\d{1,6})/(\d{1,6}): (.+)"),
    cached=re.compile(r"--> Using cache [0-9a-f]{64}$"),
    builder_lines=re.compile(
        r"--> [0-9a-f]{11,64}$|(?:\[\d{1,6}/\d{1,6}\] )?COMMIT \S+$"
        r"|Successfully tagged \S+$|[0-9a-f]{64}$"
    ),
)


class StepwiseProgress:
    """One step after the other, their output between their headings.

    The output of a step can look like a heading: only a heading with the next number counts, or the
    first of a later stage, so that a step that prints headings affects the display of one stage at
    most.
    """

    def __init__(self, format: StepwiseFormat, clock: Clock = monotonic) -> None:
        self._format = format
        self._clock = clock
        self._step: BuildStep | None = None
        self._stage = 0
        self._started = 0.0
        self._is_announced = True
        self._is_open = False

    def read(self, line: str | None) -> Iterator[BuildEvent]:
        """See Progress."""
        if line is None:
            yield from self._announce()
        elif heading := self._heading(line):
            yield from self._close(failed=False)
            self._step, self._started = heading, self._clock()
            self._is_open, self._is_announced = True, False
        elif not self._is_announced and self._format.cached.match(line):
            self._is_open, self._is_announced = False, True
            if self._step:
                yield replace(self._step, cached=True, seconds=0.0)
        else:
            yield from self._announce()
            if line and not self._format.builder_lines.match(line):
                yield output_or_finding(line, self._step.number if self._step else 0)

    def end(self, failed: bool) -> Iterator[BuildEvent]:
        """See Progress."""
        yield from self._close(failed)

    def _heading(self, line: str) -> BuildStep | None:
        found = self._format.step.match(line)
        if not found:
            return None
        stage, stages = int(found[1] or 0), int(found[2] or 0)
        step = BuildStep(int(found[3]), int(found[4]), one_line(found[5]))
        before = self._step if stage == self._stage else None
        before = before or BuildStep(0, step.total, "")
        is_next = (step.number, step.total) == (before.number + 1, before.total)
        if not is_next or step.number > step.total or not self._stage <= stage <= stages:
            return None
        self._stage = stage
        return step

    def _announce(self) -> Iterator[BuildEvent]:
        if self._step and not self._is_announced:
            self._is_announced = True
            yield self._step

    def _close(self, failed: bool) -> Iterator[BuildEvent]:
        yield from self._announce()
        if self._step and self._is_open:
            self._is_open = False
            yield replace(self._step, seconds=self._clock() - self._started, failed=failed)


_REMARK = "#0 "
_VERTEX = re.compile(r"#(\d{1,6}) (.*)")
_NUMBERED = re.compile(r"\[(?:[^\]\s]+ )*(\d{1,6})/(\d{1,6})\] (.+)")
_LOGGED = re.compile(r"\d+\.\d+(?: (.*))?$")
_DONE = re.compile(r"DONE (\d+(?:\.\d+)?)s$")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}$")


@dataclass
class _Vertex:
    step: BuildStep
    name: str
    started: float
    is_announced: bool = False
    is_ended: bool = False


@dataclass
class BuildKitProgress:
    """BuildKit's: every line has the number of its vertex, and the output of a step also its time.

    So no output of a step looks like a heading. Steps may run in parallel.
    """

    clock: Clock = monotonic
    _vertices: dict[str, _Vertex] = field(default_factory=dict)
    _cached: list[BuildStep] = field(default_factory=list)
    _has_failed: bool = False

    def read(self, line: str | None) -> Iterator[BuildEvent]:
        """See Progress."""
        if line is None:
            yield from self._announce()
        elif line.startswith(_REMARK):
            yield BuildOutput(line[len(_REMARK) :])
        elif found := _VERTEX.match(line):
            vertex = self._vertices.get(found[1])
            if vertex is None:
                self._vertices[found[1]] = self._make_vertex(found[2])
            elif found[2] not in (vertex.name, "...") and not _DIGEST.match(found[2]):
                yield from self._vertex_events(vertex, found[2])
        elif line and not self._has_failed:  # after a failure everything is printed again
            yield from self._announce()
            yield BuildOutput(line)

    def end(self, failed: bool) -> Iterator[BuildEvent]:
        """See Progress."""
        yield from self._announce()
        for vertex in self._vertices.values():
            if not vertex.is_ended and vertex.step.number:
                yield self._ended(vertex, failed=failed)

    def _make_vertex(self, name: str) -> _Vertex:
        found = _NUMBERED.match(name)
        step = BuildStep(int(found[1]), int(found[2]), found[3]) if found else BuildStep(0, 0, name)
        step = replace(step, instruction=one_line(step.instruction))
        return _Vertex(step, name, self.clock())

    def _vertex_events(self, vertex: _Vertex, text: str) -> Iterator[BuildEvent]:
        if text == "CACHED" and not vertex.is_ended and not vertex.is_announced:
            vertex.is_ended = vertex.is_announced = True
            if vertex.step.number:
                self._cached.append(replace(vertex.step, cached=True, seconds=0.0))
            return
        yield from self._announce()
        done = _DONE.match(text)
        if logged := _LOGGED.match(text):
            if logged[1]:
                yield output_or_finding(logged[1], vertex.step.number)
        elif text.startswith("ERROR: "):
            self._has_failed = True
            yield BuildOutput(text[len("ERROR: ") :], vertex.step.number)
            yield self._ended(vertex, failed=True)
        elif done or text in ("CANCELED", "CACHED"):
            if not vertex.is_ended:
                yield self._ended(vertex, seconds=float(done[1]) if done else None)
        else:
            yield BuildOutput(text, vertex.step.number)

    def _announce(self) -> Iterator[BuildEvent]:
        """Cached steps arrive together and in no order; steps that run have started."""
        yield from sorted(self._cached, key=lambda step: step.number)
        self._cached.clear()
        for vertex in self._vertices.values():
            if not vertex.is_announced:
                vertex.is_announced = True
                yield vertex.step

    def _ended(
        self, vertex: _Vertex, seconds: float | None = None, failed: bool = False
    ) -> BuildStep:
        vertex.is_ended = True
        took = self.clock() - vertex.started if seconds is None else seconds
        return replace(vertex.step, seconds=took, failed=failed)
