import { once } from 'node:events'
import net from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'
import tls from 'node:tls'
import type { Json } from '../../src/call.ts'
import { isRight } from './faults.ts'
import type { Fault } from './faults.ts'

/** A node that speaks HTTP over bare sockets, so that it can do everything wrong. */
export interface FaultyNode {
  readonly url: string
  /** Requests so far: in all, and by method. */
  asked(method?: string): number
  /** Connections that are open now. */
  readonly open: number
  /** What it does from now on. */
  does(fault: Fault): void
  /** Resolves when this many requests have come in. */
  reached(count: number): Promise<void>
  /** Resolves when no connection is open. */
  quiet(): Promise<void>
  stop(): Promise<void>
}

/** Results follow from the parameters, and from nothing else: no two questions have the same right answer. */
export const rightResult = (method: string, params: readonly Json[]): string =>
  method === 'eth_blockNumber' ? '"0x10"' : JSON.stringify(`0x${Buffer.from(JSON.stringify([method, params])).toString('hex')}`)

export const startFaultyNode = (fault: Fault = isRight): Promise<FaultyNode> => start(fault, 'http', serve => net.createServer(serve))

/** Its certificate is signed by nobody. */
export const startUntrustedNode = (): Promise<FaultyNode> =>
  start(isRight, 'https', serve => tls.createServer({ key, cert }, serve).on('tlsClientError', () => undefined))

/** A URL where nothing listens. */
export const deadUrl = async (): Promise<string> => {
  const node = await startFaultyNode()
  await node.stop()
  return node.url
}

/** Takes connections, and never reads from them. */
export const startBlackHole = (): Promise<FaultyNode> =>
  start(isRight, 'http', () => net.createServer({ pauseOnConnect: true }))

const start = async (fault: Fault, scheme: string, listen: (serve: (socket: Socket) => void) => Server): Promise<FaultyNode> => {
  const sockets = new Set<Socket>()
  const counts = new Map<string, number>()
  let total = 0
  const server = listen(socket => readRequests(socket, (id, method, params, turn) => {
    total += 1
    counts.set(method, (counts.get(method) ?? 0) + 1)
    server.emit('asked')
    fault(socket, { id, method, right: rightResult(method, params), turn })
  }))
  server.on(scheme === 'https' ? 'secureConnection' : 'connection', (socket: Socket) => {
    sockets.add(socket)
    socket.setNoDelay()
    // Resets are what this node is for.
    socket.on('error', () => undefined)
    socket.once('close', () => {
      sockets.delete(socket)
      server.emit('left')
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked: method => method === undefined ? total : counts.get(method) ?? 0,
    get open() {
      return sockets.size
    },
    does(next) {
      fault = next
    },
    async reached(count) {
      while (total < count) await once(server, 'asked')
    },
    async quiet() {
      while (sockets.size > 0) await once(server, 'left')
    },
    async stop() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

type OnRequest = (id: number, method: string, params: readonly Json[], turn: number) => void

/** Reads what the gateway sends: one request at a time, with its length. */
const readRequests = (socket: Socket, onRequest: OnRequest): void => {
  let text = ''
  let turn = 0
  socket.on('data', bytes => {
    text += bytes.toString('latin1')
    for (;;) {
      const head = text.indexOf('\r\n\r\n') + 4
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1])
      if (head < 4 || text.length < head + length) return
      const { id, method, params } = JSON.parse(text.slice(head, head + length))
      text = text.slice(head + length)
      onRequest(id, method, params, turn += 1)
    }
  })
}

// Made for these tests; node.test, until 2126.
const key = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgc7NCG7LyhR4i9bXn
rt4IECcHzqlalZHrLZjFXTR9gRGhRANCAASNtiX0oATyAM5qj8qSXI63docRM4hM
1gBM0s5JWJ64F8fZyXfbErpdwXv1FhxXvCRgFqR2zAuUIOjy0b6OHu/D
-----END PRIVATE KEY-----`
const cert = `-----BEGIN CERTIFICATE-----
MIIBgDCCASWgAwIBAgIUQByuZGFnl6Emz7beutm23Wdqf44wCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbm9kZS50ZXN0MCAXDTI2MTEyMDIwMjgwNloYDzIxMjYxMDI3
MjAyODA2WjAUMRIwEAYDVQQDDAlub2RlLnRlc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAASNtiX0oATyAM5qj8qSXI63docRM4hM1gBM0s5JWJ64F8fZyXfbErpd
wXv1FhxXvCRgFqR2zAuUIOjy0b6OHu/Do1MwUTAdBgNVHQ4EFgQUw4roC7fn002P
fEmEMyV2nr4AYFIwHwYDVR0jBBgwFoAUw4roC7fn002PfEmEMyV2nr4AYFIwDwYD
VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNJADBGAiEAtWHcR+m2GN4bTYiY6hSE
kmc1vYssgDTQXPR0gU2+/6YCIQDWt/2O+uN/IWVwtRLsTCvTfQ3mz+qbOo/lkyPl
xxvwrQ==
-----END CERTIFICATE-----`
