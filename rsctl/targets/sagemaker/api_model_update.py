"""`python -m rsctl.targets.sagemaker.api_model_update` makes api_model.json from botocore.

The whole model of SageMaker is 5 MB; a plan needs the shapes of one call, and no botocore.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rsctl.targets.sagemaker.api_model import FILE, ROOT

_KEPT = ("type", "required", "enum", "min", "max", "pattern")


def from_botocore() -> dict[str, Any]:
    """The content of api_model.json, from the installed botocore."""
    import botocore
    from botocore.loaders import Loader

    shapes = Loader().load_service_model("sagemaker", "service-2")["shapes"]
    kept: dict[str, Any] = {}
    _keep(ROOT, shapes, kept)
    return {"botocore": botocore.__version__, "shapes": kept}


def _keep(name: str, shapes: dict[str, Any], kept: dict[str, Any]) -> None:
    """Add a shape and all of its parts."""
    if name in kept:
        return
    shape = shapes[name]
    kept[name] = {key: shape[key] for key in _KEPT if key in shape}
    if "members" in shape:
        kept[name]["members"] = {key: part["shape"] for key, part in shape["members"].items()}
    for key in ("member", "key", "value"):
        if key in shape:
            kept[name][key] = shape[key]["shape"]
    parts = [kept[name].get(key) for key in ("member", "key", "value")]
    for part in [*kept[name].get("members", {}).values(), *parts]:
        if part is not None:
            _keep(part, shapes, kept)


def as_text(model: dict[str, Any]) -> str:
    """The text of api_model.json, one shape a line."""
    lines = [
        f"{msgspec.json.encode(name).decode()}:{msgspec.json.encode(shape).decode()}"
        for name, shape in model["shapes"].items()
    ]
    shapes = ",\n".join(lines)
    return f'{{"botocore":"{model["botocore"]}","shapes":{{\n{shapes}\n}}}}\n'


if __name__ == "__main__":
    FILE.write_text(as_text(from_botocore()), encoding="utf-8")
