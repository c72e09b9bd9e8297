"""Target sagemaker: where AWS's own reduction library can be had."""

from __future__ import annotations

from pathlib import Path

import pytest

from .case_parts import workers
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
            "ml.p5.48xlarge -> set comm.backend: auto, or take one of those"
        ],
    ),
    "SMDDP 1 on older machines": (
        {
            **workers(2, "v100:8", machine="ml.p3.16xlarge"),
            "comm": {"backend": "smddp"},
            "image": {"uri": f"{DLC}:2.0.0-gpu-py310-cu118-ubuntu20.04-sagemaker"},
        },
        [],
    ),
    "SMDDP 2 on older machines": (
        {
            **workers(2, "v100:8", machine="ml.p3.16xlarge"),
            "comm": {"backend": "smddp"},
            "image": {"uri": f"{DLC}:2.0.1-gpu-py310-cu118-ubuntu20.04-sagemaker"},
        },
        [
            "error comm.backend: smddp works on ml.p4d.24xlarge and ml.p4de.24xlarge, not on "
            "ml.p3.16xlarge with images of PyTorch after 2.0.0 -> set comm.backend: auto, or take "
            "one of those"
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
            "and no more for p3dn -> compare it with comm.backend: auto"
        ],
    ),
    "SMDDP in an image of TensorFlow": (
        {
            **workers(2, "a100-40gb:8"),
            "comm": {"backend": "smddp"},
            "image": {"uri": f"{DLC.replace('pytorch', 'tensorflow')}:2.11.0-gpu-py310"},
        },
        [
            f"error comm.backend: {DLC.replace('pytorch', 'tensorflow')}:2.11.0-gpu-py310 has "
            f"TensorFlow, and comm.backend is PyTorch's -> {SMDDP_REMEDY}"
        ],
    ),
    "SMDDP in a newer image": (
        {
            **workers(2, "a100-40gb:8"),
            "comm": {"backend": "smddp"},
            "image": {"uri": f"{SMP}:2.5.1-gpu"},
        },
        [
            f"error comm.backend: {SMP}:2.5.1-gpu has PyTorch 2.5, and smddp ends with 2.4 -> "
            f"{SMDDP_REMEDY}"
        ],
    ),
    "SMDDP in an image of nobody's version": (
        {**workers(2, "a100-40gb:8"), "comm": {"backend": "smddp"}, "image": {"uri": f"{SMP}:x"}},
        [
            "warning comm.backend: smddp is in AWS's images up to PyTorch 2.4; "
            f"{SMP}:x has no version in its name -> {SMDDP_REMEDY}"
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
            "error comm.backend: smddp is in AWS's own images only, and pytorch/pytorch:2.4.0 is "
            f"none -> {SMDDP_REMEDY}"
        ],
    ),
}


@pytest.mark.parametrize("title", SMDDP)
def test_what_is_wrong_and_what_to_do(title: str, tmp_path: Path) -> None:
    changes, expected = SMDDP[title]
    assert sorted(reported(tmp_path, changes)) == sorted(expected)
