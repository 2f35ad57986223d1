import { createServer } from 'node:http'
import { WebSocketServer } from 'ws'
import { respond } from './baseline-server.ts'
import { listenAndAnnounce } from './baseline-listen.ts'

// A WebSocket server with nothing in it.

const server = createServer()
const sockets = new WebSocketServer({ server, perMessageDeflate: false, clientTracking: false })
sockets.on('connection', socket => {
  socket.on('message', (data: Buffer) => socket.send(respond(data.toString())))
})
listenAndAnnounce(server)
