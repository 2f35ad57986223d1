import { readFile } from 'node:fs/promises'
import t from '../support/tap.ts'
import type { Page } from 'playwright-core'
import { findAccessibilityViolations, openBrowser, skipWithoutChromium } from '../support/browser.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { chooseAction, confirmQuestion } from '../support/page-actions.ts'
import { createPortalDeployment } from '../support/portal-client.ts'
import { call } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

/** The first load over the network, gzip. */
const maxFirstLoadBytes = 60_000

const adminToken = 'canary-page-token'

const pageTitles = ['Accounts', 'Traffic', 'Nodes', 'Audit']

const openPage = async (page: Page, title: string): Promise<void> => {
  await page.click(`nav >> text="${title}"`)
  await page.waitForSelector(`h1:has-text("${title}")`)
}

t.test("the operator's page in a browser", { skip: skipWithoutChromium }, async t => {
  const node = await startFakeNode({
    eth_chainId: { result: '0x7a69' },
    eth_getBlockByNumber: { result: { number: '0x10', hash: `0x${'a'.repeat(64)}`, parentHash: `0x${'b'.repeat(64)}` } },
    eth_gasPrice: { result: '0x7' },
  })
  const deployment = createPortalDeployment(node.url, {
    gateway: { admin: { token: '${ADMIN_TOKEN}' } },
    env: { ADMIN_TOKEN: adminToken },
  })
  const browser = await openBrowser()
  t.teardown(async () => {
    await browser.close()
    await deployment.remove()
    await node.stop()
  })
  const gateway = await deployment.start()
  const context = await browser.newContext({ viewport: { width: 1_200, height: 800 } })
  const page = await context.newPage()
  const problems: string[] = []
  const origins = new Set<string>()
  page.on('pageerror', error => problems.push(error.message))
  page.on('console', message => message.type() === 'error' && problems.push(message.text()))
  page.on('response', response => origins.add(new URL(response.url()).origin))

  t.test('the token signs in, another one does not', async t => {
    await page.goto(`${gateway.admin}/`)
    await page.waitForSelector('[name=token]')
    const sizes = `performance.getEntries().reduce((sum, { encodedBodySize = 0 }) => sum + encodedBodySize, 0)`
    const firstLoadBytes = Number(await page.evaluate(sizes))
    t.ok(firstLoadBytes > 5_000 && firstLoadBytes < maxFirstLoadBytes, `${firstLoadBytes} bytes`)
    t.same(await findAccessibilityViolations(page), [])
    await page.fill('[name=token]', 'guess')
    await page.keyboard.press('Enter')
    await page.waitForSelector('[name=token][aria-invalid=true]')
    t.match(await page.textContent('.error'), 'This is not the token of the admin listener.')
    // The error is shown a moment before the form takes the next token.
    await page.waitForSelector('button[type=submit]:enabled')
    await page.fill('[name=token]', adminToken)
    await page.keyboard.press('Enter')
    await page.waitForSelector('h1:has-text("Accounts")')
    t.equal(await page.evaluate('document.cookie'), '', 'no script reads the cookie')
    t.same([...origins], [gateway.admin], 'nothing is loaded from elsewhere')
  })

  t.test('an account is created, suspended and resumed, and its calls follow', async t => {
    await page.click('summary')
    await page.fill('[name=name]', 'alice')
    await page.fill('form[aria-label="Create an account"] [name=label]', 'customer 7')
    await page.dblclick('text="Create an account" >> nth=-1')
    await page.waitForSelector('h1:has-text("alice")')
    t.equal(await page.textContent('[data-testid=credits-left]'), '3,000,000')
    const { key } = await deployment.addKey('alice')
    const codeOf = async () => (await call(gateway.http(key), 'eth_gasPrice')).error?.code
    await waitUntil(async () => (await codeOf()) === undefined)
    await page.click('text="Suspend the account"')
    await page.waitForSelector('[data-testid=account-state]:has-text("suspended")')
    await waitUntil(async () => (await codeOf()) === -32090)
    await page.click('button:has-text("Delete the account")')
    await page.click('form[aria-label="Delete the account"] button.danger')
    await page.waitForSelector('.error:has-text("To be removed at")')
    await page.click('text="Resume the account"')
    await page.waitForSelector('[data-testid=account-state]:has-text("active")')
    await waitUntil(async () => (await codeOf()) === undefined)
  })

  t.test('plan, credits and label are changed; a form says which field is wrong', async t => {
    await page.click('form[aria-label=Change] button')
    await page.waitForSelector('[role=status]:has-text("Nothing was edited.")')
    await page.selectOption('form[aria-label=Change] select', 'growth')
    await page.fill('form[aria-label=Change] [name=credits]', '5000')
    await page.click('form[aria-label=Change] button')
    await page.waitForSelector('[role=status]:has-text("Changed.")')
    await page.waitForSelector('[data-testid=credits-used]:has-text("5,000")')
    await page.fill('form[aria-label=Change] [name=credits]', '-1')
    await page.click('form[aria-label=Change] button')
    t.match(await page.textContent('form[aria-label=Change] [role=alert]'), /^Must be an integer/)
  })

  t.test('what somebody else changes meanwhile is not changed back', async t => {
    const patch = `fetch('/api/v1/accounts/alice', { method: 'PATCH', headers: { 'content-type': 'application/json' }, body: '{"plan":"core"}' })`
    t.equal(await page.evaluate(`${patch}.then(response => response.status)`), 200)
    // Reads the account again.
    await page.click('text="Suspend the account"')
    await page.click('text="Resume the account"')
    await page.waitForSelector('section:has-text("Plan core")')
    await page.fill('form[aria-label=Change] [name=credits]', '5000')
    await page.fill('form[aria-label=Change] [name=label]', 'customer 8')
    const changed = page.waitForRequest(request => request.method() === 'PATCH')
    await page.click('form[aria-label=Change] button')
    t.same((await changed).postDataJSON(), { label: 'customer 8' })
    await page.waitForSelector('[role=status]:has-text("Changed.")')
    t.equal(await page.inputValue('form[aria-label=Change] [name=label]'), 'customer 8')
  })

  t.test('a sign-in link and the keys of the account are there', async t => {
    await page.click('button:has-text("Make a sign-in link")')
    t.match(await page.textContent('form[aria-label="Make a sign-in link"] code'), /\/sign-in#\S{40,}$/)
    await page.reload()
    await page.waitForSelector('h1:has-text("alice")')
    const actions = page.locator('td button[aria-label^="Actions: "]')
    await actions.click()
    await page.click('[role=menu] button:text-is("Revoke") >> visible=true')
    await confirmQuestion(page)
    await page.waitForSelector('code:text-is("revoked")')
    await openPage(page, 'Accounts')
    await page.fill('[name=search]', 'nobody')
    await page.click('form[aria-label=Search] button')
    await page.waitForSelector('text="No accounts."')
    await page.fill('[name=search]', 'CUSTOMER')
    await page.click('form[aria-label=Search] button')
    await page.waitForSelector('td >> text="alice"')
  })

  t.test('a key is created with its limits and rotated, and each key is shown once', async t => {
    await page.goto(`${gateway.admin}/operator/accounts/alice`)
    await page.click('summary:has-text("Create a key")')
    await page.fill('form[aria-label="Create a key"] [name=name]', 'server')
    await page.click('form[aria-label="Create a key"] summary')
    await page.fill('form[aria-label="Create a key"] [name=rate]', '10')
    await page.click('form[aria-label="Create a key"] button')
    t.match(await page.textContent('form[aria-label="Create a key"] [role=alert]'), /^Must be a/)
    await page.fill('form[aria-label="Create a key"] [name=rate]', '10/s')
    await page.fill('form[aria-label="Create a key"] [name=days]', '30')
    await page.click('form[aria-label="Create a key"] button')
    await page.waitForSelector('[data-testid=new-key] h2:has-text("server")')
    const created = (await page.textContent('[data-testid=new-key] code')) ?? ''
    t.same(await findAccessibilityViolations(page), [])
    await chooseAction(page, 'server', 'Rotate')
    await waitUntil(async () => (await page.textContent('[data-testid=new-key] code')) !== created)
    const rotated = (await page.textContent('[data-testid=new-key] code')) ?? ''
    for (const key of [created, rotated])
      await waitUntil(async () => (await call(gateway.http(key), 'eth_gasPrice')).error?.code === undefined)
    const { keys } = (await page.evaluate(`fetch('/api/v1/accounts/alice/keys').then(async r => ({ keys: await r.json() }))`)) as {
      readonly keys: readonly { readonly name: string; readonly rate: string; readonly expires: string | null }[]
    }
    t.match(
      keys.filter(({ name }) => name === 'server'),
      [{ rate: '10/s', expires: /^20/ }, { rate: '10/s' }],
    )
  })

  t.test('what was typed when the session ended is there again after the operator has signed in', async t => {
    await page.goto(`${gateway.admin}/operator/accounts/alice`)
    await page.fill('form[aria-label=Change] [name=label]', 'half typed')
    await context.clearCookies()
    await page.click('form[aria-label=Change] button')
    await page.fill('[name=token]', adminToken)
    await page.keyboard.press('Enter')
    await page.waitForSelector('h1:has-text("alice")')
    await page.click('form[aria-label=Change] button')
    await page.waitForSelector('[role=status]:has-text("Changed.")')
    t.equal(await page.inputValue('form[aria-label=Change] [name=label]'), 'half typed')
  })

  t.test('an address that is none of a page says so, with a way home', async t => {
    await page.goto(`${gateway.admin}/operator/acounts`)
    await page.waitForSelector('h1:has-text("Page not found")')
    t.equal(await page.locator('[aria-current]').count(), 0)
    await page.click('main >> text="Accounts"')
    await page.waitForSelector('h1:has-text("Accounts")')
    t.equal(page.url(), `${gateway.admin}/operator`)
  })

  t.test('traffic and nodes are those of the calls', async t => {
    await openPage(page, 'Traffic')
    await page.waitForSelector('td:has-text("alice")')
    await page.selectOption('select >> nth=0', 'method')
    await page.waitForSelector('td:has-text("eth_gasPrice")')
    await openPage(page, 'Nodes')
    await page.waitForSelector('td:has-text("100.0 %")')
    t.match(await page.textContent('tbody tr'), /^node-1usable160100\.0 %/)
  })

  t.test('the audit names the change and who made it, and is exported', async t => {
    await openPage(page, 'Audit')
    await page.waitForSelector('td:has-text("account-added")')
    await page.fill('[name=filter]', 'GROWTH')
    await page.waitForSelector('td:has-text("account-added")', { state: 'detached' })
    t.match(await page.textContent('tbody'), /admin session \(operator\)account-changedalice/)
    const [download] = await Promise.all([page.waitForEvent('download'), page.click('text="Download CSV"')])
    t.match(
      await readFile(await download.path(), 'utf8'),
      /^time,kind,by,action,account,target,change\r\n\S+,operator,admin session,account-changed,alice,,/,
    )
  })

  t.test('every page passes axe in both themes, fits 360 px and is reached with the keyboard', async t => {
    const lookAt = async (name: string) => {
      t.same(await findAccessibilityViolations(page), [], `${name}, light`)
      await page.emulateMedia({ colorScheme: 'dark' })
      // Only colors differ between the themes.
      t.same(await findAccessibilityViolations(page, ['color-contrast']), [], `${name}, dark`)
      await page.emulateMedia({ colorScheme: 'light' })
      await page.setViewportSize({ width: 360, height: 800 })
      t.equal(await page.evaluate('document.documentElement.scrollWidth'), 360, name)
      await page.setViewportSize({ width: 1_200, height: 800 })
    }
    await page.goto(`${gateway.admin}/operator/accounts/alice`)
    await page.waitForSelector('[data-testid=credits-left]')
    await lookAt('alice')
    for (const title of pageTitles) {
      await openPage(page, title)
      await lookAt(title)
    }
    await page.reload()
    await page.waitForSelector('nav')
    const reached = new Set<string>()
    for (let i = 0; i < 10; i++) {
      await page.keyboard.press('Tab')
      reached.add(String(await page.evaluate('document.activeElement.textContent')))
    }
    t.same(
      ['Skip to content', ...pageTitles].filter(title => !reached.has(title)),
      [],
    )
  })

  t.test('while the store is unreachable the page says so, and heals', async t => {
    const error = { code: 'store-unavailable', message: 'The store is unreachable.' }
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
      problems.filter(text => !/status of (40[01]|503)/.test(text)),
      [],
      'the console shows no error but for requests that were refused',
    )
  })
})
