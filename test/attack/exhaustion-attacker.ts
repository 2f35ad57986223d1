import { connect } from 'node:net'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { SeededRandom } from '../simulation/seeded-random.ts'
import { callData, maxAttackedConnections } from './exhaustion-node.ts'
import type { exhaustionNames } from './exhaustion-node.ts'
import { reportResult, takeTask } from './task-process.ts'

export type ExhaustionName = (typeof exhaustionNames)[number]

/** A process that takes the memory or the time of a gateway, with one API key. */
export interface AttackerTask {
  readonly name: ExhaustionName
  readonly http: string
  readonly ws: string
  readonly durationMs: number
  readonly seed: number
}

export interface AttackerReport {
  /** An attacker that could not send anything proves nothing. */
  readonly sentBytes: number
}

const task = takeTask<AttackerTask>()
const endMs = performance.now() + task.durationMs
const isOver = (): boolean => performance.now() > endMs
const random = new SeededRandom(task.seed)
const { hostname, port, pathname } = new URL(task.http)
const mib = 1 << 20

let callCount = 0
/** `data` differs from call to call, so that no call shares the flight of another. */
const callOf = (kind: string, extraBytes = 0): string => {
  callCount += 1
  const data = `${kind.padEnd(8, '0')}${callCount.toString(16).padStart(16, '0')}${'ab'.repeat(extraBytes / 2)}`
  return `{"jsonrpc":"2.0","id":${callCount},"method":"eth_call","params":[{"to":"0x${'00'.repeat(20)}","data":"${data}"},"latest"]}`
}

const headOf = (header: string): string =>
  `POST ${pathname} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n${header}\r\n\r\n`
const requestOf = (body: string): string => `${headOf(`Content-Length: ${body.length}`)}${body}`

/** Keeps `count` attackers at work until the end; one whose connection the gateway has closed begins anew after so long. */
const keepBusy = async (count: number, attack: () => Promise<void>, [minPauseMs, maxPauseMs] = [500, 1_000]): Promise<void> => {
  const work = async (): Promise<void> => {
    while (!isOver()) {
      await attack().catch(() => undefined)
      await sleep(random.between(minPauseMs, maxPauseMs))
    }
  }
  await Promise.race([Promise.all(Array.from({ length: count }, work)), sleep(task.durationMs)])
}

const sockets: Socket[] = []

/** Not that of the bystander: callers of one address share turns and memory until their keys are known. */
const localAddress = '127.0.0.2'

/** Resolves when the connection is closed, or what it is used for is over. */
const useConnection = (run: (socket: Socket) => void): Promise<void> =>
  new Promise(resolve => {
    const socket = connect({ port: Number(port), host: hostname, localAddress }, () => run(socket))
    sockets.push(socket)
    socket.on('error', () => undefined).on('close', () => resolve())
  })

const useWebSocket = (run: (socket: WebSocket) => void): Promise<void> =>
  new Promise(resolve => {
    const socket = new WebSocket(task.ws, { localAddress })
    socket.on('upgrade', response => sockets.push(response.socket))
    socket.on('open', () => run(socket))
    socket.on('error', () => undefined).on('close', () => resolve())
  })

/** Writes the same bytes over and over, no faster than they are taken. */
const writeForever = (socket: Socket, bytes: Buffer): void => {
  const write = (): void => {
    while (!socket.destroyed && socket.write(bytes)) {}
  }
  socket.on('drain', write)
  write()
}

/** Sends the request again with each response. */
const repeat = (socket: Socket, request: () => string): void => {
  const send = (): void => void (isOver() ? socket.destroy() : socket.write(request()))
  socket.on('data', send)
  send()
}

/** A masked frame of a client; the mask is 0. */
const frameOf = (firstByte: number, payload: string): Buffer =>
  Buffer.from([firstByte, 0x80 | payload.length, 0, 0, 0, 0, ...Buffer.from(payload)])

