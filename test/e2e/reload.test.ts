import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { childrenOf, createDeployment, networkFile, startGateway } from '../support/deployment.ts'
import type { DeploymentOptions } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { call, connectWs, post } from '../support/rpc-client.ts'
import { createPortalClient } from '../support/portal-client.ts'
import { waitUntil } from '../support/wait-until.ts'

/** A gateway with one node, the network testnet, and an account with a key. */
const open = async (t: Test, { gateway = {}, networks }: Partial<DeploymentOptions> = {}) => {
  const node = await startFakeNode({
    eth_chainId: { result: '0x7a69' },
    eth_gasPrice: { result: '0x9' },
    eth_getBlockByNumber: { result: null },
  })
  t.teardown(() => node.stop())
  const {
    deployment,
    gateway: running,
    key,
  } = await startGateway(t, { gateway, networks: networks ?? { testnet: networkFile('testnet', [node.url]) } })
  const linesOf = (event: string) => running.log.filter(line => line['event'] === event)
  const metricsText = async () => (await running.get('/metrics')).text
  const isReloaded = () => running.metric('tollgate_config_last_reload_successful')
  /** Sends SIGHUP; resolves with the line of the reload's result. */
  const reload = async (event = 'reloaded') => {
    const before = linesOf(event).length
    process.kill(running.pid, 'SIGHUP')
    await waitUntil(() => linesOf(event).length > before)
    return linesOf(event).at(-1)
  }
  const creditsOf = async (method: string) =>
    Number((await post(running.http(key), JSON.stringify({ jsonrpc: '2.0', id: 1, method }))).headers['x-tollgate-credits'])
  return { node, deployment, gateway: running, key, url: running.http(key), linesOf, isReloaded, reload, creditsOf, metricsText }
}

t.test('SIGHUP applies the changed files', async t => {
  const { node, deployment, gateway, key, url, reload, isReloaded, metricsText, creditsOf, linesOf } = await open(t)
  const socket = await connectWs(gateway.ws(key))
  t.equal(await creditsOf('eth_gasPrice'), 80)
  t.equal(await isReloaded(), 1)

  await t.test('a price, and says what has changed', async t => {
    deployment.writeNetwork('testnet', networkFile('testnet', [node.url], { credits: { costs: { eth_gasPrice: 7 } } }))
    t.same((await reload())?.['changes'], ['+ testnet.credits.costs'])
    t.equal(await creditsOf('eth_gasPrice'), 7)
  })

  await t.test('an added network, and a removed one, whose WebSockets close with 1001', async t => {
    deployment.writeNetwork('second', { ...networkFile('second', [node.url]), hosts: ['second.test'] })
    t.same((await reload())?.['changes'], ['+ second'])
    t.equal((await call(url, 'eth_chainId', [], { host: 'second.test' })).result, '0x7a69')
    const doomed = await connectWs(gateway.ws(key), { host: 'second.test' })
    deployment.removeNetwork('second')
    await reload()
    t.same(await doomed.closed, { code: 1001, reason: 'the network is no longer served' })
    t.match(await call(url, 'eth_chainId', [], { host: 'second.test' }), { error: { code: -32090 } })
    t.equal((await socket.call('eth_chainId')).result, '0x7a69', 'other sockets stay open')
    await waitUntil(async () => !(await metricsText()).includes('network="second"'))
    t.match(await metricsText(), 'network="testnet"')
  })

  await t.test('a plan, for accounts that have called before, and on open WebSockets', async t => {
    deployment.writeGateway({ plans: { core: { dailyCredits: 10 } }, limits: { batch: 5 } })
    t.same((await reload())?.['changes'], ['~ plans.core.dailyCredits', '- plans.custom', '- plans.growth'])
    await waitUntil(() => linesOf('restart-needed').length === 1)
    t.match(linesOf('restart-needed'), [{ msg: 'restart the gateway to apply: limits.batch' }])
    // What was leased under the old limit is spent first.
    await waitUntil(async () => (await call(url, 'eth_gasPrice')).error?.code === -33000)
    t.equal((await socket.call('eth_gasPrice')).error?.code, -33000)
  })

  await t.test('and nothing when a file has a problem: that is logged with its place, and in a metric', async t => {
    deployment.writeGateway({ plans: { core: { dailyCredits: 3_000_000 } } })
    deployment.writeNetwork('testnet', JSON.stringify({ ...networkFile('testnet', [node.url]), chainId: 0 }, null, 1))
    t.match(await reload('reload-failed'), {
      level: 50,
      file: /testnet\.yaml$/,
      line: 3,
      column: 13,
      msg: /nothing has changed: .*chainId/,
    })
    t.equal(await isReloaded(), 0)
    t.equal((await call(url, 'eth_gasPrice')).error?.code, -33000, 'the plan, too, stays')
    t.ok((await socket.call('eth_gasPrice')).error)
    deployment.writeNetwork('testnet', networkFile('testnet', [node.url]))
    await reload()
    t.equal(await isReloaded(), 1)
    t.equal(await creditsOf('eth_gasPrice'), 80)
  })
  await socket.close()
  t.equal(await gateway.stop(), 0)
})

