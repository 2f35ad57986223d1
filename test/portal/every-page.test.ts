import type { Browser, BrowserContext, BrowserContextOptions, Page, Request } from 'playwright-core'
import { findAccessibilityViolations, openBrowser, skipWithoutChromium } from '../support/browser.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { startMailServer } from '../support/mail-server.ts'
import { startOidcProvider } from '../support/oidc-provider.ts'
import { createPortalDeployment, printSignInToken, signInToPortal } from '../support/portal-client.ts'
import { call } from '../support/rpc-client.ts'
import t from '../support/tap.ts'

// What holds for every page, signed in or not: the pages of a navigation are read from it, so that a new one is held to it too.

/** The first load over the network, gzip. */
const maxFirstLoadBytes = 90_000
const maxFirstLoadRequests = 12

const widths = [1_280, 360] as const
const heightPx = 800

const adminToken = 'every-page-token'

/** The bodies that the browser has loaded, as they were sent. */
const sumOfBodies = `performance.getEntries().reduce((sum, { encodedBodySize = 0 }) => sum + encodedBodySize, 0)`

/** Tables whose last columns are out of sight. */
const cutOffTables = `[...document.querySelectorAll('.scroll')].filter(table => table.scrollWidth > table.clientWidth).map(table => table.ariaLabel)`

/** Placeholders that have no room in their fields. */
const cutOffPlaceholders = `[...document.querySelectorAll('input')].filter(input => {
  const { font, paddingLeft, paddingRight } = getComputedStyle(input)
  const context = document.createElement('canvas').getContext('2d')
  context.font = font
  return input.clientWidth > 0 && context.measureText(input.placeholder).width > input.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight)
}).map(({ placeholder }) => placeholder)`

const linksOfNavigation = `[...document.querySelectorAll('nav a')].map(link => ({ url: link.href, heading: link.querySelector('span').textContent }))`

/** Pages need it for some figures, and not for others: Nodes draws charts where there is one network alone. */
const codeForSomeFigures = (url: string): RegExp => (url.endsWith('/operator/nodes') ? /\/(?:drain-nodes|plot)-/ : /\/drain-nodes-/)

type Cookies = Exclude<BrowserContextOptions['storageState'], string | undefined>

interface ShownPage {
  readonly url: string
  /** What is special about it, where another page has its URL. */
  readonly what?: string
  /** Begins with it. */
  readonly heading: string
  readonly cookies?: Cookies
}

