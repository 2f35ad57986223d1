import { IncomingMessage, ServerResponse } from 'node:http'
import type { Server } from 'node:http'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'

/** The response that is being sent on a connection now; responses to pipelined requests wait behind it. */
export type CurrentResponse = (stream: Duplex) => ServerResponse | undefined

/** A connection as Node's HTTP server leaves it (Node 20, 22, 24 and 26); Node itself reads this before it answers a parser error. */
interface HttpStream extends Duplex {
  _httpMessage?: ServerResponse | null
}

/** Node shows the current response of a connection to nobody. Where `_httpMessage` does not hold it, responses are counted here. */
export const trackResponses = (server: Server, isSupported = holdsCurrentResponse()): CurrentResponse => {
  if (isSupported) return (stream: HttpStream) => stream._httpMessage ?? undefined
  const pending = new WeakMap<Duplex, Set<ServerResponse>>()
  const track = ({ socket }: IncomingMessage, res: ServerResponse): void => {
    const responses = pending.get(socket) ?? new Set()
    pending.set(socket, responses.add(res))
    res.once('finish', () => responses.delete(res))
  }
  server.prependListener('request', track).prependListener('checkExpectation', track)
  return stream => pending.get(stream)?.values().next().value
}

/** Does `_httpMessage` hold the response that a connection is assigned to, and no other? */
export const holdsCurrentResponse = (): boolean => {
  try {
    const socket: Socket & HttpStream = new Socket()
    const res = new ServerResponse(new IncomingMessage(socket))
    res.assignSocket(socket)
    const isHeld = socket._httpMessage === res
    res.detachSocket(socket)
    return isHeld && socket._httpMessage === null
  } catch {
    return false
  }
}

/**
 * Serves a request as if it had offered no upgrade (RFC 9110, 7.8): Node has given up its connection, which gets back to the
 * server with the same request less the offer. For Node before 22.21 and 24.9, which has no `shouldUpgradeCallback`.
 */
export const ignoreUpgrade = (
  server: Server,
  { method, url, httpVersion, rawHeaders }: IncomingMessage,
  stream: Duplex,
  head: Buffer,
): void => {
  const lines = [`${method} ${url} HTTP/${httpVersion}`]
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() !== 'upgrade') lines.push(`${rawHeaders[i]}: ${rawHeaders[i + 1]}`)
  }
  stream.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]))
  server.emit('connection', stream)
}
