import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from '../support/tap.ts'
import type { StoreAddress } from '../../src/config/types.ts'
import { addPerson, setEmail } from '../../src/portal/people.ts'
import { openPortalLimits } from '../../src/portal/portal-limits.ts'
import { sessionRoutes } from '../../src/portal/routes/session.ts'
import { completeSignUp, createSignUpToken } from '../../src/portal/sign-up.ts'
import { systemClock } from '../../src/services/clock.ts'
import { openStore } from '../../src/store/open-store.ts'
import { dayMs } from '../../src/util/dates.ts'
import { tempFolder, tempStore } from '../store/temp-store.ts'
import { TestClock, TestLog } from '../support/fakes.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { startMailServer } from '../support/mail-server.ts'
import { createPortalClient, createPortalDeployment, printSignInToken, signInToPortal } from '../support/portal-client.ts'
import { skipWithoutRedis, startRedisServer } from '../support/redis-server.ts'
import { call } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

t.test('sign-in links by e-mail', async t => {
  const [node, mail] = [await startFakeNode({ eth_chainId: { result: '0x7a69' } }), await startMailServer()]
  const deployment = createPortalDeployment(node.url, {
    gateway: {
      portal: {
        url: 'http://127.0.0.1',
        smtp: { url: '${SMTP_URL}', from: 'Tollgate <no-reply@example.org>' },
        signUp: { plan: 'core', perDay: 2, domains: ['example.org'] },
      },
    },
    env: { SMTP_URL: mail.url },
  })
  t.teardown(async () => {
    await deployment.remove()
    await Promise.all([node.stop(), mail.stop()])
  })
  await deployment.addAccount('alice')
  const gateway = await deployment.start()
  const portalUrl = gateway.portal ?? ''
  const nobody = createPortalClient(portalUrl)
  const requestLink = (email: string) => nobody.post('/sign-in-links', { email })
  const signIn = async (token: string) => {
    const client = createPortalClient(portalUrl)
    return { client, ...(await client.post('/session', { token })) }
  }

  t.test('the page is told that they exist', async t => {
    t.match(await nobody.get('/sign-in-options'), { status: 200, json: { email: true, signUp: true } })
  })

  t.test('a new address makes an account when its link is opened, whose keys open the gateway', async t => {
    t.match(await requestLink('New.Dev+1@Example.org'), { status: 202, json: { email: 'new.dev+1@example.org' } })
    const token = await mail.tokenInMail(1)
    t.match(mail.received[0], { to: 'new.dev+1@example.org', message: /Subject: Create your Tollgate account/ })
    t.notMatch((await deployment.run('accounts', 'list')).stdout, 'new.dev', 'not before the link is opened')
    const { client, status, json } = await signIn(token)
    t.match(
      { status, json },
      { status: 201, json: { person: { role: 'owner', email: 'new.dev+1@example.org' }, account: { name: 'new.dev-1@example.org' } } },
    )
    t.match((await client.get('/account')).json, { plan: { name: 'core' } })
    const { json: key } = await client.post('/keys', { name: 'first' })
    await waitUntil(async () => (await call(gateway.http(key.key), 'eth_chainId')).result === '0x7a69')
    t.match(await signIn(token), { status: 401, json: { error: { code: 'link-invalid' } } }, 'a link works once')
  })

  t.test('an address has 254 characters at most', async t => {
    const local = 'a'.repeat(64)
    const domain = `${'b'.repeat(61)}.`.repeat(3)
    t.match(await requestLink(`${local}@${domain}test`), { status: 400, json: { error: { field: 'email' } } }, '255')
    t.match(await requestLink(`a@${'b.'.repeat(30_000)}test`), { status: 400, json: { error: { field: 'email' } } })
    t.match(await requestLink(`${local.slice(1)}@${domain}test`), { status: 202 }, '254')
  })

  t.test('an address with a person gets links to the account it has', async t => {
    await requestLink('new.dev+1@example.org')
    const token = await mail.tokenInMail(2)
    t.match(mail.received[1]?.message, /Subject: Sign in to Tollgate/)
    t.match(await signIn(token), { status: 201, json: { account: { name: 'new.dev-1@example.org' } } })
  })

  t.test('an operator and an owner give people an address, which nobody else may have', async t => {
    await printSignInToken(deployment, 'alice', '--person', 'dan', '--role', 'viewer', '--email', 'dan@elsewhere.test')
    t.match(JSON.parse((await deployment.run('changes', '--account', 'alice', '--json')).stdout).slice(-2), [
      { action: 'person-changed', by: { kind: 'command' }, before: { email: null }, after: { email: 'dan@elsewhere.test' } },
      { action: 'link-created' },
    ])
    await requestLink('dan@elsewhere.test')
    t.match(await signIn(await mail.tokenInMail(3)), {
      status: 201,
      json: { person: { name: 'dan', role: 'viewer', emailVerified: true }, account: { name: 'alice' } },
    })
    const { code, stderr } = await deployment.run('accounts', 'link', 'alice', '--person', 'eve', '--email', 'dan@elsewhere.test')
    t.match({ code, stderr }, { code: 1, stderr: /somebody else signs in with dan@elsewhere.test/ })
    const alice = await signInToPortal(deployment, gateway, 'alice')
    t.match(await alice.post('/people', { name: 'eve2', email: 'Dan@elsewhere.test' }), {
      status: 409,
      json: { error: { code: 'email-taken', field: 'email' } },
    })
    t.match(await alice.post('/people', { name: 'finn', email: 'no address' }), { status: 400, json: { error: { field: 'email' } } })
    const { json: added } = await alice.post('/people', { name: 'gus', email: 'gus@elsewhere.test' })
    const tokenOfRemoved = await mail.tokenInMail(4)
    await alice.delete(`/people/${added.person.id}`)
    t.match(await nobody.post('/email-confirmations', { token: tokenOfRemoved }), { status: 404 })
    t.match(
      await alice.post('/people', { name: 'hal', role: 'owner', email: 'gus@elsewhere.test' }),
      { status: 201, json: { person: { emailVerified: false } } },
      'a removed person leaves the address free',
    )
  })

  t.test('an address is confirmed by the link that was mailed there, and by no other', async t => {
    const token = await mail.tokenInMail(5)
    t.match(mail.received[4], { to: 'gus@elsewhere.test', message: /Subject: Confirm your e-mail address/ })
    t.match(await signIn(token), { status: 401 }, 'it signs nobody in')
    const { client: hal } = await signIn(await printSignInToken(deployment, 'alice', '--person', 'hal'))
    t.match((await hal.get('/session')).json, { person: { emailVerified: false } }, 'nor does a link that was printed confirm')
    const { id } = (await hal.get('/session')).json.person
    const isReceiver = async () => (await hal.get('/alerts')).json.mailReceivers.includes('hal')
    t.notOk(await isReceiver())
    const { client: stranger } = await signIn(await printSignInToken(deployment, 'new.dev-1@example.org'))
    t.match(await stranger.post(`/people/${id}/email-confirmation`), { status: 404, json: { error: { code: 'not-found' } } })
    t.match(await hal.post(`/people/${id}/email-confirmation`), { status: 202, json: { email: 'gus@elsewhere.test' } })
    const second = await mail.tokenInMail(6)
    t.match(await nobody.post('/email-confirmations', { token: second }), { status: 200, json: { email: 'gus@elsewhere.test' } })
    t.match((await hal.get('/session')).json, { person: { emailVerified: true } })
    t.ok(await isReceiver())
    t.match(await nobody.post('/email-confirmations', { token: second }), { status: 404, json: { error: { code: 'link-invalid' } } })
    t.match(await hal.post(`/people/${id}/email-confirmation`), { status: 409, json: { error: { code: 'verified' } } })
    const { client: viewer } = await signIn(await printSignInToken(deployment, 'alice', '--person', 'dan'))
    t.match(await viewer.post(`/people/${id}/email-confirmation`), { status: 403 })
  })

  t.test('an address that may not sign up gets the same answer, and no mail', async t => {
    t.match(await requestLink('someone@other.test'), { status: 202, json: { email: 'someone@other.test' } })
    t.match(await requestLink('second@example.org'), { status: 202 })
    t.match(await signIn(await mail.tokenInMail(7)), { status: 201 })
    t.equal(mail.received[6]?.to, 'second@example.org')
    t.match(await requestLink('third@example.org'), { status: 202 }, 'two accounts a day')
    await requestLink('second@example.org')
    await mail.tokenInMail(8)
    t.same(
      mail.received.slice(7).map(({ to }) => to),
      ['second@example.org'],
    )
  })

  t.test('links to one address are limited, and what the mail server refuses is logged without a secret', async t => {
    mail.refuseAll()
    const statuses = []
    for (let i = 0; i < 6; i += 1) statuses.push((await requestLink('dan@elsewhere.test')).status)
    t.same(statuses, [202, 202, 202, 202, 429, 429])
    await waitUntil(() => gateway.log.some(({ msg }) => String(msg).startsWith('mail server refused a message')))
    t.notMatch(JSON.stringify(gateway.log) + gateway.stderr(), /mail-canary|dan@elsewhere|no such mailbox/)
  })
})

