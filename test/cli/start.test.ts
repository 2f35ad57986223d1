import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, constants, existsSync, openSync, readFileSync, readSync, renameSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import type { Test } from 'tap'
import t from '../support/tap.ts'
import { childrenOf, createDeployment, isRunning, mainPath, networkFile, startGateway } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { call, post } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

/** So long that 300 calls fill what may wait; short enough for the lines of processes not to mix. */
const loggingPlugin = `export default { name: 'logging', summary: 'Logs.', options: { type: 'object' },
  create: (_options, { log }) => (call, next) => { log.info({ text: 'x'.repeat(3500) }, 'a call'); return next(call) } }`

/** At SIGWINCH it logs what V8's young generation takes, and again after 16 MB of objects that survive. */
const youngGenerationScript = `import { getHeapSpaceStatistics } from 'node:v8'
  const log = when => {
    const { physical_space_size: bytes } = getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space')
    console.log(JSON.stringify({ event: when, bytes }))
  }
  process.on('SIGWINCH', () => {
    log('at-rest')
    const kept = Array.from({ length: 250_000 }, (_, i) => ({ i, list: [i] }))
    log('with-' + kept.length)
  })`

t.test('the young generation of V8 has its first size when a gateway listens, and grows from then on', async t => {
  const node = await startFakeNode({ eth_chainId: { result: '0x7a69' } })
  const deployment = createDeployment({
    networks: { testnet: networkFile('testnet', [node.url]) },
    nodeOptions: ['--import', `data:text/javascript,${encodeURIComponent(youngGenerationScript)}`],
  })
  t.teardown(async () => {
    await deployment.remove()
    await node.stop()
  })
  const gateway = await deployment.start()
  process.kill(gateway.pid, 'SIGWINCH')
  const [atRest, grown] = [await gateway.waitForEvent('at-rest'), await gateway.waitForEvent('with-250000')].map(({ bytes }) =>
    Number(bytes),
  )
  t.ok(atRest !== undefined && atRest <= 3 << 20, `${atRest} bytes at rest`)
  t.ok(grown !== undefined && grown >= 8 << 20, `${grown} bytes after 250,000 objects`)
  await gateway.stop()
})

t.test('a node gets no call before it has returned the chain ID of its network, with any number of workers', async t => {
  const responses = { eth_getBalance: { result: '0x1' }, eth_chainId: { result: '0x7a69' } }
  const [other, own, starting] = [await startFakeNode(responses), await startFakeNode(responses), await startFakeNode(responses)]
  /** Of the node that is checked already. */
  let polls = 0
  other.setResponse('eth_chainId', async () => {
    await own.waitForRequests('eth_getBlockByNumber', polls + 1) // a slow node: the first call would overtake the response
    return { result: '0x1' }
  })
  const networks = {
    testnet: networkFile('testnet', [other.url, own.url]),
    lonenet: { ...networkFile('lonenet', [other.url]), hosts: ['lone.test'] },
    startnet: { ...networkFile('startnet', [starting.url]), hosts: ['start.test'] },
  }
  const deployment = createDeployment({ networks })
  t.teardown(async () => {
    await deployment.remove()
    await Promise.all([other.stop(), own.stop(), starting.stop()])
  })
  const { key } = await deployment.addCaller('alice')
  const balanceRequests = (node: typeof other) => node.received.filter(({ method }) => method === 'eth_getBalance').length
  const address = `0x${'11'.repeat(20)}`
  for (const workers of [1, 2]) {
    deployment.writeGateway({ workers })
    polls = own.received.filter(({ method }) => method === 'eth_getBlockByNumber').length
    starting.setResponse('eth_chainId', { error: { code: -32000, message: 'warming up' } })
    const gateway = await deployment.start()

    await t.test(`a node of another chain gets no call, not even the first after the start: ${workers} workers`, async t => {
      for (let i = 0; i < 4; i++) t.match(await call(gateway.http(key), 'eth_getBalance', [address, hex(i)]), { result: '0x1' })
      t.match(
        await call(gateway.http(key), 'eth_getBalance', [address, '0x1'], { host: 'lone.test' }),
        { error: { code: -32002 } },
        'even when no other node is left',
      )
      t.equal(balanceRequests(other), 0)
    })

    await t.test(`a node that returns no chain ID yet gets its first call when it has: ${workers} workers`, async t => {
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_getBalance', params: [address, hex(workers)] })
      const requestBalance = () => post(gateway.http(key), body, { host: 'start.test' })
      const { status, headers, json } = await requestBalance()
      t.match([status, headers['retry-after'], json()], [503, '1', { error: { code: -32002 } }])
      t.equal(balanceRequests(starting), workers - 1)
      const { networks } = (await gateway.get('/readyz?verbose')).json() as {
        networks: readonly { name: string; upstreams: readonly object[] }[]
      }
      t.match(networks.find(({ name }) => name === 'startnet')?.upstreams, [
        { usable: false, because: 'it has not returned its chain ID: warming up' },
      ])
      starting.setResponse('eth_chainId', { result: '0x7a69' })
      await waitUntil(async () => (await requestBalance()).status === 200)
    })
    await gateway.stop()
  }
})

