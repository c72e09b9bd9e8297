"""Target sagemaker: where AWS's own reduction library can be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from .case_parts import no_launch, workers
from .rendering import REGISTRY, reported

SMP = "658645717510.dkr.ecr.us-east-1.amazonaws.com/smdistributed-modelparallel"
DLC = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training"
SMDDP_REMEDY = (
    "build on 658645717510.dkr.ecr.REGION.amazonaws.com/smdistributed-modelparallel:"
    "2.4.1-gpu-py311-cu121, or set comm.backend: auto"
)

SMDDP = {
    "SMDDP on other machines": (
        {**workers(2, "h100:8"), "comm": {"backend": "smddp"}, "image": {"uri": f"{SMP}:2.4.1"}},
        [
            "error comm.backend: smddp works on ml.p4d.24xlarge and ml.p4de.24xlarge, not on "
            "ml.p5.48xlarge -> set comm.backend: auto, or use one of these machines"
        ],
    ),
    "SMDDP 1 on older machines": (
        {
            **workers(2, "v100:8", machine="ml.p3.16xlarge"),
            "comm": {"backend": "smddp"},
            "image": {"uri": f"{DLC}:2.0.0-gpu-py310-cu118-ubuntu20.04-sagemaker"},
        },
        [no_launch(f"{DLC}:2.0.0-gpu-py310-cu118-ubuntu20.04-sagemaker")],
    ),
    "SMDDP 2 on older machines": (
        {
            **workers(2, "v100:8", machine="ml.p3.16xlarge"),
            "comm": {"backend": "smddp"},
            "image": {"uri": f"{DLC}:2.0.1-gpu-py310-cu118-ubuntu20.04-sagemaker"},
        },
        [
            "error comm.backend: smddp works on ml.p4d.24xlarge and ml.p4de.24xlarge, not on "
            "ml.p3.16xlarge with images of PyTorch after 2.0.0 -> set comm.backend: auto, or use "
            "one of these machines",
            no_launch(f"{DLC}:2.0.1-gpu-py310-cu118-ubuntu20.04-sagemaker"),
        ],
    ),
    "SMDDP 2 on p3dn": (
        {
            **workers(2, "v100-32gb:8", machine="ml.p3dn.24xlarge"),
            "comm": {"backend": "smddp"},
            "image": {"uri": f"{DLC}:2.2.0-gpu-py310"},
        },
        [
            "warning comm.backend: AWS develops smddp for ml.p4d.24xlarge and ml.p4de.24xlarge, "
            "and no longer for p3dn -> compare it with comm.backend: auto",
            no_launch(f"{DLC}:2.2.0-gpu-py310"),
        ],
    ),
    "SMDDP in an image of TensorFlow": (
        {
            **workers(2, "a100-40gb:8"),
            "comm": {"backend": "smddp"},
            "image": {"uri": f"{DLC.replace('pytorch', 'tensorflow')}:2.11.0-gpu-py310"},
        },
        [
            f"error comm.backend: {DLC.replace('pytorch', 'tensorflow')}:2.11.0-gpu-py310 "
            f"contains TensorFlow, but comm.backend applies to PyTorch -> {SMDDP_REMEDY}",
            no_launch(f"{DLC.replace('pytorch', 'tensorflow')}:2.11.0-gpu-py310"),
        ],
    ),
    "SMDDP in a newer image": (
        {
            **workers(2, "a100-40gb:8"),
            "comm": {"backend": "smddp"},
            "image": {"uri": f"{SMP}:2.5.1-gpu"},
        },
        [
            f"error comm.backend: {SMP}:2.5.1-gpu has PyTorch 2.5, but smddp supports PyTorch up "
            f"to 2.4 -> {SMDDP_REMEDY}"
        ],
    ),
    "SMDDP in an image of nobody's version": (
        {**workers(2, "a100-40gb:8"), "comm": {"backend": "smddp"}, "image": {"uri": f"{SMP}:x"}},
        [
            "warning comm.backend: AWS's images contain smddp up to PyTorch 2.4; the name of "
            f"{SMP}:x contains no version -> {SMDDP_REMEDY}"
        ],
    ),
    "SMDDP built on what has none": (
        {
            **workers(2, "a100-40gb:8"),
            "comm": {"backend": "smddp"},
            "image": {
                "uri": None,
                "base": "pytorch/pytorch:2.4.0",
                "repository": f"{REGISTRY}/job",
            },
        },
        [
            "error comm.backend: only AWS's own images contain smddp, and pytorch/pytorch:2.4.0 "
            f"is not one of them -> {SMDDP_REMEDY}"
        ],
    ),
}


@pytest.mark.parametrize("title", SMDDP)
def test_what_is_wrong_and_what_to_do(title: str, tmp_path: Path) -> None:
    changes, expected = SMDDP[title]
    assert sorted(reported(tmp_path, changes)) == sorted(expected)
