FROM us-docker.pkg.dev/deeplearning-platform-release/gcr.io/pytorch-cu121.2-2.py310
USER root
# fast-socket: see containers/fast-socket.dockerfile
ARG RSCTL_PLUGIN=google-fast-socket
ARG RSCTL_OTHER_PLUGIN=google-reduction-server
# google-plugin: see containers/google-plugin.dockerfile
RUN set -e; export DEBIAN_FRONTEND=noninteractive; \
    if dpkg -s "$RSCTL_OTHER_PLUGIN" >/dev/null 2>&1; then apt-get purge -y "$RSCTL_OTHER_PLUGIN"; fi; \
    if ! dpkg -s "$RSCTL_PLUGIN" >/dev/null 2>&1; then \
      grep -ls 'apt google-fast-socket' /etc/apt/sources.list.d/* | xargs -r rm; \
      apt-get update; \
      apt-get install -y --no-install-recommends ca-certificates curl gnupg; \
      curl -fsSL -o /tmp/google.key https://packages.cloud.google.com/apt/doc/apt-key.gpg; \
      gpg --batch --yes --dearmor -o /usr/share/keyrings/google-fast-socket.gpg /tmp/google.key; \
      echo "deb [signed-by=/usr/share/keyrings/google-fast-socket.gpg] https://packages.cloud.google.com/apt google-fast-socket main" \
        > /etc/apt/sources.list.d/google-fast-socket.list; \
      apt-get update; \
      apt-get install -y --no-install-recommends "$RSCTL_PLUGIN"; \
      rm -rf /tmp/google.key /var/lib/apt/lists/*; \
    fi; \
    ldconfig
COPY rsctl-python /usr/local/bin/
COPY rsctl-launch /usr/local/bin/
COPY runtime/ /opt/rsctl/
ARG BASE_USER=0
USER ${BASE_USER}
ENTRYPOINT ["rsctl-launch"]
RUN rsctl-launch --check --transport fast-socket --launcher torchrun
COPY --chown=${BASE_USER} source/ /app/
WORKDIR /app
