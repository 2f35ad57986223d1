import { WebSocket } from 'ws'
import type { Line, Listener } from './line.ts'
import { idOf } from './line.ts'

/** Opens a WebSocket that carries any number of calls at once; their answers are told apart by id. */
export const openSocket = (url: URL, listener: Listener): Promise<Line> =>
  new Promise((resolve, reject) => {
    const socket = new WebSocket(url, { perMessageDeflate: false, skipUTF8Validation: true })
    const line: Line = {
      send: (_n, message) => socket.send(message),
      close() {
        socket.removeAllListeners('close').terminate()
      },
    }
    socket.once('open', () => resolve(line))
    socket.on('message', (data: Buffer) => listener.answered(line, callOf(data), 200, [data]))
    socket.on('error', error => {
      reject(error)
      listener.failed(error.message)
    })
    socket.on('close', code => listener.failed(`the server closed a WebSocket with ${code}`))
  })

const id = /"id": ?(\d+)/

/** Most servers write the id at the beginning. */
const callOf = (data: Buffer): number =>
  Number((id.exec(data.toString('latin1', 0, 100)) ?? id.exec(data.toString('latin1')))?.[1]) - idOf(0)
