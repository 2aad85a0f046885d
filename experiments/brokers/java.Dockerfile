# SPDX-License-Identifier: Apache-2.0
# A broker on Debian's Java: its folder's packages by Maven, each held against the hash in jars.sha256, and its own Java,
# where it has some, compiled. Its one argument is a configuration under /broker. Build context: the repository.
ARG BASE_IMAGE=debian:trixie-slim

FROM ${BASE_IMAGE} AS packages
RUN apt-get update && apt-get install -y --no-install-recommends maven default-jdk-headless openssl ca-certificates && rm -rf /var/lib/apt/lists/*
WORKDIR /broker
ARG KIND
COPY experiments/brokers/${KIND}/pom.xml experiments/brokers/${KIND}/jars.sha256 ./
# The secret is the host's CA bundle, for hosts behind an inspecting proxy; empty elsewhere. Java wants a store of its own.
RUN --mount=type=secret,id=ca \
    if [ -s /run/secrets/ca ]; then \
        openssl pkcs12 -export -nokeys -in /run/secrets/ca -out /ca.p12 -passout pass:public -jdktrust anyExtendedKeyUsage; \
        export MAVEN_OPTS="-Djavax.net.ssl.trustStore=/ca.p12 -Djavax.net.ssl.trustStorePassword=public"; \
    fi; \
    mvn -q -B dependency:copy-dependencies -DoutputDirectory=lib -DincludeScope=runtime && \
    cd lib && sha256sum --quiet --check --strict ../jars.sha256 && [ "$(ls | wc -l)" = "$(wc -l < ../jars.sha256)" ]
COPY experiments/brokers/${KIND}/pom.xml experiments/brokers/${KIND}/*.java ./
RUN mkdir classes && find . -maxdepth 1 -name '*.java' -exec javac -cp 'lib/*' -d classes {} +

FROM ${BASE_IMAGE}
RUN apt-get update && apt-get install -y --no-install-recommends default-jre-headless && rm -rf /var/lib/apt/lists/*
ARG KIND
COPY --from=packages /broker/lib /broker/lib
COPY --from=packages /broker/classes/ /broker/
COPY experiments/brokers/${KIND}/serve experiments/brokers/${KIND}/nodelay.* experiments/brokers/${KIND}/nagle.* /broker/
RUN mkdir --mode=0777 /state
USER 65534:65534
ENTRYPOINT ["/broker/serve"]
