import { randomBytes } from 'node:crypto'
import t from '../support/tap.ts'
import { routes } from '../../src/portal/portal-app.ts'
import type { Route } from '../../src/portal/route.ts'
import { operatorRoutes } from '../../src/portal/operator/operator-app.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { startMailServer } from '../support/mail-server.ts'
import { createPortalClient, createPortalDeployment, signInToPortal } from '../support/portal-client.ts'
import type { PortalClient, PortalResponse } from '../support/portal-client.ts'
import { call } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'
import { startWebhookReceiver } from '../support/webhook-receiver.ts'

/** Stands in every name, label, address and URL of the one account: it must be in no response to the other. */
const marker = `m${randomBytes(8).toString('hex')}`

/** Of a person of the account whose address is known to others. */
const knownEmail = 'known@example.org'

const nameOf = ({ method, path }: Pick<Route, 'method' | 'path'>): string => `${method} ${path}`

interface Victim {
  /** Of all that the account has, by what it is the id of. */
  readonly ids: readonly string[]
  readonly invitation: string
  /** A token that was mailed to the attacker, for an address of theirs. */
  readonly mailedToken: string
}

interface Example {
  readonly body?: object
  /** The success of the operation unless given. */
  readonly status?: number
}

/** What the attacker sends, on top of ids. An operation that takes a body, or changes something, and has no example here fails. */
const examplesFor = ({ invitation, mailedToken }: Pick<Victim, 'invitation' | 'mailedToken'>): Readonly<Record<string, Example>> => ({
  'post /sign-in-links': { body: { email: knownEmail } },
  'post /session': { body: { token: mailedToken, invitation, switchPerson: true }, status: 404 },
  'post /declined-invitations': { body: { token: mailedToken, invitation }, status: 404 },
  'post /email-confirmations/lookup': { body: { token: mailedToken }, status: 404 },
  'post /email-confirmations': { body: { token: mailedToken }, status: 404 },
  'post /oidc/authorization-url': { status: 404 },
  'post /oidc/session': { body: { query: 'code=1&state=2' }, status: 404 },
  'post /account/delete': { body: { name: 'mallory-2' } },
  'post /account/undelete': {},
  'patch /requests': { body: { setting: 'on' } },
  'patch /alerts': { body: { daily: [50], errorRate: 5 } },
  'post /alerts/webhook': { body: { url: 'http://127.0.0.1:1/' } },
  'post /alerts/test': { status: 409 },
  'delete /alerts/webhook': {},
  'post /keys': { body: { name: 'own' } },
  'patch /keys/{id}': { body: { name: 'taken' } },
  'post /keys/{id}/rotate': { body: { overlapHours: 1 } },
  'post /keys/{id}/suspend': {},
  'post /keys/{id}/resume': {},
  'post /keys/{id}/revoke': {},
  'post /people': { body: { name: 'friend', email: knownEmail } },
  'patch /people/{id}': { body: { name: 'taken', role: 'viewer' } },
  'patch /account': { body: { name: 'mallory-2' } },
  'delete /people/{id}': {},
  'post /people/{id}/invitation': {},
  'post /people/{id}/sign-in-links': {},
  'post /people/{id}/email-confirmation': {},
  'post /tokens': { body: { name: 'own' } },
  'delete /tokens/{id}': {},
  'delete /identities/{id}': {},
  'delete /sessions/{id}': {},
  'delete /session': {},
  'delete /sessions': {},
})

/** After these the session, or the account, is gone: they come last, in this order. */
const lastOperations = ['post /account/delete', 'post /account/undelete', 'delete /session', 'delete /sessions']

const inOrder = [...routes].sort((a, b) => lastOperations.indexOf(nameOf(a)) - lastOperations.indexOf(nameOf(b)))

/** All texts that are called `id`, at any depth. */
const idsIn = (json: unknown): readonly string[] => {
  if (Array.isArray(json)) return json.flatMap(idsIn)
  if (typeof json !== 'object' || json === null) return []
  return Object.entries(json).flatMap(([name, value]) => (name === 'id' && typeof value === 'string' ? [value] : idsIn(value)))
}

/** An id of the same form, of nothing. */
const unknownIdLike = (id: string): string => `${id.slice(0, -6)}${'x'.repeat(6)}`

const textOf = ({ status, headers, json }: PortalResponse): string =>
  `${status} ${JSON.stringify([...headers].filter(([name]) => !['date', 'content-length'].includes(name)))} ${JSON.stringify(json)}`

/** Without what was sent, and without times. */
const comparable = (response: PortalResponse, sent: string): string =>
  textOf(response)
    .replaceAll(sent, 'SENT')
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')

/** Those change by themselves. */
const changing = new Set(['now', 'hours', 'times', 'end', 'points', 'latency', 'lastSeen', 'creditsPerHour', 'runsOutAt', 'held', 'left'])

