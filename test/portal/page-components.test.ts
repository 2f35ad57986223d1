import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Page } from 'playwright-core'
import type { Test } from 'tap'
import { findAccessibilityViolations, openBrowser, skipWithoutChromium } from '../support/browser.ts'
import t from '../support/tap.ts'
import { waitUntil } from '../support/wait-until.ts'

// The gallery of src/portal/page/gallery: each component in each of its states.

const root = fileURLToPath(new URL('../../..', import.meta.url))

const contentTypes: Readonly<Record<string, string>> = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css' }

/** As strict as that of the pages. */
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:"

const startGallery = async () => {
  const vite = [join(root, 'node_modules/vite/bin/vite.js'), 'build', '--config', 'src/portal/page/vite.config.ts', '--mode', 'gallery']
  await promisify(execFile)(process.execPath, [...vite, '--logLevel', 'warn'], { cwd: root })
  const server = createServer((request, response) => {
    const path = request.url === '/' ? '/index.html' : (request.url ?? '')
    readFile(join(root, 'dist/gallery', path)).then(
      bytes => {
        response.writeHead(200, { 'content-type': contentTypes[extname(path)] ?? '', 'content-security-policy': policy })
        response.end(bytes)
      },
      () => response.writeHead(404).end(),
    )
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, stop: () => void server.close() }
}

/** Waits until what has this name has the focus: a popover says that it is open in a task of its own. */
const untilFocused = async (t: Test, page: Page, name: string): Promise<void> => {
  const focused = 'document.activeElement.ariaLabel || document.activeElement.textContent'
  // Not by waitForFunction(), which evaluates a text in the page: the policy of the page forbids that.
  await waitUntil(async () => (await page.evaluate(focused)) === name)
  t.pass(name)
}

t.test('the components of the pages', { skip: skipWithoutChromium }, async t => {
  const gallery = await startGallery()
  const browser = await openBrowser()
  t.teardown(async () => {
    await browser.close()
    gallery.stop()
  })
  const page = await browser.newPage({ viewport: { width: 1_280, height: 900 } })
  const problems: string[] = []
  page.on('pageerror', error => problems.push(error.message))
  page.on('console', message => message.type() === 'error' && problems.push(message.text()))
  await page.goto(gallery.url)
  await page.waitForSelector('section[aria-label=Icons]')

  const openDialog = async () => {
    await page.click('button:has-text("Open a dialog")')
    await page.waitForSelector('dialog[open]')
  }

  t.test('pass axe in both themes, and fit windows of 1,280 and 360 px', async t => {
    for (const width of [1_280, 360]) {
      await page.setViewportSize({ width, height: 900 })
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
        t.same(await findAccessibilityViolations(page), [], `${width} px, ${colorScheme}`)
        await openDialog()
        t.same(await findAccessibilityViolations(page), [], `a dialog in ${width} px, ${colorScheme}`)
        t.equal(await page.evaluate('document.documentElement.scrollWidth'), width)
        await page.keyboard.press('Escape')
        await page.waitForSelector('dialog', { state: 'detached' })
      }
    }
    await page.setViewportSize({ width: 1_280, height: 900 })
  })

  t.test('a wide table is cards in a narrow window, with the titles of its columns', async t => {
    const display = `getComputedStyle(document.querySelector('section[aria-label="Rows that become cards"] td')).display`
    const label = `getComputedStyle(document.querySelectorAll('section[aria-label="Rows that become cards"] td')[1], '::before').content`
    t.equal(await page.evaluate(display), 'table-cell')
    await page.setViewportSize({ width: 360, height: 900 })
    t.equal(await page.evaluate(display), 'flow-root')
    t.equal(await page.evaluate(label), '"Calls"')
    const actions = page.locator('section[aria-label="Rows that become cards"] td[data-label=Actions]')
    t.same(
      await Promise.all((await actions.all()).map(cell => cell.isVisible())),
      (await actions.allTextContents()).map((_, i) => i > 0),
      'a cell that has nothing is left out',
    )
    await page.setViewportSize({ width: 1_280, height: 900 })
  })

  t.test('a row of a narrow window may be three lines, of which the first says what it is about, and no name is cut', async t => {
    await page.setViewportSize({ width: 360, height: 900 })
    const cells = page.locator('section[aria-label="Rows that become lines"] tbody tr:first-child td')
    const tops = await Promise.all([0, 1, 2, 3, 4, 5, 6].map(async i => (await cells.nth(i).boundingBox())?.y ?? 0))
    const [time = 0, state = 0, method = 0, key = 0, duration = 0, network = 0, credits = 0] = tops
    // What failed says so first.
    t.ok(Math.max(time, method) < Math.min(state, key, duration), tops.join())
    t.ok(Math.max(state, key, duration) < Math.min(network, credits), tops.join())
    const word = await page.locator('section[aria-label="Rows that become lines"] .ok.badge > span').first().boundingBox()
    t.ok((word?.width ?? 0) > 20, 'not by its color alone')
    const row = await page.locator('section[aria-label="Rows that become lines"] tbody tr').first().boundingBox()
    t.ok((row?.height ?? Infinity) < 90, 'three lines')
    const names = page.locator('section[aria-label="Rows that become lines"] td:not([data-narrow=state])')
    t.equal(await names.evaluateAll(all => all.filter(cell => cell.scrollWidth > cell.clientWidth).length), 0)
    t.equal(await page.evaluate('document.documentElement.scrollWidth'), 360)
    await page.setViewportSize({ width: 1_280, height: 900 })
  })

  t.test('a dialog takes the focus into its first field, keeps it, and gives it back', async t => {
    await openDialog()
    t.equal(await page.evaluate('document.activeElement.name'), 'name')
    for (let i = 0; i < 8; i += 1) {
      await page.keyboard.press('Tab')
      t.ok(await page.evaluate(`document.activeElement === document.body || document.activeElement.closest('dialog') !== null`))
    }
    await page.keyboard.press('Escape')
    await page.waitForSelector('dialog', { state: 'detached' })
    await untilFocused(t, page, 'Open a dialog')
    await openDialog()
    await page.mouse.click(5, 5)
    await page.waitForSelector('dialog', { state: 'detached' })
  })

  t.test('a question begins at the button that cancels, and its answer is said', async t => {
    await page.click('button:has-text("Ask a question")')
    await untilFocused(t, page, 'Cancel')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await page.waitForSelector('[role=status] >> text="Revoked."')
    await page.waitForSelector('dialog', { state: 'detached' })
    await page.click('button[aria-label="Close: Revoked."]')
  })

  t.test('a menu is moved in with the arrows, and closed by Esc, by a choice and by a click elsewhere', async t => {
    await page.focus('button[aria-label="A menu"]')
    await page.keyboard.press('Enter')
    await untilFocused(t, page, 'Change')
    await page.keyboard.press('ArrowDown')
    await untilFocused(t, page, 'Revoke')
    await page.keyboard.press('ArrowDown')
    await untilFocused(t, page, 'Change')
    await page.keyboard.press('Escape')
    await untilFocused(t, page, 'A menu')
    await page.keyboard.press('Enter')
    await untilFocused(t, page, 'Change')
    await page.keyboard.press('Enter')
    await page.waitForSelector('[role=status] >> text="Changed."')
    t.equal(await page.locator('.menu:popover-open').count(), 0)
    await page.click('button[aria-label="A menu"]')
    await untilFocused(t, page, 'Change')
    t.equal(await page.locator('.menu:popover-open').count(), 1)
    await page.click('h1')
    t.equal(await page.locator('.menu:popover-open').count(), 0)
  })

  t.test('several of many are found by typing, chosen and taken away with the keyboard, and sent', async t => {
    const field = page.locator('section[aria-label=Fields] label:has-text("Methods") ~ .multi-select [role=combobox]')
    await field.fill('GAS')
    await page.keyboard.press('Enter')
    await field.fill('eth_')
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    t.equal(await page.inputValue('[name=methods]'), 'eth_call, eth_gasPrice, eth_chainId')
    await page.keyboard.press('Backspace')
    t.equal(await page.inputValue('[name=methods]'), 'eth_call, eth_gasPrice')
    await page.click('button[aria-label="Remove eth_call"]')
    await field.fill('eth_madeUp')
    await page.keyboard.press('Tab')
    t.equal(await page.inputValue('[name=methods]'), 'eth_gasPrice, eth_madeUp', 'what is typed is not lost')
    const origins = page.locator('label:has-text("Origins") ~ .multi-select [role=combobox]')
    await origins.fill('https://a.example, https://b.example')
    await page.keyboard.press('Enter')
    t.equal(await page.inputValue('[name=origins]'), 'https://a.example, https://b.example')
    await page.click('button:text-is("Form")')
    await page.waitForSelector('[role=status] >> text="Sent: eth_gasPrice, eth_madeUp"')
    t.equal(await page.inputValue('[name=methods]'), 'eth_call', 'as the form was before')
  })

  t.test('on a phone the list of what may be chosen opens with a tap, and follows its field when the page scrolls', async t => {
    const phone = await browser.newContext({ viewport: { width: 360, height: 640 }, hasTouch: true, isMobile: true })
    t.teardown(() => phone.close())
    const page = await phone.newPage()
    await page.goto(gallery.url)
    const field = page.locator('section[aria-label=Fields] label:has-text("Methods") ~ .multi-select')
    await field.locator('[role=combobox]').tap()
    await page.keyboard.type('eth_')
    const list = field.locator('.options')
    const distance = async (): Promise<number> => {
      const [box, chips] = [await list.boundingBox(), await field.locator('.chips').boundingBox()]
      return box === null || chips === null
        ? Infinity
        : Math.min(Math.abs(box.y - chips.y - chips.height), Math.abs(chips.y - box.y - box.height))
    }
    t.ok((await distance()) < 6)
    const before = await list.boundingBox()
    await page.evaluate('scrollBy(0, 60)')
    await waitUntil(async () => Math.abs(((await list.boundingBox())?.y ?? 0) - (before?.y ?? 0)) > 30)
    t.ok((await distance()) < 6, 'beside its field')
    await page.setViewportSize({ width: 360, height: 400 })
    await waitUntil(async () => (await distance()) < 6)
    const { y = -1, height = Infinity } = (await list.boundingBox()) ?? {}
    t.ok(y >= 0 && y + height <= 400, 'within what the keyboard leaves of the window')
    await list.locator('[role=option]').first().tap()
    await waitUntil(async () => (await page.inputValue('[name=methods]')).includes(', eth_'))
  })

  t.test('tabs are moved between with the arrows', async t => {
    await page.focus('[role=tab]:text-is("curl")')
    await page.keyboard.press('ArrowRight')
    await untilFocused(t, page, 'viem')
    t.match(await page.textContent('[role=tabpanel]'), 'createPublicClient')
    await page.keyboard.press('End')
    t.match(await page.textContent('[role=tabpanel]'), '/v3/API_KEY')
  })

  t.test('failed calls are seen, however few of many they are', async t => {
    // Of a column of which one call in some hundreds has failed, the third pixel from below.
    const color = `(() => {
      const canvas = document.querySelector('.plot canvas')
      const width = (canvas.width - 26 - 52) / 24
      return [...canvas.getContext('2d').getImageData(Math.round(52 + 19.3 * width), canvas.height - 34 - 3, 1, 1).data]
    })()`
    await waitUntil(async () => (await page.evaluate<number[]>(color))[3] === 255)
    const [red = 0, green = 0, blue = 0] = await page.evaluate<number[]>(color)
    t.ok(red > green + 80 && red > blue + 80, `${red} ${green} ${blue}`)
  })

  t.test('under a finger, buttons and choices are at least 40 px high', async t => {
    const touched = await browser.newPage({ viewport: { width: 360, height: 900 }, hasTouch: true, isMobile: true })
    t.teardown(() => touched.close())
    await touched.goto(gallery.url)
    await touched.waitForSelector('section[aria-label=Icons]')
    const low = `[...document.querySelectorAll('button:not(.link, .sort), select, .segments label')]
      .filter(each => each.offsetHeight > 0 && each.offsetHeight < 40).map(each => each.ariaLabel || each.textContent)`
    t.same(await touched.evaluate(low), [])
  })

  t.test('the legend of lines has the last value that is known', async t => {
    await page.waitForSelector('figure:has-text("One point") .legend li:has-text("p95") strong:text-is("42")')
    t.equal(await page.locator('figure:has-text("One point") .legend:has-text("–")').count(), 0)
  })

  t.test('a column that is not over yet has stripes in both themes, and the legend says so', async t => {
    /** Of the last columns, how often the color changes along a line through each. */
    const countChanges = `(() => {
      const canvas = document.querySelector('.plot canvas')
      const [padding, axis, y] = [26, 52, canvas.height - 34 - 12]
      const width = (canvas.width - padding - axis) / 24
      return [2, 1].map(fromEnd => {
        const left = Math.round(canvas.width - padding - fromEnd * width)
        const { data } = canvas.getContext('2d').getImageData(left + 2, y, Math.round(0.7 * width), 1)
        const isOther = (_, i) => [0, 1, 2, 3].some(part => Math.abs(data[4 * i + part] - data[4 * (i + 1) + part]) > 40)
        return Array.from({ length: data.length / 4 - 1 }).filter(isOther).length
      })
    })()`
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      await waitUntil(async () => Math.max(...(await page.evaluate<number[]>(countChanges))) >= 4)
      const [before = 0, running = 0] = await page.evaluate<number[]>(countChanges)
      t.equal(before, 0, colorScheme)
      t.ok(running >= 4, `${colorScheme}: ${running}`)
    }
    const running = '[A-Z][a-z]{2} [0-9]+, [0-9]{2}:[0-9]{2}.–.[0-9]{2}:[0-9]{2}.UTC, not over yet'
    await page.waitForSelector(`.legend .not-over:has(.of-columns) span:text-matches("^Striped: ${running}$")`)
    await page.waitForSelector(`.legend .not-over:has(.of-lines) span:text-matches("^Dot: ${running}$")`)
    t.equal(await page.locator('.legend:has-text("Others")').count(), 1)
    t.equal(await page.locator('.legend:has-text("Empty")').count(), 0, 'a name of which nothing is drawn is not there')
  })

  t.test('the console of the browser shows no error', async t => t.same(problems, []))
})
