# SPDX-License-Identifier: Apache-2.0
"""Mosca, a broker in JavaScript; no longer kept, but in the published comparisons."""

from experiments.brokers import Broker


class Mosca(Broker):
    """Embedded by our own few lines on Node.js; it hands on at most at QoS 1."""

    kind = "mosca"
    shared_dockerfile = "node.Dockerfile"
    delivers = (0, 1, 1)
    version_command = "node -p \"'mosca ' + require('/broker/node_modules/mosca/package.json').version\""
