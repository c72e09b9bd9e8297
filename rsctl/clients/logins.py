"""How a user logs in to a cloud, in words."""

NO_CREDENTIALS = "credentials-missing"
"""The code of a finding that no cloud credentials are here at all."""

GOOGLE_LOGIN = (
    "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to the "
    "file of a service account"
)
AWS_LOGIN = "run `aws sso login` or `aws configure`, or set AWS_PROFILE to a profile that works"
