import type { Results, Text } from '../../src/plugin.ts'
import type { Slice } from './filter.ts'
import type { Logs } from './gather.ts'

/**
 * The elements of the whole array, in the order of the chain, byte for byte; several may come as one, with commas
 * between them. Undefined when the pieces cannot be answers to questions of which a log fits one at most.
 */
export const mergeSlices = async (
  slices: readonly Slice[],
  logs: readonly (Logs | undefined)[],
  results: Results,
): Promise<readonly Text[] | undefined> => {
  const elements: Text[] = []
  let piece = 0
  for (const { filters } of slices) {
    const full = logs.slice(piece, (piece += filters.length)).flatMap(each => (each && each.count > 0 ? [each.result] : []))
    const merged = full.length > 1 ? await mergeLogs(full, results) : full.map(insideOf)
    if (merged === undefined) return undefined
    for (const element of merged) elements.push(element)
  }
  return elements
}

const insideOf = (array: Text): Text => array.subarray(1, array.byteLength - 1)

/** A log as its node wrote it, and where it stands in the chain. */
interface Log {
  readonly text: Text
  readonly block: number
  readonly index: number
}

/** Undefined when a log does not say where it stands, or comes twice. */
const mergeLogs = async (arrays: readonly Text[], results: Results): Promise<readonly Text[] | undefined> => {
  const logs: Log[] = []
  for (const array of arrays) {
    const own = await readLogs(array, results)
    if (own === undefined) return undefined
    for (const log of own) logs.push(log)
  }
  logs.sort((a, b) => a.block - b.block || a.index - b.index)
  const isTwice = logs.some((log, i) => log.block === logs[i - 1]?.block && log.index === logs[i - 1]?.index)
  return isTwice ? undefined : logs.map(log => log.text)
}

const readLogs = async (array: Text, results: Results): Promise<readonly Log[] | undefined> => {
  const parts = await results.longParts(array, ['blockNumber', 'logIndex'])
  const logs = parts?.map(({ text, members: [block, index] }) => ({ text, block: read(block), index: read(index) }))
  return logs?.every(({ block, index }) => block >= 0 && index >= 0) === true ? logs : undefined
}

/** -1 for what is no quantity. */
const read = (text: string | undefined): number =>
  text !== undefined && /^"0x[0-9a-fA-F]{1,13}"$/.test(text) ? Number(text.slice(1, -1)) : -1
