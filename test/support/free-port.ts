import { once } from 'node:events'
import { createServer } from 'node:net'

/** Below the ports that systems choose for connections: between its choice and its use, no connection of another test takes one. */
const [lowestPort, portCount] = [16_384, 16_000]

/** A port that nobody listens on now. */
export const freePort = async (): Promise<number> => {
  for (;;) {
    const port = lowestPort + Math.floor(Math.random() * portCount)
    const server = createServer().listen(port, '127.0.0.1')
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    )
    if (!isFree) continue
    server.close()
    await once(server, 'close')
    return port
  }
}
