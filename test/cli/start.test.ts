import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t from 'tap'
import { createDeployment, networkFile } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { call, connectWs, post } from '../support/rpc-client.ts'
import type { WsClient } from '../support/rpc-client.ts'

t.test('several workers', async t => {
  const chain = { height: 16 }
  const block = (number: number) => ({ result: { number: hex(number), hash: hashOf(number), parentHash: hashOf(number - 1) } })
  const node = await startFakeNode({
    eth_chainId: { result: '0x7a69' },
    // A provider with many nodes behind one URL: some lag.
    eth_blockNumber: ({ id }) => ({ result: hex(chain.height - (Number(id) % 4)) }),
    eth_getBlockByNumber: ({ params }) => block(params[0] === 'finalized' ? 3 : chain.height),
    eth_call: async () => new Promise(() => undefined),
  })
  const deployment = createDeployment({ gateway: { workers: 2 }, networks: { testnet: networkFile('testnet', [node.url]) } })
  t.teardown(async () => {
    await deployment.remove()
    await node.stop()
  })
  await deployment.addAccount('alice')
  const { key } = await deployment.addKey('alice')
  const gateway = await deployment.start()
  const url = gateway.http(key)
  const metrics = async () => (await post(`${gateway.admin}/metrics`, '', { method: 'GET' })).text
  const callsOf = (text: string) => Number(/^tollgate_calls_total\{.*method="eth_chainId".*\} (\d+)$/m.exec(text)?.[1] ?? 0)

  t.test('share one port, and their metrics add up', async t => {
    for (let i = 0; i < 10; i++) t.equal((await call(url, 'eth_chainId')).result, '0x7a69')
    t.equal(callsOf(await metrics()), 10)
  })

  const headPolls = () => node.received.filter(({ method, params }) => method === 'eth_getBlockByNumber' && params[0] === 'latest').length
  const readiness = async () => (await post(`${gateway.admin}/readyz?verbose`, '', { method: 'GET' })).json()
  /** Callers at once, each asking again and again over connections of its own; what each was told. */
  const askHeights = (calls: number) =>
    Promise.all(
      Array.from({ length: 4 }, async () => {
        const told: number[] = []
        for (let i = 0; i < calls; i++) {
          if (i % 10 === 0) chain.height += 1
          told.push(Number((await call(url, 'eth_blockNumber')).result))
        }
        return told
      }),
    )
  const goesBack = (told: readonly number[]) => told.some((height, i) => height < (told[i - 1] ?? 0))

  t.test('have their heads asked for once, by the primary, which tells them', async t => {
    const [before, begun] = [headPolls(), performance.now()]
    while (performance.now() - begun < 1000) await call(url, 'eth_blockNumber')
    const polls = headPolls() - before
    const most = Math.ceil((performance.now() - begun) / 250) + 1
    t.ok(polls >= 1 && polls <= most, `${polls} polls, where one process asks ${most} times`)
    t.match(await readiness(), {
      ready: true,
      networks: [{ name: 'testnet', head: chain.height, finalized: 3, upstreams: [{ name: 'node-1', usable: true }] }],
    })
  })

  t.test('never tell a caller less than another of them did', async t => {
    const told = await askHeights(100)
    t.same(told.filter(goesBack), [])
    t.ok(Math.max(...told.flat()) > 40)
  })

  t.test('one that is killed is replaced, and the others do not notice', async t => {
    const talkers: WsClient[] = []
    for (let i = 0; i < 8; i++) talkers.push(await connectWs(gateway.ws(key)))
    const pids = childrenOf(gateway.pid)
    t.equal(pids.length, 2)
    process.kill(pids[0] as number, 'SIGKILL')
    await gateway.waitForEvent('worker-exited')
    const fates = await Promise.all(
      talkers.map(talker =>
        talker.call('eth_chainId').then(
          () => 'alive',
          () => 'gone',
        ),
      ),
    )
    t.ok(fates.includes('alive'), 'sockets of the other worker live on')
    t.ok(fates.includes('gone'))
    for (let i = 0; i < 10; i++) t.equal((await call(url, 'eth_chainId')).result, '0x7a69')
    while (childrenOf(gateway.pid).length < 2) await call(url, 'eth_chainId')
    t.notOk(childrenOf(gateway.pid).includes(pids[0] as number))
    await Promise.all(talkers.map(talker => talker.close()))
    const before = headPolls()
    t.same((await askHeights(50)).filter(goesBack), [], 'heads go on')
    t.ok(headPolls() > before)
    t.match(await readiness(), { networks: [{ upstreams: [{ usable: true }] }] })
  })

  t.test('the primary tells whether it is ready', async t => {
    t.equal((await post(`${gateway.admin}/readyz`, '', { method: 'GET' })).status, 200)
    t.equal((await post(`${gateway.admin}/livez`, '', { method: 'GET' })).status, 200)
    t.equal((await post(`${gateway.admin}/other`, '', { method: 'GET' })).status, 404)
  })

  t.test('a connection that one was given, and never took, goes to another when it is killed', async t => {
    const [idle] = childrenOf(gateway.pid) as [number]
    process.kill(idle, 'SIGSTOP')
    // They are given out in turns: it gets one of these, and no more before it has taken that.
    const waiting = [call(url, 'eth_chainId'), call(url, 'eth_chainId')]
    await Promise.race(waiting)
    for (let i = 0; i < 3; i++) t.equal((await call(url, 'eth_chainId')).result, '0x7a69')
    process.kill(idle, 'SIGKILL')
    t.match(await Promise.all(waiting), [{ result: '0x7a69' }, { result: '0x7a69' }])
  })

  t.test('a connection that the last one was given, and never took, is closed when it is killed', async t => {
    const pids = childrenOf(gateway.pid)
    for (const pid of pids) process.kill(pid, 'SIGSTOP')
    const attempt = () =>
      call(url, 'eth_chainId').then(
        () => 'answered',
        () => 'closed',
      )
    const waiting = Array.from({ length: 3 }, attempt)
    t.equal((await post(`${gateway.admin}/livez`, '', { method: 'GET' })).status, 200) // by then the primary has accepted them
    for (const pid of pids) process.kill(pid, 'SIGKILL')
    t.same(await Promise.all(waiting), ['closed', 'closed', 'closed'])
    while ((await attempt()) === 'closed') await new Promise(setImmediate)
  })

  t.test('SIGTERM ends all of them, gives credits back and exits with 0', async t => {
    const pids = childrenOf(gateway.pid)
    t.equal(await gateway.stop(), 0)
    for (const pid of pids) t.throws(() => process.kill(pid, 0), { code: 'ESRCH' })
    const usage = JSON.parse((await deployment.run('usage', 'alice', '--json')).stdout)
    t.match(usage, { held: 0, forfeited: usage.forfeited })
  })

  t.test('a mistake is said once, not by each worker', async t => {
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    const rpc = `127.0.0.1:${(taken.address() as AddressInfo).port}`
    const other = createDeployment({ gateway: { workers: 2, listen: { rpc } }, networks: { testnet: networkFile('testnet', [node.url]) } })
    const { code, stderr } = await other.run('start')
    t.equal(code, 1)
    t.match(stderr.trim(), /^tollgate: cannot listen on .*in use[^\n]*$/)
    await other.remove()
    taken.close()
  })
})

