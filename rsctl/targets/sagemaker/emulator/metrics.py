"""CloudWatch's GetMetricData and GetMetricStatistics, for the metrics of training jobs.

Only the JSON protocol is spoken, which botocore prefers since 2025; older ones ask in others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rsctl.targets.sagemaker.emulator.aws_services import AwsEmulator, Parameters, Service
from rsctl.targets.sagemaker.emulator.behaviour import Behaviour
from rsctl.targets.sagemaker.emulator.measurements import SampleSeries, SampleStore

_INVALID, _COMBINATION = "ValidationError", "InvalidParameterCombination"
_NAMESPACE = "/aws/sagemaker/TrainingJobs"
_LEAST_PERIOD = 1.0
_MOST_DATAPOINTS = 1440
_STATISTICS: dict[str, Callable[[list[float]], float]] = {
    "Average": lambda values: sum(values) / len(values),
    "Sum": sum,
    "Minimum": min,
    "Maximum": max,
    "SampleCount": len,
}
_UNITS = {"Host": "Percent"}


class Metrics:
    """Answers with statistics over the periods that are asked for, scaled by the pace."""

    def __init__(
        self, emulator: AwsEmulator, measurements: SampleStore, behaviour: Behaviour
    ) -> None:
        self._emulator = emulator
        self._measurements = measurements
        self._behaviour = behaviour
        operations = {"GetMetricData": self._get, "GetMetricStatistics": self._statistics}
        emulator.add(Service("cloudwatch", _INVALID, operations))

    def _get(self, wanted: Parameters) -> Parameters:
        self._check_times(wanted, _INVALID)
        results = [
            self._result(query, wanted)
            for query in wanted["MetricDataQueries"]
            if query.get("ReturnData", True)
        ]
        return {"MetricDataResults": results, "Messages": []}

    def _result(self, query: dict[str, Any], wanted: Parameters) -> Parameters:
        stat = query.get("MetricStat")
        if stat is None or stat["Stat"] not in _STATISTICS:
            message = f"only {', '.join(_STATISTICS)} of single metrics are emulated"
            raise self._emulator.refuse(400, _INVALID, message)
        of = _STATISTICS[stat["Stat"]]
        points = [(t, of(values)) for t, values in self._periods(stat["Metric"], stat, wanted)]
        if wanted.get("ScanBy") != "TimestampAscending":
            points.reverse()
        return {
            "Id": query["Id"],
            "Label": query.get("Label", stat["Metric"].get("MetricName", "")),
            "Timestamps": [time for time, _ in points],
            "Values": [value for _, value in points],
            "StatusCode": "Complete",
        }

    def _statistics(self, wanted: Parameters) -> Parameters:
        """Datapoints come in no order, as documented; here the newest first."""
        self._check_times(wanted, "InvalidParameterValue")
        if "ExtendedStatistics" in wanted or not wanted.get("Statistics"):
            message = f"only {', '.join(_STATISTICS)} are emulated: name them as Statistics"
            raise self._emulator.refuse(400, _COMBINATION, message)
        if (wanted["EndTime"] - wanted["StartTime"]) / wanted["Period"] > _MOST_DATAPOINTS:
            message = f"a request asks for at most {_MOST_DATAPOINTS} datapoints"
            raise self._emulator.refuse(400, _COMBINATION, message)
        dimensions = wanted.get("Dimensions", [])
        unit = _UNITS.get(dimensions[0]["Name"], "None") if dimensions else "None"
        is_wanted = wanted.get("Unit") in (None, unit)
        periods = self._periods(wanted, wanted, wanted) if is_wanted else []
        points = [
            {"Timestamp": time, "Unit": unit}
            | {name: float(_STATISTICS[name](values)) for name in wanted["Statistics"]}
            for time, values in reversed(periods)
        ]
        return {"Label": wanted["MetricName"], "Datapoints": points}

    def _check_times(self, wanted: Parameters, code: str) -> None:
        if wanted["StartTime"] >= wanted["EndTime"]:
            message = "The parameter StartTime must be less than the parameter EndTime."
            raise self._emulator.refuse(400, code, message)

    def _periods(
        self, metric: dict[str, Any], stat: dict[str, Any], wanted: Parameters
    ) -> list[tuple[float, list[float]]]:
        dimensions = metric.get("Dimensions", [])
        if metric.get("Namespace") != _NAMESPACE or len(dimensions) != 1:
            return []
        series = SampleSeries(dimensions[0]["Name"], dimensions[0]["Value"], metric["MetricName"])
        period = max(stat["Period"] * self._behaviour.pace, _LEAST_PERIOD)
        start, end = wanted["StartTime"], wanted["EndTime"]
        return self._measurements.periods(series, start, end, period)
