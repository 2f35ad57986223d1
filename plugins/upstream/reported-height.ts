import { copyReply, toBuffer } from '../../src/plugin/plugin.ts'
import type { Heads, Result } from '../../src/plugin/plugin.ts'

/** The height that a node told, or the greater one that callers were told already. */
export const withReportedHeight = (result: Result, upstream: string, heads: Heads): Result | Promise<Result> => {
  const text = toBuffer(result.result).toString('latin1')
  if (!/^"0x[0-9a-fA-F]{1,13}"$/.test(text)) return copyReply(result, { unexpectedType: true })
  const height = Number(text.slice(1, -1))
  const withHeight = (reported: number): Result =>
    reported === height ? result : copyReply(result, { result: Buffer.from(`"0x${reported.toString(16)}"`, 'latin1') })
  const told = heads.reportHeight(upstream, height)
  return typeof told === 'number' ? withHeight(told) : told.then(withHeight)
}
