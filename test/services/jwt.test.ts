import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { SignJWT, exportJWK, exportSPKI, generateKeyPair } from 'jose'
import type { CryptoKey } from 'jose'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import type { Plan } from '../../src/plugin/call.ts'
import { Secret } from '../../src/plugin/secret.ts'
import { generateApiKey, hashApiKey } from '../../src/services/accounts/api-key.ts'
import { openAccounts } from '../../src/services/accounts/index.ts'
import { ReloadableJwt } from '../../src/services/jwt/index.ts'
import { isJwt } from '../../src/util/key-mask.ts'
import type { JwtOptions } from '../../src/services/jwt/index.ts'
import { readKeyFile } from '../../src/services/jwt/key-file.ts'
import { RemoteKeySet } from '../../src/services/jwt/key-set.ts'
import { createMetricsRegistry } from '../../src/services/metrics.ts'
import { tempStore } from '../store/temp-store.ts'
import { TestClock } from '../support/fakes.ts'
import { TestLog } from '../../src/testing/test-log.ts'
import { waitUntil } from '../support/wait-until.ts'

// Tokens that jose has signed, and a real HTTP server with the keys of the issuer.

const issuer = 'https://login.test'
const plan: Plan = { name: 'core', dailyCredits: 1_000, forwarding: false }

const newKey = async (alg: string, kid?: string) => {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true })
  return { alg, kid, privateKey, publicKey, jwk: { ...(await exportJWK(publicKey)), ...(kid !== undefined && { kid, use: 'sig' }) } }
}
type Claims = Readonly<Record<string, unknown>>
type SigningKey = Pick<Awaited<ReturnType<typeof newKey>>, 'alg' | 'kid'> & { readonly privateKey: CryptoKey | Uint8Array }

const [rsa, ec, ed, other] = await Promise.all([
  newKey('RS256', 'rsa'),
  newKey('ES256', 'ec'),
  newKey('EdDSA', 'ed'),
  newKey('ES256', 'other'),
])

