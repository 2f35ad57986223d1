import type { Json, Target } from '../../plugin/call.ts'
import type { Signal } from '../../plugin/cancellation.ts'
import type { Reply } from '../../plugin/reply.ts'
import type { UpstreamClient } from '../upstream-client/index.ts'
import { parseBlockReply } from './block-header.ts'
import type { BlockHeader } from './block-header.ts'

/** Asks the node for something about its chain, before all calls that wait for it. */
export type UpstreamRequester = (method: string, ...params: readonly Json[]) => Promise<Reply>

export const openUpstreamRequester =
  (agents: UpstreamClient, target: Target, signal: Signal): UpstreamRequester =>
  (method, ...params) =>
    agents.request(
      target,
      { method, params },
      { timeoutMs: requestTimeoutMs, maxBytes: maxResponseBytes, signal, idempotent: true, bypassConcurrencyLimit: true },
    )

/** A block by its hash or number; undefined when the node does not tell. */
export const fetchBlock = async (request: UpstreamRequester, hashOrNumber: string): Promise<BlockHeader | undefined> =>
  parseBlockReply(await request(hashOrNumber.length === 66 ? 'eth_getBlockByHash' : 'eth_getBlockByNumber', hashOrNumber, false))

const requestTimeoutMs = 2000
const maxResponseBytes = 8_388_608
