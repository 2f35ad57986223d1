import { dayMs } from '../../src/util/dates.ts'
import { readFile } from 'node:fs/promises'
import type { NetworkStatusJson } from '../../src/portal/routes/networks.ts'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import type { BrowserContext, Page, Route } from 'playwright-core'
import { findAccessibilityViolations, openBrowser, skipWithoutChromium } from '../support/browser.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { chooseAction, createKey, openKeyForm, openPage } from '../support/page-actions.ts'
import { createPortalDeployment, printSignInToken } from '../support/portal-client.ts'
import { call } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

// The page on a slow network, behind a proxy, in several tabs, and with the keyboard.

const setVisibility = (page: Page, state: 'visible' | 'hidden') =>
  page.evaluate(
    `Object.defineProperty(document, 'visibilityState', { value: '${state}', configurable: true }); document.dispatchEvent(new Event('visibilitychange'))`,
  )

/** Holds the first GET of this path until it is answered by the test. */
const holdFirst = async (page: Page, path: string) => {
  let found: Route | undefined
  await page.route(path, async route => {
    if (found === undefined && route.request().method() === 'GET') found = route
    else await route.continue()
  })
  const held = (): Route | undefined => found
  return {
    held,
    async waitForHeld(): Promise<Route> {
      await waitUntil(() => held() !== undefined)
      return held() as Route
    },
  }
}

