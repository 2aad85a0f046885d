// SPDX-License-Identifier: Apache-2.0
// Serves MQTT with Ponte's defaults at the address and with the TCP option that the configuration names. Its HTTP and CoAP
// cannot be left out: they are at the same address, HTTP on whichever port is free.
'use strict'
const { readFileSync } = require('node:fs')
const ponte = require('ponte')

const { address, port, tcp } = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const options = {
  logger: { level: 'warn' },
  mqtt: { host: address, port },
  http: { host: address, port: 0 },
  coap: { host: address, port: 0 }
}
const bridge = ponte(options, (error) => {
  if (error) throw error
  bridge.mqtt.on('clientConnected', (client) => client.connection.stream.setNoDelay(tcp === 'nodelay'))
})
