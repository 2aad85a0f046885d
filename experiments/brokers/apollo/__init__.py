# SPDX-License-Identifier: Apache-2.0
"""Apache Apollo, a broker in Scala; no longer kept, but in the published comparisons."""

from experiments.brokers import Broker


class Apollo(Broker):
    """Its own server, in memory; it hands everything on at QoS 0."""

    kind = "apollo"
    shared_dockerfile = "java.Dockerfile"
    delivers = (0, 0, 0)
    version_command = "ls /broker/lib | sed -n 's/apollo-broker-\\([0-9.]*\\).jar/apollo \\1/p'"
    memory, tasks, writes = "1g", 256, True
