import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo, ListenOptions, Server } from 'node:net'
import t from 'tap'
import { isReusePortSupported } from '../../src/runtime/reuse-port.ts'

t.test('Linux has it from Node 22.12 and 23.1 on', async t => {
  for (const version of ['22.12.0', '22.20.1', '23.1.0', '24.0.0', '26.10.0']) t.ok(isReusePortSupported('linux', version), version)
  for (const version of ['20.19.0', '20.99.0', '21.7.3', '22.11.0', '23.0.0']) t.notOk(isReusePortSupported('linux', version), version)
  for (const platform of ['darwin', 'win32']) t.notOk(isReusePortSupported(platform, '24.0.0'), platform)
})

t.test('and where it is said to have it, two servers share a port', { skip: !isReusePortSupported() }, async t => {
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