t.test('the store is read as often before the response for an address that has an account as for another', async t => {
  const store = await tempStore(t, systemClock)
  const person = await addPerson(store, { account: 'acc_1', name: 'owner', role: 'owner' })
  await setEmail(store, person, 'known@example.org')
  const route = sessionRoutes.find(({ path }) => path === '/sign-in-links')
  for (const email of ['known@example.org', 'unknown@example.org']) {
    let reads = 0
    let sent = 0
    const findRecord: typeof store.findRecord = (...record) => {
      reads += 1
      return store.findRecord(...record)
    }
    const services = {
      ...{ store: { ...store, findRecord }, clock: systemClock, url: 'http://127.0.0.1', limits: openPortalLimits(systemClock) },
      ...{ log: new TestLog(), signUp: { plan: 'core', perDay: 5, domains: [] } },
      sendMail: async () => {
        sent += 1
      },
    }
    await route?.handle({ body: { email }, callerNetwork: '203.0.113.7' } as never, services as never)
    t.equal(reads, 1, email)
    await waitUntil(() => sent === 1)
  }
})

t.test('mails to strangers are limited, whatever network asks for them and whatever the address', async t => {
  const store = await tempStore(t, systemClock)
  const person = await addPerson(store, { account: 'acc_1', name: 'owner', role: 'owner' })
  await setEmail(store, person, 'known@example.org')
  const [clock, log, sent] = [new TestClock(), new TestLog(), [] as string[]]
  const signUp = { plan: 'core', perDay: 11, domains: [] }
  const services = {
    ...{ store, clock, log, signUp, url: 'http://127.0.0.1', limits: openPortalLimits(clock) },
    sendMail: async ({ to }: { readonly to: string }) => void sent.push(to),
  }
  const route = sessionRoutes.find(({ path }) => path === '/sign-in-links')
  const requestLink = async (email: string, callerNetwork: string) =>
    route?.handle({ body: { email }, callerNetwork } as never, services as never) // what it reads of them
  for (let i = 1; i <= 5; i += 1) await requestLink(`victim+${i}@example.org`, `10.0.0.${i}`)
  await t.rejects(requestLink('victim+6@example.org', '10.0.0.6'), { message: /mails to this address/ }, 'one mailbox')
  for (let i = 6; i <= 130; i += 1) await requestLink(`v${i}@example.org`, `10.0.0.${i}`)
  await requestLink('known@example.org', '10.0.0.6')
  await waitUntil(() => sent.includes('known@example.org'))
  t.equal(sent.length, 110 + 1)
  t.equal(log.lines.filter(({ message }) => message.startsWith('too many links')).length, 1)
  clock.advance(dayMs)
  await requestLink('later@example.org', '10.0.0.7')
  await waitUntil(() => sent.includes('later@example.org'))
})

