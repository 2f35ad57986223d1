import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Browser, Page } from 'playwright-core'
import { ApiError, storeUnavailableForDevelopers, storeUnavailableForOperators } from '../../src/portal/api-errors.ts'
import { openBrowser, skipWithoutChromium } from '../support/browser.ts'
import { addValue, chooseAction, createKey, openKeyForm } from '../support/page-actions.ts'
import { printSignInToken } from '../support/portal-client.ts'
import { waitUntil } from '../support/wait-until.ts'
import { account, adminToken, newcomer, openScreenshotDeployment, spender } from './screenshot-deployment.ts'
import type { ScreenshotDeployment } from './screenshot-deployment.ts'

// npm run screenshots [-- NAME…]: writes each page and its states in both themes and two widths into dist/screenshots/, from a running
// gateway; those that the documentation shows into docs/images/ too, as large as a window. Names are those of the parts below.

const root = fileURLToPath(new URL('../../..', import.meta.url))
const allDir = join(root, 'dist/screenshots')
const docsDir = join(root, 'docs/images')

const shownInDocs = ['overview', 'first-run', 'usage', 'requests', 'operator-home', 'operator-nodes']

const widths = [1_280, 360] as const
const heightPx = 800
/** Pictures of the documentation are shown small. */
const docsSize = { width: 1_280, height: 720 } as const
/** Longer pages are cut. */
const maxHeightPx = 2_400

type ColorScheme = 'light' | 'dark'

/** Resolves once the page is drawn in this size and theme. */
const resize = async (page: Page, width: number, height: number, colorScheme: ColorScheme, isLoading = false): Promise<void> => {
  await page.setViewportSize({ width, height })
  await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
  if (!isLoading) await page.waitForSelector(':is(.skeleton, .outdated)', { state: 'detached' })
  // Charts are drawn with the next frame, in the size and the colors of now.
  await page.evaluate('new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)))')
}

/** Writes what is shown in both themes and all widths. */
const shoot = async (page: Page, name: string, isLoading = false): Promise<void> => {
  for (const colorScheme of ['light', 'dark'] as const) {
    for (const width of widths) {
      await resize(page, width, heightPx, colorScheme, isLoading)
      const height = Math.min(maxHeightPx, Number(await page.evaluate('document.documentElement.scrollHeight')))
      // The navigation is as high as the window, and would end, or begin, within the picture.
      await page.evaluate('scrollTo(0, 0)')
      if (width === widths[0]) await resize(page, width, Math.max(heightPx, height), colorScheme, isLoading)
      await page.screenshot({
        path: join(allDir, `${name}-${width}-${colorScheme}.png`),
        fullPage: true,
        clip: { x: 0, y: 0, width, height },
      })
    }
    if (shownInDocs.includes(name)) {
      await resize(page, docsSize.width, docsSize.height, colorScheme)
      await page.screenshot({ path: join(docsDir, `${name}-${colorScheme}.png`) })
    }
  }
  await page.setViewportSize({ width: widths[0], height: heightPx })
}

const openPage = async (page: Page, title: string): Promise<void> => {
  await page.click(`nav >> text="${title}"`)
  await page.waitForSelector(`h1:has-text("${title}")`)
}

/** Each page of the navigation, and what else is worth a picture of some: by the name of the page. */
const shootAll = async (page: Page, prefix: string, prepare: Readonly<Record<string, () => Promise<void>>> = {}): Promise<void> => {
  for (const title of await page.locator('nav a > span:first-of-type').allTextContents()) {
    const name = title.toLowerCase().replaceAll(' ', '-')
    await openPage(page, title)
    await prepare[name]?.()
    await shoot(page, `${prefix}${name}`)
  }
}

const openBlank = async (browser: Browser): Promise<Page> =>
  (await browser.newContext({ viewport: { width: widths[0], height: heightPx } })).newPage()

const signIn = async (browser: Browser, { deployment, portal }: ScreenshotDeployment, name: string): Promise<Page> => {
  const page = await openBlank(browser)
  await page.goto(`${portal}/sign-in#${await printSignInToken(deployment, name)}`)
  await page.waitForSelector('[data-testid=credits-used]')
  return page
}

