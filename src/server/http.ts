import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { refuse } from '../reply.ts'
import type { Failure } from '../reply.ts'
import { answer, failBug, failWhole } from '../wire/answer.ts'
import type { Answer } from '../wire/answer.ts'
import { readVisit } from './door.ts'
import type { Doors } from './door.ts'
import { lazily } from './lazily.ts'
import { nextRequestId } from './origin.ts'
import { refundAll } from './refund.ts'
import { sendAnswer } from './send.ts'

/**
 * The HTTP door: `POST /v3/<API_KEY>` on the network's own host (contract 4.1). Koa has everything that is not a call;
 * calls pass it by, as its context and its hooks cost 5 of the 24 microseconds that a bare server takes for one.
 */
export const createRpcListener = (doors: Doors): RequestListener => {
  const others = lazily(async () => (await import('./others.ts')).createOthersApp(doors).callback())
  return (req, res) => void (req.method === 'POST' ? serveCall(doors, req, res) : others(req, res))
}

const serveCall = async (doors: Doors, req: IncomingMessage, res: ServerResponse): Promise<void> => {
  const visit = readVisit(doors, 'http', req)
  if ('error' in visit) return sendAnswer(doors, res, nextRequestId(), failWhole(visit))
  const { network, caller } = visit
  doors.traffic.enter()
  // Comes once the answer is sent, or when the caller has gone before that. Only then is there work to end.
  res.once('close', () => {
    if (!res.writableFinished) caller.leave()
    doors.traffic.leave()
  })
  if (res.socket === null) closeWith(req.socket, res)
  let told: Answer | undefined
  try {
    const admitted = network.admit(caller)
    const refusal = (admitted instanceof Promise ? await admitted : admitted) ?? refuseHeaders(req)
    const body = refusal ?? (await readBody(req, doors.limits.body))
    if (body === undefined) return
    told = 'error' in body ? failWhole(body) : await answer(network.door, body, caller)
    sendAnswer(doors, res, caller.requestId, told)
  } catch (bug) {
    if (told !== undefined) refundAll(doors, told.replies, 'internal')
    sendAnswer(doors, res, caller.requestId, failBug(doors, caller, bug, told?.id))
  }
}

/** An answer that waits behind others of its connection (the caller pipelines) is not told by Node when that closes. */
const closeWith = (socket: Socket, res: ServerResponse): void => {
  const close = () => {
    res.destroy()
    res.emit('close')
  }
  socket.setMaxListeners(0).on('close', close)
  res.once('close', () => socket.off('close', close))
}

const json = /^application\/json(?:-?rpc|request)?\s*(?:;|$)/i

const refuseHeaders = ({ headers }: IncomingMessage): Failure | undefined => {
  const encoding = headers['content-encoding'] ?? ''
  if (encoding !== '' && encoding.toLowerCase() !== 'identity')
    return refuse('contentType', { message: 'compressed requests are not accepted' })
  const type = headers['content-type']
  return type === 'application/json' || json.test(type ?? '') ? undefined : refuse('contentType')
}

/**
 * The whole body; a failure as soon as it is known to be too long (Node then reads and drops the rest). Undefined when
 * the caller left before it was complete.
 */
const readBody = (req: IncomingMessage, limit: number): Promise<Buffer | Failure | undefined> => {
  if (Number(req.headers['content-length'] ?? 0) > limit) return Promise.resolve(tooLong(limit))
  return new Promise(resolve => {
    const chunks: Buffer[] = []
    let length = 0
    req.on('data', (chunk: Buffer) => {
      length += chunk.length
      if (length > limit) {
        chunks.length = 0
        resolve(tooLong(limit))
      } else chunks.push(chunk)
    })
    req.on('end', () => resolve(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)))
    req.on('close', () => resolve(undefined))
  })
}

const tooLong = (limit: number): Failure => refuse('bodyTooLarge', { message: `the body is longer than ${limit} bytes` })
