import type { Json, Target } from '../../plugin/call.ts'
import type { Signal } from '../../plugin/cancellation.ts'
import type { Reply } from '../../plugin/reply.ts'
import type { UpstreamClient } from '../upstream-client/index.ts'
import { parseBlockReply } from './block-header.ts'
import type { BlockHeader } from './block-header.ts'

/** Sends one upstream a request about its chain, ahead of the calls that wait for the upstream's concurrency limit. */
export type UpstreamRequester = (method: string, ...params: readonly Json[]) => Promise<Reply>

export const openUpstreamRequester =
  (upstreamClient: UpstreamClient, target: Target, signal: Signal): UpstreamRequester =>
  (method, ...params) =>
    upstreamClient.request(
      target,
      { method, params },
      { timeoutMs: requestTimeoutMs, maxBytes: maxResponseBytes, signal, idempotent: true, bypassConcurrencyLimit: true },
    )

/** The block with this hash or number; undefined when the upstream does not return it. */
export const fetchBlock = async (request: UpstreamRequester, hashOrNumber: string): Promise<BlockHeader | undefined> =>
  parseBlockReply(await request(hashOrNumber.length === hashChars ? 'eth_getBlockByHash' : 'eth_getBlockByNumber', hashOrNumber, false))

/** `0x` and 32 bytes in hex. */
const hashChars = 66

const requestTimeoutMs = 2000
const maxResponseBytes = 8_388_608