const attacks: Readonly<Record<ExhaustionName, () => Promise<void>>> = {
  'bodies in chunks of one byte': () => {
    const chunks = Buffer.from('1\r\na\r\n'.repeat(10_000))
    return keepBusy(60, () =>
      useConnection(socket => {
        socket.on('data', () => socket.destroy())
        socket.write(headOf('Transfer-Encoding: chunked'))
        writeForever(socket, chunks)
      }),
    )
  },
  'bodies of 1 MB whose calls hang': () =>
    keepBusy(600, () =>
      useConnection(socket => {
        socket.on('data', () => socket.destroy())
        socket.write(requestOf(callOf(callData.hang, 1_000_000)))
      }),
    ),
  'unfinished WebSocket messages': () => {
    const part = Buffer.alloc(mib - 1_000, '"')
    return keepBusy(500, () => useWebSocket(socket => socket.send(part, { fin: false, binary: false })))
  },
  'calls that hang on many WebSockets': () =>
    keepBusy(300, () =>
      useWebSocket(socket => {
        for (let i = 0; i < 200; i += 1) socket.send(callOf(callData.hang))
      }),
    ),
  'pipelined calls whose answers are not read': () =>
    keepBusy(4, () =>
      useConnection(socket => {
        socket.pause()
        writeForever(socket, Buffer.from(Array.from({ length: 100 }, () => requestOf(callOf(callData.medium))).join('')))
      }),
    ),
  'answers of 20 MB that are read slowly': () =>
    keepBusy(18, () =>
      useConnection(socket => {
        socket.on('data', () => {
          socket.pause()
          setTimeout(() => socket.resume(), 500)
        })
        socket.write(requestOf(callOf(callData.long)))
      }),
    ),
  'batches of answers that are not read': () =>
    keepBusy(2, () =>
      useConnection(socket => {
        socket.pause()
        socket.write(requestOf(`[${Array.from({ length: 100 }, () => callOf(callData.long)).join(',')}]`))
      }),
    ),
  'a flood of calls of one account': () =>
    keepBusy(200, () => useConnection(socket => repeat(socket, () => requestOf(callOf(callData.short))))),
  'pipelined requests without a valid key': () => {
    const requests = Buffer.from('POST /v3/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\nabcde'.repeat(1_000))
    return keepBusy(20, () =>
      useConnection(socket => {
        socket.resume()
        writeForever(socket, requests)
      }),
    )
  },
  'requests with hundreds of headers': () => {
    const headers = Array.from({ length: 700 }, (_, i) => `x-${i}: ${'y'.repeat(10)}`).join('\r\n')
    return keepBusy(200, () => useConnection(socket => repeat(socket, () => headOf(`Content-Length: 0\r\n${headers}`))))
  },
  'frames of one byte among pings': () => {
    const pings = Array.from({ length: 480 }, () => frameOf(0x89, 'x'.repeat(125)))
    const part = Buffer.concat([frameOf(0x00, ' '), ...pings])
    return keepBusy(60, () =>
      useWebSocket(({ _socket: socket }: WebSocket & { readonly _socket?: Socket }) => {
        if (socket === undefined) return // ws has it while the WebSocket is open
        socket.write(frameOf(0x01, ' '))
        writeForever(socket, part)
      }),
    )
  },
  'batches of rpc.discover': () => {
    const batch = `[${Array.from({ length: 100 }, (_, id) => `{"jsonrpc":"2.0","id":${id},"method":"rpc.discover"}`).join(',')}]`
    return keepBusy(32, () => useConnection(socket => repeat(socket, () => requestOf(batch))))
  },
  'subscriptions to all logs': () => {
    const subscribe = (id: number): string => `{"jsonrpc":"2.0","id":${id},"method":"eth_subscribe","params":["logs",{}]}`
    return keepBusy(3, () =>
      useWebSocket(socket => {
        for (let id = 0; id < 500; id += 1) socket.send(subscribe(id))
      }),
    )
  },
  'idle WebSockets of one account': () => keepBusy(3 * maxAttackedConnections, () => useWebSocket(() => undefined), [20, 100]),
  'silent connections of one address': () =>
    keepBusy(3 * maxAttackedConnections, () => useConnection(socket => socket.write('P')), [20, 100]),
}

await attacks[task.name]()
const report: AttackerReport = {
  sentBytes: sockets.reduce((sum, { bytesWritten, writableLength }) => sum + bytesWritten - writableLength, 0),
}
reportResult(report)
