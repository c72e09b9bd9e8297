# Google's apt repository of NCCL plugins, for reduction-server and fast-socket.
#
# source     Vertex AI's documentation of distributed training
# needs      a Debian or Ubuntu base on amd64
# differs    from the documented recipe in the keyring: its apt-key is gone from current bases
# replaces   an entry of it that the base brings, with whatever key
RUN set -e; export DEBIAN_FRONTEND=noninteractive; \
    grep -ls 'apt google-fast-socket' /etc/apt/sources.list.d/* | xargs -r rm; \
    apt-get update; \
    apt-get install -y --no-install-recommends ca-certificates curl gnupg; \
    curl -fsSL -o /tmp/google.key https://packages.cloud.google.com/apt/doc/apt-key.gpg; \
    gpg --batch --yes --dearmor -o /usr/share/keyrings/google-fast-socket.gpg /tmp/google.key; \
    echo "deb [signed-by=/usr/share/keyrings/google-fast-socket.gpg] https://packages.cloud.google.com/apt google-fast-socket main" \
      > /etc/apt/sources.list.d/google-fast-socket.list; \
    rm -rf /tmp/google.key /var/lib/apt/lists/*
