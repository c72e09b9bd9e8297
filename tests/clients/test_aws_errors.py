"""One table of AWS's error codes: whole findings, whichever service it is."""

from __future__ import annotations

import botocore
import pytest
from botocore import exceptions
from botocore.parsers import ResponseParserError

from rsctl.clients.aws import Aws
from rsctl.clients.aws_errors import aws_error, aws_errors
from rsctl.clients.endpoints import Endpoints
from rsctl.clients.errors import AWS_LOGIN, NoAnswer, no_answer
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.installation import pip_install
from rsctl.known_errors import KnownError

CLOCK = "set this machine's clock: AWS accepts only current signatures"
DENIED = "ask for the permission that the message names, or use another profile with AWS_PROFILE"
REGION = (
    f"{AWS_LOGIN}; AWS enables new regions such as eu-south-1 only on request: if only one region "
    "refuses them, enable it for the account"
)
UNKNOWN = "AWS does not recognize these credentials"


@pytest.mark.parametrize(
    ("code", "message", "exit_code", "finding", "summary", "remedy"),
    [
        ("ExpiredToken", "old", "ENVIRONMENT", "credentials-expired", None, AWS_LOGIN),
        ("ExpiredTokenException", "old", "ENVIRONMENT", "credentials-expired", None, AWS_LOGIN),
        ("InvalidClientTokenId", "invalid", "ENVIRONMENT", "credentials", UNKNOWN, REGION),
        ("UnrecognizedClientException", "no", "ENVIRONMENT", "credentials", UNKNOWN, REGION),
        ("SignatureDoesNotMatch", "wrong", "ENVIRONMENT", "credentials", UNKNOWN, AWS_LOGIN),
        ("SignatureDoesNotMatch", "Signature expired: 1", "ENVIRONMENT", "clock", None, CLOCK),
        ("InvalidSignatureException", "Signature expired: 1", "ENVIRONMENT", "clock", None, CLOCK),
        (
            "RequestExpired",
            "Request has expired.",
            "ENVIRONMENT",
            "clock",
            None,
            f"{CLOCK}; if it is right, {AWS_LOGIN}",
        ),
        ("RequestTimeTooSkewed", "far apart", "ENVIRONMENT", "clock", None, CLOCK),
        ("AccessDenied", "no", "REFUSED", "denied", None, DENIED),
        ("AccessDeniedException", "no", "REFUSED", "denied", None, DENIED),
        ("UnauthorizedOperation", "no", "REFUSED", "denied", None, DENIED),
        ("403", "Forbidden", "REFUSED", "denied", None, DENIED),
        # https://github.com/aws-samples/amazon-bedrock-workshop/issues/233
        (
            "AccessDeniedException",
            "User: x is not authorized to perform: bedrock:CreateModelCustomizationJob on "
            "resource: y with an explicit deny in a service control policy",
            "REFUSED",
            "denied",
            None,
            "ask the administrators of the policy for an exception, or use a region or an account "
            "that it allows: its denial takes precedence over any permission",
        ),
        (
            "NoSuchBucket",
            "none",
            "REFUSED",
            "bucket",
            None,
            "create it: `aws s3 mb s3://NAME`, or use another bucket",
        ),
        ("SomethingElse", "odd", "REFUSED", "cloud", None, None),
    ],
)
def test_what_a_code_means(
    code: str, message: str, exit_code: str, finding: str, summary: str | None, remedy: str | None
) -> None:
    made = aws_error(code, message, "targets.sagemaker")
    assert (made.code, made.exit_code) == (code, ExitCode[exit_code])
    text = f"{summary or 'AWS refuses'}: {message} ({code})"
    assert made.findings == (error(finding, text, remedy, "targets.sagemaker"),)


def test_a_service_may_know_better() -> None:
    known = KnownError("role", "trust it", "targets.sagemaker.role", summary="no role")
    made = aws_error("AccessDenied", "no", "targets.sagemaker", lambda code, message: known)
    assert made.findings == (
        error("role", "no role: no (AccessDenied)", "trust it", "targets.sagemaker.role"),
    )


def raised(problem: Exception) -> RsctlError:
    """What becomes of an exception of botocore in a call to S3 that the field `x` led to."""
    with pytest.raises(RsctlError) as caught, aws_errors("s3", "x", None):
        raise problem
    return caught.value


def answered(code: str, status: int = 400, message: str | None = "why") -> RsctlError:
    """What becomes of an answer of S3."""
    body = {"Error": {"Code": code, "Message": message}}
    metadata = {"ResponseMetadata": {"HTTPStatusCode": status}}
    return raised(exceptions.ClientError({**body, **metadata}, "GetObject"))


