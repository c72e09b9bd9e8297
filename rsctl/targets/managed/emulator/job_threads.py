"""The threads of an emulator's jobs, one a job."""

from __future__ import annotations

import threading

from rsctl.targets.managed.emulator.job_events import Cancel, EventQueue, NodeExited, Preempt


class JobThread(threading.Thread):
    """Base of a job's thread, the listener of the job's nodes; `run` takes it to its end.

    Exits, preemptions and cancellations reach it by `events`.
    """

    def __init__(self, name: str) -> None:
        super().__init__(daemon=True, name=name)
        self.events = EventQueue()

    def cancel(self) -> None:
        """Ask the job to end."""
        self.events.put(Cancel())

    def preempt(self, machine: str | None) -> None:
        """Take a machine away, the last one if none is named."""
        self.events.put(Preempt(machine))

    def close(self) -> None:
        """End everything without a last state; `join` waits for that."""
        self.events.close()

    def ended(self, node: str, code: int) -> None:
        """As `nodes.Listener` has it."""
        self.events.put(NodeExited(node, code))


class JobThreads:
    """The threads of all jobs, by job id."""

    def __init__(self) -> None:
        self._threads: dict[str, JobThread] = {}

    def __getitem__(self, job: str) -> JobThread:
        return self._threads[job]

    @property
    def are_finished(self) -> bool:
        """Whether no job is running."""
        return not any(thread.is_alive() for thread in list(self._threads.values()))

    def start(self, job: str, thread: JobThread) -> None:
        """Start the thread of a new job."""
        self._threads[job] = thread
        thread.start()

    def close(self) -> None:
        """End all, and wait until they have."""
        threads = list(self._threads.values())
        for thread in threads:
            thread.close()
        for thread in threads:
            thread.join()
