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
  on(host: string): Load
  stop(): Promise<void>
}

/** Of several keys, over HTTP; what one of ten asks another one has asked a moment before. */
export const openCallers = (rpc: string, keys: readonly string[]): Callers => {
  const pool = new Pool(rpc)
  const ask = (host: string, id: number, question: number): Promise<Outcome> => {
    const params = [{ to: `0x${'11'.repeat(20)}`, data: `0x${question.toString(16).padStart(8, '0')}` }, 'latest']
    return pool.request({
      method: 'POST', path: `/v3/${keys[id % keys.length]}`, headers: { host, 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id, method: 'eth_call', params }),
    }).then(
      async ({ statusCode, body }) => judge(await body.text(), { id, statusCode, right: rightResult('eth_call', params) }),
      (error: Error) => ({ is: 'wrong', why: `no answer: ${error.message}` } as const),
    )
  }
  return {
    on(host) {
      let asked = 0
      const begin = (): Sent => {
        const id = asked += 1
        const isRepeat = id % 10 === 9
        const sent: Sent = { isRepeat, done: ask(host, id, isRepeat ? id - 7 : id).then(outcome => sent.outcome = outcome) }
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
