import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { isReusePortSupported } from '../../src/runtime/reuse-port.ts'
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
