# The Elastic Fabric Adapter's libfabric and its plugin for NCCL (aws-ofi-nccl), for target sagemaker.
#
# source     AWS's EFA installer, which bundles aws-ofi-nccl from 1.38 on; version and options as in
#            the Dockerfiles of AWS's deep-learning containers; it runs as root, so what came is
#            compared with the SHA-256 that ai-dynamo/dynamo and others pin for this version
# needs      a Debian, Ubuntu or Amazon Linux base on amd64, CUDA
# conflicts  google-fast-socket, google-reduction-server
# kept       an installation that the base brings, as AWS's own images do, and those built like the
#            Megatron and NeMo images of aws-samples/awsome-distributed-training, which compile the
#            plugin into /opt/aws-ofi-nccl/install
# settings   none: AWS's advice for libfabric 1.18 and the plugin 1.7 or later is to set no FI_* and
#            no NCCL_* variable
RUN set -e; export DEBIAN_FRONTEND=noninteractive; \
    if find /opt/amazon/ofi-nccl /opt/aws-ofi-nccl -name 'libnccl-net*.so' 2>/dev/null \
         | grep -qv /.libs/; then \
      echo "rsctl: kept the EFA software that the base brings"; exit 0; fi; \
    command -v curl >/dev/null \
      || { apt-get update; apt-get install -y --no-install-recommends ca-certificates curl; }; \
    mkdir /tmp/efa; cd /tmp/efa; \
    curl -fsSL -o efa.tar.gz https://s3-us-west-2.amazonaws.com/aws-efa-installer/aws-efa-installer-1.49.0.tar.gz; \
    echo "cf2e9281a2328a243c76f911a490faed43ca0fecfe4733c25e34b2e92a32c309  efa.tar.gz" | sha256sum -c -; \
    tar -xzf efa.tar.gz; cd aws-efa-installer; \
    ./efa_installer.sh -y --skip-kmod --skip-limit-conf --no-verify --disable-ngc; \
    rm -rf /tmp/efa /var/lib/apt/lists/*
# NCCL asks the loader for libnccl-net.so, which newer installers name libnccl-net-ofi.so; the plugin
# asks for libcudart.so, which images without CUDA's development files have by its full name only.
RUN set -e; \
    plugin=$(find /opt/amazon/ofi-nccl /opt/aws-ofi-nccl -name 'libnccl-net*.so' 2>/dev/null \
      | grep -v /.libs/ | sort | head -n 1); \
    cd "$(dirname "$plugin")"; \
    [ -e libnccl-net.so ] || ln -s libnccl-net-ofi.so libnccl-net.so; \
    ldconfig -p | grep -q 'libcudart\.so ' \
      || find / -xdev -name 'libcudart.so.*' -exec ln -sf {} libcudart.so ';' -quit; \
    { pwd; find /opt/amazon -maxdepth 2 -path '*/efa/lib*' 2>/dev/null || :; } \
      > /etc/ld.so.conf.d/rsctl-efa.conf; \
    ldconfig
