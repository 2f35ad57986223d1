import { createServer } from 'node:http'
import { WebSocketServer } from 'ws'
import { listenAndAnnounce, respond } from './baseline-server.ts'

// A bare WebSocket server.

const server = createServer()
const sockets = new WebSocketServer({ server, perMessageDeflate: false, clientTracking: false })
sockets.on('connection', socket => {
  socket.on('message', (data: Buffer) => socket.send(respond(data.toString())))
})
listenAndAnnounce(server)
