import { readFileSync, readdirSync } from 'node:fs'
import { join, relative } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import TapReporter from '../support/tap-reporter.ts'
import { rootDir } from './source-files.ts'

// npm test [-- FILE...]: runs these compiled tests, or all, as many at a time as .taprc says.
//
// Files of one folder of test/ share processes: each process takes 0.7 s of CPU, to load tap and the sources. What takes longest begins
// first, so that no lane is left alone with it at the end. The tests of tools that measure and attack gateways are run by .ci/run,
// beside the attacks.
//
// The `tap` command does the same at 0.4 to 0.8 s of CPU more for each file: it loads a recorder of imports and a replacer of
// modules into every test process. The first serves coverage and `tap --changed`, the second `t.mockImport`: none is used here.

const { jobs, timeout } = parse(readFileSync(join(rootDir, '.taprc'), 'utf8')) as { readonly jobs: number; readonly timeout: number }

const toolFolders = ['attack', 'bench', 'soak']

const allTests = (): readonly string[] =>
  (readdirSync(join(rootDir, 'dist/test'), { recursive: true }) as string[])
    .filter(file => file.endsWith('.test.js') && !toolFolders.includes(folderOf(join('dist/test', file))))
    .map(file => join('dist/test', file))
    .sort()

/** `cli` of dist/test/cli/keys.test.js. */
const folderOf = (file: string): string => /^dist\/test\/([^/]+)\//.exec(file)?.[1] ?? ''

/** A file that reads or changes what its own process has one of: memory, CPU time, signals, the standard error, the flags of V8. */
const ownProcessPattern = /\bprocess\.(?:cpuUsage|emit|listeners|memoryUsage|on|stderr)\b|node:(?:v8|worker_threads)/

const browserPattern = /support\/browser\.js/

/** They wait for servers most of the time, and leave the cores to browsers. */
const waitingFolders: readonly string[] = ['store']

const longFolders: readonly string[] = ['faults', 'portal', 'e2e', 'cli']

/** In a process: more would leave lanes idle at the end. */
const maxSharingFiles = 8

const matches = (file: string, pattern: RegExp): boolean => pattern.test(readFileSync(join(rootDir, file), 'utf8'))

/** Files of one folder, in processes of about the same number of files. */
const groupFiles = (files: readonly string[]): readonly (readonly string[])[] => {
  const groupCount = Math.ceil(files.length / maxSharingFiles)
  return Array.from({ length: groupCount }, (_, group) => files.filter((_, index) => index % groupCount === group))
}

/** tap adds its recorder to NODE_OPTIONS; `env` puts back what was there. */
const startTest = (name: string, args: readonly string[], timeoutSeconds: number): void => {
  const command = [`NODE_OPTIONS=${process.env.NODE_OPTIONS ?? ''}`, process.execPath, '--enable-source-maps', ...args]
  const env = { ...process.env, TAP_TIMEOUT: String(timeoutSeconds) }
  void t.spawn('env', command, { name, env, cwd: rootDir, buffered: true, timeout: timeoutSeconds * 1000, at: null, stack: '' })
}

const runFilesScript = 'dist/test/tools/run-files.js'

const files = process.argv.slice(2).map(file => relative(rootDir, file))
const tests = files.length > 0 ? files : allTests()

const reporter = new TapReporter()
reporter.once('end', () => {
  if (reporter.hasFailed) process.exitCode = 1
})

t.register()
// Otherwise tap exits where a file prints `Bail out!`, before anything is reported.
t.context = Symbol.for('tap.isRunner')
t.pipe(reporter).pipe(process.stdout)
t.setTimeout(0)
t.jobs = jobs
// The exit of this process ends the tests that still run.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1))
const browserTests = tests.filter(file => matches(file, browserPattern))
const ownProcessTests = tests.filter(file => !browserTests.includes(file) && (folderOf(file) === '' || matches(file, ownProcessPattern)))
const sharing = tests.filter(file => !browserTests.includes(file) && !ownProcessTests.includes(file))
const startFolder = (folder: string): void => {
  for (const group of groupFiles(sharing.filter(file => folderOf(file) === folder))) {
    startTest(folder, [runFilesScript, ...group], timeout * group.length)
  }
}
const folders = [...new Set(sharing.map(folderOf))]
folders.filter(folder => waitingFolders.includes(folder)).forEach(startFolder)
for (const test of browserTests) startTest(test, [test], timeout)
folders.filter(folder => longFolders.includes(folder)).forEach(startFolder)
folders.filter(folder => ![...waitingFolders, ...longFolders].includes(folder)).forEach(startFolder)
for (const test of ownProcessTests) startTest(test, [test], timeout)
t.end()
