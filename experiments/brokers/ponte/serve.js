// SPDX-License-Identifier: Apache-2.0
// Serves MQTT on port 1883 with Ponte's defaults and the TCP option that the configuration names.
'use strict'
const { readFileSync } = require('node:fs')
const ponte = require('ponte')

const { tcp } = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const options = { logger: { level: 'warn' }, mqtt: { port: 1883 } }
const bridge = ponte(options, (error) => {
  if (error) throw error
  bridge.mqtt.on('clientConnected', (client) => client.connection.stream.setNoDelay(tcp === 'nodelay'))
})
