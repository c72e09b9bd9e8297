"""CloudWatch's GetMetricData, for the metrics of training jobs.

Only the JSON protocol is spoken, which botocore prefers since 2025; older ones ask in others.
"""

from __future__ import annotations

from typing import Any

from rsctl.emulators.aws import AwsEmulator, Parameters, Service
from rsctl.emulators.sagemaker.behaviour import Behaviour
from rsctl.emulators.sagemaker.measurements import Measurements, Sample, Series

_INVALID = "ValidationError"
_NAMESPACE = "/aws/sagemaker/TrainingJobs"
_LEAST_PERIOD = 1.0


class Metrics:
    """Answers with averages over the periods that are asked for, scaled by the pace."""

    def __init__(
        self, emulator: AwsEmulator, measurements: Measurements, behaviour: Behaviour
    ) -> None:
        self._emulator = emulator
        self._measurements = measurements
        self._behaviour = behaviour
        operations = {"GetMetricData": self._get}
        emulator.add(Service("cloudwatch", _INVALID, operations))

    def _get(self, wanted: Parameters) -> Parameters:
        if wanted["StartTime"] >= wanted["EndTime"]:
            message = "The parameter StartTime must be less than the parameter EndTime."
            raise self._emulator.refuse(400, _INVALID, message)
        results = [
            self._result(query, wanted)
            for query in wanted["MetricDataQueries"]
            if query.get("ReturnData", True)
        ]
        return {"MetricDataResults": results, "Messages": []}

    def _result(self, query: dict[str, Any], wanted: Parameters) -> Parameters:
        if "MetricStat" not in query or query["MetricStat"]["Stat"] != "Average":
            message = "rsctl's emulator knows averages of single metrics only"
            raise self._emulator.refuse(400, _INVALID, message)
        metric = query["MetricStat"]["Metric"]
        points = self._points(query, wanted)
        if wanted.get("ScanBy") != "TimestampAscending":
            points.reverse()
        return {
            "Id": query["Id"],
            "Label": query.get("Label", metric.get("MetricName", "")),
            "Timestamps": [point.time for point in points],
            "Values": [point.value for point in points],
            "StatusCode": "Complete",
        }

    def _points(self, query: dict[str, Any], wanted: Parameters) -> list[Sample]:
        stat = query["MetricStat"]
        metric, dimensions = stat["Metric"], stat["Metric"].get("Dimensions", [])
        if metric.get("Namespace") != _NAMESPACE or len(dimensions) != 1:
            return []
        series = Series(dimensions[0]["Name"], dimensions[0]["Value"], metric["MetricName"])
        period = max(stat["Period"] * self._behaviour.pace, _LEAST_PERIOD)
        start, end = wanted["StartTime"], wanted["EndTime"]
        return list(self._measurements.points(series, start, end, period))
