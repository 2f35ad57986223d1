import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { handleUncaughtErrors } from './tap-without-async-hooks.ts'
import tap from 'tap'
import type { Test } from 'tap'
import { rootDir } from '../tools/source-files.ts'

/** The test that stands for the file: that of its process, or one of several files in a process. */
let fileTest: Test = tap
// A live binding: each file that imports it finds its own.
export { fileTest as default }

handleUncaughtErrors(() => fileTest.hookDomain.eid)

/** Of a file. On a busy machine, tap's own 30 s are too few. */
const timeoutMs = Number(/^timeout: (.+)$/m.exec(readFileSync(join(rootDir, '.taprc'), 'utf8'))?.[1]) * 1_000

/** Runs a compiled test file, given relative to the root, within this process. Resolves once its tests have ended. */
export const runTestFile = (file: string): Promise<unknown> =>
  tap.test(file, { timeout: timeoutMs }, async t => {
    fileTest = t
    await import(pathToFileURL(join(rootDir, file)).href)
  })

// For a file that `node` runs by itself.
if (process.env.TAP_TIMEOUT === undefined) tap.setTimeout(timeoutMs)
