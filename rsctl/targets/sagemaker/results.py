"""The locations of a training job's results, by its request. Pure.

Source: the SDK's ModelTrainer (`output_path`) and its pipeline steps, which build the same paths;
uncompressed results are folders of the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def results_of(body: Mapping[str, Any]) -> dict[str, str]:
    """Locations in S3 by their content, without results that the job does not write."""
    outputs = body.get("OutputDataConfig") or {}
    name = body.get("TrainingJobName")
    found: dict[str, str] = {}
    if outputs.get("S3OutputPath") and name:
        folder = f"{_stripped(outputs['S3OutputPath'])}/{name}/output"
        is_plain = outputs.get("CompressionType") == "NONE"
        found["outputs"] = f"{folder}/data/" if is_plain else f"{folder}/output.tar.gz"
        found["model"] = f"{folder}/model/" if is_plain else f"{folder}/model.tar.gz"
    if checkpoints := (body.get("CheckpointConfig") or {}).get("S3Uri"):
        found["checkpoints"] = str(checkpoints)
    if tensorboard := (body.get("TensorBoardOutputConfig") or {}).get("S3OutputPath"):
        found["tensorboard"] = f"{_stripped(tensorboard)}/{name}/tensorboard-output"
    return found


def _stripped(location: Any) -> str:
    return str(location).rstrip("/")
