"""The state of one training job as the API shows it; written by its thread, read by requests."""

from __future__ import annotations

import threading
import time
from typing import Any

ENDED = ("Completed", "Failed", "Stopped")

_GOING_ON = ("Starting", "Pending", "Downloading", "Training", "Interrupted", "Restarting")
_LONGEST_REASON = 1024


class JobRecord:
    """`shown` is DescribeTrainingJob's answer, `tags` are by key. Times in seconds since 1970."""

    def __init__(self, shown: dict[str, Any], tags: dict[str, str]) -> None:
        self.name: str = shown["TrainingJobName"]
        self.arn: str = shown["TrainingJobArn"]
        self.tags = tags
        self._shown = {**shown, "SecondaryStatusTransitions": []}
        self._lock = threading.RLock()

    @property
    def status(self) -> str:
        """The primary status."""
        return str(self._shown["TrainingJobStatus"])

    @property
    def has_ended(self) -> bool:
        """Whether its status is final."""
        return self.status in ENDED

    @property
    def is_spot(self) -> bool:
        """Whether its machines may be taken away."""
        return bool(self._shown.get("EnableManagedSpotTraining"))

    def __getitem__(self, name: str) -> Any:
        return self._shown[name]

    def get(self, name: str, default: Any = None) -> Any:
        """A field, or the default."""
        return self._shown.get(name, default)

    def copy(self) -> dict[str, Any]:
        """All of it as it is now."""
        with self._lock:
            transitions = [dict(each) for each in self._shown["SecondaryStatusTransitions"]]
            return {**self._shown, "SecondaryStatusTransitions": transitions}

    def change(self, **fields: Any) -> None:
        """Set fields."""
        with self._lock:
            self._shown = {**self._shown, **fields, "LastModifiedTime": moment()}

    def enter(self, secondary: str, message: str) -> None:
        """Change the secondary status; while it stays the same only its message changes.

        A job that is stopping enters no status of a running one.
        """
        with self._lock:
            if self.status == "Stopping" and secondary in _GOING_ON:
                return
            transitions = self._shown["SecondaryStatusTransitions"]
            now = moment()
            if transitions and transitions[-1]["Status"] == secondary:
                transitions[-1]["StatusMessage"] = message
            else:
                if transitions:
                    transitions[-1]["EndTime"] = now
                begun = {"Status": secondary, "StartTime": now, "StatusMessage": message}
                transitions.append(begun)
            self.change(SecondaryStatus=secondary)

    def stop(self) -> bool:
        """Change to Stopping; False if it has ended."""
        with self._lock:
            if self.has_ended:
                return False
            if self.status != "Stopping":
                self.change(TrainingJobStatus="Stopping")
                self.enter("Stopping", "Stopping the training job")
            return True

    def end(self, primary: str, secondary: str, message: str, reason: str = "") -> None:
        """Change to a final status; `reason` is why it failed."""
        with self._lock:
            self.enter(secondary, message)
            last = self._shown["SecondaryStatusTransitions"][-1]
            last["EndTime"] = last["StartTime"]
            why = {"FailureReason": reason[:_LONGEST_REASON]} if reason else {}
            self.change(TrainingJobStatus=primary, **why)


def moment() -> float:
    """The present time in the format of answers."""
    return round(time.time(), 3)
