import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo, ListenOptions, Server } from 'node:net'
import t from '../support/tap.ts'
import { isReusePortSupported } from '../../src/config/addresses.ts'
import { createDeployment, networkFile } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { call, post } from '../support/rpc-client.ts'

// `listen.reusePort`: each worker listens on the port itself.

const node = await startFakeNode({})
t.teardown(() => node.stop())

const deploy = (rpc: string) => {
  const listen = { rpc, admin: '127.0.0.1:0', reusePort: true }
  const deployment = createDeployment({ gateway: { workers: 2, listen }, networks: { testnet: networkFile('testnet', [node.url]) } })
  t.teardown(() => deployment.remove())
  return deployment
}

/** Sockets of this machine that listen on the port, as Linux lists them. */
const listeningSockets = (url: string): number => {
  const port = Number(new URL(url).port).toString(16).toUpperCase().padStart(4, '0')
  return (readFileSync('/proc/net/tcp', 'utf8').match(new RegExp(`^ *\\d+: \\w+:${port} \\w+:\\w+ 0A `, 'gm')) ?? []).length
}

t.test('Linux supports it from Node 22.12 and 23.1 on', async t => {
  for (const version of ['22.12.0', '22.20.1', '23.1.0', '24.0.0', '26.10.0']) t.ok(isReusePortSupported('linux', version), version)
  for (const version of ['20.19.0', '20.99.0', '21.7.3', '22.11.0', '23.0.0']) t.notOk(isReusePortSupported('linux', version), version)
  for (const platform of ['darwin', 'win32']) t.notOk(isReusePortSupported(platform, '24.0.0'), platform)
})

t.test('where it is supported, two servers share a port', { skip: !isReusePortSupported() }, async t => {
  const listen = async (port: number): Promise<Server> => {
    const options: ListenOptions & { reusePort: boolean } = { host: '127.0.0.1', port, reusePort: true }
    const server = createServer().listen(options)
    t.teardown(() => server.close())
    await once(server, 'listening')
    return server
  }
  const { port } = (await listen(0)).address() as AddressInfo
  t.equal(((await listen(port)).address() as AddressInfo).port, port)
})

t.test('where this system lacks it, check says so', { skip: isReusePortSupported() }, async t => {
  const { code, stderr } = await deploy('127.0.0.1:0').run('check')
  t.equal(code, 78)
  t.match(stderr, /gateway.yaml:1:\d+: listen.reusePort requires Linux and Node.js 22.12 or 23.1\n/)
})

t.test('where this system has it', { skip: !isReusePortSupported() }, async t => {
  t.test('each worker listens and serves', async t => {
    const deployment = deploy('127.0.0.1:0')
    await deployment.addAccount('alice')
    const { key } = await deployment.addKey('alice')
    const gateway = await deployment.start()
    t.equal(listeningSockets(gateway.rpc), 2)
    const results = await Promise.all(Array.from({ length: 100 }, () => call(gateway.http(key), 'eth_chainId')))
    t.ok(results.every(({ result }) => result === '0x7a69'))
    const { text } = await post(`${gateway.admin}/metrics`, '', { method: 'GET' })
    t.match(text, /^tollgate_calls_total\{.*method="eth_chainId".*\} 100$/m)
    t.equal(await gateway.stop(), 0)
  })

  t.test('a port that another program listens on is one line, and exit 1', async t => {
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    t.teardown(() => taken.close())
    const { code, stderr } = await deploy(`127.0.0.1:${(taken.address() as AddressInfo).port}`).run('start')
    t.equal(code, 1)
    t.match(stderr.trim(), /^tollgate: cannot listen on .*in use[^\n]*$/)
  })
})
