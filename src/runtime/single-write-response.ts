import { STATUS_CODES } from 'node:http'
import type { ServerResponse } from 'node:http'
import type { Clock } from '../services/clock.ts'
import { keepAliveTimeoutMs } from '../server/http-server.ts'

/** An answer whose head and body are short texts, one character per byte. */
export interface SingleWriteResponse {
  readonly status: number
  /** `Name: value` lines. */
  readonly headerLines: string
  /** The value of the Date header. */
  readonly date: string
  readonly body: string
}

/**
 * Sends head and body as one text in one write. Of the 25 us that a call from the cache takes, Node's way to write a
 * dozen headers is 3 more, and its way to end an answer with a second, empty write is 1 more. False, and nothing is
 * sent: on unusual connections Node has to do it, which knows what they need.
 */
export const sendSingleWrite = (res: ServerResponse, { status, headerLines, date, body }: SingleWriteResponse): boolean => {
  const { req, socket } = res
  if (socket === null || !res.shouldKeepAlive || req.httpVersionMinor !== 1) return false
  // Where Node keeps the head that it has written itself; what stands there counts as written (Node 20, 22 and 24).
  const internals: ServerResponse & { _header?: string | null } = res
  internals._header = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${headerLines}Date: ${date}\r\n${keepAliveLines}\r\n`
  socket.cork()
  res.write(body, 'latin1')
  socket.uncork()
  res.end()
  return true
}

const keepAliveLines = `Connection: keep-alive\r\nKeep-Alive: timeout=${keepAliveTimeoutMs / 1000}\r\n`

/** The time as HTTP writes it; put into words once a second. */
export const openHttpDate = (clock: Clock): (() => string) => {
  let second = NaN
  let formatted = ''
  return () => {
    const now = Math.floor(clock.now() / 1000)
    if (now !== second) formatted = new Date(now * 1000).toUTCString()
    second = now
    return formatted
  }
}