t.test('a duplicate signal, as npm and terminals send it, does not interrupt the shutdown', async t => {
  const node = await startFakeNode({ eth_blockNumber: { result: '0x10' } })
  t.teardown(() => node.stop())
  const { deployment, gateway, key } = await startGateway(t, { networks: { testnet: networkFile('testnet', [node.url]) } })
  t.equal((await call(gateway.http(key), 'eth_blockNumber')).result, '0x10')
  process.kill(gateway.pid, 'SIGINT')
  t.equal(await gateway.stop(), 0)
  t.match(JSON.parse((await deployment.run('usage', 'alice', '--json')).stdout), { used: 80, held: 0, forfeited: 0 })
})

t.test('SIGHUP and a log that nobody reads end nothing; SIGINT does not wait for `drain.grace`', async t => {
  const deployment = createDeployment({
    gateway: { drain: { grace: '1h' }, workers: 2 },
    networks: { testnet: networkFile('testnet', ['http://127.0.0.1:1']) },
  })
  t.teardown(() => deployment.remove())
  const { key } = await deployment.addCaller('alice')
  const child = spawn('env', ['-u', 'NODE_OPTIONS', process.execPath, mainPath, 'start', '--config', deployment.dir])
  t.teardown(() => child.kill('SIGKILL'))
  const exited = once(child, 'exit')
  const errors = text(child.stderr)
  const lines = createInterface(child.stdout)
  let line: { event?: string; rpc?: string } = {}
  while (line.event !== 'listening') line = JSON.parse(String(await once(lines, 'line')))
  const url = `${line.rpc}/v3/${key}`
  child.stdout.destroy()
  const workers = childrenOf(child.pid!)
  // Each SIGHUP is a line of the log.
  for (const pid of [child.pid!, child.pid!, ...workers]) process.kill(pid, 'SIGHUP')
  for (let i = 0; i < 4; i++) t.equal((await call(url, 'eth_chainId')).result, '0x7a69')
  child.kill('SIGINT')
  t.same(await exited, [0, null])
  t.equal(await errors, '')
})

t.test('a standard output that nobody reads stops no call, no probe and no SIGTERM, and the log says how many lines it lacks', async t => {
  const network = networkFile('testnet', ['http://127.0.0.1:1'])
  const pipeline = [{ use: './logging.mjs', with: {} }, ...(network['pipeline'] as readonly object[])]
  const deployment = createDeployment({
    networks: { testnet: { ...network, pipeline } },
    files: { 'networks/logging.mjs': loggingPlugin },
  })
  t.teardown(() => deployment.remove())
  const { key } = await deployment.addCaller('alice')
  for (const workers of [1, 2]) {
    deployment.writeGateway({ workers, accessLog: { file: 'stdout' } })
    const { child, reader, listening } = await startOnPipe(t, deployment.dir, `pipe-${workers}`)
    const exited = once(child, 'exit')
    reader.fill()
    const url = `${listening.rpc}/v3/${key}`
    const batch = JSON.stringify(Array.from({ length: 100 }, (_, id) => ({ jsonrpc: '2.0', id, method: 'eth_chainId', params: [] })))
    const droppedLines = async () =>
      Number(/^tollgate_log_lines_dropped_total (\d+)/m.exec((await get(`${listening.admin}/metrics`)).text)?.[1])
    await waitUntil(async () => (await post(url, batch)).status === 200 && (await droppedLines()) > 0)
    t.equal((await call(url, 'eth_chainId')).result, '0x7a69', 'a call is answered')
    t.equal((await get(`${listening.admin}/livez`)).status, 200)

    t.ok(reader.read().length > 0)
    await waitUntil(() => reader.read().some(line => line.includes('log-lines-dropped')))
    const { lines } = JSON.parse(String(reader.read().find(line => line.includes('log-lines-dropped'))))
    t.ok(lines > 0 && lines <= (await droppedLines()))

    reader.fill()
    child.kill('SIGTERM')
    t.same(await exited, [0, null])
  }
})

