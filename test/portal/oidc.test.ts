import t from '../support/tap.ts'
import { Secret } from '../../src/plugin/secret.ts'
import { personOfIdentity } from '../../src/portal/people/oidc-identities.ts'
import { openOidcProvider } from '../../src/portal/people/oidc-provider.ts'
import { createSignInToken, useSignInToken } from '../../src/portal/people/one-time-links.ts'
import { addPerson, removePerson, setEmail } from '../../src/portal/people/people.ts'
import { systemClock } from '../../src/services/clock.ts'
import { tempStore } from '../store/temp-store.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { TestClock, TestLog } from '../support/fakes.ts'
import { startOidcProvider } from '../support/oidc-provider.ts'
import type { OidcClaims } from '../support/oidc-provider.ts'
import { createPortalClient, createPortalDeployment, printSignInToken, signInToPortal } from '../support/portal-client.ts'
import type { PortalClient } from '../support/portal-client.ts'
import { skipWithoutRedis, startRedisServer } from '../support/redis-server.ts'
import { startStandardOidcProvider } from '../support/standard-oidc-provider.ts'

const dan = { sub: 'dan', email: 'Dan@elsewhere.test', email_verified: true }

const begin = async (client: PortalClient): Promise<string> => (await client.post('/oidc/authorization-url')).json.url

