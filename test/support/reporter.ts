import { Transform } from 'node:stream'
import type { TransformCallback } from 'node:stream'
import { inspect } from 'node:util'
import { Parser } from 'tap-parser'
import type { Result } from 'tap-parser'

/**
 * What `npm test` prints: one line per test file, what failed, was skipped or is still to do below it, and as the last
 * line `N passed, N failed`. A test counts once, however many assertions it makes; one that only holds others does not
 * count.
 */
export default class Reporter extends Transform {
  readonly #parser = new Parser()
  readonly #total: Tally = { passed: 0, failed: 0, skipped: 0 }
  readonly #failed: string[] = []
  /** What the tests of the present file wrote by themselves. */
  #written: string[] = []

  constructor() {
    super({ encoding: 'utf8' })
    this.#parser.on('extra', (text: string) => {
      this.#written.push(text.trimEnd())
    })
    this.#parser.on('child', (child: Parser) => this.#file(child))
    this.#parser.on('assert', (point: Result) => {
      if (!point.ok && !point.closingTestPoint) this.#stray(point)
    })
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#parser.write(chunk)
    done()
  }

  override _flush(done: TransformCallback): void {
    this.#parser.end()
    const { passed, failed, skipped } = this.#total
    if (this.#failed.length > 0) this.#say('', 'failed:', ...this.#failed.map(name => `  ${name}`))
    this.#say('', `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`)
    done()
  }

  #file(parser: Parser): void {
    const notes: string[] = []
    this.#written = notes
    const tally = follow(parser, notes, this.#failed)
    this.#parser.once('assert', (point: Result) => {
      const name = sourceOf(point.name)
      if (!point.ok && tally.failed === 0) {
        tally.failed = 1
        this.#failed.push(name)
        notes.push('', `  ${ending(point.diag)}`)
      }
      if (point.skip !== false) note(notes, tally, 'skipped', name, point.skip)
      const time = `${((point.time ?? 0) / 1000).toFixed(1)} s`
      this.#say(`${point.ok ? 'ok  ' : 'FAIL'} ${name} (${counts(tally)}, ${time})`, ...notes)
      add(this.#total, tally)
    })
  }

  /** Something failed that is no file: tap says so of a file that it had to kill. */
  #stray(point: Result): void {
    const name = sourceOf(point.diag?.expired ?? point.name)
    if (this.#failed.some(failed => failed.startsWith(name))) return
    this.#total.failed += 1
    this.#failed.push(name)
    this.#say(`FAIL ${name}: ${point.name}`)
  }

  #say(...lines: readonly string[]): void {
    this.push(`${lines.join('\n')}\n`)
  }
}

interface Tally {
  passed: number
  failed: number
  skipped: number
}

/** Counts the tests below `parser` while they are read, and writes down what is to be shown of them. */
const follow = (parser: Parser, notes: string[], failed: string[]): Tally => {
  const tally: Tally = { passed: 0, failed: 0, skipped: 0 }
  const own = { passed: 0, failed: 0 }
  let previous: Result | undefined
  let child: Tally | undefined

  parser.on('child', (nested: Parser) => {
    child = follow(nested, notes, failed)
  })
  parser.on('assert', (point: Result) => {
    const isEcho = !point.ok && previous?.ok === false && previous.name === point.name
    previous = point
    if (point.closingTestPoint && child && point.skip === false) {
      add(tally, sum(child) === 0 && point.ok ? { ...child, passed: 1 } : child)
    } else if (point.skip !== false || point.todo !== false) {
      note(notes, tally, point.skip !== false ? 'skipped' : 'todo', pathOf(point), point.skip || point.todo)
    } else if (!isEcho) {
      own[point.ok ? 'passed' : 'failed'] += 1
      if (!point.ok) notes.push('', ...explain(point))
    }
    child = undefined
  })
  parser.on('complete', () => {
    if (own.failed > 0) {
      tally.failed += 1
      failed.push(sourceOf(parser.fullname))
    } else if (own.passed > 0 && sum(tally) === 0) tally.passed += 1
  })
  return tally
}

const sum = ({ passed, failed, skipped }: Tally): number => passed + failed + skipped

const add = (tally: Tally, more: Tally): void => {
  tally.passed += more.passed
  tally.failed += more.failed
  tally.skipped += more.skipped
}

/** A test that is skipped or still to do proves nothing: both count as skipped. */
const note = (notes: string[], tally: Tally, word: string, name: string, reason: string | boolean): void => {
  tally.skipped += 1
  notes.push(`    ${word}: ${name}${typeof reason === 'string' && reason !== '' ? ` (${reason})` : ''}`)
}

const counts = ({ passed, failed, skipped }: Tally): string =>
  [`${passed} passed`, ...(failed > 0 ? [`${failed} failed`] : []), ...(skipped > 0 ? [`${skipped} skipped`] : [])].join(', ')

/** Where the assertion stands, and what it says, without what tap adds about itself. */
const explain = (point: Result): string[] => {
  const { at, diff, stack, source: _source, compare: _compare, tapCaught: _caught, test: _test, ...rest } = point.diag ?? {}
  const place = at?.fileName ? ` at ${at.fileName}:${at.lineNumber}:${at.columnNumber}` : ''
  const details = [diff ?? stack ?? '', Object.keys(rest).length > 0 ? inspect(rest, { depth: 8 }) : '']
  return [
    `  ${pathOf(point)}${place}`,
    ...details
      .join('\n')
      .split('\n')
      .filter(line => line.trim() !== '')
      .map(line => `    ${line}`),
  ]
}

/** Why a test file failed none of whose tests did. */
const ending = (diag: Result['diag']): string => {
  if (diag?.signal === 'SIGALRM') return 'timed out'
  if (diag?.signal) return `killed by ${diag.signal}`
  return `crashed with exit code ${diag?.exitCode}`
}

const pathOf = (point: Result): string => point.fullname.split(' > ').slice(1).join(' > ')

/** Tests run compiled; people look for the source. */
const sourceOf = (name: string): string => name.replace(/^dist\/(.*)\.js/, '$1.ts')
