"""The queue itself: one process for each job. One job runs at a time."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from time import sleep

from rsctl.runs.stream.events import now


def main(folder: Path) -> None:
    """Wait for the folder's other jobs, then run this one to its end or its cancellation."""
    job = json.loads((folder / "job.json").read_bytes())
    with (folder.parent / "queue").open("ab") as queue:
        while not _is_turn(queue.fileno()):
            if (folder / "cancel").exists():
                return _write(folder, state="cancelled", time=now())
            sleep(0.05)
        _write(folder, state="running", time=now(), started=(started := now()))
        code = _run(folder, job)
    is_cancelled = (folder / "cancel").exists()
    state = "cancelled" if is_cancelled else "failed" if code else "succeeded"
    return _write(folder, state=state, time=now(), started=started, code=code)


def _run(folder: Path, job: dict[str, object]) -> int:
    command = ["nice", "-n", str(job["niceness"]), *map(str, job["command"])]  # type: ignore[call-overload]
    outputs = os.environ.get("RSCTL_OUTPUT_DIR")
    if outputs:
        os.makedirs(outputs, exist_ok=True)
    with subprocess.Popen(
        command,
        cwd=str(job["cwd"]),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        threading.Thread(target=_cancel, args=(folder, process), daemon=True).start()
        with (folder / "log").open("ab", buffering=0) as log:
            for line in process.stdout or ():
                log.write(f"{now()} ".encode() + line.rstrip(b"\n") + b"\n")
        return process.wait()


def _cancel(folder: Path, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        if (folder / "cancel").exists():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        sleep(0.05)


def _is_turn(queue: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(queue, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _write(folder: Path, **status: object) -> None:
    beside = folder / "status.new"
    beside.write_text(json.dumps(status))
    beside.replace(folder / "status.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
