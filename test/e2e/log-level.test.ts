import { existsSync } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from '../support/tap.ts'
import { networkFile, startGateway } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { call, post } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

// The log level that is set over the admin listener, in one process and in several.

const chattyPlugin = `
import { definePlugin } from 'tollgate/plugin'
export default definePlugin({
  name: 'chatty',
  summary: 'Logs each call at level debug.',
  options: { type: 'object' },
  create: (options, { log }) => (call, next) => {
    log.debug({ event: 'chatty' }, 'called')
    return next(call)
  },
})
`

const node = await startFakeNode({})
t.teardown(() => node.stop())

for (const workers of [1, 2]) {
  t.test(`reaches every process of ${workers}`, async t => {
    const { pipeline, ...network } = networkFile('testnet', [node.url]) as { pipeline: object[] }
    const { gateway, url } = await startGateway(t, {
      gateway: { workers, admin: { token: '${ADMIN_TOKEN}' } },
      networks: { testnet: { ...network, pipeline: [pipeline[0], { use: '../chatty.js' }, ...pipeline.slice(1)] } },
      files: { 'chatty.js': chattyPlugin },
      env: { ADMIN_TOKEN: 's3cret' },
    })
    const levelUrl = `${gateway.admin}/log-level`
    const headers = { authorization: 'Bearer s3cret' }
    const setLevel = (level: string) => post(levelUrl, JSON.stringify({ level }), { method: 'PUT', headers })
    const loggingPids = () => new Set(gateway.log.flatMap(({ event, pid }) => (event === 'chatty' ? [Number(pid)] : [])))

    for (let i = 0; i < 4; i++) await call(url, 'eth_chainId')
    t.equal(loggingPids().size, 0)
    t.equal((await setLevel('debug')).status, 200)
    t.same((await post(levelUrl, '', { method: 'GET', headers })).json(), { level: 'debug' })
    await waitUntil(async () => (await call(url, 'eth_chainId')) && loggingPids().size === workers)

    if (workers > 1) {
      const [killed] = loggingPids()
      process.kill(killed!, 'SIGKILL')
      await gateway.waitForEvent('worker-exited')
      await waitUntil(async () => {
        await call(url, 'eth_chainId').catch(() => undefined)
        return loggingPids().size > workers
      })
    }
    t.notOk(JSON.stringify(gateway.log).includes('s3cret'))
    t.equal(await gateway.stop(), 0)
  })
}

/** Its start waits while the file `hold` is there, and says so. */
const waitingPlugin = `
import { existsSync, writeFileSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { definePlugin } from 'tollgate/plugin'
const fileOf = name => new URL(name, import.meta.url)
export default definePlugin({
  name: 'waiting',
  summary: 'Starts late.',
  options: { type: 'object' },
  create: () => ({
    handle: (call, next) => next(call),
    async start() {
      while (existsSync(fileOf('hold'))) {
        writeFileSync(fileOf('waits'), '')
        await setTimeout(10)
      }
    },
  }),
})
`

t.test('and the access log stay as operators have set them, in a worker too that follows a reload late', async t => {
  const { pipeline, ...network } = networkFile('testnet', [node.url]) as { pipeline: object[] }
  const gatewayOptions = { workers: 2, watch: false, admin: { token: 's3cret' }, log: 'warn' }
  const { deployment, gateway, url } = await startGateway(t, {
    gateway: gatewayOptions,
    networks: { testnet: { ...network, pipeline: [pipeline[0], { use: '../chatty.js' }, { use: '../waiting.js' }, ...pipeline.slice(1)] } },
    files: { 'chatty.js': chattyPlugin, 'waiting.js': waitingPlugin },
  })
  const headers = { authorization: 'Bearer s3cret' }
  const set = async (path: string, value: object): Promise<void> => {
    t.equal((await post(gateway.admin + path, JSON.stringify(value), { method: 'PUT', headers })).status, 200)
  }
  const pidsOf = (event: string) => new Set(gateway.log.flatMap(line => (line['event'] === event ? [Number(line['pid'])] : [])))
  await set('/log-level', { level: 'debug' })
  await waitUntil(async () => (await call(url, 'eth_chainId')) && pidsOf('chatty').size === 2)
  const [killed, other] = pidsOf('chatty')

  const hold = join(deployment.dir, 'hold')
  await writeFile(hold, '')
  process.kill(killed!, 'SIGKILL')
  await waitUntil(() => existsSync(join(deployment.dir, 'waits')))
  deployment.writeGateway({ ...gatewayOptions, log: 'info', accessLog: { sample: 0.5 } })
  process.kill(gateway.pid, 'SIGHUP')
  const reloads = () => gateway.log.filter(({ event }) => event === 'reloaded').length
  await waitUntil(() => reloads() === 1)
  await set('/log-level', { level: 'debug' })
  await set('/access-log', { target: 'stdout', sample: 1 })
  await rm(hold)
  await gateway.waitForEvent('worker-restarted')
  // The next reload waits until the worker has followed.
  deployment.writeGateway({ ...gatewayOptions, log: 'info', accessLog: { sample: 0.5 }, requestLog: { slow: '2s' } })
  process.kill(gateway.pid, 'SIGHUP')
  await waitUntil(() => reloads() === 2)
  const before = gateway.log.length
  const late = () => gateway.log.slice(before).filter(({ pid }) => pid !== other && pid !== gateway.pid)
  await waitUntil(async () => {
    await call(url, 'eth_chainId')
    return late().some(({ event }) => event === 'access')
  })
  t.ok(late().some(({ event }) => event === 'chatty'))
  t.equal(await gateway.stop(), 0)
})

for (const workers of [1, 2]) {
  t.test(`is changed without a store that opens, with ${workers === 1 ? 'one process' : 'workers'}`, async t => {
    const gatewayOptions = { workers, watch: false, admin: { token: 's3cret' } }
    const { deployment, gateway } = await startGateway(t, {
      gateway: gatewayOptions,
      networks: { testnet: networkFile('testnet', [node.url]) },
    })
    const listen = { rpc: '127.0.0.1:0', admin: new URL(gateway.admin).host }
    deployment.writeGateway({ ...gatewayOptions, listen })
    const folder = join(deployment.dir, '../data')
    await rm(folder, { recursive: true })
    await mkdir(folder)
    await writeFile(join(folder, 'data.mdb'), 'no data file')
    t.match(await deployment.run('log-level', 'set', '--level', 'warn'), {
      code: 0,
      stdout: 'the log level is warn\n',
      stderr: /^warning: .*data\.mdb/,
    })
    t.match(await deployment.run('log-level'), { code: 0, stdout: 'warn\n', stderr: '' })
    t.match(await deployment.run('nodes', 'incidents'), { code: 0, stderr: '' })
    const headers = { authorization: 'Bearer s3cret' }
    const response = await post(`${gateway.admin}/api/v1/log-level`, JSON.stringify({ level: 'error' }), { method: 'PATCH', headers })
    t.same([response.status, response.json()], [200, { level: 'error' }])
    await gateway.kill()
  })
}
