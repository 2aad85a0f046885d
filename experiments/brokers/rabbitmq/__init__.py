# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ with its MQTT plugin, from Debian's packages."""

from experiments.brokers import Broker


class RabbitMQ(Broker):
    """A broker of AMQP on Erlang's virtual machine; it hands on at most at QoS 1."""

    kind = "rabbitmq"
    delivers = (0, 1, 1)
    version_command = "dpkg-query -W -f 'rabbitmq ${Version}\\n' rabbitmq-server"
    memory, tasks, writes = "1g", 256, True
    contained_only = "Erlang's epmd would listen on every address of this machine, and outlive the run"
