"""The predicted step time of a run from its submission, next to the measured time."""

from __future__ import annotations

from typing import Optional

import msgspec

from rsctl.estimate.advice.calibrate import Observation
from rsctl.estimate.advice.calibration import Calibration
from rsctl.estimate.advice.cluster import ModelledCluster
from rsctl.estimate.advice.measured import profile_of_record
from rsctl.estimate.advice.step import ExchangeSettings
from rsctl.runs.step_times import steps_of
from rsctl.runs.store import Store

_MOST_RUNS = 200


class RunPrediction(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes and settings of a run as the model's inputs, and its prediction.

    `step_seconds` is None if the script was unknown; `source` is the origin of the script's
    profile. The constants were `fitted_from` these runs; without runs they were the defaults.
    """

    cluster: ModelledCluster
    settings: ExchangeSettings
    step_seconds: Optional[float] = None
    source: Optional[str] = None
    fitted_from: tuple[str, ...] = ()


def keep_prediction(store: Store, run: str, prediction: RunPrediction) -> None:
    """Record the prediction for a run. Raises StoreError."""
    text = msgspec.json.encode(prediction).decode()
    statement = "INSERT OR REPLACE INTO predictions (run, prediction) VALUES (?, ?)"
    store.write(statement, run, text)


def prediction_of(store: Store, run: str) -> RunPrediction | None:
    """The record; None if it does not exist or has another version. Raises StoreError."""
    row = next(store.rows("SELECT prediction FROM predictions WHERE run=?", run), None)
    try:
        return msgspec.json.decode(row[0], type=RunPrediction) if row else None
    except (ValueError, RecursionError):
        return None


def observation_of(store: Store, run: str) -> Observation | None:
    """A run's data for the model; None if it recorded no steps, or exchanged no gradients.

    Raises StoreError.
    """
    prediction, record = prediction_of(store, run), steps_of(store, run)
    if prediction is None or record is None:
        return None
    if not record.communicates or not record.buckets or not record.seconds:
        return None
    return Observation(
        run=run,
        seconds=record.seconds,
        profile=profile_of_record(record, f"run {run}"),
        cluster=prediction.cluster,
        settings=prediction.settings,
    )


def errors_of(store: Store, target: str, calibration: Calibration) -> list[float]:
    """predicted / measured - 1 for the target's last runs that were predicted with these constants.

    Raises StoreError.
    """
    query = (
        "SELECT runs.id FROM runs JOIN predictions ON predictions.run = runs.id"
        " WHERE runs.target=? ORDER BY runs.rowid DESC LIMIT ?"
    )
    rows = list(store.rows(query, target, _MOST_RUNS))
    errors = (_error(store, run, calibration) for (run,) in rows)
    return [error for error in errors if error is not None]


def _error(store: Store, run: str, calibration: Calibration) -> float | None:
    prediction, record = prediction_of(store, run), steps_of(store, run)
    if prediction is None or prediction.step_seconds is None or record is None:
        return None
    if prediction.fitted_from != calibration.fitted_from or not record.communicates:
        return None
    return prediction.step_seconds / record.seconds - 1 if record.seconds else None