/** The issuer's JSON Web Key Set, as its server gives it. */
const startIssuer = async (t: Test) => {
  const state = {
    keys: [rsa.jwk, ec.jwk, ed.jwk] as object[],
    fetches: 0,
    respond: undefined as ((res: ServerResponse) => void) | undefined,
  }
  const server = createServer((_req, res) => {
    state.fetches += 1
    if (state.respond !== undefined) return state.respond(res)
    res.end(JSON.stringify({ keys: state.keys }))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { state, jwks: `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys` } // the address of a TCP server
}

/** A store with the key `key_1`, and the look-up of keys and tokens over it. */
const setUp = async (t: Test, options: Partial<JwtOptions> = {}) => {
  const clock = new TestClock()
  const log = new TestLog()
  const metrics = createMetricsRegistry()
  const store = await tempStore(t, clock)
  await store.addAccount({ id: 'acc_1', name: 'alice', plan: 'core', created: 1 })
  await store.addKey('hash', { id: 'key_1', account: 'acc_1', created: 1, hint: 'wxyz' })
  const jwt = new ReloadableJwt({ clock, log, metrics })
  t.teardown(() => jwt.close())
  const defaults = { issuer, audience: ['tollgate', 'other'], claim: 'sub' }
  const configure = async (over: Partial<JwtOptions> | undefined) =>
    (await jwt.prepare(over && { ...defaults, ...options, ...over })).commit()
  await configure({})
  const accounts = openAccounts(store, { core: plan }, clock, { jwt })
  const sign = (key: SigningKey, claims: Claims = {}): Promise<string> => {
    const now = Math.floor(clock.now() / 1_000)
    const payload = { iss: issuer, aud: 'tollgate', sub: 'key_1', iat: now, exp: now + 600, ...claims }
    return new SignJWT(JSON.parse(JSON.stringify(payload)))
      .setProtectedHeader({ alg: key.alg, ...(key.kid !== undefined && { kid: key.kid }) })
      .sign(key.privateKey)
  }
  const find = async (token: string) => (await accounts.find(new Secret(token))).kind
  const results = () =>
    Object.fromEntries(
      (metrics.families().find(({ name }) => name === 'tollgate_tokens_total')?.series ?? []).flatMap(({ labels, values }) =>
        values[0] === 0 ? [] : [[labels['result'] ?? '', values[0]]],
      ),
    )
  const linesOf = (name: string) =>
    log.lines.map(({ level, fields }): Record<string, unknown> => ({ level, ...fields })).filter(({ event }) => event === name)
  return { clock, log, store, accounts, jwt, metrics, sign, find, configure, results, linesOf }
}

t.test('a valid token stands for the key that it names, whatever asymmetric algorithm it is signed with', async t => {
  const { jwks } = await startIssuer(t)
  const { accounts, sign, results } = await setUp(t, { jwks })
  for (const key of [rsa, ec, ed]) {
    const lookup = await accounts.find(new Secret(await sign(key)))
    t.match(lookup, { kind: 'granted', key: { id: 'key_1' }, account: { id: 'acc_1', plan } }, key.alg)
  }
  t.same(results(), { accepted: 3 })
})

t.test('what is wrong with a token is in the log and in a metric, and the caller learns nothing of it', async t => {
  const { jwks } = await startIssuer(t)
  const { clock, sign, find, log, results, linesOf } = await setUp(t, { jwks })
  const now = Math.floor(clock.now() / 1_000)
  const valid = await sign(ec)
  const unsigned = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${valid.split('.')[1]}.`
  const confused = await sign({ alg: 'HS256', kid: 'rsa', privateKey: Buffer.from(await exportSPKI(rsa.publicKey)) })
  const wrong: readonly (readonly [reason: string, token: string])[] = [
    ['expired', await sign(ec, { exp: now - 30 })],
    ['notYetValid', await sign(ec, { nbf: now + 31 })],
    ['issuer', await sign(ec, { iss: 'https://elsewhere.test' })],
    ['audience', await sign(ec, { aud: ['shop', 'mail'] })],
    ['claims', await sign(ec, { exp: undefined })],
    ['claims', await sign(ec, { aud: undefined })],
    ['claims', await sign(ec, { sub: undefined })],
    ['claims', await sign(ec, { sub: 'k'.repeat(129) })],
    ['claims', await sign(ec, { sub: ['key_1'] })],
    ['signature', await sign({ ...other, kid: 'ec' })],
    ['signingKey', await sign(other)],
    ['algorithm', unsigned],
    ['algorithm', confused],
    ['malformed', 'a.b.c'],
    ['tooLong', await sign(ec, { padding: 'x'.repeat(8_192) })],
    ['unknownKey', await sign(ec, { sub: 'key_2' })],
    ['unknownKey', await sign(ec, { sub: 'hash' })],
    ['unknownKey', await sign(ec, { sub: 'acc_1' })],
  ]
  for (const [reason, token] of wrong) {
    clock.advance(100) // the log has one line for each reason in 10 s
    const before = results()[reason] ?? 0
    t.equal(await find(token), 'tokenInvalid', reason)
    t.equal(results()[reason], before + 1, reason)
  }
  t.same(
    linesOf('token-refused')
      .map(({ reason }) => reason)
      .sort(),
    [...new Set(wrong.map(([reason]) => reason))].sort(),
  )
  const logged = JSON.stringify(log.lines)
  t.notOk(
    wrong.some(([, token]) => token.split('.').some(part => part.length > 5 && logged.includes(part))),
    'tokens are not logged',
  )
  t.equal(await find(valid), 'granted')
})

t.test('a token is accepted until it expires, within the tolerance', async t => {
  const { jwks } = await startIssuer(t)
  const { clock, sign, find, results } = await setUp(t, { jwks })
  const token = await sign(ec, { exp: Math.floor(clock.now() / 1_000) + 60 })
  const early = await sign(ec, { nbf: Math.floor(clock.now() / 1_000) + 120, sub: 'key_1' })
  t.equal(await find(token), 'granted')
  t.equal(await find(early), 'tokenInvalid')
  clock.advance(89_999)
  t.equal(await find(token), 'granted', '30 s after the end')
  t.equal(await find(early), 'tokenInvalid')
  clock.advance(1)
  t.equal(await find(early), 'granted', '30 s before the beginning')
  t.equal(await find(token), 'tokenInvalid')
  t.equal(results()['expired'], 1)
})

t.test('a token that came while the clock was ahead is accepted once the clock has been set right', async t => {
  const { jwks } = await startIssuer(t)
  const { clock, sign, find } = await setUp(t, { jwks })
  const token = await sign(ec, { exp: Math.floor(clock.now() / 1_000) + 60 })
  clock.shiftWallClock(3_600_000)
  t.equal(await find(token), 'tokenInvalid')
  clock.shiftWallClock(-3_600_000)
  t.equal(await find(token), 'granted')
})

t.test('a token is verified once, also when many calls come with it, and wrong ones are remembered', async t => {
  const { jwks } = await startIssuer(t)
  const { accounts, sign, find, results } = await setUp(t, { jwks })
  const token = await sign(ec)
  t.same(await Promise.all(Array.from({ length: 5 }, () => find(token))), Array(5).fill('granted'))
  t.notOk(accounts.find(new Secret(token)) instanceof Promise, 'known at once')
  t.same(results(), { accepted: 1 })
  const wrong = await sign(ec, { iss: 'elsewhere' })
  await find(wrong)
  t.notOk(accounts.find(new Secret(wrong)) instanceof Promise, 'refused at once')
})

t.test('what changes about the key holds for its tokens within 1 s', async t => {
  const { jwks } = await startIssuer(t)
  const { store, clock, sign, find } = await setUp(t, { jwks })
  const token = await sign(ec)
  t.equal(await find(token), 'granted')
  await store.changeKey('key_1', { suspended: clock.now() })
  t.equal(await find(token), 'suspended')
  await store.changeKey('key_1', { suspended: null, expires: clock.now() + 1_000 })
  t.equal(await find(token), 'granted')
  clock.advance(1_000)
  t.equal(await find(token), 'expired')
  await store.revokeKey('key_1', clock.now())
  t.equal(await find(token), 'revoked')
})

t.test('the id of a key is no key, and a key is no id', async t => {
  const { jwks } = await startIssuer(t)
  const { store, sign, find, linesOf } = await setUp(t, { jwks })
  const key = generateApiKey().reveal()
  await store.addKey(hashApiKey(key), { id: 'key_2', account: 'acc_1', created: 1, hint: 'wxyz' })
  t.equal(await find(await sign(ec, { sub: 'key_2' })), 'granted')
  t.equal(await find('key_2'), 'malformed')
  t.equal(await find(key), 'granted')
  t.equal(await find(await sign(ec, { sub: key })), 'tokenInvalid')
  t.match(linesOf('token-refused'), [{ reason: 'unknownKey', key: undefined }], 'the log has no key')
})

t.test('the issuer changes its keys: a new one is fetched with its first token, and tokens of one that is gone are refused', async t => {
  const { state, jwks } = await startIssuer(t)
  const { clock, sign, find, linesOf } = await setUp(t, { jwks })
  const old = await sign(ec)
  t.equal(await find(old), 'granted')
  const early = await sign(other)
  clock.advance(30_000)
  t.equal(await find(early), 'tokenInvalid', 'before the issuer has published its key')
  state.keys = [rsa.jwk, other.jwk]
  clock.advance(29_999)
  t.equal(await find(early), 'tokenInvalid', 'the keys were fetched less than 30 s ago')
  clock.advance(1)
  t.equal(await find(early), 'granted')
  t.equal(await find(old), 'tokenInvalid')
  t.equal(await find(await sign(rsa)), 'granted')

  state.keys = [ec.jwk]
  clock.advance(300_000)
  await waitUntil(() => linesOf('jwt-keys-loaded').length === 3)
  await waitUntil(async () => (await find(await sign(ec))) === 'granted')
})

t.test('invented keys cause one fetch within 30 s', async t => {
  const { state, jwks } = await startIssuer(t)
  const { clock, sign, find } = await setUp(t, { jwks })
  t.equal(await find(await sign(ec)), 'granted')
  clock.advance(30_000)
  const before = state.fetches
  for (let i = 0; i < 5; i += 1) t.equal(await find(await sign({ ...other, kid: `invented-${i}` })), 'tokenInvalid')
  t.equal(state.fetches, before + 1)
})

t.test('keys that cannot be fetched', async t => {
  t.test('a token gets 503 until they can; the issuer is asked after 1 s, 2 s, 4 s, however many tokens come', async t => {
    const { state, jwks } = await startIssuer(t)
    state.respond = res => void res.writeHead(500).end()
    const { clock, sign, find, linesOf, results } = await setUp(t, { jwks })
    const token = await sign(ec)
    for (let i = 0; i < 3; i += 1) t.equal(await find(token), 'tokenUnverifiable')
    t.same(results(), { keysUnavailable: 3 })
    await waitUntil(() => linesOf('jwt-keys-unavailable').length === 1)
    t.match(linesOf('jwt-keys-unavailable'), [{ level: 'warn', event: 'jwt-keys-unavailable', reason: 'HTTP 500' }])
    for (const [delayMs, fetches] of [
      [1_000, 2],
      [2_000, 3],
      [4_000, 4],
    ] as const) {
      clock.advance(delayMs - 1)
      await find(token)
      t.equal(state.fetches, fetches - 1)
      if (fetches === 4) state.respond = undefined
      const timers = clock.timerCount
      clock.advance(1)
      await waitUntil(() => state.fetches === fetches && clock.timerCount === timers)
    }
    await waitUntil(async () => (await find(token)) === 'granted')
    t.equal(linesOf('jwt-keys-unavailable').length, 1, 'logged once')
  })

  t.test('known keys stay valid while the issuer is unreachable', async t => {
    const { state, jwks } = await startIssuer(t)
    const { clock, sign, find, metrics } = await setUp(t, { jwks })
    t.equal(await find(await sign(ec)), 'granted')
    state.respond = res => void res.destroy()
    const isSuccessful = () => metrics.families().find(({ name }) => name === 'tollgate_jwt_keys_reload_successful')?.series[0]?.values[0]
    t.equal(isSuccessful(), 1)
    for (const delayMs of [300_000, 1_000, 2_000]) {
      const [fetches, timers] = [state.fetches, clock.timerCount]
      clock.advance(delayMs)
      await waitUntil(() => state.fetches > fetches && clock.timerCount === timers) // the next fetch is scheduled
    }
    await waitUntil(() => isSuccessful() === 0)
    t.equal(await find(await sign(ec)), 'granted')
    t.equal(await find(await sign(other)), 'tokenUnverifiable', 'of a key that may be new')
  })

  for (const [what, reason, respond] of [
    ['a redirect is not followed', 'redirects are not followed: HTTP 302', res => void res.writeHead(302, { location: '/keys' }).end()],
    ['a response without keys', 'the response is not a JSON Web Key Set', res => void res.end('<html>')],
    ['a response without an end', 'the response is larger than 1MiB', res => void res.end(Buffer.alloc(1_100_000))],
  ] as readonly (readonly [string, string, (res: ServerResponse) => void])[]) {
    t.test(what, async t => {
      const { state, jwks } = await startIssuer(t)
      state.respond = respond
      const { sign, find, linesOf } = await setUp(t, { jwks })
      t.equal(await find(await sign(ec)), 'tokenUnverifiable')
      t.match(linesOf('jwt-keys-unavailable'), [{ reason }])
    })
  }
})

t.test('keys of a file', async t => {
  const keySetOf = (...keys: readonly { readonly jwk: object }[]): string => JSON.stringify({ keys: keys.map(({ jwk }) => jwk) })

  t.test('a token of any key of the file is accepted, and the file is read again when it changes', async t => {
    const keyFile = join(t.testdir({ 'keys.json': keySetOf(ec, other, rsa) }), 'keys.json')
    const { clock, sign, find, linesOf } = await setUp(t, { keyFile })
    for (const key of [ec, other, rsa, { ...other, kid: undefined }]) t.equal(await find(await sign(key)), 'granted', String(key.kid))
    t.equal(await find(await sign({ ...(await newKey('ES256')) })), 'tokenInvalid')
    const token = await sign(ec)
    t.equal(await find(token), 'granted')
    writeFileSync(keyFile, 'torn')
    const change = async (event: string, count: number) => {
      clock.advance(5_000)
      clock.advance(200)
      await waitUntil(() => linesOf(event).length === count)
    }
    await change('jwt-keys-unavailable', 1)
    t.equal(await find(token), 'granted', 'the keys from before')
    writeFileSync(keyFile, keySetOf(rsa))
    await change('jwt-keys-loaded', 2)
    t.equal(await find(token), 'tokenInvalid')
    t.equal(await find(await sign(rsa)), 'granted')
  })

  t.test('a JSON Web Key Set is used by the ids of its keys', async t => {
    const keyFile = join(t.testdir({ 'keys.json': JSON.stringify({ keys: [ec.jwk, ed.jwk] }) }), 'keys.json')
    const { sign, find } = await setUp(t, { keyFile })
    t.equal(await find(await sign(ed)), 'granted')
    t.equal(await find(await sign({ ...ec, kid: 'ed' })), 'tokenInvalid')
  })

  t.test('what is wrong with a file is said in words, without its content', async t => {
    const { privateKey } = generateKeyPairSync('ed25519')
    const weak = generateKeyPairSync('rsa', { modulusLength: 1_024 }).publicKey
    const curve = generateKeyPairSync('ec', { namedCurve: 'secp256k1' }).publicKey
    for (const [content, message] of [
      ['nonsense', 'the file has no JSON Web Key Set'],
      [await exportSPKI(ec.publicKey), 'the file is PEM, not a JSON Web Key Set'],
      ['{ "keys": [] }', 'the file has no JSON Web Key Set'],
      ['{ "keys": ', 'the file has no JSON Web Key Set'],
      [privateKey.export({ format: 'pem', type: 'pkcs8' }), 'the file is PEM, not a JSON Web Key Set'],
      [JSON.stringify({ keys: [ec.jwk, privateKey.export({ format: 'jwk' })] }), 'key 2: this key is private'],
      [JSON.stringify({ keys: [{ kty: 'oct', k: 'c2VjcmV0' }] }), 'key 1: this key is symmetric'],
      [JSON.stringify({ keys: [{ kty: 'EC', crv: 'P-256', x: 'a', y: 'b' }] }), 'key 1: the key cannot be read'],
      [JSON.stringify({ keys: [weak.export({ format: 'jwk' })] }), 'key 1: an RSA key must have at least 2048 bits, not 1024'],
      [JSON.stringify({ keys: [curve.export({ format: 'jwk' })] }), 'key 1: keys of the type secp256k1 are not supported'],
    ] as const) {
      t.match(readKeyFile(join(t.testdir({ keys: content }), 'keys')), { message })
    }
    t.match(readKeyFile(join(t.testdir(), 'none')), { message: 'no such file' })
  })
})

t.test('a reload applies other options at once; without them a token is a malformed key', async t => {
  const { jwks } = await startIssuer(t)
  const { configure, sign, find, metrics } = await setUp(t, { jwks })
  const token = await sign(ec, { 'https://example.test/key': 'key_1', sub: 'person' })
  t.equal(await find(token), 'tokenInvalid')
  await configure({ claim: 'https://example.test/key' })
  t.equal(await find(token), 'granted')
  await configure({ claim: 'https://example.test/key', audience: ['shop'] })
  t.equal(await find(token), 'tokenInvalid')
  await configure(undefined)
  t.equal(await find(token), 'malformed')
  t.notOk(
    metrics.families().some(({ name }) => /token|jwt/.test(name)),
    'no series are left',
  )
})

t.test('a reload that is abandoned changes no metric of the tokens that are accepted', async t => {
  const keyFile = join(t.testdir({ 'keys.json': JSON.stringify({ keys: [ec.jwk] }), torn: 'torn' }), 'keys.json')
  const { configure, jwt, metrics } = await setUp(t, { keyFile })
  const valuesOf = (pattern: RegExp) =>
    metrics.families().flatMap(({ name, series }) => (pattern.test(name) ? series.map(({ values }) => values[0]) : []))
  const abandonTorn = async () => {
    const prepared = await jwt.prepare({ issuer, audience: ['tollgate'], claim: 'sub', keyFile: join(keyFile, '..', 'torn') })
    t.same(valuesOf(/jwt/), isAccepted ? [1] : [], 'prepared')
    prepared.abandon()
  }
  let isAccepted = true
  await abandonTorn()
  t.same(valuesOf(/jwt/), [1])
  await configure(undefined)
  isAccepted = false
  await abandonTorn()
  t.same(valuesOf(/token|jwt/), [])
})

t.test('keys that arrive after they were replaced by others log nothing and are not fetched again', async t => {
  const { state, jwks } = await startIssuer(t)
  for (const status of [500, 200]) {
    const services = { clock: new TestClock(), log: new TestLog() }
    const requested = new Promise<ServerResponse>(resolve => {
      state.respond = resolve
    })
    const keys = new RemoteKeySet(new URL(jwks), { ...services, jose: await import('jose') })
    const response = await requested
    keys.close()
    response.writeHead(status).end(JSON.stringify({ keys: [ec.jwk] }))
    await keys.loaded
    t.same(services.log.lines, [], `HTTP ${status}`)
    t.equal(services.clock.timerCount, 0)
  }
})

t.test('an API key never has the form of a token', async t => {
  for (const text of [generateApiKey().reveal(), 'key_1', '', 'a.b', 'a.b.c.d', '.b.c', 'a b.c.d']) t.notOk(isJwt(text), text)
})
