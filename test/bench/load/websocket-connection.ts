import { WebSocket } from 'ws'
import type { LoadConnection, ConnectionListener } from './connections.ts'
import { requestIdOf } from './connections.ts'

/** Opens a WebSocket that carries any number of calls at once; their answers are told apart by id. */
export const openWebSocketConnection = (url: URL, listener: ConnectionListener): Promise<LoadConnection> =>
  new Promise((resolve, reject) => {
    const socket = new WebSocket(url, { perMessageDeflate: false, skipUTF8Validation: true })
    const connection: LoadConnection = {
      send: (_n, message) => socket.send(message),
      close() {
        socket.removeAllListeners('close').terminate()
      },
    }
    socket.once('open', () => resolve(connection))
    socket.on('message', (data: Buffer) => listener.onResponse(connection, callNumberOf(data), 200, [data]))
    socket.on('error', error => {
      reject(error)
      listener.onError(error.message)
    })
    socket.on('close', code => listener.onError(`the server closed a WebSocket with ${code}`))
  })

const idPattern = /"id": ?(\d+)/

/** Most servers write the id at the beginning. */
const callNumberOf = (data: Buffer): number =>
  Number((idPattern.exec(data.toString('latin1', 0, 100)) ?? idPattern.exec(data.toString('latin1')))?.[1]) - requestIdOf(0)
