FROM public.ecr.aws/deep-learning-containers/pytorch:2.12-cu130-amzn2023-sagemaker
USER root
# efa: see containers/efa.dockerfile
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
COPY rsctl-python /usr/local/bin/
COPY requirements/ /opt/rsctl/requirements/
RUN --mount=type=cache,target=/root/.cache/pip \
    PIP_BREAK_SYSTEM_PACKAGES=1 rsctl-python -m pip install -r /opt/rsctl/requirements/requirements.txt
COPY rsctl-launch /usr/local/bin/
COPY runtime/ /opt/rsctl/
ARG BASE_USER=0
USER ${BASE_USER}
ENTRYPOINT ["rsctl-launch"]
RUN rsctl-launch --check --transport efa --launcher torchrun
COPY --chown=${BASE_USER} source/ /app/
WORKDIR /app
