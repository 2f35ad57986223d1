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

export interface Run {
  readonly all: Promise<readonly Outcome[]>
  /** Settles with the call that was sent first. */
  readonly oldest: Promise<unknown>
}

/** failover and upstream with real connections, in this process, and callers in front of them. */
export interface Load {
  /** So many calls a second, for so many ms. */
  run(rate: number, length: number): Run
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
  return {
    run(rate, length) {
      const sent: Promise<Outcome>[] = []
      const begun = performance.now()
      const all = new Promise<readonly Outcome[]>(resolve => {
        const timer = setInterval(() => {
          const due = Math.min(length, performance.now() - begun) * rate / 1000
          while (sent.length < due) sent.push(ask())
          if (performance.now() - begun < length) return
          clearInterval(timer)
          resolve(Promise.all(sent))
        }, 5)
      })
      sent.push(ask())
      return { all, oldest: Promise.resolve(sent[0]) }
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
