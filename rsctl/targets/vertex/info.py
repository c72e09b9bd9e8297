"""Target `vertex`, as data."""

from __future__ import annotations

from rsctl.images.registry.hosts import ARTIFACT_REGISTRY, GCR
from rsctl.target_info import (
    AutomaticTransport,
    CatalogInfo,
    EmulatorInfo,
    Quota,
    RegistryInfo,
    RemoteBuild,
    TargetInfo,
    TrackerInfo,
    Unsupported,
)

INFO = TargetInfo(
    name="vertex",
    title="Vertex AI",
    target="rsctl.targets.vertex.target:TARGET",
    options="rsctl.targets.vertex.options:VertexOptions",
    is_managed=True,
    has_placements=True,
    regional={
        "persistent_resource": "remove it, or set only its region",
        "reservation": "set it to any, which uses one in the region, or set one region",
    },
    catalog=CatalogInfo(
        machines="rsctl.targets.vertex:machines.yaml",
        prices="rsctl.targets.vertex:prices.yaml",
        price_list="rsctl.targets.vertex.prices:vertex_prices",
    ),
    billing="rsctl.targets.vertex.billing:billing_of",
    # https://cloud.google.com/vertex-ai/docs/quotas: 60 job submissions a minute for each project
    # and region, creates and deletes; 600 reads and writes of resources. A submission reads once.
    quota=Quota(60, 400.0),
    schemes=frozenset({"gs"}),
    input_modes=frozenset({"mount", "copy", "shards"}),
    refused={
        "comm.backend": Unsupported(
            "Vertex AI has no SageMaker library", "set comm.backend: auto", frozenset({"smddp"})
        )
    },
    honoured=frozenset({"chief", "roles", "profile"}),
    reuses_machines=frozenset({"persistent_resource"}),
    platform="linux/amd64",
    transports=frozenset({"none", "rsctl", "reduction-server", "fast-socket"}),
    transport_with_reducers=AutomaticTransport(
        "reduction-server", "reducers for workers with GPUs on Vertex AI"
    ),
    staging_scheme="gs",
    remote_build=RemoteBuild(
        "rsctl.targets.vertex.builder:CloudBuild",
        {
            ("project",): "your Google Cloud project's id",
            ("region",): "where it is built, such as us-central1",
            ("staging",): "a folder in your bucket, such as gs://bucket/staging",
        },
    ),
    registry=RegistryInfo(
        f"{ARTIFACT_REGISTRY}|{GCR}",
        "rsctl.targets.vertex.registry:CLIENT",
    ),
    tracker=TrackerInfo(
        value="rsctl.targets.vertex.tracking:Experiment",
        check="rsctl.targets.vertex.tracking:experiment_findings",
        plan="rsctl.targets.vertex.tracking:planned_experiment",
        client="rsctl.targets.vertex.tracker:VertexExperiment",
    ),
    aliases=frozenset(
        ["gcp", "google", "vertex-ai", "vertexai", "vertex_ai", "gcp_vertex", "gcp_batch"]
    ),
    log_in_check="rsctl.targets.vertex.doctor:signed_in",
    job_checks=(
        "rsctl.targets.vertex.doctor:google_checks",
        "rsctl.targets.doctor.registry:registry_checks",
    ),
    sdk_code="rsctl.targets.vertex.sdk:code",
    sdk_package="google-cloud-aiplatform",
    emulator=EmulatorInfo(
        emulator="rsctl.targets.vertex.emulator:VertexEmulator",
        options=("project", "region"),
        defaults={
            "project": "rehearsal",
            "region": "us-central1",
            "staging": "gs://rsctl-rehearsal/staging",
        },
        repository="{region}-docker.pkg.dev/rehearsal/rehearsal/{name}",
    ),
)
