import { symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import t from '../support/tap.ts'
import { stringify } from 'yaml'
import { filesOnDisk } from '../../src/config/config-files.ts'
import { readGatewayConfig } from '../../src/config/gateway-config.ts'
import { loadConfig } from '../../src/config/load.ts'
import { openMethodTables, findParsedTable, writeParsedTables } from '../../src/config/method-tables.ts'
import { readNetworkConfig } from '../../src/config/network-config.ts'
import { formatProblems } from '../../src/config/problem.ts'
import type { Problem } from '../../src/config/problem.ts'
import { parseYamlFile, readYamlFile } from '../../src/config/yaml-file.ts'
import type { Path } from '../../src/util/json.ts'
import { collectGarbageOfStart } from '../../src/runtime/gc-hints.ts'
import { networkYaml, stubPlugins, writeConfig } from './config-fixture.ts'

/** `line:column` of the value at the path, and of its key. */
const positionsOf = (text: string, path: Path): readonly [value: string, key: string] => {
  const source = parseYamlFile(text, 'a.yaml')
  const [value, key] = [source.problemAt(path, ''), source.problemAtKey(path, '')]
  return [`${value.line}:${value.column}`, `${key.line}:${key.column}`]
}

t.test('values and keys are found in block and flow style', t => {
  const text = `# first
a:
  b: one
  c: [x, { d: y }]
  e:
    - f: z
      g:
"h i" :   'two'
`
  t.same(positionsOf(text, ['a', 'b']), ['3:6', '3:3'])
  t.same(positionsOf(text, ['a']), ['2:1', '2:1'], 'a block map is found at its key')
  t.same(positionsOf(text, ['a', 'c']), ['4:6', '4:3'])
  t.same(positionsOf(text, ['a', 'c', 0]), ['4:7', '4:7'], 'an item of a list has no key')
  t.same(positionsOf(text, ['a', 'c', '1', 'd']), ['4:15', '4:12'], 'positions may be digits in a text')
  t.same(positionsOf(text, ['a', 'e', 0, 'f']), ['6:10', '6:7'])
  t.same(positionsOf(text, ['a', 'e', 0]), ['6:7', '6:7'])
  t.same(positionsOf(text, ['a', 'e', 0, 'g']), ['7:7', '7:7'], 'an empty value is found at its key')
  t.same(positionsOf(text, ['h i']), ['8:11', '8:1'])
  t.same(positionsOf(text, []), ['2:1', '2:1'])
  t.end()
})

t.test('the position of a missing value is that of the nearest node around it', t => {
  const text = 'a:\n  b: { c: 1 }\n  d: [1]\n'
  t.same(positionsOf(text, ['a', 'b', 'x', 'y']), ['2:3', '2:3'])
  t.same(positionsOf(text, ['a', 'd', 5]), ['3:3', '3:3'])
  t.same(positionsOf(text, ['a', 'b', 'c', 'x']), ['2:8', '2:8'])
  t.same(positionsOf(text, ['x']), ['1:1', '1:1'])
  t.same(positionsOf(text, ['a', 'toString']), ['1:1', '1:1'])
  t.end()
})

t.test('places are the same after the collector has taken the parsed document', async t => {
  const text = 'a:\n  b: [1, 2]\n'
  const file = parseYamlFile(text, 'a.yaml')
  const before = file.problemAt(['a', 'b', 1], 'found')
  await new Promise(setImmediate) // until a turn ends, what is referred to is held
  collectGarbageOfStart()
  t.same(file.problemAt(['a', 'b', 1], 'found'), before)
  t.match(before, { line: 2, column: 10 })
})

t.test('a position inside an alias is that of its anchor; the alias itself keeps its own', t => {
  const text = 'a: &x { b: [1] }\nc: *x\nd: &y 5\ne: *y\n'
  t.same(positionsOf(text, ['c', 'b', 0]), ['1:13', '1:13'])
  t.same(positionsOf(text, ['c']), ['2:4', '2:1'])
  t.same(positionsOf(text, ['e']), ['4:4', '4:1'])
  t.same(parseYamlFile(text, 'a.yaml').value, { a: { b: [1] }, c: { b: [1] }, d: 5, e: 5 })
  t.end()
})

t.test('a merge key takes the entries of other maps; own entries and earlier maps take precedence', t => {
  const text = `x-base: &base { a: 1, b: 2, url: "\${UNSET}" }
x-more: &more { b: 3, c: 3 }
one: { <<: *base, b: 4, url: here }
two: { <<: [*more, *base], url: there }
three: { "<<": 1 }
`
  const source = parseYamlFile(text, 'a.yaml', {})
  t.same(source.value, {
    one: { a: 1, b: 4, url: 'here' },
    two: { a: 1, b: 3, c: 3, url: 'there' },
    three: { '<<': 1 },
  })
  t.same(source.problems, [])
  t.equal(source.expandedTexts.size, 0, 'a variable in an entry that is replaced is not read')
  t.same(positionsOf(text, ['one', 'b']), ['3:22', '3:19'])
  t.same(positionsOf(text, ['one', 'a']), ['1:20', '1:17'], 'an entry of another map is found there')
  t.same(positionsOf(text, ['two', 'b']), ['2:20', '2:17'])
  t.end()
})

t.test('a merge key that refers to no map is a problem, and a cycle of merge keys ends', t => {
  const problemsOf = (text: string) => parseYamlFile(text, 'a.yaml').problems.map(({ line, column, message }) => [line, column, message])
  const notMap = 'the value of << must be an alias of a map, or a list of such aliases'
  t.same(problemsOf('a: &a 1\nb: { <<: *a }\n'), [[2, 10, notMap]])
  t.same(problemsOf('a: &a { c: 1 }\nb:\n  <<: [*a, 5]\n'), [[3, 12, notMap]])
  t.same(problemsOf('b: { <<: *none }\n'), [[1, 10, 'this alias has no anchor above it']])
  t.same(parseYamlFile('a: &a { b: 1, <<: *a }\n', 'a.yaml').value, { a: { b: 1 } })
  t.end()
})

t.test('a section x-… only holds anchors: its variables need not be set, and its keys are not checked', t => {
  const text = 'x-common:\n  url: &url "${UNSET}"\n  cost: &cost { eth_call: 40 }\na: *cost\nb: { x-c: 1 }\n'
  const source = parseYamlFile(text, 'a.yaml', {})
  t.same(source.value, { a: { eth_call: 40 }, b: { 'x-c': 1 } })
  t.equal(source.expandedTexts.size, 0)
  t.end()
})

t.test('line ends of Windows, a byte order mark and wide characters do not change positions', t => {
  t.same(positionsOf('\ufeffa: 1\r\nb: { c: 2 }\r\n', ['b', 'c']), ['2:9', '2:6'])
  t.same(positionsOf('\ufeffa: 1\r\n', ['a']), ['1:4', '1:1'])
  t.same(positionsOf('"🌞é": { 日本: x }\n', ['🌞é', '日本']), ['1:13', '1:9'], 'columns count characters')
  const { sourceLine: source } = parseYamlFile('\ufeffa: 1\r\n', 'a.yaml').problemAt(['a'], '')
  t.equal(source, 'a: 1')
  t.end()
})

t.test('a file in another encoding is a problem at its first character that is not UTF-8', t => {
  const path = join(t.testdir(), 'a.yaml')
  const problemOf = (bytes: Buffer): Problem | undefined => {
    writeFileSync(path, bytes)
    return readYamlFile(path).problems[0]
  }
  const expected = { message: 'the file must be UTF-8', hint: 'save it with the encoding UTF-8' }
  t.match(problemOf(Buffer.from('\ufeffa: b', 'utf16le')), { line: 1, column: 1, ...expected })
  t.match(problemOf(Buffer.from('a: b\nä: \xe4\n', 'latin1')), { line: 2, column: 1, ...expected })
  t.match(problemOf(Buffer.concat([Buffer.from('a: ä\n# '), Buffer.of(0xe4)])), { line: 2, column: 3, ...expected })
  t.equal(problemOf(Buffer.from('\ufeffä: 🙂')), undefined)
  t.end()
})

t.test('a loop of symbolic links is named as such', t => {
  const path = join(t.testdir(), 'a.yaml')
  symlinkSync('a.yaml', path)
  t.match(readYamlFile(path).problems, [{ line: 1, column: 1, message: 'the symbolic links of this file form a loop' }])
  t.end()
})

t.test('the position of what is missing at the end of a file is after its last word', t => {
  const [problem] = parseYamlFile('a: [1\n\n\n', 'a.yaml').problems
  t.match(problem, { line: 1, column: 6, sourceLine: 'a: [1' })
  t.end()
})

t.test('a malformed line does not change the positions of the lines below it', t => {
  const text = 'pipeline:\n  - login:\n  -, url: "". &limit\n      calls: ${CALLS}\n  - next: 1\n'
  const problems = parseYamlFile(text, 'net.yaml').problems.map(({ line, sourceLine }) => [line, sourceLine])
  t.same(
    problems,
    problems.map(([line]) => [line, text.split('\n')[Number(line) - 1]]),
  )
  t.ok(problems.some(([line]) => line === 4))
  t.end()
})

t.test('a duplicate key does not hide other problems; the last one counts', t => {
  const source = parseYamlFile('a: 1\na: { b: 2 }\n', 'a.yaml')
  t.match(source.problems, [{ line: 2, column: 1 }])
  t.same(source.value, { a: { b: 2 } })
  t.match(source.problemAt(['a', 'b'], ''), { line: 2, column: 9 })
  t.end()
})

t.test('names of properties that every object has are keys like others', t => {
  const source = parseYamlFile('__proto__: { a: 1 }\nconstructor: 2\n', 'a.yaml')
  t.same(Object.keys(source.value as object), ['__proto__', 'constructor'])
  t.equal(source.valueAt(['__proto__', 'a']), 1)
  t.equal(source.valueAt(['hasOwnProperty']), undefined)
  t.end()
})

t.test('aliases of aliases and deep nesting end in a problem, not in an endless load', t => {
  const bomb = [
    'a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]',
    ...Array.from({ length: 9 }, (_, i) => `a${i + 1}: &a${i + 1} [${Array(10).fill(`*a${i}`).join(', ')}]`),
  ].join('\n')
  t.match(parseYamlFile(bomb, 'a.yaml'), { value: undefined, problems: [{ message: /more than 100000 values/ }] })
  const deep = (depth: number) => ['['.repeat(depth) + ']'.repeat(depth), '- '.repeat(depth), '{ a: '.repeat(depth) + '}'.repeat(depth)]
  for (const text of [150, 10_000].flatMap(deep)) {
    const { value, problems } = parseYamlFile(text, 'a.yaml')
    t.equal(value, undefined)
    t.same(
      problems.map(({ message }) => message),
      ['maps and lists are nested too deeply'],
      text.slice(0, 10),
    )
  }
  t.end()
})

t.test('a URL in a line of the report shows only scheme, host and port', t => {
  const shown = (line: string) => parseYamlFile(`a: ${line}\n`, 'a.yaml').problemAt([], '').sourceLine?.slice(3)
  t.equal(shown('https://example.org:1/v3/KEY?key=K#K'), 'https://example.org:1/v3/***********')
  t.equal(shown('a: 1 # see http://127.0.0.1:8082/operator: traffic'), 'a: 1 # see http://127.0.0.1:8082/operator: traffic')
  t.equal(shown('https://example.org/ethereum/12345678/rpc?v3'), 'https://example.org/ethereum/********/rpc***')
  t.equal(shown('"wss://user:pass@example.org"'), '"wss://*********@example.org"')
  t.equal(shown('{ u: http://[::1]:85/KEY, v: redis://:pass@h/0 }'), '{ u: http://[::1]:85/**** v: redis://*****@h/0 }')
  t.equal(shown('"${URL:-https://example.org/KEY}"'), '"${URL:-https://example.org/***}"')
  t.equal(shown('"https://${HOST}/${KEY}/x"'), '"https://${HOST}/${KEY}/*"')
  t.equal(shown('http://127.0.0.1:8545'), 'http://127.0.0.1:8545')
  const { message } = parseYamlFile('a: 1', 'a.yaml').problemAt([], 'not "https://example.org/KEY", but file:///a/b')
  t.equal(message, 'not "https://example.org/***", but file:///a/b', 'in a message too')
  t.end()
})

t.test('a line of the report shows nothing that stands under `headers`, itself or by an alias', t => {
  const shown = (...lines: readonly string[]) => parseYamlFile(`${lines.join('\n')}\n`, 'a.yaml').problemAt(['a'], '').sourceLine
  t.equal(shown('a: { headers: { X-Key: KEY, X-Mode: true } }'), 'a: { headers: { X-Key: ***, X-Mode: true } }')
  t.equal(shown('a: { headers: [KEY, { X: 12 }] }'), 'a: { headers: [***, { X: ** }] }')
  t.equal(shown('a: { headers: "X-Key KEY" }'), 'a: { headers: "***** ***" }')
  for (const headers of ['*h', '{ <<: *h }', '{ X: *h }', '[*h]'])
    t.equal(shown('a: &h { X-Key: "${PREFIX}KEY" }', `b: { headers: ${headers} }`), 'a: &h { X-Key: "${PREFIX}***" }', headers)
  t.equal(shown('a: &k KEY', 'b: &h { X: *k }', 'c: { headers: *h }'), 'a: &k ***')
  t.equal(shown('a: &h { headers: { X: *h, Y: *none, Z: KEY } }'), 'a: &h { headers: { X: *h, Y: *****, Z: *** } }')
  t.end()
})

t.test('without an environment, `$` is a character like any other', t => {
  t.same(parseYamlFile('a: ["${X}", $$, "${"]\n', 'a.yaml').value, { a: ['${X}', '$$', '${'] })
  t.end()
})

const validNetwork = networkYaml(
  'net',
  `  - shape: { strict: false }
  - login:
  - rate-limit: &limit
      calls: \${CALLS}
      burst: 10
  - use: rate-limit
    name: second
    with: *limit
  - route:
      upstreams: [{ name: own, url: "\${URL}" }, { name: second, url: "\${UNSET:-http://localhost}" }]
  - ask: { timeout: 10s }
`,
)

/** Parts of a valid network: removed, repeated, swapped, or with other text between them. */
const mutated = fc.array(
  fc.oneof(
    fc.tuple(fc.nat(validNetwork.length), fc.nat(40)).map(([start, length]) => validNetwork.slice(start, start + length)),
    fc.constantFrom('\n', '\n  ', ': ', '- ', '? ', '{', '}', '[', ']', '"', "'", '#', '|\n', '\t', '---\n'),
    fc.constantFrom('*limit', '&limit ', '!!set ', '${', '$$', '${URL}', '${UNSET}'),
    fc.string({ unit: 'grapheme', maxLength: 5 }),
  ),
  { maxLength: 8 },
)
const spliced = fc
  .tuple(fc.nat(validNetwork.length), fc.nat(30), mutated)
  .map(([start, length, parts]) => validNetwork.slice(0, start) + parts.join('') + validNetwork.slice(start + length))

const anyText = fc.oneof(
  { weight: 6, arbitrary: spliced },
  { weight: 2, arbitrary: mutated.map(parts => parts.join('')) },
  { weight: 1, arbitrary: fc.jsonValue().map(value => stringify({ network: 'net', pipeline: [value], hosts: value })) },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 60 }) },
)

