import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from '../support/tap.ts'
import type { StoreAddress } from '../../src/config/types.ts'
import type { ApiError } from '../../src/portal/api-errors.ts'
import {
  acceptInvitation,
  addInvitation,
  findInvitationsTo,
  listInvitations,
  removeInvitation,
  renewInvitation,
} from '../../src/portal/people/invitations.ts'
import { confirmEmail, createAddressToken, mailConfirmation, withAddressToken } from '../../src/portal/people/one-time-links.ts'
import type { SendMail } from '../../src/portal/mail/mailer.ts'
import { addPerson, findPerson, listPeople, setEmail } from '../../src/portal/people/people.ts'
import { openPortalLimits } from '../../src/portal/portal-limits.ts'
import { sessionRoutes } from '../../src/portal/routes/session.ts'
import { signInWithAddress } from '../../src/portal/people/proven-addresses.ts'
import { signUpWithEmail } from '../../src/portal/people/sign-up.ts'
import { systemClock } from '../../src/services/clock.ts'
import { openStore } from '../../src/store/open-store.ts'
import { dayMs } from '../../src/util/dates.ts'
import { tempFolder, tempStore } from '../store/temp-store.ts'
import { TestClock, TestLog } from '../support/fakes.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { startMailServer } from '../support/mail-server.ts'
import { openApiChecker } from '../support/openapi-checker.ts'
import { createPortalClient, createPortalDeployment, printSignInToken, signInToPortal } from '../support/portal-client.ts'
import type { PortalClient, PortalResponse } from '../support/portal-client.ts'
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

  t.test('an operator gives people an address, which nobody else may have', async t => {
    await printSignInToken(deployment, 'alice', '--person', 'dan', '--role', 'viewer', '--email', 'dan@elsewhere.test')
    t.match(JSON.parse((await deployment.run('changes', '--from', '2020-01-01', '--account', 'alice', '--json')).stdout).slice(-2), [
      { action: 'person-changed', by: { kind: 'command' }, before: { email: null }, after: { email: 'dan@elsewhere.test' } },
      { action: 'link-created' },
    ])
    await mail.tokenInMail(3)
    t.match(mail.received[2], { to: 'dan@elsewhere.test', message: /Subject: Confirm your e-mail address/ }, 'a mail asks to confirm it')
    await requestLink('dan@elsewhere.test')
    t.match(await signIn(await mail.tokenInMail(4)), {
      status: 201,
      json: { person: { name: 'dan', role: 'viewer', emailVerified: true }, account: { name: 'alice' } },
    })
    const { code, stderr } = await deployment.run(
      'accounts',
      'link',
      'alice',
      '--person',
      'eve',
      '--role',
      'viewer',
      '--email',
      'dan@elsewhere.test',
    )
    t.match({ code, stderr }, { code: 1, stderr: /somebody else signs in with dan@elsewhere.test/ })
  })

  t.test('an address is confirmed by the link that was mailed there, and by no other', async t => {
    const { client: hal } = await signIn(await printSignInToken(deployment, 'alice', '--person', 'hal', '--email', 'gus@elsewhere.test'))
    t.match((await hal.get('/session')).json, { person: { emailVerified: false } }, 'nor does a link that was printed confirm')
    const { id } = (await hal.get('/session')).json.person
    const isReceiver = async () => (await hal.get('/alerts')).json.mailReceivers.includes('hal')
    t.notOk(await isReceiver())
    const { client: stranger } = await signIn(await printSignInToken(deployment, 'new.dev-1@example.org'))
    t.match(await stranger.post(`/people/${id}/email-confirmation`), { status: 404, json: { error: { code: 'not-found' } } })
    const first = await mail.tokenInMail(5)
    t.match(await hal.post(`/people/${id}/email-confirmation`), { status: 202, json: { email: 'gus@elsewhere.test' } })
    const second = await mail.tokenInMail(6)
    t.match(mail.received[5], { to: 'gus@elsewhere.test', message: /Subject: Confirm your e-mail address/ })
    t.match(mail.received[5]?.message.replaceAll('=\r\n', ''), /hal has entered this e-mail address for hal, owner of the account alice of/)
    t.match(await signIn(second), { status: 401 }, 'it signs nobody in')
    for (const token of [first, second])
      t.match(await nobody.post('/email-confirmations/lookup', { token }), {
        status: 200,
        json: { email: 'gus@elsewhere.test', account: 'alice', person: 'hal', role: 'owner', previous: null },
      })
    t.match((await hal.get('/session')).json, { person: { emailVerified: false } }, 'nor does looking confirm')
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
  })

  t.test('a link that is opened when the day is full says so, and makes an account on a later day', async t => {
    await requestLink('third@example.org')
    const token = await mail.tokenInMail(8)
    for (let i = 0; i < 2; i += 1)
      t.match(await signIn(token), { status: 403, json: { error: { code: 'sign-up-full', message: /try again tomorrow/ } } })
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

t.test('invitations', async t => {
  const [node, mail] = [await startFakeNode({}), await startMailServer()]
  const deployment = createPortalDeployment(node.url, {
    gateway: {
      listen: { rpc: '127.0.0.1:0', admin: '127.0.0.1:0', portal: '127.0.0.1:0', trustedProxies: ['127.0.0.1'] },
      portal: {
        url: 'http://127.0.0.1',
        smtp: { url: '${SMTP_URL}', from: 'Tollgate <no-reply@example.org>' },
        signUp: { plan: 'core', perDay: 200 },
      },
    },
    env: { SMTP_URL: mail.url },
  })
  t.teardown(async () => {
    await deployment.remove()
    await Promise.all([node.stop(), mail.stop()])
  })
  await deployment.addAccount('mallory')
  await deployment.addAccount('bob')
  const gateway = await deployment.start()
  const portalUrl = gateway.portal ?? ''
  const mallory = await signInToPortal(deployment, gateway, 'mallory', '--email', 'mallory@example.org')
  const bob = await signInToPortal(deployment, gateway, 'bob', '--email', 'bob@example.org')
  const checkResponse = openApiChecker((await mallory.get('/openapi.json')).json)
  // Two ask to confirm these addresses.
  let mails = 2
  const nextMail = async () => {
    const token = await mail.tokenInMail((mails += 1))
    const { to = '', message = '' } = mail.received[mails - 1] ?? {}
    return { token, to, message: message.replaceAll('=\r\n', '') }
  }
  const invite = (inviter: PortalClient, name: string, email: string, role = 'viewer') => inviter.post('/people', { name, email, role })
  const open = async (token: string, choice: object = {}, client = createPortalClient(portalUrl)) => ({
    client,
    ...(await client.post('/session', { token, ...choice })),
  })
  const requestLink = async (email: string) => {
    await createPortalClient(portalUrl).post('/sign-in-links', { email })
    return (await nextMail()).token
  }
  const personNamed = async (client: PortalClient, name: string) =>
    (await client.get('/people')).json.find((person: { readonly name: string }) => person.name === name)
  const changesOf = async (account: string) =>
    JSON.parse((await deployment.run('changes', '--from', '2020-01-01', '--account', account, '--json')).stdout) as readonly Record<
      string,
      unknown
    >[]

  t.test(
    'an address that an owner enters is an invitation, which names account, inviter and role and holds until it is accepted',
    async t => {
      const { status, json } = await invite(mallory, 'vic', 'Victim@corp.test')
      t.match(
        { status, json },
        { status: 201, json: { person: { name: 'vic', role: 'viewer', email: 'victim@corp.test', emailVerified: false } } },
      )
      t.match(json.person.invitedUntil, /^20/)
      t.equal(json.link, null, 'no link that signs somebody else in')
      t.equal(checkResponse('/people', 'post', { status, json }), undefined)
      const people = await mallory.get('/people')
      t.equal(checkResponse('/people', 'get', people), undefined)
      t.match(people.json, [
        { name: 'owner', invitedUntil: null },
        { id: json.person.id, name: 'vic', invitedUntil: /^20/ },
      ])
      const { token, to, message } = await nextMail()
      t.equal(to, 'victim@corp.test')
      t.match(message, /Subject: Invitation to an account of Tollgate/)
      t.match(message, /owner invites you to the account mallory of Tollgate, as viewer/)
      const opened = await open(token)
      t.match(opened, {
        status: 201,
        json: {
          email: 'victim@corp.test',
          account: null,
          signUp: true,
          invitations: [{ id: json.person.id, account: 'mallory', inviter: 'owner', role: 'viewer' }],
        },
      })
      t.equal(checkResponse('/session', 'post', opened), undefined)
      t.equal((await opened.client.get('/session')).status, 401, 'nobody is signed in before they have chosen')
      t.match(await open(token, { invitation: 'inv_unknown' }), { status: 404, json: { error: { code: 'not-found' } } })
      const joined = await open(token, { invitation: json.person.id })
      t.match(joined, {
        status: 201,
        json: { person: { name: 'vic', role: 'viewer', email: 'victim@corp.test', emailVerified: true }, account: { name: 'mallory' } },
      })
      t.match(await open(token), { status: 401, json: { error: { code: 'link-invalid' } } }, 'the link works once')
      t.match(await personNamed(mallory, 'vic'), { invitedUntil: null, emailVerified: true })
      const values = { name: 'vic', role: 'viewer', email: 'victim@corp.test' }
      t.match((await changesOf('mallory')).slice(-2), [
        { action: 'person-invited', by: { kind: 'person', name: /^owner/ }, target: json.person.id, after: values },
        { action: 'invitation-accepted', by: { kind: 'person', name: /^vic/ }, target: joined.json.person.id, after: values },
      ])
    },
  )

  t.test('who was invited makes an account of their own in its place, and the invitation stays until it is declined', async t => {
    const { json } = await invite(mallory, 'zoe', 'zoe@corp.test', 'owner')
    const { token } = await nextMail()
    t.match(
      await open(await requestLink('zoe@corp.test')),
      { json: { invitations: [{ id: json.person.id }] } },
      'also by a link of their own',
    )
    t.match(await open(token, { ownAccount: true }), {
      status: 201,
      json: { person: { role: 'owner' }, account: { name: 'zoe@corp.test' } },
    })
    t.match((await mallory.get('/people')).json.at(-1), { name: 'zoe', invitedUntil: /^20/ })
    await mallory.post(`/people/${json.person.id}/invitation`)
    const { token: again } = await nextMail()
    t.match((await open(again)).json, { account: 'zoe@corp.test', invitations: [{ id: json.person.id }] })
    t.match(await open(again, { invitation: json.person.id }), { status: 409, json: { error: { code: 'has-account' } } })
    t.match(await createPortalClient(portalUrl).post('/declined-invitations', { token: again, invitation: json.person.id }), {
      status: 204,
    })
    t.match(await createPortalClient(portalUrl).post('/declined-invitations', { token: again, invitation: json.person.id }), {
      status: 404,
    })
    t.match(await open(again, { ownAccount: true }), { status: 201, json: { account: { name: 'zoe@corp.test' } } })
    t.equal((await mallory.get('/people')).json.length, 2)
    t.match((await changesOf('mallory')).at(-1), {
      action: 'invitation-declined',
      target: json.person.id,
      before: { email: 'zoe@corp.test' },
    })
  })

  t.test('the inviter gets the same answer and the same mail whether or not the address has an account', async t => {
    const known = await invite(mallory, 'known', 'bob@example.org')
    const knownMail = await nextMail()
    const unknown = await invite(mallory, 'other', 'nob@example.org')
    const unknownMail = await nextMail()
    const shape = ({ status, json }: PortalResponse) => [
      status,
      JSON.stringify(json).replaceAll(/inv_[\w-]+|20\d\d-[^"]+|known|other|bob@|nob@/g, ''),
    ]
    t.same(shape(known), shape(unknown))
    const text = ({ message }: { readonly message: string }) =>
      message.slice(message.indexOf('Subject: ')).replaceAll(/#[\w-]+|^(Message-ID|Date):.*$|bob@|nob@/gim, '')
    t.equal(text(knownMail), text(unknownMail))
    const people = (await mallory.get('/people')).json.slice(-2)
    t.same(
      people.map(({ invitedUntil }: { invitedUntil: string }) => typeof invitedUntil),
      ['string', 'string'],
    )
    t.match((await open(knownMail.token)).json, { account: 'bob' })
    t.match(
      await invite(mallory, 'known2', 'BOB@example.org'),
      { status: 409, json: { error: { code: 'exists', field: 'email' } } },
      'the account itself has invited the address',
    )
    t.match(await invite(mallory, 'known', 'x@example.org'), { status: 409, json: { error: { code: 'exists', field: 'name' } } })
    t.match(await invite(mallory, 'vic2', 'victim@corp.test'), { status: 409, json: { error: { code: 'exists', field: 'email' } } })
    for (const { id } of people) t.equal((await mallory.delete(`/people/${id}`)).status, 204)
  })

  t.test('an invitation that was withdrawn cannot be accepted, and its link asks before it makes an account', async t => {
    const { json } = await invite(mallory, 'wil', 'wil@corp.test')
    const { token } = await nextMail()
    t.match(await bob.delete(`/people/${json.person.id}`), { status: 404 }, 'another account')
    t.match(await bob.post(`/people/${json.person.id}/invitation`), { status: 404 })
    t.equal((await mallory.delete(`/people/${json.person.id}`)).status, 204)
    t.match((await changesOf('mallory')).at(-1), { action: 'invitation-withdrawn', target: json.person.id, before: { name: 'wil' } })
    t.match(await open(token, { invitation: json.person.id }), { status: 404 })
    t.match((await open(token)).json, { email: 'wil@corp.test', account: null, invitations: [], signUp: true })
    t.match(await open(token, { ownAccount: true }), { status: 201, json: { account: { name: 'wil@corp.test' } } })
  })

  t.test('everybody leaves an account, except its last owner', async t => {
    const { client: vic } = await open(await requestLink('victim@corp.test'))
    const { id } = (await vic.get('/session')).json.person
    const { id: ownerId } = await personNamed(vic, 'owner')
    t.match(await vic.delete(`/people/${ownerId}`), { status: 403, json: { error: { code: 'role' } } })
    t.match(await mallory.delete(`/people/${ownerId}`), { status: 409, json: { error: { code: 'last-owner' } } })
    const { json: token } = await vic.post('/tokens', { name: 'ci' })
    t.equal((await vic.delete(`/people/${id}`)).status, 204)
    t.equal((await vic.get('/session')).status, 401)
    t.equal((await createPortalClient(portalUrl, token.token).get('/account')).status, 401)
    t.match((await changesOf('mallory')).at(-1), { action: 'person-left', target: id, before: { name: 'vic', role: 'viewer' } })
    t.match(await open(await requestLink('victim@corp.test')), { json: { account: { name: 'victim@corp.test' } } }, 'the address is free')
    const second = await signInToPortal(deployment, gateway, 'mallory', '--person', 'second')
    t.equal((await mallory.delete(`/people/${ownerId}`)).status, 204, 'an owner, while there is another')
    t.equal((await second.get('/people')).json.length, 1)
  })

  t.test('a browser in which somebody is signed in is asked before a link signs in somebody else', async t => {
    const browser = await signInToPortal(deployment, gateway, 'bob')
    const token = await printSignInToken(deployment, 'mallory', '--person', 'second')
    const asked = await open(token, {}, browser)
    t.match(asked, {
      status: 409,
      json: {
        error: {
          code: 'other-session',
          message: 'you are signed in as "owner" of the account "bob"; this link signs in "second" of the account "mallory"',
        },
      },
    })
    t.match((await browser.get('/session')).json, { account: { name: 'bob' } })
    const link = await requestLink('carl@corp.test')
    t.match(await open(link, {}, browser), { status: 409, json: { error: { message: /this link signs in carl@corp.test$/ } } })
    t.match(await open(token, { switchPerson: true }, browser), { status: 201, json: { account: { name: 'mallory' } } })
    t.match(
      await open(await printSignInToken(deployment, 'mallory', '--person', 'second'), {}, browser),
      { status: 201 },
      'the same person',
    )
    await browser.delete('/session')
    t.match(await open(link, {}, browser), { status: 201, json: { account: { name: 'carl@corp.test' } } }, 'nobody is signed in')
  })

  t.test('a mailbox makes one account, whatever its address is spelled like', async t => {
    t.match(await open(await requestLink('bot+1@gmail.com')), { status: 201 })
    for (const email of ['bot+2@gmail.com', 'b.ot@gmail.com', 'bot@googlemail.com'])
      t.match(
        await open(await requestLink(email)),
        { status: 403, json: { error: { code: 'mailbox-taken', message: /another spelling/ } } },
        email,
      )
    t.match(await open(await requestLink('b.ot@corp.test')), { status: 201 })
    t.match(await open(await requestLink('bot@corp.test')), { status: 201 }, 'dots are of the name elsewhere')
  })
})

t.test('with `approval`, calls of an account that was made by a sign-up are refused until the operator approves it', async t => {
  const [node, mail] = [await startFakeNode({ eth_chainId: { result: '0x7a69' } }), await startMailServer()]
  const deployment = createPortalDeployment(node.url, {
    gateway: {
      portal: {
        url: 'http://127.0.0.1',
        smtp: { url: '${SMTP_URL}', from: 'Tollgate <no-reply@example.org>' },
        signUp: { plan: 'core', approval: true },
      },
    },
    env: { SMTP_URL: mail.url },
  })
  t.teardown(async () => {
    await deployment.remove()
    await Promise.all([node.stop(), mail.stop()])
  })
  await deployment.addAccount('other')
  const gateway = await deployment.start()
  const dev = createPortalClient(gateway.portal ?? '')
  await dev.post('/sign-in-links', { email: 'dev@example.org' })
  t.match(await dev.post('/session', { token: await mail.tokenInMail(1) }), { status: 201 })
  t.match((await dev.get('/account')).json, { state: 'unapproved', suspended: /^20/, deleteAt: null })
  const { json: key } = await dev.post('/keys', { name: 'k' })
  const codeOf = async () => (await call(gateway.http(key.key), 'eth_chainId')).error?.code
  t.equal(await codeOf(), -32090)
  const listed = async (state: string) => JSON.parse((await deployment.run('accounts', 'list', '--state', state, '--json')).stdout)
  t.match(await listed('unapproved'), [{ name: 'dev@example.org', state: 'unapproved' }])
  t.match((await deployment.run('accounts', 'list', '--state', 'unapproved')).stdout, /to be approved, signed up at 20/)
  t.match(await listed('active'), [{ name: 'other' }])
  t.same(await listed('suspended'), [])
  t.ok(await gateway.waitForEvent('sign-up-unapproved'))
  t.match((await deployment.run('accounts', 'resume', 'dev@example.org')).stdout, /: active$/m)
  await waitUntil(async () => (await codeOf()) === undefined)
  t.match((await dev.get('/account')).json, { state: 'active', suspended: null })
  await mail.tokenInMail(2)
  t.match(mail.received[1], { to: 'dev@example.org', message: /Subject: Your Tollgate account is approved/ })
  await deployment.run('accounts', 'suspend', 'dev@example.org')
  t.match((await dev.get('/account')).json, { state: 'suspended' }, 'a suspension from then on is one')
})

t.test('one domain and one network make a tenth of the accounts of a day, five at least', async t => {
  const clock = new TestClock()
  const store = await tempStore(t, clock)
  const signUp = { plan: 'core', perDay: 60, domains: [], approval: false }
  let made = 0
  const signUpFrom = (network: string, domain: string, options = signUp): Promise<string> =>
    signUpWithEmail({ store, clock, signUp: options, log: new TestLog() }, { email: `dev${(made += 1)}@${domain}` }, network).then(
      () => 'made',
      (error: ApiError) => error.code,
    )
  const countMade = async (requests: readonly (() => Promise<string>)[]) =>
    (await Promise.all(requests.map(request => request()))).filter(outcome => outcome === 'made').length
  const eight = Array.from({ length: 8 }, (_, i) => i)
  t.equal(await countMade(eight.map(i => () => signUpFrom(`10.${i}.0.1`, i % 2 === 0 ? 'catch-all.test' : `sub${i}.catch-all.test`))), 6)
  t.equal(await countMade(eight.map(i => () => signUpFrom(`10.${i}.0.1`, `shop${i}.co.uk`))), 8, 'domains below co.uk are different ones')
  t.equal(await countMade(eight.map(i => () => signUpFrom(`203.0.113.${i}`, `v4-${i}.test`))), 6, 'a /24 is one network')
  t.equal(await countMade(eight.map(i => () => signUpFrom(`2001:db8:1:${i}::/64`, `v6-${i}.test`))), 6, 'so is a /48')
  t.equal(await countMade(eight.map(i => () => signUpFrom(`10.${i}.1.1`, 'gmail.com'))), 8, 'a large provider bounds mailboxes itself')
  t.equal(
    await signUpFrom('10.9.9.9', 'catch-all.test', { ...signUp, domains: ['catch-all.test'] as never[] }),
    'made',
    'the operator named the domain',
  )
  clock.advance(dayMs)
  t.equal(await signUpFrom('10.0.0.1', 'catch-all.test'), 'made', 'on the next day')
  const few = { ...signUp, perDay: 5 }
  clock.advance(dayMs)
  t.equal(await countMade(eight.map(() => () => signUpFrom('10.0.0.1', 'small.test', few))), 5)
})

t.test('the link of a confirmation confirms the address that it was mailed to, and no later one', async t => {
  const clock = new TestClock()
  const store = await tempStore(t, clock)
  const { id } = await addPerson(store, { account: 'acc_1', name: 'alice', role: 'owner' })
  const mailed: Parameters<SendMail>[0][] = []
  const sendMail: SendMail = mail => Promise.resolve(mailed.push(mail) > 0)
  const give = async (email: string) => {
    const person = await findPerson(store, id)
    if (person === undefined) throw new Error('no such person')
    t.ok(await setEmail(store, person, email))
    await mailConfirmation({ store, clock, url: 'https://portal.test', sendMail }, 'acme', { person, email, asker: 'owner' })
    return /#(\S+)/.exec(mailed.at(-1)?.text ?? '')?.[1] ?? ''
  }
  const [first, second] = [await give('first@example.org'), await give('second@example.org')]
  t.equal(await confirmEmail(store, first), undefined)
  t.match(await findPerson(store, id), { email: 'second@example.org', isEmailVerified: false })
  t.match(await confirmEmail(store, second), { email: 'second@example.org', isTaken: false })
  t.match(await findPerson(store, id), { isEmailVerified: true })
})

t.test('an invitation ends after 30 days, unless it was sent again', async t => {
  const clock = new TestClock()
  const store = await tempStore(t, clock)
  await store.addAccount({ id: 'acc_1', name: 'alice', plan: 'core', created: 1 })
  const inviter = await addPerson(store, { account: 'acc_1', name: 'owner', role: 'owner' })
  const invitation = await addInvitation(store, clock, inviter, { name: 'dan', role: 'viewer', email: 'dan@example.org' })
  clock.advance(29 * dayMs)
  await renewInvitation(store, clock, invitation, inviter)
  clock.advance(30 * dayMs - 1)
  t.match(await findInvitationsTo(store, 'dan@example.org'), [{ id: invitation.id, account: 'acc_1', role: 'viewer' }])
  clock.advance(1)
  t.same(await findInvitationsTo(store, 'dan@example.org'), [])
  t.same(await listInvitations(store, 'acc_1'), [])
})

t.test('of an invitation that is accepted and withdrawn at the same time, one happens; the name of a colleague is not taken', async t => {
  const clock = new TestClock()
  const store = await tempStore(t, clock)
  await store.addAccount({ id: 'acc_1', name: 'alice', plan: 'core', created: 1 })
  const inviter = await addPerson(store, { account: 'acc_1', name: 'owner', role: 'owner' })
  for (let i = 0; i < 10; i += 1) {
    const email = `dan${i}@example.org`
    const invitation = await addInvitation(store, clock, inviter, { name: 'dan', role: 'viewer', email })
    const accept = () => acceptInvitation({ store, clock }, email, invitation.id)
    const outcomes = await Promise.allSettled([accept(), removeInvitation(store, invitation), accept()])
    const accepted = outcomes.filter((each, j) => j !== 1 && each.status === 'fulfilled').length
    const withdrawn = outcomes[1]?.status === 'fulfilled' && outcomes[1].value === true ? 1 : 0
    t.equal(accepted + withdrawn, 1)
  }
  const names = (await listPeople(store, 'acc_1')).map(({ name }) => name)
  t.equal(new Set(names).size, names.length, names.join())
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
  const signUp = { plan: 'core', perDay: 11, domains: [], approval: false }
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

t.test('sessions end when `portal.secret` is replaced', async t => {
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
  t.equal(await statusWith({ secret: 'first' }), 200)
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
        const signUp = { plan: 'core', perDay: 5, domains: [], approval: false }
        // The day must not end during the test.
        const startMs = systemClock.now()
        const clock = { ...systemClock, now: () => startMs }
        const gateways = stores.map(store => ({ store, clock, signUp, log: new TestLog() }))
        const signUpAll = (names: readonly string[]) =>
          Promise.allSettled(
            names.flatMap(name =>
              gateways.map((gateway, i) => signUpWithEmail(gateway, { email: `${name}${i}@${name}${i}.test` }, `10.0.${i}.${name}`)),
            ),
          )
        const links = await Promise.all(gateways.map(({ store }) => createAddressToken(store, clock, { email: 'same@example.org' })))
        const network = '10.0.0.1'
        const opened = await Promise.allSettled(
          gateways.map((gateway, i) =>
            withAddressToken(gateway.store, links[i]?.reveal() ?? '', address => signInWithAddress(gateway, address, { network })),
          ),
        )
        t.equal((await stores[0]?.accounts())?.length, 1, 'one address makes one account')
        for (const each of opened) {
          if (each.status === 'fulfilled') t.match(each.value, { email: 'same@example.org', role: 'owner' })
          else t.match(each.reason, { status: 409, code: 'sign-up-running' })
        }
        t.equal((await signUpAll(['a', 'b', 'c'])).filter(({ status }) => status === 'fulfilled').length, 4)
        t.equal((await stores[0]?.accounts())?.length, 5)
        const full = { status: 'rejected', reason: { code: 'sign-up-full' } }
        t.match(await signUpAll(['d']), [full, full, full], 'the day stays full')
      })
    }
  },
)
