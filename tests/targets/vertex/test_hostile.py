"""Whatever a spec says to Vertex AI: a request that can be sent, or findings; never a traceback."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rsctl.findings import RsctlError
from rsctl.job.document import read
from rsctl.plan import make_plan
from rsctl.targets.vertex.target import TARGET
from tests.kit.rendering import RUN

from .rendering import job_of

TEXTS = st.sampled_from(
    ["", "a", "1", "auto", "none", "../..", "a/b", "us-central1", "us-east4", "europe-west4",
     "n1-standard-16", "n1-highmem-96", "a2-highgpu-8g", "h100:8", "v100:8", "t4:3", "tpu", "l4",
     "gs://bucket", "gs://bucket/%s/{x}", "projects/1/global/networks/n", "rsctl-run", "x" * 300,
     "$(PATH)", "\u202e", "\x00", "spot", "flex-start", "standard", "7d", "9d", "1s", "100GB"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 200) | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=4,
)
OPTIONS = [
    *("project", "region", "staging", "service_account", "network", "reserved_ip_ranges", "psc"),
    *("tensorboard", "experiment", "experiment_run", "capacity", "reservation", "labels"),
    *("persistent_resource", "boot_disk", "nfs", "lustre", "encryption_key", "overlay"),
]
KEYS = [
    *("workers.count", "workers.accelerator", "workers.machine", "workers.processes"),
    *("workers.disk", "reducers.count", "reducers.machine", "comm.backend", "limits.spot"),
    *("limits.timeout", "limits.retries", "limits.queue", "run.launcher", "run.env", "run.args"),
    *("image.transport", "outputs", "checkpoints"),
]
PATHS = KEYS + [f"targets.vertex.{option}" for option in OPTIONS]


URL = r"https://[a-z0-9-]+-aiplatform\.googleapis\.com/v1/projects/[^/?#]+/locations/[^/?#]+/customJobs"


def spec_of(values: dict[str, Any]) -> dict[str, Any]:
    spec = job_of({"workers": {"count": 2}, "reducers": {"count": 2}})
    for path, value in values.items():
        *above, last = path.split(".")
        node = spec
        for name in above:
            node = node.setdefault(name, {})
        node[last] = value
    return spec


@given(st.dictionaries(st.sampled_from(PATHS), VALUES | TEXTS, max_size=4))
def test_any_job_gives_a_request_or_findings(tmp_path_factory: Any, values: dict[str, Any]) -> None:
    file: Path = tmp_path_factory.getbasetemp() / "hostile.yaml"
    file.write_text(yaml.safe_dump(spec_of(values), allow_unicode=True))
    with suppress(RsctlError):  # anything else is what must not be
        plan = make_plan(read(str(file), (), {}), TARGET, RUN).plan
        assert re.fullmatch(URL, plan.request["url"])
        assert json.loads(json.dumps(msgspec.to_builtins(plan)))
