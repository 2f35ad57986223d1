import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from '../support/tap.ts'
import { formatCommandHelp } from '../../src/cli/command.ts'
import { findCommandLoader } from '../../src/cli/commands.ts'
import { parse, parseDocument, stringify } from 'yaml'
import { plugins } from '../../plugins/index.ts'
import { describeOptions } from '../../src/config/describe-options.ts'
import { gatewaySchema } from '../../src/config/gateway-options.ts'
import { isJsonObject } from '../../src/util/json.ts'
import { metricDefinitions } from '../../src/services/metric-definitions.ts'
import { verifyMetrics } from '../../plugins/verify/metrics.ts'
import { nodeReasons } from '../../src/services/node-reasons.ts'
import { exportsOf } from '../tools/declarations.ts'
import { checkConfig } from './check-config.ts'
import { anchorsOf, codeBlocksOf, codeSpansOf, readPage, readPages, relativeLinksOf, withoutBlocks } from './markdown.ts'

const pages = readPages()
const readme = readPage('README.md')
/** The text of each file of src and plugins. */
const sourceTexts = (): readonly string[] =>
  ['src', 'plugins']
    .flatMap(folder => (readdirSync(folder, { recursive: true }) as string[]).map(file => join(folder, file)))
    .filter(file => file.endsWith('.ts'))
    .map(file => readFileSync(file, 'utf8'))

const packageJson = JSON.parse(readFileSync('package.json', 'utf8')) as { readonly scripts: object; readonly files: readonly string[] }

t.test('README stays within 1,600 words', async t => {
  const words = readme.text.split(/\s+/).filter(Boolean).length
  t.ok(words > 800 && words <= 1600, `${words} words`)
})

t.test('README shows a plugin as the example has it', async t => {
  const [block] = codeBlocksOf(readme).filter(({ language }) => language === 'js')
  t.equal(block?.code, readFileSync('docs/examples/block-methods.js', 'utf8'))
})

t.test('the package has what its README and the pages of docs/ link to', async t => {
  t.ok(packageJson.files.includes('docs'))
  const packed = ['README.md', ...packageJson.files]
  // architecture.md is about the source code, which the package does not have.
  const readers = pages.filter(({ file }) => file === 'README.md' || (file.startsWith('docs/') && file !== 'docs/architecture.md'))
  const links = readers.flatMap(page => relativeLinksOf(page).map(link => ({ from: page.file, ...link })))
  t.ok(links.length > 60, `${links.length} links`)
  for (const { from, target, file } of links)
    t.ok(
      packed.some(each => file === each || file.startsWith(`${each}/`)),
      `${from}: ${target}`,
    )
})

t.test('every relative link leads to a file, and to a heading of it', async t => {
  const links = pages.flatMap(page => relativeLinksOf(page).map(link => ({ from: page.file, ...link })))
  t.ok(links.length > 60, `${links.length} links`)
  for (const { from, target, file, anchor } of links) {
    if (!existsSync(file)) t.fail(`${from}: ${target}: there is no such file`)
    else if (anchor !== undefined) t.ok(anchorsOf(readPage(file)).has(anchor), `${from}: ${target}: there is no such heading`)
  }
})

t.test('every page of docs/ is linked from another page', async t => {
  const linked = new Set(pages.flatMap(page => relativeLinksOf(page).filter(({ file }) => file !== page.file)).map(({ file }) => file))
  for (const { file } of pages.filter(({ file }) => file.startsWith('docs/'))) t.ok(linked.has(file), file)
})