t.test('without a mail server no links are sent', async t => {
  const node = await startFakeNode({})
  const deployment = createPortalDeployment(node.url)
  t.teardown(async () => {
    await deployment.remove()
    await node.stop()
  })
  const nobody = createPortalClient((await deployment.start()).portal ?? '')
  t.match((await nobody.get('/sign-in-options')).json, { email: false, signUp: false })
  t.match(await nobody.post('/sign-in-links', { email: 'a@b.test' }), { status: 404, json: { error: { code: 'no-mail' } } })
})

t.test('sessions stay signed in while `portal.secret` is replaced, until its previous value goes', async t => {
  const node = await startFakeNode({})
  const deployment = createPortalDeployment(node.url, { gateway: { portal: { url: 'http://127.0.0.1', secret: 'first' } } })
  t.teardown(async () => {
    await deployment.remove()
    await node.stop()
  })
  await deployment.addAccount('alice')
  const first = await deployment.start()
  const cookie = (await signInToPortal(deployment, first, 'alice')).cookies()
  await first.stop()
  const statusWith = async (portal: object): Promise<number> => {
    const file = join(deployment.dir, 'gateway.yaml')
    const config = JSON.parse(readFileSync(file, 'utf8'))
    writeFileSync(file, JSON.stringify({ ...config, portal: { url: 'http://127.0.0.1', ...portal } }))
    const gateway = await deployment.start()
    const { status } = await createPortalClient(gateway.portal ?? '').request('GET', '/session', undefined, { cookie })
    await gateway.stop()
    return status
  }
  t.equal(await statusWith({ secret: 'second', previousSecret: 'first' }), 200)
  t.equal(await statusWith({ secret: 'second' }), 401)
})

