import verify from '../../../plugins/verify/index.ts'
import { toBuffer } from '../../../src/json/chunked-bytes.ts'
import type { Json, Request, Target } from '../../../src/plugin/call.ts'
import { isFailure, refuse } from '../../../src/plugin/reply.ts'
import type { Reply } from '../../../src/plugin/reply.ts'
import type { ChainSnapshot, Heads } from '../../../src/services/index.ts'
import { shippedMethods } from '../../services/method-table/shipped-table.ts'
import { TestLog, createStage, fakeCall, fakeResult, fakeTarget } from '../../support/fakes.ts'

/** Answers a request of the gateway; undefined is as an error. */
export type Node = (request: Request) => Promise<Json | undefined>

interface ProofOptions {
  readonly agree?: number
  /** The head that the gateway knows. */
  readonly head?: () => number | undefined
  /** The height that callers have been told. */
  readonly reportedHeight?: number
  /** Called when a node is waited for; until then, the node `lagging` lacks the reported block. */
  readonly onWait?: () => void
}

const methods = {
  eth_getBalance: 'proof',
  eth_getTransactionCount: 'proof',
  eth_getCode: 'proof',
  eth_getStorageAt: 'proof',
  eth_getLogs: 'proof',
}

/** The plugin with the policy `proof` over these nodes, of which the first is asked. */
export const openProofs = (
  nodes: Readonly<Record<string, Node>>,
  { agree, head = () => undefined, reportedHeight = 0, onWait }: ProofOptions = {},
) => {
  const log = new TestLog()
  const requests: string[] = []
  const targets: readonly Target[] = Object.keys(nodes).map(name => ({ ...fakeTarget, name }))
  const request = async ({ name }: Target, request: Request): Promise<Reply> => {
    requests.push(`${name} ${request.method}`)
    const value = await nodes[name]?.(request)
    return value === undefined ? refuse('unavailable', { source: 'node', upstream: name }) : fakeResult(value, { upstream: name })
  }
  let headVersion = 0
  let hasWaited = false
  const snapshot = (): Partial<ChainSnapshot> => ({ head: head(), reportedHeight, headVersion, finalizedBlockOf: () => undefined })
  const heads = {
    get snapshot() {
      return snapshot()
    },
    hasBlock: (name: string) => name !== 'lagging' || hasWaited || onWait === undefined,
    async waitForBlock() {
      hasWaited = true
      onWait?.()
    },
    reportHeight: (_upstream: string, height: number) => height,
    exclusionOf: (name: string) => (name === 'otherChain' ? 'chain' : undefined),
  }
  const options = { methods, maxBytes: 1 << 20, maxBlocks: 8, ...(agree !== undefined && { agree }) }
  const services = { methods: shippedMethods, log, upstreamClient: { request, disconnects: () => 0 }, heads: heads as unknown as Heads }
  const stage = createStage(verify, options, services)
  return {
    log,
    requests,
    newHead: () => (headVersion += 1),
    /** The answer of the first node, as the caller gets it; undefined for a failure. */
    async call(method: string, ...params: readonly Json[]): Promise<Json | undefined> {
      const target = targets[0]!
      const call = fakeCall(method, params, { target, upstreams: targets })
      const reply = await stage.handle(call, async below => request(target, below.context.request))
      return isFailure(reply) ? undefined : JSON.parse(toBuffer(reply.result).toString())
    },
  }
}
