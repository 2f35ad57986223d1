import { blockSelectorOf, parseHexQuantity, toBuffer } from '../../src/plugin/plugin.ts'
import type { CachePolicy, ChainSnapshot, RawJson, Request, Result, Services } from '../../src/plugin/plugin.ts'

/** A request whose answer may be final. */
export interface CacheQuery {
  /** Identifies the request, and whatever else its answer depends on, within the network. */
  readonly key: string
  readonly policy: CachePolicy
  readonly request: Request
}

/** Whether the answer is about a block that was finalized on its node before the node was requested. */
export const isFinal = (
  { request, policy }: CacheQuery,
  { result, upstream }: Result,
  snapshot: ChainSnapshot,
  methods: Services['methods'],
): boolean => {
  const block = policy === 'mined' ? minedBlockOf(result) : policy === 'block' ? requestedBlockOf(request, methods) : undefined
  return block !== undefined && snapshot.isFinal(upstream, block)
}

/** Whether an answer to the request can be final at all, while blocks up to this one are finalized. */
export const mayBeFinal = ({ policy, request }: CacheQuery, methods: Services['methods'], finalizedNumber: number): boolean => {
  if (policy !== 'block') return policy === 'mined'
  const block = requestedBlockOf(request, methods)
  return block !== undefined && (typeof block === 'string' || block <= finalizedNumber)
}

/** The number or hash of the newest block that the request names; undefined for a request about the head. */
const requestedBlockOf = ({ method, params }: Request, methods: Services['methods']): number | string | undefined => {
  const blocks = blockSelectorOf(methods.get(method), params)
  if (blocks === undefined) return undefined
  if ('hash' in blocks) return blocks.hash
  const { from, to } = blocks
  return typeof from === 'number' && typeof to === 'number' ? Math.max(from, to) : undefined
}

/** The number of the block of a transaction or receipt. The logs of a receipt, which may come first, have the same number. */
export const minedBlockOf = (result: RawJson): number | undefined => {
  const bytes = toBuffer(result)
  const start = bytes.indexOf('"blockNumber"')
  if (start < 0) return undefined
  const [, text] = /^"blockNumber"\s*:\s*"(0x[0-9a-fA-F]+)"/.exec(bytes.toString('latin1', start, start + 64)) ?? []
  return parseHexQuantity(text)
}