t.test('signing in at an OpenID Connect provider', async t => {
  const [node, provider] = [await startFakeNode({}), await startOidcProvider()]
  const deployment = createPortalDeployment(node.url, {
    gateway: {
      listen: { rpc: '127.0.0.1:0', admin: '127.0.0.1:0', portal: '127.0.0.1:0', trustedProxies: ['127.0.0.1'] },
      portal: {
        url: 'http://127.0.0.1',
        oidc: { ...provider.config, name: 'Example' },
        signUp: { plan: 'core', perDay: 1, domains: ['example.org'] },
      },
    },
    env: provider.env,
  })
  t.teardown(async () => {
    await deployment.remove()
    await Promise.all([node.stop(), provider.stop()])
  })
  await deployment.addAccount('alice')
  const gateway = await deployment.start()
  const newBrowser = () => createPortalClient(gateway.portal ?? '')
  const signIn = async (claims: OidcClaims, address = '192.0.2.1') => {
    const browser = newBrowser()
    const query = provider.authorize(await begin(browser), claims)
    return { browser, query, ...(await browser.request('POST', '/oidc/session', { query }, { 'x-forwarded-for': address })) }
  }

  t.test('the page is told the name of the provider', async t => {
    t.match((await newBrowser().get('/sign-in-options')).json, { email: false, signUp: false, provider: 'Example' })
  })

  t.test('a person to whom the operator has given the address is signed in, under a new session id', async t => {
    await printSignInToken(deployment, 'alice', '--person', 'dan', '--role', 'viewer', '--email', 'dan@elsewhere.test')
    const browser = newBrowser()
    const cookie = 'tollgate=planted; tollgate.sig=planted'
    const { headers, json: begun } = await browser.request('POST', '/oidc/authorization-url', undefined, { cookie })
    t.match(headers.get('set-cookie'), /\btollgate-sign-in=[\w-]{43};.*samesite=lax; httponly/)
    const { status, json } = await browser.post('/oidc/session', { query: provider.authorize(begun.url, dan) })
    t.match({ status, json }, { status: 201, json: { person: { name: 'dan', role: 'viewer' }, account: { name: 'alice' } } })
    t.match((await browser.get('/session')).json, { person: { name: 'dan' } })
    t.notMatch(browser.cookies(), 'planted')
  })

  t.test('afterwards issuer and subject are the person, whatever the e-mail address', async t => {
    t.match(await signIn({ sub: 'dan', email: 'dan@new.test', email_verified: false }), { status: 201, json: { person: { name: 'dan' } } })
    t.match(await signIn({ ...dan, sub: 'another' }), { status: 403, json: { error: { code: 'other-identity' } } })
  })

  t.test('a person sees the identity, and never unlinks the last way to sign in', async t => {
    const { browser } = await signIn(dan)
    const { json } = await browser.get('/identities')
    t.match(json, [{ issuer: provider.config.issuer, linked: /^20/ }])
    t.equal(json.length, 1)
    t.match(await browser.delete(`/identities/${json[0].id}`), {
      status: 409,
      json: { error: { code: 'last-sign-in', message: 'the identity is your only way to sign in: this gateway mails no sign-in links' } },
    })
    t.equal((await signIn(dan)).status, 201, 'it still signs in')
    const alice = await signInToPortal(deployment, gateway, 'alice')
    t.same((await alice.get('/identities')).json, [])
    t.equal((await alice.delete(`/identities/${json[0].id}`)).status, 404, 'of another person')
  })

  t.test('an address of a domain gets an account with the plan of sign-up, as long as the day is not full', async t => {
    const { browser, status } = await signIn({ sub: 'new', email: 'new@example.org', email_verified: true })
    t.equal(status, 201)
    t.match((await browser.get('/account')).json, { account: { name: 'new@example.org' }, plan: { name: 'core' } })
    t.match(await signIn({ sub: 'new', email: 'new@example.org', email_verified: true }), { status: 201 })
    t.match(await signIn({ sub: 'late', email: 'late@example.org', email_verified: true }), {
      status: 403,
      json: { error: { code: 'sign-up-full' } },
    })
  })

  t.test(
    'who was invited chooses at the first sign-in, which links the identity; without an invitation or a domain nobody gets in',
    async t => {
      const alice = await signInToPortal(deployment, gateway, 'alice')
      // Failed sign-ins are limited by network.
      const network = '198.51.100.200'
      const ivy = { sub: 'ivy', email: 'ivy@elsewhere.test', email_verified: true }
      t.match(await signIn(ivy, network), { status: 403, json: { error: { code: 'not-invited' } } })
      const { json: added } = await alice.post('/people', { name: 'ivy', role: 'viewer', email: 'ivy@elsewhere.test' })
      t.match(added, { person: { invitedUntil: /^20/ }, link: null })
      t.match(await signIn({ ...ivy, email_verified: false }, network), { status: 403, json: { error: { code: 'email-unverified' } } })
      const { browser, status, json: choice } = await signIn(ivy, network)
      t.match(
        { status, choice },
        { status: 201, choice: { account: null, signUp: false, invitations: [{ account: 'alice', inviter: 'owner', role: 'viewer' }] } },
      )
      t.equal((await browser.get('/session')).status, 401)
      t.match(await browser.post('/session', { token: choice.token, ownAccount: true }), {
        status: 403,
        json: { error: { code: 'not-invited' } },
      })
      t.match(await browser.post('/session', { token: choice.token, invitation: added.person.id }), {
        status: 201,
        json: { person: { name: 'ivy', emailVerified: true }, account: { name: 'alice' } },
      })
      t.match((await browser.get('/identities')).json, [{ issuer: provider.config.issuer }])
      t.match(await signIn({ sub: 'ivy', email: 'other@elsewhere.test' }), { status: 201, json: { person: { name: 'ivy' } } })
      t.match(await signIn({ ...ivy, sub: 'ivy2' }, network), { status: 403, json: { error: { code: 'other-identity' } } })
    },
  )

  t.test('an e-mail address that the ID token does not have is read from userinfo', async t => {
    provider.state.sendsEmailInUserInfo = true
    const signedIn = await signIn({ sub: 'eve', email: 'eve@other.test', email_verified: true })
    provider.state.sendsEmailInUserInfo = false
    t.match(signedIn, { status: 403, json: { error: { code: 'not-invited', message: /^eve@other.test has no account/ } } })
  })

  t.test('what the provider does not vouch for signs nobody in', async t => {
    const past = Math.floor(Date.now() / 1_000) - 3_600
    const cases: readonly (readonly [label: string, claims: OidcClaims, status: number, code: string])[] = [
      ['wrong nonce', { nonce: 'wrong' }, 401, 'sign-in-invalid'],
      ['no nonce', { nonce: undefined }, 401, 'sign-in-invalid'],
      ['wrong audience', { aud: 'another-client' }, 401, 'sign-in-invalid'],
      ['wrong issuer', { iss: 'https://login.example.org' }, 401, 'sign-in-invalid'],
      ['expired', { iat: past, exp: past + 60 }, 401, 'sign-in-invalid'],
      ['no subject', { sub: undefined }, 401, 'sign-in-invalid'],
      ['unverified e-mail address', { sub: 'x', email_verified: false }, 403, 'email-unverified'],
      ['e-mail address that may be unverified', { sub: 'x', email_verified: undefined }, 403, 'email-unverified'],
      ['no e-mail address', { sub: 'x', email: undefined }, 403, 'email-unverified'],
      ['text that is no e-mail address', { sub: 'x', email: 'a@example.org@other.test' }, 403, 'email-unverified'],
      ['another domain', { sub: 'x', email: 'x@example.org.other.test' }, 403, 'not-invited'],
      ['a subdomain', { sub: 'x', email: 'x@sub.example.org' }, 403, 'not-invited'],
    ]
    for (const [label, claims, status, code] of cases) {
      // Failed sign-ins are limited by network.
      const from = { 'x-forwarded-for': `198.51.100.${cases.findIndex(each => each[0] === label)}` }
      const browser = newBrowser()
      const query = provider.authorize(await begin(browser), { ...dan, ...claims })
      const refused = await browser.request('POST', '/oidc/session', { query }, from)
      t.match({ status: refused.status, json: refused.json }, { status, json: { error: { code } } }, label)
      t.equal((await browser.get('/session')).status, 401, label)
    }
    t.equal(JSON.parse((await deployment.run('accounts', 'list', '--json')).stdout).length, 2, 'no account was made')
  })

  t.test('an ID token that somebody else has signed signs nobody in', async t => {
    provider.state.usesUnknownKey = true
    const refused = await signIn(dan)
    provider.state.usesUnknownKey = false
    t.match(refused, { status: 401, json: { error: { code: 'sign-in-invalid' } } })
  })

  t.test('what a browser came back with works once, in that browser, and not with another state', async t => {
    const { browser, query } = await signIn(dan)
    t.match(await browser.post('/oidc/session', { query }), { status: 401, json: { error: { code: 'sign-in-expired' } } }, 'replayed')
    const [victim, attacker] = [newBrowser(), newBrowser()]
    const stolen = provider.authorize(await begin(victim), dan)
    t.match(await attacker.post('/oidc/session', { query: stolen }), { status: 401, json: { error: { code: 'sign-in-expired' } } })
    await begin(attacker)
    const cookies = attacker.cookies()
    t.match(await attacker.post('/oidc/session', { query: stolen }), { status: 401, json: { error: { code: 'sign-in-invalid' } } })
    t.match(
      await newBrowser().request('POST', '/oidc/session', { query: stolen }, { cookie: cookies }),
      { status: 401, json: { error: { code: 'sign-in-expired' } } },
      'a cookie that was used up',
    )
    t.match(await victim.post('/oidc/session', { query: stolen }), { status: 201 })
    const again = newBrowser()
    const replayedCode = new URLSearchParams(provider.authorize(await begin(again), dan))
    replayedCode.set('code', new URLSearchParams(stolen).get('code') ?? '')
    t.match(await again.post('/oidc/session', { query: replayedCode.toString() }), {
      status: 401,
      json: { error: { code: 'sign-in-invalid' } },
    })
  })

  t.test('what a user refuses at the provider is said', async t => {
    const browser = newBrowser()
    const state = new URL(await begin(browser)).searchParams.get('state') ?? ''
    t.match(await browser.post('/oidc/session', { query: `error=access_denied&state=${state}` }), {
      status: 401,
      json: { error: { code: 'provider-refused', message: 'Example did not sign you in: access_denied' } },
    })
  })

  t.test('the log has neither the secret of the client nor a token', async t => {
    const log = JSON.stringify(gateway.log) + gateway.stderr()
    t.match(log, /"oidc-failed"/)
    t.notMatch(log, /oidc-canary|eyJ|elsewhere\.test/)
  })
})