t.test('every page', { skip: skipWithoutChromium }, async t => {
  const node = await startFakeNode({
    eth_chainId: { result: '0x7a69' },
    eth_blockNumber: { result: '0x10' },
    eth_getBlockByNumber: { result: { number: '0x10', hash: `0x${'a'.repeat(64)}`, parentHash: `0x${'b'.repeat(64)}` } },
    eth_gasPrice: { result: '0x7' },
  })
  const [provider, mail] = [await startOidcProvider(), await startMailServer()]
  const deployment = createPortalDeployment(node.url, {
    gateway: {
      admin: { token: '${ADMIN_TOKEN}' },
      portal: {
        ...{ url: 'http://127.0.0.1', publicStatus: true, signUp: { plan: 'core' } },
        ...{ oidc: { ...provider.config, name: 'Example' }, smtp: { url: '${SMTP_URL}', from: 'Tollgate <no-reply@example.org>' } },
      },
      plans: {
        core: { dailyCredits: 3_000_000 },
        growth: { dailyCredits: 200_000_000, forwarding: true, offered: true, price: '$49 a month' },
      },
    },
    env: { ...provider.env, ADMIN_TOKEN: adminToken, SMTP_URL: mail.url },
  })
  const browser = await openBrowser()
  t.teardown(async () => {
    await browser.close()
    await deployment.remove()
    await Promise.all([node, provider, mail].map(each => each.stop()))
  })
  const { key } = await deployment.addCaller('alice')
  await deployment.run(
    'keys',
    'add',
    'alice',
    '--name',
    'limited',
    '--methods',
    'eth_gasPrice,eth_chainId',
    '--rate',
    '50/s',
    '--credits',
    '9000',
  )
  const gateway = await deployment.start()
  const owner = await signInToPortal(deployment, gateway, 'alice')
  await owner.post('/people', { name: 'dana', role: 'developer' })
  await owner.post('/people', { name: 'ivo', role: 'viewer', email: 'ivo@example.org' })
  await owner.post('/tokens', { name: 'deploy script' })
  for (const method of ['eth_gasPrice', 'eth_gasPrice', 'eth_noSuchMethod']) await call(gateway.http(key), method)

  const signInDeveloper = async (page: Page, account = 'alice'): Promise<void> => {
    await page.goto(`${gateway.portal}/sign-in#${await printSignInToken(deployment, account)}`)
    await page.waitForSelector('[data-testid=credits-left]')
  }
  const signInOperator = async (page: Page): Promise<void> => {
    await page.goto(`${gateway.admin}/operator`)
    await page.fill('[name=token]', adminToken)
    await page.keyboard.press('Enter')
    await page.waitForSelector('nav')
  }
  const windowOf = openWindows(browser)
  const developer = await pagesOf(browser, signInDeveloper)
  const operator = await pagesOf(browser, signInOperator)
  await deployment.addAccount('newcomer')
  const newcomer = await pagesOf(browser, page => signInDeveloper(page, 'newcomer'))
  await deployment.addCaller('beginner')
  const beginner = await pagesOf(browser, page => signInDeveloper(page, 'beginner'))
  const { portal = '', admin } = gateway
  const pages: readonly ShownPage[] = [
    ...developer,
    { url: `${portal}/`, what: ', before the first key', heading: 'Overview', ...cookiesOf(newcomer) },
    { url: `${portal}/`, what: ', before the first call', heading: 'Overview', ...cookiesOf(beginner) },
    { url: `${portal}/no-such-page`, heading: 'Page not found', ...cookiesOf(developer) },
    { url: `${portal}/sign-in`, heading: 'Sign in' },
    { url: `${portal}/confirm-email#used-up`, heading: 'Confirm your e-mail address' },
    { url: `${portal}/status`, heading: 'Network status' },
    ...operator,
    { url: `${admin}/operator/accounts/alice`, heading: 'alice', ...cookiesOf(operator) },
    { url: `${admin}/operator`, heading: 'Sign in' },
  ]

  t.test('without a link for help, a plan is offered all the same', async t => {
    const page = await windowOf(cookiesOf(developer).cookies)
    await page.goto(`${portal}/plan`)
    await page.waitForSelector('tr:has-text("growth"):has-text("$49 a month"):has-text("Ask the operator of this gateway.")')
    t.equal(await page.locator('text="Contact support"').count(), 0)
  })

  t.test('is in the list: those of both navigations', async t => {
    t.ok(developer.some(({ heading }) => heading === 'Requests') && developer.length > 8, `${developer.length} of developers`)
    t.ok(operator.some(({ heading }) => heading === 'Nodes') && operator.length > 4, `${operator.length} of operators`)
  })

  t.test('the HTML file asks for what its page asks for at first, and for nothing where nobody is signed in', async t => {
    // Pages that ask for the same ask for what is around each of them: one of them is opened.
    const opened = new Set<string>()
    for (const shown of pages) {
      const { url, cookies } = shown
      const html = await fetchHtml(url, cookies)
      const asked = hrefsOf(html, 'rel="preload" as="fetch"')
      if (cookies === undefined) t.same(asked, [], url)
      if (asked.length === 0 || opened.has(asked.join())) continue
      opened.add(asked.join())
      const page = await windowOf(cookies)
      await page.route(url, route => route.fulfill({ contentType: 'text/html', body: html.replace(/<link rel="preload"[^>]+>/g, '') }))
      const requests = await open(page, shown)
      await page.unroute(url)
      // The account comes with the stream of figures where it has not been asked for.
      const missing = asked.filter(path => !requests.includes(path) && path !== '/api/v1/account')
      t.same(missing, [], url)
    }
    t.equal(opened.size, 4, 'those of the first page, and those of the others, of developers and of operators')
  })

  t.test('the HTML file names no code that its page does not need', async t => {
    for (const shown of pages) {
      const { url, what, cookies } = shown
      // Whether somebody has calls to draw, only figures tell.
      if (what !== undefined) continue
      const html = await fetchHtml(url, cookies)
      const page = await windowOf(cookies)
      await page.route(url, route =>
        route.fulfill({ contentType: 'text/html', body: html.replace(/<link rel="modulepreload"[^>]+>/g, '') }),
      )
      const needed = hrefsOf(html, 'rel="modulepreload"').map(path => page.waitForRequest(`**${path}`))
      await open(page, shown)
      t.ok(await Promise.all(needed), url)
      await page.unroute(url)
    }
  })

  const loads: { readonly name: string; readonly bytes: number; readonly requests: number }[] = []
  t.teardown(() => {
    for (const { name, bytes, requests } of loads.toSorted((a, b) => b.bytes - a.bytes))
      t.comment(`${bytes} bytes, ${requests} requests: ${name}`)
  })

  for (const shown of pages) {
    const name = `${new URL(shown.url).pathname} (${shown.heading}${shown.what ?? ''})`

    t.test(
      `${name} loads with few requests and bytes, all code at once, passes axe in both themes, and fits windows of 1,280 and 360 px`,
      async t => {
        const page = await windowOf(shown.cookies)
        await page.setViewportSize({ width: widths[0], height: heightPx })
        const requests = await open(page, shown)
        const ofApi = requests.filter(path => path.startsWith('/api/'))
        const again = ofApi.filter((path, i) => ofApi.indexOf(path) !== i)
        t.same(again, [], 'nothing is asked for twice')
        t.ok(requests.length <= maxFirstLoadRequests, `${requests.length} requests: ${requests.join(' ')}`)
        const bytes = Number(await page.evaluate(sumOfBodies))
        t.ok(bytes > 10_000 && bytes <= maxFirstLoadBytes, `${bytes} bytes`)
        loads.push({ name, bytes, requests: requests.length })
        for (const width of widths) {
          await page.setViewportSize({ width, height: heightPx })
          // Charts follow the window with its next frame.
          await page.evaluate('new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)))')
          t.equal(await page.evaluate('document.documentElement.scrollWidth'), width, `${width} px`)
          t.same(await findAccessibilityViolations(page), [], `${width} px, light`)
          await page.emulateMedia({ colorScheme: 'dark', reducedMotion: 'reduce' })
          // Only colors differ between the themes.
          t.same(await findAccessibilityViolations(page, ['color-contrast']), [], `${width} px, dark`)
          await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' })
          t.same(await page.evaluate(cutOffPlaceholders), [], `no placeholder is cut off, ${width} px`)
          if (width === widths[0]) t.same(await page.evaluate(cutOffTables), [], 'all columns of each table are in sight')
        }
        const html = await fetchHtml(shown.url, shown.cookies)
        const unnamed = requests.filter(path => path.endsWith('.js') && !html.includes(path) && !codeForSomeFigures(shown.url).test(path))
        t.same(unnamed, [], 'the HTML file names all code')
      },
    )
  }
})

