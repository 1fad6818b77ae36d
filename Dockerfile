# Three images. Dependencies, the compiled CPU backend and the code are separate layers, so that a change of the code
# neither installs nor compiles anything again.
#
#   docker build -t attentive-server .                              serves on CPUs; without PyTorch
#   docker build -t attentive-server:gpu --target server-gpu .      serves on NVIDIA GPUs, and on CPUs
#   docker build -t attentive-tools --target tools .                pull, import, export, calibrate; PyTorch for CPUs
#   docker run --rm -p 8000:8000 --read-only --tmpfs /tmp -v attentive-data:/data -v attentive-models:/models attentive-server
#
# EXTRAS are the extras of pyproject.toml to install. PIP_ARGS are further arguments of pip.

ARG PYTHON=3.11.14

FROM python:${PYTHON}-bookworm AS builder
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PATH=/attentive/venv/bin:$PATH
WORKDIR /build
RUN python3 -m venv /attentive/venv

# Only training, import and GPUs need the packages that are left out of serving.txt.
FROM builder AS requirements
ARG EXTRAS=redis,otel
COPY pyproject.toml deploy/docker/requirements.py ./
RUN python requirements.py "${EXTRAS}" torch > serving.txt && python requirements.py "${EXTRAS}" > all.txt

FROM builder AS dependencies
ARG PIP_ARGS=
COPY constraints.txt ./
COPY --from=requirements /build/serving.txt ./
RUN pip install ${PIP_ARGS} -c constraints.txt -r serving.txt && pip uninstall --yes pip setuptools

FROM builder AS dependencies-torch-cpu
ARG PIP_ARGS=
ARG TORCH_CPU_INDEX=https://download.pytorch.org/whl/cpu
COPY constraints.txt ./
RUN pip install ${PIP_ARGS} -c constraints.txt --index-url ${TORCH_CPU_INDEX} torch
COPY --from=requirements /build/all.txt ./
RUN pip install ${PIP_ARGS} -c constraints.txt -r all.txt && pip uninstall --yes pip setuptools

FROM builder AS dependencies-torch-cuda
ARG PIP_ARGS=
COPY constraints.txt ./
COPY --from=requirements /build/all.txt ./
RUN pip install ${PIP_ARGS} -c constraints.txt -r all.txt && pip uninstall --yes pip setuptools

# The images run on other processors, so the CPU backend is compiled for every instruction set.
FROM builder AS cpu-backend
COPY model/__init__.py model/
COPY model/backends/__init__.py model/backends/
COPY model/backends/cpu/__init__.py model/backends/cpu/__main__.py model/backends/cpu/build.py model/backends/cpu/isa.py \
    model/backends/cpu/
COPY model/backends/cpu/csrc model/backends/cpu/csrc
RUN python -m model.backends.cpu build /libraries

FROM builder AS code
ARG PIP_ARGS=
RUN pip install ${PIP_ARGS} "setuptools>=77"
COPY pyproject.toml README.md LICENSE ./
COPY model model
COPY server server
RUN pip install --no-deps --no-build-isolation --target /attentive/code .

# Trained or imported weights may be readable only by their owner.
FROM builder AS weights
COPY weights /models
RUN chmod -R a+rX /models

FROM python:${PYTHON}-slim-bookworm AS runtime
# The fonts are for pictures with Chinese, Japanese and Korean (wqy), and with scripts of India and others (freefont).
RUN apt-get update \
    && apt-get install -y --no-install-recommends tini fonts-wqy-microhei fonts-freefont-ttf \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 attentive \
    && useradd --uid 10001 --gid attentive --no-create-home --home-dir /data --shell /usr/sbin/nologin attentive \
    && install -d -o attentive -g attentive /data /models /files
# /data and /models are persistent; all other files are written to /tmp, so the root may be read-only. A new volume at
# /models receives the models of the image.
ENV PATH=/attentive/venv/bin:/attentive/code/bin:$PATH \
    PYTHONPATH=/attentive/code \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp \
    ATTENTIVE_HOST=0.0.0.0 \
    ATTENTIVE_PORT=8000 \
    ATTENTIVE_WEIGHTS=/models \
    ATTENTIVE_DATA=/data
WORKDIR /attentive
COPY --from=weights --chown=10001:10001 /models /models
COPY deploy/docker/healthcheck.py ./
COPY --from=cpu-backend /libraries /attentive/code/model/backends/cpu/csrc
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
COPY --from=dependencies-torch-cpu /attentive/venv /attentive/venv
COPY --from=code /attentive/code /attentive/code
CMD ["models"]

FROM runtime AS server-gpu
COPY --from=dependencies-torch-cuda /attentive/venv /attentive/venv
COPY --from=code /attentive/code /attentive/code

FROM runtime AS server
COPY --from=dependencies /attentive/venv /attentive/venv
COPY --from=code /attentive/code /attentive/code