t.test('a node of another chain gets no call, not even the first after the start', async t => {
  const answers = { eth_getBalance: { result: '0x1' }, eth_chainId: { result: '0x7a69' } }
  const [other, own] = [await startFakeNode(answers), await startFakeNode(answers)]
  other.setResponse('eth_chainId', async () => {
    await new Promise(resolve => setTimeout(resolve, 200)) // a slow node: the first call would overtake its answer
    return { result: '0x1' }
  })
  const networks = {
    testnet: networkFile('testnet', [other.url, own.url]),
    lonenet: { ...networkFile('lonenet', [other.url]), hosts: ['lone.test'] },
  }
  const deployment = createDeployment({ gateway: { workers: 1 }, networks })
  await deployment.addAccount('alice')
  const { key } = await deployment.addKey('alice')
  const file = join(deployment.dir, 'gateway.yaml')
  for (const workers of [1, 2]) {
    writeFileSync(file, readFileSync(file, 'utf8').replace('"workers":1', `"workers":${workers}`))
    const gateway = await deployment.start()
    for (let i = 0; i < 4; i++)
      t.match(await call(gateway.http(key), 'eth_getBalance', [`0x${'11'.repeat(20)}`, hex(i)]), { result: '0x1' })
    t.match(
      await call(gateway.http(key), 'eth_getBalance', [`0x${'11'.repeat(20)}`, '0x1'], { host: 'lone.test' }),
      { error: { code: -32002 } },
      'even if no other is left',
    )
    t.equal(other.received.filter(({ method }) => method === 'eth_getBalance').length, 0, `${workers} workers`)
    await gateway.stop()
  }
  await deployment.remove()
  await other.stop()
  await own.stop()
})