@pytest.mark.parametrize(
    ("operation", "said", "shown"),
    [
        ("PutObject", "Access Denied", "Access Denied: it requires s3:PutObject"),
        ("UploadPart", "Access Denied", "Access Denied: it requires s3:PutObject"),
        ("HeadObject", "Forbidden", "Forbidden: it requires s3:GetObject"),
        ("ListObjectsV2", "Access Denied", "Access Denied: it requires s3:ListBucket"),
        *(("PutObject", said, said) for said in ["x may not perform: kms:GenerateDataKey"]),
    ],
)
def test_a_denial_names_the_permission(operation: str, said: str, shown: str) -> None:
    body = {"Error": {"Code": "AccessDenied", "Message": said}}
    made = raised(exceptions.ClientError(body, operation))
    assert made.findings == (error("denied", f"AWS refuses: {shown} (AccessDenied)", DENIED, "x"),)


@pytest.mark.parametrize(
    "code",
    [
        *("Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled"),
        *("RequestThrottledException", "TooManyRequestsException", "RequestLimitExceeded"),
        *("SlowDown", "PriorRequestNotComplete", "BandwidthLimitExceeded"),
    ],
)
def test_a_throttled_request_may_be_made_again(code: str) -> None:
    made = answered(code)
    assert isinstance(made, NoAnswer)
    assert (made.is_busy, made.sent, made.exit_code) == (True, True, ExitCode.REFUSED)
    text = f"s3 asks to reduce the request rate: why ({code})"
    assert made.findings == (error("busy", text, "wait a minute, then run the command again"),)


@pytest.mark.parametrize(
    "code",
    [
        *("RequestTimeout", "RequestTimeoutException", "InternalFailure", "InternalServerError"),
        *("ServiceUnavailable", "ServiceUnavailableException", "InternalServerException"),
        "InternalError",
    ],
)
def test_a_fault_of_the_service_leaves_open_whether_it_was_done(code: str) -> None:
    made = answered(code)
    assert isinstance(made, NoAnswer)
    assert (made.is_busy, made.sent, made.exit_code) == (False, True, ExitCode.REFUSED)
    text = f"s3 answers with a server error: why ({code})"
    assert made.findings == (error("cloud", text, "try again later"),)


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (
            "NoCredentialsError PartialCredentialsError ProfileNotFound UnknownCredentialError "
            "InvalidConfigError",
            "credentials-missing",
        ),
        (
            "SSOTokenLoadError UnauthorizedSSOTokenError TokenRetrievalError "
            "CredentialRetrievalError LoginRefreshRequired LoginTokenLoadError",
            "credentials-expired",
        ),
        ("NoRegionError InvalidRegionError", "region"),
    ],
)
def test_botocore_s_exceptions_by_name(names: str, code: str) -> None:
    """Those that this version of botocore lacks are in others."""
    for name in names.split():
        kind = type(name, (exceptions.BotoCoreError,), {"fmt": "why"})
        [finding] = raised(kind()).findings
        assert (finding.code, "why" in finding.message) == (code, True), name


@pytest.mark.parametrize(
    ("status", "code"),
    [(429, "busy"), (500, "cloud"), (502, "cloud"), (503, "cloud"), (504, "cloud")],
)
def test_the_status_counts_where_the_code_is_unknown(status: int, code: str) -> None:
    made = answered("Odd", status)
    assert isinstance(made, NoAnswer)
    assert made.findings[0].code == code


@pytest.mark.parametrize(
    ("code", "status", "message"),
    [
        ("PermanentRedirect", 301, "must be addressed using the specified endpoint"),
        ("301", 301, "Moved Permanently"),
        ("TemporaryRedirect", 307, "Please re-send this request"),
        ("307", 307, "Temporary Redirect"),
        ("IllegalLocationConstraintException", 400, "The eu-west-2 location constraint is not"),
        (
            "AuthorizationHeaderMalformed",
            400,
            "the region 'us-east-1' is wrong; expecting 'eu-west-1'",
        ),
    ],
)
def test_a_bucket_in_another_region_has_a_remedy(code: str, status: int, message: str) -> None:
    (finding,) = answered(code, status, message).findings
    assert (finding.code, message in finding.message) == ("bucket-region", True)
    assert "aws s3api get-bucket-location --bucket NAME" in str(finding.remedy)


@pytest.mark.parametrize("status", [400, 428, 501, 505])
def test_other_statuses_are_refusals(status: int) -> None:
    made = answered("Odd", status, message=None)
    assert not isinstance(made, NoAnswer)
    assert made.findings == (error("cloud", "AWS refuses: no message (Odd)", None, "x"),)


