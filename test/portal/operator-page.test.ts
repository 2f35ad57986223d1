import { readFile, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import t from '../support/tap.ts'
import type { NodesJson } from '../../src/portal/operations/node-operations.ts'
import { describeProblems } from '../../src/portal/operator/problems.ts'
import type { Page, Route } from 'playwright-core'
import { findAccessibilityViolations, openBrowser, skipWithoutChromium } from '../support/browser.ts'
import { networkFile } from '../support/deployment.ts'
import { storeEvidence } from '../support/stored-evidence.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { chooseAction, confirmQuestion } from '../support/page-actions.ts'
import { createPortalDeployment } from '../support/portal-client.ts'
import { call } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

const adminToken = 'canary-page-token'

const quotedId = 'customer/7'

/** Of gateway.yaml: no alerts to operators. */
const noAlerts: Parameters<typeof describeProblems>[0]['config'] = { listen: {}, portal: {} } as never // what problems follow from

const changeAccount = 'Change plan, credits or label'

const pageTitles = ['Home', 'Accounts', 'Traffic', 'Errors', 'Requests', 'Nodes', 'Configuration', 'Audit']

const openPage = async (page: Page, title: string): Promise<void> => {
  await page.click(`nav >> text="${title}"`)
  await page.waitForSelector(`h1:has-text("${title}")`)
}

t.test("the operator's page in a browser", { skip: skipWithoutChromium }, async t => {
  const hex = (number: number, digits = 0): string => `0x${number.toString(16).padStart(digits, '0')}`
  const startedAt = Date.now()
  /** A block each second: a chain that stands still is a problem. */
  const newestBlock = () => {
    const number = 16 + Math.floor((Date.now() - startedAt) / 1_000)
    return { result: { number: hex(number), hash: hex(number, 64), parentHash: hex(number - 1, 64) } }
  }
  const web3_clientVersion = { result: 'Geth/host-of-node/v1.13.5-stable/linux-amd64/go1.21' }
  const answers = { eth_getBlockByNumber: newestBlock, eth_gasPrice: { result: '0x7' }, web3_clientVersion }
  const node = await startFakeNode(answers)
  const pair = { left: await startFakeNode(answers), right: await startFakeNode(answers) }
  const upstreams = Object.entries(pair).map(([name, { url }]) => ({ name, url }))
  const deployment = createPortalDeployment(node.url, {
    networks: {
      devnet: networkFile('devnet', [node.url]),
      pair: { ...networkFile('pair', [], { cache: false, failover: { upstreams } }), hosts: ['localhost'] },
    },
    gateway: { admin: { token: '${ADMIN_TOKEN}' }, portal: { publicStatus: true } },
    env: { ADMIN_TOKEN: adminToken },
  })
  const browser = await openBrowser()
  t.teardown(async () => {
    await browser.close()
    await deployment.remove()
    await Promise.all([node, pair.left, pair.right].map(each => each.stop()))
  })
  await storeEvidence(deployment, { network: 'pair', upstream: 'left' })
  const gateway = await deployment.start()
  const context = await browser.newContext({ viewport: { width: 1_200, height: 800 }, reducedMotion: 'reduce' })
  const page = await context.newPage()
  const problems: string[] = []
  const origins = new Set<string>()
  page.on('pageerror', error => problems.push(error.message))
  page.on('console', message => message.type() === 'error' && problems.push(message.text()))
  page.on('response', response => origins.add(new URL(response.url()).origin))

  t.test('the token signs in, another one does not', async t => {
    await page.goto(`${gateway.admin}/`)
    await page.waitForSelector('[name=token]')
    t.match(await page.textContent('main'), `You sign in to ${hostname()}.`)
    await page.fill('[name=token]', 'guess')
    await page.keyboard.press('Enter')
    await page.waitForSelector('[name=token][aria-invalid=true]')
    t.match(await page.textContent('.error'), 'This is not the token of the admin listener.')
    // The error is shown a moment before the form takes the next token.
    await page.waitForSelector('button[type=submit]:enabled')
    await page.fill('[name=token]', adminToken)
    await page.keyboard.press('Enter')
    await page.waitForSelector('h1:has-text("Home")')
    t.equal(await page.evaluate('document.cookie'), '', 'no script reads the cookie')
    t.same([...origins], [gateway.admin], 'nothing is loaded from elsewhere')
  })

  t.test('an account is created, suspended and resumed, and its calls follow', async t => {
    await openPage(page, 'Accounts')
    await page.waitForSelector('text="No accounts."')
    await page.click('main >> text="Create an account"')
    await page.waitForSelector('dialog option:text-is("core: 3,000,000 credits a day")', { state: 'attached' })
    await page.waitForSelector('dialog .help:has-text("Only operators see it.")')
    await page.fill('dialog [name=name]', 'alice')
    await page.fill('dialog [name=label]', 'customer 7')
    t.same(await findAccessibilityViolations(page), [])
    await page.dblclick('dialog button[type=submit]')
    await page.waitForSelector('h1:has-text("alice")')
    t.equal(await page.textContent('[data-testid=credits-left]'), '3,000,000')
    const { key } = await deployment.addKey('alice')
    const codeOf = async () => (await call(gateway.http(key), 'eth_gasPrice')).error?.code
    await waitUntil(async () => (await codeOf()) === undefined)
    await page.click('text="Suspend the account"')
    await page.fill('dialog [name=reason]', 'Invoice 17 is unpaid')
    t.same(await findAccessibilityViolations(page), [])
    await page.click('dialog [type=submit]')
    await page.waitForSelector('[data-testid=account-state]:has-text("suspended")')
    await page.waitForSelector('text="Reason: Invoice 17 is unpaid"')
    await page.waitForSelector('[aria-label="Are calls accepted?"] .badge.danger:text-is("calls are refused: suspended")')
    await waitUntil(async () => (await codeOf()) === -32090)
    await page.click('button:has-text("Delete the account")')
    await page.click('form[aria-label="Delete the account"] button.danger')
    await page.waitForSelector('.error:has-text("To be removed at")')
    await page.click('text="Resume the account"')
    await page.waitForSelector('[data-testid=account-state]:has-text("active")')
    await waitUntil(async () => (await codeOf()) === undefined)
  })

  t.test(
    'a dialog whose code the gateway has no more, as after a new version of it, says so, with a button that loads the page again',
    async t => {
      const page = await context.newPage()
      await page.route('**/assets/account-forms-*.js', route => route.fulfill({ status: 404 }))
      await page.goto(`${gateway.admin}/operator/accounts`)
      await page.click('main >> text="Create an account"')
      await page.waitForSelector('[role=alert]:has-text("This could not be loaded")')
      t.same(await findAccessibilityViolations(page), [])
      await page.unroute('**/assets/account-forms-*.js')
      await page.click('button:text-is("Load the page again")')
      await page.waitForSelector('[role=alert]', { state: 'detached' })
      await page.click('main >> text="Create an account"')
      await page.waitForSelector('dialog[open] [name=name]')
      await page.close()
    },
  )

  t.test('plan, credits and label are changed; a form says which field is wrong', async t => {
    await page.click(`text="${changeAccount}"`)
    await page.click('dialog [type=submit]')
    await page.waitForSelector('dialog [role=status]:has-text("Nothing was edited.")')
    t.same(await findAccessibilityViolations(page), [])
    await page.selectOption('dialog select', 'growth')
    await page.fill('dialog [name=credits]', '-1')
    await page.click('dialog [type=submit]')
    await page.waitForSelector('dialog [role=alert], dialog .error')
    t.match(await page.textContent('dialog .error'), /^Must be an integer/)
    await page.fill('dialog [name=credits]', '5000')
    await page.click('dialog [type=submit]')
    await page.waitForSelector('dialog', { state: 'detached' })
    await page.waitForSelector('[data-testid=credits-used]:has-text("5,000")')
    await page.waitForSelector('section.credits:has-text("Credits of its own; the plan’s: 200,000,000. The plan sets no calls/s.")')
    await page.waitForSelector('section:has-text("Plan growth")')
  })

  t.test('what somebody else changes meanwhile is not changed back', async t => {
    await page.click(`text="${changeAccount}"`)
    const patch = `fetch('/api/v1/accounts/alice', { method: 'PATCH', headers: { 'content-type': 'application/json' }, body: '{"plan":"core"}' })`
    t.equal(await page.evaluate(`${patch}.then(response => response.status)`), 200)
    await page.fill('dialog [name=label]', 'customer 8')
    const changed = page.waitForRequest(request => request.method() === 'PATCH')
    await page.click('dialog [type=submit]')
    t.same((await changed).postDataJSON(), { label: 'customer 8' })
    await page.waitForSelector('section:has-text("Plan core")')
    await page.click(`text="${changeAccount}"`)
    t.equal(await page.inputValue('dialog [name=label]'), 'customer 8')
    await page.keyboard.press('Escape')
  })

  t.test('a sign-in link and the keys of the account are there', async t => {
    await page.click('text="Add a person"')
    await page.fill('dialog [name=person]', 'dan')
    t.equal(await page.inputValue('dialog select'), 'viewer', 'nobody is an owner by a typo')
    await page.fill('dialog [name=email]', 'dan@alice.example')
    await page.click('dialog button[type=submit]')
    t.match(await page.textContent('dialog code'), /\/sign-in#\S{40,}$/)
    await page.keyboard.press('Escape')
    await page.waitForSelector('tr:has-text("dan"):has-text("viewer"):has-text("dan@alice.example"):has-text("not confirmed")')
    await page.click('[aria-label="Change dan"]')
    await page.selectOption('dialog select', 'developer')
    await page.click('dialog button[type=submit]')
    await page.waitForSelector('tr:has-text("dan"):has-text("developer")')
    await page.click('[aria-label="Sign-in link dan"]')
    await page.click('dialog button[type=submit]')
    t.match(await page.textContent('dialog code'), /\/sign-in#\S{40,}$/)
    await page.keyboard.press('Escape')
    await page.click('[aria-label="Remove dan"]')
    t.same(await findAccessibilityViolations(page), [])
    await page.click('dialog button.final')
    await page.waitForSelector('text="Nobody signs in for this account."')
    // The key was added elsewhere.
    await page.reload()
    await page.click('td button[aria-label^="Actions: "]')
    await page.click('[role=menu] button:text-is("Revoke") >> visible=true')
    await confirmQuestion(page)
    await page.waitForSelector('.badge:text-is("revoked")')
  })

  t.test('search, order and the open account are in the address: a reload and the way back keep them', async t => {
    await openPage(page, 'Accounts')
    await page.fill('[type=search]', 'nobody')
    await page.waitForSelector('text="No account matches “nobody”."')
    await page.click('text="Clear search and state"')
    await page.waitForSelector('td >> text="alice"')
    await page.fill('[type=search]', 'CUSTOMER')
    await page.click('th button:text-is("Credits used today")')
    await page.waitForSelector('th[aria-sort=descending]:has-text("Credits used today")')
    await page.waitForSelector('td[data-label="Daily credits"]:has-text("5,000 own; plan: 3,000,000")')
    await page.waitForSelector('td >> text="alice"')
    t.equal(page.url(), `${gateway.admin}/operator/accounts?search=CUSTOMER&sort=used`)
    await page.reload()
    await page.click('td >> text="alice"')
    await page.waitForSelector('h1:has-text("alice")')
    await page.goBack()
    await page.waitForSelector('td >> text="alice"')
    t.equal(await page.inputValue('[type=search]'), 'CUSTOMER')
  })

  t.test('alerts of an account are set, and its secret is shown once', async t => {
    await page.goto(`${gateway.admin}/operator/accounts/alice`)
    await page.click('a:text-is("Keys") >> visible=true')
    t.match(page.url(), /alice#keys$/)
    t.ok(await page.locator('h2#keys').evaluate(({ offsetTop }: { readonly offsetTop: number }) => offsetTop > 0))
    await page.click('summary:has-text("Alerts")')
    await page.fill('[name=daily]', '50, 101')
    await page.click('form:has([name=daily]) button')
    await page.waitForSelector('form:has([name=daily]) [role=alert]')
    await page.fill('[name=daily]', '90, 50')
    await page.fill('[name=errorRate]', '7')
    await page.fill('[name=webhook]', 'https://example.org/hook')
    await page.click('form:has([name=daily]) button')
    t.match(await page.textContent('form:has([name=daily]) code'), /^whsec_/)
    await page.reload()
    await page.click('summary:has-text("Alerts")')
    await page.waitForSelector('[name=daily]')
    t.same(await findAccessibilityViolations(page), [])
    t.equal(await page.inputValue('[name=daily]'), '50, 90')
    t.equal(await page.inputValue('[name=errorRate]'), '7')
    t.equal(await page.inputValue('[name=webhook]'), 'https://example.org/hook')
  })

  t.test('a key is created with its limits and rotated, and each key is shown once', async t => {
    await page.goto(`${gateway.admin}/operator/accounts/alice`)
    await page.click('main >> text="Create a key"')
    await page.fill('form[aria-label="Create a key"] [name=name]', 'server')
    await page.click('form[aria-label="Create a key"] summary')
    await page.fill('form[aria-label="Create a key"] [name=rate]', '10')
    await page.click('form[aria-label="Create a key"] button[type=submit]')
    t.match(await page.textContent('form[aria-label="Create a key"] [role=alert]'), /^Must be a/)
    await page.fill('form[aria-label="Create a key"] [name=rate]', '10/s')
    await page.fill('form[aria-label="Create a key"] [name=days]', '30')
    await page.check('form[aria-label="Create a key"] >> text="proven answers"')
    await page.click('form[aria-label="Create a key"] button[type=submit]')
    await page.waitForSelector('[data-testid=new-key] h2:has-text("server")')
    const created = (await page.textContent('[data-testid=new-key] code')) ?? ''
    t.same(await findAccessibilityViolations(page), [])
    await page.click('[aria-label="Change server"]')
    await page.fill('dialog [name=dailyCredits]', '9000')
    await page.click('dialog button[type=submit]')
    await page.waitForSelector('tr:has-text("server"):has-text("0 of 9,000 (0 %)"):has-text("may ask for proven answers") [role=meter]')
    await page.waitForSelector('tr:has-text("revoked") td[data-label="Daily limit"]:has-text("the account’s 5,000")')
    const ofServer = page.locator('tr:has-text("server")')
    await ofServer.locator('td[data-label="Daily limit"]:has-text("at most 10 calls/s")').waitFor()
    await ofServer.locator('td[data-label=Allowed]:has-text("everything")').waitFor()
    const limits = { methods: ['eth_call'], origins: ['https://a.example'], ips: ['10.0.0.0/8'] }
    const limitKey = async (changes: object) => {
      const id = `fetch('/api/v1/accounts/alice/keys').then(response => response.json()).then(keys => keys.find(({ name }) => name === 'server').id)`
      const init = `{ method: 'PATCH', headers: { 'content-type': 'application/json' }, body: '${JSON.stringify(changes)}' }`
      t.equal(await page.evaluate(`${id}.then(id => fetch('/api/v1/keys/' + id, ${init})).then(({ status }) => status)`), 200)
      await page.reload()
    }
    await limitKey({ networks: ['pair'], ...limits })
    for (const each of ['Networks pair', 'Methods eth_call', 'Origins https://a.example', 'IPs 10.0.0.0/8'])
      await ofServer.locator(`dl.allowed div:has(dt:text-is("${each.split(' ')[0]}")) dd:has-text("${each.split(' ')[1]}")`).waitFor()
    await limitKey({ networks: [], methods: [], origins: [], ips: [] })
    await ofServer.locator('td[data-label=Allowed]:has-text("everything")').waitFor()
    await ofServer.locator('td[data-label="Last used"]:has-text("not in the last 7 days")').waitFor()
    await limitKey({ dailyCredits: 79 })
    await ofServer.locator('.badge.danger:text-is("at its limit")').waitFor()
    await page.waitForSelector(
      '[aria-label="Are calls accepted?"]:has(.badge.warn:text-is("keys at their daily limit")):has-text("server …")',
    )
    await limitKey({ dailyCredits: 9_000 })
    await ofServer.locator('.badge.ok:text-is("active")').waitFor()
    await page.click('[aria-label="Change server"]')
    t.ok(await page.isChecked('dialog >> text="proven answers"'))
    await page.uncheck('dialog >> text="proven answers"')
    await page.check('dialog >> text="answers that are not verified"')
    await page.click('dialog button[type=submit]')
    await page.waitForSelector('tr:has-text("server"):has-text("may ask for answers that are not verified")')
    await chooseAction(page, 'server', 'Rotate')
    await waitUntil(async () => (await page.textContent('[data-testid=new-key] code')) !== created)
    const rotated = (await page.textContent('[data-testid=new-key] code')) ?? ''
    for (const key of [created, rotated])
      await waitUntil(async () => (await call(gateway.http(key), 'eth_gasPrice')).error?.code === undefined)
    const { keys } = (await page.evaluate(`fetch('/api/v1/accounts/alice/keys').then(async r => ({ keys: await r.json() }))`)) as {
      readonly keys: readonly {
        readonly name: string
        readonly rate: string
        readonly expires: string | null
        readonly verify: readonly string[]
      }[]
    }
    t.match(
      keys.filter(({ name }) => name === 'server'),
      [
        { rate: '10/s', expires: /^20/, verify: ['none'] },
        { rate: '10/s', verify: ['none'] },
      ],
    )
  })

  t.test('what was typed when the session ended is there again after the operator has signed in', async t => {
    await page.goto(`${gateway.admin}/operator/accounts/alice`)
    await page.click(`text="${changeAccount}"`)
    await page.fill('dialog [name=label]', 'half typed')
    await context.clearCookies()
    let late: Route | undefined
    await page.route('**/api/v1/session', route => (late === undefined ? void (late = route) : route.continue()))
    await page.evaluate('void document.dispatchEvent(new Event("visibilitychange"))')
    await waitUntil(() => late !== undefined)
    await page.click('dialog [type=submit]')
    await page.fill('[name=token]', adminToken)
    await page.keyboard.press('Enter')
    await page.waitForSelector('h1:has-text("alice")')
    await page.waitForSelector('dialog [type=submit]')
    // A request from before the sign-in is refused after it.
    const refused = page.waitForResponse(response => response.status() === 401)
    await late?.fulfill({ status: 401, json: { error: { code: 'not-signed-in', message: 'sign in first' } } })
    await refused
    await page.unroute('**/api/v1/session')
    await page.click('dialog [type=submit]')
    await page.waitForSelector('dialog', { state: 'detached' })
    await page.click(`text="${changeAccount}"`)
    t.equal(await page.inputValue('dialog [name=label]'), 'half typed')
    await page.keyboard.press('Escape')
  })

  t.test('an account shows its calls over time and by key, and its errors by code', async t => {
    const { key } = await deployment.addKey('alice')
    const headers = { 'content-type': 'application/json', 'x-request-id': quotedId }
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_getBalance', params: [`0x${'c0ffee'.repeat(6)}abcd`, 'nowhere'] })
    await waitUntil(async () => (await fetch(gateway.http(key), { method: 'POST', headers, body })).status === 200)
    const errors = `fetch('/api/v1/errors?account=alice&hours=24').then(response => response.json()).then(json => JSON.stringify(json))`
    await waitUntil(async () => String(await page.evaluate(errors)).includes('params'))
    await page.reload()
    await page.waitForSelector(
      'figure:has-text("Calls over time"):has-text("gateway errors 0, caller errors 1") .legend:has-text("Caller errors")',
    )
    const acceptance = page.locator('[aria-label="Are calls accepted?"]')
    await acceptance.locator('.badge.ok:text-is("calls are accepted")').waitFor()
    t.match(await acceptance.textContent(), /Since \d\d:00 UTC: [\d,]+ calls; gateway errors 0, caller errors 1: Invalid params 1\./)
    t.match(await acceptance.locator('a').getAttribute('href'), /alice\?by=requests&outcome=params$/)
    await page.route('**/api/v1/accounts/alice', async route => {
      const json = (await (await route.fetch()).json()) as { readonly balance: object }
      await route.fulfill({ json: { ...json, balance: { ...json.balance, limit: null, left: null }, ofPlan: null } })
    })
    await page.reload()
    await acceptance.locator('.badge.danger:text-is("calls are refused: the plan is not in gateway.yaml")').waitFor()
    await page.unrouteAll({ behavior: 'wait' })
    await page.reload()
    await acceptance.locator('.badge.ok').waitFor()
    await page.waitForSelector('td:has-text("eth_gasPrice")')
    await page.click('text="Errors" >> nth=-1')
    await page.waitForSelector('tr:has-text("Invalid params (-32602)"):has-text("Caller error: the caller’s own")')
    t.same(await findAccessibilityViolations(page), [])
    await page.click('text="7 days"')
    await page.waitForSelector('tr:has-text("Invalid params (-32602)")')
    t.match(page.url(), /\?by=errors&days=7$/)
    await page.setViewportSize({ width: 360, height: 800 })
    t.equal(
      await page.locator('main .badge, main .segments').evaluateAll(all => {
        const isWider = (each: (typeof all)[number]): boolean =>
          each.getBoundingClientRect().right > (each.parentElement?.getBoundingClientRect().right ?? 0)
        return all.filter(isWider).length
      }),
      0,
      'nothing sticks out of a narrow window',
    )
    await page.setViewportSize({ width: 1_200, height: 800 })
  })

  t.test('errors of all accounts are there by network and outcome, with the methods that fail most and who has the most', async t => {
    await openPage(page, 'Errors')
    const row = page.locator('tr:has-text("devnet"):has-text("Invalid params (-32602)")')
    await row.waitFor()
    await page.waitForSelector(
      'p.lead:has-text("Counted by this gateway since "):has-text(", for the last 24 hours at most. No attempt has failed since then.")',
    )
    t.notMatch(await row.textContent(), /invalid params/, 'the message does not repeat the outcome')
    await row.locator('td[data-label="Methods"] a:has-text("eth_getBalance")').click()
    await page.waitForSelector('section[aria-label=Requests] tr:has-text("alice"):has-text("eth_getBalance")')
    t.match(page.url(), /\?outcome=params&method=eth_getBalance&network=devnet$/)
    await page.goBack()
    await row.locator('a:has-text("alice")').click()
    await page.waitForSelector('h1:has-text("alice")')
  })

  t.test('from failed calls of an account, network or method a link leads to the last ones', async t => {
    const last = 'section[aria-label=Requests] tr:has-text("eth_getBalance"):has-text("Invalid params (-32602)")'
    await openPage(page, 'Errors')
    await page.click('tr:has-text("devnet"):has-text("Invalid params (-32602)") td[data-label="Most by"] a:text-is("Requests")')
    await page.waitForSelector(last)
    t.match(page.url(), /alice\?by=requests&network=devnet&outcome=params$/)
    await page.goBack()
    await page.click('tr:has-text("devnet"):has-text("Invalid params (-32602)") td[data-label=Outcome] a:text-is("Requests")')
    await page.waitForSelector('section[aria-label=Requests] tr:has-text("alice"):has-text("Invalid params (-32602)")')
    await page.goBack()
    await page.click('tr:has-text("devnet"):has-text("Invalid params (-32602)") td[data-label="Most by"] a:text-is("Requests")')
    t.same(await findAccessibilityViolations(page), [])
    await page.click('a:text-is("All networks and methods")')
    await page.waitForSelector(last)
    t.match(page.url(), /alice\?by=requests&outcome=params$/)
    await page.click('text="By method"')
    await page.click('tr:has-text("eth_getBalance") td[data-label="Caller errors"] a')
    await page.waitForSelector(last)
    t.match(page.url(), /method=eth_getBalance/)
    await openPage(page, 'Traffic')
    t.equal(await page.locator('tr:has-text("alice") td[data-label="Gateway errors"]').textContent(), '0')
    await page.click('tr:has-text("alice") td[data-label="Caller errors"] a')
    await page.waitForSelector(last)
  })

  t.test('the latest logged requests of all accounts are listed, by account, network, method and outcome', async t => {
    await openPage(page, 'Requests')
    const rows = page.locator('section[aria-label=Requests] tbody tr')
    await rows.filter({ hasText: 'alice' }).first().waitFor()
    t.match(await rows.first().textContent(), /alice.*devnet/)
    await page.click('label:has-text("Failed")')
    await page.fill('main [name=method]', 'eth_getBalance')
    await page.keyboard.press('Enter')
    await rows.filter({ hasText: 'Invalid params (-32602)' }).first().waitFor()
    await page.fill('main [name=code]', '-32602')
    await page.keyboard.press('Enter')
    await page.selectOption('select:near(:text("Range"))', 'between')
    await page.waitForSelector('main label:has-text("From (UTC)")')
    await rows.filter({ hasText: 'Invalid params (-32602)' }).first().waitFor()
    t.match(page.url(), /&code=-32602&from=[^&]+Z&to=[^&]+Z$/)
    await page.fill('#time-to', '2026-01-15T12:00')
    await page.fill('#time-from', '2026-01-15T11:00')
    await page.waitForSelector('text="No logged request is like this."')
    await page.selectOption('select:near(:text("Range"))', '6')
    await rows.filter({ hasText: 'Invalid params (-32602)' }).first().waitFor()
    await page.selectOption('select:near(:text("Range"))', '')
    await page.fill('main [name=code]', '')
    await page.fill('main [name=node]', 'nowhere')
    await page.keyboard.press('Enter')
    await page.waitForSelector('text="No logged request is like this."')
    await page.fill('main [name=node]', '')
    await page.keyboard.press('Enter')
    await rows.filter({ hasText: 'Invalid params (-32602)' }).first().waitFor()
    await page.selectOption('select:near(:text("Network"))', 'pair')
    await page.waitForSelector('text="No logged request is like this."')
    t.same(await findAccessibilityViolations(page), [])
    await page.fill('main [name=account]', 'nobody')
    await page.keyboard.press('Enter')
    await page.waitForSelector('[role=alert]:has-text("nobody")')
    t.match(page.url(), /\?outcome=failed&method=eth_getBalance&network=pair&account=nobody$/)
  })

  t.test('a request is found by the id that a customer quotes, without its parameters', async t => {
    await openPage(page, 'Requests')
    await page.fill('main [name=id]', `${quotedId}?`)
    await page.keyboard.press('Enter')
    await page.waitForSelector('main >> text="No logged request has this id"')
    await page.fill('main [name=id]', quotedId)
    await page.keyboard.press('Enter')
    const found = page.locator('section[aria-label=eth_getBalance]').first()
    await found.locator('.badge.neutral:has-text("Invalid params (-32602)")').waitFor()
    t.same(await findAccessibilityViolations(page), [])
    t.notOk((await page.content()).includes('c0ffee'))
    await found.locator('a:has-text("…")').click()
    await page.waitForSelector('section[aria-label=Requests] tr:has-text("eth_getBalance")')
    await page.goBack()
    await found.locator('a:text-is("alice")').click()
    await page.waitForSelector('h1:has-text("alice")')
    await page.goBack()
    await page.waitForSelector('section[aria-label=eth_getBalance]')
    t.equal(await page.inputValue('main [name=id]'), quotedId)
  })

  t.test('who quotes the end of a key is found with what failed last, and why; a whole key is not in the address', async t => {
    const { key } = await deployment.addKey('alice')
    const ending = key.slice(-4)
    await waitUntil(
      async () => (await call(gateway.http(key), 'eth_getBalance', [`0x${'c0ffee'.repeat(6)}abcd`, 'nowhere'])).error?.code === -32602,
    )
    await openPage(page, 'Accounts')
    let looked = 0
    await page.route('**/api/v1/keys?*', async route => {
      looked += 1
      await page.waitForSelector('text="Looking for keys that end so…"')
      await route.continue()
    })
    await page.locator('[type=search]').pressSequentially('customer 8')
    await page.fill('[type=search]', '')
    await page.fill('[type=search]', key)
    await page.waitForSelector(`h2:text-is("Keys that end in ${ending}")`)
    t.equal(looked, 1, 'not for the first four letters of a word')
    await page.unroute('**/api/v1/keys?*')
    t.notOk(page.url().includes(key.slice(0, 20)))
    t.equal(await page.inputValue('[type=search]'), `…${ending}`)
    t.same(await findAccessibilityViolations(page), [])
    await page.fill('[type=search]', ending)
    await page.click(`section[aria-label="Keys that end in ${ending}"] a >> nth=0`)
    await page.waitForSelector('h1:has-text("alice")')
    await waitUntil(async () => {
      await page.reload()
      await page.waitForSelector('h2:text-is("Usage")')
      return (await page.locator('tr:has-text("Invalid params (-32602)"):has-text("eth_getBalance")').count()) > 0
    })
    await page.waitForSelector('tr:has-text("Correct the parameter that the message names")')
    t.notOk((await page.content()).includes('c0ffee'))
    t.same(await findAccessibilityViolations(page), [])
    await page.click('main label:has-text("Slow")')
    await page.waitForSelector('text="No logged request is like this."')
    t.match(page.url(), /\?by=requests&key=key_\w+&outcome=slow$/)
    await page.goBack()
    t.match(await page.locator('section[aria-label=Requests] td[data-label="Request ID"] a').first().textContent(), /^\w{4}…\w{4}$/)
    await page.click('section[aria-label=Requests] td[data-label="Request ID"] a >> nth=0')
    await page.waitForSelector('h1:has-text("Requests")')
    await page.waitForSelector('section[aria-label=eth_getBalance]')
  })

  t.test('an address that is none of a page says so, with a way home', async t => {
    await page.goto(`${gateway.admin}/operator/acounts`)
    await page.waitForSelector('h1:has-text("Page not found")')
    t.equal(await page.locator('[aria-current]').count(), 0)
    await page.click('main >> text="Home"')
    await page.waitForSelector('h1:has-text("Home")')
    t.equal(page.url(), `${gateway.admin}/operator`)
  })

  t.test('traffic is that of the calls, and its names are links', async t => {
    await openPage(page, 'Traffic')
    await page.waitForSelector('td a:has-text("alice")')
    await page.waitForSelector('figure:has-text("Calls over time") .note:text-matches("caller errors \\\\d+; peak \\\\d+ \\\\(")')
    const nextRead = page.waitForRequest(/\/usage\?by=hour&/)
    await page.evaluate(`{ const { now } = Date; Date.now = () => now() + 3_600_000 }`)
    await nextRead
    await page.route('**/api/v1/usage?by=day&*', async route => {
      const json = (await (await route.fetch()).json()) as { readonly from: string }
      await route.fulfill({ json: { ...json, from: json.from.replace(/T\d\d/, 'T05') } })
    })
    await page.reload()
    await page.selectOption('select >> nth=1', '744')
    await page.waitForSelector('figure:has-text("Calls over time") .not-over span:text-matches("since .*, 05:00 UTC; .*not over yet")')
    await page.unrouteAll({ behavior: 'wait' })
    await page.goto(`${gateway.admin}/operator/traffic`)
    await page.selectOption('select >> nth=0', 'method')
    await page.waitForSelector('td:has-text("eth_gasPrice")')
    await page.reload()
    await page.waitForSelector('tr:has-text("eth_gasPrice"):has-text("ms")')
    const titles = await page.locator('thead th').allTextContents()
    t.same(titles, ['Method', 'Calls', 'Gateway errors', 'Caller errors', 'p50', 'p95', 'p99', 'Credits', 'Sent to a partner'])
    t.match(page.url(), /\?by=method$/)
    await page.click('th button:text-is("Caller errors")')
    await page.waitForSelector('th[aria-sort=descending]:has-text("Caller errors")')
    await page.waitForSelector('tbody tr:first-child:has-text("eth_getBalance")')
    t.match(page.url(), /\?by=method&sort=byCaller$/)
    const callsOf = async (rows: string) =>
      (await page.locator(`${rows} td[data-label=Calls]`).allTextContents()).reduce(
        (sum, each) => sum + Number(each.replaceAll(',', '')),
        0,
      )
    t.equal(await callsOf('tfoot tr:has-text("Total")'), await callsOf('tbody tr'))
    await page.selectOption('select >> nth=0', 'network')
    await page.click('td a:has-text("devnet")')
    await page.waitForSelector('h1:has-text("Nodes")')
  })

  t.test('a node that was wrong is on Home, with what proves it on Nodes, and is trusted again', async t => {
    await openPage(page, 'Home')
    await page.waitForSelector(
      '.attention li:has-text("wrong results"):has-text("1 wrong result in the last 24 hours, at"):has-text("receipts are not those of the header")',
    )
    await page.click('.attention li:has-text("wrong results") a:has-text("left")')
    const results = page.locator('section.network[aria-label=pair]:has-text("Wrong results")')
    await results.locator('tr:has-text("eth_getBlockReceipts"):has-text("proven by the header")').waitFor()
    await results.locator('button:has-text("Show")').click()
    await page.waitForSelector('dialog pre:has-text("eth_getBlockReceipts"):has-text("0x10")')
    await page.waitForSelector('dialog pre:has-text(\'"number": 16\')')
    t.same(await findAccessibilityViolations(page), [])
    await page.click('dialog button:has-text("Close")')
    await results.locator('button:has-text("Trust again left")').click()
    await page.click('dialog button.final')
    await results.waitFor({ state: 'detached' })
    await waitUntil(() => gateway.log.some(({ event, upstream }) => event === 'node-readmitted' && upstream === 'left'))
    await openPage(page, 'Audit')
    await page.waitForSelector('tr:has-text("Node trusted again"):has-text("pair/left")')
    await openPage(page, 'Home')
    await page.waitForSelector('h1:has-text("Home")')
    await page.locator('.attention li:has-text("wrong results")').waitFor({ state: 'detached' })
  })

  t.test('Home shows what is going on on each network, and what the menu counts', async t => {
    const { key } = await deployment.addCaller('busy')
    await page.evaluate(
      `fetch('/api/v1/accounts/busy', { method: 'PATCH', headers: { 'content-type': 'application/json' }, body: '{"credits":1000}' })`,
    )
    await waitUntil(async () => (await call(gateway.http(key), 'eth_gasPrice')).error?.code === undefined)
    for (let i = 0; i < 10; i += 1) await call(gateway.http(key), 'eth_gasPrice')
    await openPage(page, 'Home')
    // Calls that failed before are a problem for a minute; on a busy machine the event loop is late, which Home says too.
    const late = '.attention li:has-text("the event loop was")'
    await page.waitForSelector(`strong:text-is("All nodes are usable, and the store answers."), ${late}`, { timeout: 70_000 })
    await waitUntil(async () => Number(await page.textContent('[data-testid=calls-per-second]')) > 0)
    const ofDevnet = page.locator('[aria-label=Networks] tr:has-text("devnet")')
    t.match(await ofDevnet.locator('td').allTextContents(), ['devnet', 'up', '1 of 1 usable', /^[\d.]+$/, /^\d.* %$/, /ms$/, /s old$/])
    await ofDevnet.locator('a:text-is("devnet")').click()
    await page.waitForSelector('.network[aria-label=devnet]')
    await openPage(page, 'Home')
    const ofAlerts = page.locator('.attention li:has-text("nobody is alerted by this gateway")')
    await ofAlerts.locator('.badge.warn:text-is("warning")').waitFor()
    t.same(await ofAlerts.locator('code').allTextContents(), ['portal.operatorAlerts', '{}'])
    await ofAlerts.locator('a:text-is("Configuration")').click()
    await page.waitForSelector('h1:has-text("Configuration")')
    await openPage(page, 'Home')
    const lag = {
      network: null,
      node: null,
      kind: 'TollgateEventLoopLag',
      severity: 'warning',
      text: 'the event loop was 120 ms late',
      partOfOutage: false,
    }
    const ofOutage = { ...lag, network: 'pair', kind: 'down', severity: 'critical', text: 'down' }
    let problems: readonly object[] = [lag, { ...lag, severity: 'info' }]
    await page.route('**/api/v1/overview/nodes', async route => {
      const json = (await (await route.fetch()).json()) as object
      await route.fulfill({ json: { ...json, problems: problems.map(each => ({ ...each, wrongResults: null })) } })
    })
    await page.reload()
    await page.waitForSelector('nav a:has-text("Home")[title="1 open problem"] .badge.warn:has-text("1")')
    problems = [ofOutage, { ...ofOutage, kind: 'notUsable', node: 'left', partOfOutage: true }, lag]
    await page.reload()
    await page.waitForSelector('nav a:has-text("Home")[title="2 open problems"] .badge.danger:has-text("2")')
    await page.unrouteAll({ behavior: 'wait' })
    // Nodes has what Home has read, and keeps the order of its rows.
    await page.reload()
  })

  t.test('a node is drained and put back; the dialog says what is left, and the row keeps its place', async t => {
    await openPage(page, 'Nodes')
    await page.waitForSelector('td:has-text("100 %")')
    const cells = await page.locator('tbody tr:has(td:has-text("node-1")) td').allTextContents()
    t.match(cells, [/^node-1/, 'up', '0', /^\d+$/, '100 %', '0'])
    const ofLeft = page.locator('tr:has(.row-name a:text-is("left"))')
    await ofLeft.locator('.help:text-is("Geth v1.13.5-stable, 1st choice")').waitFor()
    await page.waitForSelector('tr:has(.row-name a:text-is("right")) .help:has-text("standby, 2nd choice")')
    t.equal(await ofLeft.locator('.help').getAttribute('title'), 'calls first, as the first of 2 in the order')
    t.notMatch(await page.content(), /host-of-node/)
    await page.click('[aria-label="Drain pair / left"]')
    await page.waitForSelector(
      `dialog:has-text("Drain left of pair at ${hostname()}?"):has-text("1 of 2 nodes stays usable."):has-text("do not count drained nodes")`,
    )
    t.equal(await page.locator('dialog button.danger').count(), 0, 'it can be put back')
    await page.click('dialog button:text-is("Cancel")')
    const names = () => page.locator('tbody tr:not(.detail) > :first-child .row-name').allTextContents()
    const before = await names()
    t.same(before, ['devnet', 'node-1', 'pair', 'left', 'right'])
    await page.click('[aria-label="Drain pair / right"]')
    await page.fill('dialog [name=reason]', 'disk swap, OPS-41')
    await page.selectOption('dialog select', '2h')
    t.same(await findAccessibilityViolations(page), [])
    await page.click('dialog button.final')
    await page.waitForSelector('tr:has-text("right") .badge:text-is("drained")')
    await page.waitForSelector('tr.detail:has-text("reason: disk swap, OPS-41; until ")')
    t.same(await names(), before, 'although its network has a problem now')
    t.equal(await page.locator('nav a:has-text("Nodes") .badge').count(), 0, 'an operator wants it')
    await page.setViewportSize({ width: 360, height: 800 })
    // That alerts have no receivers; on a busy machine the event loop is late too.
    await page.waitForSelector('button:has-text("Menu") .badge.warn:has-text("problem")')
    await page.click('button:has-text("Menu")')
    await page.waitForSelector('nav a:has-text("Home") .badge.warn')
    t.equal(await page.locator('button:has-text("Menu") .badge').count(), 0, 'an open menu says it at its pages')
    await page.click('button:has-text("Menu")')
    await page.setViewportSize({ width: 1_200, height: 800 })
    await openPage(page, 'Home')
    await page.waitForSelector(
      '.attention li:has-text("no redundancy"):has-text("1 of 2 nodes is usable: without it, calls fail: no partner is set for pair") .badge.accent',
    )
    await page.waitForSelector('.attention li:has-text("right") .badge.neutral:text-is("drained")')
    t.equal(await page.locator('.attention li:has-text("right") .error').count(), 0, 'an operator wants it')
    t.equal(await page.locator('.attention li:has-text("pair")').count(), 2)
    t.same(await findAccessibilityViolations(page), [])
    await openPage(page, 'Nodes')
    await page.click('[aria-label="Put back pair / right"]')
    await page.waitForSelector('tr:has-text("right") .badge:text-is("up")')
    await page.click('.danger[aria-label="Drain devnet / node-1"]')
    await page.waitForSelector(
      'dialog [role=alert]:has-text("It is the last usable node of devnet."):has-text("customers that it is down.")',
    )
    t.same(await findAccessibilityViolations(page), [])
    await page.click('dialog button:text-is("Drain all the same")')
    await page.waitForSelector('tr:has-text("node-1") .badge:text-is("drained")')
    await openPage(page, 'Home')
    await page.waitForSelector(
      'li:has-text("devnet") [role=alert]:has-text("no usable node (0 of 1) since"):has-text("; calls fail: no partner is set for devnet")',
    )
    const { key } = await deployment.addKey('busy')
    await call(gateway.http(key), 'eth_gasPrice')
    const failedCalls = `fetch('/api/v1/overview').then(response => response.json()).then(({ networks }) => {
      return networks.find(({ name }) => name === 'devnet').outage?.failedCalls
    })`
    await waitUntil(async () => (await page.evaluate(failedCalls)) === 1)
    await page.reload()
    await page.waitForSelector('[role=alert]:has-text("1 of 1 calls since then failed")')
    await page.waitForSelector('nav a[title="1 node with problems"] .badge.danger')
    await page.waitForSelector('.attention .attention li:has-text("node-1"):has-text("drained"):has-text("For"):has-text("(since")')
    await page.click('li a:text-is("node-1")')
    await page.waitForSelector('.network[aria-label=devnet] .heading .badge:text-is("down")')
    await page.waitForSelector('tr[aria-current]:has-text("node-1")')
    await page.click('a:text-is("All networks")')
    await page.waitForSelector('tr.group:first-child:has-text("devnet") .badge:text-is("down")')
    await openPage(page, 'Home')
    await page.click('[aria-label="Put back devnet / node-1"]')
    await page.locator('.attention .attention li:has-text("node-1")').waitFor({ state: 'detached' })
  })

  t.test('several nodes are drained by one question, which names what stays usable, and is red where nothing does', async t => {
    await openPage(page, 'Nodes')
    await page.click('button:text-is("Drain several…")')
    await page.click('dialog button.final')
    await page.waitForSelector('dialog [role=alert]:has-text("Choose nodes first.")')
    await page.check('dialog >> text="pair / left"')
    await page.waitForSelector('dialog .line:text-is("pair: right stays usable.")')
    t.equal(await page.locator('dialog button.danger').count(), 0)
    const message = 'no other node of pair is usable'
    await page.route('**/nodes/pair/left/drain', route => route.fulfill({ status: 409, json: { error: { code: 'last-node', message } } }))
    await page.click('dialog button.final')
    await page.waitForSelector(`dialog [role=alert]:has-text("Not drained: pair / left: No other node of pair is usable.")`)
    await page.unrouteAll({ behavior: 'wait' })
    await page.click('dialog button:text-is("Choose all (3)")')
    const none = 'no node stays usable: calls fail: no partner is set for'
    await page.waitForSelector(`dialog [role=alert]:has-text("devnet: ${none} devnet."):has-text("pair: ${none} pair.")`)
    t.same(await findAccessibilityViolations(page), [])
    await page.uncheck('dialog >> text="devnet / node-1"')
    await page.locator(`dialog .line:has-text("devnet: ")`).waitFor({ state: 'detached' })
    await page.fill('dialog [name=reason]', 'provider down')
    await page.click('dialog button.danger.final:text-is("Drain all the same")')
    await page.locator('dialog').waitFor({ state: 'detached' })
    for (const name of ['left', 'right']) {
      await page.waitForSelector(`tr:has(.row-name a:text-is("${name}")) .badge:text-is("drained")`)
      await page.click(`[aria-label="Put back pair / ${name}"]`)
      await page.waitForSelector(`tr:has(.row-name a:text-is("${name}")) .badge:text-is("up")`)
    }
    t.equal(await page.locator('tr:has(.row-name a:text-is("node-1")) .badge:text-is("up")').count(), 1, 'it was not chosen')
  })

  type Networks = NodesJson['networks']
  /** What the page is shown in place of the networks of the gateway, with the problems that follow. */
  const changeNodes = async (change: (networks: Networks) => Networks): Promise<void> => {
    await page.route('**/api/v1/overview/nodes', async route => {
      const json = (await (await route.fetch()).json()) as NodesJson
      const networks = change(json.networks)
      await route.fulfill({
        json: { ...json, networks, ...describeProblems({ networks, alerts: [], evidence: [], incidents: [], config: noAlerts }) },
      })
    })
  }

  t.test('in an outage Home counts the calls since it began, and offers no Drain', async t => {
    type Json = Readonly<Record<string, unknown>>
    const down = { condition: 'notUsable', usable: false, because: 'connection refused', unusableSince: new Date().toISOString() } as const
    await changeNodes(networks =>
      networks.map(({ upstreams, ...each }) => ({
        ...each,
        state: 'down',
        usableNodes: 0,
        downSince: `${new Date().toISOString().slice(0, 10)}T12:00:00.000Z`,
        upstreams: upstreams.map(node => ({ ...node, ...down, drained: each.name === 'devnet' })),
      })),
    )
    await page.route('**/api/v1/overview', async route => {
      const json = (await (await route.fetch()).json()) as Json & {
        readonly total: Json
        readonly networks: readonly (Json & { readonly upstreams: readonly Json[] })[]
      }
      const networks = json.networks.map((each, i) => ({
        ...each,
        p95Ms: 132,
        upstreams: each.upstreams.map(node => ({ ...node, share: 0.598 })),
        outage: { since: new Date().toISOString(), calls: i === 0 ? 11 : 0, failedCalls: i === 0 ? 11 : 0 },
      }))
      await route.fulfill({ json: { ...json, networks, total: { ...json.total, calls: 500, failedCalls: 11 }, seconds: 60 } })
    })
    await page.goto(`${gateway.admin}/operator`)
    await page.waitForSelector('.figures :text("11 of 500 in the last 60\u00a0s")')
    await page.waitForSelector('.figures .danger:text-is("2.2\u00a0%")')
    await page.waitForSelector(
      'li:has-text("devnet") [role=alert]:has-text("no usable node (0 of 1) since "):has-text("all 11 calls since then failed")',
    )
    const ofDevnet = page.locator('[aria-label=Networks] tr:has-text("devnet"):has-text("down"):has-text("0 of 1 usable")')
    t.equal(await ofDevnet.locator('[data-label="p95 latency"]').textContent(), '–', 'what was measured before says nothing of now')
    const countLines = (text: { getClientRects(): ArrayLike<unknown> }) => text.getClientRects().length
    t.equal(await ofDevnet.locator('[data-label=Nodes] span').evaluate(countLines), 1, 'how many are usable is on one line')
    t.match(await ofDevnet.textContent(), / of 11 since 12:00:00.UTC/, 'from when its nodes were down, whenever that was noticed')
    await page.waitForSelector('.attention .attention li:has-text("node-1"):has-text("Connection refused")')
    t.equal(await page.locator('.attention button').count(), 0)
    t.same(await findAccessibilityViolations(page), [])
    await openPage(page, 'Nodes')
    await page.waitForSelector('tr.group:has-text("Gateway errors 100\u00a0% of 11 since "):has-text("p95 –")')
    await page.waitForSelector('tr:has-text("node-1"):has-text("59.8 %")')
    await openPage(page, 'Home')
    await page.unrouteAll({ behavior: 'wait' })
    t.match(await page.textContent('.page-heading .since'), /^As of \d\d:\d\d:\d\d UTC$/)
  })

  t.test(
    'who looks after a problem is on Home, below what nobody has taken; it is said with a note and taken back by keyboard',
    async t => {
      const down = {
        condition: 'notUsable',
        usable: false,
        because: 'connection refused',
        unusableSince: new Date().toISOString(),
      } as const
      const sent: unknown[] = []
      let acknowledged: Parameters<typeof describeProblems>[0]['incidents'][number]['acknowledged'] = null
      await page.route('**/api/v1/overview/nodes', async route => {
        const json = (await (await route.fetch()).json()) as NodesJson
        const networks = json.networks.map(each =>
          each.name === 'pair' ? { ...each, upstreams: each.upstreams.map(node => ({ ...node, ...down })) } : each,
        )
        const ofPair = { network: 'pair', kind: 'notUsable', severity: 'warning', ended: null } as const
        const incidents = [
          { ...ofPair, node: 'left', acknowledged },
          { ...ofPair, node: 'right', acknowledged: null },
        ]
        const config = { listen: { portal: {} }, portal: {} } as never // what problems follow from
        await route.fulfill({ json: { ...json, networks, ...describeProblems({ networks, alerts: [], evidence: [], incidents, config }) } })
      })
      await page.route('**/api/v1/overview/incidents/*', async route => {
        const isTaken = !route.request().url().endsWith('/unacknowledge')
        const input = route.request().postDataJSON()
        sent.push(input)
        acknowledged = isTaken ? { by: { kind: 'operator', name: 'dora' }, at: new Date().toISOString(), note: input.note ?? null } : null
        await route.fulfill({ json: { ...acknowledged, incidents: 1 } })
      })
      await page.goto(`${gateway.admin}/operator`)
      const rows = page.locator('.attention li:has-text("pair / ")')
      await rows.nth(1).waitFor()
      t.match(await rows.nth(0).textContent(), 'left')
      await page.focus('[aria-label="I am on it pair / left"]')
      await page.keyboard.press('Enter')
      await page.waitForSelector(
        'dialog:has-text("I am on it: pair / left"):has-text("until it has ended"):has-text("Alerts are sent as before")',
      )
      t.same(await findAccessibilityViolations(page), [])
      await page.keyboard.type('OPS-41')
      await page.keyboard.press('Tab')
      await page.keyboard.press('Tab')
      await page.keyboard.press('Enter')
      await page.locator('dialog').waitFor({ state: 'detached' })
      await page.waitForSelector('.attention li:has-text("left"):has-text("dora (operator) is on it since"):has-text("OPS-41")')
      t.match(await rows.nth(0).textContent(), 'right', 'nobody has taken it')
      t.match(await rows.nth(1).textContent(), 'left')
      t.same(await findAccessibilityViolations(page), [])
      await page.focus('[aria-label="Take back pair / left"]')
      await page.keyboard.press('Enter')
      await page.waitForSelector('[aria-label="I am on it pair / left"]')
      t.match(await rows.nth(0).textContent(), 'left')
      t.same(sent, [
        { network: 'pair', node: 'left', note: 'OPS-41' },
        { network: 'pair', node: 'left' },
      ])
      await page.unrouteAll({ behavior: 'wait' })
      await page.reload()
    },
  )

  t.test('what kept calls from nodes is on Home, and on Nodes for each network, after it has ended too', async t => {
    const stateOf = `fetch('/api/v1/overview/incidents?network=pair').then(response => response.json()).then(({ incidents }) => {
      const found = incidents.find(({ node, kind }) => node === 'left' && kind === 'drained')
      return found && (found.ended === null ? 'ongoing' : 'ended')
    })`
    // The response to a change waits until it is in force: the list agrees with it at once.
    await page.evaluate(`fetch('/api/v1/nodes/pair/left/drain', { method: 'POST' })`)
    t.equal(await page.evaluate(stateOf), 'ongoing')
    await page.goto(`${gateway.admin}/operator`)
    const ongoing = '[aria-label="Incidents in the last 24 hours"] tr:has-text("left"):has-text("drained"):has-text("ongoing")'
    await page.waitForSelector(ongoing)
    await page.click('[aria-label="Put back pair / left"]')
    // Within the 15 s after which the page reads by itself.
    await page.locator(ongoing).waitFor({ state: 'detached', timeout: 8_000 })
    t.equal(await page.evaluate(stateOf), 'ended')
    await page.waitForSelector('[aria-label="Incidents in the last 24 hours"] tr:has-text("left"):has-text("drained")')
    t.same(await findAccessibilityViolations(page), [])
    const breakers = Array.from({ length: 12 }, (_, i) => ({
      ...{ network: 'pair', node: `node-${i}`, kind: 'breaker', class: 'all', severity: 'warning', text: 'too many calls failed' },
      ...{ began: new Date().toISOString(), ended: i < 11 ? null : new Date().toISOString(), times: 1 },
    }))
    await page.route('**/api/v1/overview/incidents', route => route.fulfill({ json: { since: '', incidents: breakers } }))
    await page.reload()
    const rows = page.locator('[aria-label="Incidents in the last 24 hours"] tbody tr')
    await page.waitForSelector('button:text-is("More incidents (1)")')
    t.equal(await rows.count(), 11, 'all that last')
    await page.click('button:text-is("More incidents (1)")')
    await rows.nth(11).waitFor()
    await page.click('button:text-is("Fewer")')
    await page.unrouteAll({ behavior: 'wait' })
    await page.reload()
    await page.click('[aria-label="Incidents in the last 24 hours"] a:text-is("pair / left")')
    await page.waitForSelector('.network[aria-label=pair] tr:has-text("left"):has-text("an operator has drained it")')
  })

  t.test('the last node for some calls is drained after a red question alone, which names their class', async t => {
    const logs = { class: 'logs', reason: 'breaker', text: 'a circuit breaker is open', keepsAway: true }
    const problems = [
      { plugin: 'watcher', name: 'feed-down', severity: 'critical', text: 'the feed is down', since: new Date(0).toISOString() } as const,
    ]
    const changes = [{ onlyFor: ['logs'] }, { condition: 'reduced', reasons: [logs] }] as const
    const partner = { name: 'elsewhere', partner: true, reasons: [] }
    await changeNodes(networks =>
      networks.map(each => {
        if (each.name !== 'pair') return each
        const upstreams = each.upstreams.map((node, i) => ({ ...node, ...changes[i] }))
        return { ...each, problems, upstreams: [...upstreams, ...upstreams.slice(0, 1).map(node => ({ ...node, ...partner }))] }
      }),
    )
    await page.reload()
    await openPage(page, 'Home')
    await page.waitForSelector('.attention li:has-text("critical"):has-text("pair"):has-text("watcher: the feed is down")')
    await page.waitForSelector('.attention li:has-text("right"):has-text("Logs methods: a circuit breaker is open")')
    await openPage(page, 'Nodes')
    await page.click('[aria-label="Drain pair / left"]')
    await page.waitForSelector('dialog [role=alert]:has-text("It is the only node that gets calls of the class logs of pair.")')
    await page.waitForSelector(
      'dialog [role=alert]:has-text("Until it is put back, those calls fail, except those that the partner answers: of its methods, for plans with forwarding.")',
    )
    t.match(await page.textContent('dialog button.danger'), 'Drain all the same')
    t.same(await findAccessibilityViolations(page), [])
    await page.keyboard.press('Escape')
    await page.unrouteAll({ behavior: 'wait' })
    await page.reload()
  })

  t.test('no call is lost while a node is drained and put back', async t => {
    const { key } = await deployment.addCaller('steady')
    const url = gateway.http(key).replace('127.0.0.1', 'localhost')
    await waitUntil(async () => (await call(url, 'eth_gasPrice')).result === '0x7')
    let isEnding = false
    const failed: unknown[] = []
    const calling = Array.from({ length: 4 }, async () => {
      while (!isEnding) {
        const { result, error } = await call(url, 'eth_gasPrice')
        if (result !== '0x7') failed.push(error)
      }
    })
    const callsAt = ({ received }: typeof pair.left) => received.filter(({ method }) => method === 'eth_gasPrice').length
    await openPage(page, 'Nodes')
    await page.click('tr.group a:text-is("pair")')
    t.match(page.url(), /\?network=pair$/)
    await page.click('[aria-label="Drain left"]')
    await page.click('dialog button.final')
    await page.waitForSelector('tr:has-text("left") .badge:text-is("drained")')
    const before = { left: callsAt(pair.left), right: callsAt(pair.right) }
    t.ok(before.left > 0)
    await waitUntil(async () => {
      const status = (await (await fetch(`${gateway.portal}/api/v1/status`)).json()) as readonly { readonly name: string }[]
      const { state, nodes, usableNodes } = Object(status.find(({ name }) => name === 'pair'))
      return state === 'ok' && nodes === 1 && usableNodes === 1
    })
    await waitUntil(() => callsAt(pair.right) > before.right + 20)
    t.equal(callsAt(pair.left), before.left)
    await page.click('[aria-label="Put back left"]')
    await page.waitForSelector('tr:has-text("left") .badge:text-is("up")')
    await waitUntil(() => callsAt(pair.left) > before.left)
    isEnding = true
    await Promise.all(calling)
    t.same(failed, [])
  })

  t.test('a drained node that the configuration does not have any more is listed, and put back', async t => {
    await page.evaluate(`fetch('/api/v1/nodes/pair/right/drain', { method: 'POST' })`)
    const written = { ...networkFile('pair', [], { cache: false, failover: { upstreams } }), hosts: ['localhost'] }
    const without = networkFile('pair', [], { cache: false, failover: { upstreams: upstreams.slice(0, 1) } })
    deployment.writeNetwork('pair', { ...without, hosts: ['localhost'] })
    await openPage(page, 'Nodes')
    const listed = 'section[aria-label="Drained, and not in the configuration"]'
    await waitUntil(async () => {
      await page.reload()
      await page.waitForSelector('tr.group')
      return (await page.locator(`${listed} >> text="pair/right"`).count()) === 1
    })
    await page.waitForSelector(`${listed} td:has-text("by admin session (operator)")`)
    t.same(await findAccessibilityViolations(page), [])
    await page.click('[aria-label="Put back pair/right"]')
    await page.locator(listed).first().waitFor({ state: 'detached' })
    deployment.writeNetwork('pair', written)
    await waitUntil(async () => {
      await page.reload()
      await page.waitForSelector('tr.group')
      return (await page.locator('tr:has-text("right") .badge:not(:text-is("drained"))').count()) === 1
    })
  })

  t.test('of hundreds of nodes 100 are shown at a time; search, problems and links find the others, and each column sorts', async t => {
    await changeNodes(networks => {
      const pair = networks.find(({ name }) => name === 'pair')
      if (pair === undefined) return []
      const down = { condition: 'notUsable', usable: false, because: 'it is down' } as const
      const upstreamsOf = (i: number) => pair.upstreams.map((each, n) => ({ ...each, lagBlocks: i === 320 && n === 1 ? 77 : i % 7 }))
      return Array.from({ length: 500 }, (_, i) => ({
        ...{ ...pair, name: `chain-${String(i).padStart(3, '0')}` },
        upstreams: i === 400 ? pair.upstreams.map(each => ({ ...each, ...down })) : upstreamsOf(i),
      }))
    })
    await page.goto(`${gateway.admin}/operator/nodes`)
    await page.waitForSelector('tr.group:has-text("chain-000")')
    t.match(await page.textContent('tr.group'), /chain-400/, 'what has problems comes first')
    t.equal(await page.locator('tr.group').count(), 50)
    t.ok(Number(await page.evaluate('document.querySelectorAll("*").length')) < 5_000)
    await page.click('.pager button:text-is("Next")')
    await page.waitForSelector('tr.group:has-text("chain-050")')
    await page.waitForSelector('.pager:has-text("101–200 of 1,000")')
    await page.fill('[type=search]', 'chain-49')
    await page.waitForSelector('tr.group:has-text("chain-499")')
    t.equal(await page.locator('tr.group').count(), 10, 'from the first one on')
    await page.fill('[type=search]', 'down right')
    await page.waitForSelector('tr:not(.group):has-text("right"):has(.badge:text-is("down"))')
    t.equal(await page.locator('tbody tr:not(.group, .detail)').count(), 1, 'by state and name')
    await page.fill('[type=search]', '')
    await page.click('text=With problems (2)')
    await page.waitForSelector('tr.group:has-text("chain-400")')
    t.equal(await page.locator('tr.group').count(), 1)
    t.equal(await page.locator('tbody tr:not(.group, .detail)').count(), 2, 'as many as it says')
    await page.click('text=All (1,000)')
    await page.click('th button:text-is("Lag")')
    await page.waitForSelector('th[aria-sort=descending]:has-text("Lag")')
    await page.waitForSelector('tbody tr:first-child:has-text("right"):has-text("chain-320"):has-text("77")')
    t.match(page.url(), /sort=-lag/)
    t.same(await findAccessibilityViolations(page), [])
    await page.click('tbody tr:first-child a:text-is("right")')
    await page.waitForSelector('.network[aria-label=chain-320] tr[aria-current]:has-text("right")')
    t.same(await findAccessibilityViolations(page), [])
    await page.unrouteAll({ behavior: 'wait' })
  })

  t.test('what a node fails with is on Nodes and on Errors, with the last one of each error', async t => {
    const { key } = await deployment.addKey('steady')
    const url = gateway.http(key).replace('127.0.0.1', 'localhost')
    pair.left.setResponse('eth_gasPrice', { raw: 'busy', status: 503 })
    await waitUntil(async () => (await call(url, 'eth_gasPrice')).result === '0x7')
    const failed = pair.left.received.length
    for (let i = 0; i < 6; i += 1) t.equal((await call(url, 'eth_gasPrice')).result, '0x7')
    t.ok(pair.left.received.length > failed)
    await openPage(page, 'Nodes')
    await page.goto(`${gateway.admin}/operator/nodes?network=pair`)
    await page.waitForSelector('tr:has-text("left"):has-text("HTTP 503"):has-text("eth_gasPrice")')
    t.match(
      await page.getAttribute('section[aria-label^="What nodes have failed with"] tr:has-text("HTTP 503") a', 'href'),
      /requests\?id=/,
    )
    await page.waitForSelector('tr:has-text("left") + tr:has-text("Attempts fail with HTTP 503")')
    t.same(await findAccessibilityViolations(page), [])
    await openPage(page, 'Errors')
    await page.waitForSelector('tr:has-text("left"):has-text("pair"):has-text("HTTP 503")')
    await page.selectOption('select:near(:text("Network"))', 'devnet')
    await page.locator('tr:has-text("HTTP 503")').waitFor({ state: 'detached' })
    t.match(page.url(), /\?network=devnet$/)
    pair.left.setResponse('eth_gasPrice', answers.eth_gasPrice)
  })

  t.test('the configuration in force is shown, with what a reload would change; it is reloaded', async t => {
    await openPage(page, 'Configuration')
    await page.waitForSelector(
      'p.lead:text-matches("^nobody is alerted by this gateway: set portal.operatorAlerts in gateway.yaml, to {}")',
    )
    t.equal(await page.locator('button:text-is("Send a test message")').count(), 0)
    const sent = { text: 'Tollgate: critical: devnet: down', created: new Date().toISOString() }
    const receivers = [
      { channel: 'webhook', receiver: 'pager', severity: 'warning', last: { ...sent, state: 'failed', lastStatus: 'HTTP 500' } },
      { channel: 'email', receiver: 'ops@example.org', severity: 'critical', last: null },
    ]
    await page.route('**/api/v1/operator-alerts', route => route.fulfill({ json: { enabled: true, receivers } }))
    const tests = [{ channel: 'webhook', receiver: 'pager', isDelivered: true, status: 'HTTP 204' }]
    await page.route('**/api/v1/operator-alerts/test', route => route.fulfill({ json: { tests } }))
    await page.reload()
    const pager = 'tr:has-text("pager (webhook)"):has-text("all problems"):has-text("devnet: down"):has-text("failed"):has-text("HTTP 500")'
    await page.waitForSelector(pager)
    await page.waitForSelector('tr:has-text("ops@example.org (mail)"):has-text("critical problems"):has-text("none in the last 24 hours")')
    await page.click('button:text-is("Send a test message")')
    await page.waitForSelector('tr:has-text("pager"):has-text("delivered"):has-text("HTTP 204")')
    t.same(await findAccessibilityViolations(page), [])
    await page.unrouteAll({ behavior: 'wait' })
    await page.waitForSelector('text="Nothing: the files are in force."')
    t.match(await page.textContent('[data-testid=effective-file]'), /dailyCredits: 3000000/)
    t.notMatch(await page.textContent('[data-testid=effective-file]'), new RegExp(adminToken))
    await page.selectOption('select:near(:text("Log level"))', 'debug')
    await page.selectOption('select:near(:text("File"))', { index: 1 })
    await page.waitForSelector('[data-testid=effective-file]:has-text("chainId: 31337")')
    await page.click('button:text-is("Reload")')
    await page.waitForSelector('.toast:has-text("nothing had changed")')
    const network = networkFile('devnet', [node.url])
    deployment.writeNetwork('devnet', { ...network, chainId: 'one' })
    await gateway.waitForEvent('reload-failed')
    await openPage(page, 'Home')
    await page.click('.attention li:has-text("the last reload was refused") a:text-is("Configuration")')
    await page.waitForSelector('text="A reload would be refused"')
    await page.waitForSelector('tr:has-text("devnet.yaml:1:"):has-text("chainId")')
    deployment.writeNetwork('devnet', network)
    await page.click('text="Compare again"')
    await page.waitForSelector('text="Nothing: the files are in force."')
    // What takes a restart is not applied, so it stays to be seen.
    const [gatewayYaml] = [`${deployment.dir}/gateway.yaml`]
    const written = await readFile(gatewayYaml, 'utf8')
    await writeFile(
      gatewayYaml,
      written.replace('publicStatus: true', 'publicStatus: false').replace('"publicStatus":true', '"publicStatus":false'),
    )
    await waitUntil(async () => {
      await page.click('text="Compare again"')
      return (await page.locator('[data-testid=difference] .added:has-text("+   publicStatus: false")').count()) === 1
    })
    await page.waitForSelector('[data-testid=difference] .removed:has-text("publicStatus: true")')
    await page.waitForSelector('tr:has-text("portal.publicStatus"):has-text("with a restart")')
    t.notMatch(await page.textContent('main'), new RegExp(adminToken))
    t.same(await findAccessibilityViolations(page), [])
    await writeFile(gatewayYaml, written)
  })

  t.test('the audit is filtered by account, author, action and day, its names are links, and it is exported', async t => {
    await openPage(page, 'Audit')
    await page.waitForSelector('td [title=account-added]:text-is("Account created")')
    await page.waitForSelector('td a:text-is("devnet / node-1")')
    await page.waitForSelector('tr:has-text("Log level changed"):has-text("log level: info → debug")')
    const server = page.locator('tr:has-text("Key created") td[data-label=Target] a:has-text("server …")').first()
    t.match(await server.getAttribute('href'), /\/accounts\/alice\?by=requests&key=key_/)
    await page.waitForSelector('tr:has-text("Person added") td[data-label=Target] a:text-is("dan")')
    await page.fill('[name=search]', 'GROWTH')
    await page.waitForSelector('td [title=account-added]', { state: 'detached' })
    t.match(await page.textContent('tbody'), /admin sessionoperatorAccount changedalice–/)
    await page.waitForSelector('tr:has-text("Account changed"):has-text("plan: core → growth"):has-text("5,000")')
    await page.click('button:has-text("Export")')
    const [download] = await Promise.all([page.waitForEvent('download'), page.click('[role=menuitem]:text-is("CSV")')])
    t.match(
      await readFile(await download.path(), 'utf8'),
      /^time,kind,by,action,account,target,change\r\n\S+,operator,admin session,account-changed,alice,,/,
    )
    await page.fill('[name=search]', '')
    await page.fill('[name=account]', 'busy')
    await page.selectOption('select:near(:text("Action"))', { label: 'Account changed' })
    await page.waitForSelector('td [title=node-drained]', { state: 'detached' })
    await page.waitForSelector('tbody [title=account-changed]')
    await page.fill('[name=by]', 'nobody')
    await page.waitForSelector('text="No changes."')
    await page.fill('[name=by]', 'session')
    await page.selectOption('select:near(:text("When"))', 'yesterday')
    await page.waitForSelector('text="No changes."')
    const yesterday = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10)
    t.match(page.url(), new RegExp(`from=${yesterday}&to=${yesterday}`))
    await page.selectOption('select:near(:text("When"))', 'other')
    await page.fill('[name=from]', '2020-01-01')
    await page.waitForSelector('tbody [title=account-changed]')
    await page.reload()
    t.equal(await page.inputValue('[name=account]'), 'busy')
    await page.click('td a:text-is("busy")')
    await page.waitForSelector('h1:has-text("busy")')
  })

  t.test('who is near the limit is on Home', async () => {
    // The use of all accounts is read again after 30 s: most of them have passed since `busy` has called.
    const isNear = `fetch('/api/v1/overview/accounts').then(response => response.json()).then(({ nearLimit }) => {
      return nearLimit.some(({ name }) => name === 'busy')
    })`
    await waitUntil(async () => (await page.evaluate(isNear)) === true)
    await openPage(page, 'Home')
    await page.click('[aria-label="Near their limit"] a:text-is("busy")')
    await page.waitForSelector('h1:has-text("busy")')
  })

  t.test('Home has charts of the whole hour or day, with what is not over yet and what was before the start', async t => {
    const countReadings = `fetch('/api/v1/overview/activity?range=1h').then(response => response.json()).then(({ times }) => times.length)`
    await waitUntil(async () => Number(await page.evaluate(countReadings)) >= 2)
    await openPage(page, 'Home')
    await page.waitForSelector('.charts .plot canvas >> nth=6')
    t.equal(await page.locator('.charts .plot canvas').count(), 7)
    await page.waitForSelector('figure:has-text("Share of gateway errors")')
    await page.waitForSelector('figure:has-text("Latency") .legend li:text-matches("^\\\\d\\\\d:\\\\d\\\\d:\\\\d\\\\d\\\\sUTC:$")')
    await page.click('[aria-label="Show as table: Latency"]')
    await page.waitForSelector('figure:has-text("Latency") table')
    await page.click('label:has-text("24 hours")')
    t.equal(page.url(), `${gateway.admin}/operator?range=24h`)
    await page.click('[aria-label=Networks] a:text-is("pair")')
    await page.waitForSelector('.network[aria-label=pair] figure:has-text("Share of gateway errors") canvas')
    await page.click('label:has-text("24 hours")')
    await page.waitForSelector('text=/^The gateway was started .*: nothing is known of the time before, which is gray.$/')
    await page.waitForSelector('.network[aria-label=pair] figure:has-text("Share of gateway errors") .not-over:has-text("not over yet")')
    t.match(page.url(), /\?network=pair&range=24h$/)
  })

  t.test('the pages are reached with the keyboard alone', async t => {
    await page.reload()
    await page.waitForSelector('nav')
    const reached = new Set<string>()
    for (let i = 0; i < 12; i++) {
      await page.keyboard.press('Tab')
      reached.add(String(await page.evaluate('document.activeElement.textContent')))
    }
    t.same(
      // Nodes may have a badge.
      ['Skip to content', ...pageTitles].filter(title => ![...reached].some(text => text.startsWith(title))),
      [],
    )
  })

  t.test('while the store is unreachable the page says so, the same everywhere, and heals', async t => {
    const error = { code: 'store-unavailable', message: 'The store is unreachable.' }
    await openPage(page, 'Home')
    const health = 'section[aria-label="This gateway"] .badge'
    await page.waitForSelector(`${health}:text-is("up")`)
    await page.route('**/api/v1/overview/accounts', route =>
      route.fulfill({ status: 503, contentType: 'application/json', body: JSON.stringify({ error }) }),
    )
    await page.reload()
    await page.waitForSelector(`.banner:has-text("${error.message}")`)
    await page.waitForSelector(`${health}.danger:text-is("down")`)
    t.equal(await page.locator('main:has-text("and the store answers")').count(), 0)
    await page.unroute('**/api/v1/overview/accounts')
    await page.route('**/api/v1/**', route =>
      route.fulfill({ status: 503, contentType: 'application/json', body: JSON.stringify({ error }) }),
    )
    await page.reload()
    t.equal(await page.textContent('[role=alert]'), error.message)
    await page.unroute('**/api/v1/**')
    await page.route('**/api/v1/**', route => route.fulfill({ status: 503, contentType: 'text/html', body: '<h1>no gateway</h1>' }))
    await page.reload()
    t.match(await page.textContent('[role=alert]'), /^The gateway cannot be reached/, 'as when a proxy answers')
    await page.unroute('**/api/v1/**')
    await page.waitForSelector('nav')
  })

  t.test('signing out leaves nothing on the page', async t => {
    await page.click('button:has-text("Sign out")')
    await page.waitForSelector('[name=token]')
    t.notMatch(await page.textContent('body'), /alice/)
    t.same(
      problems.filter(text => !/status of (40[0149]|503)/.test(text)),
      [],
      'the console shows no error but for requests that were refused',
    )
  })
})
