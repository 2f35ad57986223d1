import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from '../support/tap.ts'
import { stringify } from 'yaml'
import { plugins } from '../../plugins/index.ts'
import { schemaError } from '../../src/config/check-options.ts'
import { gatewaySchema } from '../../src/config/gateway-options.ts'
import { loadConfig } from '../../src/config/load.ts'
import { networkSchema } from '../../src/config/network-options.ts'
import { createOptionsCompiler } from '../../src/config/options-compiler.ts'
import { toJsonSchema } from '../../src/config/schema.ts'
import { formatProblem, formatProblems, printProblems, sortProblems } from '../../src/config/problem.ts'
import { parseYamlFile } from '../../src/config/yaml-file.ts'
import type { Validator } from '../../src/util/schema-compiler.ts'
import { closestMatch } from '../../src/util/did-you-mean.ts'
import { findUnusualOptions } from '../../src/config/option-rules.ts'
import type { Problem } from '../../src/config/problem.ts'
import { stubPlugins, writeConfig } from './config-fixture.ts'
import { describeOptions, describeSchema } from '../../src/config/describe-options.ts'
import { readCase } from './golden-case.ts'

const goldenFiles = 'test/config/problems'
const goldenWarnings = 'test/config/warnings'

t.test('each broken configuration gives exactly the report below it', async t => {
  for (const file of readdirSync(goldenFiles)) {
    const { files, env, report } = readCase(readFileSync(`${goldenFiles}/${file}`, 'utf8'))
    const dir = writeConfig(t.testdir(), files)
    const { problems, gateway } = await loadConfig(dir, stubPlugins, env)
    const shown = dir.slice(process.cwd().length + 1)
    const formatted = formatProblems(problems).replaceAll(`${shown}/`, '')
    t.equal(formatted, report, file)
    t.notMatch(formatted, 'hunter2', `${file}: no secret of a file is printed`)
    const isBroken = problems.some(problem => problem.file === `${shown}/gateway.yaml`)
    t.equal(gateway === undefined, isBroken, `${file}: no gateway with problems`)
    for (const value of Object.values(env).filter(Boolean)) {
      t.notOk(formatted.split(/\W+/).includes(value), `${file}: no value of the environment is printed`)
    }
  }
})

t.test('each configuration that is valid but probably not meant gives exactly the warnings below it', async t => {
  for (const file of readdirSync(goldenWarnings)) {
    const { files, env, report } = readCase(readFileSync(`${goldenWarnings}/${file}`, 'utf8'))
    const dir = writeConfig(t.testdir(), files)
    const { warnings } = await loadConfig(dir, plugins, env)
    const formatted = warnings
      .map(warning => formatProblem(warning))
      .join('\n\n')
      .replaceAll(`${dir.slice(process.cwd().length + 1)}/`, '')
    t.equal(formatted, report, file)
  }
})

t.test('what a list or a string must be names both bounds of its length', async t => {
  const items = { type: 'integer' } as const
  t.equal(describeSchema({ type: 'array', items }), 'a list')
  t.equal(describeSchema({ type: 'array', items, minItems: 1 }), 'a list of at least 1 item')
  t.equal(describeSchema({ type: 'array', items, maxItems: 1 }), 'a list of at most 1 item')
  t.equal(describeSchema({ type: 'string', minLength: 1 }), 'a string that is not empty')
  t.equal(describeSchema({ type: 'string', minLength: 1, maxLength: 200 }), 'a string of 1 to 200 characters')
})

t.test('the usual ranges of all options are valid, and contain each default and example', t => {
  const schemas = {
    'gateway.yaml': gatewaySchema,
    network: networkSchema,
    ...Object.fromEntries(plugins.map(({ name, options }) => [name, options])),
  }
  for (const [owner, schema] of Object.entries(schemas)) {
    t.equal(schemaError(schema), undefined, owner)
    const unusual = describeOptions(schema).flatMap(({ path, schema, default: value, examples }) =>
      [value, ...examples]
        .filter(text => {
          const source = parseYamlFile(stringify({ option: text }), 'file.yaml', {})
          const parent = { type: 'object', properties: { option: { description: '', ...schema } } } as const
          return findUnusualOptions({ source, namePath: [], owner, schema: parent }).length > 0
        })
        .map(text => `${path}: ${text}`),
    )
    t.same(unusual, [], owner)
  }
  t.end()
})