const signInAsOperator = async (browser: Browser, { gateway }: ScreenshotDeployment): Promise<Page> => {
  const page = await openBlank(browser)
  await page.goto(`${gateway.admin}/operator`)
  await page.fill('[name=token]', adminToken)
  await page.keyboard.press('Enter')
  await page.waitForSelector('h1:has-text("Home")')
  return page
}

/** Requests that nothing answers, and then those that only say that the store is unreachable. */
const shootWithoutFigures = async (page: Page, prefix: string, titles: readonly string[], storeRoutes = /./): Promise<void> => {
  const figures = /\/api\/v1\/(?!session$|info$)/
  await page.route(figures, () => undefined)
  for (const title of titles) {
    await openPage(page, title)
    await page.reload()
    await page.waitForSelector('.skeleton')
    await shoot(page, `${prefix}loading-${title.toLowerCase()}`, true)
  }
  await page.unroute(figures)
  const unavailable = new ApiError(503, 'store-unavailable', prefix === '' ? storeUnavailableForDevelopers : storeUnavailableForOperators)
  await page.route(figures, route =>
    storeRoutes.test(route.request().url()) ? route.fulfill({ status: 503, json: unavailable }) : route.continue(),
  )
  await openPage(page, titles[0] ?? '')
  await page.reload()
  await page.waitForSelector('[role=alert]')
  await shoot(page, `${prefix}error`, true)
  await page.unroute(figures)
}

type Part = (browser: Browser, opened: ScreenshotDeployment) => Promise<void>

