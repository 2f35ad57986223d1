import type { Json, Target } from '../../call.ts'
import type { Signal } from '../../leave.ts'
import type { Reply } from '../../reply.ts'
import type { Agents } from '../agents/index.ts'
import { readBlock } from './block.ts'
import type { Block } from './block.ts'

/** Asks the node for something about its chain, before all calls that wait for it. */
export type AskNode = (method: string, ...params: readonly Json[]) => Promise<Reply>

export const openAsk =
  (agents: Agents, target: Target, signal: Signal): AskNode =>
  (method, ...params) =>
    agents.ask(target, { method, params }, { timeout, maxBytes, signal, resend: true, ahead: true })

/** A block by its hash or number; undefined when the node does not tell. */
export const fetchBlock = async (ask: AskNode, at: string): Promise<Block | undefined> =>
  readBlock(await ask(at.length === 66 ? 'eth_getBlockByHash' : 'eth_getBlockByNumber', at, false))

const timeout = 2000
const maxBytes = 8_388_608
