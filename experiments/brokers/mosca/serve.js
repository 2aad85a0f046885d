// SPDX-License-Identifier: Apache-2.0
// Serves MQTT with Mosca's defaults at the address and with the TCP option that the configuration names.
'use strict'
const { readFileSync } = require('node:fs')
const mosca = require('mosca')

const { address, port, tcp } = JSON.parse(readFileSync(process.argv[2], 'utf8'))
// Without one it would retain nothing; in memory is what its own command does.
const persistence = { factory: mosca.persistence.Memory }
const broker = new mosca.Server({ host: address, port, persistence, logger: { level: 'warn' } })
broker.on('clientConnected', (client) => client.connection.stream.setNoDelay(tcp === 'nodelay'))
