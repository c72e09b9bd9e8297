"""CloudWatch's GetMetricData over values that a test gives."""

from __future__ import annotations

from typing import Any

from rsctl.targets.sagemaker.emulator.aws_services import AwsEmulator, Service

_PAGE = 3  # results

Series = dict[tuple[str, str], list[tuple[float, float]]]


class FakeCloudWatch(AwsEmulator):
    """`series` has the values (seconds since 1970, value) of each host and metric.

    The call of number `fail_page` is throttled.
    """

    def __init__(self) -> None:
        super().__init__("us-east-1")
        self.series: Series = {}
        self.asked: list[dict[str, Any]] = []
        self.fail_page = 0
        answers = {"GetMetricData": self._get_metric_data}
        self.add(Service("cloudwatch", "InvalidParameterValue", answers))

    def _get_metric_data(self, wanted: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(wanted)
        if len(self.asked) == self.fail_page:
            raise self.refuse(400, "ThrottlingException", "Rate exceeded")
        results = []
        for query in wanted["MetricDataQueries"]:
            metric = query["MetricStat"]["Metric"]
            (dimension,) = metric["Dimensions"]
            values = self.series.get((dimension["Value"], metric["MetricName"]), [])
            inside = [v for v in values if wanted["StartTime"] <= v[0] < wanted["EndTime"]]
            results.append(
                {
                    "Id": query["Id"],
                    "Timestamps": [moment for moment, _ in inside],
                    "Values": [value for _, value in inside],
                    "StatusCode": "Complete",
                }
            )
        first = int(wanted.get("NextToken", 0))
        more = {"NextToken": str(first + _PAGE)} if first + _PAGE < len(results) else {}
        return {"MetricDataResults": results[first : first + _PAGE], **more}
