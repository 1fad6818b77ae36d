# Three images. Dependencies, the compiled CPU backend and the code are separate layers, so that a change of the code
# neither installs nor compiles anything again.
#
#   docker build -t attentive-server .                              serves on CPUs, pulls and imports; without PyTorch
#   docker build -t attentive-server:gpu --target server-gpu .      serves on NVIDIA GPUs, and on CPUs
#   docker build -t attentive-tools --target tools .                the same with what export and calibrate need
#   docker run --rm -p 8000:8000 attentive-server
#   docker run --rm -p 8000:8000 --read-only --tmpfs /tmp -v attentive-data:/data -v attentive-models:/models attentive-server
#
# Packages are installed with the hashes of deploy/requirements (`make lock`). EXTRAS are further extras of pyproject.toml, such as
# ray or torch, in the versions of constraints.txt. PIP_ARGS are further arguments of pip. REVISION is the commit, for the label.

ARG BASE=python:3.11.14-slim-bookworm@sha256:65a93d69fa75478d554f4ad27c85c1e69fa184956261b4301ebaf6dbb0a3543d

FROM ${BASE} AS builder
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PATH=/attentive/venv/bin:$PATH
WORKDIR /build
RUN python3 -m venv /attentive/venv

# What further extras need, without torch, which is installed by itself.
FROM builder AS requirements
ARG EXTRAS=
COPY pyproject.toml deploy/docker/requirements.py ./
RUN python requirements.py "${EXTRAS}" torch > further.txt

FROM builder AS packages
ARG PIP_ARGS=
COPY deploy/requirements/server.txt ./
RUN pip install ${PIP_ARGS} --require-hashes -r server.txt
COPY constraints.txt ./
COPY --from=requirements /build/further.txt ./
RUN pip install ${PIP_ARGS} -c constraints.txt -r further.txt

# For processors without AVX2 and for training. The index of torch for CPUs has no stable hashes.
FROM packages AS packages-cpu
ARG EXTRAS=
ARG PIP_ARGS=
ARG TORCH_CPU_INDEX=https://download.pytorch.org/whl/cpu
RUN case "${EXTRAS}" in *torch*|*train*) pip install ${PIP_ARGS} -c constraints.txt --index-url ${TORCH_CPU_INDEX} torch ;; esac

FROM packages-cpu AS dependencies
RUN pip uninstall --yes pip setuptools && find /attentive/venv -type d -name tests -prune -exec rm -rf {} +

FROM packages-cpu AS dependencies-tools
ARG PIP_ARGS=
COPY deploy/requirements/tools.txt ./
RUN pip install ${PIP_ARGS} --require-hashes -r server.txt -r tools.txt && pip uninstall --yes pip

FROM packages AS dependencies-torch-cuda
ARG PIP_ARGS=
COPY deploy/requirements/gpu.txt ./
RUN pip install ${PIP_ARGS} --require-hashes -r server.txt -r gpu.txt && pip uninstall --yes pip

# The images run on other processors, so the CPU backend is compiled for every instruction set.
FROM builder AS cpu-backend
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
COPY model/__init__.py model/atomic_write.py model/
COPY model/backends/__init__.py model/backends/
COPY model/backends/cpu/__init__.py model/backends/cpu/__main__.py model/backends/cpu/build.py model/backends/cpu/isa.py \
    model/backends/cpu/
COPY model/backends/cpu/csrc model/backends/cpu/csrc
RUN python -m model.backends.cpu build /libraries

FROM builder AS code
ARG PIP_ARGS=
COPY deploy/requirements/build.txt ./
RUN pip install ${PIP_ARGS} --require-hashes -r build.txt
COPY pyproject.toml README.md LICENSE attentive.py ./
COPY model model
COPY server server
COPY training training
RUN pip install --no-deps --no-build-isolation --target /attentive/code .

# Trained or imported weights may be readable only by their owner.
FROM builder AS weights
COPY weights /models
RUN chmod -R a+rX,g=u /models

FROM ${BASE} AS runtime
# The fonts are for pictures with Chinese, Japanese and Korean (wqy), and with scripts of India and others (freefont).
RUN apt-get update \
    && apt-get install -y --no-install-recommends tini fonts-wqy-microhei fonts-freefont-ttf \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 attentive \
    && useradd --uid 10001 --gid attentive --no-create-home --home-dir /data --shell /usr/sbin/nologin attentive \
    && install -d -o attentive -g root -m 775 /data /models /files /attentive/contents
# Any other user of the group root may run it, as OpenShift does. /data and /models are persistent; all other files are written
# to /tmp, so the root may be read-only. A new volume at /models receives the models of the image.
ENV PATH=/attentive/venv/bin:/attentive/code/bin:$PATH \
    PYTHONPATH=/attentive/code \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp \
    ATTENTIVE_HOST=0.0.0.0 \
    ATTENTIVE_PORT=8000 \
    ATTENTIVE_WEIGHTS=/models \
    ATTENTIVE_DATA=/data
WORKDIR /attentive
COPY --from=weights --chown=10001:0 /models /models
COPY deploy/docker/healthcheck.py deploy/docker/sbom.py ./
COPY LICENSE ./
COPY --from=cpu-backend /libraries /attentive/code/model/backends/cpu/csrc
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Attentive" \
    org.opencontainers.image.description="A self-hosted translation server that shows the attention of every translation." \
    org.opencontainers.image.version="0.2.0" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.licenses="MIT AND CC-BY-SA-4.0" \
    org.opencontainers.image.base.name="docker.io/library/python:3.11.14-slim-bookworm"
USER 10001:10001
VOLUME ["/data", "/models"]
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=10s --start-period=60s --retries=3 CMD ["python", "healthcheck.py"]
# tini reaps orphaned processes and forwards SIGTERM to the server, which then drains.
ENTRYPOINT ["tini", "--", "attentive"]
CMD ["serve"]

FROM runtime AS tools
HEALTHCHECK NONE
COPY --from=dependencies-tools /attentive/venv /attentive/venv
COPY --from=code /attentive/code /attentive/code
RUN python sbom.py contents
CMD ["models"]

# Triton compiles its driver at the first use, for which the image has no compiler (model/backends/cuda/device.py). It is
# linked with an empty library in place of NVIDIA's, which only machines with a GPU have; therefore loading it fails here.
FROM dependencies-torch-cuda AS triton-driver
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
RUN mkdir /stub && gcc -shared -x c /dev/null -o /stub/libcuda.so.1 \
    && { TRITON_LIBCUDA_PATH=/stub TRITON_CACHE_DIR=/driver python -c "from triton.backends.nvidia.driver import CudaUtils; CudaUtils()" \
    2>/errors || test -f /driver/*/cuda_utils*.so || { cat /errors; exit 1; }; }

FROM runtime AS server-gpu
# NVIDIA's container toolkit and CDI mount what these name; GKE mounts the driver of the machine in this folder.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility LD_LIBRARY_PATH=/usr/local/nvidia/lib64
COPY --from=dependencies-torch-cuda /attentive/venv /attentive/venv
COPY --from=code /attentive/code /attentive/code
COPY --from=triton-driver /driver /attentive/code/model/backends/cuda/compiled_driver
RUN python sbom.py contents

FROM runtime AS server
COPY --from=dependencies /attentive/venv /attentive/venv
COPY --from=code /attentive/code /attentive/code
RUN python sbom.py contents
