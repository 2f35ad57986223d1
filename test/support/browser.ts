import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { delimiter, join } from 'node:path'
import type AxeCore from 'axe-core'
import { chromium } from 'playwright-core'
import type { Browser, Page } from 'playwright-core'

const chromiumPath = (process.env['PATH'] ?? '')
  .split(delimiter)
  .map(folder => join(folder, 'chromium'))
  .find(existsSync)

/** For tap's `skip`. */
export const skipWithoutChromium: string | false =
  chromiumPath === undefined ? 'chromium is not installed (Debian: apt-get install chromium)' : false

export const openBrowser = (): Promise<Browser> =>
  // The sandbox of Chromium does not work for root, which tests in containers run as.
  chromium.launch({ executablePath: chromiumPath ?? 'chromium', args: ['--no-sandbox'] })

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** The accessibility rules that the page breaks, by axe-core; all rules unless some are named, and those of WCAG 2.2, which axe leaves out by default. */
export const findAccessibilityViolations = async (page: Page, rules?: readonly string[]): Promise<readonly string[]> => {
  await page.evaluate(axeSource)
  return page.evaluate(async runOnly => {
    // In the page, into which it was just loaded.
    const { axe } = globalThis as unknown as { readonly axe: typeof AxeCore }
    const { violations } = await axe.run(
      runOnly === undefined ? { rules: { 'target-size': { enabled: true } } } : { runOnly: [...runOnly] },
    )
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => String(target)).join(', ')}`)
  }, rules)
}
