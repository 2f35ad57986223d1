import t from '../support/tap.ts'
import { generateApiKey } from '../../src/services/accounts/api-key.ts'
import { toHexQuantity } from '../../src/util/json.ts'
import { createDeployment, networkFile } from '../support/deployment.ts'
import type { GatewayProcess } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { fastestMs } from '../support/fastest-ms.ts'
import { skipWithoutRedis, startRedisServer } from '../support/redis-server.ts'
import { call, connectWs, post } from '../support/rpc-client.ts'
import type { RpcMessage } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

// Two gateways that share nothing but one redis, as on two machines.

t.test('two gateways on one redis', { skip: skipWithoutRedis }, async t => {
  const redis = await startRedisServer('--appendonly', 'yes', '--appendfsync', 'always', '--requirepass', 'canary-p@ss')
  const node = await startFakeNode({ eth_call: { result: '0x1' } })
  const env = { REDIS_URL: `redis://:canary-p%40ss@127.0.0.1:${redis.port}` }
  const deployment = createDeployment({
    gateway: { store: '${REDIS_URL}', plans: { core: { dailyCredits: 3_000_000 }, tiny: { dailyCredits: 80 } } },
    networks: {
      testnet: networkFile('testnet', [node.url], { cache: { methods: { eth_call: 'never' } } }),
      other: { ...networkFile('other', [node.url]), hosts: ['other.test'] },
      graced: { ...networkFile('graced', [node.url], { credits: { onStoreOutage: 'grace', grace: 240 } }), hosts: ['graced.test'] },
      opened: { ...networkFile('opened', [node.url], { credits: { onStoreOutage: 'open' } }), hosts: ['opened.test'] },
    },
    env,
  })
  t.teardown(async () => {
    await Promise.all([deployment.remove(), crowded.remove()])
    await Promise.all([node.stop(), redis.remove()])
  })
  await deployment.addAccount('alice')
  const networks = { testnet: networkFile('testnet', [node.url]) }
  const crowded = createDeployment({ gateway: { store: '${REDIS_URL}', workers: 2 }, networks, env })
  const gateways = await Promise.all([deployment.start(), deployment.start()])
  const request = (gateway: GatewayProcess, key: string) => post(gateway.http(key), body)
  const statuses = async (key: string) => Promise.all(gateways.map(async gateway => (await request(gateway, key)).status))
  /** Resolves with the milliseconds until both answer with this status. */
  const msUntil = async (status: number, key: string): Promise<number> => {
    const start = performance.now()
    await waitUntil(async () => (await statuses(key)).every(each => each === status))
    return performance.now() - start
  }

  t.test('an added key is valid at both gateways at once, and a revoked key is invalid at both within a second', async t => {
    const tookMs = await fastestMs(propagationLimitMs, async () => {
      const { key, id } = await deployment.addKey('alice')
      t.same(await statuses(key), [200, 200])
      const sockets = await Promise.all(gateways.map(gateway => connectWs(gateway.ws(key))))
      for (const socket of sockets) t.equal((await socket.call('eth_call', [{ to }])).result, '0x1')
      await deployment.run('keys', 'revoke', id)
      const start = performance.now()
      const closed = await Promise.all(sockets.map(each => each.closed))
      t.same(
        closed.map(({ code }) => code),
        [1008, 1008],
        'open sockets too',
      )
      await msUntil(401, key)
      return performance.now() - start
    })
    t.ok(tookMs < propagationLimitMs, `${tookMs} ms`)
  })

  t.test('another plan of an account is in force at both gateways within a second, on open sockets too', async t => {
    const { key } = await deployment.addCaller('bob', 'tiny')
    const sockets = await Promise.all(gateways.map(gateway => connectWs(gateway.ws(key))))
    const answers = await Promise.all(sockets.map(socket => socket.call('eth_call', [{ to }])))
    t.same(answers.map(({ error }) => error?.code).sort(), [-33000, undefined].sort(), 'one call is served in all')
    t.same(await statuses(key), [402, 402])
    await deployment.run('accounts', 'set', 'bob', '--plan', 'core')
    t.ok((await msUntil(200, key)) < propagationLimitMs)
    for (const socket of sockets) {
      t.equal((await socket.call('eth_call', [{ to }])).result, '0x1')
      await socket.close()
    }
  })

  t.test(
    'changes of the networks of a key, and of the credits of an account, are in force at both gateways within a second, on open sockets too',
    async t => {
      const { key, id } = await deployment.addCaller('dora', 'tiny')
      const sockets = await Promise.all(gateways.map(gateway => connectWs(gateway.ws(key))))
      /** Resolves with the milliseconds until both answer with this code, over HTTP and on the sockets. */
      const msUntilCode = async (code: number | undefined): Promise<number> => {
        const start = performance.now()
        const codes = async () =>
          Promise.all([
            ...gateways.map(async gateway => (await call(gateway.http(key), 'eth_call', [{ to }])).error?.code),
            ...sockets.map(async socket => (await socket.call('eth_call', [{ to }])).error?.code),
          ])
        await waitUntil(async () => (await codes()).every(each => each === code))
        return performance.now() - start
      }
      await msUntilCode(-33000)
      const change = async (code: number | undefined, ...args: readonly [string, ...string[]]): Promise<void> => {
        t.equal((await deployment.run(...args)).code, 0)
        const elapsedMs = await msUntilCode(code)
        t.ok(elapsedMs < propagationLimitMs, `${args.join(' ')}: ${elapsedMs} ms`)
      }
      await change(undefined, 'accounts', 'set', 'dora', '--credits', '1000000')
      await change(-32091, 'keys', 'set', id, '--networks', 'other')
      await change(undefined, 'keys', 'set', id, '--networks', 'testnet,other')
      await change(-32091, 'keys', 'set', id, '--methods', 'eth_chainId')
      await change(undefined, 'keys', 'set', id, '--networks', 'all', '--methods', 'all')
      await change(-33000, 'accounts', 'set', 'dora', '--credits', 'plan')
      await Promise.all(sockets.map(socket => socket.close()))
    },
  )

  t.test('both gateways charge one balance, and usage is reported', async t => {
    const { key } = await deployment.addCaller('carol')
    for (const gateway of gateways) for (let i = 0; i < 5; i += 1) await call(gateway.http(key), 'eth_call', [{ to }])
    const used = async () => JSON.parse((await deployment.run('usage', 'carol', '--json')).stdout).used as number
    await waitUntil(async () => (await used()) >= 800)
    t.equal(await used(), 800)
  })

  t.test('the daily limit of a key is exact over both gateways, and leaves other keys of the account alone', async t => {
    const { stdout } = await deployment.run('keys', 'add', 'carol', '--credits', '1000', '--json')
    const { key, id } = JSON.parse(stdout)
    const other = await deployment.addKey('carol')
    const errorsOf = (gateway: GatewayProcess) =>
      Promise.all(Array.from({ length: 20 }, async () => (await call(gateway.http(key), 'eth_call', [{ to }])).error))
    // A process that was refused asks the store again after the other has returned what it held.
    const served = async () => (await Promise.all(gateways.map(errorsOf))).flat().filter(error => error === undefined).length
    let count = 0
    await waitUntil(async () => (count += await served()) >= 12)
    count += await served()
    t.equal(count, 12, '12 calls of 80 credits')
    const { error } = await call(gateways[0]!.http(key), 'eth_call', [{ to }])
    t.match(error, { code: -33000, message: 'the daily limit of this API key is used up', data: { limit: 1_000 } })
    t.same(await statuses(other.key), [200, 200])
    const audited: readonly { account: string; faults: readonly string[] }[] = JSON.parse((await deployment.run('audit', '--json')).stdout)
    t.same(audited.find(({ account }) => account === 'carol')?.faults, [], 'the account has paid for each call once')
    await deployment.run('keys', 'set', id, '--credits', 'none')
    t.ok((await msUntil(200, key)) < propagationLimitMs)
  })

  t.test('a height that one gateway reports is soon the least height that the others report, with workers too', async t => {
    const { key } = await deployment.addKey('alice')
    const third = await crowded.start()
    const heightOf = async (gateway: GatewayProcess) => (await call(gateway.http(key), 'eth_blockNumber')).result
    let height = 0x63
    const tookMs = await fastestMs(2_000, async () => {
      let elapsedMs = 0
      for (const first of [gateways[0], third]) {
        height += 1
        node.setResponse('eth_blockNumber', { result: toHexQuantity(height) })
        await waitUntil(async () => (await heightOf(first)) === toHexQuantity(height))
        node.setResponse('eth_blockNumber', { result: '0x60' })
        const start = performance.now()
        for (const gateway of [...gateways, third, third]) await waitUntil(async () => (await heightOf(gateway)) === toHexQuantity(height))
        elapsedMs = Math.max(elapsedMs, performance.now() - start)
      }
      return elapsedMs
    })
    t.ok(tookMs < 2_000, `${tookMs} ms`)
    t.equal(await third.stop(), 0)
  })

  t.test('while redis is unreachable', async t => {
    const { key } = await deployment.addKey('alice')
    t.same(await statuses(key), [200, 200])
    await redis.kill()
    const start = performance.now()
    t.same(await statuses(key), [200, 200], 'a cached key is served as long as its lease has credits')
    const unknown = await request(gateways[0], generateApiKey().reveal())
    t.match(unknown, { status: 503 }, 'a key that is not cached may be valid or not')
    t.match(unknown.json(), { error: { code: -32002 } })
    t.ok(performance.now() - start < propagationLimitMs, `${performance.now() - start} ms for four calls`)
    await msUntil(503, key)
    t.match((await request(gateways[0], key)).json(), { error: { code: -32002 } })
    const run = await deployment.run('accounts', 'list')
    const at = `127.0.0.1:${redis.port}`
    t.match(run, {
      code: 1,
      stderr: `tollgate: cannot use redis at ${at}: connect ECONNREFUSED ${at}; start it, or correct its address\n`,
    })
    await t.rejects(deployment.start(), /cannot use redis at 127\.0\.0\.1/)
    await redis.restart()
    const recoveryMs = await msUntil(200, key)
    t.ok(recoveryMs < propagationLimitMs, `recovered after ${recoveryMs} ms`)
  })

  t.test('during an outage of redis each policy is exact to the credit, and overdrafts are charged afterwards', async t => {
    const callers = await Promise.all(
      ['closed', 'graced', 'opened'].map(async policy => {
        await deployment.addAccount(policy, 'tiny')
        return { policy, host: policy === 'closed' ? '127.0.0.1' : `${policy}.test`, ...(await deployment.addKey(policy)) }
      }),
    )
    const served = new Map<string, number>()
    /** Each caller calls both gateways so many times. Resolves with the served calls and the error codes of each caller. */
    const callAll = async (times: number) =>
      Object.fromEntries(
        await Promise.all(
          callers.map(async ({ policy, host, key }): Promise<[string, CallOutcome]> => {
            const answers: RpcMessage[] = []
            for (let i = 0; i < times; i += 1) {
              for (const gateway of gateways) answers.push(await call(gateway.http(key), 'eth_call', [{ to }, `0x${i}`], { host }))
            }
            const refused = answers.filter(({ error }) => error !== undefined)
            const now = answers.length - refused.length
            served.set(policy, (served.get(policy) ?? 0) + now)
            return [policy, { served: now, codes: [...new Set(refused.map(({ error }) => error?.code))] }]
          }),
        ),
      )
    const exhausted = { served: 1, codes: [-33000] }
    t.same(await callAll(2), { closed: exhausted, graced: exhausted, opened: exhausted }, 'the one call of the day')
    // For a quarter of a second a refused cost is refused without a request.
    await sleep(500)
    await redis.kill()
    t.match(await callAll(10), {
      closed: { served: 0, codes: [-32002] },
      graced: { served: 6, codes: [-32002] },
      opened: { served: 20, codes: [] },
    })
    await sleep(outageMs)
    t.match(await callAll(1), {
      closed: { served: 0, codes: [-32002] },
      graced: { served: 0, codes: [-32002] },
      opened: { served: 2, codes: [] },
    })
    await redis.restart()
    await waitUntil(async () => Object.values(await callAll(1)).every(({ codes }) => String(codes) === '-33000'))
    t.match([served.get('closed'), served.get('graced')], [1, 1 + 2 * 3], 'two processes overdrew 240 each')
    for (const [policy, calls] of served) {
      const balance = async (): Promise<{ readonly used: number; readonly held: number }> =>
        JSON.parse((await deployment.run('usage', policy, '--json')).stdout)
      // The use of a process is reported before its overdraft is leased.
      await waitUntil(async () => {
        const { used, held } = await balance()
        return used >= 80 * calls && held === 0
      })
      t.match(await balance(), { limit: 80, used: 80 * calls, held: 0, left: 0 }, policy)
    }
    t.match(
      (await deployment.run('audit')).stdout,
      /^graced: leased exceeds the limit by 480: the limit was lowered, or credits were overdrawn/m,
    )
  })

  t.test('both stop with no credits held, and no log contains the password', async t => {
    t.same(await Promise.all(gateways.map(gateway => gateway.stop())), [0, 0])
    const { held, forfeited } = JSON.parse((await deployment.run('usage', 'alice', '--json')).stdout)
    t.same({ held, forfeited }, { held: 0, forfeited: 0 })
    const logs = gateways.map(({ log, stderr }) => JSON.stringify(log) + stderr()).join()
    t.match(logs, /store unreachable/)
    t.notMatch(logs, /canary/)
  })
})

const to = `0x${'00'.repeat(20)}`
const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_call', params: [{ to }, 'latest'] })
interface CallOutcome {
  readonly served: number
  readonly codes: readonly (number | undefined)[]
}

const outageMs = 2_000

/** A second is promised; a busy machine may take longer. */
const propagationLimitMs = 3_000
const sleep = (ms: number): Promise<void> => new Promise(resolve => setTimeout(resolve, ms))
