"""False alarms of `checks:`: starts of healthy nodes on this machine, whatever else it does.

Each start is one job of four nodes that share this machine and its load, far noisier than machines
that a job has for itself. They have the address `localhost`, because nodes with the address
127.0.0.1 are not compared. `alarms` must be 0.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from contextlib import ExitStack
from statistics import median

import rsctl_start
from benchmarks.measure import ROOT, Failed
from benchmarks.report import Report

RUNS = 40
_NODES = 4
_PORT = 29881
_LIMIT_SECONDS = 240.0
_RATES = ("matmul_gflops", "copy_gbs", "send_gbps", "receive_gbps")


def run(runs: int) -> Report:
    """The alarms, the time of a start with checks, and how far the nodes are apart."""
    report = Report("checks", f"{runs} starts of {_NODES} healthy nodes with checks on one machine")
    seconds, apart, alarms = [], [], []
    for _ in range(runs):
        began = time.monotonic()
        outputs = _start()
        seconds.append(time.monotonic() - began)
        lines = [json.loads(row) for text in outputs for row in text.splitlines()]
        alarms += [line["message"] for line in lines if line["rsctl"] == "finding"]
        found = [line["check"] for line in lines if line["rsctl"] == "telemetry"]
        for name in _RATES:
            rates = sorted(readings.get(name, 0.0) for readings in found)
            apart.append(rates[0] / median(rates[1:]))
    report.add("alarms", "starts", [float(len(alarms))], "0")
    report.add("a start with checks, all nodes", "s", seconds)
    report.add("the slowest node, by the median of the others, last round", "x", apart)
    report.notes += alarms
    return report


def _start() -> list[str]:
    """The structured lines of each node."""
    argv = [*rsctl_start.command("rsctl.node.launch"), "--launcher", "once", "--", "true"]
    common = {"RSCTL_CHECKS": "network,cpu", "RSCTL_TOKEN": "benchmark", "RSCTL_PORT": str(_PORT)}
    common |= {"RSCTL_TARGET": "process", "RSCTL_TELEMETRY_SECONDS": "0"}
    with ExitStack() as stack:
        nodes = []
        for index in range(_NODES):
            cluster = {"role": "worker", "index": index, "workers": ["localhost"] * _NODES}
            env = {**os.environ, **common, "RSCTL_CLUSTER": json.dumps(cluster | {"reducers": []})}
            node = subprocess.Popen(argv, env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True)
            stack.callback(node.kill)
            nodes.append(node)
        try:
            outputs = [node.communicate(timeout=_LIMIT_SECONDS)[0] for node in nodes]
        except subprocess.TimeoutExpired as late:
            raise Failed(f"a node has not ended within {_LIMIT_SECONDS:g} s") from late
    kinds = ('{"rsctl": "telemetry"', '{"rsctl": "finding"')
    return ["\n".join(r for r in text.splitlines() if r.startswith(kinds)) for text in outputs]