t.test('several workers reload together', async t => {
  const settings = { workers: 2, admin: { token: 's3cret' } }
  const { node, deployment, gateway, url, reload, creditsOf, isReloaded, metricsText } = await open(t, { gateway: settings })
  const other = await startFakeNode({
    eth_chainId: { result: '0x7a69' },
    eth_gasPrice: { result: '0xa' },
    eth_getBlockByNumber: { result: null },
  })
  t.teardown(() => other.stop())
  /** Each call is on a connection of its own: the workers get them in turn. */
  const costs = async () => new Set(await Promise.all(Array.from({ length: 8 }, () => creditsOf('eth_gasPrice'))))
  t.same([...(await costs())], [80])
  const price = (cost: number, urls = [node.url]) => networkFile('testnet', urls, { credits: { costs: { eth_gasPrice: cost } } })

  deployment.writeNetwork('testnet', price(7, [other.url]))
  t.match(await reload(), { changes: ['+ testnet.credits.costs', '~ testnet.failover.upstreams.node-1.url'] })
  t.same([...(await costs())], [7])
  t.equal((await call(url, 'eth_gasPrice')).result, '0xa')
  deployment.writeNetwork('testnet', networkFile('testnet', [], { failover: { upstreams: [{ name: 'renamed', url: other.url }] } }))
  await reload()
  await costs()
  await waitUntil(async () => !(await metricsText()).includes('node-1'))
  t.match(await metricsText(), /tollgate_upstream_up\{.*renamed.*\} 1/)
  deployment.writeNetwork('testnet', price(7, [other.url]))
  await reload()
  const { text } = await gateway.get('/readyz?verbose')
  t.match(JSON.parse(text), { networks: [{ upstreams: [{ name: 'node-1', usable: true }] }] })

  // The second worker that starts the plugin fails.
  const lock = JSON.stringify(join(deployment.dir, 'lock'))
  writeFileSync(
    join(deployment.dir, 'once.js'),
    `import { writeFileSync } from 'node:fs'
export default {
  name: 'once', summary: 'Starts once.', options: { type: 'object' },
  create: () => ({ handle: (call, next) => next(call), start: async () => writeFileSync(${lock}, '', { flag: 'wx' }) }),
}`,
  )
  const { pipeline, ...rest } = price(9, [other.url])
  deployment.writeNetwork('testnet', { ...rest, pipeline: [{ use: '../once.js' }, ...(pipeline as object[])] })
  t.match(await reload('reload-failed'), { msg: /once did not start: .*EEXIST/ })
  t.same([...(await costs())], [7], 'none has reloaded')
  t.equal(await isReloaded(), 0)

  deployment.writeNetwork('testnet', price(5, [other.url]))
  await reload()
  t.same([...(await costs())], [5])

  const logs = join(deployment.dir, 'logs')
  const accessLog = { file: 'logs/access.log' }
  const linesIn = () => readFileSync(join(logs, 'access.log'), 'utf8').split('\n').length - 1
  deployment.writeGateway({ ...settings, accessLog })
  t.match(await reload('reload-failed'), { msg: /the directory of accessLog.file does not exist/ })
  mkdirSync(logs)
  t.match(await reload(), { changes: ['+ accessLog.file'] })
  await costs()
  await waitUntil(() => linesIn() === 8)

  const put = (body: object) =>
    post(`${gateway.admin}/access-log`, JSON.stringify(body), { method: 'PUT', headers: { authorization: 'Bearer s3cret' } })
  t.equal((await put({ target: 'none' })).status, 200)
  rmSync(logs, { recursive: true })
  const failed = await put({ target: 'file', sample: 0.5 })
  t.equal(failed.status, 409)
  t.match(failed.json(), { error: /^cannot open the log file: ENOENT/ })
  t.match((await put({})).json(), { target: 'none', sample: 1 })
  mkdirSync(logs)
  t.equal((await put({ target: 'file' })).status, 200)
  await costs()
  await waitUntil(() => linesIn() === 8)

  const [killed] = childrenOf(gateway.pid) as [number]
  process.kill(killed, 'SIGKILL')
  await gateway.waitForEvent('worker-restarted')
  t.same([...(await costs())], [5], 'a replacement has the new configuration')
  t.equal(await gateway.stop(), 0)
})

