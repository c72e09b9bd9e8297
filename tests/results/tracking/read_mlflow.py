"""Prints all runs of an MLflow server as JSON, by MLflow's client."""

from __future__ import annotations

import json
import sys

from mlflow import MlflowClient

client = MlflowClient(sys.argv[1])
found = []
for run in client.search_runs([e.experiment_id for e in client.search_experiments()]):
    data, info = run.data, run.info
    metrics = {}
    for name in data.metrics:
        history = client.get_metric_history(info.run_id, name)
        metrics[name] = [[m.step, m.timestamp, repr(m.value)] for m in history]
    found.append(
        {
            "name": info.run_name,
            "experiment": client.get_experiment(info.experiment_id).name,
            "status": info.status,
            "start": info.start_time,
            "end": info.end_time,
            "params": data.params,
            "metrics": metrics,
            "tags": data.tags,
            "files": [file.path for file in client.list_artifacts(info.run_id)],
        }
    )
print(json.dumps(found))
