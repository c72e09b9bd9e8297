FROM pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime
USER root
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      libaio1 g++ \
 && rm -rf /var/lib/apt/lists/*
COPY rsctl-python /usr/local/bin/
COPY requirements/ /opt/rsctl/requirements/
RUN --mount=type=cache,target=/root/.cache/pip \
    PIP_BREAK_SYSTEM_PACKAGES=1 rsctl-python -m pip install -r /opt/rsctl/requirements/requirements.txt
ARG BASE_USER=0
USER ${BASE_USER}
COPY --chown=${BASE_USER} source/ /app/
WORKDIR /app
