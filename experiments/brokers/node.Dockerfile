# SPDX-License-Identifier: Apache-2.0
# A broker on Debian's Node.js: its folder's packages as the lock has their hashes, and its serve.js. Context: the repository.
ARG BASE_IMAGE=debian:trixie-slim

FROM ${BASE_IMAGE} AS packages
ARG KIND
RUN apt-get update && apt-get install -y --no-install-recommends nodejs npm ca-certificates && rm -rf /var/lib/apt/lists/*
WORKDIR /broker
COPY experiments/brokers/${KIND}/package.json experiments/brokers/${KIND}/package-lock.json ./
# The secret is the host's CA bundle, for hosts behind an inspecting proxy; empty elsewhere.
RUN --mount=type=secret,id=ca \
    if [ -s /run/secrets/ca ]; then export NODE_EXTRA_CA_CERTS=/run/secrets/ca; fi; \
    npm ci --omit=dev --ignore-scripts --no-audit --no-fund

FROM ${BASE_IMAGE}
ARG KIND
RUN apt-get update && apt-get install -y --no-install-recommends nodejs && rm -rf /var/lib/apt/lists/*
COPY --from=packages /broker/node_modules /broker/node_modules
COPY experiments/brokers/${KIND}/serve.js experiments/brokers/${KIND}/*.json /broker/
USER 65534:65534
ENTRYPOINT ["node", "/broker/serve.js"]
CMD ["/broker/nodelay.json"]
