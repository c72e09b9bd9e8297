"""SageMaker's training jobs on loopback, which really run, with their log, metrics and storage.

What it does as the documentation and the service's model say: the wire format, what is refused, the
statuses of a job, what a container finds and leaves below /opt/ml, the rates. Undocumented answers
that it invents are named in `behaviour`, `rules`, `outcomes`, `hosts` and `channels`. What has no
meaning on one machine, such as keys, subnets and isolation, is taken and does nothing.
"""

from rsctl.targets.sagemaker.emulator.behaviour import Behaviour
from rsctl.targets.sagemaker.emulator.emulator import SageMakerEmulator

__all__ = ["Behaviour", "SageMakerEmulator"]