t.test(
  'however many sign-ups complete at the same time, on several gateways, `perDay` of them make an account, and one address makes one',
  async t => {
    const redis = skipWithoutRedis ? undefined : await startRedisServer()
    t.teardown(() => redis?.remove())
    const addresses: readonly StoreAddress[] = [{ kind: 'lmdb', path: await tempFolder(t) }, ...(redis ? [redis.address] : [])]
    for (const address of addresses) {
      t.test(address.kind, async t => {
        const stores = await Promise.all([1, 2, 3].map(() => openStore(address, systemClock)))
        t.teardown(() => Promise.all(stores.map(store => store.close())))
        const signUp = { plan: 'core', perDay: 5, domains: [] }
        // The day must not end during the test.
        const startMs = systemClock.now()
        const clock = { ...systemClock, now: () => startMs }
        const gateways = stores.map(store => ({ store, clock, signUp }))
        const signUpAll = (names: readonly string[]) =>
          Promise.all(
            names.flatMap(name =>
              gateways.map(async (gateway, i) =>
                completeSignUp(gateway, (await createSignUpToken(gateway, `${name}${i}@example.org`)).reveal()),
              ),
            ),
          )
        const links = await Promise.all(gateways.map(gateway => createSignUpToken(gateway, 'same@example.org')))
        const opened = await Promise.allSettled(gateways.map((gateway, i) => completeSignUp(gateway, links[i]?.reveal() ?? '')))
        t.equal((await stores[0]?.accounts())?.length, 1, 'one address makes one account')
        for (const each of opened) {
          if (each.status === 'fulfilled') t.match(each.value, { email: 'same@example.org', role: 'owner' })
          else t.match(each.reason, { status: 409, code: 'sign-up-running' })
        }
        t.equal((await signUpAll(['a', 'b', 'c'])).filter(person => person !== undefined).length, 4)
        t.equal((await stores[0]?.accounts())?.length, 5)
        t.same(await signUpAll(['d']), [undefined, undefined, undefined], 'the day stays full')
      })
    }
  },
)
