import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'

/** A worker of node:cluster that answers each connection with its process id. */
const server = createServer(socket => {
  socket.on('error', () => undefined)
  socket.end(String(process.pid))
}).listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
