import { readFileSync } from 'node:fs'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { plugins } from '../../plugins/index.ts'
import { createCheckCommand } from '../../src/cli/check.ts'
import { exitCodes } from '../../src/cli/command.ts'
import { dryRunNetworks } from '../../src/core/dry-run.ts'
import { networkYaml, writeConfig } from '../config/config-fixture.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { startFakeSubscriptionNode } from '../support/fake-subscription-node.ts'
import { runCheck, runCommand } from './run-command.ts'

/** Runs `check` with the built-in plugins, and creates their stages. */
const runBuiltInCheck = (t: Test, files: Readonly<Record<string, string>>, ...args: readonly string[]) =>
  runCheck(t, files, { dryRun: dryRunNetworks, plugins, args })

const table = readFileSync('configs/methods/ethereum.yaml', 'utf8')
/** The shipped pipeline with these options, by plugin. */
const shippedPluginNames = ['envelope', 'key-auth', 'network-access', 'credits', 'params', 'cache', 'failover', 'upstream']
const shippedSteps = (options: Readonly<Record<string, string>> = {}) =>
  shippedPluginNames.map(
    name => `  - ${name}: ${options[name] ?? (name === 'failover' ? '{ upstreams: [{ name: own, url: "http://127.0.0.1:1" }] }' : '{}')}\n`,
  )

const shipped = (options: Readonly<Record<string, string>>) => networkYaml('real-net', shippedSteps(options).join(''))

t.test('an option that names a method which is not in the method table is a problem', async t => {
  const files = {
    'methods/ethereum.yaml': table,
    'networks/real-net.yaml': shipped({
      credits: '{ costs: { eth_getLog: 300 } }',
      cache: '{ methods: { eth_cal: never } }',
      failover:
        '{ upstreams: [{ name: own, url: "http://127.0.0.1:1" }], partner: { name: p, url: "http://127.0.0.1:1", methods: [eth_getLogs, eth_getLog] } }',
    }),
  }
  const { code, err } = await runBuiltInCheck(t, files)
  t.equal(code, exitCodes.config)
  t.match(err.join(''), /credits: the method eth_getLog is not in the method table; did you mean `eth_getLogs`\?/)
  t.match(err.join(''), /cache: the method eth_cal is not in the method table; did you mean `eth_call`\?/)
  t.match(err.join(''), /failover: the method eth_getLog is not in the method table; did you mean `eth_getLogs`\?/)
})

t.test('what is valid but probably not meant is a warning, and with --strict a problem', async t => {
  const without = (...names: readonly string[]) =>
    networkYaml(
      'real-net',
      shippedSteps()
        .filter(step => !names.some(name => step.startsWith(`  - ${name}:`)))
        .join(''),
    )
  const upstreams = '[{ name: own, url: "http://127.0.0.1:1" }, { name: other, url: "http://127.0.0.1:1/" }]'
  const check = (network: string, ...args: readonly string[]) =>
    runBuiltInCheck(t, { 'methods/ethereum.yaml': table, 'networks/real-net.yaml': network }, ...args)
  t.match(await check(without('params', 'credits')), {
    code: exitCodes.ok,
    err: [
      /^warning: networks\/real-net.yaml:6:1: the pipeline has no `credits`: callers may make any number of calls/,
      /^warning: .* no `params`: callers may use every method of the node/,
    ],
  })
  const twice = shipped({ failover: `{ upstreams: ${upstreams} }` })
  t.match(await check(twice), { code: exitCodes.ok, err: [/^warning: .*real-net.yaml:13:\d+: failover: the same URL as in line 13$/m] })
  t.equal((await check(twice, '--strict')).code, exitCodes.config)
  const hasty = shipped({ upstream: '{ timeout: 5ms }' })
  t.match(await check(hasty), {
    code: exitCodes.ok,
    err: [/^warning: .*real-net.yaml:14:\d+: upstream.timeout is usually 100ms to 30m, not "5ms"$/m],
  })
  t.equal((await check(hasty, '--strict')).code, exitCodes.config)
  t.match(await check(shipped({}), '--strict'), { code: exitCodes.ok, err: [] })
  const { out } = await check(twice, '--json')
  t.match(JSON.parse(out.join('')), { problems: [], failures: [], warnings: [{ line: 13 }], networks: [{ name: 'real-net' }] })
  t.notOk(out.join('').includes('127.0.0.1:1/"'), 'the URL is not repeated by the message')
})