const pollIntervalMs = 20

const get = (url: string) => post(url, '', { method: 'GET' })

/** Starts a gateway whose standard output is a pipe that is read only by `read`; resolves when the gateway listens. */
const startOnPipe = async (t: Test, dir: string, name: string) => {
  const path = join(t.testdir(), name)
  spawnSync('mkfifo', [path])
  // Opened for both, it needs nobody at the other end; neither end blocks.
  const fd = openSync(path, constants.O_RDWR | constants.O_NONBLOCK)
  t.teardown(() => closeSync(fd))
  const output = openSync(path, 'w')
  const child = spawn('env', ['-u', 'NODE_OPTIONS', process.execPath, mainPath, 'start', '--config', dir], {
    stdio: ['ignore', output, 'inherit'],
  })
  closeSync(output)
  t.teardown(() => child.kill('SIGKILL'))
  let text = ''
  const reader = {
    /** All lines so far. */
    read(): readonly string[] {
      const bytes = Buffer.alloc(65_536)
      for (let count = untilBlocked(() => readSync(fd, bytes)); count > 0; count = untilBlocked(() => readSync(fd, bytes))) {
        text += bytes.toString('utf8', 0, count)
      }
      return text.split('\n')
    },
    /** Leaves no space for a line. */
    fill(): void {
      for (const bytes of [4096, 1]) while (untilBlocked(() => writeSync(fd, '\n'.repeat(bytes))) > 0);
    },
  }
  const findListening = () => reader.read().find(line => line.includes('"event":"listening"'))
  while (findListening() === undefined && child.exitCode === null) await wait(pollIntervalMs)
  return { child, reader, listening: JSON.parse(String(findListening())) as { readonly rpc: string; readonly admin: string } }
}

/** 0 where a pipe is empty or full. */
const untilBlocked = (transfer: () => number): number => {
  try {
    return transfer()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return 0
    throw error
  }
}

t.test('a worker that a signal ends before it is ready ends the start: with the reason, or with 0 after Ctrl-C', async t => {
  const deployment = createDeployment({ gateway: { workers: 2 }, networks: { testnet: networkFile('testnet', ['http://127.0.0.1:1']) } })
  t.teardown(() => deployment.remove())
  const startUntilFirstWorker = async () => {
    const child = spawn('env', ['-u', 'NODE_OPTIONS', process.execPath, mainPath, 'start', '--config', deployment.dir])
    t.teardown(() => child.kill('SIGKILL'))
    const ended = Promise.all([once(child, 'exit'), text(child.stderr), text(child.stdout)])
    await waitUntil(() => childrenOf(child.pid!).length > 0)
    return { child, ended, workers: childrenOf(child.pid!) }
  }
  const killed = await startUntilFirstWorker()
  for (const pid of killed.workers) process.kill(pid, 'SIGKILL')
  t.same(await killed.ended, [[1, null], 'tollgate: worker was killed by SIGKILL before it was ready\n', ''])

  const interrupted = await startUntilFirstWorker()
  for (const pid of [interrupted.child.pid!, ...interrupted.workers]) process.kill(pid, 'SIGINT')
  t.same(await interrupted.ended, [[0, null], '', ''])
})