t.test('a certified provider, with its own pages and its usual options, signs people in', async t => {
  const [node, provider] = [await startFakeNode({}), await startStandardOidcProvider('http://127.0.0.1/sign-in')]
  const deployment = createPortalDeployment(node.url, {
    gateway: { portal: { url: 'http://127.0.0.1', oidc: provider.config, signUp: { plan: 'core', domains: ['example.org'] } } },
    env: provider.env,
  })
  t.teardown(async () => {
    await deployment.remove()
    await Promise.all([node.stop(), provider.stop()])
  })
  const gateway = await deployment.start()
  const signIn = async (login: string) => {
    const browser = createPortalClient(gateway.portal ?? '')
    return { browser, ...(await browser.post('/oidc/session', { query: await provider.authorize(await begin(browser), login) })) }
  }
  const { browser, status } = await signIn('dan')
  t.equal(status, 201)
  t.match((await browser.get('/account')).json, { account: { name: 'dan@example.org' }, plan: { name: 'core' } })
  t.match((await browser.get('/identities')).json, [{ issuer: provider.config.issuer }])
  t.match((await signIn('dan')).json, { account: { name: 'dan@example.org' } }, 'the same account')
  t.match((await signIn('eve')).json, { account: { name: 'eve@example.org' } }, 'another one')
  const tampered = createPortalClient(gateway.portal ?? '')
  const query = new URLSearchParams(await provider.authorize(await begin(tampered), 'dan'))
  query.set('iss', 'https://elsewhere.test')
  t.match(await tampered.post('/oidc/session', { query: query.toString() }), { status: 401, json: { error: { code: 'sign-in-invalid' } } })
  t.notMatch(JSON.stringify(gateway.log) + gateway.stderr(), new RegExp(provider.clientSecret))
})

