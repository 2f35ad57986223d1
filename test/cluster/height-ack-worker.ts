import { Channel, transmitTo } from '../../src/util/channel.ts'
import type { ToPrimary, ToWorker } from '../../src/cluster/worker-messages.ts'
import { systemClock } from '../../src/services/clock.ts'

/** A worker that acknowledges each report, and does nothing else. */
const channel = new Channel<ToPrimary, ToWorker>({ clock: systemClock, rules: {}, transmit: transmitTo(process) })
channel.handle({ reports: (_, reply) => reply() })
process.on('message', channel.receive.bind(channel))
channel.send('ready', { configId: '' })
