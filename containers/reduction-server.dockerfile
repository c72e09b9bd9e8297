# Google's Reduction Server plugin for NCCL, for target vertex.
#
# source     the apt package google-reduction-server, as in Vertex AI's documentation
# needs      google-apt, CUDA, NCCL 2.7 or later
# conflicts  google-fast-socket, which has a plugin of the same name: it is removed first; efa
# kept       a package that the base brings
# unproven   with CUDA 12 and NCCL 2.18 or later: no sample of Google's shows it there
RUN set -e; export DEBIAN_FRONTEND=noninteractive; \
    apt-get update; \
    apt-get purge -y google-fast-socket; \
    dpkg -s google-reduction-server >/dev/null 2>&1 \
      || apt-get install -y --no-install-recommends google-reduction-server; \
    rm -rf /var/lib/apt/lists/*; \
    ldconfig
