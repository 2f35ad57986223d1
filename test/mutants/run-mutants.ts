import { spawn } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { rootDir } from '../tools/source-files.ts'
import { compiledOf, countText, mutants } from './mutants.ts'
import type { Mutant } from './mutants.ts'

// npm run mutants [-- TEXT...]: breaks one rule at a time in a copy of the tree, and runs the tests that must notice. TEXT: only mutants
// whose rule or file has one of these. Exits with 1 when a rule can be broken unnoticed, or when a mutant's text is no longer in its file.

/** A test that takes longer has noticed: it hangs on what is broken. Unbroken, the slowest takes a sixth of that on free cores. */
const testTimeoutMs = 180_000

type Outcome = 'passed' | 'failed' | 'timed out'

/** A copy of the tree without its packages, which it shares. */
const copyTree = (): string => {
  const copy = mkdtempSync(join(tmpdir(), 'tollgate-mutants-'))
  for (const name of readdirSync(rootDir)) {
    if (name === 'node_modules') symlinkSync(join(rootDir, name), join(copy, name))
    else if (name !== '.git' && name !== 'data') cpSync(join(rootDir, name), join(copy, name), { recursive: true, verbatimSymlinks: true })
  }
  return copy
}

/** A process group of its own, so that nothing that a hanging test has started stays. */
const runTest = (root: string, test: string): Promise<Outcome> =>
  new Promise(resolve => {
    const child = spawn(process.execPath, ['--enable-source-maps', compiledOf(test)], {
      cwd: root,
      // Not the bundle: it holds what is broken here as it was built.
      env: { ...process.env, TAP_BAIL: '1', TAP_TIMEOUT: String(testTimeoutMs / 1000), TOLLGATE_MAIN: join(root, 'dist/src/main.js') },
      stdio: 'ignore',
      detached: true,
    })
    let hasTimedOut = false
    const timer = setTimeout(() => {
      hasTimedOut = true
      process.kill(-child.pid!, 'SIGKILL')
    }, testTimeoutMs)
    child.on('exit', code => {
      clearTimeout(timer)
      resolve(hasTimedOut ? 'timed out' : code === 0 ? 'passed' : 'failed')
    })
  })

/** The test that notices, and how; undefined when none does. */
const findNotice = async (root: string, { file, text, broken, tests }: Mutant): Promise<string | undefined> => {
  const path = join(root, compiledOf(file))
  const compiled = readFileSync(path, 'utf8')
  writeFileSync(
    path,
    compiled.replace(text, () => broken),
  )
  try {
    for (const test of tests) {
      const outcome = await runTest(root, test)
      if (outcome !== 'passed') return `${outcome}: ${test}`
    }
    return undefined
  } finally {
    writeFileSync(path, compiled)
  }
}

const wanted = process.argv.slice(2)
const chosen = mutants.filter(({ rule, file }) => wanted.length === 0 || wanted.some(text => `${rule}\n${file}`.includes(text)))
const problems: string[] = []
const root = copyTree()
process.once('exit', () => rmSync(root, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

// A test that fails by itself would notice everything.
const failing = new Set<string>()
for (const test of new Set(chosen.flatMap(({ tests }) => tests))) {
  if ((await runTest(root, test)) === 'passed') continue
  failing.add(test)
  problems.push(`fails without a mutant: ${test}`)
}
for (const mutant of chosen) {
  const { rule, file, text } = mutant
  if (countText(mutant) !== 1 || countText({ file: compiledOf(file), text }, root) !== 1) {
    problems.push(`not found exactly once: ${file}: ${text}`)
    continue
  }
  const tests = mutant.tests.filter(test => !failing.has(test))
  if (tests.length === 0) {
    problems.push(`all its tests fail without it: ${file}: ${rule}`)
    continue
  }
  const notice = await findNotice(root, { ...mutant, tests })
  console.log(`${notice ?? 'SURVIVED'}  ${file}: ${rule}`)
  if (notice === undefined) problems.push(`survived: ${file}: ${rule}`)
}
console.log(`${chosen.length} mutants, ${problems.length} problems`)
for (const problem of problems) console.log(problem)
process.exitCode = problems.length > 0 ? 1 : 0