t.test('the page under bad conditions', { skip: skipWithoutChromium }, async t => {
  const node = await startFakeNode({ eth_chainId: { result: '0x7a69' }, eth_gasPrice: { result: '0x7' } })
  const logo = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="8" fill="#0b6e4f"/></svg>'
  const brand = { name: 'Example <RPC>', logo: 'logo.svg', accent: '#0b6e4f', support: 'https://example.org/help' }
  const deployment = createPortalDeployment(node.url, {
    gateway: { portal: { url: 'http://127.0.0.1', brand, publicStatus: true } },
    files: { 'logo.svg': logo },
  })
  const browser = await openBrowser()
  t.teardown(async () => {
    await browser.close()
    await deployment.remove()
    await node.stop()
  })
  for (const name of ['alice', 'bob']) await deployment.addAccount(name)
  const gateway = await deployment.start()
  const portal = gateway.portal ?? ''
  const newLink = async (account: string) => `${portal}/sign-in#${await printSignInToken(deployment, account)}`
  /** In a browser in which somebody else is signed in. */
  const switchTo = async (page: Page, account: string) => {
    await page.goto(await newLink(account))
    await page.click('button:has-text("Sign in with the link")')
    await page.waitForSelector(`[data-testid=account]:has-text("${account}")`)
  }
  const errors: string[] = []
  const openContext = async (): Promise<BrowserContext> => {
    const context = await browser.newContext({ viewport: { width: 1_200, height: 800 } })
    context.on('weberror', error => errors.push(error.error().message))
    return context
  }
  const context = await openContext()
  // A new page takes Chromium half a second of CPU: the tests share one, which each loads anew.
  const sharedPage = await context.newPage()
  /** Tests let its time pass. A clock is that of all pages of a context. */
  const contextWithClock = await openContext()
  await contextWithClock.clock.install()
  const pageWithClock = await contextWithClock.newPage()
  /** A page that is to be loaded, in a browser in which nobody is signed in. Other pages that a test opens are closed at its end. */
  const openNewPage = async (t: Test, page = sharedPage): Promise<Page> => {
    t.teardown(async () => {
      for (const other of page.context().pages()) if (other !== page) await other.close()
      await page.unrouteAll({ behavior: 'ignoreErrors' })
    })
    await page.context().clearCookies()
    return page
  }
  const openSignedIn = async (t: Test, account = 'alice', page?: Page): Promise<Page> => {
    const opened = await openNewPage(t, page)
    await opened.goto(await newLink(account))
    await opened.waitForSelector('[data-testid=credits-left]')
    return opened
  }

  t.test('an answer that arrives late does not replace a newer one', async t => {
    const page = await openSignedIn(t)
    const { waitForHeld } = await holdFirst(page, '**/api/v1/tokens')
    await openPage(page, 'Access')
    const early = await waitForHeld()
    const emptyList = await early.fetch()
    await page.fill('form[aria-label="Create a token"] [name=name]', 'ci')
    await page.click('button:has-text("Create a token")')
    await page.waitForSelector('button[aria-label="Revoke ci"]')
    const arrived = page.waitForEvent('requestfinished', request => request === early.request())
    await early.fulfill({ response: emptyList })
    await arrived
    await page.evaluate('new Promise(requestAnimationFrame)')
    t.ok(await page.isVisible('button[aria-label="Revoke ci"]'))
  })

  t.test('what was saved is shown as it is stored, although it cannot be read again', async t => {
    const page = await openSignedIn(t)
    await openPage(page, 'Alerts')
    await page.waitForSelector('[name=daily]')
    await page.route('**/api/v1/alerts', route => (route.request().method() === 'GET' ? route.abort() : route.continue()))
    await page.fill('[name=daily]', '60, 40')
    await page.click('text="Save"')
    await page.waitForSelector('text="Saved."')
    t.equal(await page.inputValue('[name=daily]'), '40, 60')
    await page.fill('[name=daily]', '101')
    await page.click('text="Save"')
    await page.waitForSelector('[name=daily][aria-invalid=true]')
    t.notOk(await page.isVisible('text="Saved."'), 'what failed is not said to be saved')
  })

  t.test('a list that others change meanwhile is not changed back, and stays where it was edited', async t => {
    const page = await openSignedIn(t, 'alice', pageWithClock)
    await openPage(page, 'Alerts')
    await page.waitForSelector('[name=networks]', { state: 'attached' })
    const changeAsAnother = (networks: readonly string[]) =>
      page.route('**/api/v1/alerts', async route => {
        if (route.request().method() === 'GET') await route.fulfill({ json: { ...(await (await route.fetch()).json()), networks } })
        else await route.continue()
      })
    const readAgain = async () => {
      const read = page.waitForResponse('**/api/v1/alerts')
      await page.clock.fastForward(20_000)
      await (await read).finished()
      await page.evaluate('new Promise(requestAnimationFrame).then(() => new Promise(requestAnimationFrame))')
    }
    await changeAsAnother(['devnet'])
    await page.clock.fastForward(20_000)
    await page.waitForSelector('button[aria-label="Remove devnet"]')
    await page.fill('[name=errorRate]', '5')
    const [saved] = await Promise.all([page.waitForRequest(request => request.method() === 'PATCH'), page.click('text="Save"')])
    t.same(saved.postDataJSON(), { errorRate: 5 })
    await page.waitForSelector('text="Saved."')
    await readAgain()
    await page.click('button[aria-label="Remove devnet"]')
    await changeAsAnother(['devnet', 'other'])
    await readAgain()
    t.equal(await page.inputValue('[name=networks]'), '', 'as it was edited')
  })

  t.test('figures have the title and the name of what they are, while others are read', async t => {
    const page = await openSignedIn(t)
    await page.evaluate(
      `fetch('/api/v1/keys', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"name":"figures"}' })
        .then(response => response.json()).then(({ key }) => (globalThis.key = key))`,
    )
    const key = String(await page.evaluate('key'))
    await waitUntil(async () => (await call(gateway.http(key), 'eth_gasPrice')).error === undefined)
    const countMethods = `fetch('/api/v1/usage').then(response => response.json()).then(({ groups }) => groups.length)`
    await waitUntil(async () => (await page.evaluate(countMethods)) === 1)
    await openPage(page, 'Usage')
    await page.waitForSelector('td:has-text("eth_gasPrice")')
    const { waitForHeld } = await holdFirst(page, '**/api/v1/usage?*by=key*')
    await page.selectOption('select >> nth=1', 'key')
    const held = await waitForHeld()
    t.equal(await page.textContent('thead th'), 'Method')
    t.equal(await page.getAttribute('.outdated:has(thead)', 'aria-busy'), 'true', 'they are dimmed')
    await page.click('button:has-text("Export")')
    const [download] = await Promise.all([page.waitForEvent('download'), page.click('[role=menuitem]:text-is("CSV")')])
    t.equal(download.suggestedFilename(), 'usage-by-method.csv')
    t.match(await readFile(await download.path(), 'utf8'), /^method,.*\r\neth_gasPrice,/)
    await held.continue()
    await page.waitForSelector('[aria-busy=false] th:text-is("Key")')
    await page.waitForSelector('p.lead:text-is("Last 24 hours. The current hour is not over yet.")')
    const week = await holdFirst(page, '**/api/v1/usage?*range=7d*')
    await page.selectOption('select >> nth=0', '7d')
    const heldWeek = await week.waitForHeld()
    await page.waitForSelector('p.lead:text-matches("^Calls since .* UTC[.] The current hour is not over yet[.]$")')
    await heldWeek.continue()
    await page.waitForSelector('p.lead:text-is("Last 7 days. The current hour is not over yet.")')
  })

  t.test('code that the gateway has no more, as after a new version of it, is said to be missing, with a button', async t => {
    const page = await openSignedIn(t)
    await page.route('**/assets/pages-build-*.js', route => route.fulfill({ status: 404 }))
    await page.goto(`${portal}/keys`)
    await page.waitForSelector('.empty:has-text("This could not be loaded") button:text-is("Try again")')
    await page.unroute('**/assets/pages-build-*.js')
    await page.click('text="Try again"')
    await page.waitForSelector('button:has-text("Create a key")')
    await page.waitForSelector('.empty:has-text("This could not be loaded")', { state: 'detached' })
  })

  t.test('who revokes a key before its calls are read is asked without a number of them', async t => {
    const page = await openSignedIn(t)
    await page.evaluate(
      `fetch('/api/v1/keys', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"name":"unread"}' })`,
    )
    const { waitForHeld } = await holdFirst(page, '**/api/v1/usage?by=key*')
    await openPage(page, 'Keys')
    const held = await waitForHeld()
    await chooseAction(page, 'unread', 'Revoke')
    const said = await page.textContent('dialog')
    t.match(said, 'Revoke')
    t.notMatch(said, /undefined|NaN|calls since/)
    await held.continue()
    await page.waitForSelector('dialog:has-text("0 calls since")')
  })

  t.test('credits that were lost are not said to be used', async t => {
    const page = await openSignedIn(t)
    await page.route('**/api/v1/events', route => route.abort())
    await page.route('**/api/v1/account', async route => {
      const response = await route.fetch()
      const report = (await response.json()) as { readonly balance: object }
      const balance = { ...report.balance, limit: 1_000, left: 0, held: 0, used: 200, forfeited: 800 }
      await route.fulfill({ response, json: { ...report, balance } })
    })
    await page.goto(`${portal}/`)
    await page.waitForSelector('.credits .spread:text-matches("^200 of 1,000 ?20.% used$")')
    await page.waitForSelector('.credits:has-text("800")')
  })

  t.test(
    'prices are those of the network that is chosen, or none; at first that is the most used one, or else that of chain id 1',
    async t => {
      const page = await openSignedIn(t)
      const networks = ['three', 'one', 'two'].map((name, i) => ({
        name,
        chainId: [3, 1, 2][i],
        http: portal,
        ws: portal,
        head: 1,
        finalized: 1,
        nodes: 1,
        usableNodes: 1,
        rateLimits: null,
      }))
      await page.route('**/api/v1/networks', route => route.fulfill({ json: networks }))
      await page.route('**/api/v1/networks/one/methods', route => route.fulfill({ json: [{ name: 'eth_one', credits: 1, params: [] }] }))
      await page.route('**/api/v1/networks/two/methods', route =>
        route.fulfill({ status: 404, json: { error: { code: 'not-found', message: 'there is no such network' } } }),
      )
      await openPage(page, 'Plan')
      await page.waitForSelector('td:has-text("eth_one")')
      await page.selectOption('select', 'two')
      await page.waitForSelector('[role=alert]:has-text("there is no such network")')
      t.notMatch(await page.textContent('main'), 'eth_one')
      await page.route('**/api/v1/networks', route => route.fulfill({ json: networks.map(each => ({ ...each, state: 'down' })) }))
      await openPage(page, 'Overview')
      await page.waitForSelector('[role=alert]:has-text("Down, calls fail:"):has-text("one, two")')
      await page.unroute('**/api/v1/networks')
      await page.route('**/api/v1/networks', route => route.fulfill({ json: networks }))
      await page.route('**/api/v1/usage?range=30d&by=network*', route => route.fulfill({ json: { groups: [{ name: 'three' }] } }))
      await openPage(page, 'Keys')
      await openPage(page, 'Plan')
      await waitUntil(async () => Boolean(await page.evaluate(`document.querySelector('select')?.value === 'three'`)))
    },
  )

  t.test(
    'where no network of a key limits rates, the rate of the key is said to have no effect, and where one does, on which it has none',
    async t => {
      const page = await openSignedIn(t)
      const limits = { accountRate: 10, accountBurst: null, accountCreditRate: null, keyRate: null, ipRate: null }
      const networkOf = (name: string, rateLimits: object | null) => ({ name, chainId: 1, http: portal, ws: portal, rateLimits })
      const showKeys = async (...networks: readonly object[]) => {
        await page.unrouteAll()
        await page.route('**/api/v1/networks', route => route.fulfill({ json: networks }))
        await page.route('**/api/v1/networks/*/methods', route => route.fulfill({ json: [] }))
        await page.goto(`${portal}/keys`)
      }
      const body = JSON.stringify({ name: 'fast', rate: '50/s', networks: ['devnet'] })
      await page.evaluate(`fetch('/api/v1/keys', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '${body}' })`)
      await showKeys(networkOf('devnet', null), networkOf('other', limits))
      await page.waitForSelector(
        'tr:has-text("fast") p:has-text("at most 50 calls/s"):has-text("Set a daily limit") .badge.warn:text-is("not enforced")',
      )
      t.same(await findAccessibilityViolations(page), [])
      await showKeys(networkOf('devnet', limits), networkOf('other', null))
      await page.waitForSelector('tr:has-text("fast") p:text-is("at most 50 calls/s")')
      t.equal(await page.locator('.badge.warn').count(), 0)
      await page.click('button:has-text("Create a key") >> nth=0')
      await page.click('dialog summary')
      await page.waitForSelector(
        'dialog .field:has([name=rate]) .help:has-text("For example 10/s"):has-text("Not enforced on other. The operator limits no rates there. Set a daily limit")',
      )
      await showKeys(networkOf('devnet', null))
      await page.click('button:has-text("Create a key") >> nth=0')
      await page.click('dialog summary')
      // What would do nothing is not offered.
      await page.waitForSelector(
        'dialog p:has-text("Rate limit Not offered: the operator limits no rates on any network. Set a daily limit")',
      )
      t.equal(await page.locator('dialog [name=rate], dialog [name=burst]').count(), 0)
      await page.evaluate(
        `fetch('/api/v1/keys', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"name":"all","rate":"9/s"}' })`,
      )
      await showKeys(networkOf('devnet', limits), networkOf('other', null))
      await page.waitForSelector('tr:has-text("all") p:has-text("at most 9 calls/s") .badge.warn:text-is("not enforced on other")')
      await page.evaluate(
        `fetch('/api/v1/keys').then(response => response.json())
          .then(keys => fetch('/api/v1/keys/' + keys.find(({ name }) => name === 'all').id + '/suspend', { method: 'POST' }))`,
      )
      await page.reload()
      await page.waitForSelector('tr:has-text("all"):has(.badge:text-is("suspended")) p:text-is("at most 9 calls/s")')
      // The plan of this account has no rate.
      await page.route('**/api/v1/events', route => route.abort())
      await page.route('**/api/v1/account', async route => {
        const response = await route.fetch()
        const report = (await response.json()) as { readonly plan: object }
        await route.fulfill({ response, json: { ...report, plan: { ...report.plan, rate: 100 } } })
      })
      await page.goto(`${portal}/plan`)
      await page.waitForSelector('p:text-is("Rate limits are not enforced on other.")')
    },
  )

  t.test('a list that is being read, or could not be read, is no empty list', async t => {
    const page = await openSignedIn(t, 'bob')
    const { waitForHeld } = await holdFirst(page, '**/api/v1/tokens')
    const failure = { status: 400, json: { error: { code: 'invalid', message: 'refused by the test' } } }
    await page.route('**/api/v1/people', route => route.fulfill(failure))
    await openPage(page, 'Access')
    const held = await waitForHeld()
    await page.waitForSelector('h2:has-text("People") ~ .empty [role=alert]')
    await page.waitForSelector('h2:has-text("Personal access tokens") ~ .skeleton')
    t.equal(await page.locator('[role=alert]:has-text("refused by the test")').count(), 1)
    t.equal(await page.locator('table').count(), 0)
    await held.continue()
    await page.waitForSelector('text="No tokens yet."')
    const methods = await holdFirst(page, '**/api/v1/networks/devnet/methods')
    await openPage(page, 'Plan')
    const heldMethods = await methods.waitForHeld()
    await page.waitForSelector('h2:has-text("What methods cost") ~ .skeleton')
    await heldMethods.continue()
    await page.waitForSelector('td:has-text("eth_gasPrice")')
  })

  t.test('a double click removes once, and is no error', async t => {
    const page = await openSignedIn(t)
    await openPage(page, 'Access')
    await page.fill('form[aria-label="Create a token"] [name=name]', 'twice')
    await page.click('button:has-text("Create a token")')
    const deleted: string[] = []
    page.on('request', request => request.method() === 'DELETE' && deleted.push(request.url()))
    await page.dblclick('button[aria-label="Revoke twice"]')
    await page.waitForSelector('button[aria-label="Revoke twice"]', { state: 'detached' })
    t.equal(deleted.length, 1)
    t.equal(await page.locator('[role=alert]').count(), 0)
  })

  t.test('an error that a proxy writes as JSON is a lost connection', async t => {
    const page = await openSignedIn(t)
    await page.route('**/api/v1/people', route => route.fulfill({ status: 502, json: { message: 'Bad Gateway' } }))
    await openPage(page, 'Access')
    await page.waitForSelector('[role=alert]:has-text("The gateway cannot be reached")')
    t.notMatch(await page.textContent('main'), /undefined/)
  })

  t.test('a sign-in waits for a gateway that cannot be reached', async t => {
    const page = await openNewPage(t, pageWithClock)
    await page.route('**/api/v1/session', route => (route.request().method() === 'POST' ? route.abort() : route.continue()))
    await page.goto(await newLink('alice'))
    await page.waitForSelector('[role=alert]:has-text("The gateway cannot be reached")')
    await page.unroute('**/api/v1/session')
    await page.clock.runFor(3_000)
    await page.waitForSelector('[data-testid=credits-left]')
  })

  t.test('a sign-in is not undone by an answer from before it', async t => {
    const page = await openNewPage(t)
    const { held } = await holdFirst(page, '**/api/v1/session')
    await page.goto(await newLink('alice'))
    await page.waitForSelector('[data-testid=credits-left]')
    t.equal(held(), undefined, 'nothing was asked before it')
  })

  t.test('a link is followed that is opened in place of one that was used up', async t => {
    const page = await openNewPage(t)
    await page.goto(`${portal}/sign-in#used-up`)
    await page.waitForSelector('[role=alert]:has-text("used up")')
    await page.goto(await newLink('alice'))
    await page.waitForSelector('[data-testid=credits-left]')
    await page.goto(`${portal}/confirm-email#first`)
    await page.waitForSelector('[role=alert]:has-text("used up")')
    const looked = page.waitForRequest('**/email-confirmations/lookup')
    await page.goto(`${portal}/confirm-email#second`)
    t.same((await looked).postDataJSON(), { token: 'second' })
  })

  t.test('a link that is used up leaves the session that lives, and says so', async t => {
    const page = await openSignedIn(t)
    await page.goto(`${portal}/sign-in#used-up`)
    await page.waitForSelector('[data-testid=credits-left]')
    t.match(await page.textContent('[role=alert]'), 'used up')
    await switchTo(page, 'bob')
    t.equal(await page.locator('[role=alert]').count(), 0)
    await page.goto(`${portal}/sign-in?error=access_denied`)
    await page.waitForSelector('[role=alert]')
    await openPage(page, 'Keys')
    await page.waitForSelector('[role=alert]', { state: 'detached' })
  })

  t.test('a link of somebody else signs nobody in before it was asked for', async t => {
    const page = await openSignedIn(t)
    const link = await newLink('bob')
    for (const button of ['Stay signed in', 'Sign in with the link']) {
      await page.goto(link)
      await page.waitForSelector(
        'text=you are signed in as "owner" of the account "alice"; this link signs in "owner" of the account "bob"',
      )
      t.same(await findAccessibilityViolations(page), [])
      await page.click(`button:has-text("${button}")`)
      await page.waitForSelector('[data-testid=credits-left]')
      t.equal(await page.textContent('[data-testid=account]'), button === 'Stay signed in' ? 'alice' : 'bob')
    }
  })

  t.test('a double click begins one sign-in at a provider', async t => {
    const page = await openNewPage(t)
    await page.route('**/api/v1/sign-in-options', route => route.fulfill({ json: { email: false, signUp: false, provider: 'Example' } }))
    let begun = 0
    await page.route('**/api/v1/oidc/authorization-url', route => {
      begun += 1
      return route.fulfill({ status: 201, json: { url: `${portal}/api/v1/openapi.json` } })
    })
    await page.goto(portal)
    await page.dblclick('button:has-text("Sign in with Example")')
    await page.waitForURL('**/openapi.json')
    t.equal(begun, 1)
  })

  t.test('when another person signs in, in another tab, nothing of the one before stays', async t => {
    const page = await openSignedIn(t)
    t.equal(await page.textContent('[data-testid=account]'), 'alice')
    const other = await page.context().newPage()
    await switchTo(other, 'bob')
    await page.waitForSelector('[data-testid=account]:has-text("bob")')
    await page.waitForSelector('[data-testid=credits-left]')
  })

  t.test('who signs in, in another tab, after somebody has signed out sees nothing of them', async t => {
    const page = await openSignedIn(t, 'alice', pageWithClock)
    await openPage(page, 'Keys')
    await createKey(page, 'of-alice')
    await page.click('text="Sign out"')
    await page.waitForSelector('h1:has-text("Sign in")')
    const other = await page.context().newPage()
    await other.goto(await newLink('bob'))
    await other.waitForSelector('[data-testid=account]:has-text("bob")')
    await page.clock.fastForward(600_000)
    await page.waitForSelector('[data-testid=account]:has-text("bob")')
    await page.waitForSelector('h1:has-text("Keys")')
    t.equal(await page.locator('[data-testid=new-key]').count(), 0)
  })

  t.test('what was typed when the session ended is there again for the same person, who signs in in another tab', async t => {
    const page = await openSignedIn(t)
    await openPage(page, 'Access')
    await page.fill('form[aria-label="Add a person"] [name=name]', 'half-typed')
    await page.context().clearCookies()
    await page.keyboard.press('Enter')
    await page.waitForSelector('h1:has-text("Sign in")')
    await page.waitForSelector('[role=alert]:has-text("what you typed is kept")')
    t.notOk(await page.isVisible('[data-testid=account]'))
    t.same(await findAccessibilityViolations(page), [])
    const opened = page.context().waitForEvent('page')
    await page.click('text="Sign in in another tab"')
    const other = await opened
    await other.waitForSelector('text="Are you the operator?"')
    await other.goto(await newLink('alice'))
    await other.waitForSelector('[data-testid=credits-left]')
    await page.waitForSelector('h1:has-text("Access")')
    t.equal(await page.inputValue('form[aria-label="Add a person"] [name=name]'), 'half-typed')
    await page.waitForSelector('[role=alert]:has-text("Send this again.")')
    await page.click('button:has-text("Add a person")')
    await page.waitForSelector('td:has-text("half-typed")')
    t.equal(await page.locator('[role=alert]').count(), 0)
  })

  t.test('what was typed in a dialog when the session ended is there again, and does not stand before the sign-in', async t => {
    const page = await openSignedIn(t)
    await openPage(page, 'Keys')
    const form = await openKeyForm(page)
    await page.fill(`${form} [name=name]`, 'half-typed')
    await page.context().clearCookies()
    await page.keyboard.press('Enter')
    await page.waitForSelector('[role=alert]:has-text("what you typed is kept")')
    t.same(await findAccessibilityViolations(page), [])
    const opened = page.context().waitForEvent('page')
    await page.click('text="Sign in in another tab"')
    const other = await opened
    await other.goto(await newLink('alice'))
    await page.waitForSelector(form)
    t.equal(await page.inputValue(`${form} [name=name]`), 'half-typed')
    await page.click(`${form} [type=submit]`)
    await page.waitForSelector('[data-testid=new-key]')
  })

  t.test('who signs out in one tab has signed out in all of them, and nothing typed or shown once stays', async t => {
    const page = await openSignedIn(t)
    const other = await page.context().newPage()
    await other.goto(`${portal}/keys`)
    await createKey(other, 'of-alice')
    await other.fill(`${await openKeyForm(other)} [name=name]`, 'half-typed')
    await page.click('text="Sign out"')
    await other.waitForSelector('h1:has-text("Sign in")')
    t.equal(await other.locator('[name=name]').count(), 0)
    await page.goto(await newLink('alice'))
    await other.waitForSelector('h1:has-text("Keys")')
    t.equal(await other.locator('[data-testid=new-key]').count(), 0)
  })

  t.test('a hidden tab with what was typed is loaded anew as soon as another person has signed in, or when it is shown', async t => {
    for (const says of [true, false]) {
      const page = await openSignedIn(t)
      await openPage(page, 'Access')
      await page.fill('form[aria-label="Add a person"] [name=name]', 'half-typed')
      // Without a stream, whose end would say it too.
      await setVisibility(page, 'hidden')
      const other = await page.context().newPage()
      if (!says) await other.addInitScript('BroadcastChannel.prototype.postMessage = () => undefined')
      await switchTo(other, 'bob')
      if (!says) await setVisibility(page, 'visible')
      await page.waitForSelector('[data-testid=account]:has-text("bob")')
      t.equal(await page.inputValue('form[aria-label="Add a person"] [name=name]'), '')
    }
  })

  t.test('a hidden tab holds no connection, and has the figures again when it is shown', async t => {
    const page = await openNewPage(t)
    const isStream = (request: { url(): string }) => request.url().endsWith('/events')
    // Only the page that is loaded next may open a stream, which may be after the figures.
    await page.goto('about:blank')
    const begun = page.waitForRequest(isStream)
    await page.goto(await newLink('alice'))
    await begun
    const closed = page.waitForEvent('requestfailed', isStream)
    await setVisibility(page, 'hidden')
    await closed
    const opened = page.waitForRequest(isStream)
    await setVisibility(page, 'visible')
    await opened
    await page.waitForSelector('[data-testid=credits-left]')
    t.equal(await page.locator('[role=alert]').count(), 0)
  })

  t.test('without a stream of events the page has figures all the same, and asks for one every three seconds', async t => {
    const page = await openSignedIn(t, 'alice', pageWithClock)
    await page.addInitScript(`globalThis.streams = []
      globalThis.EventSource = class extends EventSource {
        askedMs = performance.now()
        constructor(url) { super(url); streams.push(this) }
      }`)
    await page.route('**/api/v1/events', route =>
      route.fulfill({ status: 429, json: { error: { code: 'too-many', message: 'you have 20 open streams of events' } } }),
    )
    await page.reload()
    await page.waitForSelector('[data-testid=credits-left]')
    await waitUntil(async () => Boolean(await page.evaluate('streams[0]?.readyState === EventSource.CLOSED')))
    await page.clock.runFor(3_000)
    await waitUntil(async () => Number(await page.evaluate('streams.length')) >= 2)
    const pauseMs = Number(await page.evaluate('streams[1].askedMs - streams[0].askedMs'))
    t.ok(pauseMs > 2_900, `${pauseMs} ms`)
    t.equal(await page.locator('[role=alert]').count(), 0)
    const opened = page.waitForResponse(response => response.url().endsWith('/events') && response.ok())
    await page.unroute('**/api/v1/events')
    // On a slow machine the next one may be open already: the clock of the page goes on by itself.
    await waitUntil(async () => Boolean(await page.evaluate('streams.at(-1).readyState !== EventSource.CONNECTING')))
    await page.clock.runFor(3_000)
    await opened
  })

  t.test('figures that were read without a stream do not replace those of a stream that has begun since', async t => {
    const page = await openSignedIn(t)
    const left = await page.textContent('[data-testid=credits-left]')
    await page.route('**/api/v1/events', route => route.fulfill({ status: 429, json: { error: { code: 'too-many', message: 'x' } } }))
    const { waitForHeld } = await holdFirst(page, '**/api/v1/account')
    await page.reload()
    const late = await waitForHeld()
    const report = await (await late.fetch()).json()
    await page.unroute('**/api/v1/events')
    await page.waitForSelector('[data-testid=credits-left]')
    const arrived = page.waitForEvent('requestfinished', request => request === late.request())
    await late.fulfill({ json: { ...report, balance: { ...report.balance, left: 1, held: 0 } } })
    await arrived
    await page.evaluate('new Promise(requestAnimationFrame)')
    t.equal(await page.textContent('[data-testid=credits-left]'), left)
  })

  t.test('where the browser lets no page copy, the text is selected', async t => {
    const page = await openSignedIn(t)
    await openPage(page, 'Networks')
    await page.evaluate(`Object.defineProperty(navigator, 'clipboard', { value: undefined })`)
    await page.click('.urls button >> nth=0')
    t.match(await page.evaluate('getSelection().toString()'), /\/v3\/API_KEY$/)
  })

  t.test('the keyboard goes on where a question was asked', async t => {
    const page = await openSignedIn(t)
    await openPage(page, 'Keys')
    await createKey(page, 'asked')
    const focused = () => page.evaluate('document.activeElement.ariaLabel ?? document.activeElement.textContent')
    await page.locator('button[aria-label="Actions: asked"]').press('Enter')
    await page.waitForSelector('[role=menuitem]:focus')
    await page.keyboard.press('End')
    await page.keyboard.press('Enter')
    await page.waitForSelector('dialog h2:text-matches("^Revoke the key asked …")')
    t.equal(await focused(), 'Cancel')
    await page.keyboard.press('Escape')
    await page.waitForSelector('dialog', { state: 'detached' })
    t.equal(await focused(), 'Actions: asked')
    await chooseAction(page, 'asked', 'Revoke')
    await page.locator('dialog button.final').press('Enter')
    await page.waitForSelector('tr:has-text("asked")', { state: 'detached' })
    await createKey(page, 'kept')
    await page.locator('text="I have saved it"').press('Enter')
    await page.evaluate('new Promise(requestAnimationFrame)')
    t.equal(await focused(), 'Keys', 'what had the focus is gone: the heading has it')
  })

  t.test('what has happened is said in a place that was there before', async t => {
    const page = await openSignedIn(t)
    await openPage(page, 'Keys')
    await page.waitForSelector('[role=status]', { state: 'attached' })
    await page.evaluate(`globalThis.region = document.querySelector('.page-heading ~ [role=status]')`)
    await createKey(page, 'announced')
    t.match(await page.evaluate('globalThis.region.textContent'), 'announced')
  })

  t.test('a number that is none opens the fields among which it stands', async t => {
    const page = await openSignedIn(t)
    await openPage(page, 'Keys')
    const form = await openKeyForm(page)
    await page.fill(`${form} [name=name]`, 'limited')
    await page.click(`${form} summary`)
    await page.locator('[name=days]').pressSequentially('1e')
    await page.click(`${form} summary`)
    t.notOk(await page.isVisible('[name=days]'))
    await page.click(`${form} [type=submit]`)
    await page.waitForSelector('[name=days]:visible')
  })

  t.test('the way back leads to the page before, however often a link was clicked', async t => {
    const page = await openSignedIn(t)
    for (const title of ['Keys', 'Plan', 'Plan', 'Plan']) await openPage(page, title)
    await page.goBack()
    await page.waitForSelector('h1:has-text("Keys")')
    t.equal(page.url(), `${portal}/keys`)
    await page.goto(`${portal}/networks/`)
    await page.waitForSelector('h1:has-text("Networks")')
  })

  t.test('who skips to the content stays at the address, which is none of a link', async t => {
    const page = await openSignedIn(t)
    await page.goto(`${portal}/sign-in`)
    await page.waitForSelector('[data-testid=credits-left]')
    await page.locator('text="Skip to content"').press('Enter')
    t.equal(await page.evaluate('document.activeElement.textContent'), 'Overview')
    t.equal(page.url(), `${portal}/sign-in`)
  })

  t.test('the page has the name, the logo, the color and the link for help that the gateway was given', async t => {
    const page = await openNewPage(t)
    const refused: string[] = []
    page.on('console', message => message.type() === 'error' && refused.push(message.text()))
    await page.goto(`${portal}/sign-in`)
    await page.waitForSelector('.brand:has-text("Example <RPC>")')
    t.equal(await page.getAttribute('a:has-text("Help")', 'href'), brand.support)
    t.equal(await page.evaluate(`document.querySelector('.brand img').naturalWidth > 0`), true)
    const accent = `getComputedStyle(document.documentElement).getPropertyValue('--accent')`
    t.equal(await page.evaluate(accent), '#0b6e4f')
    t.same(await findAccessibilityViolations(page), [])
    await page.emulateMedia({ colorScheme: 'dark' })
    t.not(await page.evaluate(accent), '#0b6e4f', 'lighter on a dark surface')
    await page.goto(await newLink('alice'))
    await page.waitForSelector('[data-testid=credits-left]')
    t.equal(await page.title(), 'Overview · Example <RPC>')
    await openPage(page, 'Plan')
    t.equal(await page.getAttribute('a:has-text("Contact support")', 'href'), brand.support)
    await openPage(page, 'Overview')
    t.same(await findAccessibilityViolations(page), [])
    await page.emulateMedia({ colorScheme: 'light' })
    t.same(
      refused.filter(text => !text.includes('401')),
      [],
    )
  })

  t.test('everybody sees how the networks are, where the gateway says so', async t => {
    const page = await openNewPage(t)
    await page.setViewportSize({ width: 360, height: 800 })
    await page.goto(`${portal}/sign-in`)
    await page.click('text="Network status"')
    await page.waitForSelector('section[aria-label=devnet] .badge:text-is("idle")')
    t.match(await page.textContent('section[aria-label=devnet]'), /Nodes1, not checked/)
    // A store that has just been made; of the last day that is not said again.
    await page.waitForSelector('.uptime p:text-matches("^Since 20[-0-9]{8}: no data$")')
    t.equal(await page.locator('.incidents').count(), 0)
    t.ok(await page.isVisible('.uptime .unobserved'))
    await page.waitForSelector('.banner.ok:has-text("No known problems."):has-text("Not in use, checked with the next call: devnet")')
    t.same(await findAccessibilityViolations(page), [])
    t.equal(await page.evaluate('document.documentElement.scrollWidth'), 360)
    let observedSeconds = { last24Hours: 3_900, last90Days: 691_200 }
    const isoDay = (daysAgo: number): string => new Date(Date.now() - daysAgo * dayMs).toISOString().slice(0, 10)
    await page.route('**/api/v1/status', route =>
      route.fulfill({
        json: [
          {
            name: 'devnet',
            chainId: 1,
            state: 'down',
            head: 1,
            finalized: null,
            lastHead: null,
            lagBlocks: null,
            nodes: 2,
            usableNodes: 0,
            incidents: [
              { state: 'down', because: null, began: '2026-01-15T12:00:00.000Z', ended: null },
              { state: 'stalled', because: null, began: '2026-01-15T10:00:00.000Z', ended: '2026-01-15T10:02:05.000Z' },
              { state: 'degraded', because: 'slow', began: '2026-01-15T09:00:00.000Z', ended: '2026-01-15T09:10:00.000Z' },
            ],
            outagesSince: '2020-01-31',
            unobservedDays: [{ from: isoDay(20), to: isoDay(11) }],
            outageDays: [
              { date: isoDay(5), downSeconds: 6_902, stalledSeconds: 0 },
              { date: isoDay(3), downSeconds: 0, stalledSeconds: 10 },
            ],
            observedSince: '2020-01-31T12:00:00.000Z',
            observedSeconds,
          },
        ],
      }),
    )
    await page.reload()
    await page.waitForSelector('[role=alert]:has-text("devnet")')
    await page.waitForSelector('.incidents li:has(.badge:text-is("down")):has-text("Jan 15, 12:00:00 UTC – now")')
    await page.waitForSelector(
      '.uptime p:text-matches("^Last 90 days, observed for 192 h of 2,1[0-9]{2} h: 1 h 55 min of outages, 99.00.% of the observed time without one; no calls, so no data, on 10 days$")',
    )
    await page.waitForSelector('.incidents p:text-is("Last 24 hours, observed for 1 h 5 min of 24 h")')
    observedSeconds = { last24Hours: 3_900, last90Days: 82_800 }
    await page.reload()
    // A share of so little says nothing.
    await page.waitForSelector(
      '.uptime p:text-matches("^Observed since .*Jan 31.*12:00:00.UTC, observed for 23 h of [0-9,]+ h: 1 h 55 min of outages; no calls")',
    )
    await page.waitForSelector('.incidents li:has(.badge:text-is("degraded")):has-text("10 min, slow nodes")')
    t.equal(
      await page.getAttribute('.uptime [role=img]', 'aria-label'),
      `${isoDay(5)}: down for 1 h 55 min; ${isoDay(3)}: no new blocks for less than 1 min`,
    )
    // The bar of a day is as high as its outage was long; its figure can be read without a pointer.
    t.same(await page.evaluate(`[...document.querySelectorAll('.days i')].map(({ style }) => style.height)`), ['100%', '25%'])
    await page.click('summary:text-is("By day")')
    t.same(await page.locator('.uptime details li').allTextContents(), [
      `${isoDay(3)}: no new blocks for less than 1 min`,
      `${isoDay(5)}: down for 1 h 55 min`,
    ])
    t.equal(await page.locator('.uptime .unobserved').count(), 1)
    t.equal(await page.getAttribute('.uptime .unobserved', 'title'), `${isoDay(20)} – ${isoDay(11)}: no data`)
    await page.waitForSelector('.incidents li:has-text("no new blocks"):has-text("10:02:05 UTC"):has-text("2 min")')
    t.same(await page.locator('.of-days li').allTextContents(), [
      ...['Up', 'Degraded or no new blocks', 'Down', 'Not observed', 'Higher: longer than 1 min, 10 min, 1 h'],
    ])
    t.same(await findAccessibilityViolations(page), [])
    t.equal(await page.evaluate('document.documentElement.scrollWidth'), 360)
    await page.unroute('**/api/v1/status')
    await page.route('**/api/v1/status', async route => {
      const [network] = (await (await route.fetch()).json()) as readonly object[]
      const secondsAgo = (seconds: number): string => new Date(Date.now() - 1_000 * seconds).toISOString()
      const degraded = { state: 'degraded', ended: secondsAgo(60) }
      const incidents = [
        { ...degraded, because: 'slow', began: secondsAgo(68) },
        { ...degraded, because: 'nodes', began: secondsAgo(66) },
      ]
      const observed = { outageDays: [], outagesSince: isoDay(3), observedSeconds: { last24Hours: 3_900, last90Days: 691_200 } }
      await route.fulfill({ json: [{ ...network, ...observed, incidents }] })
    })
    await page.reload()
    await page.waitForSelector('.uptime p:has-text("no outages; degraded for less than 1 min of the last 24 h")')
    await page.waitForSelector('.days .warn')
    // Today ends where the strip ends.
    const rightEdges = `[...document.querySelectorAll('.days, .days .warn')].map(each => Math.round(each.getBoundingClientRect().right))`
    t.equal(new Set(await page.evaluate<readonly number[]>(rightEdges)).size, 1)
    await page.unroute('**/api/v1/status')
    await page.route('**/api/v1/status', async route => {
      const [network] = (await (await route.fetch()).json()) as readonly object[]
      const observed = { outageDays: [], outagesSince: isoDay(3), observedSeconds: { last24Hours: 3_900, last90Days: 691_200 } }
      // Since a moment after the same time yesterday: of two days.
      const began = new Date(Date.now() - dayMs + 60_000).toISOString()
      await route.fulfill({ json: [{ ...network, ...observed, incidents: [{ state: 'degraded', because: 'nodes', began, ended: null }] }] })
    })
    await page.reload()
    await page.waitForSelector(`.days[aria-label^="${isoDay(1)}: degraded for "][aria-label*="; ${isoDay(0)}: degraded for "]`)
    await page.unroute('**/api/v1/status')
    await page.setViewportSize({ width: 1_200, height: 800 })
  })

  t.test('that a network is down is in its history, in the API and on the page', async t => {
    const page = await openNewPage(t)
    const { key } = await deployment.addKey('alice')
    await node.stop()
    await waitUntil(async () => {
      await call(gateway.http(key), 'eth_gasPrice')
      const [status] = (await (await fetch(`${portal}/api/v1/status`)).json()) as readonly NetworkStatusJson[]
      return status?.state === 'down' && status.incidents.length > 0
    })
    const [status] = (await (await fetch(`${portal}/api/v1/status`)).json()) as readonly NetworkStatusJson[]
    t.match(status?.incidents, [{ state: 'down', began: /^20/, ended: null }])
    await page.goto(`${portal}/status`)
    await page.waitForSelector('.incidents li:has(.badge:text-is("down")):has-text("UTC – now")')
  })

  t.test('no script of the page has failed', async t => t.same(errors, []))
})