t.test('a directory that does not exist is one problem with a hint', async t => {
  const { problems, gateway } = await loadConfig('nowhere/at-all', stubPlugins, {})
  t.equal(gateway, undefined)
  t.equal(
    formatProblems(problems),
    [
      'nowhere/at-all:1:1: no such directory',
      '  give the directory of the configuration with --config DIR, or write one with `tollgate init`',
      '',
      '1 problem in 1 file',
    ].join('\n'),
  )
})

t.test('a file in place of the directory is one problem with a hint', async t => {
  const dir = writeConfig(t.testdir(), {})
  const { problems } = await loadConfig(join(dir, 'gateway.yaml'), stubPlugins, {})
  t.match(problems, [{ message: 'not a directory', hint: /--config DIR/ }])
})

t.test('the hint for gateway.yml is to rename it', async t => {
  const dir = writeConfig(t.testdir(), { 'gateway.yaml': '(absent)', 'gateway.yml': 'plans: {}' })
  const { problems } = await loadConfig(dir, stubPlugins, {})
  t.equal(problems[0]?.hint, 'rename gateway.yml to gateway.yaml')
})

t.test('a file that is a directory cannot be read', async t => {
  const dir = writeConfig(t.testdir(), { 'networks/odd.yaml/inside.txt': '' })
  const { problems } = await loadConfig(dir, stubPlugins, {})
  t.match(problems, [{ file: /odd\.yaml$/, message: 'this is a directory, not a file' }])
})

const problem = (more: Partial<Problem>): Problem => ({ file: 'a.yaml', line: 1, column: 1, message: 'wrong', ...more })

t.test('the caret is under its character, also after tabs, wide characters and accents', t => {
  const caretOf = (source: string, column: number) => formatProblem(problem({ sourceLine: source, column })).split('\n')[2]
  t.equal(caretOf('a: b', 4), '    |    ^')
  t.equal(caretOf('\ta: b', 3), '    | \t ^')
  t.equal(caretOf('日本: b', 3), '    |     ^')
  t.equal(caretOf('🌞: b', 2), '    |   ^')
  t.equal(caretOf('e\u0301: b', 3), '    |  ^')
  t.end()
})

t.test('of a very long line, the report shows the part near the column', t => {
  const source = `${'a'.repeat(500)}b${'c'.repeat(500)}`
  const lines = (column: number) =>
    formatProblem(problem({ sourceLine: source, column }))
      .split('\n')
      .slice(1)
  t.same(lines(501), [`  1 | …${'a'.repeat(80)}b${'c'.repeat(79)}…`, `    | ${' '.repeat(81)}^`])
  t.same(lines(3), [`  1 | ${'a'.repeat(82)}…`, '    |   ^'])
  t.same(lines(1002), [`  1 | …${'c'.repeat(80)}`, `    | ${' '.repeat(81)}^`])
  t.end()
})

t.test('a problem may be in color: its place, its message, and its caret', t => {
  const style = (meaning: string, text: string) => `<${meaning}>${text}</>`
  const lines = ['<minor>  1 |</> a: b', '<minor>    |</>    <error>^</> write c']
  const found = problem({ column: 4, sourceLine: 'a: b', hint: 'write c' })
  t.same(formatProblem(found, { style }).split('\n'), ['<place>a.yaml:1:4</>: <error>wrong</>', ...lines])
  t.match(formatProblem(found, { style, meaning: 'warning' }), /: <warning>wrong<\/>\n.*\n.*<warning>\^<\/> write c$/)
  t.match(formatProblems([found], style), /\n\n<error>1 problem in 1 file<\/>$/)
  const printed: string[] = []
  printProblems([found], { err: line => void printed.push(line), styleErr: style })
  t.same(printed, [formatProblems([found], style)])
  t.end()
})

t.test('a report cannot move the cursor', t => {
  const formatted = formatProblem(problem({ message: 'a\u001b[2Jb', sourceLine: 'c\u0007\rd', hint: '\u009be' }))
  t.notMatch(formatted, /[^\P{Cc}\n]/u)
  t.end()
})

