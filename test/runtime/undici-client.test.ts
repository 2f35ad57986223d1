import { createRequire } from 'node:module'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import * as undici from 'undici'
import { loadUndici } from '../../src/runtime/undici-client.ts'

const require = createRequire(import.meta.url)

const loadedPaths = (load: (path: string) => unknown) => {
  const paths: string[] = []
  const parts = loadUndici(path => {
    paths.push(path)
    return load(path)
  })
  return { parts, paths }
}

t.test('this undici has the two parts in files of their own, and they equal those of the whole package', async t => {
  const { parts, paths } = loadedPaths(require)
  t.same(paths, ['undici/lib/dispatcher/client.js', 'undici/lib/core/connect.js'])
  t.equal(parts.Client, undici.Client)
  t.equal(parts.buildConnector, undici.buildConnector)
})

for (const [title, load] of [
  ['without these files', (path: string) => (path === 'undici' ? require(path) : require('./nowhere.js'))],
  ['whose files hold something else', (path: string) => (path === 'undici' ? require(path) : {})],
] as const) {
  t.test(`an undici ${title} is loaded whole`, async t => {
    const { parts } = loadedPaths(load)
    const server = createServer((_req, res) => res.end('ok')).listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.teardown(() => server.close())
    const client = new parts.Client(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, { connect: parts.buildConnector({}) })
    t.teardown(() => client.destroy())
    const { body } = await client.request({ path: '/', method: 'GET' })
    t.equal(await body.text(), 'ok')
  })
}
