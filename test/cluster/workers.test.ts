import { once } from 'node:events'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t from '../support/tap.ts'
import { childrenOf, createDeployment, networkFile, startGateway } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { call, connectWs, post } from '../support/rpc-client.ts'
import type { WsClient } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

/** The minimum interval of head polls. */
const minPollIntervalMs = 250

t.test('several workers', async t => {
  const chain = { height: 16 }
  const block = (number: number) => ({ result: { number: hex(number), hash: hashOf(number), parentHash: hashOf(number - 1) } })
  const node = await startFakeNode({
    eth_chainId: { result: '0x7a69' },
    // A provider with several nodes behind one URL, of which some lag.
    eth_blockNumber: ({ id }) => ({ result: hex(chain.height - (Number(id) % 4)) }),
    eth_getBlockByNumber: ({ params }) => block(params[0] === 'finalized' ? 3 : chain.height),
    eth_call: async () => new Promise(() => undefined),
  })
  const network = networkFile('testnet', [node.url])
  const pipeline = (network.pipeline as object[]).toSpliced(3, 0, { 'rate-limit': {} })
  t.teardown(() => node.stop())
  const { deployment, gateway, key, url } = await startGateway(t, {
    gateway: { workers: 2 },
    networks: { testnet: { ...network, pipeline } },
  })
  const metrics = async () => (await gateway.get('/metrics')).text
  const callsOf = (text: string) => Number(/^tollgate_calls_total\{.*method="eth_chainId".*\} (\d+)$/m.exec(text)?.[1] ?? 0)

  t.test('share one port, and their metrics add up', async t => {
    for (let i = 0; i < 10; i++) t.equal((await call(url, 'eth_chainId')).result, '0x7a69')
    t.equal(callsOf(await metrics()), 10)
  })

  const headPolls = () => node.received.filter(({ method, params }) => method === 'eth_getBlockByNumber' && params[0] === 'latest').length
  const readiness = async () => (await gateway.get('/readyz?verbose')).json()
  /** Requests heights with concurrent callers, each on connections of its own; the heights of each caller. */
  const requestHeights = (calls: number) =>
    Promise.all(
      Array.from({ length: 4 }, async () => {
        const heights: number[] = []
        for (let i = 0; i < calls; i++) {
          if (i % 10 === 0) chain.height += 1
          heights.push(Number((await call(url, 'eth_blockNumber')).result))
        }
        return heights
      }),
    )
  const decreases = (heights: readonly number[]) => heights.some((height, i) => height < (heights[i - 1] ?? 0))

  t.test('get their heads from the primary, which alone polls the nodes', async t => {
    const [pollsBefore, startMs] = [headPolls(), performance.now()]
    await waitUntil(async () => (await call(url, 'eth_blockNumber')) && headPolls() >= pollsBefore + 4)
    const polls = headPolls() - pollsBefore
    const maxPolls = Math.ceil((performance.now() - startMs) / minPollIntervalMs) + 1
    t.ok(polls <= maxPolls, `${polls} polls, where one process polls at most ${maxPolls} times`)
    t.match(await readiness(), {
      ready: true,
      networks: [{ name: 'testnet', head: chain.height, finalized: 3, upstreams: [{ name: 'node-1', usable: true }] }],
    })
  })

  t.test('never report a height below that of another worker', async t => {
    const heights = await requestHeights(100)
    t.same(heights.filter(decreases), [])
    t.ok(Math.max(...heights.flat()) > 40)
  })

  t.test('return what they hold of an account for a call that another of them gets', async t => {
    const bob = await deployment.addCaller('bob')
    await deployment.run('accounts', 'set', 'bob', '--credits', '170')
    /** On a connection of its own: the workers get them in turn. */
    const statusOf = async () => (await post(gateway.http(bob.key), '{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}')).status
    t.same([await statusOf(), await statusOf(), await statusOf()], [200, 200, 402])
  })

  t.test('are replaced when they are killed, without an effect on the others', async t => {
    const clients: WsClient[] = []
    for (let i = 0; i < 8; i++) clients.push(await connectWs(gateway.ws(key)))
    const pids = childrenOf(gateway.pid)
    t.equal(pids.length, 2)
    const counted = callsOf(await metrics())
    // It needs a restart: until then the gateway has the store that it was started with, and so has each worker.
    deployment.writeGateway({ workers: 2, store: 'lmdb:./other-store' })
    // What the gateway has accepted is served, also by a worker that starts while a file has problems.
    deployment.writeNetwork('testnet', 'network: [')
    process.kill(pids[0] as number, 'SIGKILL')
    await gateway.waitForEvent('worker-exited')
    const states = await Promise.all(
      clients.map(client =>
        client.call('eth_chainId').then(
          () => 'open',
          () => 'closed',
        ),
      ),
    )
    t.ok(states.includes('open'), 'sockets of the other worker stay open')
    t.ok(states.includes('closed'))
    for (let i = 0; i < 10; i++) t.equal((await call(url, 'eth_chainId')).result, '0x7a69')
    t.ok(callsOf(await metrics()) >= counted + 10, 'what the killed worker has counted stays')
    await gateway.waitForEvent('worker-restarted')
    t.notOk(childrenOf(gateway.pid).includes(pids[0] as number))
    for (let i = 0; i < 20; i++) t.equal((await call(url, 'eth_chainId')).result, '0x7a69')
    t.notOk(gateway.log.some(({ event }) => event === 'worker-config'))
    deployment.writeGateway({ workers: 2 })
    deployment.writeNetwork('testnet', { ...network, pipeline })
    await Promise.all(clients.map(client => client.close()))
    const pollsBefore = headPolls()
    t.same((await requestHeights(50)).filter(decreases), [])
    // Heads are still polled.
    await waitUntil(async () => (await call(url, 'eth_blockNumber')) && headPolls() > pollsBefore)
    t.match(await readiness(), { networks: [{ upstreams: [{ usable: true }] }] })
  })

  t.test('have their readiness reported by the primary', async t => {
    t.equal((await gateway.get('/readyz')).status, 200)
    t.equal((await gateway.get('/livez')).status, 200)
    t.equal((await gateway.get('/other')).status, 404)
  })

  t.test('take over connections that a killed worker had not accepted yet', async t => {
    t.equal(childrenOf(gateway.pid).length, 2)
    const [stopped] = childrenOf(gateway.pid) as [number]
    process.kill(stopped, 'SIGSTOP')
    // Connections are distributed in turn: the stopped worker gets one of these, and no other before it has accepted it.
    const pending = [call(url, 'eth_chainId'), call(url, 'eth_chainId')]
    await Promise.race(pending)
    for (let i = 0; i < 3; i++) t.equal((await call(url, 'eth_chainId')).result, '0x7a69')
    process.kill(stopped, 'SIGKILL')
    t.match(await Promise.all(pending), [{ result: '0x7a69' }, { result: '0x7a69' }])
  })

  t.test('when all are killed, connections that were not accepted yet are closed', async t => {
    await waitUntil(() => gateway.log.filter(({ event }) => event === 'worker-restarted').length === 2)
    const pids = childrenOf(gateway.pid)
    for (const pid of pids) process.kill(pid, 'SIGSTOP')
    const attempt = () =>
      call(url, 'eth_chainId').then(
        () => 'response',
        () => 'closed',
      )
    const pending = Array.from({ length: 3 }, attempt)
    t.equal((await gateway.get('/livez')).status, 200) // the primary has accepted the connections by then
    for (const pid of pids) process.kill(pid, 'SIGKILL')
    t.same(await Promise.all(pending), ['closed', 'closed', 'closed'])
    await waitUntil(async () => (await attempt()) === 'response')
  })

  t.test('limit calls by themselves while the primary does not answer', async t => {
    const { stdout } = await deployment.run('keys', 'add', 'alice', '--rate', '1/h', '--burst', '5', '--json')
    const client = await connectWs(gateway.ws(JSON.parse(stdout).key))
    process.kill(gateway.pid, 'SIGSTOP')
    try {
      const answers: string[] = []
      for (let i = 0; i < 20; i++) {
        const { result, error } = await client.call('eth_chainId')
        answers.push(error?.message ?? String(result))
      }
      t.same(answers, [...Array(5).fill('0x7a69'), ...Array(15).fill('too many calls per second')])
    } finally {
      process.kill(gateway.pid, 'SIGCONT')
    }
    await client.close()
  })

  t.test('stop at SIGTERM, return credits, and the primary exits with 0', async t => {
    const pids = childrenOf(gateway.pid)
    t.equal(await gateway.stop(), 0)
    for (const pid of pids) t.throws(() => process.kill(pid, 0), { code: 'ESRCH' })
    const usage = JSON.parse((await deployment.run('usage', 'alice', '--json')).stdout)
    t.equal(usage.held, 0)
  })

  t.test('do not repeat an error that the primary reports', async t => {
    const occupied = createServer().listen(0, '127.0.0.1')
    t.teardown(() => occupied.close())
    await once(occupied, 'listening')
    const rpc = `127.0.0.1:${(occupied.address() as AddressInfo).port}`
    const other = createDeployment({ gateway: { workers: 2, listen: { rpc } }, networks: { testnet: networkFile('testnet', [node.url]) } })
    t.teardown(() => other.remove())
    const { code, stderr } = await other.run('start')
    t.equal(code, 1)
    t.match(stderr.trim(), /^tollgate: cannot listen on .*in use[^\n]*$/)
  })
})

