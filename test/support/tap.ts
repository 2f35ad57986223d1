import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { rootDir } from '../tools/source-files.ts'

export { test } from 'tap'
export default t

/** For a file that `node` runs by itself: on a busy machine, tap's own 30 s are too few. */
const readTimeoutMs = (): number => Number(/^timeout: (.+)$/m.exec(readFileSync(join(rootDir, '.taprc'), 'utf8'))?.[1]) * 1_000

if (process.env.TAP_TIMEOUT === undefined) t.setTimeout(readTimeoutMs())
