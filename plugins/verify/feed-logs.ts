import { HedgedSources } from '../../src/plugin/internal.ts'
import { Cancellation } from '../../src/plugin/plugin.ts'
import type { Services, Target } from '../../src/plugin/plugin.ts'
import { stringifySteps } from './json-steps.ts'
import { isFailed } from './node-requests.ts'
import { logsOf } from './proven-blocks.ts'
import type { ProvenBlocks } from './proven-blocks.ts'
import type { TrustedHeaders } from './trusted-headers.ts'
import type { WorkTurns } from './work-turns.ts'
import type { NextPlugin, VerifiedCall } from './verified-call.ts'

const requestTimeoutMs = 10_000
const maxResponseBytes = 33_554_432

type FeedLogsServices = Pick<Services, 'clock' | 'heads' | 'upstreamClient' | 'network' | 'nodes' | 'methods'>

interface FeedLogsOptions {
  readonly headers: TrustedHeaders
  readonly blocks: ProvenBlocks
  readonly turns: WorkTurns
}

/** The logs of blocks of the feed, for subscriptions and filters: all that the receipts of the block have, whatever the node says that the feed asks. */
export class FeedLogs {
  readonly #headers: TrustedHeaders
  readonly #blocks: ProvenBlocks
  readonly #turns: WorkTurns
  readonly #services: FeedLogsServices
  readonly #sources: HedgedSources
  readonly #cancellation = new Cancellation()

  constructor({ headers, blocks, turns }: FeedLogsOptions, services: FeedLogsServices) {
    this.#headers = headers
    this.#blocks = blocks
    this.#turns = turns
    this.#services = services
    this.#sources = new HedgedSources(services.clock)
  }

  /** As JSON text; undefined while upstreams do not agree on the block, or none proves its receipts. A drained node is asked nothing. */
  async of({ hash, number }: { readonly hash: string; readonly number: number }): Promise<string | undefined> {
    const { heads, nodes, methods } = this.#services
    const targets = heads.targets.filter(({ name }) => !nodes.drained.has(name))
    const methodClass = methods.get('eth_getLogs')?.class ?? 'other'
    const trusted = targets.filter(({ name }) => !nodes.trust.isDistrusted(name, methodClass))
    const [first] = trusted
    const header = first && (await this.#headers.withHash(hash, number, this.#callTo(first, targets)))
    if (header === undefined) return undefined
    if (!this.#blocks.mayHaveLogs(header, bloom => !/^0x0*$/.test(bloom))) return '[]'
    return this.#sources.first(trusted, async target => {
      const proven = await this.#blocks.receiptsOf(hash, this.#callTo(target, targets), this.#send)
      if (proven === undefined || isFailed(proven)) return undefined
      return (await this.#turns.run(stringifySteps(logsOf(proven)))).toString()
    })
  }

  stop(): void {
    this.#cancellation.abort()
  }

  /** A call of the gateway's own. */
  #callTo(target: Target, upstreams: readonly Target[]): VerifiedCall {
    const request = { method: 'eth_getLogs', params: [] }
    const signal = this.#cancellation
    const origin = {
      network: this.#services.network.name,
      key: undefined,
      originHeader: undefined,
      ip: '',
      requestId: 'feed',
      headers: {},
      state: {},
    }
    const startedAtMs = this.#services.clock.monotonic()
    return {
      message: null,
      origin: { transport: 'shared', ...origin, signal },
      signal,
      startedAtMs,
      context: { request, target, upstreams },
    }
  }

  readonly #send: NextPlugin = async ({ context: { target, request }, signal }) => {
    const limits = { timeoutMs: requestTimeoutMs, maxBytes: maxResponseBytes, signal: signal ?? this.#cancellation, idempotent: true }
    return this.#services.upstreamClient.request(target, request, limits)
  }
}
