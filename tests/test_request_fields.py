"""Each field of the models that Google and AWS publish has its row in the reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from botocore.loaders import Loader

from .test_reference import load


def test_each_field_of_googles_protos_has_a_row() -> None:
    from google.cloud.aiplatform_v1.types import CustomJob

    rows = [field.name for field in load("request_fields").request_fields("vertex")]
    assert sorted(rows) == sorted(_proto_fields(CustomJob.pb(CustomJob()).DESCRIPTOR, ""))


def test_each_field_of_botocores_model_has_a_row() -> None:
    shapes = Loader().load_service_model("sagemaker", "service-2")["shapes"]
    rows = [field.name for field in load("request_fields").request_fields("sagemaker")]
    assert sorted(rows) == sorted(_shape_fields(shapes, "CreateTrainingJobRequest", ""))


def _proto_fields(message: Any, prefix: str) -> Iterator[str]:
    """The fields that hold values, by their names in JSON; a list's has [] behind it."""
    for field in message.fields:
        inner = field.message_type
        is_map = inner is not None and inner.GetOptions().map_entry
        path = prefix + field.json_name + ("[]" if field.is_repeated and not is_map else "")
        if inner is not None and not is_map and inner.full_name.startswith("google.cloud."):
            yield from _proto_fields(inner, f"{path}.")
        else:
            yield path


def _shape_fields(shapes: dict[str, Any], name: str, path: str) -> Iterator[str]:
    shape = shapes[name]
    if shape["type"] == "structure":
        for member, part in shape["members"].items():
            yield from _shape_fields(shapes, part["shape"], f"{path}.{member}".lstrip("."))
    elif shape["type"] == "list":
        yield from _shape_fields(shapes, shape["member"]["shape"], f"{path}[]")
    else:
        yield path
