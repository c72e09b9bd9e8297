"""Machines and accelerators that are not to be had, not together, or not there.

A finding each, with its remedy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kit.rendering import merged

from .rendering import findings_of, mismatches, vertex, workers

CASES: dict[str, tuple[Any, list[str]]] = {
    "an unknown machine": (
        workers(1, None, "n1-standard-5"),
        [
            (
                "error workers.machine: 'n1-standard-5' is not a known machine type of Vertex "
                "AI as of 2026-11-23 -> did you mean n1-standard-8? for a newer one, set the "
                "nearest known type here and machineType in targets.vertex.overlay"
            )
        ],
    ),
    "an unknown accelerator": (
        workers(1, "h900"),
        ["error workers.accelerator: no accelerator 'h900' -> t4"],
    ),
    "a TPU by another name": (
        workers(1, "tpu-v5"),
        [
            (
                "error workers.accelerator: 'tpu-v5' is not a known TPU of Vertex AI -> use one "
                "of: v5e:8, v6e:8, tpu7x:4"
            )
        ],
    ),
    "a TPU that is older": (
        workers(1, "v3:8"),
        [
            (
                "error workers.accelerator: 'v3' is not a known TPU of Vertex AI -> use one of: "
                "v5e:8, v6e:8, tpu7x:4"
            )
        ],
    ),
    "too few for a machine of a fixed number": (
        workers(1, "a100-40gb:4", "a2-highgpu-8g"),
        ["error workers.accelerator: a2-highgpu-8g always has a100-40gb:8, not a100-40gb:4"],
    ),
    "a GPU machine, and no accelerator": (
        workers(1, None, "a2-highgpu-1g"),
        ["error workers.accelerator: always has a100-40gb:1 ... is not set -> a100-40gb:1"],
    ),
    "another accelerator than the machine's": (
        workers(1, "l4:8", "a2-highgpu-8g"),
        ["error workers.accelerator: always has a100-40gb:8, not l4:8"],
    ),
    "a number that goes with no such machine": (
        workers(1, "v100:1", "n1-standard-16"),
        ["error workers.accelerator: can have 2 or 4 or 8 of v100, not 1 -> v100:2"],
    ),
    "an accelerator that goes with other machines": (
        workers(1, "l4", "n1-standard-16"),
        ["error workers.machine: n1-standard-16 cannot have l4 -> g2-standard-4"],
    ),
    "GPUs on a machine that takes none": (
        workers(1, "t4", "c2-standard-8"),
        ["error workers.machine: c2-standard-8 cannot have t4 -> n1-standard-4"],
    ),
    "P100": (workers(1, "p100"), ["error workers.accelerator: support ended on 2026-09-15"]),
    "P100 by machine": (
        workers(1, "p100:2", "n1-standard-16"),
        ["error workers.accelerator: support ended on 2026-09-15"],
    ),
    "K80": (
        workers(1, "k80"),
        [
            (
                "error workers.accelerator: k80 is no longer available: it has been withdrawn "
                "-> use t4, l4 or another newer GPU"
            )
        ],
    ),
    "NCCL on TPUs, and a launcher of ranks": (
        {**workers(1, "v5e:4"), "comm": {"backend": "nccl"}},
        [
            "error comm.backend: NCCL requires GPUs, but the workers have TPUs -> set comm",
            (
                "warning run.launcher: JAX and PyTorch/XLA start the processes for a host's TPUs "
                "themselves -> set run.launcher: once; torchrun starts one process here"
            ),
        ],
    ),
    "V100 where there are none": (
        merged(workers(1, "v100"), vertex(region="europe-west1")),
        ["error targets.vertex.region: europe-west1 has no v100 -> europe-west4"],
    ),
    "A100 of 80 GB where there are none": (
        merged(workers(1, "a100-80gb"), vertex(region="us-east1")),
        ["error targets.vertex.region: us-east1 has no a100-80gb -> us-east4, us-east5"],
    ),
    "GB200 without a reservation": (
        workers(2, "gb200:4"),
        [
            "error targets.vertex.reservation: a4x-highgpu-4g is available only with a reservation",
            "warning image.uri: a4x-highgpu-4g has Arm processors: the image must be for "
            "linux/arm64, and its name does not show that",
        ],
    ),
    "a reservation for CPUs": (
        vertex(reservation="any"),
        ["error targets.vertex.reservation: these have none"],
    ),
}


@pytest.mark.parametrize(("changes", "expected"), CASES.values(), ids=list(CASES))
def test_a_rule(tmp_path: Path, changes: Any, expected: list[str]) -> None:
    found = [f for f in findings_of(tmp_path, changes) if f.severity != "note"]
    assert mismatches(found, expected) == []
    assert all(f.remedy for f in found)
