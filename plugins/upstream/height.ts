import { wholeOf } from '../../src/plugin.ts'
import type { Heads, Result } from '../../src/plugin.ts'

/** The height that a node told, or the greater one that callers were told already. */
export const neverLower = (result: Result, upstream: string, heads: Heads): Result | Promise<Result> => {
  const text = wholeOf(result.result).toString('latin1')
  if (!/^"0x[0-9a-fA-F]{1,13}"$/.test(text)) return { ...result, odd: true }
  const height = Number(text.slice(1, -1))
  const say = (told: number): Result =>
    told === height ? result : { ...result, result: Buffer.from(`"0x${told.toString(16)}"`, 'latin1') }
  const told = heads.tell(upstream, height)
  return typeof told === 'number' ? say(told) : told.then(say)
}
