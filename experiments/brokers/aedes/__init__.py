# SPDX-License-Identifier: Apache-2.0
"""Aedes, a broker in JavaScript, Mosca's successor."""

from experiments.brokers import Broker


class Aedes(Broker):
    """Embedded by our own few lines on Node.js."""

    kind = "aedes"
    shared_dockerfile = "node.Dockerfile"
    version_command = "node -p \"'aedes ' + require('/broker/node_modules/aedes/package.json').version\""
