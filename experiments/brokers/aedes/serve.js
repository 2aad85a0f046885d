// SPDX-License-Identifier: Apache-2.0
// Serves MQTT with Aedes' defaults at the address and with the TCP option that the configuration names.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { Aedes } from 'aedes'

const { address, port, tcp } = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const broker = await Aedes.createBroker()
createServer({ noDelay: tcp === 'nodelay' }, broker.handle).listen(port, address)
