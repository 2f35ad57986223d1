import { setTimeout as wait } from 'node:timers/promises'
import { Pool } from 'undici'
import { expectedResultOf } from '../support/faulty-node.ts'
import type { RpcMessage } from '../support/rpc-client.ts'

/** What a caller got. */
export interface CallOutcome {
  /** What is no answer to this call, or the answer to another one, is wrong. */
  readonly kind: 'right' | 'refused' | 'wrong'
  /** In words, when it is not right. */
  readonly reason?: string
}

/** A call on its way, or at its end. */
export interface SentCall {
  /** Somebody else asked the same before. */
  readonly isRepeat: boolean
  outcome?: CallOutcome
  readonly done: Promise<CallOutcome>
}

/** Callers of one network of a gateway. */
export interface NetworkLoad {
  /**
   * One call every so many ms, whether the others have been answered or not, until `isEnough`. What comes late, because
   * the machine is busy, is not made up for: no call is harder than another.
   */
  send(intervalMs: number, isEnough: (sent: readonly SentCall[]) => boolean): Promise<readonly SentCall[]>
}

export interface Callers {
  /** Who call the network at this host, always with this method. */
  forNetwork(host: string, method: Method): NetworkLoad
  stop(): Promise<void>
}

export type Method = keyof typeof paramsByMethod

/** No two have the same answer. */
const paramsByMethod = {
  eth_call: (question: number) => [{ to: `0x${'11'.repeat(20)}`, data: `0x${question.toString(16).padStart(8, '0')}` }, 'latest'],
  eth_getLogs: (question: number) => [{ fromBlock: '0x1', toBlock: '0x5', topics: [`0x${question.toString(16).padStart(64, '0')}`] }],
} as const

/** Of several keys, over HTTP; what one of ten asks another one has asked a moment before. */
export const openCallers = (rpc: string, keys: readonly string[]): Callers => {
  const pool = new Pool(rpc)
  const sendCall = (host: string, method: Method, id: number, question: number): Promise<CallOutcome> => {
    const params = paramsByMethod[method](question)
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
        (error: Error) => ({ kind: 'wrong', reason: `no answer: ${error.message}` }) as const,
      )
  }
  return {
    forNetwork(host, method) {
      let callCount = 0
      const startCall = (): SentCall => {
        const id = (callCount += 1)
        const isRepeat = id % 10 === 9
        const sent: SentCall = {
          isRepeat,
          done: sendCall(host, method, id, isRepeat ? id - 7 : id).then(outcome => (sent.outcome = outcome)),
        }
        return sent
      }
      return {
        async send(every, isEnough) {
          const sent: SentCall[] = []
          while (!isEnough(sent)) {
            sent.push(startCall())
            await wait(every)
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

const classifyResponse = (text: string, { id, statusCode, correctResult: right }: ExpectedResponse): CallOutcome => {
  const { id: given, result, error } = parseMessage(text)
  if (given === id && error === undefined && JSON.stringify(result) === right) return { kind: 'right' }
  // An internal error would be a bug of the gateway, whatever the node did.
  const isRefusal = given === id && result === undefined && Number.isInteger(error?.code) && error?.code !== -32603
  return { kind: isRefusal ? 'refused' : 'wrong', reason: `${statusCode} ${JSON.stringify(error ?? text.slice(0, 200))}` }
}

const parseMessage = (text: string): Partial<RpcMessage> => {
  try {
    return Object(JSON.parse(text))
  } catch {
    return {}
  }
}
