import { setFlagsFromString } from 'node:v8'

/**
 * Bytes of bytecode that V8 may inline into one function that it optimizes; 920 by itself. A call passes nearly 200 small functions in 44
 * files, and each is cold where the system has run other code since the last call: fewer and longer ones cost less. By `npm run bench`, beside the build
 * before: `uncached` 0.94 (6 rounds), `paced-uncached` 0.95 and `paced` 1.01 (24 rounds), in wide ranges. After 8 s of calls, which the rounds of
 * the benchmark do not have, a paced cached call took 0.90 to 0.92.
 */
const maxInlinedBytes = 2_000

/** Counts for code that is optimized from here on. */
export const inlineMore = (): void => setFlagsFromString(`--max-inlined-bytecode-size-cumulative=${maxInlinedBytes}`)
