"""Pages about a custom job: its console, its log and its TensorBoard. Pure.

Source of TensorBoard's: `custom_job_tensorboard_console_uri` of google-cloud-aiplatform.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from rsctl.findings import RsctlError
from rsctl.targets.vertex.job_address import JobAddress

_TENSORBOARD = re.compile(r"projects/[^/]+/locations/(?P<region>[a-z0-9-]+)/tensorboards/[^/]+")


def pages_of(url: str, body: Mapping[str, Any]) -> dict[str, str]:
    """The pages by kind; none for a run that has no job yet."""
    try:
        address = JobAddress.of_url(url)
    except RsctlError:
        return {}
    query = f'resource.type="ml_job"\nresource.labels.job_id="{address.id}"'
    project = quote(address.parent.project, ":")
    logs = "https://console.cloud.google.com/logs/query"
    pages = {
        "console": address.console,
        "logs": f"{logs};query={quote(query, '')}?project={project}",
    }
    tensorboard = _TENSORBOARD.fullmatch(str((body.get("jobSpec") or {}).get("tensorboard") or ""))
    if tensorboard:
        experiment = f"{tensorboard[0]}/experiments/{address.id}".replace("/", "+")
        host = f"{tensorboard['region']}.tensorboard.googleusercontent.com"
        pages["tensorboard"] = f"https://{host}/experiment/{quote(experiment, '+')}"
    return pages