/** One window for each who signs in: a process of the browser for each page takes half a second of CPU, and compiles its code and axe anew. */
const openWindows = (browser: Browser) => {
  const windows = new Map<Cookies | undefined, Page>()
  return async (cookies: Cookies | undefined): Promise<Page> => {
    const page = windows.get(cookies) ?? (await (await openContext(browser, cookies)).newPage())
    windows.set(cookies, page)
    return page
  }
}

/** Opened by a browser that has nothing of it yet; resolves with the paths that it has asked for. */
const open = async (page: Page, { url, heading }: ShownPage): Promise<readonly string[]> => {
  await page.goto('about:blank')
  const devTools = await page.context().newCDPSession(page)
  await devTools.send('Network.clearBrowserCache')
  await devTools.detach()
  const requests: string[] = []
  const record = (request: Request) => requests.push(request.url().slice(new URL(url).origin.length))
  page.on('request', record)
  await page.goto(url)
  await page.waitForSelector(`h1:has-text("${heading}")`)
  await page.waitForSelector('.skeleton', { state: 'detached' })
  page.off('request', record)
  return requests
}

const fetchHtml = async (url: string, cookies?: Cookies): Promise<string> => {
  const sent = typeof cookies === 'object' ? cookies.cookies.map(({ name, value }) => `${name}=${value}`).join('; ') : ''
  return (await fetch(url, { headers: { cookie: sent } })).text()
}

/** Of its links of this kind. */
const hrefsOf = (html: string, kind: string): readonly string[] =>
  [...html.matchAll(new RegExp(`<link ${kind} crossorigin href="([^"]+)">`, 'g'))].map(([, path = '']) => path.replaceAll('&amp;', '&'))

const openContext = (browser: Browser, cookies?: Cookies): Promise<BrowserContext> =>
  browser.newContext({
    viewport: { width: widths[0], height: heightPx },
    reducedMotion: 'reduce',
    ...(cookies !== undefined && { storageState: cookies }),
  })

/** The pages of the navigation that somebody sees who has signed in. */
const pagesOf = async (browser: Browser, signIn: (page: Page) => Promise<void>): Promise<readonly ShownPage[]> => {
  const context = await openContext(browser)
  const page = await context.newPage()
  await signIn(page)
  const links = await page.evaluate<readonly ShownPage[]>(linksOfNavigation)
  const cookies = await context.storageState()
  await context.close()
  return links.map(link => ({ ...link, cookies }))
}

const cookiesOf = ([first]: readonly ShownPage[]) => (first?.cookies === undefined ? {} : { cookies: first.cookies })
