import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { parseAllDocuments } from 'yaml'
import { plugins } from '../../plugins/index.ts'
import { exitCodes } from '../../src/cli/command.ts'
import { createExplainCommand } from '../../src/cli/explain.ts'
import { createShowCommand } from '../../src/cli/show.ts'
import { loadConfig } from '../../src/config/load.ts'
import { describeNetworks, explainCall } from '../../src/core/dry-run.ts'
import { networkStatuses } from '../../src/server/network-status.ts'
import { createKey } from '../../src/services/accounts/api-key.ts'
import { systemClock } from '../../src/services/clock.ts'
import { openStore } from '../../src/store/open-store.ts'
import { tempFolder } from '../store/temp-store.ts'
import { networkYaml, stubPlugins, writeConfig } from '../config/config-fixture.ts'
import { runCommand } from './run-command.ts'

const key = '0123456789abcdef0123456789abcdef'
const pipeline = `  - shape: { mark: "\${MARK:-x}" }
  - login:
  - use: rate-limit
    name: slow
    with: { calls: 5 }
  - route:
      upstreams: [{ name: absent, url: "\${ABSENT}" }, { name: own, url: "https://user:${key}@node.example.org/v3/${key}" }]
  - ask:
`
const files = {
  'gateway.yaml': `store: redis://:${key}@127.0.0.1:6379\nplans: { core: { dailyCredits: 1000 } }\nlisten: { admin: 127.0.0.1:8082 }\nadmin: { token: ${key} }\n`,
  'networks/main-chain.yaml': networkYaml('main-chain', pipeline).replace('hosts', 'optional: true\nhosts'),
  'networks/other.yaml': networkYaml('other', pipeline.replace(/, \{ name: own[^}]*\}/, '')).replace('hosts', 'optional: true\nhosts'),
}

