import { setTimeout as wait } from 'node:timers/promises'
import { Pool } from 'undici'
import { expectedResultOf } from '../support/faulty-node.ts'
import type { RpcMessage } from '../support/rpc-client.ts'

/** The outcome of a call. */
export interface CallOutcome {
  /** `wrong`: not a response to this call, or the response to another call. */
  readonly kind: 'correct' | 'rejected' | 'wrong'
  /** Present unless the response is correct. */
  readonly reason?: string
}

/** A call in flight or finished. */
export interface SentCall {
  /** Another caller has sent the same request before. */
  readonly isRepeat: boolean
  outcome?: CallOutcome
  readonly done: Promise<CallOutcome>
}

/** Callers of one network of a gateway. */
export interface NetworkLoad {
  /**
   * Sends a call every `intervalMs`, whether earlier calls have been answered or not, until `isEnough`. Calls that are late
   * because the machine is busy are not caught up on: bursts would be a heavier load than the rate says.
   */
  send(intervalMs: number, isEnough: (sent: readonly SentCall[]) => boolean): Promise<readonly SentCall[]>
}

/** One of so many calls is a repeat. */
const callsPerRepeat = 10

/** How many calls before its repeat a request was sent. */
const repeatDistanceCalls = 7

/** Long before the gateway closes an idle connection: a connection that is reset was not closed just as a call was sent. */
const maxIdleMs = 10_000

const internalErrorCode = -32603

const maxShownChars = 200

export interface Callers {
  /** Callers of the network with this host, always with this method. */
  forNetwork(host: string, method: Method): NetworkLoad
  stop(): Promise<void>
}

export type Method = keyof typeof paramsByMethod

/** Each number gives another request, with another result. */
const paramsByMethod = {
  eth_call: (requestNumber: number) => [{ to: `0x${'11'.repeat(20)}`, data: `0x${requestNumber.toString(16).padStart(8, '0')}` }, 'latest'],
  eth_getLogs: (requestNumber: number) => [
    { fromBlock: '0x1', toBlock: '0x5', topics: [`0x${requestNumber.toString(16).padStart(64, '0')}`] },
  ],
} as const

/** Callers with several keys, over HTTP; one call of ten repeats a request that another caller has just sent. */
export const openCallers = (rpc: string, keys: readonly string[]): Callers => {
  const pool = new Pool(rpc, { keepAliveMaxTimeout: maxIdleMs })
  const sendCall = (host: string, method: Method, id: number, requestNumber: number): Promise<CallOutcome> => {
    const params = paramsByMethod[method](requestNumber)
    return pool
      .request({
        method: 'POST',
        path: `/v3/${keys[id % keys.length]}`,
        headers: { host, 'content-type': 'application/json' },
        body: JSON.stringify({ jsonrpc: '2.0', id, method, params }),
      })
      .then(
        async ({ statusCode, body }) =>
          classifyResponse(await body.text(), { id, statusCode, correctResult: expectedResultOf(method, params) }),
        (error: Error) => ({ kind: 'wrong', reason: `no response: ${error.message}` }) as const,
      )
  }
  return {
    forNetwork(host, method) {
      let callCount = 0
      const startCall = (): SentCall => {
        const id = (callCount += 1)
        const isRepeat = id % callsPerRepeat === callsPerRepeat - 1
        const sent: SentCall = {
          isRepeat,
          done: sendCall(host, method, id, isRepeat ? id - repeatDistanceCalls : id).then(outcome => (sent.outcome = outcome)),
        }
        return sent
      }
      return {
        async send(intervalMs, isEnough) {
          const sent: SentCall[] = []
          while (!isEnough(sent)) {
            sent.push(startCall())
            await wait(intervalMs)
          }
          return sent
        },
      }
    },
    stop: () => pool.destroy(),
  }
}

interface ExpectedResponse {
  readonly id: number
  readonly statusCode: number
  readonly correctResult: string
}

const classifyResponse = (text: string, { statusCode, ...expected }: ExpectedResponse): CallOutcome =>
  classifyMessage(parseMessage(text), expected, `${statusCode} ${text.slice(0, maxShownChars)}`)

/** `shown` is the reason unless the response is correct. */
export const classifyMessage = (
  { id: responseId, result, error }: Partial<RpcMessage>,
  { id, correctResult }: Omit<ExpectedResponse, 'statusCode'>,
  shown: string,
): CallOutcome => {
  if (responseId === id && error === undefined && JSON.stringify(result) === correctResult) return { kind: 'correct' }
  // An internal error is a bug of the gateway, whatever the node did.
  const isRejection = responseId === id && result === undefined && Number.isInteger(error?.code) && error?.code !== internalErrorCode
  return { kind: isRejection ? 'rejected' : 'wrong', reason: shown }
}

const parseMessage = (text: string): Partial<RpcMessage> => {
  try {
    return Object(JSON.parse(text))
  } catch {
    return {}
  }
}
