import { setFlagsFromString } from 'node:v8'

/**
 * Bytes of bytecode that V8 may inline into one function that it optimizes; 920 by itself. A call passes nearly 200 small functions in 44
 * files, and at 1,000 calls a second each of them is cold, as other processes ran since the last call: fewer and longer ones cost less.
 */
const maxInlinedBytes = 2_000

/** From here on: code that has been optimized stays as it is. */
export const inlineMore = (): void => setFlagsFromString(`--max-inlined-bytecode-size-cumulative=${maxInlinedBytes}`)
