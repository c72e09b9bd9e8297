"""Trains job.yaml by the SageMaker SDK: as a ModelTrainer, or by the code that rsctl prints.

Run by the Python of an environment that has the SDK, see `.ci/sdks`.
"""

from __future__ import annotations

import sys
from typing import Any

from rsctl.job.document import read
from rsctl.plan import make_plan
from rsctl.targets import get
from rsctl.targets.sagemaker.sdk import code, model_trainer


def main(way: str) -> None:
    if way == "object":
        trainer: Any = model_trainer("job.yaml", "t-aaaaaa")
        trainer.train(wait=True, logs=False)
        return
    if way == "start":
        model_trainer("job.yaml", "t-cccccc").train(wait=False, logs=False)
        return
    printed = code(make_plan(read("job.yaml", ()), get("sagemaker"), "t-bbbbbb"))
    exec(compile(printed.replace(".train()", ".train(logs=False)"), "printed", "exec"), {})


if __name__ == "__main__":
    main(sys.argv[1])