t.test('while the provider is away, or its metadata name another issuer, sign-in links work, and afterwards it is used', async t => {
  const [node, provider] = [await startFakeNode({}), await startOidcProvider()]
  const deployment = createPortalDeployment(node.url, {
    gateway: {
      portal: {
        url: 'http://127.0.0.1',
        oidc: provider.config,
        smtp: { url: 'smtp://127.0.0.1:1', from: 'Tollgate <no-reply@example.org>' },
      },
    },
    env: provider.env,
  })
  t.teardown(async () => {
    await deployment.remove()
    await Promise.all([node.stop(), provider.stop()])
  })
  await deployment.addAccount('alice')
  await printSignInToken(deployment, 'alice', '--person', 'dan', '--email', 'dan@elsewhere.test')
  const gateway = await deployment.start()
  const browser = createPortalClient(gateway.portal ?? '')
  const unavailable = {
    status: 503,
    json: { error: { code: 'provider-unavailable', message: /^OpenID Connect cannot be used now; sign-in links/ } },
  }
  provider.state.metadataIssuer = 'http://127.0.0.1:1'
  t.match(await browser.post('/oidc/authorization-url'), unavailable)
  t.match(await gateway.waitForEvent('oidc-failed'), { step: 'metadata', reason: /issuer/ })
  provider.state.metadataIssuer = undefined
  await provider.stop()
  t.match(await browser.post('/oidc/authorization-url'), unavailable)
  t.equal((await (await signInToPortal(deployment, gateway, 'alice')).get('/session')).status, 200)
  await provider.restart()
  const query = provider.authorize(await begin(browser), dan)
  await provider.stop()
  t.match(await browser.post('/oidc/session', { query }), unavailable)
  await provider.restart()
  t.match(await browser.post('/oidc/session', { query: provider.authorize(await begin(browser), dan) }), { status: 201 })

  t.test('who gets links by e-mail unlinks the identity; another one with the address may sign in then', async t => {
    const other = createPortalClient(gateway.portal ?? '')
    const signInAsOther = async () =>
      other.post('/oidc/session', { query: provider.authorize(await begin(other), { ...dan, sub: 'other' }) })
    t.match(await signInAsOther(), { status: 403, json: { error: { code: 'other-identity' } } })
    const [identity] = (await browser.get('/identities')).json
    t.equal((await browser.delete(`/identities/${identity.id}`)).status, 204)
    t.same((await browser.get('/identities')).json, [])
    t.equal((await browser.get('/session')).status, 200, 'the session stays')
    t.equal((await signInAsOther()).status, 201)
    t.match(JSON.parse((await deployment.run('changes', '--from', '2020-01-01', '--json')).stdout).at(-1), {
      action: 'person-changed',
      before: { identity: provider.config.issuer },
      after: { identity: null },
    })
  })
})

t.test('the metadata of the provider are read with the first sign-in, and again after an hour', async t => {
  const provider = await startOidcProvider()
  t.teardown(() => provider.stop())
  const clock = new TestClock()
  const { issuer, clientId } = provider.config
  const options = { issuer, clientId, clientSecret: new Secret('oidc-canary'), name: 'Example' }
  const { authorizationUrl } = openOidcProvider(options, 'http://127.0.0.1/sign-in', { clock, log: new TestLog() })
  t.equal(provider.state.metadataReads, 0)
  const [one, other] = await Promise.all([authorizationUrl('one'), authorizationUrl('other')])
  t.not(new URL(one).searchParams.get('state'), new URL(other).searchParams.get('state'))
  clock.advance(3_599_999)
  await authorizationUrl('one')
  t.equal(provider.state.metadataReads, 1)
  clock.advance(1)
  await authorizationUrl('one')
  t.equal(provider.state.metadataReads, 2)
})

