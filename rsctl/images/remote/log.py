"""Parses the log of a remote build into the events that builds on this machine have too."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator

from rsctl.findings import RsctlError
from rsctl.images.build_errors import FailureDetails, of_dockerfile
from rsctl.images.events import BuildEvent, BuildOutput, check_build, output_or_finding
from rsctl.images.progress import CLASSIC, BuildKitProgress, BuildOutputReader, StepwiseProgress
from rsctl.images.recipe import Recipe

_LONGEST_LINE = 64 << 10
_STEP_PREFIX = re.compile(r'Step #\d+(?: - "[^"]*")?: ?')  # Cloud Build's own, where it has steps
_BUILDKIT = re.compile(r"#1 ")
_CACHE = re.compile(r"#\d+ (?=importing cache manifest from )")  # its errors are not failures
_CLASSIC = re.compile(
    r"DEPRECATED: The legacy builder |Sending build context to Docker|Step 1/\d{1,6} : "
)
_BUILT = re.compile(r"Successfully tagged \S+$")  # the classic builder's last line
BASE_BUILT = "rsctl: the Dockerfile is built"
"""The line that the build's script prints between the user's Dockerfile and rsctl's."""


class BuildLog:
    """Parses a log, in blocks of any size, and shows its events. Memory does not grow with it."""

    def __init__(self, show: Callable[[BuildEvent], None]) -> None:
        self._show = show
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""
        self._progress: BuildOutputReader | None = None
        self._cache: str | None = None
        self._last = ""
        self._is_base_built = False
        self._failure = FailureDetails()

    def add_line(self, line: str) -> None:
        """Show a line of rsctl's own, which is not part of the log."""
        self._show(BuildOutput(line))

    def check(self) -> None:
        """Raise the error of a `CheckedShow` if the build must end."""
        check_build(self._show)

    def feed(self, block: bytes) -> None:
        """The next piece of the log."""
        *lines, self._rest = (self._rest + self._decode(block)).split("\n")
        for line in lines:
            self._line(line)
        if len(self._rest) > _LONGEST_LINE:
            self._line(self._rest)
            self._rest = ""

    def end(self) -> None:
        """The log has ended; an unfinished last line is shown too."""
        if self._rest:
            self._line(self._rest)
            self._rest = ""
        self._close(failed=True)

    def to_error(self, recipe: Recipe, program: str) -> RsctlError:
        """The error of the build of a recipe by `program`, which has failed."""
        problem = self._failure.to_error(recipe, program)
        base = recipe.dockerfile_base
        return of_dockerfile(problem, base) if base and not self._is_base_built else problem

    def ends_with(self, starts: tuple[str, ...]) -> bool:
        """Whether the last line that is not blank starts with one of these."""
        return (self._rest.strip() or self._last).startswith(starts)

    def _line(self, line: str) -> None:
        line = _STEP_PREFIX.sub("", line.rstrip("\r")[:_LONGEST_LINE], count=1)
        if line.strip():
            self._last = line.strip()
        if line == BASE_BUILT and not self._is_base_built:
            self._close(failed=False)
            self._is_base_built, self._failure = True, FailureDetails()
        for event in self._events(line):
            self._add(event)
        if _BUILT.match(line):
            self._close(failed=False)

    def _events(self, line: str) -> Iterator[BuildEvent]:
        if self._progress is None:
            if _BUILDKIT.match(line):
                self._progress = BuildKitProgress()
            elif _CLASSIC.match(line):
                self._progress = StepwiseProgress(CLASSIC)
        if found := _CACHE.match(line):
            self._cache = found[0]
        if self._cache and line.startswith(self._cache):
            return
        if self._progress is not None:
            yield from self._progress.read(line)
        elif line.strip():
            yield output_or_finding(line, 0)

    def _close(self, failed: bool) -> None:
        if self._progress is not None:
            for event in self._progress.end(failed):
                self._add(event)
            self._progress = None

    def _add(self, event: BuildEvent) -> None:
        self._failure.add(event)
        self._show(event)
