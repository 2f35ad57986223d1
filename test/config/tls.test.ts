import { generateKeyPairSync } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { loadConfig } from '../../src/config/load.ts'
import { networkYaml, stubPlugins, writeConfig } from './config-fixture.ts'

// The files of `listen.tls`, as `check` sees them.

const certificates = fileURLToPath(new URL('../../../test/support/certificates/', import.meta.url))
const pem = (name: string): string => readFileSync(`${certificates}${name}.pem`, 'utf8')
const encryptedKey = generateKeyPairSync('ec', {
  namedCurve: 'P-256',
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'secret' },
}).privateKey

const gatewayYaml = (tls: string) => `store: lmdb:data
plans: { core: { dailyCredits: 1000 } }
listen:
  tls: ${tls}
`

const load = (t: Test, tls: string, files: Readonly<Record<string, string>> = {}, hosts = '127.0.0.1') => {
  const network = networkYaml('net').replace('net.example.org', hosts)
  const config = { 'gateway.yaml': gatewayYaml(tls), 'networks/net.yaml': network, 'tls/valid.pem': pem('valid'), ...files }
  return loadConfig(writeConfig(t.testdir(), config), stubPlugins, {})
}

t.test('the files are found relative to gateway.yaml', async t => {
  const { gateway, problems, warnings } = await load(t, '{ cert: tls/valid.pem, key: ./tls/valid.pem }')
  t.same([problems, warnings], [[], []])
  t.match(gateway?.listen.tls, { cert: /^\/.*\/tls\/valid\.pem$/, key: /^\/.*\/tls\/valid\.pem$/ })
})

t.test('what is wrong with a file is shown where gateway.yaml names it', async t => {
  const valid = 'tls/valid.pem'
  for (const [cert, key, column, message] of [
    ['tls/none.pem', valid, 16, 'listen.tls.cert: no such file'],
    [valid, 'tls/none.pem', 36, 'listen.tls.key: no such file'],
    ['tls', valid, 16, 'listen.tls.cert: this is a directory, not a file'],
    ['tls/key.pem', valid, 16, 'listen.tls.cert: the file has no certificate in PEM format'],
    ['tls/torn.pem', valid, 16, 'listen.tls.cert: the file has no certificate in PEM format'],
    [valid, 'tls/torn.pem', 36, 'listen.tls.key: the file has no private key in PEM format'],
    [valid, 'tls/key.pem', 36, 'listen.tls.key: the private key is encrypted'],
    [valid, 'tls/other.pem', 36, 'listen.tls.key: the private key does not match the certificate'],
  ] as const) {
    const files = { 'tls/key.pem': encryptedKey, 'tls/torn.pem': pem('valid').replaceAll('A', ''), 'tls/other.pem': pem('other-host') }
    const { problems } = await load(t, `{ cert: ${cert}, key: ${key} }`, files)
    t.match(problems, [{ message, line: 4, column: column === 36 ? 23 + cert.length : column }], `${cert} ${key}`)
    t.equal(problems.length, 1)
  }
})

t.test('the admin listener has files of its own, which are checked as well', async t => {
  const loadAdmin = (listener: string) =>
    load(t, `{ cert: tls/valid.pem, key: tls/valid.pem }\n  ${listener}\nadmin: { tls: { cert: tls/old.pem, key: tls/none.pem } }`, {
      'tls/old.pem': pem('expired'),
    })
  t.match((await loadAdmin('admin: 127.0.0.1:8082')).problems, [{ message: 'admin.tls.key: no such file', line: 6, column: 41 }])
  const messages = (await loadAdmin('portal: 127.0.0.1:8081')).problems.map(({ message }) => message)
  t.same(messages.sort(), ['admin.tls has no effect without listen.admin', 'admin.tls.key: no such file'])
})

t.test('a chain in the wrong order is recognized', async t => {
  const files = { 'tls/chain.pem': pem('authority') + pem('valid') }
  const { problems } = await load(t, '{ cert: tls/chain.pem, key: tls/valid.pem }', files)
  t.match(problems, [{ hint: 'the certificate of the key must be the first of the file, before its chain' }])
})

t.test('an expired certificate is a warning', async t => {
  const { problems, warnings } = await load(t, '{ cert: tls/old.pem, key: tls/old.pem }', { 'tls/old.pem': pem('expired') })
  t.same(problems, [])
  t.match(warnings, [{ message: 'listen.tls.cert: the certificate expired on 2021-01-01', line: 4, column: 16 }])
})

t.test('a host that the certificate does not name is a warning', async t => {
  const files = { 'tls/other.pem': pem('other-host') }
  const tls = 'cert: tls/other.pem, key: tls/other.pem'
  const { warnings } = await load(t, `{ ${tls} }`, files, 'node.test, localhost, node.example.org, 192.0.2.1')
  t.match(warnings, [
    { message: 'the certificate of listen.tls does not name this host: clients will refuse it', hint: 'it names DNS:node.test', line: 5 },
    { message: /does not name this host/, line: 5 },
  ])
  t.equal(warnings.length, 2)
})
