"""Programs of another environment, without the seconds of processor that their imports take."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

_REPOSITORY = Path(__file__).parents[2]


class Preloaded:
    """Runs modules in copies of a process of the interpreter `python` that has imported `modules`.

    They find `rsctl` and `tests`; `environ` is there as the imports are made, and `folder` is for
    what the modules print.
    """

    def __init__(
        self, python: str, folder: Path, *modules: str, environ: Mapping[str, str] | None = None
    ) -> None:
        self._printed = (folder / "out", folder / "err")
        program = str(Path(__file__).with_name("preloaded_process.py"))
        self._process = subprocess.Popen(
            [python, program, *modules],
            cwd=_REPOSITORY,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Preloaded:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def run(self, *argv: str, environ: Mapping[str, str], folder: Path | None = None) -> str:
        """What a module prints that is run in `folder` as by `python -m`; it must end well."""
        out, err = self._printed
        request = {"argv": argv, "environ": dict(environ), "out": str(out), "err": str(err)}
        request["folder"] = str(folder or os.getcwd())
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "0\n", err.read_text()
        return out.read_text()