t.test('loading never throws, whatever the files contain, and each problem has a position', async t => {
  const dir = writeConfig(t.testdir(), { 'networks/net.yaml': validNetwork })
  const [path, tables] = [join(dir, 'networks/net.yaml'), openMethodTables(dir)]
  const env = { CALLS: '314159', URL: 'http://hushhush.example.org/key' }
  const isPlaced =
    (text: string) =>
    ({ line, column, sourceLine: source }: Problem): boolean =>
      line >= 1 && line <= text.split('\n').length && column >= 1 && (source === undefined || column <= [...source].length + 1)

  await fc.assert(
    fc.asyncProperty(anyText, anyText, async (text, gatewayText) => {
      writeFileSync(path, text)
      writeFileSync(join(dir, 'gateway.yaml'), gatewayText)
      const network = await readNetworkConfig(path, { plugins: stubPlugins, tables, env })
      const gateway = readGatewayConfig(dir, env)
      return (
        network.problems.every(isPlaced(text)) &&
        gateway.problems.every(isPlaced(gatewayText)) &&
        (network.problems.length === 0) === (network.config !== undefined || network.unserved !== undefined) &&
        (gateway.problems.length === 0) === (gateway.config !== undefined) &&
        !/314159|hushhush/.test(formatProblems([...network.problems, ...gateway.problems]))
      )
    }),
    { numRuns: 200 },
  )
  t.pass('no counterexample')
})

