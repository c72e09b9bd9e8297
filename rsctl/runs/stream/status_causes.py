"""Causes of failed jobs that a service names by a code: AWS, Azure, Google's clients, gRPC.

All codes are made of the same words, such as NoSuchUpload, ResourceNotFoundException and NOT_FOUND,
so each row reads the words of a code. Sources: the service models of botocore, S3's list of error
codes, google.api_core.exceptions and grpc.StatusCode.
"""

from __future__ import annotations

from rsctl.runs.stream.service_causes import cause


def _coded(words: str) -> str:
    """The pattern of errors whose code has one of these words, with the message of the service."""
    code = rf"[\w.]{{0,60}}?(?i:{words})\w{{0,60}}"
    return (
        rf"An error occurred (\({code}\) when calling the \w{{1,60}}[^\n]{{0,160}})"
        rf"|google\.api_core\.exceptions\.({code}: (?:\d{{3}}|None) [^\n]{{0,160}})"
        rf"|(?m:^)ErrorCode:((?=[A-Z]){code})"
        rf"|(?m:^)grpc\.[\w.]{{1,60}}: <\w{{1,40}} of RPC that terminated with:"
        rf"\s{{1,9}}status = StatusCode\.{code}\s{{1,9}}details = (\"[^\n]{{0,200}})"
    )


STATUS_CAUSES = (
    cause(
        "cloud-call",
        _coded(r"not_?found|no_?such|not_?exist|redirect|moved"),
        "what the script names does not exist at the service: {names}",
        "correct its name, ID or version, and the region, project and account in which the script "
        "looks for it; if another program creates it, wait until that has ended",
    ),
    cause(
        "denied",
        _coded(
            r"denied|forbidden|not_?authorized|opt_?in|account_?problem|blocked|unable_?to_?acc"
        ),
        "a service does not let the job's account do this: {names}",
        "give the permission to the job's service account on Google Cloud, to the role on AWS; a "
        "policy of the organization, of the resource or of its key may forbid it, too",
    ),
    cause(
        "credentials-invalid",
        _coded(
            r"unauthenticated|expired|signature|token_?refresh|(?:invalid|identity)_?token"
            r"|authentication|not_?signed_?up|invalid_?security"
        ),
        "a service does not accept the credentials of the job: {names}",
        "use the job's service account or role, whose credentials are renewed, rather than keys or "
        "tokens in run.env; give a channel of gRPC its call credentials; a wrong clock on the "
        "machine gives this, too",
    ),
    cause(
        "quota",
        _coded(r"limit_?exceeded|quota|too_?many|count_?exceeded|resource_?exhausted"),
        "a quota of the account, or a limit of the service, is used up: {names}",
        "free what counts against it, or request a higher quota in the cloud's console; for a "
        "message that is too large, raise grpc.max_receive_message_length on both sides",
    ),
    cause(
        "cloud-call",
        _coded(r"object_?state|archived"),
        "an object is in an archive, from which it cannot be read: {names}",
        "restore it (`aws s3api restore-object`) and wait until that has ended, or copy the data "
        "to the storage class STANDARD before the job",
    ),
    cause(
        "cloud-call",
        _coded(
            r"already|exists|conflict|in_?use|in_?progress|aborted|condition|not_?empty|duplicate"
            r"|(?<!\d)412|invalid_?state|being"
        ),
        "a call does not fit the state of what it names: it exists already, or another call uses "
        "or changes it: {names}",
        "let one rank make the call; test the state before, use a new name for each run, and "
        "repeat the call after a pause",
    ),
    cause(
        "service-unavailable",
        _coded(
            r"internal|unavailable|server_?(?:error|exception)|time_?out|deadline|cancel{1,2}ed"
            r"|data_?loss|incomplete_?body|gateway|communication_?error|unknown(?![_a-z])"
        )
        + r"|google\.resumable_media\.common\.(DataCorruption: [^\n]{1,160})",
        "a service did not answer, or failed: {names}",
        "see its own log if the job runs the server; check its address, its port and the network "
        "between; submit again, and let the script retry with increasing pauses",
    ),
    cause(
        "cloud-call",
        _coded(""),
        "a service refused a call of the job: {names}",
        "correct the argument, the name or the format that the message names; if the operation is "
        "not implemented, use versions of the client and the server that belong together",
    ),
)
"""For errors of services without any other cause, the first that fits."""
