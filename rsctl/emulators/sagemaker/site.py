"""What all jobs of an emulator share."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rsctl.emulators.aws.s3_objects import InFolder
from rsctl.emulators.nodes import Runner
from rsctl.emulators.sagemaker.behaviour import Behaviour
from rsctl.emulators.sagemaker.logbook import Logbook
from rsctl.emulators.sagemaker.measurements import Measurements
from rsctl.emulators.sagemaker.pools import Pools


class Site(NamedTuple):
    """Where and how jobs run. `folder` is for their machines' disks."""

    runner: Runner
    behaviour: Behaviour
    objects: InFolder
    logbook: Logbook
    measurements: Measurements
    pools: Pools
    folder: Path
