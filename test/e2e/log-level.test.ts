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
