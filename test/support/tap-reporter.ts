import { Transform } from 'node:stream'
import type { TransformCallback } from 'node:stream'
import { inspect } from 'node:util'
import { Parser } from 'tap-parser'
import type { Result } from 'tap-parser'

/**
 * The output of `npm test`: a line for each test file, with its failures, skipped and todo tests below, then the slowest files, and as
 * the last line `N passed, N failed`. A test counts once, however many assertions it makes; a test that only contains other tests
 * does not count.
 */
export default class TapReporter extends Transform {
  readonly #parser = new Parser()
  readonly #totals: TestCounts = { passed: 0, failed: 0, skipped: 0 }
  readonly #failed: string[] = []
  readonly #files: TimedFile[] = []
  /** What tests of the current file have printed. */
  #output: string[] = []

  /** tap counts a file without tests as skipped: it does not set the exit code. */
  get hasFailed(): boolean {
    return this.#failed.length > 0
  }

  constructor() {
    super({ encoding: 'utf8' })
    this.#parser.on('bailout', (reason: string) => this.#onBailOut(reason))
    this.#parser.on('extra', (text: string) => {
      this.#output.push(text.trimEnd())
    })
    this.#parser.on('child', (child: Parser) => (isFile(child.name) ? this.#onFile(child, this.#parser) : this.#onGroup(child)))
    this.#parser.on('assert', (point: Result) => {
      if (!point.ok && !point.closingTestPoint) this.#onStrayFailure(point)
    })
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#parser.write(chunk)
    done()
  }

  override _flush(done: TransformCallback): void {
    this.#parser.end()
    const { passed, failed, skipped } = this.#totals
    if (this.#files.length > slowestFileCount) this.#printLines('', 'slowest:', ...slowestOf(this.#files).map(formatTimedFile))
    if (this.#failed.length > 0) this.#printLines('', 'failed:', ...this.#failed.map(name => `  ${name}`))
    this.#printLines('', `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
    done()
  }

  /** Files that share a process. When that ends too early, a file may lack its end, and those behind it are missing. */
  #onGroup(group: Parser): void {
    const failedBefore = this.#failed.length
    let openFiles = 0
    group.on('child', (child: Parser) => {
      openFiles += 1
      this.#onFile(child, group)
      group.once('assert', () => (openFiles -= 1))
    })
    this.#parser.once('assert', (point: Result) => {
      if (point.ok || (openFiles === 0 && this.#failed.length > failedBefore)) return
      this.#totals.failed += 1
      this.#failed.push(point.name)
      this.#printLines(`FAIL ${point.name}: ${describeExit(point.diag)}`)
    })
  }

  /** `parent` reports how the file ended. */
  #onFile(parser: Parser, parent: Parser): void {
    const lines: string[] = []
    this.#output = lines
    const counts = countTests(parser, lines, this.#failed)
    parent.once('assert', (point: Result) => {
      const name = sourcePathOf(point.name)
      const isEmpty = point.skip === emptyFileReason
      const isFailed = !point.ok || isEmpty
      if (isFailed && counts.failed === 0) {
        counts.failed = 1
        this.#failed.push(name)
        lines.push('', `  ${isEmpty && point.ok ? 'the file has no tests' : describeExit(point.diag)}`)
      }
      if (point.skip !== false && !isFailed) recordSkipped(lines, counts, 'skipped', name, point.skip)
      const timeMs = point.time ?? 0
      this.#files.push({ name, timeMs })
      this.#printLines(`${isFailed ? 'FAIL' : 'ok  '} ${name} (${formatCounts(counts)}, ${formatSeconds(timeMs)})`, ...lines)
      addCounts(this.#totals, counts)
    })
  }

  /** A failure outside of the test files: tap reports so that it had to kill a file. */
  #onStrayFailure(point: Result): void {
    const name = sourcePathOf(point.diag?.expired ?? point.name)
    if (this.#failed.some(failed => failed.startsWith(name))) return
    this.#totals.failed += 1
    this.#failed.push(name)
    this.#printLines(`FAIL ${name}: ${point.name}`)
  }

  /** A file that prints `Bail out!` ends the run. */
  #onBailOut(reason: string): void {
    this.#totals.failed += 1
    this.#failed.push(`the run ended early: Bail out!${reason === '' ? '' : ` ${reason}`}`)
  }

  #printLines(...lines: readonly string[]): void {
    this.push(`${lines.join('\n')}\n`)
  }
}

/** Why tap skips a file that prints no test point; a file that skips itself gives another reason. */
const emptyFileReason = 'no tests found'

interface TimedFile {
  readonly name: string
  readonly timeMs: number
}

/** Files that are listed again at the end, when more have run. */
const slowestFileCount = 10

