import type { BlockHeader } from './block-header.ts'
import type { CurrentChainState } from './current-chain-state.ts'
import type { BlockId } from './chain-snapshot.ts'

/** Is the block final on the chain that is known? `fetch` asks a node for the block of a number. */
export const verifyFinalizedBlock = async (
  { number, hash }: BlockId,
  current: CurrentChainState,
  fetch: (number: string) => Promise<BlockHeader | undefined>,
): Promise<boolean> => {
  const { finalized, finalityVersion } = current.state
  if (finalized === undefined || number > finalized.number) return false
  if (number === finalized.number) return hash === finalized.hash
  const block = await fetch(`0x${number.toString(16)}`)
  return block?.number === number && block.hash === hash && finalityVersion === current.state.finalityVersion
}
