"""The locations of a custom job's results, by its request. Pure.

Scripts started by rsctl write to RSCTL_OUTPUT_DIR and RSCTL_CHECKPOINT_DIR, others to Vertex AI's
own AIP_MODEL_DIR, AIP_CHECKPOINT_DIR and AIP_TENSORBOARD_LOG_DIR: `model`, `checkpoints` and `logs`
below the job's baseOutputDirectory. Source: CustomJobSpec.base_output_directory of the API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsctl.targets.vertex.pools import chief_variables

_MOUNT = "/gcs/"


def results_of(body: Mapping[str, Any]) -> dict[str, str]:
    """Locations in Cloud Storage by their content, without results that the job does not write."""
    spec = body.get("jobSpec") or {}
    base = str((spec.get("baseOutputDirectory") or {}).get("outputUriPrefix") or "").rstrip("/")
    env = chief_variables(dict(body))
    found = {
        "outputs": _in_bucket(env.get("RSCTL_OUTPUT_DIR")) or base,
        "model": f"{base}/model" if base else "",
        "checkpoints": _in_bucket(env.get("RSCTL_CHECKPOINT_DIR"))
        or (f"{base}/checkpoints" if base else ""),
        "tensorboard": f"{base}/logs" if base and spec.get("tensorboard") else "",
    }
    return {name: location for name, location in found.items() if location}


def _in_bucket(path: str | None) -> str | None:
    """All buckets are mounted below /gcs."""
    return f"gs://{path[len(_MOUNT) :]}" if path and path.startswith(_MOUNT) else None
