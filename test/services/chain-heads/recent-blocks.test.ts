import fc from 'fast-check'
import t from '../../support/tap.ts'
import { RecentBlocks, mergeChanges } from '../../../src/services/chain-heads/index.ts'
import type { RecentBlocksChange } from '../../../src/services/chain-heads/index.ts'

const maxBlocks = 6

/** Blocks that are removed, and blocks that are appended. */
interface Step {
  readonly removed: number
  readonly appended: number
}

const copyOf = (blocks: RecentBlocks): RecentBlocks => {
  const copy = new RecentBlocks(maxBlocks)
  const change = blocks.changeFrom(copy)
  if (change !== undefined) copy.apply(change)
  return copy
}

/** Each hash is new. A step that removes every block replaces all of them. */
const createStepper = () => {
  let blockCount = 0
  return (blocks: RecentBlocks, { removed, appended }: Step): void => {
    const lowest = blocks.highestNumber < 0 ? 0 : blocks.lowestNumber - 1
    const keepThrough = Math.max(blocks.highestNumber - removed, lowest)
    const added = Array.from({ length: appended }, (_, i) => ({ number: keepThrough + 1 + i, hash: `0x${(blockCount += 1)}` }))
    if (blocks.highestNumber < 0 || keepThrough < blocks.lowestNumber) return blocks.reset(added)
    blocks.truncateTo(keepThrough)
    blocks.append(added)
  }
}

const hasSameBlocks = (one: RecentBlocks, other: RecentBlocks): boolean =>
  one.highestNumber === other.highestNumber &&
  Array.from({ length: maxBlocks }, (_, i) => one.highestNumber - i).every(
    number => one.hashAt(number) === undefined || other.hashAt(number) === one.hashAt(number),
  )

t.test('changes merged into one have the effect of all of them, and no more hashes than blocks are remembered', async () => {
  const step = fc.record({ removed: fc.nat(8), appended: fc.nat(9) })
  const applyStep = createStepper()
  fc.assert(
    fc.property(fc.array(step, { minLength: 3, maxLength: 12 }), steps => {
      const blocks = new RecentBlocks(maxBlocks)
      applyStep(blocks, { removed: 0, appended: 4 })
      const [updatedOnce, updatedEachTime] = [copyOf(blocks), copyOf(blocks)]
      let merged: RecentBlocksChange | undefined
      for (const each of steps) {
        applyStep(blocks, each)
        const change = blocks.changeFrom(updatedEachTime)
        if (change === undefined) continue
        updatedEachTime.apply(change)
        merged = merged === undefined ? change : mergeChanges(merged, change, maxBlocks)
      }
      if (merged !== undefined) updatedOnce.apply(merged)
      return hasSameBlocks(blocks, updatedOnce) && (merged?.hashes.length ?? 0) <= maxBlocks
    }),
    { numRuns: 700 },
  )
})
