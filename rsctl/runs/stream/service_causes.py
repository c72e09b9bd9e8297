"""Causes of failed jobs that concern services: buckets, clouds, model hubs, trackers."""

from __future__ import annotations

from rsctl.known_errors import OTHER_REGION, KnownError


def cause(code: str, pattern: str, summary: str, remedy: str) -> KnownError:
    """A row of the tables: a text in a log, what it means, and the remedy."""
    return KnownError(code, remedy, pattern=pattern, summary=summary)


_AS_CODE = r"(?=Exception|[)('\"<:;]| [({]|\n|$)"
"""Where a code stands in an error: a count of it, or a sentence about it, is not one."""

SERVICE_CAUSES = (
    cause(
        "storage-denied",
        r"does not have [`\[]{0,2}(storage\.(?:objects|buckets)\.\w+)[^\n]{0,60}? (?:access|IAM)"
        r"|Permission '?(storage\.\w{1,40}\.\w{1,40})'? denied"
        r"|PermissionError: (?:Forbidden|Access Denied)()"
        r"|(?<!If the bucket is a )requester pays bucket()"
        r"|\((?:40[13]|AccessDenied|Forbidden|Unauthorized|AllAccessDisabled)\) when calling the "
        r"((?:Get|Put|Head|List|Delete|Create|Copy|Upload|Complete|Abort)\w{0,30}) operation"
        r"|exceptions\.Forbidden: 403 (\w{3,6} https://storage\.\S{1,160})"
        r"|AWS Error ACCESS_DENIED during (\w{1,60}) operation"
        r"|ErrorCode:(Authorization(?:Failure|\w{0,12}Mismatch)|InsufficientAccountPermissions)",
        "the job's account has no permission for this operation in the bucket: {names}",
        "give it that permission: to the job's service account on Google Cloud, to the role on "
        "AWS, to the identity on Azure (Storage Blob Data Contributor), whose firewall must let "
        "it in",
    ),
    cause(
        "storage-missing",
        r"\((?:404|NoSuchKey|NoSuchBucket)\) when calling the (\w{1,60}) operation"
        rf"|(?:NoSuchBucket|NoSuchKey){_AS_CODE}|The specified (?:bucket|key) does not exist"
        r"|No such object: (\S{1,200})|Object (\S{1,200}) not found! Either check"
        r"|404 (?:GET|POST|PUT) https://storage\.googleapis\.com/\S{1,200}"
        r"|ErrorCode:(?:Blob|Container|Filesystem|Path|Share|Resource)NotFound",
        "a bucket, or an object in it, does not exist: {names}",
        "correct its name, with the prefix, and check that what writes it has ended",
    ),
    cause(
        "bucket-region",
        rf"{OTHER_REGION}|\((?:PermanentRedirect|IllegalLocationConstraint\w{{0,12}}"
        r"|AuthorizationHeaderMalformed|301)\) when calling the (\w{1,60})",
        "a bucket is in a different location than the job: {names}",
        "use a bucket in the job's own region, or run the job in the bucket's",
    ),
    cause(
        "scopes",
        r"insufficient authentication scopes|ACCESS_TOKEN_SCOPE_INSUFFICIENT|insufficient_scope",
        "the credentials in the job do not permit this service: their scopes are too narrow",
        "set your own service account (targets.vertex.service_account), or request the scope "
        "https://www.googleapis.com/auth/cloud-platform in the script",
    ),
    cause(
        "denied",
        r"Permission '?((?!storage\.)[a-z]\w{1,40}\.\w{1,60}\.\w{1,60})'? denied (?:on|for) "
        r"|is not authorized to perform:? ([a-z][\w-]{1,40}:\w{1,60})"
        r"|Required '([a-z]\w{1,40}\.\w{1,60}(?:\.\w{1,60})?)' permission for"
        r"|does not have authorization to perform action '([\w./]{1,160})'",
        "the job's account has no permission for this: {names}",
        "give it that permission: to the job's service account on Google Cloud "
        "(roles/aiplatform.user has those of aiplatform), to the role on AWS, by a role "
        "assignment on Azure",
    ),
    cause(
        "hub-access",
        r"GatedRepoError|DisabledRepoError|LocalTokenNotFoundError"
        r"|Xet(?:Authorization|RefreshToken)Error|CAS service error[^\n]{1,80}\(40[13] "
        r"|[Aa]ccess (?:to )?(?:a )?gated repo|(?:401|403) Client Error"
        r"[^\n]{0,200}huggingface|[Mm]ake sure to have access to it at|Invalid user token"
        r"|Invalid credentials in Authorization header"
        r"|Access to model \S{1,200} is restricted",
        "the model hub does not give this model without permission",
        "correct its name: the hub answers the same for one that does not exist, and a folder that "
        "is missing is taken for a name; otherwise accept its licence with your account, and set "
        "its token as a secret: HF_TOKEN in run.env by `${{HF_TOKEN}}`",
    ),
    cause(
        "hub-write",
        r"403 Client Error[^\n]{0,200}huggingface\.co/api/repos/create"
        r"|You don't have the rights to create",
        "the model hub does not let this account write",
        "set a token that may write as the secret HF_TOKEN in run.env, and name a repository of "
        "your own or of an organization that lets you write",
    ),
    cause(
        "hub-limit",
        r"429 (?:Client Error"
        r"|Too Many Requests)(?! - Server message: toomany)[^\n]{0,200}?(?:://([\w.-]{1,100})|$)"
        r"|client error \(429[^\n]{0,200}?://([\w.-]{1,100})"
        r"|HTTP Error 429(): Too Many Requests|too many 429 error responses()",
        "a server allows no more downloads for now: {names}",
        "let one rank of a node download, use a token (HF_TOKEN), or copy the model to a bucket "
        "and read it from inputs",
    ),
    cause(
        "hub-limit",
        r"HTTP Error 403: rate limit exceeded|API rate limit exceeded for",
        "GitHub answers no more requests from this address for now",
        "set the secret GITHUB_TOKEN in run.env, call torch.hub with skip_validation=True, or read "
        "a copy of the repository: torch.hub.load(FOLDER, MODEL, source='local')",
    ),
    cause(
        "throttled",
        r"\((?:Throttling\w{0,20}|SlowDown|RequestLimitExceeded|TooManyRequestsException"
        r"|\w{0,20}ThroughputExceeded\w{0,20})\) when calling the (\w{1,60})"
        r"|Throttling\w{0,20}: Rate exceeded"
        r"|rateLimitExceeded|userRateLimitExceeded|exceptions\.TooManyRequests: 429"
        r"|'Code': '(?:Throttling\w{0,20}|SlowDown)'|Please reduce your request rate"
        r"|ErrorCode:(?:ServerBusy|OperationTimedOut)"
        r"|exceptions\.ResourceExhausted: 429 [^\n]{0,200}(?i:rate|per (?:minute|second|user))",
        "a cloud service limits the rate of calls: {names}",
        "let fewer ranks call it, with increasing pauses (botocore: AWS_RETRY_MODE=adaptive)",
    ),
    cause(
        "hyperparameters",
        r"required hyperparameter\(s\)|[Mm]issing (?:required )?hyper-?parameter"
        r"|(?:[Ee]rror|[Ff]ailed) (?:when |while )?pars(?:ing|e) (?:the )?hyper-?parameter"
        r"|hyperparameter_validation\.py|_deserialize_hyperparameters"
        r"|KeyError: '(sagemaker_\w{1,60})'",
        "a hyperparameter of the algorithm is missing or cannot be read: {names}",
        "correct run.args; algorithms and toolkits of SageMaker read each value as JSON",
    ),
    cause(
        "tracker-key",
        r"api_key not configured \(no-tty\)|API key must be 40 characters",
        "Weights & Biases has no API key in the job",
        "set it as a secret, WANDB_API_KEY in run.env with `${{WANDB_API_KEY}}`, or set "
        "WANDB_MODE=disabled",
    ),
    cause(
        "credentials",
        r"GSS initiate failed|(Failed to find any Kerberos \w{1,20})"
        r"|(SIMPLE authentication is not enabled)|(Client cannot authenticate via:[^\n]{1,60})"
        r"|(?m:^)(kinit: [^\n]{1,120})",
        "Hadoop wants a Kerberos ticket that the job does not have or use: {names}",
        "obtain one before the script (`kinit -kt KEYTAB PRINCIPAL` in run.command), renew it "
        "while the job runs, and let KRB5CCNAME and HADOOP_CONF_DIR name it and the cluster's "
        "configuration in all ranks",
    ),
    cause(
        "credentials",
        r"Unable to locate (?:credentials|authorization token)|NoCredentialsError"
        r"|Your default credentials were not found"
        r"|Could not automatically determine credentials|[Aa]nonymous caller does not have"
        r"|Failed to retrieve http://metadata\.google"
        r"|CredentialUnavailableError|Credential failed to retrieve a token",
        "the job has no credentials for a cloud service",
        "on that cloud, a job uses the credentials of its service account or role; elsewhere, "
        "provide them as secrets in run.env",
    ),
    cause(
        "clock",
        r"Signature (?:expired|not yet current)[^\n]{0,60}is (?:now|still) (?:earlier|later) than"
        r"|RequestTimeTooSkewed|Token used too early|certificate is not yet valid"
        r"|difference between the request time and the (?:current|server)",
        "the clock of the machine is wrong",
        "synchronise it (chrony, ntp): services refuse requests that are minutes off",
    ),
    cause(
        "credentials-invalid",
        r"(?:ExpiredToken|InvalidClientTokenId|UnrecognizedClient|SignatureDoesNotMatch"
        rf"|InvalidAccessKeyId|RequestTimeTooSkewed){_AS_CODE}"
        r"|\(InvalidToken\) when calling|exceptions\.Unauth(?:orized|enticated): 401"
        r"|ErrorCode:(?:AuthenticationFailed|InvalidAuthenticationInfo)"
        r"|security token included in the request is"
        r"|\(400\) when calling the [Hh]ead[Oo]bject"
        r"|RefreshError|invalid_grant|Token has been expired or revoked"
        r"|Reauthentication is needed|Invalid Credentials|invalid authentication credentials",
        "a cloud service does not accept the credentials of the job: wrong, or expired",
        "use the job's service account or role, whose credentials are renewed, rather than keys or "
        "tokens in run.env; a wrong clock on the machine gives this, too",
    ),
    cause(
        "certificate",
        r"CERTIFICATE_VERIFY_FAILED|x509: certificate signed by unknown authority"
        r"|server certificate verification failed|SSL certificate problem: ",
        "a server's certificate is not trusted",
        "add the certificate of your network's proxy to the image, and set REQUESTS_CA_BUNDLE and "
        "SSL_CERT_FILE in run.env",
    ),
    cause(
        "tls",
        r"SSLError\(\d{1,3}, '([^'\n]{1,120})'"
        r"|\bSSLError: (\[[^\n]{1,120})|SSLEOFError\w{0,9}\W{1,2}([^\n]{1,80})"
        r"|(SSL_ERROR_\w{1,40})",
        "an encrypted connection (TLS) to a server failed: {names}",
        "a proxy on the way, or an old OpenSSL of the image, may break it: set HTTPS_PROXY and "
        "NO_PROXY in run.env as your network wants, and use a newer image.base; try again later",
    ),
    cause(
        "service-unavailable",
        r"Internal error occurred for the current attempt|InternalServerError: We encountered",
        "the platform itself failed, before or while it ran the job",
        "submit again, also in another region or with another machine type; if each start ends so, "
        "reduce the job to its image and a short command, and give the platform's support its name",
    ),
    cause(
        "service-unavailable",
        r"(?<!\d)50[0234],? (?:Server Error|Service Unavailable|Bad Gateway|Gateway Time-?out"
        r"|Internal Server Error|(?:GET|POST|PUT) https)"
        r"|too many 5\d\d error responses"
        r"|\((?:ServiceUnavailable|InternalError|RequestTimeout|50[0234])\) when "
        r"calling the (\w{1,60})",
        "a service was unavailable: {names}",
        "submit again; let the script retry with increasing pauses; limits.retries resumes the "
        "job; if the job itself runs the server, see its log",
    ),
    cause(
        "file-system",
        r"Stale (?:NFS )?file handle(?:: '([^'\n]{1,200}))?|\[Errno 116\]()",
        "a file or folder on a network file system was deleted or replaced by another process "
        "while this one had it open: {names}",
        "let one process write it, and write under another name before it is renamed; keep caches "
        "on a local disk (HF_HOME, HF_DATASETS_CACHE and TRITON_CACHE_DIR below /tmp); if all "
        "files there fail, its server was restarted: mount it again, or use another node",
    ),
    cause(
        "file-system",
        r"\[Errno (?:5|74|117|121)\] [A-Z][\w /]{4,40}(?:: '([^'\n]{1,200}))?"
        r"|\[Errno 112\] Host is down: '([^'\n]{1,200})"
        r"|\[Errno 110\] Connection timed out: '(/[^'\n]{1,200})"
        r"|(?<! - Cannot send after )[Tt]ransport endpoint shutdown(?:: '([^'\n]{1,200}))?"
        r"|(?m:^)(?:/\S{1,60}/)?[a-z]\w{1,15}: ([^\n]{1,200}: (?:Input/output|Remote I/O) error)",
        "a disk or a network file system could not be read or written: {names}",
        "submit again on another node, and let fewer processes read and write at the same time; "
        "`dmesg` and `df` on the node show whether its disk or mount failed; a full disk or a "
        "quota of a file server gives this, too",
    ),
    cause(
        "file-system",
        r"Device or resource busy: \W{0,3}([^'\n]{0,160}\.nfs\w{1,40})",
        "a folder on NFS cannot be deleted while a process has a file of it open: {names}",
        "close the files before the folder is deleted, put temporary folders on a local disk "
        "(TMPDIR below /tmp), or delete with ignore_errors=True",
    ),
    cause(
        "file-permission",
        r"\[Errno (?:13|30)\] (?:Permission denied|Read-only file system): '([^'\n]{1,200})'"
        r"|(?m:^)(?:/\S{1,40}/)?(?:mkdir|cp|mv|ln|rm|rmdir|touch|ch(?:mod|own)|tee|install|mktemp"
        r"|cat|ls|tar|rsync|unzip): [^\n]{0,120}?['\u2018 ]"
        r"([/.~\w][^'\u2019\n:]{1,200})['\u2019]?: "
        r"(?:Permission denied|Read-only file system|Operation not permitted)"
        r"|cannot create directory '?\u2018?([^'\u2019\n]{1,200})'?\u2019?: (?:Permission denied"
        r"|Read-only)|OSError: \[Errno 30\] Read-only file system()",
        "the job's user may not read or write this path: {names}",
        "write into the outputs or below /tmp, as mounts may be read-only; set HF_HOME, "
        "XDG_CACHE_HOME and TRITON_CACHE_DIR in run.env for caches; check the user of the image "
        "and the owner of mounted folders",
    ),
    cause(
        "mount",
        r"(Bad credentials for bucket[^\n]{0,80})"
        r"|ERROR (Unable to access '[^'\n]{1,80}': [^\n]{1,60})"
        r"|s3fs: (could not determine how to establish [^\n]{1,60}|[^\n]{0,60}invalid credentials"
        r"[^\n]{0,60})|mount command failed: ([^\n]{0,60}(?:authenticat|credential)[^\n]{1,60})",
        "the program that mounts a bucket may not read it, or has no credentials: {names}",
        "let the platform mount it (inputs), or give the job's role or service account access to "
        "the bucket; check its name and region, and the variables or file of keys in the container",
    ),
    cause(
        "mount",
        r"(?:(?m:^)|mount helper error: )(?:/\S{1,40}/)?((?:mount(?:\.\w{1,12})?|fusermount3?"
        r"|s3fs|goofys|blobfuse2?|sshfs|fuse)"
        r": [^\n]{0,120}(?:Input/output|failed: |denied|not permitted|timed out|not found|refused"
        r"|wrong fs|No such|bad option|unknown|unreachable)[^\n]{0,80})",
        "a file system could not be mounted: {names}",
        "let the platform mount or copy it (inputs); in a container, mounting needs root, "
        "/dev/fuse and the capability SYS_ADMIN; otherwise check the server's name, what it "
        "exports, and the firewall between it and the node",
    ),
    cause(
        "mount",
        r"(?<!what\(\):  )[Tt]ransport endpoint is not connected(?=: ['\"/])"
        r"|['\"/][^\n]{1,200}: Transport endpoint is not connected"
        r"|fuse: [^\n]{0,60}\*fuseops\.(\w{1,40} error: "
        r"[^\n]{1,100})",
        "a mounted bucket failed: gcsfuse, or a similar program, has ended or got no data: {names}",
        "check that the node has free memory; let fewer processes read at the same time, or set "
        "mode: copy for the input",
    ),
    cause(
        "proxy",
        r"Tunnel connection failed: (407[^\n'\"]{0,60})",
        "the proxy on the way to a server wants a login: {names}",
        "set HTTPS_PROXY in run.env, from a secret, to http://USER:PASSWORD@HOST:PORT, with "
        "special characters in percent encoding",
    ),
    cause(
        "proxy",
        r"Tunnel connection failed: (403[^\n'\"]{0,60})",
        "the proxy on the way to a server does not permit that server: {names}",
        "let its administrator permit it, name a mirror inside the network (HF_ENDPOINT, "
        "PIP_INDEX_URL), or bring the files before: inputs, and HF_HUB_OFFLINE=1",
    ),
    cause(
        "proxy",
        r"ProxyError\('([^'\n]{1,100})|Tunnel connection failed: ([^\n'\"]{1,100})",
        "the proxy on the way to a server cannot be used: {names}",
        "correct HTTPS_PROXY, HTTP_PROXY and NO_PROXY in run.env, or in the image",
    ),
    cause(
        "cloud-call",
        r"endpoint URL: \"https?://[\w.-]{0,120}?\b(?:s3|sts|sagemaker|logs)\."
        r"(?![a-z]{2,3}(?:-[a-z]{2,9}){1,3}-\d\.)([\w-]{1,40})\.amazonaws\.com",
        "AWS has no region of this name: {names}",
        "set AWS_DEFAULT_REGION in run.env to a region, such as us-east-1, and the same in the "
        "configuration of the script",
    ),
    cause(
        "network",
        r"host='(localhost|127\.0\.0\.1)', port=\d{1,5}\): Max retries exceeded"
        r"|(?:Cannot connect to host|Error 111 connecting to|connection to server at) "
        r"\"?(localhost|127\.0\.0\.1)\b",
        "no server answers at an address that stands for the node itself: {names}",
        "give the script an address of the server that the nodes can reach, such as "
        "MLFLOW_TRACKING_URI for MLflow, or start the server in run.command before the script; "
        "a job cannot reach a server on your own machine by localhost",
    ),
    cause(
        "network",
        r"(?<!gai error: -3 - )Temporary failure in name resolution"
        r"|Could not resolve host:? ?([\w.-]{0,120})"
        r"|Failed to resolve '([^'\n]{1,120})'|getaddrinfo failed"
        r"|(?<!gai error: -2 - )Name or service not known|No address associated with hostname"
        r"|dial tcp: lookup (\S{1,120})[^\n]{0,60}no such host",
        "the job cannot resolve the name of a server: {names}",
        "check the name, and the job's network and DNS (/etc/resolv.conf): subnets need a NAT "
        "device or an endpoint of the service, nodes without internet a proxy (HTTPS_PROXY) or "
        "files that were copied before (inputs, HF_HUB_OFFLINE=1); with network isolation a job "
        "has no network at all",
    ),
    cause(
        "network",
        r"<urlopen error (?!\[SSL)"
        r"|Connect timeout on endpoint URL|Could not connect to the endpoint URL"
        r"|Max retries exceeded with url"
        r"|EndpointConnectionError|ClientConnector\w{0,20}Error"
        r"|httpx\.Connect\w{1,20}|httpcore\.Connect(?:Error|Timeout)"
        r"|dial tcp[^\n]{0,100}(?:i/o timeout|connection refused)"
        r"|TLS handshake timeout|request canceled while waiting for connection"
        r"|ServiceUnavailable: 503 failed to connect to all addresses",
        "a server on the network cannot be reached",
        "check the job's network: subnets need a NAT device or an endpoint of the service; with "
        "network isolation a job has no network at all",
    ),
    cause(
        "connection-lost",
        r"ServerDisconnectedError|ClientPayloadError|ChunkedEncodingError|IncompleteRead\("
        r"|RemoteDisconnected|httpx\.(?:Read|Remote|Write|Pool)\w{1,20}"
        r"|httpcore\.(?!Connect)\w{1,30}(?:Error|Timeout)|\('Connection aborted\.'|Read timed out"
        r"|Read timeout on endpoint|botocore\.exceptions\.(?:ConnectionClosed|ReadTimeout"
        r"|ResponseStreaming|HTTPClient)Error|Connection was closed before we received"
        r"|FSTimeoutError|ServerTimeoutError|ConnectionTimeoutError|SocketTimeoutError"
        r"|requests\.exceptions\.(?:\w{0,10}Timeout|ConnectionError)"
        r"|urllib3\.exceptions\.(?:Protocol|ReadTimeout)Error|ServiceRe(?:quest|sponse)(?:Timeout)?"
        r"Error: |[Tt]he read operation timed out|TimeoutError: timed out|Deadline of \S{1,12} "
        r"exceeded while calling",
        "a server closed a connection, or did not answer in time",
        "submit again; let fewer ranks and workers read at the same time, and let the client retry "
        "with a longer timeout (HF_HUB_DOWNLOAD_TIMEOUT, AWS_MAX_ATTEMPTS with "
        "AWS_RETRY_MODE=adaptive); with mode: copy, inputs are read before the script starts",
    ),
)
"""In the order in which they are shown."""

