import { setTimeout as wait } from 'node:timers/promises'
import failover from '../../plugins/failover/index.ts'
import upstream from '../../plugins/upstream/index.ts'
import { isFailure } from '../../src/reply.ts'
import type { Reply } from '../../src/reply.ts'
import { Secret } from '../../src/secret.ts'
import { openAgents } from '../../src/services/agents/index.ts'
import { openRoom } from '../../src/services/agents/room.ts'
import { systemClock } from '../../src/services/clock.ts'
import { shipped } from '../services/methods/shipped.ts'
import { call, stageOf } from '../support/fakes.ts'
import { rightResult } from '../support/faulty.ts'

/** What a caller got: no two calls ask the same, so that the answer to another call is wrong. */
export interface Outcome {
  readonly is: 'right' | 'refused' | 'wrong'
  /** In words, when it is not right. */
  readonly why?: string
}

/** A call on its way, or at its end. */
export interface Sent {
  outcome?: Outcome
  readonly done: Promise<Outcome>
}

/** failover and upstream with real connections, in this process, and callers in front of them. */
export interface Load {
  /**
   * One call every so many ms, whether the others have been answered or not, until `isEnough`. What comes late, because
   * the machine is busy, is not made up for: no call is harder than another.
   */
  send(every: number, isEnough: (sent: readonly Sent[]) => boolean): Promise<readonly Sent[]>
  stop(): Promise<void>
}

let asked = 0

export const openLoad = (urls: readonly string[]): Load => {
  const agents = openAgents(systemClock, openRoom(64 << 20))
  const services = { agents, methods: shipped, clock: systemClock }
  const breaker = { calls: 20, errors: 50, window: 10_000, streak: 5, pause: 5000 }
  const upstreams = urls.map((url, i) => ({ name: `node-${i}`, url: new Secret(url), concurrency: 256 }))
  const first = stageOf(failover, { upstreams, breaker, hedge: false }, services)
  const last = stageOf(upstream, { timeout: 1500, maxBytes: 65_536, silence: 400, maxPieces: 16 }, services)
  const ask = async (): Promise<Outcome> => {
    const params = [{ data: `0x${(asked += 1).toString(16)}` }, 'latest']
    const reply = await first.handle(call('eth_call', params), below => last.handle(below as never, never))
    return judge(reply, rightResult('eth_call', params))
  }
  const begin = (): Sent => {
    const sent: Sent = { done: ask().then(outcome => sent.outcome = outcome) }
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
    async stop() {
      await first.stop?.()
      await agents.close()
    },
  }
}

const judge = (reply: Reply, right: string): Outcome => {
  if (isFailure(reply)) return { is: 'refused', why: `${reply.kind} ${reply.cause ?? reply.error.message}` }
  const text = Buffer.from(reply.result).toString()
  return text === right ? { is: 'right' } : { is: 'wrong', why: text.slice(0, 100) }
}

const never = () => {
  throw new Error('the call went further than it should')
}
