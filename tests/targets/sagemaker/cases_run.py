"""Jobs by what runs in them."""

from __future__ import annotations

from .case_parts import (
    AWS_IMAGE,
    LAMBDA,
    LONG,
    SDK_VPC,
    VPC,
    Case,
    create,
    launch,
    on,
    starts,
    workers,
)
from .rendering import REGISTRY, sagemaker

RUN_CASES = [
    Case(
        "arguments by name",
        {"run": {"args": {"epochs": 3, "lr": 2e-5, "amp": True, "debug": False}}},
        starts(launch("python", "train.py", "--epochs", "3", "--lr", "2e-05", "--amp")),
    ),
    Case("arguments as a list", {"run": {"args": ["a b", ""]}},
         starts(launch("python", "train.py", "a b", ""))),
    Case("once a node", {"run": {"launcher": "once"}}, starts(launch(launcher="once"))),
    Case(
        "a module", {"run": {"command": None, "module": "pkg.train"}},
        starts(["--launcher", "torchrun", "--processes", "1", "--python", "--", "-m", "pkg.train"]),
    ),
    Case(
        "a foreign image's own command",
        {"run": {"command": None, "launcher": "none"}},
        create(algorithm_specification={"container_entrypoint": None, "container_arguments": None}),
    ),
    Case(
        "a foreign image with a command and arguments",
        {"run": {"command": ["/bin/train"], "args": ["--fast"], "launcher": "none"}},
        starts(["--fast"], container_entrypoint=["/bin/train"]),
    ),
    Case("variables", {"run": {"env": {"NCCL_DEBUG": "INFO", "EMPTY": ""}}},
         create(environment={"NCCL_DEBUG": "INFO", "EMPTY": ""})),
    Case("the longest variable", {"run": {"env": {"A": "x" * 512}}},
         create(environment={"A": "x" * 512})),
    Case(
        "how gradients travel",
        {"comm": {"backend": "gloo", "bucket_mb": 50, "compression": "bf16"}},
        create(environment={
            "RSCTL_COMM_BACKEND": "gloo",
            "RSCTL_COMM_BUCKET_MB": "50",
            "RSCTL_COMM_COMPRESSION": "bf16",
        }),
    ),
    Case(
        "SMDDP",
        {**workers(2, "a100-40gb:8"), "comm": {"backend": "smddp"}, "image": {"uri": AWS_IMAGE}},
        {**on("ml.p4d.24xlarge", 2), **starts(launch(ranks=8), training_image=AWS_IMAGE),
         "environment": {"RSCTL_COMM_BACKEND": "smddp"}},
    ),
    Case(
        "arguments that are too long",
        {"run": {"args": [LONG, "two\nlines"]}},
        create(
            algorithm_specification={"container_arguments": ["--arguments-from",
                                                             "hyperparameters"]},
            hyper_parameters={
                "rsctl_arguments_0": '["--launcher", "torchrun", "--processes", "1", "--", '
                '"python", "train.py", "' + "x" * 180,
                "rsctl_arguments_1": "x" * 120 + '", "two\\nlines"]',
            },
        ),
    ),
    Case(
        "an image by its digest", {"image": {"uri": f"{REGISTRY}/job@sha256:{'0' * 64}"}},
        create(algorithm_specification={"training_image": f"{REGISTRY}/job@sha256:{'0' * 64}"}),
    ),
    Case(
        "an image of ECR Public",
        {"image": {"uri": "public.ecr.aws/deep-learning-containers/pytorch:2.12"}},
        create(algorithm_specification={
            "training_image": "public.ecr.aws/deep-learning-containers/pytorch:2.12"
        }),
    ),
    Case(
        "an image of a private registry",
        {"image": {"uri": "registry.corp:5000/team/job:1"},
         **sagemaker(registry_access="Vpc", registry_credentials=LAMBDA, **VPC)},
        create(
            vpc_config=SDK_VPC,
            algorithm_specification={
                "training_image": "registry.corp:5000/team/job:1",
                "training_image_config": {
                    "training_repository_access_mode": "Vpc",
                    "training_repository_auth_config": {
                        "training_repository_credentials_provider_arn": LAMBDA
                    },
                },
            },
        ),
    ),
    Case("hyperparameters of SageMaker's libraries",
         sagemaker(hyperparameters={"mp_parameters": '{"ddp": true}'}),
         create(hyper_parameters={"mp_parameters": '{"ddp": true}'})),
]  # fmt: skip