t.test('a worker that cannot be replaced, as a file outside of the configuration is broken, starts once the file is good', async t => {
  const node = await startFakeNode({ eth_gasPrice: { result: '0x7' } })
  const { pipeline, ...network } = networkFile('testnet', [node.url])
  const deployment = createDeployment({
    gateway: { workers: 2, accessLog: { file: 'logs/access.log' } },
    networks: { testnet: { ...network, pipeline: [{ use: '../own.js' }, ...(pipeline as object[])] } },
  })
  t.teardown(async () => {
    await deployment.remove()
    await node.stop()
  })
  const [plugin, logs] = [join(deployment.dir, 'own.js'), join(deployment.dir, 'logs')]
  const code = `export default {
  name: 'own', summary: 'Passes calls on.', options: { type: 'object' }, create: () => ({ handle: (call, next) => next(call) }),
}`
  writeFileSync(plugin, code)
  mkdirSync(logs)
  const { key } = await deployment.addCaller('alice')
  const gateway = await deployment.start()
  const eventsOf = (name: string) => gateway.log.filter(({ event }) => event === name)
  const breakages = [
    [() => writeFileSync(plugin, code.slice(0, -1)), () => writeFileSync(plugin, code), /own\.js/],
    [() => rmSync(logs, { recursive: true }), () => mkdirSync(logs), /cannot open the log file: ENOENT/],
  ] as const
  for (const [i, [spoil, mend, reason]] of breakages.entries()) {
    spoil()
    process.kill(childrenOf(gateway.pid)[0] as number, 'SIGKILL')
    const failures = eventsOf('worker-restart-failed').length
    await waitUntil(() => eventsOf('worker-restart-failed').length > failures)
    const { msg } = eventsOf('worker-restart-failed').at(-1) ?? {}
    t.match(msg, /^worker restart failed; next attempt in 1000 ms: worker exited with \d+ before it was ready: /)
    t.match(msg, reason)
    for (let count = 0; count < 4; count += 1)
      t.equal((await call(gateway.http(key), 'eth_gasPrice')).result, '0x7', 'the other worker serves')
    mend()
    await waitUntil(() => eventsOf('worker-restarted').length > i)
    t.equal(childrenOf(gateway.pid).length, 2)
  }
  t.equal(await gateway.stop(), 0)
})

const hex = (value: number): string => `0x${value.toString(16)}`
const hashOf = (value: number): string => `0x${value.toString(16).padStart(64, '0')}`