t.test('a start that fails without workers waits for no signal', async t => {
  // A wait for a signal would never end, and the process exit without a word.
  const script = `import timers from 'node:timers/promises'
    import { syncBuiltinESMExports } from 'node:module'
    timers.setTimeout = () => new Promise(() => undefined)
    syncBuiltinESMExports()`
  const busy = createServer().listen(0, '127.0.0.1')
  await once(busy, 'listening')
  const { port } = busy.address() as AddressInfo
  const deployment = createDeployment({
    gateway: { listen: { rpc: `127.0.0.1:${port}` } },
    networks: { testnet: networkFile('testnet', ['http://127.0.0.1:1']) },
  })
  t.teardown(async () => {
    busy.close()
    await deployment.remove()
  })
  const preload = ['--import', `data:text/javascript,${encodeURIComponent(script)}`]
  const child = spawn('env', ['-u', 'NODE_OPTIONS', process.execPath, ...preload, mainPath, 'start', '--config', deployment.dir])
  t.teardown(() => child.kill('SIGKILL'))
  t.match(await Promise.all([once(child, 'exit'), text(child.stderr)]), [[1, null], new RegExp(`^tollgate: .*${port}`)])
})

t.test('a configuration that is invalid or serves no network exits with 78 and the reason', async t => {
  const network = { ...networkFile('testnet', []), optional: true }
  const pipeline = (network as unknown as { pipeline: object[] }).pipeline.map(step =>
    'failover' in step ? { failover: { upstreams: [{ name: 'own', url: '${TESTNET_URL}' }] } } : step,
  )
  const deployment = createDeployment({ networks: { testnet: { ...network, pipeline } } })
  t.teardown(() => deployment.remove())
  const { code, stderr } = await deployment.run('start')
  t.equal(code, 78)
  t.match(stderr, /TESTNET_URL/)
  deployment.writeNetwork('testnet', 'network: testnet\nchainId: one\n')
  t.match(await deployment.run('start'), { code: 78, stderr: /testnet\.yaml:2:10: / })
})

t.test('start() and stop() of an external plugin may be synchronous; an error of start() is reported in one line, exit code 1', async t => {
  const { pipeline, ...network } = networkFile('testnet', ['http://127.0.0.1:1']) as { pipeline: object[] }
  const deployment = createDeployment({ networks: { testnet: { ...network, pipeline: [{ use: '../life.mjs' }, ...pipeline] } } })
  t.teardown(() => deployment.remove())
  const write = (start: string) =>
    writeFileSync(
      join(deployment.dir, 'life.mjs'),
      `export default {
    name: 'life', summary: 'Lives.', options: { type: 'object', properties: {} },
    create: (_options, { log }) => ({ handle: (call, next) => next(call), start() { ${start} }, stop() { log.info({ event: 'life-stopped' }, '') } }),
  }`,
    )
  write('')
  const gateway = await deployment.start()
  t.equal(await gateway.stop(), 0)
  t.ok(await gateway.waitForEvent('life-stopped'))
  t.notOk(gateway.log.some(line => Number(line['level']) >= 50))
  write(`throw new Error('no licence')`)
  t.match(await deployment.run('start'), {
    code: 1,
    stderr: /^tollgate: network testnet: life did not start: Error: no licence \(.*life.mjs:3:\d+\)\n$/,
  })
})

t.test('an error that nobody catches is logged and ends the process at once, also while the store writes', async t => {
  const { pipeline, ...network } = networkFile('testnet', ['http://127.0.0.1:1']) as { pipeline: object[] }
  const steps = [...pipeline.slice(0, -3), { use: '../crash.mjs' }, ...pipeline.slice(-3)]
  const crashing = `const crash = () => { throw Object.assign(new Error('lost'), { stack: 'Error: lost' }) }
  export default {
    name: 'crash', summary: 'Crashes.', options: { type: 'object', properties: {} },
    create: () => ({ handle: (call, next) => { setImmediate(crash); return next(call) } }),
  }`
  const networks = { testnet: { ...network, pipeline: steps } }
  const { deployment, gateway, url } = await startGateway(t, { networks, files: { 'crash.mjs': crashing } })
  const calls = Array.from({ length: 8 }, () => call(url, 'eth_gasPrice').catch(() => undefined))
  await waitUntil(() => !isRunning(gateway.pid))
  await Promise.all(calls)
  t.match(await gateway.waitForEvent('crashed'), { level: 50, stack: /lost/ })
  t.equal((await deployment.runProgram('accounts', 'list')).code, 0)
})

