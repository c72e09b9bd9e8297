FROM pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime
USER root
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      libaio1 g++ \
 && rm -rf /var/lib/apt/lists/*
COPY rsctl-python /usr/local/bin/
COPY requirements/ /opt/rsctl/requirements/
RUN PIP_BREAK_SYSTEM_PACKAGES=1 rsctl-python -m pip install --no-cache-dir -r /opt/rsctl/requirements/requirements.txt
COPY rsctl-launch /usr/local/bin/
COPY runtime/ /opt/rsctl/
ARG BASE_USER=0
USER ${BASE_USER}
ENTRYPOINT ["rsctl-launch"]
RUN rsctl-launch --check --transport none --launcher torchrun
COPY --chown=${BASE_USER} source/ /app/
WORKDIR /app