GENERAL_SERVICE_CAUSES = (
    cause(
        "storage-key",
        r"\((KMS\.\w{1,60})\) when calling|(Cloud KMS [^\n]{1,160})",
        "the key that encrypts the bucket cannot be used: {names}",
        "enable the key, and give the job's role or service account permission to decrypt with it",
    ),
    cause(
        "credentials-invalid",
        r"botocore\.exceptions\.(\w{0,40}(?:Credential|Token|SSO|Login|Profile|Metadata"
        r"|Auth)\w{0,40}"
        r": [^\n]{1,160})",
        "boto3 found no complete credentials, or could not renew them: {names}",
        "use the job's role, whose credentials are renewed; remove AWS_PROFILE and parts of keys "
        "from run.env and the image: both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and a "
        "session's token with them",
    ),
    cause(
        "network",
        r"botocore\.exceptions\.((?:HTTPClient|Connection|Endpoint|Proxy|SSL|\w{0,10}Timeout)"
        r"\w{0,20}Error: [^\n]{1,160})",
        "a server of AWS cannot be reached: {names}",
        "check the job's network: subnets need a NAT device or an endpoint of the service; a proxy "
        "needs HTTPS_PROXY, NO_PROXY and its certificate (AWS_CA_BUNDLE) in run.env",
    ),
    cause(
        "credentials-invalid",
        r"(?m:^)google\.auth\.exceptions\.(\w{1,60}Error: [^\n]{1,160})",
        "Google's client found no valid credentials, or could not obtain a token: {names}",
        "use the job's service account; correct the file that GOOGLE_APPLICATION_CREDENTIALS "
        "names, or remove that variable from run.env and the image; metadata.google.internal must "
        "be reachable without a proxy (NO_PROXY)",
    ),
    cause(
        "cloud-call",
        r"botocore\.exceptions\.((?!ClientError)\w{1,60}: [^\n]{1,160}"
        r"(?:(?<=failed:)\n[^\n]{1,160})?)",
        "boto3 refuses the call of the script, or its configuration: {names}",
        "correct the parameter that the message names; set the region (AWS_DEFAULT_REGION) in "
        "run.env, and use a version of boto3 that knows the service and the operation",
    ),
    cause(
        "cloud-call",
        r"(?:AccessDenied|Service)Exception: (\d{3} [^\n]{0,160})"
        r"|(?:HfHubHTTPError|HTTPError): (?:HTTP Error )?(\d{3}:? [^\n]{0,160})"
        r"|(\d{3} (?:Client|Server) Error: [^\n]{1,160})",
        "a service refused a call of the job: {names}",
        "correct what the message names; 401 and 403 are credentials and permissions, 404 is a "
        "name or an address that has moved, 429 and 5xx go away with retries",
    ),
    cause(
        "script-failed",
        r"ExecuteUserScriptError(?:[\s\S]{0,300}?ErrorMessage \"([^\n\"]{1,200}))?",
        "SageMaker's toolkit says only that the script failed: {names}",
        "see the script's own error before it, in the log of the replica that failed first; if "
        "the script wrote no error, it was probably killed: compare the node's memory in `rsctl "
        "metrics`",
    ),
)
"""For texts without any other cause."""