t.test('a person has one identity: another issuer is not merged with it, and a removed person leaves none behind', async t => {
  const store = await tempStore(t, systemClock)
  await store.addAccount({ id: 'acc_1', name: 'alice', plan: 'core', created: 1 })
  const invite = async () => {
    const person = await addPerson(store, { account: 'acc_1', name: 'dan', role: 'viewer' })
    await setEmail(store, person, 'dan@example.org')
    return { ...person, email: 'dan@example.org' }
  }
  const services = { store, clock: systemClock }
  const provider = { name: 'Example' }
  const signIn = (issuer: string, subject: string) => personOfIdentity(services, provider, { issuer, subject, email: 'dan@example.org' })
  const invited = await invite()
  t.match(await signIn('https://one.test', 'dan'), { id: invited.id })
  await t.rejects(signIn('https://two.test', 'dan'), { status: 403, code: 'other-identity' })
  t.match(await signIn('https://one.test', 'dan'), { id: invited.id })
  await removePerson(store, invited)
  t.match(await signIn('https://one.test', 'dan'), { email: 'dan@example.org', id: undefined }, 'nobody')
  const next = await invite()
  t.match(await signIn('https://two.test', 'dan'), { id: next.id }, 'the address is free for another')
  const several = await Promise.allSettled(['x', 'y', 'z'].map(subject => signIn('https://two.test', subject)))
  t.same(
    several.map(({ status }) => status),
    ['rejected', 'rejected', 'rejected'],
  )
})

t.test('a person with another e-mail address signs in with the identity of that one, and the links mailed there, alone', async t => {
  const store = await tempStore(t, systemClock)
  await store.addAccount({ id: 'acc_1', name: 'alice', plan: 'core', created: 1 })
  const services = { store, clock: systemClock }
  const signIn = (subject: string, email: string) =>
    personOfIdentity(services, { name: 'Example' }, { issuer: 'https://one.test', subject, email })
  const person = await addPerson(store, { account: 'acc_1', name: 'owner', role: 'owner' })
  await setEmail(store, person, 'dan@example.org')
  t.match(await signIn('dan', 'dan@example.org'), { id: person.id })
  const mailed = await createSignInToken(store, systemClock, person, 'dan@example.org')
  const printed = await createSignInToken(store, systemClock, person)
  await setEmail(store, { ...person, email: 'dan@example.org' }, 'erin@example.org')
  t.match(await signIn('dan', 'dan@example.org'), { email: 'dan@example.org', id: undefined }, 'nobody')
  t.equal(await useSignInToken(store, mailed.reveal()), undefined)
  t.match(await useSignInToken(store, printed.reveal()), { id: person.id })
  t.match(await signIn('erin', 'erin@example.org'), { id: person.id })
})

t.test('a sign-in that began on one gateway ends on another that shares the store', { skip: skipWithoutRedis }, async t => {
  const [node, provider, redis] = [await startFakeNode({}), await startOidcProvider(), await startRedisServer()]
  const deployment = createPortalDeployment(node.url, {
    gateway: { store: redis.url, portal: { url: 'https://dashboard.example.org', oidc: provider.config } },
    env: provider.env,
  })
  t.teardown(async () => {
    await deployment.remove()
    await Promise.all([node.stop(), provider.stop(), redis.remove()])
  })
  await deployment.addAccount('alice')
  await printSignInToken(deployment, 'alice', '--person', 'dan', '--email', 'dan@example.org')
  const [one, other] = [await deployment.start(), await deployment.start()]
  const first = createPortalClient(one.portal ?? '')
  const { headers, json } = await first.post('/oidc/authorization-url')
  t.match(headers.get('set-cookie'), /^__Host-tollgate-sign-in=[\w-]{43}; path=\/; .*samesite=lax; secure; httponly$/)
  t.match(json.url, /redirect_uri=https%3A%2F%2Fdashboard.example.org%2Fsign-in/)
  const query = provider.authorize(json.url, { sub: 'dan', email: 'dan@example.org', email_verified: true })
  const second = createPortalClient(other.portal ?? '')
  t.match(await second.request('POST', '/oidc/session', { query }, { cookie: first.cookies() }), { status: 201 })
  t.match(await first.request('GET', '/session', undefined, { cookie: second.cookies() }), {
    status: 200,
    json: { person: { name: 'dan' } },
  })
})
