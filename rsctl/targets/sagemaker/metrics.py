"""CloudWatch's metrics of a job's machines, by GetMetricData.

SageMaker writes one value a minute for each machine: in percent of one core or one GPU, so that a
machine with 8 GPUs has up to 800. AWS bills each requested metric, not each value: requests for 60
machines once a minute cost more than one request for all values at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from rsctl.clients.aws import Aws
from rsctl.clients.errors import NoAnswer
from rsctl.runs.stream.events import MetricEvent, parse_time
from rsctl.targets.base import Pool, replica_names
from rsctl.targets.managed.service import Unreachable
from rsctl.targets.sagemaker.description import event_time
from rsctl.targets.sagemaker.status_transitions import current_time

NAMESPACE = "/aws/sagemaker/TrainingJobs"
"""The namespace of the machines' metrics, each with the dimension Host=JOB/algo-N."""

_ALL = {
    "CPUUtilization": "cloud.cpu_percent",
    "MemoryUtilization": "cloud.memory_percent",
    "DiskUtilization": "cloud.disk_percent",
}
_GPUS = {
    "GPUUtilization": "cloud.gpu_percent",
    "GPUMemoryUtilization": "cloud.gpu_memory_percent",
}
_WITH_GPUS = ("ml.p", "ml.g")
_PERIOD = 60  # seconds
_LATE = timedelta(minutes=5)
_MOST_METRICS = 500  # in one request
_MOST_PAGES = 20


class _Query(NamedTuple):
    """One metric of one machine, and its name in rsctl."""

    host: str
    metric: str
    replica: str
    name: str

    def as_request(self, identity: str) -> dict[str, Any]:
        """The query for GetMetricData."""
        dimensions = [{"Name": "Host", "Value": self.host}]
        metric = {"Namespace": NAMESPACE, "MetricName": self.metric, "Dimensions": dimensions}
        stat = {"Metric": metric, "Period": _PERIOD, "Stat": "Average"}
        return {"Id": identity, "MetricStat": stat, "ReturnData": True}


class CloudWatchMetrics:
    """Reads the metrics of one job, each value once."""

    def __init__(self, aws: Aws, job: str) -> None:
        self._aws = aws
        self._job = job
        self._until: dict[tuple[str, str], datetime] = {}
        self._first: datetime | None = None
        self._after: datetime | None = None

    def read(
        self, hosts: Mapping[int, str], pools: list[Pool], after: datetime, has_ended: bool
    ) -> list[MetricEvent]:
        """The values after a time, in order; `hosts` are the replicas by algo-N.

        Values arrive some minutes late, so this object reads earlier minutes again. While the job
        runs, the last whole minute is not returned yet. Raises Unreachable, or RsctlError.
        """
        start = self._after - _LATE if self._after else after
        self._first, self._after = self._first or after, self._after or after
        end = current_time()
        if not has_ended:
            period = max(_PERIOD * self._aws.retries.time_scale, 1.0)
            end -= timedelta(seconds=period + end.timestamp() % period)
        if start >= end:
            return []
        queries = list(self._queries(hosts, pools))
        results: list[tuple[_Query, Mapping[str, Any]]] = []
        for first in range(0, len(queries), _MOST_METRICS):
            part = queries[first : first + _MOST_METRICS]
            results += self._ask(part, start, end)
        # Only after all calls succeeded: values recorded as returned are not requested again.
        events = [event for query, result in results for event in self._new(query, result)]
        events.sort(key=lambda event: (event.time, event.replica, event.name))
        if events:
            self._after = max(self._after, parse_time(events[-1].time))
        return events

    def _queries(self, hosts: Mapping[int, str], pools: list[Pool]) -> Iterator[_Query]:
        nodes = [pool.machine for pool in pools for _ in range(pool.count)]
        machines = dict(zip(replica_names(pools), nodes, strict=True))
        for number, replica in sorted(hosts.items()):
            machine = machines.get(replica)
            has_gpus = machine is None or machine.startswith(_WITH_GPUS)
            for metric, name in {**_ALL, **(_GPUS if has_gpus else {})}.items():
                yield _Query(f"{self._job}/algo-{number}", metric, replica, name)

    def _ask(
        self, queries: list[_Query], start: datetime, end: datetime
    ) -> Iterator[tuple[_Query, Mapping[str, Any]]]:
        """CloudWatch's data for each metric, page by page."""
        asked = [query.as_request(f"m{index}") for index, query in enumerate(queries)]
        query = {"MetricDataQueries": asked, "StartTime": start, "EndTime": end}
        query["ScanBy"] = "TimestampAscending"
        for _ in range(_MOST_PAGES):
            page = self._page(query)
            for result in page.get("MetricDataResults", ()):
                number = str(result.get("Id", ""))[1:]
                if number.isdecimal() and int(number) < len(queries):
                    yield queries[int(number)], result
            if not page.get("NextToken"):
                break
            query["NextToken"] = page["NextToken"]

    def _page(self, query: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._aws.request("cloudwatch", "get_metric_data", query, retry=False)
        except NoAnswer as problem:
            raise Unreachable(problem.summary) from None

    def _new(self, query: _Query, result: Mapping[str, Any]) -> Iterator[MetricEvent]:
        """The values of one metric that were not returned before."""
        values = zip(result.get("Timestamps", ()), result.get("Values", ()), strict=False)
        for moment, value in sorted(values):
            until = self._until.get((query.host, query.metric), self._first)
            if until is None or moment > until:
                self._until[query.host, query.metric] = moment
                yield MetricEvent(
                    time=event_time(moment),
                    replica=query.replica,
                    name=query.name,
                    value=float(value),
                )
