import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { socketPath } from './distance.ts'
import { localPlace } from './redis-server.ts'

// The end of startDistance() within a network namespace: each port leads to the file that is named after it.
const [dir = '', ...ports] = process.argv.slice(2)
for (const port of ports.map(Number)) {
  const server = createServer({ allowHalfOpen: true, noDelay: true }, near => {
    const far = connect({ path: socketPath(dir, port), allowHalfOpen: true })
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      from.pipe(to)
      from.on('error', () => undefined).once('close', () => to.destroy())
    }
  })
  await once(server.listen(port, localPlace.host), 'listening')
}
console.log('ready')
