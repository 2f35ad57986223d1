import { join } from 'node:path'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { openBrowser, skipWithoutChromium } from '../support/browser.ts'
import { networkFile } from '../support/deployment.ts'
import { createPortalDeployment, printSignInToken } from '../support/portal-client.ts'
import type { CaseResult } from './cases.ts'
import { createFigure, spreadOf } from './figures.ts'
import type { Figure } from './figures.ts'
import { fillStore } from './fill-store.ts'
import type { ReportSkipped } from './measure.ts'
import { startServer } from './server-process.ts'
import type { BenchServers } from './servers.ts'

/** Target of the first page of each. */
const maxShownMs = 300

const adminToken = 'bench-pages-token'

/** Who has the usage. */
const account = 'viewed'

type Cookies = Exclude<BrowserContextOptions['storageState'], string | undefined>

interface MeasuredPage {
  readonly title: string
  readonly url: string
  readonly cookies: Cookies
  /** What is shown with its figures. */
  readonly selectors: readonly string[]
  readonly maxMs?: number
}

/** What the page runs: the time at which all figures were drawn, since the navigation began. */
const watchFor = (selectors: readonly string[]): string => `{
  const selectors = ${JSON.stringify(selectors)}
  const isShown = () => selectors.every(selector => document.querySelector(selector)) && !document.querySelector('.skeleton')
  globalThis.shownMs = new Promise(resolve => {
    const look = () => {
      if (!isShown()) return requestAnimationFrame(look)
      // The frame that has them is drawn before the next one begins.
      requestAnimationFrame(() => resolve(performance.now()))
    }
    look()
  })
}`

/** The first pages of dashboard and operator in Chromium, each opened by a browser without a cache, beside 10,000 accounts and 90 days of usage. */
export const pagesInBrowser = async (servers: BenchServers, reportSkipped: ReportSkipped): Promise<CaseResult> => {
  if (skipWithoutChromium !== false) {
    reportSkipped(skipWithoutChromium)
    return { rows: [], figures: [] }
  }
  const node = await startServer({ script: new URL('./bench-node.js', import.meta.url), args: ['0'] })
  const network = { ...networkFile('bench', [node.url]), chainId: 1337, blockTime: '60m' }
  const deployment = createPortalDeployment(node.url, { networks: { bench: network }, gateway: { admin: { token: adminToken } } })
  const browser = await openBrowser()
  try {
    await deployment.addCaller(account, 'custom')
    await fillStore(join(deployment.dir, '../data'), account)
    const { portal = '', admin } = await deployment.start()
    const token = await printSignInToken(deployment, account)
    const developer = await signIn(browser, async page => {
      await page.goto(`${portal}/sign-in#${token}`)
      await page.waitForSelector('[data-testid=credits-left]')
    })
    const operator = await signIn(browser, async page => {
      await page.goto(`${admin}/operator`)
      await page.fill('[name=token]', adminToken)
      await page.keyboard.press('Enter')
      await page.waitForSelector('nav')
    })
    const overview = {
      title: 'Overview',
      url: `${portal}/`,
      cookies: developer,
      selectors: ['.plot canvas', '.ranking code', '.ranking.networks .badge'],
      maxMs: maxShownMs,
    }
    const usage = { title: 'Usage of 90 days', url: `${portal}/usage?range=90d`, cookies: developer, selectors: ['.plot canvas', 'tfoot'] }
    const home = {
      title: 'Home',
      url: `${admin}/operator`,
      cookies: operator,
      selectors: ['[data-testid=calls-per-second]', 'h3', 'dl.facts'],
      maxMs: maxShownMs,
    }
    const figures: Figure[] = []
    for (const page of [overview, home, usage]) figures.push(...(await measurePage(browser, page, servers.settings.rounds)))
    return { rows: [], figures }
  } finally {
    await browser.close()
    await deployment.remove()
    await node.stop()
  }
}

const signIn = async (browser: Browser, enter: (page: Page) => Promise<void>): Promise<Cookies> => {
  const context = await browser.newContext()
  await enter(await context.newPage())
  const cookies = await context.storageState()
  await context.close()
  return cookies
}

const measurePage = async (browser: Browser, measured: MeasuredPage, rounds: number): Promise<readonly Figure[]> => {
  const shown: number[] = []
  const busy: number[] = []
  for (let i = 0; i < rounds; i += 1) {
    const { shownMs, busyMs } = await openOnce(browser, measured)
    shown.push(shownMs)
    busy.push(busyMs)
  }
  return [
    createFigure(`${measured.title} is shown after`, 'ms', spreadOf(shown), measured.maxMs),
    createFigure(`${measured.title}: CPU of the main thread of Chromium`, 'ms', spreadOf(busy)),
  ]
}

/** In a browser that has nothing of the page yet. */
const openOnce = async (browser: Browser, { url, cookies, selectors }: MeasuredPage) => {
  const context = await browser.newContext({ storageState: cookies, viewport: { width: 1_280, height: 800 } })
  try {
    await context.addInitScript(watchFor(selectors))
    const page = await context.newPage()
    const session = await context.newCDPSession(page)
    // CPU time of the main thread.
    await session.send('Performance.enable', { timeDomain: 'threadTicks' })
    await page.goto(url, { waitUntil: 'commit' })
    const shownMs = Number(await page.evaluate('shownMs'))
    const { metrics } = await session.send('Performance.getMetrics')
    return { shownMs, busyMs: 1_000 * (metrics.find(({ name }) => name === 'TaskDuration')?.value ?? 0) }
  } finally {
    await context.close()
  }
}
