"""The handle of an all-reduce by the reducers, which raises as those of gloo and NCCL do."""

from __future__ import annotations

import threading
from datetime import timedelta

import torch
import torch.distributed as dist

from rsctl.transport.pytorch.gradient_pipeline import GradientPipeline

_NO_LIMIT = timedelta(0)

Result = torch.futures.Future[list[torch.Tensor]]


class ReducerWork(dist.Work):
    """An all-reduce under way. `result` is its future, with a list of its tensor.

    PyTorch's own handle of a future does not raise in `wait`: its caller would continue with the
    former content of the tensor.
    """

    def __init__(self, result: Result, pipeline: GradientPipeline) -> None:
        super().__init__()
        self._result = result
        self._pipeline = pipeline

    def wait(self, timeout: timedelta = _NO_LIMIT) -> bool:
        """Wait for the result; on a GPU the current stream waits for it.

        Raises RuntimeError if the all-reduce has failed, or has not ended after `timeout`, in which
        case it continues. Without a timeout the process group's timeout counts.
        """
        if timeout > _NO_LIMIT and not self._has_ended(timeout.total_seconds()):
            raise RuntimeError(f"the all-reduce has not ended after {timeout.total_seconds():g} s")
        self._pipeline.hand_over()
        self._result.wait()
        return True

    def get_future(self) -> Result:
        """The future of the result, a list of the tensor."""
        return self._result

    def is_completed(self) -> bool:
        """Whether it has ended, well or not."""
        return self._result.done()

    def is_success(self) -> bool:
        """Whether it has ended well."""
        return self.is_completed() and self.exception() is None

    def exception(self) -> Exception | None:
        """Why it has failed; None if it has ended well or is still under way."""
        if not self.is_completed():
            return None
        try:
            self._result.value()
        except RuntimeError as error:
            return error
        return None

    def result(self) -> list[torch.Tensor]:
        """The reduced tensor. Raises RuntimeError if the all-reduce has failed."""
        self.wait()
        return self._result.value()

    def synchronize(self) -> None:
        """On a GPU, have the current stream wait for the result."""
        self.wait()

    def _has_ended(self, seconds: float) -> bool:
        if self._result.done():
            return True
        self._pipeline.hand_over()
        ended = threading.Event()
        self._result.add_done_callback(lambda _: ended.set())
        return ended.wait(seconds)
