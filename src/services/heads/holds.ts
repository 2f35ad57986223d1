import type { Block } from './block.ts'
import type { Known } from './known.ts'
import type { Settled } from './view.ts'

/** Is the block final on the chain that is known? `fetch` asks a node for the block of a number. */
export const holds = async (
  { number, hash }: Settled,
  known: Known,
  fetch: (number: string) => Promise<Block | undefined>,
): Promise<boolean> => {
  const { final, era } = known.state
  if (final === undefined || number > final.number) return false
  if (number === final.number) return hash === final.hash
  const block = await fetch(`0x${number.toString(16)}`)
  return block?.number === number && block.hash === hash && era === known.state.era
}
