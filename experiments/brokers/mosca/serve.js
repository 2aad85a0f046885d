// SPDX-License-Identifier: Apache-2.0
// Serves MQTT on port 1883 with Mosca's defaults and the TCP option that the configuration names.
'use strict'
const { readFileSync } = require('node:fs')
const mosca = require('mosca')

const { tcp } = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const broker = new mosca.Server({ port: 1883, logger: { level: 'warn' } })
broker.on('clientConnected', (client) => client.connection.stream.setNoDelay(tcp === 'nodelay'))
