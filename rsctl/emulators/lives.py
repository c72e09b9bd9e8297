"""The threads of an emulator's jobs, one each."""

from __future__ import annotations

import threading

from rsctl.emulators.inbox import Cancel, Ended, Inbox, Preempt


class JobLife(threading.Thread):
    """Base of a job's thread, whose `run` is its life; it hears of the job's nodes.

    Whatever befalls the job from outside comes by `inbox`.
    """

    def __init__(self, name: str) -> None:
        super().__init__(daemon=True, name=name)
        self.inbox = Inbox()

    def cancel(self) -> None:
        """End the job as somebody wants it."""
        self.inbox.put(Cancel())

    def preempt(self, machine: str | None) -> None:
        """Take a machine away, the last one if none is named."""
        self.inbox.put(Preempt(machine))

    def close(self) -> None:
        """End everything and say nothing more; `join` waits for that."""
        self.inbox.close()

    def ended(self, node: str, code: int) -> None:
        """As `nodes.Listener` has it."""
        self.inbox.put(Ended(node, code))


class Lives:
    """All of an emulator, by job."""

    def __init__(self) -> None:
        self._lives: dict[str, JobLife] = {}

    def __getitem__(self, job: str) -> JobLife:
        return self._lives[job]

    @property
    def are_over(self) -> bool:
        """Whether none goes on."""
        return not any(life.is_alive() for life in list(self._lives.values()))

    def begin(self, job: str, life: JobLife) -> None:
        """Have a life begin."""
        self._lives[job] = life
        life.start()

    def close(self) -> None:
        """End all, and wait until they have."""
        lives = list(self._lives.values())
        for life in lives:
            life.close()
        for life in lives:
            life.join()
