import { Cancellation, releaseResult, toBuffer, withContext } from '../../src/plugin/plugin.ts'
import type { Json, Method, Reply, Result, Services, Target } from '../../src/plugin/plugin.ts'
import { comparableOf, isSameAnswer } from './comparable-answer.ts'
import type { ComparableAnswer } from './comparable-answer.ts'
import type { NextPlugin, VerifiedCall } from './verified-call.ts'
import type { RecordIfRight } from './wrong-results.ts'

interface ReadmissionOptions {
  /** Proves an answer of the node of the call, without anything that other nodes have proven. Undefined: nothing is proven of the call. */
  proveAlone(call: VerifiedCall, method: Method, next: NextPlugin): Promise<Reply | undefined>
  readonly recordIfRight: RecordIfRight
}

/** Sends nodes that have lied what other nodes have just proven, one call at a time, until they have been right often enough. */
export class Readmission {
  readonly #options: ReadmissionOptions
  readonly #services: Pick<Services, 'nodes' | 'log'>
  readonly #busy = new Set<string>()

  constructor(options: ReadmissionOptions, services: Pick<Services, 'nodes' | 'log'>) {
    this.#options = options
    this.#services = services
  }

  /** The call has been answered with what its node has proven. Nobody waits for the others. */
  begin(answer: Result, call: VerifiedCall, method: Method, next: NextPlugin): void {
    const { trust } = this.#services.nodes
    for (const target of call.context.upstreams) {
      const isDue = trust.isDistrusted(target.name, method.class) && !this.#busy.has(target.name)
      if (isDue && target.name !== answer.upstream) void this.#ask(target, comparable(answer, method), call, method, next)
    }
  }

  async #ask(target: Target, expected: ComparableAnswer, call: VerifiedCall, method: Method, next: NextPlugin): Promise<void> {
    const { proveAlone, recordIfRight } = this.#options
    this.#busy.add(target.name)
    try {
      // Which block is final the node says itself, so that it may prove what another block had.
      const reply = await recordIfRight(
        target.name,
        method.class,
        () => proveAlone(withContext(call, { target }, new Cancellation()), method, next),
        result => isSameAnswer(comparable(result, method), expected),
      )
      if (reply !== undefined) releaseResult(reply)
    } catch (error) {
      // No call waits for it, and nobody else would catch it: the process would end.
      this.#services.log.error(
        { upstream: target.name, err: error },
        'upstream that has lied was not compared with others because of a bug',
      )
    } finally {
      this.#busy.delete(target.name)
    }
  }
}

const comparable = ({ result }: Result, method: Method): ComparableAnswer => {
  const value: Json = JSON.parse(toBuffer(result).toString())
  return comparableOf(value, method.result)
}
