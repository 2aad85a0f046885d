# SPDX-License-Identifier: Apache-2.0
"""ActiveMQ Artemis, a broker of several protocols in Java on Netty."""

from experiments.brokers import Broker


class Artemis(Broker):
    """Embedded by our own few lines; in memory."""

    kind = "artemis"
    shared_dockerfile = "java.Dockerfile"
    version_command = "ls /broker/lib | sed -n 's/artemis-server-\\(.*\\).jar/artemis \\1/p'"
    memory, tasks, writes = "1g", 512, True
