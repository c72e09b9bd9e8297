"""Stands in for the sagemaker-training toolkit of AWS's images, which estimators start scripts by.

The code that `sagemaker_submit_directory` names lies in /opt/ml/code before the container starts;
the toolkit downloads nothing if that is so. In Docker the image's own toolkit then starts it;
where nodes are processes `toolkit_start.py` does, by rsctl-launch.
"""

from __future__ import annotations

import io
import shlex
import tarfile
from pathlib import Path

import rsctl_start
from rsctl.estimate.catalog import load
from rsctl.job.job import is_shell_script
from rsctl.job.units import Accelerator
from rsctl.node.platforms.sagemaker_hyperparameters import arguments_of, decode, decode_all
from rsctl.targets.managed.emulator.nodes import Kind
from rsctl.targets.sagemaker.emulator.channels import split_uri
from rsctl.targets.sagemaker.emulator.contract import HostFolder
from rsctl.targets.sagemaker.emulator.files import make_folder
from rsctl.targets.sagemaker.emulator.job_record import JobRecord
from rsctl.targets.sagemaker.emulator.s3_objects import FolderObjects
from rsctl.targets.sagemaker.toolkit import uses_shell

CODE = "/opt/ml/code"
_BY_MPI = ("mpi", "distributed_dataparallel")
_START = Path(__file__).with_name("toolkit_start.py")


def has_code(record: JobRecord) -> bool:
    """Whether a job has code for its image's toolkit."""
    return "sagemaker_submit_directory" in record.get("HyperParameters", {})


def provide_code(objects: FolderObjects, record: JobRecord, machines: list[HostFolder]) -> None:
    """Unpack the code on all machines. Raises OSError that names missing or damaged files."""
    if not has_code(record):
        return
    uri = str(decode(record["HyperParameters"]["sagemaker_submit_directory"]))
    content = objects.content(*split_uri(uri))
    if content is None:
        raise OSError(f"{uri} does not exist")
    for machine in machines:
        make_folder(machine.code)
        try:
            with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
                _unpack(archive, machine.code)
        except (tarfile.TarError, EOFError) as problem:
            raise OSError(f"cannot unpack {uri}: {problem}") from None


def _unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpack files, folders and links inside a folder. Raises TarError for anything else."""
    if hasattr(tarfile, "data_filter"):  # since Python 3.10.12 and 3.11.4
        archive.extractall(folder, filter="data")
        return
    root = folder.resolve()
    for member in archive:
        path = root / member.name
        places = [path, path.parent / member.linkname] if member.issym() else [path]
        is_plain = member.isreg() or member.isdir() or member.issym()
        if not is_plain or not all(place.resolve().is_relative_to(root) for place in places):
            raise tarfile.TarError(f"{member.name} is outside the folder, or a special file")
        archive.extract(member, root)


def command(record: JobRecord, runner: Kind) -> list[str] | None:
    """The program that starts the code on a node that is a process; None if the image starts it.

    Raises OSError for code that is started with MPI, which treats such nodes as one machine.
    """
    algorithm = record["AlgorithmSpecification"]
    is_own = {"ContainerEntrypoint", "ContainerArguments"} & algorithm.keys()
    if runner == "docker" or is_own or not has_code(record):
        return None
    given = record["HyperParameters"]
    if any(decode(given.get(f"sagemaker_{name}_enabled", "false")) is True for name in _BY_MPI):
        raise OSError("its image starts it with mpirun, so rehearse it in containers: with docker")
    program = str(decode(given.get("sagemaker_program", "")))
    ranks = 0
    if decode(given.get("sagemaker_torch_distributed_enabled", "false")) is True:
        ranks = _ranks(given)
    start = ["python3", "-I", "-c", _START.read_text(), rsctl_start.__file__, program, str(ranks)]
    arguments = arguments_of(decode_all(given))
    if not uses_shell(algorithm.get("TrainingImage", "")) and not is_shell_script(program):
        arguments = [shlex.quote(each) for each in arguments]
    return [*start, *arguments]


def _ranks(given: dict[str, str]) -> int:
    """The ranks on each node: `sagemaker_mpi_num_of_processes_per_host` counts for torchrun too."""
    if processes := decode(given.get("sagemaker_mpi_num_of_processes_per_host", "0")):
        return int(str(processes))
    known = load("sagemaker").machines.get(str(decode(given.get("sagemaker_instance_type", ""))))
    if not known or not known.accelerators:
        return 1
    return Accelerator(f"{known.accelerator}:{known.accelerators[0]}").ranks_per_node
