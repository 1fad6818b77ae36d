# Two stages: the first builds everything, the second runs it as an unprivileged user.
#
#   docker build -t attentive-server .
#   docker build -t attentive-server --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cpu .   (small, CPU only)
#   docker run --rm -p 8000:8000 --read-only --tmpfs /tmp -v attentive-data:/data attentive-server

ARG PYTHON=3.11.14

FROM python:${PYTHON}-bookworm AS builder
ARG TORCH_INDEX=
ARG PIP_ARGS=
ARG EXTRAS=
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
RUN python -m venv /attentive/venv
ENV PATH=/attentive/venv/bin:$PATH
# Layers that change rarely come first: torch, the other dependencies, the code.
COPY constraints.txt ./
RUN pip install ${PIP_ARGS} -c constraints.txt ${TORCH_INDEX:+--index-url ${TORCH_INDEX}} torch
COPY pyproject.toml ./
RUN python -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['dependencies'], sep='\n')" \
    > requirements.txt && pip install ${PIP_ARGS} -c constraints.txt -r requirements.txt
COPY README.md LICENSE ./
COPY model model
COPY server server
RUN pip install ${PIP_ARGS} -c constraints.txt ".${EXTRAS:+[${EXTRAS}]}"
# The runtime stage has no compiler, and the image runs on other processors, so the CPU backend is compiled for every instruction
# set here. If it cannot be compiled, the server uses torch.
WORKDIR /
RUN python -m model.backends.cpu build || echo "This image has no CPU backend."
# Trained or imported weights may be readable only by their owner.
COPY weights /attentive/weights
RUN chmod -R a+rX /attentive/weights

FROM python:${PYTHON}-slim-bookworm
# The fonts are for pictures with Chinese, Japanese and Korean (wqy), and with scripts of India and others (freefont).
RUN apt-get update \
    && apt-get install -y --no-install-recommends tini fonts-wqy-microhei fonts-freefont-ttf \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 attentive \
    && useradd --uid 10001 --gid attentive --no-create-home --home-dir /data --shell /usr/sbin/nologin attentive \
    && install -d -o attentive -g attentive /data
COPY --from=builder /attentive/venv /attentive/venv
COPY --from=builder /attentive/weights /attentive/weights
# /data is persistent; all other files are written to /tmp, so the root may be read-only.
ENV PATH=/attentive/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/tmp \
    ATTENTIVE_HOST=0.0.0.0 \
    ATTENTIVE_PORT=8000 \
    ATTENTIVE_WEIGHTS=/attentive/weights \
    ATTENTIVE_DATA=/data
WORKDIR /attentive
USER 10001:10001
VOLUME /data
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import http.client, os, sys; \
c = http.client.HTTPConnection('127.0.0.1', int(os.environ['ATTENTIVE_PORT']), timeout=4); \
c.request('GET', '/ready'); sys.exit(c.getresponse().status != 200)"]
# tini reaps orphaned processes and forwards SIGTERM to the server, which then drains.
ENTRYPOINT ["tini", "--", "attentive"]
CMD ["serve"]