t.test('a change of the files reloads by itself; `watch: false` leaves it to SIGHUP and POST /reload', async t => {
  const { node, deployment, gateway, creditsOf } = await open(t)
  const price = (cost: number) => networkFile('testnet', [node.url], { credits: { costs: { eth_gasPrice: cost } } })
  deployment.writeNetwork('testnet', price(7))
  await waitUntil(async () => (await creditsOf('eth_gasPrice')) === 7)
  t.match(await gateway.waitForEvent('reloaded'), { changes: ['+ testnet.credits.costs'] })

  const admin = { token: 'letmein' }
  const unwatched = await open(t, { gateway: { watch: false, admin } })
  const reload = async (authorization: string) => post(`${unwatched.gateway.admin}/reload`, '', { headers: { authorization } })
  unwatched.deployment.writeNetwork('testnet', networkFile('testnet', [unwatched.node.url], { credits: { costs: { eth_gasPrice: 8 } } }))
  t.equal((await reload('Bearer wrong')).status, 401)
  const preview = (authorization: string) => post(`${unwatched.gateway.admin}/reload`, '', { method: 'GET', headers: { authorization } })
  t.equal((await preview('Bearer wrong')).status, 401)
  t.same((await preview('Bearer letmein')).json(), {
    applied: false,
    changes: [{ kind: 'added', path: 'testnet.credits.costs', needsRestart: false }],
    problems: [],
  })
  t.equal(await unwatched.creditsOf('eth_gasPrice'), 80)
  const applied = await reload('Bearer letmein')
  t.same(applied.json(), {
    applied: true,
    changes: [{ kind: 'added', path: 'testnet.credits.costs', needsRestart: false }],
    problems: [],
  })
  t.equal(await unwatched.creditsOf('eth_gasPrice'), 8)
  unwatched.deployment.writeNetwork('testnet', 'network: testnet')
  const refused = await reload('Bearer letmein')
  t.match(refused, { status: 422 })
  t.match(refused.json(), { applied: false, problems: [{ file: /testnet.yaml$/, line: 1, column: 1, message: /chainId/ }] })
  t.match((await preview('Bearer letmein')).json(), { applied: false, changes: [], problems: [{ message: /chainId/ }] })
})

