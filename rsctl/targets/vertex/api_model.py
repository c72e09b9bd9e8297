"""The fields of a CustomJob in v1 of the API, from its public description (2026-11).

A kind is a scalar (`string`, `bool`, `int32`, `int64`, `duration`), `map` of texts, the name of a
message or of an enum below, `[KIND]` a list, or `output`: a field that only the service writes.
"""

from __future__ import annotations

_OUTPUTS = ("name", "state", "createTime", "startTime", "endTime", "updateTime", "error",
            "webAccessUris", "satisfiesPzs", "satisfiesPzi")  # fmt: skip

MESSAGES: dict[str, dict[str, str]] = {
    "CustomJob": {
        **dict.fromkeys(_OUTPUTS, "output"),
        "displayName": "string",
        "jobSpec": "CustomJobSpec",
        "labels": "map",
        "encryptionSpec": "EncryptionSpec",
    },
    "CustomJobSpec": {
        "persistentResourceId": "string",
        "workerPoolSpecs": "[WorkerPoolSpec]",
        "scheduling": "Scheduling",
        "serviceAccount": "string",
        "network": "string",
        "reservedIpRanges": "[string]",
        "pscInterfaceConfig": "PscInterfaceConfig",
        "baseOutputDirectory": "GcsDestination",
        "protectedArtifactLocationId": "string",
        "tensorboard": "string",
        "enableWebAccess": "bool",
        "enableDashboardAccess": "bool",
        "experiment": "string",
        "experimentRun": "string",
        "models": "[string]",
    },
    "WorkerPoolSpec": {
        "containerSpec": "ContainerSpec",
        "pythonPackageSpec": "PythonPackageSpec",
        "machineSpec": "MachineSpec",
        "replicaCount": "int64",
        "nfsMounts": "[NfsMount]",
        "lustreMounts": "[LustreMount]",
        "diskSpec": "DiskSpec",
    },
    "ContainerSpec": {
        "imageUri": "string",
        "command": "[string]",
        "args": "[string]",
        "env": "[EnvVar]",
    },
    "EnvVar": {"name": "string", "value": "string"},
    "PythonPackageSpec": {
        "executorImageUri": "string",
        "packageUris": "[string]",
        "pythonModule": "string",
        "args": "[string]",
        "env": "[EnvVar]",
    },
    "MachineSpec": {
        "machineType": "string",
        "acceleratorType": "AcceleratorType",
        "acceleratorCount": "int32",
        "gpuPartitionSize": "string",
        "tpuTopology": "string",
        "reservationAffinity": "ReservationAffinity",
    },
    "ReservationAffinity": {
        "reservationAffinityType": "ReservationAffinity.Type",
        "key": "string",
        "values": "[string]",
    },
    "NfsMount": {"server": "string", "path": "string", "mountPoint": "string"},
    "LustreMount": {
        "instanceIp": "string",
        "volumeHandle": "string",
        "filesystem": "string",
        "mountPoint": "string",
    },
    "DiskSpec": {"bootDiskType": "string", "bootDiskSizeGb": "int32"},
    "Scheduling": {
        "timeout": "duration",
        "restartJobOnWorkerRestart": "bool",
        "strategy": "Scheduling.Strategy",
        "disableRetries": "bool",
        "maxWaitDuration": "duration",
    },
    "PscInterfaceConfig": {
        "networkAttachment": "string",
        "dnsPeeringConfigs": "[DnsPeeringConfig]",
    },
    "DnsPeeringConfig": {"domain": "string", "targetProject": "string", "targetNetwork": "string"},
    "GcsDestination": {"outputUriPrefix": "string"},
    "EncryptionSpec": {"kmsKeyName": "string"},
}

ENUMS: dict[str, dict[str, int]] = {
    "AcceleratorType": {
        "ACCELERATOR_TYPE_UNSPECIFIED": 0,
        "NVIDIA_TESLA_K80": 1,
        "NVIDIA_TESLA_P100": 2,
        "NVIDIA_TESLA_V100": 3,
        "NVIDIA_TESLA_P4": 4,
        "NVIDIA_TESLA_T4": 5,
        "TPU_V2": 6,
        "TPU_V3": 7,
        "NVIDIA_TESLA_A100": 8,
        "NVIDIA_A100_80GB": 9,
        "TPU_V4_POD": 10,
        "NVIDIA_L4": 11,
        "TPU_V5_LITEPOD": 12,
        "NVIDIA_H100_80GB": 13,
        "NVIDIA_H100_MEGA_80GB": 14,
        "NVIDIA_H200_141GB": 15,
        "NVIDIA_B200": 16,
        "NVIDIA_GB200": 17,
        "NVIDIA_RTX_PRO_6000": 18,
    },
    "ReservationAffinity.Type": {
        "TYPE_UNSPECIFIED": 0,
        "NO_RESERVATION": 1,
        "ANY_RESERVATION": 2,
        "SPECIFIC_RESERVATION": 3,
    },
    "Scheduling.Strategy": {
        "STRATEGY_UNSPECIFIED": 0,
        "ON_DEMAND": 1,
        "LOW_COST": 2,
        "STANDARD": 3,
        "SPOT": 4,
        "FLEX_START": 6,
    },
    "JobState": {
        "JOB_STATE_UNSPECIFIED": 0,
        "JOB_STATE_QUEUED": 1,
        "JOB_STATE_PENDING": 2,
        "JOB_STATE_RUNNING": 3,
        "JOB_STATE_SUCCEEDED": 4,
        "JOB_STATE_FAILED": 5,
        "JOB_STATE_CANCELLING": 6,
        "JOB_STATE_CANCELLED": 7,
        "JOB_STATE_PAUSED": 8,
        "JOB_STATE_EXPIRED": 9,
        "JOB_STATE_UPDATING": 10,
        "JOB_STATE_PARTIALLY_SUCCEEDED": 11,
    },
}
