"""Calibration: the predicted and the measured steps of a target's runs, and constants fitted to
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Optional

import msgspec
from msgspec.structs import replace

from rsctl.api.arguments import checked_names
from rsctl.estimate.advice.calibrate import FEWEST_TO_CHECK, Observation, calibrate
from rsctl.estimate.advice.calibration import Calibration, uncalibrated
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.runs.calibrations import save_calibration, saved_calibration
from rsctl.runs.predictions import errors_of, observation_of, prediction_of
from rsctl.runs.step_times import steps_of
from rsctl.runs.store import Store


class FittedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run: its measured step, and the step by the constants before and after the fit.

    `predicted_seconds` is the prediction at submission, None if there was none.
    """

    run: str
    measured_seconds: float
    predicted_seconds: Optional[float]
    before_seconds: float
    after_seconds: float


class Fitted(msgspec.Struct, frozen=True, kw_only=True):
    """The new constants of a target, where they are kept, and the runs that they are fitted to."""

    target: str
    calibration: Calibration
    file: Path
    runs: tuple[FittedRun, ...]


def calibration_of(target: str) -> Calibration:
    """A target's own constants, otherwise the defaults; with the median error of its runs.

    The error is the error of earlier predictions with these constants; if there are none, the error
    of the fit, if it had enough runs.
    """
    calibration = saved_calibration(target) or uncalibrated(target)
    if len(calibration.fitted_from) < FEWEST_TO_CHECK:  # also in files of earlier versions
        calibration = replace(calibration, median_error=None)
    with closing(Store()) as store:
        errors = errors_of(store, target, calibration)
    return replace(calibration, median_error=median(map(abs, errors))) if errors else calibration


def calibrate_from(references: Iterable[str]) -> list[Fitted]:
    """Fit the constants of the targets of finished runs to the steps that these have recorded.

    They are kept in RSCTL_HOME, and `advise` uses them from then on. Raises RsctlError for a run
    without data for the model.
    """
    by_target: dict[str, list[Observation]] = {}
    with closing(Store()) as store:
        for reference in dict.fromkeys(checked_names("references", references)):
            run = store.find(reference)
            observation = observation_of(store, run.run)
            if observation is None:
                raise _no_observation(store, run.run)
            by_target.setdefault(run.target, []).append(observation)
        return [_fit(store, target, found) for target, found in by_target.items()]


def _fit(store: Store, target: str, observations: Sequence[Observation]) -> Fitted:
    start = uncalibrated(target)
    before = saved_calibration(target) or start
    fitted = calibrate(observations, start)
    return Fitted(
        target=target,
        calibration=fitted,
        file=save_calibration(target, fitted),
        runs=tuple(_fitted_run(store, one, before, fitted) for one in observations),
    )


def _fitted_run(
    store: Store, one: Observation, before: Calibration, after: Calibration
) -> FittedRun:
    prediction = prediction_of(store, one.run)
    return FittedRun(
        run=one.run,
        measured_seconds=one.seconds,
        predicted_seconds=prediction.step_seconds if prediction else None,
        before_seconds=one.predicted(before),
        after_seconds=one.predicted(after),
    )


def _no_observation(store: Store, run: str) -> RsctlError:
    """Why a run has no data for the model."""
    record = steps_of(store, run)
    if record is None:
        message = f"{run} has recorded no steps"
        remedy = (
            "record them with run.env: {RSCTL_RECORD_STEPS: 1}; runs with reducers always record "
            "them"
        )
    elif not record.communicates or record.world == 1:
        message = f"{run} has not exchanged gradients between nodes"
        remedy = "use runs with several nodes"
    else:
        message = f"the nodes of {run} are unknown"
        remedy = "use runs that this version of rsctl has submitted"
    return RsctlError(ExitCode.USAGE, error("calibrate", message, remedy))
