import type { Results, RawJson } from '../../../src/plugin/plugin.ts'
import type { ChunkGroup } from './log-filter.ts'
import type { LogsResult } from './fetch-chunks.ts'

/**
 * The elements of the whole array, in the order of the chain, byte for byte; several may come as one, with commas
 * between them. Undefined when the pieces cannot be answers to questions of which a log fits one at most.
 */
export const mergeChunks = async (
  groups: readonly ChunkGroup[],
  logs: readonly (LogsResult | undefined)[],
  results: Results,
): Promise<readonly RawJson[] | undefined> => {
  const elements: RawJson[] = []
  let chunk = 0
  for (const { filters } of groups) {
    const nonEmpty = logs.slice(chunk, (chunk += filters.length)).flatMap(each => (each && each.count > 0 ? [each.result] : []))
    const merged = nonEmpty.length > 1 ? await mergeLogs(nonEmpty, results) : nonEmpty.map(elementsOf)
    if (merged === undefined) return undefined
    for (const element of merged) elements.push(element)
  }
  return elements
}

const elementsOf = (array: RawJson): RawJson => array.subarray(1, array.byteLength - 1)

/** A log as its node wrote it, and where it stands in the chain. */
interface PositionedLog {
  readonly text: RawJson
  readonly block: number
  readonly index: number
}

/** Undefined when a log does not say where it stands, or comes twice. */
const mergeLogs = async (arrays: readonly RawJson[], results: Results): Promise<readonly RawJson[] | undefined> => {
  const logs: PositionedLog[] = []
  for (const array of arrays) {
    const logsOfArray = await readPositions(array, results)
    if (logsOfArray === undefined) return undefined
    for (const log of logsOfArray) logs.push(log)
  }
  logs.sort((a, b) => a.block - b.block || a.index - b.index)
  const hasDuplicate = logs.some((log, i) => log.block === logs[i - 1]?.block && log.index === logs[i - 1]?.index)
  return hasDuplicate ? undefined : logs.map(log => log.text)
}

const readPositions = async (array: RawJson, results: Results): Promise<readonly PositionedLog[] | undefined> => {
  const parts = await results.extractObjectsAsync(array, ['blockNumber', 'logIndex'])
  const logs = parts?.map(({ rawJson, members: [block, index] }) => ({
    text: rawJson,
    block: readQuantity(block),
    index: readQuantity(index),
  }))
  return logs?.every(({ block, index }) => block >= 0 && index >= 0) === true ? logs : undefined
}

/** -1 for what is no quantity. */
const readQuantity = (text: string | undefined): number =>
  text !== undefined && /^"0x[0-9a-fA-F]{1,13}"$/.test(text) ? Number(text.slice(1, -1)) : -1
