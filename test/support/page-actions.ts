import type { Page } from 'playwright-core'
import { waitUntil } from './wait-until.ts'

// What people do on the pages, by mouse.

export const openPage = (page: Page, title: string): Promise<void> => page.click(`nav >> text="${title}"`)

/** On the page Keys. Resolves with the form, in its dialog. */
export const openKeyForm = async (page: Page): Promise<string> => {
  await page.click('.page-heading button:has-text("Create a key")')
  return 'dialog form[aria-label="Create a key"]'
}

/** On the page Keys; resolves with the key. */
export const createKey = async (page: Page, name: string): Promise<string> => {
  await page.fill(`${await openKeyForm(page)} [name=name]`, name)
  await page.keyboard.press('Enter')
  await page.waitForSelector('dialog', { state: 'detached' })
  await page.waitForSelector(`section[aria-label="Your new key"] h2:has-text("${name}")`)
  return (await page.textContent('[data-testid=new-key] code')) ?? ''
}

/** Types a value of a field for several, as the last one. */
export const addValue = async (page: Page, form: string, name: string, value: string): Promise<void> => {
  await page.fill(`${form} .multi-select:has([name=${name}]) [role=combobox]`, value)
  await page.keyboard.press('Tab')
}

/** Of the menu in the row of a key or a person. */
export const chooseAction = async (page: Page, row: string, action: string): Promise<void> => {
  await page.click(`button[aria-label="Actions: ${row}"]`)
  await page.click(`[role=menu][aria-label="Actions: ${row}"] button:has-text("${action}")`)
}

/** Answers the question that stands before the page. */
export const confirmQuestion = (page: Page): Promise<void> => page.click('dialog button.final')

/** In code and URLs; until then its ends alone are there. */
export const showKey = (page: Page): Promise<void> => page.click('button:has-text("Show the key")')

/** What the button copies: the context must allow the clipboard. */
export const copiedCode = async (page: Page, within = 'body'): Promise<string> => {
  await page.evaluate('navigator.clipboard.writeText("")')
  await page.click(`${within} [role=tabpanel] .copy-code button`)
  await waitUntil(async () => (await page.evaluate('navigator.clipboard.readText()')) !== '')
  return String(await page.evaluate('navigator.clipboard.readText()'))
}
