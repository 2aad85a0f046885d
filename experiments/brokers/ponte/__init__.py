# SPDX-License-Identifier: Apache-2.0
"""Ponte, a bridge of MQTT, HTTP and CoAP in JavaScript; no longer kept, but in the published comparisons."""

from experiments.brokers import Broker


class Ponte(Broker):
    """Embedded by our own few lines on Node.js; its MQTT is Mosca, which hands on at most at QoS 1."""

    kind = "ponte"
    shared_dockerfile = "node.Dockerfile"
    delivers = (0, 1, 1)
    version_command = "node -p \"'ponte ' + require('/broker/node_modules/ponte/package.json').version\""