t.test('a timeout of 0, a size of 0 or a URL that is neither HTTP nor WebSocket is a problem', async t => {
  const files = {
    'methods/ethereum.yaml': table,
    'networks/real-net.yaml': shipped({
      failover: '{ upstreams: [{ name: own, url: "ftp://node.example.org" }], }',
      upstream: '{ timeout: 0s, maxBytes: 0B, probeAfter: 0ms }',
    }),
  }
  const { code, err } = await runBuiltInCheck(t, files)
  t.equal(code, exitCodes.config)
  t.match(err.join(''), /13:47: failover.upstreams\[0\].url must be a URL that begins with http:\/\/, https:\/\/, ws:\/\/ or wss:\/\//)
  for (const name of ['timeout', 'maxBytes', 'probeAfter']) t.match(err.join(''), `${name} must be greater than 0`)
  const idle = shipped({ failover: '{ upstreams: [{ name: own, url: "http://127.0.0.1:1" }], breaker: { openFor: 0s } }' })
  t.match(await runBuiltInCheck(t, { ...files, 'networks/real-net.yaml': idle }), {
    err: [/breaker.openFor must be greater than 0/],
  })
})

t.test('the name of a node that is not allowed in a header is a problem', async t => {
  const named = (own: string, partner: string) =>
    runBuiltInCheck(t, {
      'methods/ethereum.yaml': table,
      'networks/real-net.yaml': shipped({
        failover: `{ upstreams: [{ name: ${own}, url: "http://127.0.0.1:1" }], partner: { name: ${partner}, url: "http://127.0.0.1:1" } }`,
      }),
    })
  const { code, err } = await named('узел', '"a b"')
  t.equal(code, exitCodes.config)
  t.match(err.join(''), /13:37: failover\.upstreams\[0\]\.name must be a name of ASCII characters without spaces, not "узел"/)
  t.match(err.join(''), /failover\.partner\.name must be a name of ASCII characters without spaces, not "a b"/)
  t.match(await named('""', 'p'), { code: exitCodes.config, err: [/without spaces, not ""/] })
  t.match(await named('own.eu-1:8545', 'P(2)'), { code: exitCodes.ok })
})

t.test('the call-limit plugin is accepted only where its page allows it', async t => {
  const code = readFileSync('docs/examples/call-limit.js', 'utf8')
  const networks = [...shippedSteps(), ''].map((_, position) => {
    const steps = shippedSteps().toSpliced(position, 0, '  - { use: ../call-limit.mjs, with: { calls: 50 } }\n')
    return [`networks/net-${position}.yaml`, networkYaml(`net-${position}`, steps.join(''))]
  })
  const files = { 'methods/ethereum.yaml': table, 'call-limit.mjs': code, ...(Object.fromEntries(networks) as Record<string, string>) }
  const { err } = await runBuiltInCheck(t, files)
  const rejected = new Set(Array.from(err.join('\n').matchAll(/^networks\/net-(\d)/gm), ([, position]) => Number(position)))
  const [auth, cache] = [shippedPluginNames.indexOf('key-auth'), shippedPluginNames.indexOf('cache')]
  t.same(
    [...rejected],
    [...networks.keys()].filter(position => position <= auth || position > cache),
  )
  t.match(err.join(''), /call-limit must run exactly once for a call, but failover above it may repeat calls/)
})

t.test('problems of gateway.yaml do not hide problems of networks', async t => {
  const files = { 'methods/ethereum.yaml': table, 'networks/real-net.yaml': shipped({ credits: '{ costs: { eth_getLog: 300 } }' }) }
  const { code, err } = await runBuiltInCheck(t, { ...files, 'gateway.yaml': 'store: lmdb:../data\nplan: {}\n' })
  t.equal(code, exitCodes.config)
  t.match(err.join(''), /gateway.yaml:2:1: unknown key `plan`[^]*real-net.yaml[^]*eth_getLog is not in the method table/)
  t.match(await runBuiltInCheck(t, { 'methods/ethereum.yaml': table, 'networks/real-net.yaml': shipped({ cache: '{ maxBytes: 0B }' }) }), {
    code: exitCodes.ok,
  })
})

t.test('problems of networks do not hide problems of gateway.yaml that they depend on', async t => {
  const pipeline =
    '  - key-auth: {}\n  - cache: {}\n  - failover: { upstreams: [{ name: own, url: http://localhost:8545 }] }\n  - upstream: {}\n'
  const files = { 'gateway.yaml': 'store: nowhere\nplans: {}\n', 'networks/main-chain.yaml': networkYaml('main-chain', pipeline) }
  const dir = writeConfig(t.testdir(), files)
  const { code, err } = await runCommand(createCheckCommand(plugins, dryRunNetworks), ['--config', dir])
  t.equal(code, exitCodes.config)
  t.match(err.join('\n'), /gateway\.yaml:1:8: store must be lmdb:PATH or redis:/)
})

t.test(
  '--online asks every upstream: chain, head, lag, latency, archive; a wrong chain fails, a dead or lagging upstream is a warning',
  async t => {
    const startNode = async (chainId: number, head: number, archive: boolean) => {
      const node = await startFakeNode({
        eth_chainId: { result: `0x${chainId.toString(16)}` },
        eth_blockNumber: { result: `0x${head.toString(16)}` },
        eth_getBalance: archive ? { result: '0x0' } : { error: { code: -32000, message: 'missing trie node' } },
      })
      t.teardown(() => node.stop())
      return node.url
    }
    const list = (urls: Readonly<Record<string, string>>) =>
      `{ upstreams: [${Object.entries(urls)
        .map(([name, url]) => `{ name: ${name}, url: "${url}" }`)
        .join(', ')}] }`
    const check = (urls: Readonly<Record<string, string>>, ...args: readonly string[]) => {
      const files = { 'methods/ethereum.yaml': table, 'networks/real-net.yaml': shipped({ failover: list(urls) }) }
      return runBuiltInCheck(t, files, '--online', ...args)
    }
    const [own, behind] = [await startNode(1, 1000, true), await startNode(1, 900, false)]
    const dead = 'http://127.0.0.1:1/SECRETKEY'
    const good = await check({ own, behind, dead })
    t.equal(good.code, exitCodes.ok)
    t.match(
      good.out.join('\n'),
      /^ {2}real-net {2}own +1 +1000 +0 +\d+ ms +archive\n {2}real-net {2}behind +1 +900 +100 +\d+ ms +recent blocks\n/m,
    )
    t.match(good.out.join('\n'), /^ {2}real-net {2}dead +- +- +- +- +no answer$/m)
    t.match(good.err.join('\n'), /^warning: networks\/real-net.yaml:13:\d+: failover: behind lags 100 blocks$/m)
    t.match(good.err.join('\n'), /^warning: networks\/real-net.yaml:13:\d+: failover: dead does not answer: .*ECONNREFUSED/m)
    t.equal((await check({ own, behind }, '--strict')).code, exitCodes.config)

    const other = await check({ own, other: await startNode(5, 5000, true) }, '--json')
    t.equal(other.code, exitCodes.failed)
    t.match(JSON.parse(other.out.join('')), {
      problems: [{ line: 13, message: 'failover: other is on chain 5, not 1' }],
      warnings: [],
      upstreams: [
        { name: 'own', head: 1000, lag: 0, archive: true },
        { name: 'other', chainId: 5 },
      ],
    })
    const unnamed = await startFakeNode({
      eth_chainId: { error: { code: -32601, message: 'no method' } },
      eth_blockNumber: { result: '0x3e8' },
    })
    t.teardown(() => unnamed.stop())
    const unchecked = await check({ unnamed: unnamed.url }, '--json')
    t.equal(unchecked.code, exitCodes.ok, unchecked.out.join())
    t.match(JSON.parse(unchecked.out.join('')), {
      problems: [],
      warnings: [{ message: 'failover: unnamed has no chain ID: it gets calls, and its chain is not checked' }],
      upstreams: [{ name: 'unnamed', head: 1000 }],
    })
    const forked = await startFakeNode({
      eth_chainId: { result: '0x1' },
      eth_blockNumber: { result: '0x3e8' },
      web3_clientVersion: { result: 'anvil/v1.5.0' },
    })
    t.teardown(() => forked.stop())
    t.match(
      (await check({ forked: forked.url })).err.join('\n'),
      /^warning: networks\/real-net.yaml:13:\d+: failover: forked is a development node \(anvil\/v1.5.0\): add `devNode: true` to the network/m,
    )
    const down = await check({ dead }, '--github')
    t.equal(down.code, exitCodes.failed)
    t.match(down.out, [
      /^::error file=networks\/real-net.yaml,line=13,col=\d+::failover: dead does not answer, and no other upstream of the network does: /,
    ])
    t.notMatch(JSON.stringify([good, other, down]), 'SECRETKEY')
  },
)

t.test('--online asks the WebSockets of upstreams too: a wrong chain fails, one without newHeads is a warning', async t => {
  const http = await startFakeNode({ eth_chainId: { result: '0x1' }, eth_blockNumber: { result: '0x3e8' } })
  const [own, other, unsubscribed] = await Promise.all([1, 5, 1].map(chainId => startFakeSubscriptionNode(chainId)))
  t.teardown(() => Promise.all([http, own, other, unsubscribed].map(node => node?.stop())))
  for (const node of [own, other, unsubscribed]) node?.setResponse('eth_blockNumber', '0x3e8')
  unsubscribed?.setResponse('eth_subscribe', { error: { code: -32601, message: 'no eth_subscribe' } })
  const check = (urls: string, ...args: readonly string[]) => {
    const upstreams = `{ upstreams: [{ name: own, ${urls}, headers: { X-Api-Key: SECRETKEY } }] }`
    const files = { 'methods/ethereum.yaml': table, 'networks/real-net.yaml': shipped({ failover: upstreams }) }
    return runBuiltInCheck(t, files, '--online', ...args)
  }
  const good = await check(`url: "${http.url}", ws: "${own?.url}"`)
  t.equal(good.code, exitCodes.ok, good.err.join())
  t.match(good.out.join('\n'), /^ {2}real-net {2}own +1 +1000 +0 +\d+ ms +recent blocks, newHeads$/m)
  t.equal(own?.upgradeHeaders[0]?.['x-api-key'], 'SECRETKEY')
  const alone = await check(`url: "${own?.url}"`, '--json')
  t.match(JSON.parse(alone.out.join('')), { problems: [], upstreams: [{ name: 'own', head: 1000, newHeads: true }] })
  const wrong = await check(`url: "${http.url}", ws: "${other?.url}"`, '--json')
  t.equal(wrong.code, exitCodes.failed)
  t.match(JSON.parse(wrong.out.join('')), {
    problems: [{ line: 13, message: 'failover: the WebSocket of own is on chain 5, not 1' }],
    upstreams: [{ name: 'own', head: 1000, newHeads: false }],
  })
  const polled = await check(`url: "${http.url}", ws: "${unsubscribed?.url}"`, '--json')
  t.equal(polled.code, exitCodes.ok)
  t.match(JSON.parse(polled.out.join('')), {
    warnings: [{ message: 'failover: the WebSocket of own announces no blocks, so it is polled: no eth_subscribe' }],
  })
  const dead = await check(`url: "${http.url}", ws: "ws://127.0.0.1:1/SECRETKEY"`)
  t.match(
    dead.err.join('\n'),
    /^warning: .*the WebSocket of own announces no blocks, so it is polled: connection refused \(ECONNREFUSED\)/m,
  )
  const noMap = await runBuiltInCheck(t, {
    'methods/ethereum.yaml': table,
    'networks/real-net.yaml': shipped({ failover: '{ upstreams: [{ name: own, url: "http://a.test", headers: "X-Api-Key SECRETKEY" }] }' }),
  })
  t.match(noMap.err.join('\n'), /upstreams\[0\]\.headers must be a map$/m)
  t.notMatch(JSON.stringify([good, alone, wrong, polled, dead, noMap]), 'SECRETKEY')
})

t.test('--github prints problems and warnings as annotations, on one line each', async t => {
  const network = shipped({ upstream: '{ timeout: 5ms }' }).replace('chainId: 1', 'chainId: "1"')
  const { code, out, err } = await runBuiltInCheck(t, { 'methods/ethereum.yaml': table, 'networks/real-net.yaml': network }, '--github')
  t.equal(code, exitCodes.config)
  t.same(err, [])
  t.same(out, [
    '::error file=networks/real-net.yaml,line=2,col=10::chainId must be an integer from 1 to 2^53-1, not "1" (write 1)',
    '::warning file=networks/real-net.yaml,line=14,col=26::upstream.timeout is usually 100ms to 30m, not "5ms" (Maximum time to wait for a response.)',
  ])
  await t.rejects(runBuiltInCheck(t, {}, '--json', '--github'), { message: '--json and --github cannot be combined' })
})
