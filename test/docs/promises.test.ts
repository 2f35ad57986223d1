import { existsSync, readFileSync } from 'node:fs'
import { parse } from 'yaml'
import t from '../support/tap.ts'
import { refusals } from '../../src/plugin/error-table.ts'
import { readPage } from './markdown.ts'

/** A promise, and the test that holds it: its file below test/, its title, and the case of it where the title is a template. */
type Entry = readonly [place: string, file: string, title: string, testCase?: string]

const { contract, answers } = parse(readFileSync('test/promises.yaml', 'utf8')) as Readonly<
  Record<'contract' | 'answers', readonly Entry[]>
>

/** Promises nothing: `X: not shown.`, `X: see sections 7 and 8.`, and a line that introduces the next ones. */
const promisesNothing = /^(?:\d+\. )?[^.]*: (?:not shown|see sections .*)\.$|:$/

/**
 * Each promise of a page as `2.2 id | number | yes | Echoed in the response`: the number of its section, and the paragraph, the list item, or the
 * row of a table without its outer bars.
 */
const promisesIn = (text: string): readonly string[] => {
  let section = ''
  return text
    .replaceAll(/^\|.*\n\|[-|]+\|$/gm, '') // the heads of tables
    .split('\n')
    .flatMap(line => {
      if (line.startsWith('#')) section = /^#+ ([\d.]*\d)/.exec(line)?.[1] ?? ''
      const promise = line.replaceAll(/^ *- |^\| | \|$/g, '')
      return section === '' || line === '' || line.startsWith('#') || promisesNothing.test(promise) ? [] : [`${section} ${promise}`]
    })
}

/** A place is the beginning of its promise, up to the end of a word. */
const isAt = (promise: string, [place]: Entry): boolean => promise.startsWith(place) && !/^\w/.test(promise.slice(place.length))

/** What is wrong with the entries: a promise without one, and an entry that names no promise, or several. */
const problemsOf = (promises: readonly string[], entries: readonly Entry[]): readonly string[] => [
  ...promises.filter(promise => !entries.some(entry => isAt(promise, entry))).map(promise => `no entry: ${promise}`),
  ...entries
    .map(entry => ({ entry, count: promises.filter(promise => isAt(promise, entry)).length }))
    .flatMap(({ entry: [place], count }) => (count === 1 ? [] : [`${place}: ${count} promises begin so`])),
]

const contractPromises = promisesIn(readPage('docs/contract.md').text)

t.test(
  'each promise of the contract has an entry in the list of promises, in its order, and each entry is one of the contract',
  async t => {
    t.ok(contractPromises.length > 80, `${contractPromises.length} promises`)
    t.same(problemsOf(contractPromises, contract), [])
    const positions = contract.map(entry => contractPromises.findIndex(promise => isAt(promise, entry)))
    t.same(
      positions,
      positions.toSorted((a, b) => a - b),
      'in the order of the contract',
    )
  },
)

t.test('each row of the table of answers has an entry in the list of promises, and each entry is a row', async t => {
  t.same([...new Set(answers.map(([kind]) => kind))], Object.keys(refusals))
})

t.test('a line that is added to the contract is a promise without an entry, be it an item, a row or a sentence', async t => {
  const { text } = readPage('docs/contract.md')
  for (const [line, added, promise] of [
    ['1. The API key is', '9. Keys never expire.', '5 9. Keys never expire.'],
    ['- A pending log', '- A log has a mother.', '3 A log has a mother.'],
    ['   - eth_getLogs: ', '   - eth_call: calls.', '1 eth_call: calls.'],
    ['| topics | array of 0', '| color | hex | New |', '2.5 color | hex | New'],
    ['Cost: 255', 'Calls are free on Sundays.', '4.3 Calls are free on Sundays.'],
  ] as const) {
    const changed = text.replace(`\n${line}`, `\n${added}\n${line}`)
    t.ok(problemsOf(promisesIn(changed), contract).includes(`no entry: ${promise}`), promise)
  }
  const first = contractPromises.find(promise => promise.startsWith('2.5 '))!
  t.match(
    problemsOf(
      contractPromises.filter(promise => promise !== first),
      contract,
    ).join(),
    '0 promises begin so',
  )
})

/** What stands in front of each place where source code has the text, whichever quotes it has there. */
const textsBefore = (source: string, text: string): readonly string[] =>
  ["'", '"', '`'].flatMap(quote => source.split(quote + text.replaceAll(quote, `\\${quote}`) + quote).slice(0, -1))

t.test('each test that the list of promises names is in its file, with the case that is named', async t => {
  for (const [place, file, title, testCase] of [...contract, ...answers]) {
    const source = existsSync(`test/${file}`) ? readFileSync(`test/${file}`, 'utf8') : ''
    // `holds` makes a test of a table of cases.
    t.ok(
      textsBefore(source, title).some(before => /\b(?:test|holds)\(\s*$/.test(before.slice(-20))),
      `${place}: ${file}: ${title}`,
    )
    t.equal(testCase !== undefined, title.includes('${'), `${place}: a title that is a template has a case, and no other has one`)
    if (testCase !== undefined) t.ok(textsBefore(source, testCase).length > 0, `${place}: ${file}: ${testCase}`)
  }
})