t.test('show prints the effective configuration: defaults marked, omitted upstreams gone, secrets masked', async t => {
  const dir = writeConfig(t.testdir(), files)
  const { code, out } = await runCommand(createShowCommand(stubPlugins), ['--config', dir])
  const text = out.join('\n')
  t.equal(code, exitCodes.ok)
  t.notMatch(text, key)
  t.match(text, /^# .*gateway.yaml$/m)
  t.match(text, /^ {2}body: 1MiB # default$/m)
  t.match(text, /^ {2}admin: 127.0.0.1:8082$/m, 'no comment at a value of the file')
  t.match(text, /^ {8}- name: own\n {10}url: .*\n {10}weight: 1 # default$/m, 'also where another upstream is omitted')
  t.match(text, /^ {6}exempt: \[\] # default$/m)
  t.match(text, /^# other is not served: set ABSENT$/m)
  const [gateway, network] = parseAllDocuments(text).map(document => document.toJS() as unknown)
  t.match(gateway, { store: 'redis://***@127.0.0.1:6379', admin: { token: '***' }, drain: { grace: '5s' } })
  t.match(network, {
    network: 'main-chain',
    pipeline: [
      { shape: { strict: false, mark: 'x' } },
      { login: {} },
      { use: 'rate-limit', name: 'slow', with: { calls: 5, window: '1s', exempt: [] } },
      { route: { upstreams: [{ name: 'own', url: 'https://***@node.example.org/v3/***', weight: 1 }] } },
      { ask: { timeout: '10s' } },
    ],
  })
})

t.test('the headers of upstreams are masked by show, and in the lines that problems show', async t => {
  const failover = (more = '') =>
    `  - failover:\n      upstreams: [{ name: own, url: "http://n.test", headers: { X-Api-Key: ${key}, Authorization: "Bearer ${key}" }${more} }]\n`
  const run = (step: string) => {
    const pipeline = `  - envelope:\n  - key-auth:\n${step}  - upstream:\n`
    const dir = writeConfig(t.testdir(), {
      'gateway.yaml': 'store: lmdb:./data\nplans: { core: { dailyCredits: 1 } }\n',
      'networks/main-chain.yaml': networkYaml('main-chain', pipeline),
    })
    return runCommand(createShowCommand(plugins), ['main-chain', '--config', dir])
  }
  const { code, out, err } = await run(failover())
  t.equal(code, exitCodes.ok, err.join('\n'))
  t.match(out.join('\n'), /^ +X-Api-Key: "\*\*\*"\n +Authorization: "\*\*\*"$/m)
  t.notMatch(out.join('\n'), key)
  const blockStyle = `  - failover:\n      upstreams:\n        - name: own\n          url: http://n.test\n          headers:\n            X Api Key: ${key}\n`
  for (const broken of [failover(', rat: 1/s'), failover(', name: again'), blockStyle]) {
    const problem = await run(broken)
    t.equal(problem.code, exitCodes.config)
    t.match(problem.err.join('\n'), /\*{32}/, 'the line is shown')
    t.notMatch(problem.err.join('\n'), key)
  }
})

t.test('show NETWORK prints one network, or why it is not served; --json prints JSON', async t => {
  const dir = writeConfig(t.testdir(), files)
  const show = (...args: readonly string[]) => runCommand(createShowCommand(stubPlugins), [...args, '--config', dir])
  t.match(JSON.parse((await show('main-chain', '--json')).out.join('')), { networks: { 'main-chain': { chainId: 1 } }, unserved: [] })
  t.same(await show('other'), { code: exitCodes.ok, out: ['# other is not served: set ABSENT'], err: [] })
  t.match(await show('main-chian'), { code: exitCodes.usage, err: ['unknown network "main-chian"; did you mean `main-chain`?'] })
  const broken = writeConfig(t.testdir({ broken: {} }), { ...files, 'gateway.yaml': 'plan: 1\n' })
  t.match(await runCommand(createShowCommand(stubPlugins), ['--config', broken]), { code: exitCodes.config, out: [] })
})

t.test('show --diff prints what the gateway answers: changes, nothing, or the problems that a reload would be refused for', async t => {
  const show = async (body: object, ...args: readonly string[]) => {
    const dir = writeConfig(t.testdir(), {
      ...files,
      'gateway.yaml': files['gateway.yaml'].replace('127.0.0.1:8082', `127.0.0.1:${await serveJson(t, body)}`),
    })
    return runCommand(createShowCommand(stubPlugins), ['--diff', ...args, '--config', dir])
  }
  const changes = [
    { kind: 'removed', path: 'other', needsRestart: false },
    { kind: 'changed', path: 'store.url', needsRestart: true },
  ]
  t.same(await show({ changes, problems: [] }), { code: 0, out: ['- other', '~ store.url (needs a restart)'], err: [] })
  t.same(
    (await show({ changes, problems: [] }, '--json')).out.map(line => JSON.parse(line)),
    [{ changes, problems: [] }],
  )
  t.same(await show({ changes: [], problems: [] }), { code: 0, out: ['a reload would change nothing'], err: [] })
  const problems = [{ file: 'a.yaml', line: 3, column: 5, message: 'unset variable', hint: 'set it' }, { message: 'no worker answers' }]
  t.same(await show({ changes: [], problems }), {
    code: exitCodes.config,
    out: [],
    err: ['a.yaml:3:5: unset variable; set it', 'no worker answers', 'a reload would be refused'],
  })
  const dir = writeConfig(t.testdir(), {
    ...files,
    'gateway.yaml': files['gateway.yaml'].replace('127.0.0.1:8082', `127.0.0.1:${await serveJson(t, { changes, problems: [] })}`),
    'networks/third.yaml': networkYaml('third').replace('12s', '${UNSET_HERE}'),
  })
  const elsewhere = await runCommand(createShowCommand(stubPlugins), ['--diff', '--config', dir])
  t.match(elsewhere, { code: 0, out: { length: 2 }, err: [] }, 'the gateway has the variables')
  t.match(await show({}, 'main-chain'), { code: exitCodes.usage, err: ['--diff shows all networks: omit NETWORK'] })
})

t.test('explain prints what becomes of a call at each plugin, with the key of a caller and the state of the running gateway', async t => {
  const status = {
    network: 'main-chain',
    usable: true,
    restrictions: [],
    isPartner: false,
    inFlight: 0,
    lastRestrictions: [],
    errors: [],
  } as const
  const admin = await serveJson(t, {
    ready: true,
    networks: networkStatuses(
      [
        {
          name: 'main-chain',
          head: 7,
          upstreams: [
            { name: 'own', usable: false, because: 'it has another chain id' },
            { name: 'second', usable: true },
          ],
        },
      ],
      [
        { ...status, upstream: 'second', restrictions: [{ class: 'all', reason: 'rateSpent' }] },
        { ...status, upstream: 'partner', isPartner: true, usable: false, restrictions: [{ class: 'all', reason: 'unverified' }] },
      ],
    ),
  })
  const step = (name: string, options = '{}') => `  - ${name}: ${options}\n`
  const network = [
    step('envelope'),
    step('key-auth'),
    step('network-access'),
    '  - use: ../gate.js\n',
    step('credits', '{ costs: { eth_call: 40 } }'),
    step('params', '{ methods: { eth_getProof: false } }'),
    step('cache', '{ methods: { eth_gasPrice: never } }'),
    step('failover', '{ upstreams: [{ name: own, url: "http://127.0.0.1:1" }, { name: second, url: "http://127.0.0.1:2" }] }'),
    step('upstream'),
  ]
  const dir = writeConfig(await tempFolder(t), {
    'gateway.yaml': `store: lmdb:data\nplans: { core: { dailyCredits: 100 } }\nlisten: { admin: "127.0.0.1:${admin}" }\n`,
    'methods/ethereum.yaml': readFileSync('configs/methods/ethereum.yaml', 'utf8'),
    'networks/main-chain.yaml': networkYaml('main-chain', network.join('')),
    'gate.js': `export default {
      name: 'gate', summary: 'Lets some calls pass.', options: { type: 'object' }, reads: ['request', 'key'],
      create: () => ({
        handle: (call, next) => next(call),
        offers: (method, context) => method !== 'eth_syncing' || context?.key?.dailyCredits === undefined,
      }),
    }`,
  })
  const store = await openStore({ kind: 'lmdb', path: join(dir, 'data') }, systemClock)
  await store.addAccount({ id: 'a1', name: 'alice', plan: 'core', created: 0 })
  const limited = await createKey(store, systemClock, 'a1', { methods: ['eth_call', 'eth_getLogs'], origins: ['https://app.example.org'] })
  const withLimit = await createKey(store, systemClock, 'a1', { dailyCredits: 30 })
  await store.close()
  const command = createExplainCommand(plugins, explainCall)
  const explain = async (...args: readonly string[]) => (await runCommand(command, ['main-chain', ...args, '--config', dir])).out.join('\n')

  const plain = await explain('eth_call')
  t.match(plain, /^credits\n {2}charges 40 credits/m)
  t.match(plain, /^params\n {2}params\[0\], the \S/m)
  t.match(plain, /^failover\n {2}order: own, then second$/m)
  t.match(plain, /^upstreams now\n {2}own: not usable: it has another chain id\n {2}second: usable; its `rate` is spent$/m)
  t.match(plain, /^ {2}partner: not usable: it has not returned its chain ID$/m)
  t.match(
    await explain('eth_sendRawTransaction'),
    /^ {2}sent to the next node when one fails, and never to two at once: "already known" from the next node is a success$/m,
  )
  t.match(await explain('eth_gasPrice'), /^cache\n {2}not cached: each call reaches a node$/m)
  t.match(await explain('eth_chainId'), /^params: answers the call\n {2}answers "0x1" itself: no node is requested$/m)
  t.match(await explain('eth_getProof'), /^params: refuses the call\n {2}the method is not offered$/m)

  const key = limited.key.reveal()
  const withKey = await explain('eth_call', '--key', key)
  t.match(withKey, `the key ${limited.row.id} is valid: account alice, plan core`)
  t.match(withKey, /the Origin header must be one of https:\/\/app.example.org\n/)
  t.match(withKey, /the account has 100 credits left today\n/)
  t.notMatch(withKey, key)
  t.match(
    await explain('eth_getLogs', '--key', key),
    /credits: refuses the call\n {2}charges 255 credits.*\n {2}the account has 100 credits left today$/,
  )
  t.match(
    await explain('eth_call', '--key', withLimit.key.reveal()),
    /credits: refuses the call\n {2}charges 40 credits.*\n {2}the account has 100 credits left today\n {2}the key has 30 credits left of its daily limit$/,
  )
  t.match(
    await explain('eth_gasPrice', '--key', key),
    /network-access: refuses the call\n {2}this API key is not allowed to call this method$/,
  )
  t.match(await explain('eth_call', '--key', 'tg_wrong'), /key-auth: refuses the call\n {2}the API key is malformed: .*$/)
  t.match(JSON.parse(await explain('eth_chainId', '--json')), {
    network: 'main-chain',
    stages: [{ plugin: 'envelope' }],
    upstreams: [{ name: 'own' }],
  })
  t.match(await runCommand(command, ['main-chian', 'eth_call', '--config', dir]), {
    code: exitCodes.usage,
    err: [/did you mean `main-chain`\?/],
  })
  t.match(await runCommand(command, ['main', 'eth_call', '--config', dir]), { code: 64, err: [/did you mean `main-chain`\?/] })
  t.match(plain, /^upstream\n {2}at most 10s and 32MiB$/m, 'quantities are as in configuration files')
  t.match(await explain('eth_blokNumber'), /^ {2}the method is not offered; did you mean `eth_blockNumber`\?$/m)
  const codeOf = async (...args: readonly string[]) => (await runCommand(command, ['main-chain', ...args, '--config', dir])).code
  t.equal(await codeOf('eth_call'), exitCodes.ok)
  t.equal(await codeOf('eth_chainId'), exitCodes.ok, 'it is answered')
  t.equal(await codeOf('eth_getProof'), exitCodes.failed, 'it would be refused')
  const ofGate = await explain('eth_syncing', '--key', withLimit.key.reveal())
  t.match(ofGate, /gate: refuses the call\n {2}Lets some calls pass\n {2}refuses the method to this caller$/, 'a plugin without explain()')
  t.equal(await codeOf('eth_syncing', '--key', withLimit.key.reveal()), exitCodes.failed)
  t.equal(await codeOf('eth_syncing', '--key', key), exitCodes.failed, 'network-access refuses it')
  t.equal(await codeOf('eth_syncing'), exitCodes.ok)
  t.equal(await codeOf('eth_call', '--json', '--key', 'tg_wrong'), exitCodes.failed)
})

t.test('explain ends at the plugin that answers or refuses the method, and only methods that are answered are described', async t => {
  const step = (name: string, options = '{}') => `  - ${name}: ${options}\n`
  const above = [step('envelope'), step('key-auth'), step('credits'), step('params', "{ offer: ['debug_*'] }")]
  const below = [
    step('failover', '{ upstreams: [{ name: own, url: "http://127.0.0.1:1", methods: [eth_call, eth_blockNumber, eth_newFilter] }] }'),
    step('upstream'),
  ]
  const dir = writeConfig(await tempFolder(t), {
    'gateway.yaml': 'store: lmdb:data\nplans: { core: { dailyCredits: 100 } }\n',
    'methods/ethereum.yaml': readFileSync('configs/methods/ethereum.yaml', 'utf8'),
    'networks/main-chain.yaml': networkYaml('main-chain', [...above, step('subscriptions'), ...below].join('')),
    'networks/plain.yaml': networkYaml('plain', [...above, ...below].join('')),
    'networks/verified.yaml': networkYaml(
      'verified',
      [
        ...[step('envelope'), step('key-auth'), step('credits', '{ costs: { eth_call: 30 } }'), step('params'), step('subscriptions')],
        step('failover', '{ upstreams: [{ name: own, url: "http://127.0.0.1:1" }, { name: second, url: "http://127.0.0.1:2" }] }'),
        step('verify', '{ methods: { eth_getLogs: proof, eth_call: 2 of 2 }, costs: { proof: 2x, quorum: 1.5x } }'),
        step('upstream'),
      ].join(''),
    ),
  })
  const described = await describeNetworks(await loadConfig(dir, plugins, {}))
  const namesOf = (network: string) => described.get(network)?.map(({ name }) => name) ?? []
  const answered = ['eth_call', 'net_version', 'rpc.discover', 'eth_subscribe', 'eth_getFilterLogs']
  t.same(
    answered.filter(name => !namesOf('main-chain').includes(name)),
    [],
    'by the node, or by a plugin',
  )
  t.notOk(namesOf('main-chain').some(name => name.startsWith('debug_') || name === 'eth_newPendingTransactionFilter'))
  t.notOk(
    namesOf('plain').some(name => /subscribe|Filter/.test(name)),
    'nobody answers these',
  )
  const command = createExplainCommand(plugins, explainCall)
  const explain = async (network: string, method: string): Promise<string> =>
    (await runCommand(command, [network, method, '--config', dir])).out.join('\n')

  t.match(
    await explain('main-chain', 'eth_subscribe'),
    /\nsubscriptions: answers the call\n.*\n {2}credits for each KiB of messages: newHeads 10, logs 10$/,
  )
  t.match(await explain('main-chain', 'eth_getFilterLogs'), /\nsubscriptions: answers the call\n.*$/)
  t.match(
    await explain('main-chain', 'eth_newPendingTransactionFilter'),
    /\nsubscriptions: refuses the call\n {2}the method is not offered$/,
  )
  t.match(await explain('main-chain', 'debug_traceTransaction'), /\nfailover: refuses the call\n {2}no upstream has the method$/)
  t.match(
    await explain('main-chain', 'eth_blockNumber'),
    /\nparams\n {2}takes no parameters\n.*\nfailover\n {2}order: own\n.*\nupstreams now\n/s,
  )
  const credits = async (method: string) => /^credits\n {2}charges (\d+) credits/m.exec(await explain('verified', method))?.[1]
  t.same(
    await Promise.all(['eth_getLogs', 'eth_getFilterLogs', 'eth_call', 'eth_getBalance'].map(credits)),
    ['510', '510', '45', '80'],
    'as all plugins say together',
  )
  t.match(
    await explain('verified', 'eth_getLogs'),
    /^verify\n.*\n {2}the call costs 2 times as many credits \(`costs`\); the difference is refunded where its result is only checked$/m,
  )
  t.match(await explain('plain', 'eth_newFilter'), /\nupstream: refuses the call\n {2}the method is never sent to a node, .*$/)
})

/** Answers each request with the body; resolves with the port. */
const serveJson = async (t: Test, body: object): Promise<number> => {
  const server = createServer((_request, response) => response.end(JSON.stringify(body))).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}
