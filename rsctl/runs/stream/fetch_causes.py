"""Causes of failed jobs that fetch code or files before their script: git, curl, wget, pip, apt.

Sources: texts of tests/fixtures/real; messages in the code of git, git-lfs, curl, wget and pip.
"""

from __future__ import annotations

from rsctl.runs.stream.service_causes import cause

_NO_LOGIN = (
    r"could not read (?:Username|Password) for|Authentication failed for|HTTP Basic: Access denied"
    r"|Invalid username or (?:password|token)|Support for password authentication was removed"
    r"|Repository not found|Write access to repository not granted|repository '[^'\n]{1,160}' not "
    r"found|unable to access '[^'\n]{1,160}': The requested URL returned error: 40[134]"
)

FETCH_CAUSES = (
    cause(
        "git",
        r"Smudge error: [^\n]{0,400}?(batch response: [^\n]{1,160})|Smudge error: ([^\n]{1,200})"
        r"|batch response: ([^\n]{1,200})|(git: 'lfs' is not a git command)"
        r"|(git-lfs\S{0,20}: (?:command )?not found)|([^\n]{1,120}: smudge filter lfs failed)"
        r"|external filter '(git-lfs[^'\n]{1,40})' failed",
        "git-lfs could not download the files of a repository: {names}",
        "see the reason in the line: a server that was unavailable (5xx: submit again), a key or "
        "token that may not read the files, or the host's quota of downloads; git-lfs must be in "
        "the image; GIT_LFS_SKIP_SMUDGE=1 in run.env clones without them; large files are better "
        "read from inputs",
    ),
    cause(
        "git",
        rf"(?:fatal|remote|ERROR): ((?:{_NO_LOGIN})[^\n]{{0,160}})"
        r"|(git@\S{1,100}: Permission denied[^\n]{0,40})"
        r"|((?:Permission denied|Host key verification)[^\n]{0,60})"
        r"(?=\n(?:[^\n]{0,200}\n){0,2}fatal: Could not read from remote repository)",
        "git could not log in to a repository's server, or may not read the repository: {names}",
        "correct its address; a job does not have your login: set a token as a secret of run.env "
        "and clone by https with it, or put the code into image.source or the image, so that the "
        "job clones nothing",
    ),
    cause(
        "git",
        r"(?m:^)fatal: ((?:detected dubious ownership in|unsafe) repository[^\n]{0,160})",
        "git refuses a folder that belongs to another user: {names}",
        "set GIT_CONFIG_COUNT=1, GIT_CONFIG_KEY_0=safe.directory and GIT_CONFIG_VALUE_0=* in "
        "run.env, or give the folder to the job's user",
    ),
    cause(
        "git",
        r"fatal: (unable to (?:access|connect to|look up) [^\n]{1,240})"
        r"|error: (RPC failed[^\n]{1,160})|fatal: (early EOF|the remote end hung up[^\n]{0,40}"
        r"|protocol error[^\n]{1,80}|expected flush[^\n]{0,60})",
        "git could not reach the server, or lost the connection: {names}",
        "check the job's network (a NAT device, HTTPS_PROXY) and submit again; `server "
        "certificate` is the certificate of a proxy (GIT_SSL_CAINFO); clone with --depth 1, or put "
        "the code into image.source",
    ),
    cause(
        "download",
        r"(?m:^)(?:[^\n]{0,40} )?curl: (\(\d{1,2}\) [^\n]{1,160})"
        r"|wget: (unable to resolve host[^\n]{0,100})"
        r"|\.\.\. failed: ((?:Connection|Temporary failure|Name or service|No route)[^\n]{1,60})"
        r"|(?m:^)(?:\d{4}-\d\d-\d\d [\d:]{8} )?ERROR ([45]\d\d: [A-Z][^\n]{1,60})",
        "curl or wget could not download a file: {names}",
        "for a name that is not resolved (6), or a server that does not answer (7, 28), check the "
        "job's network: a NAT device, HTTPS_PROXY; 401 and 403 are a login, 404 an address that "
        "has moved, (60) and (77) the certificate of a proxy (CURL_CA_BUNDLE), (23) a full disk; "
        "let the command retry (--retry 5), or read the file from inputs",
    ),
    cause(
        "requirements",
        r"(CondaHTTPError: HTTP (?:000|5\d\d)[^\n]{1,120})|(CondaSSLError[^\n]{0,80})"
        r"|located at (\S{1,100}) is not a trusted or secure host(?=[\s\S]{0,600}?(?:Could not find"
        r"|No matching))|Could not fetch URL (\S{1,120}): There was a problem confirming the ssl"
        r"|(Temporary failure resolving '[^'\n]{1,100}')"
        r"|Could not install packages due to an \w{1,20}: (HTTPS?ConnectionPool[^\n]{1,120})",
        "pip, conda or apt could not reach the server of packages, or does not trust it: {names}",
        "check the job's network (a NAT device, HTTPS_PROXY) and the server in PIP_INDEX_URL or "
        ".condarc: one by http needs PIP_TRUSTED_HOST, the certificate of a proxy PIP_CERT and "
        "REQUESTS_CA_BUNDLE; or install the packages while the image is built (image.python)",
    ),
    cause(
        "sudo",
        r"sudo: (a (?:terminal|password) is required[^\n]{0,60}|no tty present[^\n]{0,60}"
        r"|effective uid is not 0[^\n]{0,60})|(\S{1,60} is not in the sudoers file)",
        "the job's user may not use sudo: {names}",
        "leave sudo out: install system packages in the image (image.apt), and let the image's "
        "user own the folders that it writes",
    ),
)
"""In the order in which they are shown, the most specific first."""