t.test('a signal that comes twice, as npm and terminals send it, still lets the gateway finish its work', async t => {
  const node = await startFakeNode({ eth_blockNumber: { result: '0x10' } })
  const deployment = createDeployment({ networks: { testnet: networkFile('testnet', [node.url]) } })
  t.teardown(async () => {
    await deployment.remove()
    await node.stop()
  })
  await deployment.addAccount('alice')
  const { key } = await deployment.addKey('alice')
  const gateway = await deployment.start()
  t.equal((await call(gateway.http(key), 'eth_blockNumber')).result, '0x10')
  process.kill(gateway.pid, 'SIGINT')
  t.equal(await gateway.stop(), 0)
  t.match(JSON.parse((await deployment.run('usage', 'alice', '--json')).stdout), { used: 80, held: 0, forfeited: 0 })
})

t.test('a configuration that serves nothing, or is wrong, ends with 78 and says why', async t => {
  const network = { ...networkFile('testnet', []), optional: true }
  const pipeline = (network as unknown as { pipeline: object[] }).pipeline.map(step =>
    'failover' in step ? { failover: { upstreams: [{ name: 'own', url: '${TESTNET_URL}' }] } } : step,
  )
  const deployment = createDeployment({ networks: { testnet: { ...network, pipeline } } })
  const { code, stderr } = await deployment.run('start')
  t.equal(code, 78)
  t.match(stderr, /TESTNET_URL/)
  deployment.writeNetwork('testnet', 'network: testnet\nchainId: one\n')
  t.match(await deployment.run('start'), { code: 78, stderr: /testnet\.yaml:2:10: / })
  await deployment.remove()
})

t.test('a plugin from outside may start and stop without promises; one that does not start is one line and exit 1', async t => {
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
  t.match(await deployment.run('start'), { code: 1, stderr: /^tollgate: network testnet: life did not start: Error: no licence\n$/ })
})

t.test('the command line', async t => {
  const deployment = createDeployment({ networks: {} })
  t.teardown(() => deployment.remove())
  t.match(await deployment.run('nonsense'), { code: 64, stderr: /unknown command "nonsense"\n/ })
  t.match(await deployment.run('chek'), { code: 64, stderr: /unknown command "chek"; did you mean `check`\?/ })
  t.match(await deployment.run('start', '--nonsense'), { code: 64, stderr: /nonsense/ })
  t.match(await deployment.run('start', '--help'), {
    code: 0,
    stdout: /^  tollgate start \[--config DIR\]\n\n  --config DIR  .*configs\.$/m,
  })
})

t.test('tollgate dev', async t => {
  const network = networkFile('devnet', [])
  const pipeline = (network['pipeline'] as object[]).map(step =>
    'failover' in step ? { failover: { upstreams: [{ name: 'anvil', url: '${DEVNET_URL}' }] } } : step,
  )
  const deployment = createDeployment({ networks: { devnet: { ...network, optional: true, pipeline } } })
  t.teardown(() => deployment.remove())

  const key = await t.test('prints a curl line that works, on a real node, and ends with its node', async t => {
    const first = await startDevCommand(deployment.dir)
    const [, url = '', body = ''] = /^curl -s (\S+) .*-d '(.*)'$/.exec(first.curl) ?? []
    t.match((await post(url, body)).json(), { jsonrpc: '2.0', id: 1, result: '0x0' })
    t.equal(await first.stop(), 0)
    return url
  })

  t.test('keeps its key for its owner alone, so that the second run prints the same', async t => {
    const file = join(deployment.dir, '../data/dev.key')
    t.equal(statSync(file).mode & 0o777, 0o600)
    const second = await startDevCommand(deployment.dir)
    t.match(second.curl, readFileSync(file, 'utf8').trim())
    t.equal(await second.stop(), 0)
    t.notOk(key instanceof Error)
  })
})

const hex = (value: number): string => `0x${value.toString(16)}`
const hashOf = (value: number): string => `0x${value.toString(16).padStart(64, '0')}`

const childrenOf = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
    .split(' ')
    .filter(text => text !== '')
    .map(Number)

const startDevCommand = async (dir: string): Promise<{ curl: string; stop(): Promise<number | null> }> => {
  const child = spawn('env', ['-u', 'NODE_OPTIONS', process.execPath, 'dist/src/main.js', 'dev', '--config', dir], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(child, 'close') as Promise<[number | null]>
  const curl = await new Promise<string>((resolve, reject) => {
    createInterface(child.stdout).on('line', line => line.startsWith('curl ') && resolve(line))
    void ended.then(([code]) => reject(new Error(`tollgate dev ended with ${code}`)))
  })
  return {
    curl,
    async stop() {
      child.kill('SIGTERM')
      return (await ended)[0]
    },
  }
}
