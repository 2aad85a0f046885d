# SPDX-License-Identifier: Apache-2.0
"""Moquette, a broker in Java on Netty."""

from experiments.brokers import Broker


class Moquette(Broker):
    """Its own server, in memory."""

    kind = "moquette"
    shared_dockerfile = "java.Dockerfile"
    version_command = "ls /broker/lib | sed -n 's/moquette-broker-\\(.*\\).jar/moquette \\1/p'"
    memory, tasks, writes = "1g", 256, True