t.test('problems are sorted by file and position, and counted', t => {
  const at = (file: string, line: number, column: number) => problem({ file, line, column })
  const sorted = [at('a', 2, 1), at('a', 2, 10), at('a', 10, 1), at('b', 1, 1)]
  t.same(sortProblems(sorted.toReversed()), sorted)
  t.match(formatProblems(sorted), /\n\n4 problems in 2 files$/)
  t.match(formatProblems([at('a', 1, 1)]), /\n\n1 problem in 1 file$/)
  const lines: string[] = []
  const output = { err: (line: string) => void lines.push(line) }
  printProblems([], output)
  t.same(lines, [], 'without problems nothing is printed')
  printProblems(sorted, output)
  t.same(lines, [formatProblems(sorted)])
  t.end()
})

t.test('the closest word is suggested only when it is close', t => {
  const words = ['pipeline', 'rate-limit', 'hosts', 'ask']
  t.equal(closestMatch('pipline', words), 'pipeline', 'a letter is missing')
  t.equal(closestMatch('piepline', words), 'pipeline', 'two letters are swapped')
  t.equal(closestMatch('Rate_Limit', words), 'rate-limit', 'in another case')
  t.equal(closestMatch('ask', words), 'ask')
  t.equal(closestMatch('asx', words), 'ask')
  t.equal(closestMatch('axx', words), undefined)
  t.equal(closestMatch('ghosts', words), 'hosts')
  t.equal(closestMatch('timeout', words), undefined)
  t.equal(closestMatch('', words), undefined)
  t.equal(closestMatch('limit', words), 'rate-limit', 'one part of a name')
  t.equal(closestMatch('pipe', words), 'pipeline', 'the beginning of a name')
  t.equal(closestMatch('main', ['base-mainnet', 'main-a', 'main-b']), undefined, 'a part of two names')
  t.equal(closestMatch('piepline', words, 0), undefined, 'too many edits')
  t.equal(closestMatch('x', ['y']), undefined)
  t.end()
})

/** What a validator says of the value, and the value with its defaults. */
const verdictOf = (validator: Validator, given: unknown) => {
  const value = structuredClone(given)
  return { isValid: validator(value), value, errors: validator.errors }
}

t.test('a validator that the build has written says what Ajv says; other schemas, and a damaged file, leave it to Ajv', async t => {
  const dir = t.testdir()
  const folder = join(dir, 'validators')
  const values = [
    {},
    null,
    [],
    7,
    { store: 'lmdb:./d' },
    { plans: 1 },
    { listen: { rpc: 'x' } },
    { memory: '' },
    { memory: '1GiB', extra: {} },
  ]
  const stepValues = [
    { upstreams: [{ name: 'a', url: 'x' }, {}] },
    { upstreams: [], maxTime: 'x' },
    { cache: 1, maxBytes: '1MiB' },
    { strict: 1 },
  ]
  const schemas = [gatewaySchema, networkSchema, ...plugins.map(({ options }) => options)].map(toJsonSchema)
  const [written, ajv] = [createOptionsCompiler(folder), createOptionsCompiler(join(dir, 'none'))]
  written.write(schemas)
  for (const schema of schemas) {
    const [validate, compiled] = [written.compile(schema), ajv.compile(schema)]
    t.same([written.isWritten(schema), ajv.isWritten(schema)], [true, false])
    for (const value of [...values, ...stepValues]) t.same(verdictOf(validate, value), verdictOf(compiled, value))
  }
  const other = { type: 'object', properties: { count: { type: 'integer', default: 3 } } }
  t.same(verdictOf(written.compile(other), {}), { isValid: true, value: { count: 3 }, errors: null })
  t.throws(() => written.compile({ type: 'object', sise: 1 }), { message: /unknown keyword: "sise"/ })
  const schema = toJsonSchema(gatewaySchema)
  const damaged = [readFileSync(written.fileOf(schema), 'utf8').slice(0, 1000), '']
  for (const [i, text] of damaged.entries()) {
    const damagedFolder = join(dir, `damaged-${i}`)
    mkdirSync(damagedFolder)
    const schemas = createOptionsCompiler(damagedFolder)
    writeFileSync(schemas.fileOf(schema), text)
    t.match(verdictOf(schemas.compile(schema), {}), { isValid: false })
  }
})