t.test(
  "operators see the configuration in force and what a reload would change, reload, and set the log level, over the operator's API",
  async t => {
    const { node, deployment, gateway, creditsOf } = await open(t, {
      gateway: { watch: false, workers: 2, admin: { token: 'canary-letmein' } },
    })
    const operator = createPortalClient(gateway.admin, 'canary-letmein')
    const read = async () => (await operator.get('/configuration')).json
    const shown = await read()
    t.match(shown, {
      unserved: [],
      changes: [],
      problems: [],
      logLevel: 'info',
      files: [{ file: /gateway\.yaml$/ }, { file: /testnet\.yaml$/ }],
    })
    t.match(shown.files[0].text, /^plans:$/m)
    t.match(shown.files[1].text, /timeout: 10s # default/)
    t.notOk(JSON.stringify(shown).includes('canary-letmein'))
    deployment.writeNetwork('testnet', networkFile('testnet', [node.url], { credits: { costs: { eth_gasPrice: 8 } } }))
    const changes = [{ kind: 'added', path: 'testnet.credits.costs', needsRestart: false }]
    const preview = await read()
    t.match(preview, { changes, problems: [], files: shown.files, differences: [{ file: /testnet\.yaml$/ }] }, 'not in force yet')
    t.match(
      preview.differences[0].lines.filter((line: { readonly kind: string } | null) => line !== null && line.kind !== 'same'),
      [{ kind: 'removed' }, { kind: 'added' }, { kind: 'added', text: /eth_gasPrice: 8/ }],
    )
    t.same((await operator.post('/configuration/reload')).json, { applied: true, changes, problems: [] })
    t.equal(await creditsOf('eth_gasPrice'), 8)
    const after = await read()
    t.same(after.changes, [])
    t.match(after.files[1].text, /eth_gasPrice: 8/)
    deployment.writeNetwork('testnet', 'network: testnet')
    t.match(await read(), {
      changes: [],
      problems: [{ file: /testnet.yaml$/, line: 1, column: 1, message: /chainId/ }],
      files: after.files,
    })
    t.match((await operator.post('/configuration/reload')).json, { applied: false, changes: [], problems: [{ message: /chainId/ }] })
    t.same((await operator.request('PATCH', '/log-level', { level: 'debug' })).json, { level: 'debug' })
    t.equal((await read()).logLevel, 'debug')
    t.match(await operator.request('PATCH', '/log-level', { level: 'loud' }), { status: 400, json: { error: { field: 'level' } } })
    // Of what a file changes, a part is applied, and a part takes a restart.
    deployment.writeNetwork('testnet', networkFile('testnet', [node.url], { credits: { costs: { eth_gasPrice: 8 } } }))
    const gatewayOptions = {
      watch: false,
      workers: 2,
      admin: { token: 'canary-letmein' },
      drain: { grace: '0s', timeout: '7s' },
      limits: { batch: 3 },
    }
    deployment.writeGateway(gatewayOptions)
    t.match((await operator.post('/configuration/reload')).json, { applied: true })
    const partly = await read()
    t.match(partly.files[0].text, /timeout: 7s$/m)
    t.notMatch(partly.files[0].text, /batch: 3/, 'it waits for the restart')
    t.match(partly.changes, [{ path: 'limits.batch', needsRestart: true }])
    t.match(JSON.stringify(partly.differences), /"added","text":"  batch: 3"/)
    t.match((await operator.get('/changes?action=configuration-reloaded&from=2020-01-01')).json.changes, [
      { after: { changes: ['drain.timeout'] } },
      {},
    ])
    t.match((await operator.get('/changes?search=e&from=2020-01-01')).json.changes.slice(1), [
      { action: 'log-level-changed', before: { level: 'info' }, after: { level: 'debug' } },
      { action: 'configuration-reloaded', after: { changes: ['testnet.credits.costs'] }, by: { kind: 'operator' } },
    ])
  },
)

t.test('`show --diff` prints what a reload would change', async t => {
  const admin = { token: 'letmein' }
  const { node, deployment, gateway, creditsOf } = await open(t, { gateway: { watch: false, admin } })
  t.match(await deployment.run('show', '--diff'), { code: 1, stderr: /requires listen.admin with a fixed port, and admin.token/ })
  const write = (token: string) =>
    deployment.writeGateway({ watch: false, admin: { token }, listen: { rpc: '127.0.0.1:0', admin: new URL(gateway.admin).host } })
  write('letmein')
  const restart = '~ listen.admin.port (needs a restart)\n'
  t.match(await deployment.run('show', '--diff'), { code: 0, stdout: restart, stderr: '' })
  deployment.writeNetwork('testnet', networkFile('testnet', [node.url], { credits: { costs: { eth_gasPrice: 7 } } }))
  t.match(await deployment.run('show', '--diff'), { code: 0, stdout: `${restart}+ testnet.credits.costs\n` })
  t.equal(await creditsOf('eth_gasPrice'), 80, 'nothing is applied')
  write('other')
  t.match(await deployment.run('show', '--diff'), { code: 1, stderr: /has another admin.token/ })
  await gateway.stop()
  t.match(await deployment.run('show', '--diff'), { code: 1, stderr: /no gateway answers at/ })
})

t.test('`reload` asks the running gateway, and prints what has changed or why nothing has', async t => {
  const admin = { token: 'letmein' }
  const { node, deployment, gateway, creditsOf } = await open(t, { gateway: { watch: false, admin } })
  deployment.writeGateway({ watch: false, admin, listen: { rpc: '127.0.0.1:0', admin: new URL(gateway.admin).host } })
  deployment.writeNetwork('testnet', networkFile('testnet', [node.url], { credits: { costs: { eth_gasPrice: 7 } } }))
  const restart = '~ listen.admin.port (needs a restart)\n'
  t.match(await deployment.run('reload'), { code: 0, stdout: `${restart}+ testnet.credits.costs\n`, stderr: '' })
  t.equal(await creditsOf('eth_gasPrice'), 7)
  t.match(JSON.parse((await deployment.run('reload', '--json')).stdout), { changes: [{ path: 'listen.admin.port' }], problems: [] })
  deployment.writeNetwork('testnet', 'network: testnet')
  t.match(await deployment.run('reload'), {
    code: 78,
    stdout: '',
    stderr: /testnet.yaml:1:1: .*chainId.*\nnot reloaded: what ran before serves on\n$/s,
  })
  t.equal(await creditsOf('eth_gasPrice'), 7)
  await gateway.stop()
  t.match(await deployment.run('reload'), { code: 1, stderr: /no gateway answers at/ })
})

t.test('what is known of nodes and answers outlives a reload that does not concern it', async t => {
  const { node, deployment, url, reload } = await open(t, { gateway: { watch: false } })
  const broken = await startFakeNode({ eth_chainId: { result: '0x7a69' }, eth_getBlockByNumber: { result: null } })
  t.teardown(() => broken.stop())
  broken.setResponse('eth_call', 'close')
  node.setResponse('eth_call', { result: '0x1' })
  node.setResponse('eth_getLogs', { error: { code: -32005, message: 'query returned more than 10000 results' } })
  const requests = (of: typeof node, method: string) => of.received.filter(request => request.method === method).length
  const write = (cost: number, breaker: object = {}) =>
    deployment.writeNetwork(
      'testnet',
      networkFile('testnet', [broken.url, node.url], {
        credits: { costs: { eth_gasPrice: cost } },
        failover: { breaker: { openFor: '1h', ...breaker } },
      }),
    )
  const callNode = async (i: number) =>
    t.equal((await call(url, 'eth_call', [{ to: `0x${String(i).padStart(40, '0')}` }, 'latest'])).result, '0x1')
  const tooMany = async () => t.equal((await call(url, 'eth_getLogs', [{ fromBlock: '0x1', toBlock: '0x2' }])).error?.code, -32005)
  write(1)
  await reload()
  for (let i = 0; i < 7; i++) await callNode(i)
  await tooMany()
  const [failed, asked] = [requests(broken, 'eth_call'), requests(node, 'eth_getLogs')]
  t.ok(failed >= 5)

  write(2)
  await reload()
  await callNode(8)
  t.equal(requests(broken, 'eth_call'), failed, 'the breaker is still open')
  await tooMany()
  t.equal(requests(node, 'eth_getLogs'), asked, 'the cache has the answer')

  write(2, { openFor: '2h' })
  await reload()
  await callNode(9)
  t.ok(requests(broken, 'eth_call') > failed, 'a breaker with other settings is a new one')
})

t.test('what changes, or is asked for, while a gateway starts is done once it serves', async t => {
  const node = await startFakeNode({ eth_chainId: { result: '0x7a69' } })
  t.teardown(() => node.stop())
  /** A gateway with a plugin that does this while it starts, where `changed.yaml` becomes the file of the network. */
  const startWith = async (gateway: object, { atImport = '', atStart = '' }) => {
    const networkOf = (options = {}) => {
      const { pipeline, ...network } = networkFile('testnet', [node.url], options)
      return { ...network, pipeline: [{ use: '../own.js' }, ...(pipeline as object[])] }
    }
    const own = `
      import { existsSync, renameSync } from 'node:fs'
      const path = name => new URL(name, import.meta.url)
      const changeFile = () => {
        if (!existsSync(path('changed.yaml'))) return false
        renameSync(path('changed.yaml'), path('networks/testnet.yaml'))
        return true
      }
      ${atImport}
      export default {
        name: 'own', summary: 'Passes calls on.', options: { type: 'object' },
        create: () => ({ handle: (call, next) => next(call), start() { ${atStart} }, stop() {} }),
      }`
    const deployment = createDeployment({
      gateway,
      networks: { testnet: networkOf() },
      files: { 'own.js': own, 'changed.yaml': JSON.stringify(networkOf({ credits: { costs: { eth_gasPrice: 7 } } })) },
    })
    t.teardown(deployment.remove)
    return { deployment, gateway: await deployment.start() }
  }

  await t.test('a file that changes after it was read is read again', async t => {
    const { gateway } = await startWith({}, { atImport: 'changeFile()' })
    t.match(await gateway.waitForEvent('reloaded'), { changes: ['+ testnet.credits.costs'] })
  })

  await t.test('SIGHUP reloads, and SIGUSR2 opens the access log anew', async t => {
    const atStart = `
      if (!changeFile()) return
      process.kill(process.pid, 'SIGHUP')
      renameSync(path('access.log'), path('access.log.1'))
      process.kill(process.pid, 'SIGUSR2')`
    const { deployment, gateway } = await startWith({ watch: false, accessLog: { file: 'access.log' } }, { atStart })
    t.match(await gateway.waitForEvent('reloaded'), { changes: ['+ testnet.credits.costs'] })
    t.ok(existsSync(join(deployment.dir, 'access.log.1')))
    await waitUntil(() => existsSync(join(deployment.dir, 'access.log')))
  })
})