t.test('every page opens with what its reader can do afterwards', async t => {
  for (const { file, text } of pages.filter(({ file }) => /^docs\/[\w-]+\.md$/.test(file))) {
    t.match(text, /^# .+\n\nAfter reading this page you /, file)
  }
})

t.test('a page of more than 210 lines begins with links to its sections', async t => {
  const long = pages.filter(({ file, text }) => /^docs\/[\w-]+\.md$/.test(file) && text.split('\n').length > 210)
  t.ok(long.length >= 1)
  for (const { file, text } of long) {
    const [, list = ''] = /\nOn this page: ([^]*?)\.\n\n/.exec(text) ?? []
    const headings = Array.from(withoutBlocks(text).matchAll(/^## (.+)$/gm), ([, heading]) => heading)
    t.same(
      [...list.matchAll(/\[([^\]]+)\]\(#/g)].map(([, heading]) => heading?.replaceAll('\n', ' ')),
      headings,
      file,
    )
  }
})

t.test('every tollgate command that is named exists, with its options, and with its arguments where it has an option', async t => {
  const written = pages.filter(({ file }) => !file.startsWith('docs/reference/'))
  const commands = written.flatMap(({ file, text }) =>
    Array.from(text.matchAll(/(?:npx |^|`)tollgate ([a-z][^`\n#&|]*)/gm), ([, words = '']) => ({ file, words: words.trim().split(/\s+/) })),
  )
  t.ok(commands.length > 60, `${commands.length} commands`)
  const names = [...new Set(commands.map(({ words: [name = ''] }) => name))]
  const usages = new Map(await Promise.all(names.map(async name => [name, await helpOf(name)] as const)))
  for (const { file, words } of commands) {
    const [name = '', second = ''] = words
    const usage = usages.get(name) ?? ''
    const hasSubcommand = new RegExp(`tollgate ${name} ${second}( |$)`, 'm').test(usage)
    // `usage` takes an account or a subcommand.
    const takesArgument = !new RegExp(`tollgate ${name} [a-z]`).test(usage) || new RegExp(`tollgate ${name} [A-Z]`).test(usage)
    t.ok(hasSubcommand || second === '' || (takesArgument && usage.includes(`tollgate ${name}`)), `${file}: tollgate ${words.join(' ')}`)
    const optionAt = words.findIndex(word => word.startsWith('--'))
    for (const option of words.filter(word => word.startsWith('--'))) t.ok(usage.includes(`${option}`), `${file}: ${name} ${option}`)
    if (optionAt < 0) continue
    const argumentCounts = Array.from(usage.matchAll(/^ *tollgate ([\w -]*?)(?: [[-].*)?$/gm), ([, fixed = '']) => fixed.split(' ').length)
    t.ok(argumentCounts.includes(optionAt), `${file}: tollgate ${words.join(' ')}: as many arguments as the usage has`)
  }
})

/** What `tollgate NAME --help` prints; empty when there is no such command. */
const helpOf = async (name: string): Promise<string> => {
  const load = findCommandLoader(name)
  return load === undefined ? '' : formatCommandHelp(await load()).join('\n')
}

t.test('every npm script that is named exists', async t => {
  const scripts = pages.flatMap(({ file, text }) =>
    Array.from(text.matchAll(/npm run ([\w:-]+)/g), ([, script = '']) => ({ file, script })),
  )
  t.ok(scripts.length > 5)
  for (const { file, script } of scripts) t.hasProp(packageJson.scripts, script, file)
})

t.test('every case of the benchmark that is named exists', async t => {
  const cases = readFileSync('test/bench/cases.ts', 'utf8')
  const named = pages.flatMap(({ text }) => Array.from(text.matchAll(/bench -- --only ([a-z][\w-]*)/g), ([, name = '']) => name))
  t.ok(named.length >= 2)
  for (const name of named) t.ok(cases.includes(`name: '${name}'`), name)
})

t.test('every YAML block that is a whole network passes check', async t => {
  const networks = pages.flatMap(codeBlocksOf).filter(({ language, code }) => language === 'yaml' && /^network:/m.test(code))
  t.ok(networks.length >= 1)
  for (const { file, code } of networks) {
    const { network } = parse(code) as { readonly network: string }
    t.same(await checkConfig(t.testdir(), { [`networks/${network}.yaml`]: code }), { code: 0, problems: '' }, file)
  }
})

t.test('every option that is shown as `plugin: { … }`, and every list item of a pipeline, passes check', async t => {
  const names = plugins.map(({ name }) => name)
  const spans = pages.flatMap(page => codeSpansOf(page).map(code => ({ file: page.file, code })))
  const steps = spans.filter(({ code }) => names.some(name => code.startsWith(`${name}: {`)))
  t.ok(steps.length >= 8)
  for (const { file, code } of steps) {
    const yaml = names.map(name => (code.startsWith(`${name}:`) ? `  - ${code}` : `  - ${name}: ${minimalOptions(name)}`)).join('\n')
    const problems = await checkConfig(t.testdir(), { 'networks/test-net.yaml': `${networkHead}${yaml}\n` })
    t.same(problems, { code: 0, problems: '' }, `${file}: ${code}`)
  }
})

const networkHead = 'network: test-net\nchainId: 1\nblockTime: 12s\nmethods: ethereum\nhosts: [test.example.org]\npipeline:\n'
const minimalOptions = (name: string): string => (name === 'failover' ? '{ upstreams: [{ name: own, url: "http://127.0.0.1:1" }] }' : '{}')

t.test('every YAML block of steps, or of sections of gateway.yaml, passes check', async t => {
  const blocks = pages.flatMap(codeBlocksOf).filter(({ language }) => language === 'yaml')
  // Excerpts with a line `# ...` between two parts are no YAML of their own.
  const whole = blocks.filter(({ code }) => parseDocument(code).errors.length === 0)
  const parsed = whole.map(({ file, code }) => ({ file, code, value: parse(code) as unknown }))
  const names = plugins.map(({ name }) => name)
  const stepLists = parsed.flatMap(({ file, code, value }) => {
    const steps: unknown = isJsonObject(value) && value['network'] === undefined ? value['pipeline'] : value
    return Array.isArray(steps) ? [{ file, code, steps: steps.filter(step => names.includes(nameOf(step))) }] : []
  })
  t.ok(stepLists.length >= 5, `${stepLists.length} lists of steps`)
  for (const { file, code, steps } of stepLists) {
    const pipeline = names.map(name => steps.find(step => nameOf(step) === name) ?? parse(`{ ${name}: ${minimalOptions(name)} }`))
    const files = { 'networks/test-net.yaml': `${networkHead}${stringify(pipeline)}` }
    t.same(await checkConfig(t.testdir(), files), { code: 0, problems: '' }, `${file}: ${code}`)
  }
  const keys = Object.keys(gatewaySchema.properties)
  const sections = parsed.flatMap(({ file, value }) =>
    isJsonObject(value) && Object.keys(value).every(key => keys.includes(key)) ? [{ file, value }] : [],
  )
  t.ok(sections.length >= 12, `${sections.length} blocks of gateway.yaml`)
  for (const { file, value } of sections) {
    const listen = { rpc: '127.0.0.1:8080', portal: '127.0.0.1:8081', admin: '127.0.0.1:8082', ...Object(value['listen']) }
    const gateway = { store: 'lmdb:data', plans: { core: { dailyCredits: 1000 } }, ...value, listen }
    const { problems } = await checkConfig(t.testdir(), { 'gateway.yaml': stringify(gateway) })
    // Certificates, logos and folders of logs are those of a machine.
    const [first = ''] = problems.split('\n')
    t.ok(first === '' || /no such file|is no file|does not exist/.test(first), `${file}: ${Object.keys(value).join()}: ${first}`)
  }
})

/** The plugin of a step in its short form. */
const nameOf = (step: unknown): string => (isJsonObject(step) ? (Object.keys(step)[0] ?? '') : '')

t.test('every option of gateway.yaml that is shown with a value passes check', async t => {
  const keys = ['listen', 'admin', 'store', 'workers', 'memory', 'limits', 'usage', 'log', 'drain']
  const spans = pages.flatMap(page => codeSpansOf(page).map(code => ({ file: page.file, code })))
  const options = spans.filter(({ code }) => keys.some(key => code.startsWith(`${key}: `)))
  t.ok(options.length >= 5)
  for (const { file, code } of options) {
    const others = [
      'listen: { rpc: 127.0.0.1:0, admin: 127.0.0.1:8082 }',
      'store: lmdb:data',
      'plans: { core: { dailyCredits: 1000 } }',
    ].filter(line => line.split(':')[0] !== code.split(':')[0])
    const gateway = `${[...others, code].join('\n')}\n`
    t.same(await checkConfig(t.testdir(), { 'gateway.yaml': gateway }), { code: 0, problems: '' }, `${file}: ${code}`)
  }
})

t.test(
  'every option of gateway.yaml or of failover that is named exists, and the default that stands behind an option in brackets is its default',
  async t => {
    const options = [gatewaySchema, ...plugins.map(plugin => plugin.options)].flatMap(schema => describeOptions(schema))
    const sections = ['limits', 'listen', 'drain', 'admin', 'portal', 'jwt', 'accessLog', 'breaker']
    let defaultCount = 0
    for (const { file, text } of pages) {
      for (const [, path = ''] of withoutBlocks(text).matchAll(/`([a-zA-Z]+\.[\w.]+)`/g))
        if (sections.includes(path.split('.')[0] ?? ''))
          t.ok(
            options.some(option => `${option.path}.`.startsWith(`${path}.`)),
            `${file}: ${path}`,
          )
      for (const [, path = '', written = ''] of withoutBlocks(text).matchAll(/`(\w+\.\w+)` \((\d[\w, ]*)\)/g)) {
        const option = options.find(each => each.path === path)
        if (option === undefined) continue
        t.equal(written.replaceAll(/[ ,]/g, ''), String(option.default), `${file}: ${path}`)
        defaultCount += 1
      }
    }
    t.ok(defaultCount >= 3, `${defaultCount} defaults`)
  },
)

t.test('docs/failover.md has each reason why a node gets no calls, or fewer', async t => {
  const { text } = readPage('docs/failover.md')
  for (const reason of Object.keys(nodeReasons)) t.match(text, new RegExp(`^\\| [^|]*\`${reason}\`[^|]* \\|`, 'm'), reason)
})

t.test('each class and type that docs/plugins.md names can be imported', async t => {
  const exported = ['src/plugin/plugin.ts', 'src/testing/index.ts'].flatMap(exportsOf).map(({ name }) => name)
  const named = codeSpansOf(readPage('docs/plugins.md')).filter(code => /^[A-Z][a-z]+(?:[A-Z][a-z]+)+$/.test(code))
  t.ok(named.length >= 2, named.join())
  for (const name of named) t.ok(exported.includes(name) || name === 'AbortSignal', name)
})

t.test('every metric that is named exists', async t => {
  const definitions = [...Object.values(metricDefinitions), ...Object.values(verifyMetrics)]
  const defined = new Set<string>(definitions.map(({ name }) => name))
  const histograms = definitions.flatMap(({ name, type }) => (type === 'histogram' ? [name] : []))
  const samples = new Map(histograms.flatMap(name => ['bucket', 'sum', 'count'].map(suffix => [`${name}_${suffix}`, name])))
  const metricsIn = (text: string) =>
    Array.from(text.matchAll(/(?<!name: ')\b(?:tollgate|process|nodejs)_\w+/g), ([name]) => samples.get(name) ?? name)
  for (const { file, text } of pages) for (const metric of metricsIn(text)) t.ok(defined.has(metric), `${file}: ${metric}`)
})

t.test('every file that is named exists', async t => {
  const named = pages.flatMap(page => codeSpansOf(page).map(code => ({ file: page.file, path: code })))
  const paths = named.filter(({ path }) => /^(?:src|plugins|test|configs|docs)\/[\w./-]*$/.test(path))
  t.ok(paths.length > 40, `${paths.length} paths`)
  for (const { file, path } of paths) t.ok(/NAME/.test(path) || existsSync(path), `${file}: ${path}`)
})

t.test('every error message that is shown beside its code is one of the code', async t => {
  const code = sourceTexts()
  const messages = pages.flatMap(({ file, text }) =>
    Array.from(text.matchAll(/-3[23]\d{3} `([^`]+)`/g), ([, message = '']) => ({ file, message })),
  )
  t.ok(messages.length > 4)
  for (const { file, message } of messages) {
    // The number of a limit is inserted where the message is made.
    const pieces = message.trim().split(/\b10000\b/)
    t.ok(
      code.some(text => pieces.every(piece => text.includes(piece))),
      `${file}: ${message}`,
    )
  }
})

t.test('every message that is quoted where callers and operators look it up is one of the code', async t => {
  const sources = [...sourceTexts(), readFileSync('configs/methods/ethereum.yaml', 'utf8')].join('\n')
  const files = ['app-developers', 'errors', 'subscriptions', 'failover', 'caching', 'dashboard', 'logs', 'limits'].map(
    name => `docs/${name}.md`,
  )
  const texts = files.map(readPage).flatMap(page => codeSpansOf(page).map(code => ({ file: page.file, code })))
  const messages = texts.filter(({ code }) => /^[a-z][\w-]*(?: [\w"…,;:.()/-]+)+$/.test(code) && !/^(?:npx|npm|tollgate|grep) /.test(code))
  t.ok(messages.length >= 20, `${messages.length} messages`)
  // A value is inserted in place of `…`.
  for (const { file, code } of messages)
    t.ok(
      code.split('…').every(piece => sources.includes(piece.trim())),
      `${file}: ${code}`,
    )
})

t.test('docs/logs.md names every event of the log, and messages that are there', async t => {
  const sources = sourceTexts().join('\n')
  const [, section = ''] = /## What to look for in the log\n([^]*)$/.exec(readPage('docs/logs.md').text) ?? []
  const [events = '', messages = ''] = section.split('| message begins with |')
  const codesIn = (rows: string) => [...rows.matchAll(/^\| (`.*?`) \|/gm)].flatMap(([, cell = '']) => cell.replaceAll('`', '').split(', '))
  t.same(new Set(codesIn(events)), new Set(Array.from(sources.matchAll(/\bevent: '([\w-]+)'/g), ([, event]) => event)))
  t.ok(codesIn(messages).length > 10)
  for (const message of codesIn(messages)) t.ok(new RegExp(`['"\`]${message}`).test(sources), message)
})

t.test('docs/operations.md says for every alert rule what to do', t => {
  const named = (text: string) => [...new Set(text.match(/\bTollgate[A-Z]\w+/g))].sort()
  t.same(named(readPage('docs/operations.md').text), named(readFileSync('deploy/prometheus/alerts.yaml', 'utf8')))
  t.end()
})

t.test('the tables of pages have every page of the dashboard and of the operator, in their order', t => {
  const titlesIn = (file: string): readonly string[] => {
    const [, members = ''] = /\n  pages: \{([^}]*)\}/.exec(readFileSync(file, 'utf8')) ?? []
    return Array.from(members.matchAll(/\w+: '([^']+)'/g), ([, title = '']) => title)
  }
  const rowsIn = (file: string): readonly string[] => {
    const [, rows = ''] = /\| page \| (?:shows|for) \|\n\|---.*\n([^]*?)\n\n/.exec(readPage(file).text) ?? []
    return Array.from(rows.matchAll(/^\| ([^|]+) \|/gm), ([, title = '']) => title)
  }
  const developer = titlesIn('src/portal/page/texts.ts')
  t.ok(developer.length > 5)
  // It is no page of an account.
  t.same(
    rowsIn('docs/dashboard.md').filter(title => title !== 'Status'),
    developer,
  )
  t.same(rowsIn('docs/operations.md'), titlesIn('src/portal/page/operator/operator-texts.ts'))
  t.end()
})

t.test('docs/dashboard.md lists every error of the API', t => {
  const sources = sourceTexts().join('\n')
  const thrown = Array.from(sources.matchAll(/new ApiError\(\s*(\d+),\s*'([\w-]+)'/g), ([, status, code]) => `${status} ${code}`)
  const ofBodies = ['400 malformed', '413 malformed'] // the status is that of koa-bodyparser
  const [, rows = ''] = /\| status \| `code` \|.*\n\|---.*\n([^]*?)\n\n/.exec(readPage('docs/dashboard.md').text) ?? []
  const listed = [...rows.matchAll(/^\| (\d+) \| (.+?) \|/gm)].flatMap(([, status, codes = '']) =>
    codes
      .replaceAll('`', '')
      .split(', ')
      .map(code => `${status} ${code}`),
  )
  t.same(listed.sort(), [...new Set([...thrown, ...ofBodies])].sort())
  t.end()
})

t.test('docs/plugins.md has each member of a call, its origin and its context, and says which may be absent', async t => {
  const { text } = readPage('docs/plugins.md')
  const source = readFileSync('src/plugin/call.ts', 'utf8')
  const interfaces = { 'a call': 'Call', origin: 'Origin', context: 'CallContext', request: 'Request', account: 'Account', key: 'Key' }
  for (const [noun, name] of Object.entries(interfaces)) {
    const [, body = ''] = new RegExp(`\\nexport interface ${name}\\b[^{]*\\{\\n([^]*?)\\n\\}\\n`).exec(source) ?? []
    const members = Array.from(body.matchAll(/^ {2}readonly (\w+)(\??): (.*)$/gm), ([, member = '', mark, type = '']) => ({
      member,
      isOptional: mark === '?' || type.endsWith('| undefined'),
    }))
    t.ok(members.length > 1, name)
    const [, table = ''] = new RegExp(`\\n\\| member of (?:\x60${noun}\x60|${noun}) \\|.*\\n.*\\n((?:\\|.*\\n)+)`).exec(text) ?? []
    const rows = Array.from(table.matchAll(/^\| `(\w+)` \| (.*?) \| /gm), ([, member = '', type = '']) => ({
      member,
      isOptional: /\b(?:undefined|absent)\b/.test(type.replace(/`[^`]*`/g, '')),
    }))
    const byName = (list: typeof rows) => [...list].sort((a, b) => a.member.localeCompare(b.member))
    t.same(byName(rows), byName(members), noun)
  }
})

t.test('docs/errors.md lists the error categories of the method table, and no other', async t => {
  const table = readFileSync('configs/methods/ethereum.yaml', 'utf8')
  const [, listed = ''] = /\| category \|[^]*?\|---\|---\|\n([^]*?)\n\n/.exec(readPage('docs/errors.md').text) ?? []
  const categories = [...listed.matchAll(/^\| (.+?) \|/gm)].flatMap(([, cell = '']) =>
    cell.split(', ').map(name => name.replaceAll('`', '')),
  )
  const { errors } = parse(table) as { readonly errors: readonly { readonly category: string }[] }
  t.same(new Set(categories), new Set(errors.map(({ category }) => category)))
})