const slowestOf = (files: readonly TimedFile[]): readonly TimedFile[] =>
  files.toSorted((a, b) => b.timeMs - a.timeMs).slice(0, slowestFileCount)

const formatTimedFile = ({ name, timeMs }: TimedFile): string => `  ${formatSeconds(timeMs).padStart(8)}  ${name}`

const formatSeconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`

interface TestCounts {
  passed: number
  failed: number
  skipped: number
}

/** Counts the tests below `parser` while they are read, and appends what is printed of them to `lines`. */
const countTests = (parser: Parser, lines: string[], failed: string[]): TestCounts => {
  const counts: TestCounts = { passed: 0, failed: 0, skipped: 0 }
  const own = { passed: 0, failed: 0 }
  let previous: Result | undefined
  let child: TestCounts | undefined

  parser.on('child', (nested: Parser) => {
    child = countTests(nested, lines, failed)
  })
  parser.on('assert', (point: Result) => {
    const isEcho = !point.ok && previous?.ok === false && previous.name === point.name
    previous = point
    if (point.closingTestPoint && child && point.skip === false) {
      addCounts(counts, countOf(child) === 0 && point.ok ? { ...child, passed: 1 } : child)
    } else if (point.skip !== false || point.todo !== false) {
      recordSkipped(lines, counts, point.skip !== false ? 'skipped' : 'todo', testPathOf(point), point.skip || point.todo)
    } else if (!isEcho) {
      own[point.ok ? 'passed' : 'failed'] += 1
      if (!point.ok) lines.push('', ...formatFailure(point))
    }
    child = undefined
  })
  parser.on('complete', () => {
    if (own.failed > 0) {
      counts.failed += 1
      failed.push(sourcePathOf(namesFromFile(parser.fullname).join(' > ')))
    } else if (own.passed > 0 && countOf(counts) === 0) counts.passed += 1
  })
  return counts
}

const countOf = ({ passed, failed, skipped }: TestCounts): number => passed + failed + skipped

const addCounts = (counts: TestCounts, more: TestCounts): void => {
  counts.passed += more.passed
  counts.failed += more.failed
  counts.skipped += more.skipped
}

/** A skipped test and a todo test prove nothing: both count as skipped. */
const recordSkipped = (lines: string[], counts: TestCounts, kind: 'skipped' | 'todo', name: string, reason: string | boolean): void => {
  counts.skipped += 1
  lines.push(`    ${kind}: ${name}${typeof reason === 'string' && reason !== '' ? ` (${reason})` : ''}`)
}

const formatCounts = ({ passed, failed, skipped }: TestCounts): string =>
  [`${passed} passed`, ...(failed > 0 ? [`${failed} failed`] : []), ...(skipped > 0 ? [`${skipped} skipped`] : [])].join(', ')

/** The location of the assertion, and its diagnostics, without those about tap itself. */
const formatFailure = (point: Result): string[] => {
  const { at, diff, stack, source, compare: _compare, tapCaught: _caught, test: _test, ...rest } = point.diag ?? {}
  const location = at?.fileName ? ` at ${at.fileName}:${at.lineNumber}:${at.columnNumber}` : ''
  const details = [sourceLineOf(source), diff ?? stack ?? '', Object.keys(rest).length > 0 ? inspect(rest, { depth: 8 }) : '']
  return [
    `  ${testPathOf(point)}${location}`,
    ...details
      .join('\n')
      .split('\n')
      .filter(line => line.trim() !== '')
      .map(line => `    ${line}`),
  ]
}

/** Tap quotes a few lines of the source, with an arrow below the line that `at` names. */
const sourceLineOf = (source: string | undefined): string => {
  const lines = source?.split('\n') ?? []
  return lines[lines.findIndex(line => /^-+\^$/.test(line)) - 1]?.trim() ?? ''
}

/** Why a test file failed although none of its tests did. */
const describeExit = (diag: Result['diag']): string => {
  if (diag?.signal === 'SIGALRM') return 'timed out'
  if (diag?.signal) return `killed by ${diag.signal}`
  return diag?.exitCode ? `crashed with exit code ${diag.exitCode}` : 'the process ended before its tests did'
}

const isFile = (name: string): boolean => name.endsWith('.js')

/** The file and the tests in it, without the group that the file is in. */
const namesFromFile = (fullname: string): readonly string[] => {
  const names = fullname.split(' > ')
  return names.slice(Math.max(0, names.findIndex(isFile)))
}

const testPathOf = (point: Result): string => namesFromFile(point.fullname).slice(1).join(' > ')

/** Tests are compiled; the source is what a reader opens. */
const sourcePathOf = (name: string): string => name.replace(/^dist\/(.*)\.js/, '$1.ts')