const parts: Readonly<Record<string, Part>> = {
  async developer(browser, opened) {
    const page = await signIn(browser, opened, account)
    const shown = async () => Number((await page.textContent('[data-testid=credits-used]'))?.replaceAll(/\D.*/g, ''))
    await waitUntil(async () => (await shown()) > 0)
    await shootAll(page, '', {
      'try-it': async () => {
        await page.selectOption('select >> nth=1', 'eth_getBalance')
        await page.fill('[name=key]', opened.key)
        await page.click('text="Fill in examples"')
        await page.click('form [type=submit]')
        await page.waitForSelector('section[aria-label=Response]')
      },
    })
    await openPage(page, 'Usage')
    await resize(page, widths[0], heightPx, 'light')
    await page.click('button:has-text("Export")')
    await page.screenshot({ path: join(allDir, `usage-export-${widths[0]}-light.png`) })
    await page.keyboard.press('Escape')
    await page.selectOption('select >> nth=0', '7d')
    await shoot(page, 'usage-week')
    await page.selectOption('select >> nth=0', 'thisMonth')
    await page.waitForSelector('.lead:has-text("Days and months are those of UTC.")')
    await shoot(page, 'usage-month')
    await page.selectOption('select >> nth=0', '24h')
    await page.selectOption('select >> nth=1', 'key')
    await page.click('label:has-text("Latency")')
    await shoot(page, 'usage-latency')
    await openPage(page, 'Requests')
    await page.click('tr:has(.badge.danger) time >> nth=0')
    await shoot(page, 'requests-why')
    await page.keyboard.press('Escape')
    await page.fill('[type=search]', 'nothing-like-this')
    await page.waitForSelector('text="No request matches"')
    await shoot(page, 'requests-none')
    await page.click('text="What is logged"')
    await shoot(page, 'requests-settings')
    await page.keyboard.press('Escape')
    await openPage(page, 'Try it')
    await page.selectOption('select >> nth=1', 'eth_getLogs')
    await shoot(page, 'try-it-logs')
    await openPage(page, 'Profile')
    await page.click('button:has-text("Leave this account")')
    await shoot(page, 'profile-leave')
    await page.keyboard.press('Escape')
    await resize(page, 360, heightPx, 'light')
    await page.click('button:has-text("Menu")')
    await page.screenshot({ path: join(allDir, 'menu-360-light.png') })
    await page.setViewportSize({ width: widths[0], height: heightPx })
    await page.goto(`${opened.portal}/kyes`)
    await page.waitForSelector('h1:has-text("Page not found")')
    await shoot(page, 'not-found')
    await shootWithoutFigures(page, '', ['Overview', 'Usage', 'Keys'])
  },

  async keys(browser, opened) {
    const page = await signIn(browser, opened, account)
    await openPage(page, 'Keys')
    const form = await openKeyForm(page)
    await page.fill(`${form} [name=name]`, 'mobile app')
    await page.click(`${form} .field:has([name=methods]) [role=combobox]`)
    await page.keyboard.type('eth_get')
    await shoot(page, 'keys-create')
    await page.keyboard.press('Escape')
    await page.keyboard.press('Escape')
    await openKeyForm(page)
    await page.fill(`${form} [name=name]`, 'mobile app')
    await page.click(`${form} summary`)
    await addValue(page, form, 'ips', '10.0.0.300')
    await page.click(`${form} [type=submit]`)
    await page.waitForSelector(`${form} [aria-invalid=true]`)
    await shoot(page, 'keys-create-wrong')
    await page.keyboard.press('Escape')
    await createKey(page, 'mobile app')
    await shoot(page, 'keys-created')
    await chooseAction(page, 'mobile app', 'Revoke')
    await shoot(page, 'keys-revoke')
  },

  async newcomer(browser, opened) {
    const page = await signIn(browser, opened, newcomer)
    for (const title of ['Overview', 'Usage', 'Errors', 'Requests', 'Keys', 'Alerts', 'Access']) {
      await openPage(page, title)
      await shoot(page, `empty-${title.toLowerCase()}`)
    }
    await openPage(page, 'Overview')
    await page.click('.guide button')
    await page.waitForSelector('.shown-once')
    await shoot(page, 'first-run-save')
    await page.click('text="I have saved it"')
    await page.click('[role=tab]:text-is("viem")')
    await shoot(page, 'first-run')
  },

  async spender(browser, opened) {
    await opened.spend(8)
    const page = await signIn(browser, opened, spender.name)
    await page.waitForSelector('.banner.warn')
    await page.waitForSelector('.plot')
    await shoot(page, 'banner-near')
    await opened.spend(2)
    await page.waitForSelector('.banner.danger')
    await page.waitForSelector(`.ranking:has-text("${spender.credits}")`)
    await shoot(page, 'banner-spent')
    await openPage(page, 'Usage')
    await shoot(page, 'banner-spent-usage')
    await opened.deployment.run('accounts', 'suspend', spender.name, '--reason', 'Invoice 17 is unpaid')
    await openPage(page, 'Overview')
    await page.reload()
    await page.waitForSelector('.banner:has-text("suspended")')
    await shoot(page, 'banner-suspended')
  },

  async signedOut(browser, opened) {
    const { portal, mail } = opened
    const page = await openBlank(browser)
    await page.goto(`${portal}/sign-in`)
    await page.waitForSelector('h1:has-text("Sign in")')
    await page.waitForSelector('[name=email]')
    await shoot(page, 'sign-in')
    await page.fill('[name=email]', 'ivo@example.org')
    const mails = mail.received.length
    await page.keyboard.press('Enter')
    await page.waitForSelector('h1:text-is("Check your mail")')
    await shoot(page, 'sign-in-sent')
    const token = await mail.tokenInMail(mails + 1)
    await page.goto('about:blank')
    await page.goto(`${portal}/sign-in#${token}`)
    await page.waitForSelector('h1:has-text("You are invited")')
    await shoot(page, 'invitation')
    await page.goto('about:blank')
    await page.goto(`${portal}/sign-in#used-up`)
    await page.waitForSelector('[role=alert]')
    await shoot(page, 'sign-in-refused')
    await page.goto(`${portal}/confirm-email#used-up`)
    await page.waitForSelector('[role=alert]')
    await shoot(page, 'confirm-email')
    await page.goto(`${portal}/status`)
    await page.waitForSelector('.network')
    await shoot(page, 'status')
    const signedIn = await signIn(browser, opened, account)
    await signedIn.goto('about:blank')
    await signedIn.goto(`${portal}/sign-in#${await printSignInToken(opened.deployment, newcomer)}`)
    await signedIn.waitForSelector('h1:has-text("Sign in as someone else?")')
    await shoot(signedIn, 'sign-in-switch')
  },

  async operator(browser, opened) {
    const admin = opened.gateway.admin
    const signedOut = await openBlank(browser)
    await signedOut.goto(`${admin}/operator`)
    await signedOut.waitForSelector('[name=token]')
    await shoot(signedOut, 'operator-sign-in')
    const page = await signInAsOperator(browser, opened)
    await waitUntil(async () => {
      await page.reload()
      await page.waitForSelector('h2:text-is("Over time") >> xpath=../following-sibling::*')
      return (await page.locator('.charts .plot canvas').count()) > 0
    })
    await shootAll(page, 'operator-')
    await page.goto(`${admin}/operator/accounts/${account}`)
    await page.waitForSelector('[data-testid=credits-left]')
    await shoot(page, 'operator-account')
    await page.goto(`${admin}/operator/accounts/${account}?by=errors&days=7`)
    await page.waitForSelector('td .badge')
    await shoot(page, 'operator-account-errors')
    const owner = await signIn(browser, opened, account)
    const failed = `fetch('/api/v1/requests?outcome=failed&limit=1').then(response => response.json()).then(({ requests }) => requests[0].requestId)`
    await page.goto(`${admin}/operator/requests?id=${await owner.evaluate<string>(failed)}`)
    await page.waitForSelector('.facts')
    await shoot(page, 'operator-requests-found')
    await page.goto(`${admin}/operator/accounts?search=nothing-like-this`)
    await page.waitForSelector('text=/^No account matches/')
    await shoot(page, 'operator-accounts-none')
    await page.click('main >> text="Create an account"')
    await shoot(page, 'operator-accounts-create')
    await page.keyboard.press('Escape')
    await page.goto(`${admin}/operator/nodes?network=ethereum-mainnet`)
    await page.waitForSelector('.plot canvas')
    await page.click('[aria-label=ethereum-mainnet] [aria-label="Drain node-1"]')
    await shoot(page, 'operator-nodes-drain')
    await page.click('dialog button.final')
    await page.waitForSelector('.badge:text-is("drained")')
    await shoot(page, 'operator-nodes-charts')
    // What is about nodes and this gateway is in its memory.
    await shootWithoutFigures(page, 'operator-', ['Home', 'Accounts'], /\/api\/v1\/(?!nodes|overview(?!\/accounts))/)
  },

  async down(browser, opened) {
    await Promise.all((opened.nodes.get('base-mainnet') ?? []).map(node => node.stop()))
    const page = await signIn(browser, opened, account)
    await waitUntil(async () => {
      await openPage(page, 'Networks')
      await page.reload()
      await page.waitForSelector('.network')
      return (await page.locator('.badge:text-is("down")').count()) > 0
    })
    await shoot(page, 'networks-down')
    await page.goto(`${opened.portal}/status`)
    await page.waitForSelector('.network')
    await shoot(page, 'status-down')
    const operator = await signInAsOperator(browser, opened)
    await operator.waitForSelector('.attention')
    await shoot(operator, 'operator-home-down')
    await openPage(operator, 'Nodes')
    await shoot(operator, 'operator-nodes-down')
  },
}

const main = async (): Promise<void> => {
  if (skipWithoutChromium !== false) throw new Error(skipWithoutChromium)
  const names = process.argv.slice(2)
  const unknown = names.find(name => !Object.hasOwn(parts, name))
  if (unknown !== undefined) throw new Error(`there is no part "${unknown}": expected ${Object.keys(parts).join(', ')}`)
  if (names.length === 0) rmSync(allDir, { recursive: true, force: true })
  for (const dir of [allDir, docsDir]) mkdirSync(dir, { recursive: true })
  const opened = await openScreenshotDeployment()
  const browser = await openBrowser()
  try {
    for (const [name, run] of Object.entries(parts)) if (names.length === 0 || names.includes(name)) await run(browser, opened)
  } finally {
    await browser.close()
    await opened.stop()
  }
}

await main()
