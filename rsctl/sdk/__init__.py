"""Jobs as the vendors' own SDKs have them: for notebooks, and for people who go on without rsctl.

    from rsctl.sdk.vertex import custom_job         # google-cloud-aiplatform
    from rsctl.sdk.sagemaker import model_trainer   # sagemaker, version 3
    from rsctl.sdk.sagemaker import estimator       # sagemaker, version 2, for run.package

The first two need the extra `sdk`, and all the job's image in its registry:
`rsctl build-image JOB --push`.
What is made of a job is the request that `rsctl plan` shows. `rsctl plan -o python` prints the
same as code.
"""
