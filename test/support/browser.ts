import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { delimiter, join } from 'node:path'
import type AxeCore from 'axe-core'
import type Playwright from 'playwright-core'
import type { Browser, Page } from 'playwright-core'
import { boundMethods } from './bounded.ts'

const require = createRequire(import.meta.url)
// An import would search its 7 MB for the names of exports, which takes 0.3 s of CPU.
const { chromium } = require('playwright-core') as typeof Playwright

const findProgram = (name: string): string | undefined =>
  (process.env['PATH'] ?? '')
    .split(delimiter)
    .map(folder => join(folder, name))
    .find(existsSync)

/** The shell opens pages without windows, which saves a third of the CPU. */
const chromiumPath = findProgram('chromium-headless-shell') ?? findProgram('chromium')

/** For tap's `skip`. */
export const skipWithoutChromium: string | false =
  chromiumPath === undefined ? 'chromium is not installed (Debian: apt-get install chromium-headless-shell)' : false

/**
 * Of several lists, Chromium reads the last: this one has those of Playwright that our pages could notice, and the pages that each window loads for
 * its address bar, which takes a second of CPU for each context.
 */
const disabledFeatures = [
  ...['AvoidCorsURLLoaderRestartOnRedirect', 'AvoidUnnecessaryBeforeUnloadCheckSync', 'DestroyProfileOnBrowserClose', 'HttpsUpgrades'],
  ...['MediaRouter', 'NetworkTimeServiceQuerying', 'OptimizationHints', 'PaintHolding', 'ThirdPartyStoragePartitioning'],
  ...['WebUIOmniboxAimPopup', 'WebUIOmniboxPopup'],
]

/** No wait of its pages is without a bound. */
export const openBrowser = async (): Promise<Browser> => {
  const browser = await chromium.launch({
    executablePath: chromiumPath ?? 'chromium',
    // The sandbox of Chromium does not work for root, which tests in containers run as. A process takes half a second of CPU.
    args: ['--no-sandbox', '--renderer-process-limit=1', '--in-process-gpu', `--disable-features=${disabledFeatures.join(',')}`],
  })
  boundMethods('browser', browser)
  const openContext = browser.newContext.bind(browser)
  browser.newContext = async options => {
    const context = await openContext(options)
    boundMethods('context', context)
    context.on('page', boundPage)
    return context
  }
  return browser
}

const boundPage = (page: Page): void => {
  const { keyboard, mouse, clock } = page
  const parts = { page, frame: page.mainFrame(), locator: page.locator('html'), keyboard, mouse, clock }
  for (const [name, part] of Object.entries(parts)) boundMethods(name, part)
}

const axeSource = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8')

/** Colors are compared as they are in the end; a dialog fades in. What moves without an end, such as a skeleton, or with a scroll, is not waited for. */
const untilFadedIn = `Promise.allSettled(
  document.getAnimations()
    .filter(({ effect, timeline }) => timeline === document.timeline && Number.isFinite(effect.getComputedTiming().endTime))
    .map(({ finished }) => finished)
).then(() => undefined)`

/** The accessibility rules that the page breaks, by axe-core; all rules unless some are named, and those of WCAG 2.2, which axe leaves out by default. */
export const findAccessibilityViolations = async (page: Page, rules?: readonly string[]): Promise<readonly string[]> => {
  if (!(await page.evaluate(() => 'axe' in globalThis))) await page.evaluate(axeSource)
  await page.evaluate(untilFadedIn)
  return page.evaluate(async runOnly => {
    // In the page, into which it was just loaded.
    const { axe } = globalThis as unknown as { readonly axe: typeof AxeCore }
    // Of what passes, axe would describe each element.
    const { violations } = await axe.run({
      resultTypes: ['violations'],
      // It would fetch what plays by itself and all styles once more: no page plays anything.
      preload: false,
      ...(runOnly === undefined ? { rules: { 'target-size': { enabled: true } } } : { runOnly: [...runOnly] }),
    })
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => String(target)).join(', ')}`)
  }, rules)
}