/** All that the account reads of itself, by the table of operations. */
const readState = async (client: PortalClient): Promise<Readonly<Record<string, unknown>>> => {
  const found: Record<string, unknown> = {}
  for (const route of routes) {
    if (route.method !== 'get' || route.role === 'anyone' || route.path.includes('{')) continue
    const { status, json } = await client.get(route.path)
    found[route.path] = [status, JSON.parse(JSON.stringify(json, (name, value: unknown) => (changing.has(name) ? undefined : value)))]
  }
  return found
}

t.test('two accounts', async t => {
  const [node, mail, receiver] = [
    await startFakeNode({ eth_gasPrice: { result: '0x7' } }),
    await startMailServer(),
    await startWebhookReceiver(),
  ]
  const deployment = createPortalDeployment(node.url, {
    gateway: {
      portal: {
        url: 'http://127.0.0.1',
        publicStatus: true,
        smtp: { url: '${SMTP_URL}', from: 'Tollgate <no-reply@example.org>' },
        signUp: { plan: 'core', perDay: 10 },
        webhooks: { allow: ['127.0.0.1'] },
      },
      admin: { token: '${ADMIN_TOKEN}' },
    },
    env: { SMTP_URL: mail.url, ADMIN_TOKEN: 'canary-operator-token' },
  })
  t.teardown(async () => {
    await deployment.remove()
    await Promise.all([node.stop(), mail.stop(), receiver.stop()])
  })
  const account = `${marker}-account`
  await deployment.addAccount(account)
  await deployment.run('accounts', 'set', account, '--label', `${marker} label`, '--credits', '400')
  await deployment.addAccount('mallory')
  const gateway = await deployment.start()
  const portal = gateway.portal ?? ''

  // The account that is attacked has something of everything.
  const owner = await signInToPortal(deployment, gateway, account)
  for (const [person, email] of [
    ['olga', `${marker}@example.org`],
    ['kim', knownEmail],
  ] as const)
    await deployment.run('accounts', 'link', account, '--person', `${marker}-${person}`, '--role', 'developer', '--email', email)
  const { json: key } = await owner.post('/keys', { name: `${marker} key` })
  await owner.post('/tokens', { name: `${marker} token` })
  const { json: invited } = await owner.post('/people', { name: `${marker}-guest`, email: `guest-${marker}@example.org` })
  await owner.request('PATCH', '/alerts', { daily: [10], monthly: [], errorRate: 1, minCalls: 10 })
  await owner.post('/alerts/webhook', { url: `${receiver.url}/${marker}` })
  await call(gateway.http(key.key), 'eth_gasPrice')
  for (let i = 0; i < 12; i += 1) await call(gateway.http(key.key), 'eth_getStorageAt', [marker])
  // All 13 calls are counted and logged, so that nothing changes by itself from here on.
  await waitUntil(async () => (await owner.get('/requests')).json.requests.length === 13)
  await waitUntil(async () => (await owner.get('/usage')).json.total.calls === 13)
  await waitUntil(async () => {
    const { json } = await owner.get('/alerts')
    return (
      json.incidents.length === 1 &&
      json.deliveries.length === 2 &&
      json.deliveries.every((each: { state: string }) => each.state === 'delivered')
    )
  })
  await waitUntil(() => mail.received.some(({ to }) => to.startsWith('guest-')))

  const mallory = await signInToPortal(deployment, gateway, 'mallory')
  const mailsBefore = mail.received.length
  await mallory.post('/sign-in-links', { email: 'mallory-too@example.net' })
  const mailedToken = await mail.tokenInMail(mailsBefore + 1)

  const stateBefore = await readState(owner)
  const own = new Set(idsIn(await readState(mallory)))
  const ids = [...new Set(idsIn(stateBefore))].filter(id => !own.has(id))
  // Changes are limited: of all requests that were logged, one stands for all.
  const requestIds = idsIn(stateBefore['/requests']).slice(1)
  const askedIds = ids.filter(id => !requestIds.includes(id))
  const examples = examplesFor({ invitation: invited.person.id, mailedToken })
  const canaries = [marker, ...ids]

  /** Of the response all but what the request itself said. */
  const checkNothingOfOwner = (response: PortalResponse, sent: readonly string[], name: string): void => {
    const text = sent.reduce((rest, value) => rest.replaceAll(value, ''), textOf(response))
    for (const canary of canaries) if (text.includes(canary)) t.fail(`${name}: ${canary} is in the response`, { text })
  }

  t.test('what is looked for is what the account has', t => {
    const kinds = ['/account', '/keys', '/people', '/tokens', '/sessions', '/requests', '/changes']
    for (const path of kinds)
      t.ok(
        idsIn(stateBefore[path]).some(id => ids.includes(id)),
        path,
      )
    for (const path of ['/account', '/keys', '/people', '/tokens', '/alerts', '/requests', '/changes'])
      t.match(JSON.stringify(stateBefore[path]), marker, path)
    t.ok(ids.length >= 10, ids.join())
    t.end()
  })

  t.test('every operation has an example, and no example is of none', t => {
    const needed = routes.filter(({ method, body }) => method !== 'get' || body !== undefined).map(nameOf)
    t.same(Object.keys(examples).sort(), needed.sort())
    t.end()
  })

  t.test('an operation on an id of another account answers as for an id of nothing', async t => {
    for (const route of routes.filter(({ path }) => path.includes('{'))) {
      const { body } = examples[nameOf(route)] ?? {}
      const ask = async (value: string) =>
        mallory.request(route.method.toUpperCase(), route.path.replace(/\{\w+\}/, encodeURIComponent(value)), body)
      const unknown = new Map<string, string>()
      const askUnknown = async (id: string) => {
        const form = /^(inv_)?/.exec(id)?.[0] ?? ''
        const known = unknown.get(form) ?? comparable(await ask(unknownIdLike(id)), unknownIdLike(id))
        unknown.set(form, known)
        return known
      }
      for (const id of askedIds) {
        const response = await ask(id)
        t.equal(response.status, 404, `${nameOf(route)} ${id}`)
        // Invitations have words of their own, by the form of the id.
        t.equal(comparable(response, id), await askUnknown(id), `${nameOf(route)} ${id}`)
        checkNothingOfOwner(response, [id], nameOf(route))
      }
    }
  })

  t.test('a query with an id of another account answers as with an id of nothing', async t => {
    let asked = 0
    for (const route of routes.filter(({ method, path }) => method === 'get' && !path.includes('{'))) {
      for (const [name, schema] of Object.entries(route.query?.properties ?? {})) {
        if (schema.type !== 'string' || schema.enum !== undefined) continue
        for (const id of askedIds) {
          const ask = async (value: string) => mallory.get(`${route.path}?${new URLSearchParams({ [name]: value })}`)
          const [response, unknown] = [await ask(id), await ask(unknownIdLike(id))]
          t.equal(comparable(response, id), comparable(unknown, unknownIdLike(id)), `${nameOf(route)} ${name} ${id}`)
          checkNothingOfOwner(response, [id], `${nameOf(route)} ${name}`)
          asked += 1
        }
      }
    }
    t.ok(asked >= 50, `${asked} queries`)
  })

  t.test('every operation does what it does, and shows nothing of the other account', async t => {
    let client = mallory
    for (const route of inOrder.filter(({ path }) => !path.includes('{'))) {
      const { body, status = route.status ?? (route.response === undefined ? 204 : 200) } = examples[nameOf(route)] ?? {}
      // The session has just been ended, by the operation before.
      if (nameOf(route) === 'delete /sessions') client = await signInToPortal(deployment, gateway, 'mallory')
      const response = await client.request(route.method.toUpperCase(), route.path, body)
      t.equal(response.status, status, `${nameOf(route)} ${JSON.stringify(response.json)}`)
      checkNothingOfOwner(response, Object.values(body ?? {}).map(String), nameOf(route))
    }
    const again = await signInToPortal(deployment, gateway, 'mallory')
    for (const route of routes.filter(({ method, path }) => method === 'get' && !path.includes('{')))
      checkNothingOfOwner(await again.get(route.path), [], `${nameOf(route)}, after all that`)
    const events = await fetch(`${portal}/api/v1/events`, { headers: { cookie: again.cookies() } })
    const first = await events.body?.getReader().read()
    const text = Buffer.from(first?.value ?? []).toString()
    t.match(text, /mallory/)
    for (const canary of canaries) t.notOk(text.includes(canary), 'nor do the events')
  })

  t.test('no operation of the operator takes the session or the token of a customer', async t => {
    const client = await signInToPortal(deployment, gateway, 'mallory')
    const { json: token } = await client.post('/tokens', { name: 'for the operator' })
    const customers = [createPortalClient(gateway.admin, token.token), createPortalClient(gateway.admin)]
    let refused = 0
    for (const route of operatorRoutes) {
      for (const customer of customers) {
        const path = route.path.replace('{network}/{node}', 'devnet/node-1').replace(/\{\w+\}/, account)
        const body = route.method === 'get' ? undefined : {}
        const response = await customer.request(route.method.toUpperCase(), path, body, { cookie: client.cookies() })
        // Wrong tokens are limited too.
        t.ok([401, 429].includes(response.status), `${nameOf(route)} ${response.status}`)
        checkNothingOfOwner(response, [account], nameOf(route))
        refused += 1
      }
    }
    t.ok(refused > 60, `${refused} requests`)
  })

  t.test('nothing of the account has changed, and its key goes on', async t => {
    t.same(await readState(owner), stateBefore)
    t.match(await call(gateway.http(key.key), 'eth_gasPrice'), { result: '0x7' })
    const toKnown = mail.received.filter(({ to }) => to === knownEmail).map(({ message }) => message)
    for (const message of toKnown.filter(each => each.includes('mallory'))) t.notMatch(message, marker, 'nor does an invitation tell of it')
  })
})
