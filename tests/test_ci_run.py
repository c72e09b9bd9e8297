"""`.ci/run` with other programs in place of those that it starts."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

from tests.kit.polling import DEADLINE_SECONDS

_CALLED = (
    *("compiler", "compose-plugin", "docker-registry", "browser", "test-base", "slurm"),
    *("estimators", "trackers", "webdataset", "frameworks", "transport-core"),
)
_IN_BACKGROUND = "#!/bin/bash\nsetsid sleep 600 >/dev/null 2>&1 &\necho $! >{file}\n"
_TESTS = "exec sleep 600\n"
_SDKS = "#!/bin/bash\nuntil [[ -s tests.pid && -s engine.pid ]]; do sleep 0.01; done\nexit 3\n"


def test_an_early_failure_ends_all_but_the_engine(tmp_path: Path) -> None:
    def program(name: str, text: str = "#!/bin/sh\n") -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    for name in _CALLED:
        program(f".ci/{name}")
    program(".ci/python", "#!/bin/sh\necho /usr/bin\n")
    program(".ci/docker-engine", _IN_BACKGROUND.format(file="engine.pid"))
    program(".ci/run-tests", _IN_BACKGROUND.format(file="tests.pid") + _TESTS)
    program(".ci/sdks", _SDKS)
    program(".venv/bin/python")
    program("bin/make")
    shutil.copy(Path(__file__).parents[1] / ".ci" / "run", tmp_path / ".ci")
    done = subprocess.run(
        ["bash", ".ci/run"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
    )
    engine, tests = (int((tmp_path / name).read_text()) for name in ("engine.pid", "tests.pid"))
    try:
        assert (done.returncode, done.stderr) == (3, "environments has failed\n")
        assert _is_running(engine)
        assert not _is_running(tests)
    finally:
        for pid in filter(_is_running, (engine, tests)):
            os.kill(pid, signal.SIGKILL)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except OSError:
        return False
