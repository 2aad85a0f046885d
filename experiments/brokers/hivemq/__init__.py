# SPDX-License-Identifier: Apache-2.0
"""HiveMQ Community Edition, a broker in Java on Netty."""

from experiments.brokers import Broker


class HiveMQ(Broker):
    """Embedded by our own few lines, which let clients in; in memory. It switches Nagle's algorithm off itself."""

    kind = "hivemq"
    shared_dockerfile = "java.Dockerfile"
    version_command = "ls /broker/lib | sed -n 's/hivemq-community-edition-embedded-\\(.*\\).jar/hivemq \\1/p'"
    memory, tasks, writes = "1500m", 512, True
