import { setTimeout as wait } from 'node:timers/promises'
import { Pool } from 'undici'
import { rightResult } from '../support/faulty.ts'
import type { Message } from '../support/rpc.ts'

/** What a caller got. */
export interface Outcome {
  /** What is no answer to this call, or the answer to another one, is wrong. */
  readonly is: 'right' | 'refused' | 'wrong'
  /** In words, when it is not right. */
  readonly why?: string
}

/** A call on its way, or at its end. */
export interface Sent {
  /** Somebody else asked the same before. */
  readonly isRepeat: boolean
  outcome?: Outcome
  readonly done: Promise<Outcome>
}

/** Callers of one network of a gateway. */
export interface Load {
  /**
   * One call every so many ms, whether the others have been answered or not, until `isEnough`. What comes late, because
   * the machine is busy, is not made up for: no call is harder than another.
   */
  send(every: number, isEnough: (sent: readonly Sent[]) => boolean): Promise<readonly Sent[]>
}

export interface Callers {
  /** Who call the network at this host, always with this method. */
  on(host: string, method: Method): Load
  stop(): Promise<void>
}

export type Method = keyof typeof questions

/** No two have the same answer. */
const questions = {
  eth_call: (question: number) => [{ to: `0x${'11'.repeat(20)}`, data: `0x${question.toString(16).padStart(8, '0')}` }, 'latest'],
  eth_getLogs: (question: number) => [{ fromBlock: '0x1', toBlock: '0x5', topics: [`0x${question.toString(16).padStart(64, '0')}`] }],
} as const

/** Of several keys, over HTTP; what one of ten asks another one has asked a moment before. */
export const openCallers = (rpc: string, keys: readonly string[]): Callers => {
  const pool = new Pool(rpc)
  const ask = (host: string, method: Method, id: number, question: number): Promise<Outcome> => {
    const params = questions[method](question)
    return pool
      .request({
        method: 'POST',
        path: `/v3/${keys[id % keys.length]}`,
        headers: { host, 'content-type': 'application/json' },
        body: JSON.stringify({ jsonrpc: '2.0', id, method, params }),
      })
      .then(
        async ({ statusCode, body }) => judge(await body.text(), { id, statusCode, right: rightResult(method, params) }),
        (error: Error) => ({ is: 'wrong', why: `no answer: ${error.message}` }) as const,
      )
  }
  return {
    on(host, method) {
      let asked = 0
      const begin = (): Sent => {
        const id = (asked += 1)
        const isRepeat = id % 10 === 9
        const sent: Sent = { isRepeat, done: ask(host, method, id, isRepeat ? id - 7 : id).then(outcome => (sent.outcome = outcome)) }
        return sent
      }
      return {
        async send(every, isEnough) {
          const sent: Sent[] = []
          while (!isEnough(sent)) {
            sent.push(begin())
            await wait(every)
          }
          return sent
        },
      }
    },
    stop: () => pool.destroy(),
  }
}

interface Expected {
  readonly id: number
  readonly statusCode: number
  readonly right: string
}

const judge = (text: string, { id, statusCode, right }: Expected): Outcome => {
  const { id: given, result, error } = read(text)
  if (given === id && error === undefined && JSON.stringify(result) === right) return { is: 'right' }
  // An internal error would be a bug of the gateway, whatever the node did.
  const isRefusal = given === id && result === undefined && Number.isInteger(error?.code) && error?.code !== -32603
  return { is: isRefusal ? 'refused' : 'wrong', why: `${statusCode} ${JSON.stringify(error ?? text.slice(0, 200))}` }
}

const read = (text: string): Partial<Message> => {
  try {
    return Object(JSON.parse(text))
  } catch {
    return {}
  }
}
