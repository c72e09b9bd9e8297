"""The threads of the emulators' jobs."""

from __future__ import annotations

import ast
import inspect
import threading

import pytest

from rsctl.targets.sagemaker.emulator.job_thread import TrainingJobThread
from rsctl.targets.vertex.emulator.job_thread import CustomJobThread

PYTHONS = set(dir(threading.Thread)) | vars(threading.Thread()).keys() | {"_handle", "_context"}
"""The names in each Python: `_handle` from 3.13 on, `_context` from 3.14 on."""


@pytest.mark.parametrize("kind", [CustomJobThread, TrainingJobThread])
def test_no_name_of_a_thread_is_one_of_pythons_own(kind: type[threading.Thread]) -> None:
    tree = ast.parse(inspect.getsource(kind))
    stored = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    common = PYTHONS & (stored | vars(kind).keys())
    assert {name for name in common if not name.startswith("__")} == {"run"}
