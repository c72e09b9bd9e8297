FROM python:3.12-slim-bookworm
USER root
COPY rsctl-python /usr/local/bin/
COPY rsctl-launch /usr/local/bin/
COPY runtime/ /opt/rsctl/
ARG BASE_USER=0
USER ${BASE_USER}
ENTRYPOINT ["rsctl-launch"]
RUN rsctl-launch --check --transport none --launcher torchrun
COPY --chown=${BASE_USER} source/ /app/
WORKDIR /app
