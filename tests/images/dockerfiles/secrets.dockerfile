FROM pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime
USER root
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      libaio1 g++ \
 && rm -rf /var/lib/apt/lists/*
COPY rsctl-python /usr/local/bin/
COPY requirements/ /opt/rsctl/requirements/
RUN --mount=type=cache,target=/root/.cache/pip \
    --mount=type=secret,id=GIT_TOKEN,required=true \
    --mount=type=secret,id=PIP_INDEX_URL,required=true \
    export GIT_TOKEN="$(cat /run/secrets/GIT_TOKEN)" && \
    export PIP_INDEX_URL="$(cat /run/secrets/PIP_INDEX_URL)" && \
    PIP_BREAK_SYSTEM_PACKAGES=1 rsctl-python -m pip install -r /opt/rsctl/requirements/requirements.txt
COPY rsctl-launch /usr/local/bin/
COPY runtime/ /opt/rsctl/
ARG BASE_USER=0
USER ${BASE_USER}
ENTRYPOINT ["rsctl-launch"]
RUN rsctl-launch --check --transport none --launcher torchrun
COPY --chown=${BASE_USER} source/ /app/
WORKDIR /app
