import type { FeedUpdate } from '../services/chain-heads/index.ts'

/** What a feed has published; undefined is its end. */
export type PublishedUpdates = readonly FeedUpdate[] | undefined

/** Blocks, and events that stand for themselves, that wait for a worker, at most: with more its feed ends. */
const maxWaitingBlocks = 512
const maxWaitingEvents = 10_000

/** All updates of both; undefined, the end of the feed, when one of them is that, or when too much waits. */
export const joinUpdates = (older: PublishedUpdates, newer: PublishedUpdates): PublishedUpdates => {
  const updates = [...(older ?? []), ...(newer ?? [])]
  const blockCount = sumOf(updates, update => ('added' in update ? update.removed.length + update.added.length : 0))
  const eventCount = sumOf(updates, update => ('events' in update ? update.events.length : 0))
  const isTooMuch = blockCount > maxWaitingBlocks || eventCount > maxWaitingEvents
  return older === undefined || newer === undefined || isTooMuch ? undefined : updates
}

const sumOf = (updates: readonly FeedUpdate[], countOf: (update: FeedUpdate) => number): number =>
  updates.reduce((sum, update) => sum + countOf(update), 0)
