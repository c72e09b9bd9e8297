FROM python:3.12-slim-bookworm
USER root
ENV A="a b"
ENV QUOTES="'\"\\ \$HOME `id` #"
ENV EMPTY=""
RUN rm -f /etc/apt/sources.list.d/cuda.list
RUN echo "$A" > "/etc/a b" && [ -s x ]
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      git \
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
