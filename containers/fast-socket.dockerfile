# Google's Fast Socket plugin for NCCL over TCP, for target vertex.
#
# source     the apt package google-fast-socket, from the repository of reduction-server
# needs      google-apt, CUDA, an NCCL that takes plugins of version 5 to 7
# conflicts  google-reduction-server, which has a plugin of the same name: it is removed first; efa
# kept       a package that the base brings
RUN set -e; export DEBIAN_FRONTEND=noninteractive; \
    apt-get update; \
    apt-get purge -y google-reduction-server; \
    dpkg -s google-fast-socket >/dev/null 2>&1 \
      || apt-get install -y --no-install-recommends google-fast-socket; \
    rm -rf /var/lib/apt/lists/*; \
    ldconfig