const hex = (value: number): string => `0x${value.toString(16)}`

t.test(
  'a call is found by its id in the access log of two workers, and from there what its node did; SIGUSR2 opens the file anew',
  async t => {
    const node = await startFakeNode({ eth_getBalance: { result: '0x1' }, eth_gasPrice: { raw: '', status: 502 } })
    const gatewayFile = { workers: 2, accessLog: { file: 'access.log' }, admin: { token: 's3cret' } }
    t.teardown(() => node.stop())
    const { deployment, gateway, key } = await startGateway(t, {
      gateway: gatewayFile,
      networks: { testnet: networkFile('testnet', [node.url]) },
    })
    const file = join(deployment.dir, 'access.log')
    const linesIn = (path: string): readonly { [name: string]: unknown }[] =>
      readFileSync(path, 'utf8')
        .split('\n')
        .filter(Boolean)
        .map(line => JSON.parse(line))
    const request = async (requestId: string, method: string, params: readonly string[]) =>
      (await call(gateway.http(key), method, params, { headers: { 'x-request-id': requestId } })).result

    const address = `0x${'11'.repeat(20)}`
    for (let i = 0; i < 10; i++) await request(`balance-${i}`, 'eth_getBalance', [address, hex(i)])
    await request('gas', 'eth_gasPrice', [])
    await waitUntil(() => linesIn(file).length === 11)
    t.match(
      linesIn(file).find(({ requestId }) => requestId === 'balance-7'),
      { network: 'testnet', method: 'eth_getBalance', status: 200, outcome: 'ok', upstream: /./, attempts: 1, cache: 'miss', credits: 80 },
    )
    const failed = linesIn(file).find(({ requestId }) => requestId === 'gas')
    t.match(failed, { method: 'eth_gasPrice', status: 503, rpcCode: -32002, outcome: 'unavailable', attempts: 1, credits: 0 })
    await waitUntil(() =>
      gateway.log.some(({ msg, requestId }) => msg === 'upstream failed' && requestId === failed?.['upstreamRequestId']),
    )

    const trace = '0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331'
    for (const [i, traceparent] of [
      `00-${trace}-01`,
      `00-${trace}`,
      `00-${'0'.repeat(32)}-b7ad6b7169203331-01`,
      `00-${trace}-01, x`,
    ].entries()) {
      await call(gateway.http(key), 'eth_getBalance', [address, hex(100 + i)], { headers: { traceparent, 'x-request-id': `trace-${i}` } })
      const { headers } = node.received.findLast(({ params }) => params[1] === hex(100 + i)) ?? {}
      t.equal(headers?.['traceparent'], i === 0 ? traceparent : undefined, 'a well-formed trace context reaches the node')
    }

    renameSync(file, `${file}.1`)
    process.kill(gateway.pid, 'SIGUSR2')
    await waitUntil(() => existsSync(file))
    for (let i = 10; i < 20; i++) await request(`balance-${i}`, 'eth_getBalance', [address, hex(i)])

    const headers = { authorization: 'Bearer s3cret' }
    const put = (settings: object) => post(`${gateway.admin}/access-log`, JSON.stringify(settings), { method: 'PUT', headers })
    t.match((await put({ target: 'none' })).json(), { target: 'none' })
    await gateway.stop()
    const found = [...linesIn(`${file}.1`), ...linesIn(file)].map(({ requestId }) => requestId)
    const names = (name: string, length: number) => Array.from({ length }, (_, i) => `${name}-${i}`)
    t.same(new Set(found), new Set(['gas', ...names('balance', 20), ...names('trace', 4)]))
    t.equal(found.length, 25)
    t.notMatch(readFileSync(file, 'utf8'), new RegExp(`${key}|${address}|acc_`), 'neither key nor params nor account')
  },
)