t.test('a method table that the build has parsed is not parsed again until its text changes', async t => {
  const defaults = 'defaults: { cost: 80, cache: never, class: light, idempotent: true }\n'
  const methods = {
    'good.yaml': `${defaults}methods: { eth_a: { cost: 5 } }\n`,
    'bad.yaml': 'methods: [\n',
    'wrong.yaml': 'methods: { eth_a: { costs: 5 } }\n',
  }
  const dir = t.testdir({ methods })
  const [good, bad, wrong] = ['good', 'bad', 'wrong'].map(name => join(dir, 'methods', `${name}.yaml`)) as [string, string, string]
  const file = join(dir, 'parsed.json')
  t.equal(findParsedTable(good, filesOnDisk, file), undefined, 'nothing was parsed yet')
  writeParsedTables(dir, file)
  t.match(findParsedTable(good, filesOnDisk, file), { methods: { eth_a: { cost: 5 } } })
  for (const path of [bad, wrong]) t.equal(findParsedTable(path, filesOnDisk, file), undefined, 'its problems are reported from the YAML')
  writeFileSync(good, 'methods: { eth_a: { cost: 6 } }\n')
  t.equal(findParsedTable(good, filesOnDisk, file), undefined)
  writeFileSync(file, '{ "half')
  t.equal(findParsedTable(good, filesOnDisk, file), undefined, 'a damaged file is as none')
})

t.test('a folder of networks whose symbolic links form a loop is named as such', async t => {
  const dir = t.testdir()
  symlinkSync('networks', join(dir, 'networks'))
  const { problems } = await loadConfig(dir, [], {})
  t.match(problems.at(-1), { file: /networks$/, message: 'the symbolic links of this directory form a loop' })
})
