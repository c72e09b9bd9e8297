"""Jobs as the vendors' own SDKs have them: for notebooks, and for people who go on without rsctl.

    from rsctl.sdk.vertex import custom_job         # google-cloud-aiplatform
    from rsctl.sdk.sagemaker import model_trainer   # sagemaker, version 3

Both need the extra `sdk`, and the job's image in its registry: `rsctl build-image JOB --push`.
What is made of a job is the request that `rsctl plan` shows. `rsctl plan -o python` prints the
same as code.
"""
