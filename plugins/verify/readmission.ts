import { Cancellation, isFailure, releaseResult, toBuffer, withContext } from '../../src/plugin/plugin.ts'
import type { Json, Method, Reply, Result, Services, Target } from '../../src/plugin/plugin.ts'
import { canonicalJson } from './canonical-json.ts'
import type { NextPlugin, VerifiedCall } from './verified-call.ts'

/** Proves an answer of the node of the call, without anything that other nodes have proven. */
type ProveAlone = (call: VerifiedCall, method: Method, next: NextPlugin) => Promise<Reply | undefined>

/** Sends nodes that have lied what other nodes have just proven, one call at a time, until they have been right often enough. */
export class Readmission {
  readonly #prove: ProveAlone
  readonly #services: Pick<Services, 'nodes' | 'log'>
  readonly #busy = new Set<string>()

  constructor(prove: ProveAlone, services: Pick<Services, 'nodes' | 'log'>) {
    this.#prove = prove
    this.#services = services
  }

  /** The call has been answered with what its node has proven. Nobody waits for the others. */
  begin(answer: Result, call: VerifiedCall, method: Method, next: NextPlugin): void {
    const { trust } = this.#services.nodes
    for (const target of call.context.upstreams) {
      const isDue = trust.isDistrusted(target.name, method.class) && !this.#busy.has(target.name)
      if (isDue && target.name !== answer.upstream) void this.#ask(target, textOf(answer), call, method, next)
    }
  }

  async #ask(target: Target, expected: string, call: VerifiedCall, method: Method, next: NextPlugin): Promise<void> {
    const { log } = this.#services
    this.#busy.add(target.name)
    try {
      const reply = await this.#prove(withContext(call, { target }, new Cancellation()), method, next)
      if (reply === undefined || isFailure(reply)) return
      const isRight = reply.upstream === target.name && canonical(textOf(reply)) === canonical(expected)
      releaseResult(reply)
      if (isRight) recordRight(this.#services, target.name, method.class)
    } catch (error) {
      // No call waits for it, and nobody else would catch it: the process would end.
      log.error({ upstream: target.name, err: error }, 'upstream that has lied was not compared with others because of a bug')
    } finally {
      this.#busy.delete(target.name)
    }
  }
}

export const recordRight = ({ nodes, log }: Pick<Services, 'nodes' | 'log'>, upstream: string, methodClass: string): void => {
  if (nodes.trust.recordRight(upstream, methodClass))
    log.info({ event: 'upstream-readmitted', upstream, class: methodClass }, 'upstream has answered right 100 times: it gets calls again')
}

const textOf = ({ result }: Result): string => toBuffer(result).toString()

const canonical = (text: string): string => {
  const value: Json = JSON.parse(text)
  return canonicalJson(value)
}
