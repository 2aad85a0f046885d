# SPDX-License-Identifier: Apache-2.0
"""Mochi MQTT, a broker in Go."""

from experiments.brokers import Broker


class Mochi(Broker):
    """Embedded by our own few lines, which set the TCP option on each connection."""

    kind = "mochi"
    version_command = "/usr/local/bin/mochi -version"
