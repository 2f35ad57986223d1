import { writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { formats, parseDuration, parseSize } from '../../src/config/formats.ts'
import { parseAcceptedGatewayConfig, readGatewayConfig } from '../../src/config/gateway-config.ts'
import { loadAcceptedConfig, loadConfig, networkNames } from '../../src/config/load.ts'
import type { GatewayConfig, NetworkConfig } from '../../src/config/types.ts'
import { configId } from '../../src/core/config-changes.ts'
import { Secret } from '../../src/plugin/secret.ts'
import { networkYaml, stubPlugins, writeConfig } from './config-fixture.ts'

type Texts = Readonly<Record<string, string>>

const load = (t: Test, files: Texts, env: Texts = {}) => loadConfig(writeConfig(t.testdir(), files), stubPlugins, env)

/** A network with this pipeline, which must have no problems. */
const loadNetwork = async (t: Test, pipeline: string, env: Texts = {}): Promise<NetworkConfig | undefined> => {
  const { networks, problems } = await load(t, { 'networks/net.yaml': networkYaml('net', pipeline) }, env)
  t.same(problems, [])
  return networks[0]
}

/** A plugin file without effect. */
const noopPlugin = (name: string): string =>
  `export default { name: '${name}', summary: 'Does nothing.', options: { type: 'object' }, create: () => {} }`

/** Without what `show` prints of it. */
const readConfig = (...args: Parameters<typeof readGatewayConfig>) => {
  const { effective: _, ...result } = readGatewayConfig(...args)
  return result
}

t.test('a gateway.yaml that a gateway has accepted is read although the files that it names are gone', t => {
  const text =
    'store: lmdb:./data\nplans: { core: { dailyCredits: 1 } }\njwt: { issuer: https://a.test, audience: [b], keyFile: gone.json }\n'
  const dir = writeConfig(t.testdir(), { 'gateway.yaml': text })
  t.match(readConfig(dir, {}).problems, [{ message: /^jwt\.keyFile: / }])
  t.match(parseAcceptedGatewayConfig({ 'gateway.yaml': text }, dir, {}), {
    store: { path: join(dir, 'data') },
    plans: { core: { name: 'core' } },
    workers: 1,
  })
  t.throws(() => parseAcceptedGatewayConfig({}, dir, {}), /as the gateway has it, is not valid/)
  t.end()
})

t.test('texts that were accepted are the same configuration, whatever has become of the files', async t => {
  const files = {
    'networks/net.yaml': networkYaml('net'),
    'networks/other.yaml': networkYaml('other'),
    'networks/net.test.yaml': 'cases: []',
  }
  const dir = writeConfig(t.testdir(), files)
  const { gateway, networks, problems, texts } = await loadConfig(dir, stubPlugins, {})
  t.same(problems, [])
  t.same(Object.keys(texts).sort(), ['gateway.yaml', 'methods/ethereum.yaml', 'networks/net.yaml', 'networks/other.yaml'])
  for (const file of [...Object.keys(texts), 'networks/new.yaml']) writeFileSync(join(dir, file), 'broken: [')
  const accepted = await loadAcceptedConfig(dir, texts, stubPlugins, {})
  t.same(accepted.problems, [])
  t.equal(configId(accepted), configId({ gateway: gateway as GatewayConfig, networks }))
})

t.test('a small gateway.yaml gets its defaults, as numbers', t => {
  const dir = writeConfig(t.testdir(), {})
  t.same(readConfig(dir, {}), {
    config: {
      listen: { rpc: { host: '127.0.0.1', port: 8080 }, proxyProtocol: false, trustedProxies: [] },
      portal: { publicStatus: false, webhooks: { allow: [] } },
      admin: {},
      accessLog: { sample: 1 },
      requestLog: { enabled: true, params: true, slow: 1000, retention: 86_400_000, maxBytes: 64 * 2 ** 20 },
      store: { kind: 'lmdb', path: join(dir, 'data') },
      plans: { core: { name: 'core', dailyCredits: 1000, forwarding: false, offered: false } },
      workers: 1,
      memory: 512 * 2 ** 20,
      limits: {
        connections: 10_000,
        body: 2 ** 20,
        batch: 1000,
        batchReply: 64 * 2 ** 20,
        inFlight: 512 * 2 ** 20,
      },
      log: 'info',
      watch: true,
      drain: { grace: 5000, timeout: 10_000 },
      usage: { retention: 90 * 86_400_000 },
    },
    problems: [],
    warnings: [],
  })
  t.end()
})

t.test('gateway.yaml with every key', t => {
  const dir = writeConfig(t.testdir(), {
    'gateway.yaml': `
listen: { rpc: "[::1]:0", portal: localhost:8081, admin: 0.0.0.0:9, proxyProtocol: true, trustedProxies: [10.0.0.0/8] }
portal: { url: https://dash.example.org, networkUrl: "https://{host}/rpc" }
admin: { token: s3cret-of-the-operator, url: https://admin.example.org }
store: lmdb:\${STATE:-/var/lib}/tollgate
workers: \${WORKERS}
memory: 2GiB
plans:
  core: { dailyCredits: 9007199254740991 }
  growth-2:
    dailyCredits: \${CREDITS}
    forwarding: \${FORWARDING}
limits: { connections: 7, body: 64KiB, batch: 1, batchReply: 1MiB, inFlight: 1GiB }
log: debug
watch: false
drain: { grace: 5s, timeout: 0s }
usage: { retention: 30d }
`,
  })
  t.same(readConfig(dir, { CREDITS: '7', FORWARDING: 'true', WORKERS: '3' }), {
    config: {
      listen: {
        rpc: { host: '::1', port: 0 },
        portal: { host: 'localhost', port: 8081 },
        admin: { host: '0.0.0.0', port: 9 },
        proxyProtocol: true,
        trustedProxies: ['10.0.0.0/8'],
      },
      portal: { url: 'https://dash.example.org', networkUrl: 'https://{host}/rpc', publicStatus: false, webhooks: { allow: [] } },
      admin: { token: new Secret('s3cret-of-the-operator'), url: 'https://admin.example.org' },
      accessLog: { sample: 1 },
      requestLog: { enabled: true, params: true, slow: 1000, retention: 86_400_000, maxBytes: 64 * 2 ** 20 },
      store: { kind: 'lmdb', path: '/var/lib/tollgate' },
      plans: {
        core: { name: 'core', dailyCredits: Number.MAX_SAFE_INTEGER, forwarding: false, offered: false },
        'growth-2': { name: 'growth-2', dailyCredits: 7, forwarding: true, offered: false },
      },
      workers: 3,
      memory: 2 ** 31,
      limits: {
        connections: 7,
        body: 65_536,
        batch: 1,
        batchReply: 2 ** 20,
        inFlight: 2 ** 30,
      },
      log: 'debug',
      watch: false,
      drain: { grace: 5000, timeout: 0 },
      usage: { retention: 30 * 86_400_000 },
    },
    problems: [],
    warnings: [],
  })
  t.end()
})

t.test('the store may be a redis, whose URL is a secret that shows host and port', t => {
  const readStore = (store: string) =>
    readGatewayConfig(
      writeConfig(t.testdir(), {
        'gateway.yaml': `store: ${store}\nplans: { a: { dailyCredits: 1 } }\n`,
      }),
      { REDIS_URL: 'rediss://gate:p%40ss@redis.example.org:6380/3' },
    )
  const { config, problems } = readStore('${REDIS_URL}')
  t.same(problems, [])
  const store = config?.store
  t.equal(JSON.stringify(store), '{"kind":"redis","url":"redis.example.org:6380"}')
  t.equal(store?.kind === 'redis' && store.url.reveal(), 'rediss://gate:p%40ss@redis.example.org:6380/3')
  const shown = (text: string) => JSON.stringify(readStore(text).config?.store)
  t.equal(shown('redis://localhost'), '{"kind":"redis","url":"localhost:6379"}')
  t.equal(shown('"redis://:secret@[::1]:7000/0"'), '{"kind":"redis","url":"[::1]:7000"}')
  t.equal(shown('redis://gate:p@a,b:7000'), '{"kind":"redis","url":"a:6379,b:7000"}', 'nodes of a cluster')
  t.equal(shown('rediss+sentinel://a,b:7000/main'), '{"kind":"redis","url":"a:26379,b:7000"}', 'Sentinels')
  t.equal(shown('redis+sentinel://:secret@a/main/1'), '{"kind":"redis","url":"a:26379"}')
  const wrongSentinels = ['redis+sentinel://a', 'redis+sentinel://a/main/b', 'redis+sentinel:///main']
  const wrong = [
    ...wrongSentinels,
    'redis://a,',
    'redis://a,b c',
    'redis://',
    'redis:localhost',
    'redis://a/b',
    'redis://a/1?db=2',
    'redis://a/1#2',
    '"redis://:%@a"',
    'redis://a b',
  ]
  for (const text of wrong) {
    t.match(readStore(text).problems, [{ message: 'store must be lmdb:PATH or redis://HOST:PORT' }], text)
  }
  t.match(readStore('postgres://localhost').problems, [{ hint: 'postgres is not supported' }])
  t.end()
})

t.test('workers is auto, one per core, or a number, which may be a variable without quotes', t => {
  const read = (workers: string) =>
    readGatewayConfig(
      writeConfig(t.testdir(), { 'gateway.yaml': `store: lmdb:x\nplans: { a: { dailyCredits: 1 } }\nworkers: ${workers}\n` }),
      { WORKERS: '3', AUTO: 'auto' },
    )
  t.equal(read('auto').config?.workers, availableParallelism())
  t.equal(read('${AUTO}').config?.workers, availableParallelism())
  t.equal(read('${WORKERS}').config?.workers, 3)
  t.match(read('"${WORKERS}"').problems, [{ hint: /a variable in quotes is always a string/ }])
  t.end()
})

t.test('keys of an issuer come by https, or from this machine, by a URL without user and password', t => {
  const problemsOf = (jwks: string) =>
    readGatewayConfig(
      writeConfig(t.testdir(), {
        'gateway.yaml': `store: lmdb:x\nplans: { a: { dailyCredits: 1 } }\njwt: { issuer: a, audience: [b], jwks: "${jwks}" }\n`,
      }),
      {},
    ).problems
  for (const url of ['https://a.example.org/keys?v=2', 'http://localhost:8080/keys', 'http://[::1]/keys']) t.same(problemsOf(url), [], url)
  for (const url of [
    'http://a.example.org/keys',
    'https://a:b@a.example.org/keys',
    'https://a.example.org/keys#1',
    'ftp://localhost',
    'keys',
  ])
    t.match(problemsOf(url), [{ message: 'jwt.jwks must be an https:// URL without user and password' }], url)
  t.end()
})

t.test('two listeners may both take any free port, but not the same one; the default counts', t => {
  const problemsOf = (listen: string) =>
    readGatewayConfig(
      writeConfig(t.testdir(), {
        'gateway.yaml': `listen: ${listen}\nstore: lmdb:x\nplans: { a: { dailyCredits: 1 } }\n`,
      }),
      {},
    ).problems
  t.same(problemsOf('{ rpc: 127.0.0.1:0, admin: 127.0.0.1:0 }'), [])
  t.match(problemsOf('{ admin: 127.0.0.1:8080 }'), [{ message: 'listen.admin has the same address as listen.rpc' }])
  t.end()
})

t.test('the token of the admin listener is a secret, and needs the listener', t => {
  const read = (text: string) => {
    const yaml = `${text}\nstore: lmdb:x\nplans: { a: { dailyCredits: 1 } }\n`
    return readGatewayConfig(writeConfig(t.testdir(), { 'gateway.yaml': yaml }), { TOKEN: 's3cret', EMPTY: '' })
  }
  const { config, problems } = read('listen: { admin: 127.0.0.1:1 }\nadmin: { token: "${TOKEN}" }')
  t.same(problems, [])
  t.equal(config?.admin.token?.reveal(), 's3cret')
  t.equal(JSON.stringify(config?.admin), '{"token":"***"}')
  t.equal(read('log: info').config?.admin.token, undefined)
  const named = 'listen: { admin: 127.0.0.1:1 }\nadmin: { token: "${TOKEN}", tokens: { alice: "${TOKEN}-of-alice" } }'
  t.equal(JSON.stringify(read(named).config?.admin.tokens), '{"alice":"***"}')
  t.equal(read(named).config?.admin.tokens?.['alice']?.reveal(), 's3cret-of-alice')
  t.match(read('listen: { admin: 127.0.0.1:1 }\nadmin: { tokens: { alice: "${TOKEN}" } }').problems, [
    { message: 'admin.tokens has no effect without admin.token' },
  ])
  t.match(read('admin: { token: "${TOKEN}" }').problems, [{ message: 'admin.token has no effect without listen.admin' }])
  t.match(read('admin: { url: https://a.example.org }').problems, [{ message: 'admin.url has no effect without listen.admin' }])
  t.match(read('listen: { admin: 127.0.0.1:1 }\nadmin: { token: "${EMPTY}" }').problems, [{ message: /EMPTY is empty/ }])
  for (const token of ['""', '[s3cret]']) {
    const wrong = read(`listen: { admin: 127.0.0.1:1 }\nadmin: { token: ${token} }`).problems
    t.match(wrong, [{ message: 'admin.token must be a secret' }])
  }
  t.end()
})

t.test('a network with every key', async t => {
  const { networks, gateway, unserved, problems } = await load(t, {
    'networks/net.yaml': `
network: net
chainId: 0xa4b1
blockTime: 250ms
methods: ethereum
hosts: [Net.Example.org, 127.0.0.1, "[2001:DB8:0::1]", my_container]
pipeline: [{ shape: { strict: true } }, { ask: }]
`,
  })
  t.same([problems, unserved], [[], []])
  t.ok(gateway)
  const [net] = networks
  t.match(net, { name: 'net', chainId: 42161, blockTime: 250, file: /^\.tap\/.*\/networks\/net\.yaml$/ })
  t.same(net?.hosts, ['net.example.org', '127.0.0.1', '2001:db8::1', 'my_container'])
  t.same(net?.methods.names, ['eth_blockNumber'])
  t.same(
    net?.steps.map(({ name, plugin, options }) => [name, plugin.name, options]),
    [
      ['shape', 'shape', { strict: true }],
      ['ask', 'ask', { timeout: 10_000 }],
    ],
  )
})

t.test('only the files of networks are read, and a method table only once', async t => {
  const dir = writeConfig(t.testdir(), {
    'networks/b-net.yaml': networkYaml('b-net'),
    'networks/a-net.yaml': networkYaml('a-net'),
    'networks/a-net.test.yaml': 'cases: []',
    'networks/.a.yaml': ':',
    'networks/a-net.yaml~': ':',
    'networks/README.md': ':',
  })
  t.same(networkNames(dir), ['a-net', 'b-net'])
  t.same(networkNames(join(dir, 'nowhere')), [])
  const { networks, problems } = await loadConfig(dir, stubPlugins, {})
  t.same(problems, [])
  t.same(
    networks.map(({ name }) => name),
    ['a-net', 'b-net'],
  )
  t.equal(networks[0]?.methods, networks[1]?.methods)
})

t.test('options get their defaults, and are converted by their format', async t => {
  const net = await loadNetwork(
    t,
    `  - shape:
  - cache: { file: ../x.db, maxBytes: 2KiB, rules: { any: [1, thing] }, redis: "rediss://:p%40ss@example.org/1" }
  - route: { upstreams: [{ name: own, url: wss://example.org/KEY }] }
  - ask: {}
`,
  )
  const [shape, cache, route] = net?.steps.map(step => step.options) ?? []
  t.same(shape, { strict: false })
  const { redis, ...rest } = cache as { redis: Secret }
  t.same(rest, { file: join(t.testdirName, 'x.db'), maxBytes: 2048, rules: { any: [1, 'thing'] }, keep: 'head' })
  t.same([String(redis), redis.reveal()], ['example.org:6379', 'rediss://:p%40ss@example.org/1'])
  const {
    upstreams: [upstream],
  } = route as { upstreams: [{ name: string; url: Secret; weight: number }] }
  t.same([upstream.name, upstream.weight, upstream.url instanceof Secret], ['own', 1, true])
  t.equal(upstream.url.reveal(), 'wss://example.org/KEY')
})

t.test('defaults are new for each network', async t => {
  const steps = '  - shape:\n  - login:\n  - charge:\n  - ask:\n'
  const { networks } = await load(t, { 'networks/a.yaml': networkYaml('a', steps), 'networks/b.yaml': networkYaml('b', steps) })
  const [a, b] = networks.map(({ steps }) => steps[2]?.options as { costs: object })
  t.same([a, b], [{ costs: {} }, { costs: {} }])
  t.not(a?.costs, b?.costs)
})

t.test('a step places problems inside its options, and never shows a value of the environment', async t => {
  const net = await loadNetwork(
    t,
    `  - shape:
  - login:
  - rate-limit:
      calls: \${CALLS}
      exempt: [a, "\${NAME}"]
  - use: rate-limit
    name: second
    with: { calls: 2 }
  - ask:
`,
    { CALLS: '40', NAME: 'who"ever' },
  )
  const [, , first, second] = net?.steps ?? []
  t.match(first?.problemAt(['exempt', 1], '40 calls are too many for "who\\"ever", not for 400'), {
    line: 11,
    column: 19,
    message: '*** calls are too many for "***", not for 400',
  })
  t.match(first?.problemAt(['calls'], 'x'), { line: 10, column: 14 })
  t.match(first?.problemAt(['window'], 'x'), { line: 9, column: 5 }, 'a default stands nowhere: the step does')
  t.match(first?.problemAt([], 'x'), { line: 9, column: 5 })
  t.match(second?.problemAt(['calls'], 'x'), { line: 14, column: 20 })
  t.match(second?.problemAt([], 'x'), { line: 12, column: 5 })
})

t.test('no value of the environment is printed, beside other text neither', async t => {
  const { problems } = await load(
    t,
    {
      'networks/net.yaml': networkYaml('net', '  - use: my${NAME}plugin\n  - use: ./${NAME}.js\n  - ask:\n'),
    },
    { NAME: 'hush' },
  )
  t.match(problems, [
    { message: 'package my***plugin not found', hint: 'npm install my***plugin' },
    { message: /^file .*\/\*\*\*\.js not found$/ },
  ])
})

t.test('variables are expanded in values, after parsing', async t => {
  const net = await loadNetwork(
    t,
    `  - shape:
  - cache:
      rules:
        \${KEY}: \${VALUE}
        list: [ "a-\${VALUE}-\${OTHER:-b: c}", "$$\${NOT}", "$$", $5 ]
        empty: "\${EMPTY:-}"
        text: \${NUMBER}
  - ask:
`,
    { VALUE: 'x: [y, "z"]', EMPTY: '', NUMBER: '5', NOT: 'seen' },
  )
  const { rules } = net!.steps[1]!.options as { rules: unknown }
  t.same(rules, {
    '${KEY}': 'x: [y, "z"]',
    list: ['a-x: [y, "z"]-b: c', '$seen', '$', '$5'],
    empty: '',
    text: '5',
  })
})

t.test('an unquoted variable becomes a number or a boolean where the option requires one; a quoted one stays a string', async t => {
  const net = await loadNetwork(
    t,
    `  - shape:
      strict: \${STRICT}
  - login:
  - rate-limit:
      calls: \${CALLS:-12}
      window: \${WINDOW}
      exempt: [ "\${CALLS_TOO}" ]
  - ask:
`,
    { STRICT: 'true', WINDOW: '5m', CALLS_TOO: '7' },
  )
  t.same(net?.steps[0]?.options, { strict: true })
  t.same(net?.steps[2]?.options, { calls: 12, window: 300_000, exempt: ['7'] })
})

t.test('an optional network omits upstreams whose variable is unset', async t => {
  const pipeline = `  - shape:
  - route:
      upstreams:
        - { name: own, url: "\${URL_1}" }
        - { name: second, url: "\${URL_2}" }
      partner: { name: partner, url: "\${PARTNER_URL}" }
  - ask:
`
  const optional = networkYaml('net', pipeline).replace('pipeline:', 'optional: true\npipeline:')
  const loadWith = (env: Texts) => load(t, { 'networks/net.yaml': optional }, env)
  const some = await loadWith({ URL_2: 'http://localhost', PARTNER_URL: '' })
  t.same(some.problems, [])
  const { upstreams, ...others } = some.networks[0]!.steps[1]!.options as { upstreams: { name: string }[] }
  t.same(
    upstreams.map(({ name }) => name),
    ['second'],
  )
  t.same(others, {}, 'an empty variable is not set')

  const none = await loadWith({ PARTNER_URL: 'http://localhost' })
  t.same([none.problems, none.networks], [[], []])
  t.same(none.unserved, [{ network: 'net', variables: ['URL_1', 'URL_2'] }])

  const wrong = await loadWith({ URL_1: 'localhost' })
  t.match(wrong.problems, [{ line: 11, column: 29 }], 'a variable that is set must be right')
  t.match(
    (await load(t, { 'networks/net.yaml': networkYaml('net', pipeline) })).problems,
    ['URL_1', 'URL_2', 'PARTNER_URL'].map(name => ({ message: `the environment variable ${name} is not set` })),
  )
})

t.test('an optional network omits a single string where the schema allows it', async t => {
  const pipeline = `  - shape:
  - route:
      upstreams: [{ name: own, url: "\${URL}", feed: "\${FEED}" }]
  - ask:
`
  const optional = networkYaml('net', pipeline).replace('pipeline:', 'optional: true\npipeline:')
  const loadWith = async (env: Texts, text = optional) => {
    const { problems, networks, unserved } = await load(t, { 'networks/net.yaml': text }, env)
    const options = networks[0]?.steps[1]?.options as { upstreams: object[] } | undefined
    return { problems, unserved, keys: options?.upstreams.map(each => Object.keys(each)) }
  }
  t.same(await loadWith({ URL: 'http://localhost' }), { problems: [], unserved: [], keys: [['name', 'url', 'weight']] })
  t.same((await loadWith({ URL: 'http://localhost', FEED: 'ws://localhost' })).keys, [['name', 'url', 'feed', 'weight']])
  t.same((await loadWith({ FEED: 'ws://localhost' })).unserved, [{ network: 'net', variables: ['URL'] }])
  t.match((await loadWith({ URL: 'http://localhost', FEED: 'localhost' })).problems, [{ message: /feed must be a URL/ }])
  t.match((await loadWith({ URL: 'http://localhost' }, networkYaml('net', pipeline))).problems, [
    { message: 'the environment variable FEED is not set' },
  ])
  t.match((await loadWith({ URL: 'http://localhost' }, optional.replace('FEED', 'FEED:?heads are wanted'))).problems, [
    { message: 'the environment variable FEED is not set: heads are wanted' },
  ])
})

t.test('without a required property, or without the options themselves, the network is not served', async t => {
  const needs = (name: string, options: string) => `export default { name: '${name}', summary: 'Asks.', terminal: true,
    options: ${options}, create: () => call => call }`
  const url = `{ type: 'string', format: 'url', description: 'Where.' }`
  const node = `{ type: 'object', properties: { url: ${url} }, omitWhenUnset: true, description: 'It.' }`
  const optional = (name: string, step: string) => networkYaml(name, step).replace('pipeline:', 'optional: true\npipeline:')
  const { problems, unserved } = await load(t, {
    'networks/one.mjs': needs('one', node),
    'networks/two.mjs': needs('two', `{ type: 'object', properties: { node: ${node} }, required: ['node'] }`),
    'networks/a.yaml': optional('a', '  - use: ./one.mjs\n    with: { url: "${A}" }\n'),
    'networks/b.yaml': optional('b', '  - use: ./two.mjs\n    with: { node: { url: "${B}/${C}" } }\n'),
  })
  t.same(problems, [])
  t.same(unserved, [
    { network: 'a', variables: ['A'] },
    { network: 'b', variables: ['B', 'C'] },
  ])
})

t.test('plugins are loaded from files and packages, relative to the file that names them', async t => {
  const packageOf = (exports: string) => `{ "name": "x", "version": "1.0.0", "type": "module", "exports": ${exports} }`
  const { networks, problems } = await load(t, {
    'networks/net.yaml': networkYaml(
      'net',
      `  - use: ./own.mjs
  - use: ../above.mjs
  - { use: plain-plugin }
  - { use: "@scope/import-only", name: third }
  - use: conditions
  - use: shape
  - ask:
`,
    ),
    'networks/own.mjs': noopPlugin('own'),
    'above.mjs': noopPlugin('above'),
    'node_modules/plain-plugin/package.json': packageOf('"./main.js"'),
    'node_modules/plain-plugin/main.js': noopPlugin('plain'),
    'node_modules/@scope/import-only/package.json': packageOf('{ ".": { "import": "./main.js" } }'),
    'node_modules/@scope/import-only/main.js': noopPlugin('import-only'),
    'node_modules/conditions/package.json': packageOf('{ "import": { "types": "./x.d.ts", "default": "./main.js" } }'),
    'node_modules/conditions/main.js': noopPlugin('conditions'),
  })
  t.same(problems, [])
  t.same(
    networks[0]?.steps.map(({ name }) => name),
    ['own', 'above', 'plain', 'third', 'conditions', 'shape', 'ask'],
  )
})

t.test('a plugin in TypeScript is loaded where Node.js strips types, and refused in words where it does not', async t => {
  const { networks, problems } = await load(t, {
    'networks/net.yaml': networkYaml('net', '  - use: ./typed.mts\n  - shape:\n  - ask:\n'),
    'networks/typed.mts': noopPlugin('typed').replace('export default', 'type Unused = string\nexport default'),
  })
  // Since Node.js 22.10, which @types/node 20 does not know.
  if ((process.features as { readonly typescript?: unknown }).typescript) {
    t.same(problems, [])
    return void t.equal(networks[0]?.steps[0]?.name, 'typed')
  }
  t.match(problems, [{ message: /^cannot load \.\/typed\.mts: Node\.js \S+ does not strip types$/, hint: /^compile the file to \.js/ }])
})

t.test('durations and sizes are whole numbers with a unit', t => {
  t.same(['250ms', '10s', '5m', '2h', '1d', '0s'].map(parseDuration), [250, 10_000, 300_000, 7_200_000, 86_400_000, 0])
  t.same(['512B', '64KiB', '1MiB', '2GiB', '1TiB'].map(parseSize), [512, 65_536, 2 ** 20, 2 ** 31, 2 ** 40])
  const wrong = ['', '10', 's', '-1s', '1.5s', '1 s', '10S', '1e3s', '99999999999999d', '10constructor', '١s', '10s ']
  t.same(
    wrong.map(parseDuration),
    wrong.map(() => undefined),
  )
  t.same(['64KB', '64k', '1mib', '1 MiB', '9999999TiB'].map(parseSize), Array(5).fill(undefined))
  t.end()
})

t.test('the suggestion for an invalid duration or size', t => {
  t.same(
    ['10 s', '10S', '5 MS', '10', 'x', '10 weeks'].map(text => formats.duration.suggest?.(text)),
    ['10s', '10s', '5ms', undefined, undefined, undefined],
  )
  t.same(
    ['64KB', '64k', '1mib', '1 MiB', '5b', '512', 'x'].map(text => formats.size.suggest?.(text)),
    ['64KiB', '64KiB', '1MiB', '1MiB', '5B', undefined, undefined],
  )
  t.end()
})

t.test('a URL has a scheme of HTTP or WebSocket', t => {
  const good = ['http://localhost:8545', 'https://u:p@example.org/v3/key?x=1', 'ws://[::1]/', 'WSS://example.org']
  const wrong = ['', 'localhost:8545', 'ftp://example.org', 'http://', 'http:example.org', 'https://a b/']
  t.same([...good, ...wrong].filter(formats.url.accepts), good)
  t.end()
})

t.test('the hint for a URL without a scheme shows how to begin, and the report masks its key', async t => {
  const key = '0123456789abcdef0123456789abcdef'
  const pipeline = `  - shape:\n  - route: { upstreams: [{ name: own, url: node.example.org/v3/${key} }] }\n  - ask:\n`
  const dir = writeConfig(t.testdir(), { 'networks/main-chain.yaml': networkYaml('main-chain', pipeline) })
  const { problems } = await loadConfig(dir, stubPlugins, {})
  t.match(problems, [
    {
      message: /must be a URL that starts with http/,
      hint: 'for example https://node.example.org/KEY',
      sourceLine: /node\.example\.org\/v3\/\*{32} /,
      column: 44,
    },
  ])
  t.notMatch(JSON.stringify(problems), key)
})