GENERAL_FETCH_CAUSES = (
    cause(
        "storage-missing",
        r"CommandException: ((?:No|One or more) URLs matched[^\n]{0,200})"
        r"|(BucketNotFoundException: [^\n]{1,160})"
        r"|(URLs matched no objects or files:\s[^\n]{1,160})"
        r"|The user-provided path (\S{1,200}) does not exist",
        "a program that copies from or to a bucket did not find what it should copy: {names}",
        "compare the name with a listing of the bucket (its - and _, its version), or with the "
        "job's working directory for a local file; a folder needs `cp -r`, or --recursive",
    ),
    cause(
        "credentials",
        r"(no SAS token or OAuth token is present)|failed to perform copy command[\s\S]{0,400}?"
        r"(AuthenticationFailed|AuthorizationFailure)|(didn't find section in config file)",
        "a program that copies files has no valid login for their storage: {names}",
        "give azcopy a token in the address that has not expired, or AZCOPY_AUTO_LOGIN_TYPE=MSI "
        "for the node's identity; rclone needs its configuration in the container "
        "(RCLONE_CONFIG); or let inputs and outputs copy the files",
    ),
    cause(
        "cpu-binding",
        r"(set_mempolicy: Operation not permitted)|(setting membind: [^\n]{1,60})"
        r"|libnuma: Warning: ((?:node|cpu) argument [^\n]{1,60})"
        r"|(failed to set pid \d{1,9}'s affinity[^\n]{0,60})",
        "a process could not be bound to CPUs or to a node's memory: {names}",
        "bind only to CPUs and memory that the job has (`numactl --show`), or leave numactl and "
        "taskset out; in a container, numactl's memory needs the capability SYS_NICE",
    ),
    cause(
        "no-capacity",
        r"ZONE_RESOURCE_POOL_EXHAUSTED|not have enough resources available to fulfill the request"
        r"|Resources are insufficient in region: ([\w-]{1,40})|CapacityError: Unable to provision"
        r"|InsufficientInstanceCapacity|not have sufficient (\S{1,40}) capacity",
        "the cloud has no machine of this type free at the moment: {names}",
        "submit again later, or name other regions, zones or accelerators; reserved capacity or a "
        "queue of the platform waits for it",
    ),
    cause(
        "git",
        r"(?m:^)fatal: ((?:Remote branch|destination path|pathspec|reference is not|couldn't find "
        r"remote|[Ii]nvalid ref|bad (?:revision|object)|ambiguous argument|No url found|Needed a "
        r"single|Unable to create|cannot |could not |unable to |not a valid|index file|pack|loose "
        r"object|refusing)[^\n]{1,160})|(?m:^)error: (pathspec [^\n]{1,160})",
        "git refused an operation: {names}",
        "correct the branch, tag or folder that it names; a folder that an earlier start left must "
        "be deleted or updated (`git -C FOLDER fetch`) instead of cloned; a shallow clone has no "
        "older commits",
    ),
)
"""For texts of git and of programs around the script without any other cause."""
