import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Listens on the loopback, and says so on stdout in the gateway's own words. */
export const listenAndAnnounce = (server: Server, port = 0): void => {
  // Connections stay open while the other servers of a case have their turn.
  server.keepAliveTimeout = 65_000
  server.listen(port, '127.0.0.1', () => {
    const { port } = server.address() as AddressInfo // a TCP server has no other kind of address
    process.stdout.write(`${JSON.stringify({ event: 'listening', rpc: `http://127.0.0.1:${port}` })}\n`)
  })
}
