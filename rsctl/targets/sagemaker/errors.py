"""Errors of SageMaker for a job that it refuses or that failed, with their field and remedy.

The messages come from real answers (tests/fixtures/real/cloud_errors.json has them with their
sources); of them only the code is documented, and of the reason of a failure not even its kind. So
rsctl searches messages for patterns, and shows unknown messages unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from rsctl.clients.aws_errors import CREATE_BUCKET
from rsctl.findings import Finding, error
from rsctl.known_errors import NO_SPACE, KnownError, find_known_error
from rsctl.targets.managed.known_errors import MORE_MEMORY, STOCK_OUT

NOT_UNIQUE = "ResourceInUse"
"""The code for a name that is taken."""

INVALID = "ValidationException"
"""The code for an invalid request, a missing job, and the stop of a job that has ended."""

CLIENT_ERROR = "ClientError"
"""The kind of a FailureReason that has the texts of refusals, too."""

_LIMIT = re.compile(r"service limit '([^']+)' is (\d+)")
_OTHER_LIMITS = (
    (
        "warm pool",
        "targets.sagemaker.keep_alive",
        "{ask}, or remove targets.sagemaker.keep_alive",
    ),
    ("run time", "limits.timeout", "set limits.timeout: {most}s or less, or {ask}"),
    ("volume", "workers.disk", "set workers.disk: {most}GB or less, or {ask}"),
    (
        "instances? per",
        "workers.count",
        "use at most {most} machines in the job, reducers and roles included, or {ask}",
    ),
    (
        "across all",
        "workers.count",
        "wait for other jobs to end, use fewer machines, or {ask}; other machine types count too",
    ),
)
"""Limits that are not of one machine type: a pattern of the name, the field and the remedy."""

_ROLE_FIELD = "targets.sagemaker.role"
_IMAGE_FIELD = "image"


def _case(code: str, pattern: str, kind: str, remedy: str, path: str) -> KnownError:
    """An error with this code, whose message has this pattern."""
    codes = frozenset({code, CLIENT_ERROR} if code == INVALID else {code})
    compiled = re.compile(pattern, re.IGNORECASE)
    return KnownError(kind, remedy, path, codes=codes, pattern=compiled)


_KNOWN = (
    KnownError(
        STOCK_OUT,
        "try again later, or use another machine type or region",
        "workers.machine",
        codes=frozenset({"CapacityError"}),
    ),
    KnownError(
        "cloud",
        "submit the job again; with limits.retries SageMaker does that itself",
        "limits.retries",
        codes=frozenset({"InternalServerError"}),
    ),
    _case(
        CLIENT_ERROR,
        r"instance type with more memory|out ?of ?memory",
        "memory",
        MORE_MEMORY,
        "workers.machine",
    ),
    _case(
        "ResourceLimitExceeded",
        r"is not available in this region",
        "machine",
        "use a machine type that the region has, or another targets.sagemaker.region",
        "workers.machine",
    ),
    _case(
        INVALID,
        r"illegal char",
        "data",
        "remove the doubled / from the S3 key that the message names: rename the objects, or "
        "correct the prefix",
        "inputs",
    ),
    _case(
        INVALID,
        r"upload failed:[\s\S]{0,200}?insufficient disk space",
        "disk",
        "raise workers.disk, which holds outputs and the model until they are uploaded, or write "
        "less to them; checkpoints are uploaded while the job runs, so old ones can be removed",
        "workers.disk",
    ),
    _case(
        INVALID,
        rf"insufficient disk space|{NO_SPACE}",
        "disk",
        "raise workers.disk, which must hold all inputs, or set targets.sagemaker.input_mode: "
        "FastFile",
        "workers.disk",
    ),
    _case(
        "AccessDeniedException",
        r"iam:PassRole",
        "denied",
        "ask for the permission iam:PassRole on this role, or use a role that you can pass",
        _ROLE_FIELD,
    ),
    _case(
        INVALID,
        r"not assume|unable to assume|sts:AssumeRole",
        "role",
        "check that the role exists and that its trust policy lets sagemaker.amazonaws.com assume "
        "it",
        _ROLE_FIELD,
    ),
    _case(
        INVALID,
        r"Access denied for repository|proper pull permissions",
        "image",
        "check that the image was pushed, and let the role pull it: ecr:BatchGetImage, "
        "ecr:GetDownloadUrlForLayer and ecr:BatchCheckLayerAvailability",
        _IMAGE_FIELD,
    ),
    _case(
        INVALID,
        r"Cannot find (the )?(requested image|repository)|Requested image .* not found|"
        r"image .*does not exist",
        "image",
        "push the image first, to a repository in the job's own region",
        _IMAGE_FIELD,
    ),
    _case(
        INVALID,
        r"Invalid training image|TrainingImageConfig|private Docker registry",
        "image",
        "use an image in ECR (ACCOUNT.dkr.ecr.REGION.amazonaws.com/...) or public.ecr.aws",
        _IMAGE_FIELD,
    ),
    _case(
        INVALID,
        r"(?:down|up)load[\s\S]{0,1000}?(?:Access ?Denied|\(403\)|Forbidden|not authorized)",
        "denied",
        "let the role read inputs (s3:GetObject, s3:ListBucket) and write outputs "
        "(s3:PutObject), and use the keys that encrypt them",
        _ROLE_FIELD,
    ),
    _case(
        INVALID,
        r"\bkms\b|customer master key",
        "encryption",
        "check the keys of targets.sagemaker and of the buckets: they must be enabled and in this "
        "region, and allow the role kms:Decrypt, kms:GenerateDataKey and, for volumes, "
        "kms:CreateGrant",
        _ROLE_FIELD,
    ),
    _case(
        INVALID,
        r"PermanentRedirect|bucket is in this region",
        "bucket-region",
        "use a bucket in the job's own region, or set targets.sagemaker.region to the bucket's",
        "inputs",
    ),
    _case(
        INVALID,
        r"S3 bucket .*does not exist|NoSuchBucket|bucket .*not exist",
        "bucket",
        CREATE_BUCKET,
        "outputs",
    ),
    _case(
        INVALID,
        r"No S3 objects found|NoSuchKey|S3Uri",
        "data",
        "check the s3:// location, and that the role has permission to list and read it",
        "inputs",
    ),
    _case(
        INVALID,
        r"hyper-?parameter",
        "hyperparameters",
        "correct run.args: each argument is a hyperparameter, whose value algorithms read as JSON",
        "run.args",
    ),
    _case(
        CLIENT_ERROR,
        r"pars(?:ing|e) json",
        "json",
        "correct the input file, or the hyperparameter of run.args, that is not valid JSON: the "
        "log names it",
        "inputs",
    ),
    _case(
        INVALID,
        r"Requested resource not found",
        "not-found",
        "check the names of the request's resources, and that they are in this region and account: "
        "the job, an algorithm, a training plan or an experiment",
        "targets.sagemaker",
    ),
    _case(
        CLIENT_ERROR,
        r"Throttl|Rate exceeded",
        "throttled",
        "submit the job again later, or submit fewer jobs at a time",
        "limits.retries",
    ),
    _case(
        INVALID,
        r"subnet|security group|Unable to execute request to S3",
        "network-settings",
        "check targets.sagemaker.subnets and targets.sagemaker.security_groups in this region, "
        "and that they have a route to S3",
        "targets.sagemaker.subnets",
    ),
    KnownError(
        "request",
        "correct the key that the message names; rsctl sends the fields of "
        "targets.sagemaker.overlay without changes",
        codes=frozenset({INVALID}),
    ),
)


def find_known(
    code: str, message: str, blocks: Mapping[str, str] = MappingProxyType({})
) -> KnownError | None:
    """The known error for a code and message; None if there is none.

    The code comes from a refusal, or is the kind of a FailureReason. `blocks` maps a machine type
    to the block of the spec that names it: `chief`, `workers`, `reducers`.
    """
    known_error = find_known_error(_KNOWN, message, code)
    if known_error is None and code == "ResourceLimitExceeded":
        return _quota(message, blocks)
    return known_error


def other_limit(name: str, most: str) -> KnownError | None:
    """The error of a quota that is not of one machine type, by its name and value; None for one of
    a machine type.
    """
    for pattern, field, remedy in _OTHER_LIMITS:
        if re.search(pattern, name, re.IGNORECASE):
            return KnownError("quota", remedy.format(ask=_ask(f"'{name}'"), most=most), field)
    return None


def _quota(message: str, blocks: Mapping[str, str]) -> KnownError:
    """`The account-level service limit 'TYPE for training job usage' is 0 Instances, ...`."""
    match = _LIMIT.search(message)
    if match is None:
        remedy = f"wait for other jobs to end, {_ask('the limit that the message names')}"
        return KnownError("quota", f"{remedy}, or use another machine type", "workers.machine")
    if other := other_limit(match[1], match[2]):
        return other
    ask = _ask(f"'{match[1]}'")
    if match[2] == "0":
        remedy = f"{ask} (it is 0 until you ask for it), or use another machine type"
    else:
        remedy = f"wait for other jobs to end, {ask}, or use another machine type"
    if "spot" in match[1]:
        remedy += ", or limits.spot: false"
    block = blocks.get(match[1].partition(" ")[0], "workers")
    return KnownError("quota", remedy, f"{block}.machine")


def _ask(name: str) -> str:
    return f"ask in Service Quotas, Amazon SageMaker, for more of {name}"


def missing(name: str, region: str) -> Finding:
    """The job does not exist."""
    return error(
        "not-found",
        f"SageMaker has no training job {name} in {region}",
        "check its name, its region, and the account of your credentials",
    )


def name_taken(name: str) -> Finding:
    """The name belongs to a job of another run."""
    return error(
        "name-taken",
        f"a training job named {name} already exists, and does not belong to this run",
        "use another name for the job",
        "name",
    )
