"""Overlays: patches of a request, by either RFC, and by people who guess."""

from __future__ import annotations

import json
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsctl.findings import RsctlError
from rsctl.job.document import read
from rsctl.plan import make_plan
from rsctl.targets.managed.image import ensure_planned_image
from rsctl.targets.managed.overlay import apply_overlay
from rsctl.targets.sagemaker.target import TARGET

PATH = "targets.vertex.overlay"


def body() -> dict[str, Any]:
    return {"a": {"b": 1, "c": [1, {"d": 2}]}, "text": "x"}


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        # RFC 7386, appendix A, each below a key
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches(target: Any, patch: Any, result: Any) -> None:
    assert apply_overlay({"x": target}, {"x": patch}, PATH) == {"x": result}


def test_json_patches() -> None:
    """Every operation of RFC 6902, in order; the body itself stays as it was."""
    given_body = body()
    patched = apply_overlay(
        given_body,
        [
            {"op": "test", "path": "/a/b", "value": 1},
            {"op": "add", "path": "/a/c/-", "value": None},
            {"op": "replace", "path": "/a/b", "value": {"e~/": 3}},
            {"op": "copy", "from": "/a/b/e~0~1", "path": "/f"},
            {"op": "move", "from": "/text", "path": "/a/text"},
            {"op": "remove", "path": "/a/c/0"},
        ],
        PATH,
    )
    assert patched == {"a": {"b": {"e~/": 3}, "c": [{"d": 2}, None], "text": "x"}, "f": 3}
    assert given_body == body()


def test_nothing_is_shared_with_the_patch() -> None:
    patch = {"new": {"list": [1]}}
    patched = apply_overlay(body(), patch, PATH)
    patched["new"]["list"].append(2)
    assert patch == {"new": {"list": [1]}}


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("text", "`op` is one of add, remove"),
        ({"path": "/a"}, "`op` is one of"),
        ({"op": ["add"], "path": "/a"}, "`op` is one of"),
        ({"op": "add"}, "`add` needs `path`"),
        ({"op": "add", "path": "/a"}, "`add` needs `value`"),
        ({"op": "move", "path": "/a"}, "`move` needs `from`"),
        ({"op": "remove", "path": "a.b"}, "`path` must be a pointer"),
        ({"op": "remove", "path": 5}, "`path` must be a pointer"),
        ({"op": "remove", "path": "/nowhere"}, "non-existent object 'nowhere'"),
        ({"op": "remove", "path": "/a/c/7"}, "non-existent object '7'"),
        ({"op": "replace", "path": "/a/zz", "value": 1}, "non-existent object 'zz'"),
        ({"op": "add", "path": "/a/c/9", "value": 1}, "outside of list"),
        ({"op": "add", "path": "/text/x", "value": 1}, "to non-container"),
        ({"op": "add", "path": "/no/where", "value": 1}, "'no' not found"),
        ({"op": "test", "path": "/a/b", "value": 2}, "not equal"),
        ({"op": "remove", "path": "/a/~2"}, "~2"),
    ],
)
def test_a_patch_that_does_not_apply_names_its_entry(entry: Any, words: str) -> None:
    good = {"op": "add", "path": "/z", "value": 1}
    with pytest.raises(RsctlError) as refused:
        apply_overlay(body(), [good, entry], PATH)
    finding = refused.value.findings[0]
    assert (finding.code, finding.path) == ("overlay", f"{PATH}[1]")
    assert words in finding.message
    assert finding.remedy


def test_the_request_stays_a_mapping() -> None:
    with pytest.raises(RsctlError) as refused:
        apply_overlay(body(), [{"op": "replace", "path": "", "value": []}], PATH)
    assert "no longer a mapping" in refused.value.findings[0].message


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
pointers = st.sampled_from(
    ["", "/", "/a", "/a/b", "/a/b/x", "/a/c", "/a/c/-", "/a/c/-1", "/a/c/01", "/a/c/1/d", "/a/c/x",
     "/text/0", "/~", "//", "/a/c/9999999999999999999999", "/a/c/\u0661"]
)  # fmt: skip
entries = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"])},
    optional={"path": pointers | json_values, "from": pointers | json_values, "value": json_values},
)


@given(st.dictionaries(st.text(max_size=3), json_values) | st.lists(entries | json_values))
def test_any_overlay_gives_a_body_or_a_finding(overlay: Any) -> None:
    before = deepcopy(overlay)
    with suppress(RsctlError):
        patched = apply_overlay(body(), overlay, PATH)
        assert isinstance(patched, dict)
        json.dumps(patched)
    assert overlay == before


JOB = """
name: job
image: {base: python:3.11-slim, source: ., repository: REGISTRY/job}
run: {script: train.py}
outputs: s3://bucket/runs
targets:
  sagemaker:
    region: us-east-1
    role: arn:aws:iam::123456789012:role/train
    overlay: {AlgorithmSpecification: {TrainingImage: REGISTRY/other:1}}
"""
REGISTRY = "123456789012.dkr.ecr.us-east-1.amazonaws.com"


def test_an_image_that_the_patch_names_is_not_built(tmp_path: Path) -> None:
    """To build it would take an engine, and to push it a registry."""
    (tmp_path / "train.py").write_text("")
    (tmp_path / "job.yaml").write_text(JOB.replace("REGISTRY", REGISTRY))
    submission = make_plan(read(str(tmp_path / "job.yaml"), ()), TARGET, "job-7f3k2a")
    assert ensure_planned_image(submission, lambda _: None) == f"{REGISTRY}/other:1"
