"""Host names of the clouds' registries, as regular expressions of whole names."""

ECR = (
    r"(?P<account>[0-9]{12})\.dkr[.-]ecr(?P<fips>-fips)?\.(?P<region>[a-z0-9][a-z0-9-]*)"
    r"\.(?:amazonaws\.com(?:\.cn)?|amazonaws\.eu|on\.aws|on\.amazonwebservices\.com\.cn"
    r"|sc2s\.sgov\.gov|c2s\.ic\.gov|cloud\.adc-e\.uk|csp\.hci\.ic\.gov)"
)
"""The hosts that Amazon's own credential helper for docker knows, dual-stack ones included."""
ARTIFACT_REGISTRY = r"(?P<location>[a-z0-9-]+)-docker\.pkg\.dev"
ECR_PUBLIC = r"public\.ecr\.aws"
GCR = r"(?:[a-z]+\.)?gcr\.io"
