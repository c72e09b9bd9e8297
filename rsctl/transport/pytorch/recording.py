"""Records the steps of a script whose gradients go through a hook, and ends one that is measured.

A script is measured where `RSCTL_MEASURE_STEPS` is set: after so many recorded steps it is ended.
Unless `RSCTL_MEASURE_COMM` is 1, its gradients are not exchanged then, so that it measures steps of
a worker without communication. `RSCTL_RECORD_STEPS: 1` records a script that DDP would reduce
without a hook.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import GradBucket

from rsctl.transport.pytorch.clock import clock_of
from rsctl.transport.pytorch.data_waits import report_waits
from rsctl.transport.pytorch.host_buffers import future_for
from rsctl.transport.pytorch.report import emit, emit_finding, rank
from rsctl.transport.pytorch.settings import MeasureSettings, read_measure_settings
from rsctl.transport.pytorch.step_times import WARM_UP_STEPS, StepTimes, median_buckets, summary
from rsctl.transport.pytorch.topology import RankExchange

Reduce = Callable[[GradBucket], "torch.futures.Future[torch.Tensor]"]

_BUCKETS_A_LINE = 60
_FIRST_REPORT_STEPS = 50
_FEWEST_STEPS = 3


class Recording:
    """The steps of this process. `measure` is how many to take, None for an ordinary run.

    `own_bucket_mb` is the `bucket_cap_mb` that the script itself asks for, if it does.
    """

    def __init__(self, measure: MeasureSettings | None) -> None:
        self.measure = measure
        self._times: StepTimes | None = None
        self._model: object = None
        self._prefetches = False
        self.own_bucket_mb: float | None = None
        self._next_report = _FIRST_REPORT_STEPS
        self._is_over = False

    def reduce(
        self, model: object, bucket: GradBucket, reduce: Reduce
    ) -> torch.futures.Future[torch.Tensor]:
        """Reduce a bucket of a model and record when; the last bucket of the first ends a step."""
        gradient = bucket.buffer()
        if self._times is None:
            self._begin(model, gradient.device)
        times = self._begun
        ends_step = bucket.is_last() and model is self._model
        pending = times.bucket_ready(gradient.numel() * gradient.element_size(), ends_step)
        if self.measure is not None and not self.measure.communicates:
            pending.reduced = pending.ready
            future = future_for(gradient.device)
            future.set_result(gradient)
        else:
            future = reduce(bucket)
            future.add_done_callback(lambda _: times.bucket_reduced(pending))
        if ends_step:
            self._step_ended()
        return future

    def end(self) -> None:
        """Print what has been recorded, when the script has ended or ends its process groups."""
        if self._is_over:
            return
        self._is_over = True
        recorded = self._times.recorded if self._times else 0
        # torchrun itself loads torch, too.
        is_rank = "LOCAL_RANK" in os.environ or "torch.distributed.run" not in sys.modules
        if self.measure is not None and recorded < self.measure.steps and is_rank:
            _report_short(self._times is not None, recorded, self.measure.steps)
        self._print()

    @property
    def _begun(self) -> StepTimes:
        assert self._times is not None  # noqa: S101
        return self._times

    def _begin(self, model: object, device: torch.device) -> None:
        self._times, self._model = StepTimes(clock_of(device)), model
        report_waits(self._waited_for_data)

    def _waited_for_data(self, seconds: float, prefetches: bool) -> None:
        self._begun.data_seconds += seconds
        self._prefetches |= prefetches

    def _step_ended(self) -> None:
        recorded = self._begun.recorded
        if self.measure is not None:
            # One step more, for the reductions of the last may still be under way.
            if recorded > self.measure.steps:
                self._end_script()
        elif recorded >= self._next_report:
            self._next_report *= 2
            self._print()

    def _end_script(self) -> None:
        """End the script as if it had called `sys.exit()`, once all ranks have come here.

        A rank that ended earlier could take the store with it that others still use.
        """
        self._print()
        self._is_over = True
        with suppress(RuntimeError):
            RankExchange("measured").all_gather("end", "1", range(dist.get_world_size()))
        raise SystemExit(0)

    def _print(self) -> None:
        """Print the medians of the last steps as one or more `steps` lines, from rank 0."""
        steps = self._times.steps() if self._times else []
        if rank() != 0 or len(steps) < _FEWEST_STEPS:
            return
        buckets = median_buckets(steps)
        parts = [buckets[i : i + _BUCKETS_A_LINE] for i in range(0, len(buckets), _BUCKETS_A_LINE)]
        for number, part in enumerate(parts):
            fields = {"part": number, "parts": len(parts), **summary(steps)}
            fields |= {"prefetches": self._prefetches, "world": dist.get_world_size()}
            fields["bucket_mb"] = self.own_bucket_mb
            fields |= self._begun.machine_use()
            fields["communicates"] = self.measure is None or self.measure.communicates
            emit("steps", {**fields, "buckets": part})


_recording: Recording | None = None


def start(environ: Mapping[str, str]) -> None:
    """Record the steps of this process. Raises BindingError for variables that make no sense."""
    global _recording
    _recording = Recording(read_measure_settings(environ))


def current() -> Recording | None:
    """The recording of this process, if it has begun."""
    return _recording


def needs_hook() -> bool:
    """Whether gradients that DDP would reduce itself also go through a hook.

    Without a hook DDP reduces in C++, where its buckets are not visible.
    """
    if _recording is None:
        return False
    return _recording.measure is not None or os.environ.get("RSCTL_RECORD_STEPS") == "1"


def note_bucket_size(own_mb: float | None) -> None:
    """Note the size of buckets that a script asks for, in MiB."""
    if _recording is not None and own_mb is not None:
        _recording.own_bucket_mb = own_mb


def end() -> None:
    """Print what has been recorded."""
    if _recording is not None:
        _recording.end()


def _report_short(has_gradients: bool, recorded: int, wanted: int) -> None:
    """Why there is less than was wanted, from rank 0."""
    if rank() != 0:
        return
    if not has_gradients:
        emit_finding(
            "error",
            "measure-gradients",
            "the script has ended without a gradient of a DistributedDataParallel",
            "Wrap the model in DistributedDataParallel even with one rank, measure with --set "
            "workers.processes=2, or write model.parameters and model.step_seconds.",
        )
        return
    least = WARM_UP_STEPS + wanted + 1
    emit_finding(
        "warning" if recorded >= _FEWEST_STEPS else "error",
        "measure-short",
        f"the script has ended after {recorded} steps beyond {WARM_UP_STEPS} of warm-up, but the "
        f"measurement needs {wanted}",
        f"Let it train for at least {least} steps, with its arguments: --set run.args.NAME=VALUE.",
    )