# InvalidToken is S3's: https://github.com/paws-r/paws/issues/896
@pytest.mark.parametrize("code", ["InvalidAccessKeyId", "IncompleteSignature", "InvalidToken"])
def test_keys_that_are_not_recognized(code: str) -> None:
    text = f"{UNKNOWN}: why ({code})"
    assert answered(code).findings == (error("credentials", text, AWS_LOGIN, "x"),)


@pytest.mark.parametrize(
    ("problem", "sent"),
    [
        (exceptions.EndpointConnectionError(endpoint_url="https://s3"), False),
        (exceptions.ConnectTimeoutError(endpoint_url="https://s3"), False),
        (exceptions.ProxyConnectionError(proxy_url="https://p"), False),
        (exceptions.ReadTimeoutError(endpoint_url="https://s3"), True),
        (exceptions.ConnectionClosedError(endpoint_url="https://s3"), True),
        (ResponseParserError("cut"), True),
    ],
)
def test_whether_a_request_without_an_answer_was_sent(problem: Exception, sent: bool) -> None:
    made = raised(problem)
    assert isinstance(made, NoAnswer)
    assert (made.sent, made.is_busy, made.exit_code) == (sent, False, ExitCode.ENVIRONMENT)
    assert made.findings[0].message.startswith("s3 gives no answer: ")


@pytest.mark.parametrize(
    ("problem", "exit_code", "code", "path"),
    [
        (exceptions.NoCredentialsError(), "ENVIRONMENT", "credentials-missing", "x"),
        (exceptions.ProfileNotFound(profile="p"), "ENVIRONMENT", "credentials-missing", "x"),
        (exceptions.InvalidConfigError(error_msg="e"), "ENVIRONMENT", "credentials-missing", "x"),
        (
            exceptions.UnknownCredentialError(name="n", cred_var="c"),
            *("ENVIRONMENT", "credentials-missing", "x"),
        ),
        (
            exceptions.PartialCredentialsError(provider="env", cred_var="key"),
            *("ENVIRONMENT", "credentials-missing", "x"),
        ),
        (
            exceptions.UnauthorizedSSOTokenError(),
            *("ENVIRONMENT", "credentials-expired", "x"),
        ),
        (
            exceptions.CredentialRetrievalError(provider="sso", error_msg="e"),
            *("ENVIRONMENT", "credentials-expired", "x"),
        ),
        (exceptions.NoRegionError(), "ENVIRONMENT", "region", "targets.sagemaker.region"),
        (
            exceptions.InvalidRegionError(region_name="a b"),
            *("ENVIRONMENT", "region", "targets.sagemaker.region"),
        ),
        (exceptions.DataNotFoundError(data_path="p"), "ENVIRONMENT", "cloud", "x"),
        (exceptions.ParamValidationError(report="Key: odd"), "USAGE", "request", "x"),
    ],
)
def test_what_prevents_a_call(problem: Exception, exit_code: str, code: str, path: str) -> None:
    made = raised(problem)
    assert (made.exit_code, made.findings[0].code) == (ExitCode[exit_code], code)
    assert made.findings[0].path == path
    assert str(problem) in made.findings[0].message


def test_a_field_that_this_botocore_does_not_know_may_be_new() -> None:
    """What botocore 1.34.162 says of `targets.sagemaker.training_plan`."""
    known = "InstanceType, InstanceCount, VolumeSizeInGB, VolumeKmsKeyId, "
    report = (
        'Unknown parameter in ResourceConfig: "TrainingPlanArn", must be one of: '
        f"{known}KeepAlivePeriodInSeconds, InstanceGroups"
    )
    made = raised(exceptions.ParamValidationError(report=report))
    upgrade = pip_install("--upgrade", "boto3")
    assert made.findings[0].remedy == (
        "correct the key that the message names; "
        f"if botocore {botocore.__version__} is older than the key, upgrade it: `{upgrade}`"
    )


@pytest.mark.parametrize(
    ("region", "remedy"),
    [
        ("us-eastt-1", "did you mean us-east-1?"),
        ("moon", "set a region, such as us-east-1"),
    ],
)
def test_a_region_where_nobody_answers_may_not_exist(region: str, remedy: str) -> None:
    """boto3 makes an address of any region."""
    aws = Aws(Endpoints(), region)
    problem = no_answer("s3", "no such host", sent=False)
    made = aws.given_up(problem)
    text = f"AWS gives no answer, and region {region} is unknown"
    assert made.findings == (error("region", text, remedy, "targets.sagemaker.region"),)
    assert aws.given_up(no_answer("s3", "it was cut", sent=True)).findings[0].code != "region"
    assert Aws(Endpoints(), "eu-west-1").given_up(problem) is problem
