"""Jobs with inputs, outputs, checkpoints and metrics."""

from __future__ import annotations

from tests.kit.rendering import RUN

from .case_parts import CHECKPOINTS, FSX, KEY, SDK_VPC, VPC, Case, channel, create, mounted, reads
from .rendering import sagemaker

DATA = [
    Case("an input", {"inputs": {"train": "s3://bucket/mnli/"}},
         reads(channel("train", "s3://bucket/mnli/"))),
    Case("two inputs", {"inputs": {"train": "s3://bucket/a/", "Val_2": "s3://bucket/b.csv"}},
         reads(channel("train", "s3://bucket/a/"), channel("Val_2", "s3://bucket/b.csv"))),
    Case(
        "copied to disk",
        {"inputs": {"train": "s3://bucket/a/"}, **sagemaker(input_mode="File")},
        {**reads(channel("train", "s3://bucket/a/")),
         "algorithm_specification": {"training_input_mode": "File"}},
    ),
    Case(
        "one of two through a pipe, in shares",
        {"inputs": {"train": "s3://bucket/a/", "val": "s3://bucket/b/"},
         **sagemaker(channels={"train": {"mode": "Pipe", "sharded": True, "gzip": True,
                                         "record_io": True, "shuffle_seed": 7,
                                         "content_type": "application/x-recordio"}})},
        reads(
            channel("train", "s3://bucket/a/", sharded=True, input_mode="Pipe",
                    compression_type="Gzip", record_wrapper_type="RecordIO",
                    content_type="application/x-recordio", shuffle_config={"seed": 7}),
            channel("val", "s3://bucket/b/"),
        ),
    ),
    Case(
        "modes of ours",
        {"inputs": {name: {"uri": {"sagemaker": f"s3://bucket/{name}/", "local": "x"}, "mode": mode}
                    for name, mode in (("a", "mount"), ("b", "copy"), ("c", "stream"))}},
        {**reads(channel("a", "s3://bucket/a/", input_mode="FastFile"),
                 channel("b", "s3://bucket/b/", input_mode="File"),
                 channel("c", "s3://bucket/c/", input_mode="FastFile")),
         "algorithm_specification": {"container_arguments": [
             *("--launcher", "torchrun", "--processes", "1", "--count", "b"),
             *("--", "python", "train.py")]}},
    ),
    Case(
        "a stream through a pipe",
        {"inputs": {"a": {"uri": "s3://bucket/a/", "mode": "stream"}},
         **sagemaker(channels={"a": {"mode": "Pipe"}})},
        reads(channel("a", "s3://bucket/a/", input_mode="Pipe")),
    ),
    Case(
        "shards where they are, and copied in parts",
        {"inputs": {"a": "s3://bucket/a/t-{0..7}.tar",
                    "b": {"uri": "s3://bucket/b/t-{0..7}.tar", "mode": "copy"}}},
        {**reads(channel("a", "s3://bucket/a/"),
                 channel("b", "s3://bucket/b/", input_mode="FastFile")),
         "environment": {
             "RSCTL_INPUT_A": "/opt/ml/input/data/a/t-{0..7}.tar",
             "RSCTL_INPUT_B": "/var/tmp/rsctl/inputs/b/t-{0..7}.tar"},
         "algorithm_specification": {"container_arguments": [
             *("--launcher", "torchrun", "--processes", "1", "--shards", "a"),
             *("--copy", "b=/opt/ml/input/data/b/t-{0..7}.tar", "--shards", "b"),
             *("--", "python", "train.py")]}},
    ),
    Case("a manifest",
         {"inputs": {"train": "s3://bucket/list.json"},
          **sagemaker(channels={"train": {"type": "ManifestFile"}})},
         reads(channel("train", "s3://bucket/list.json", s3_data_type="ManifestFile"))),
    Case("an augmented manifest",
         {"inputs": {"train": "s3://bucket/list.json"},
          **sagemaker(channels={"train": {"type": "AugmentedManifestFile", "mode": "Pipe",
                                          "attributes": ["image", "label"]}})},
         reads(channel("train", "s3://bucket/list.json", s3_data_type="AugmentedManifestFile",
                       input_mode="Pipe", source={"attribute_names": ["image", "label"]}))),
    Case("FSx for Lustre", sagemaker(file_systems={"data": FSX}, **VPC),
         {**reads(mounted("data", "FSxLustre", "/fsx/mnli")), "vpc_config": SDK_VPC}),
    Case("EFS beside S3, to be written to",
         {"inputs": {"train": "s3://bucket/a/"},
          **sagemaker(file_systems={"data": {"id": FSX["id"], "type": "EFS", "access": "rw"}},
                      **VPC)},
         {**reads(channel("train", "s3://bucket/a/"), mounted("data", "EFS", access="rw")),
          "vpc_config": SDK_VPC}),
    Case("outputs in the staging folder",
         {"outputs": None, **sagemaker(staging="s3://bucket/staging/")},
         create(output_data_config={"s3_output_path": f"s3://bucket/staging/{RUN}/outputs"})),
    Case("outputs encrypted and not packed",
         sagemaker(output_kms_key=KEY, output_compression="NONE"),
         create(output_data_config={"kms_key_id": KEY, "compression_type": "NONE"})),
    Case("checkpoints", {"checkpoints": "s3://bucket/ckpt"},
         create(checkpoint_config={"s3_uri": "s3://bucket/ckpt"}, environment=CHECKPOINTS)),
    Case("TensorBoard", sagemaker(tensorboard="s3://bucket/tb"),
         create(tensor_board_output_config={"s3_output_path": "s3://bucket/tb"})),
    Case(
        "metrics, as far as CloudWatch can have them",
        {"metrics": {
            "loss": {"regex": "loss=([0-9.]+)"},
            "acc/val": {"regex": r"acc=(?P<value>\S+) step=(?P<step>\d+)"},
            "late": {"regex": r"step=(?P<step>\d+) late=(?P<value>\S+)"},
            "long": {"regex": f"({'a' * 500})"},
            "logged": {"goal": "max"},
        }},
        create(algorithm_specification={"metric_definitions": [
            {"name": "loss", "regex": "loss=([0-9.]+)"},
            {"name": "acc/val", "regex": r"acc=(\S+) step=(\d+)"},
        ]}),
    ),
]  # fmt: skip
