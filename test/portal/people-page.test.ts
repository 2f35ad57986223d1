import t from '../support/tap.ts'
import type { Page } from 'playwright-core'
import { findAccessibilityViolations, openBrowser, skipWithoutChromium } from '../support/browser.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { startMailServer } from '../support/mail-server.ts'
import { chooseAction, confirmQuestion, openPage } from '../support/page-actions.ts'
import { createPortalDeployment, printSignInToken } from '../support/portal-client.ts'
import { waitUntil } from '../support/wait-until.ts'

const adminToken = 'canary-operator-token'

t.test('people and their account in browsers', { skip: skipWithoutChromium }, async t => {
  const [node, mail] = [await startFakeNode({}), await startMailServer()]
  const deployment = createPortalDeployment(node.url, {
    gateway: {
      portal: {
        url: 'http://127.0.0.1',
        smtp: { url: '${SMTP_URL}', from: 'Tollgate <no-reply@example.org>' },
        signUp: { plan: 'core', perDay: 1, approval: true },
      },
      admin: { token: '${ADMIN_TOKEN}' },
    },
    env: { SMTP_URL: mail.url, ADMIN_TOKEN: adminToken },
  })
  const browser = await openBrowser()
  t.teardown(async () => {
    await browser.close()
    await deployment.remove()
    await Promise.all([node.stop(), mail.stop()])
  })
  await deployment.addAccount('alice')
  const { portal, admin } = await deployment.start()
  const problems: string[] = []
  const openWindow = async (): Promise<Page> => {
    const page = await (await browser.newContext({ viewport: { width: 1_280, height: 800 } })).newPage()
    page.on('pageerror', error => problems.push(error.message))
    return page
  }
  const opened = new Map<string, number>()
  /** Of the next mail to the address. */
  const openMailedLink = async (page: Page, path: string, to: string): Promise<void> => {
    const seen = opened.get(to) ?? 0
    const mailed = () => mail.received.filter(each => each.to === to)[seen]?.message.replaceAll('=\r\n', '')
    await waitUntil(() => mailed() !== undefined)
    opened.set(to, seen + 1)
    await page.goto(`${portal}${path}#${/#([\w-]+)/.exec(mailed() ?? '')?.[1]}`)
  }
  /** In both themes, in wide and in narrow windows. */
  const checkLook = async (page: Page): Promise<void> => {
    t.same(await findAccessibilityViolations(page), [], 'light')
    await page.emulateMedia({ colorScheme: 'dark' })
    t.same(await findAccessibilityViolations(page, ['color-contrast']), [], 'dark')
    await page.emulateMedia({ colorScheme: 'light' })
    await page.setViewportSize({ width: 360, height: 800 })
    t.equal(await page.evaluate('document.documentElement.scrollWidth'), 360)
    t.same(await findAccessibilityViolations(page), [], 'narrow')
    await page.setViewportSize({ width: 1_280, height: 800 })
  }
  const [owner, guest] = [await openWindow(), await openWindow()]
  await owner.goto(`${portal}/sign-in#${await printSignInToken(deployment, 'alice')}`)
  await owner.waitForSelector('[data-testid=credits-left]')

  t.test('the first owner enters an address on the page Profile, and confirms it on a page that says what for', async t => {
    await openPage(owner, 'Profile')
    await owner.fill('form[aria-label=You] [name=email]', 'alice')
    await owner.click('form[aria-label=You] button:has-text("Save")')
    await owner.waitForSelector('.error:text-is("Must be an e-mail address.")')
    await owner.fill('form[aria-label=You] [name=email]', 'alice@example.org')
    await owner.click('form[aria-label=You] button:has-text("Save")')
    await owner.waitForSelector('form[aria-label=You] [role=status]:has-text("alice@example.org")')
    await owner.waitForSelector('form[aria-label=You] >> text=/alice@example.org not confirmed/')
    const elsewhere = await openWindow()
    await openMailedLink(elsewhere, '/confirm-email', 'alice@example.org')
    await elsewhere.waitForSelector(
      'form:has-text("owner has entered the address alice@example.org for owner, owner of the account alice.")',
    )
    await checkLook(elsewhere)
    await elsewhere.click('button:has-text("Confirm")')
    await elsewhere.waitForSelector('[role=status]:has-text("alice@example.org")')
    await elsewhere.close()
    await openPage(owner, 'Access')
    await openPage(owner, 'Profile')
    await owner.waitForSelector('form[aria-label=You] >> text=/not confirmed/', { state: 'detached' })
    await checkLook(owner)
    t.ok(await owner.isVisible('form[aria-label=You] >> text="alice@example.org"'))
  })

  t.test('the page Alerts warns while no alert can be delivered, and sends a test e-mail once one can', async t => {
    await openPage(owner, 'Alerts')
    await owner.waitForSelector('.banner.warn:has-text("Tick e-mail below and save, or set a webhook.")')
    await checkLook(owner)
    await owner.check('[name=email]')
    await owner.click('text="Save"')
    await owner.waitForSelector('.banner', { state: 'detached' })
    await owner.click('text="Send a test e-mail"')
    await owner.waitForSelector('[data-testid=email-test]:text-is("The test message was delivered: accepted by the mail server")')
    t.match(mail.received.at(-1), { to: 'alice@example.org', message: /Subject: Tollgate: this is a test message for the account alice\./ })
    await owner.uncheck('[name=email]')
    await owner.click('text="Save"')
    await owner.waitForSelector('.banner.warn')
    t.equal(await owner.locator('text="Send a test e-mail"').count(), 0)
  })

  t.test('somebody who is invited joins the account, changes their name, and sees where they are signed in', async t => {
    await openPage(owner, 'Access')
    await owner.fill('form[aria-label="Add a person"] [name=name]', 'gina')
    await owner.fill('form[aria-label="Add a person"] [name=email]', 'gina@example.org')
    await owner.selectOption('form[aria-label="Add a person"] select', 'viewer')
    await owner.click('button:has-text("Add a person")')
    await openMailedLink(guest, '/sign-in', 'gina@example.org')
    await guest.waitForSelector('section:has-text("owner (alice@example.org) invites you to the account alice as viewer.")')
    await checkLook(guest)
    await guest.click('button:has-text("Join alice")')
    await guest.waitForSelector('[data-testid=credits-left]')
    await openPage(guest, 'Profile')
    await guest.waitForSelector('td:has-text("Chrome on")')
    await guest.fill('form[aria-label=You] [name=name]', 'owner')
    await guest.click('form[aria-label=You] button:has-text("Save")')
    await guest.waitForSelector('.error:has-text("The account has a person named owner.")')
    await guest.fill('form[aria-label=You] [name=name]', 'ginevra')
    await guest.click('form[aria-label=You] button:has-text("Save")')
    await guest.waitForSelector('text="Saved."')
    await guest.waitForSelector('.owner small:has-text("ginevra · viewer")')
    await checkLook(guest)
    await openPage(guest, 'Settings')
    await guest.waitForSelector('text="Only owners can rename or delete the account and see the log of changes."')
    t.equal(await guest.locator('h2:has-text("Log of changes"), button:has-text("Delete this account")').count(), 0)
  })

  t.test('an owner gives somebody another role, and has a sign-in link made for them', async t => {
    await owner.reload()
    await chooseAction(owner, 'ginevra', 'Change')
    await owner.selectOption('dialog select', 'owner')
    t.same(await findAccessibilityViolations(owner), [])
    await owner.click('dialog button:has-text("Save")')
    await owner.waitForSelector('tr:has-text("ginevra") td:text-is("owner")')
    await guest.reload()
    await guest.waitForSelector('h2:has-text("Log of changes")')
    await guest.waitForSelector('tr:has-text("Person changed"):has-text("role: viewer → owner")')
    await chooseAction(owner, 'ginevra', 'Create a sign-in link')
    await owner.click('dialog button[type=submit]')
    await owner.waitForSelector('dialog >> text=/on its way to gina@example.org/')
    await owner.keyboard.press('Escape')
    await owner.waitForSelector('dialog', { state: 'detached' })
    const phone = await openWindow()
    await openMailedLink(phone, '/sign-in', 'gina@example.org')
    await phone.waitForSelector('[data-testid=credits-left]')
    await openPage(guest, 'Profile')
    await guest.waitForSelector('tr:has-text("here"):has-text("127.0.0.1")')
    await guest.click('button[aria-label^="Sign out Chrome"]')
    await guest.waitForSelector('button[aria-label^="Sign out Chrome"]', { state: 'detached' })
    await phone.reload()
    await phone.waitForSelector('h1:has-text("Sign in")')
  })

  t.test('an owner renames the account, and all pages have its new name', async t => {
    await openPage(owner, 'Settings')
    const rename = async (name: string): Promise<void> => {
      await owner.click('button:has-text("Rename the account")')
      await owner.fill('dialog [name=name]', name)
      await owner.click('dialog button[type=submit]')
    }
    await rename('two words')
    await owner.waitForSelector('dialog .error')
    t.same(await findAccessibilityViolations(owner), [])
    await owner.keyboard.press('Escape')
    await rename('wonderland')
    await owner.waitForSelector('.toast:has-text("The account has its new name")')
    await owner.waitForSelector('.facts:has-text("wonderland")')
    await guest.waitForSelector('aside :text-is("wonderland"), nav :text-is("wonderland"), :text-is("wonderland")')
    await rename('alice')
    await owner.waitForSelector('.facts:has-text("alice")')
  })

  t.test('an owner deletes the account, all see that on each page, and another owner undoes it', async t => {
    await openPage(owner, 'Settings')
    await owner.click('button:has-text("Delete this account")')
    await owner.fill('dialog [name=name]', 'alise')
    t.same(await findAccessibilityViolations(owner), [])
    await owner.click('dialog button[type=submit]')
    t.match(await owner.getAttribute('dialog button[type=submit]', 'class'), /danger/)
    await owner.waitForSelector('dialog .error:has-text("Must be the name of your account.")')
    await owner.fill('dialog [name=name]', 'alice')
    await owner.click('dialog button[type=submit]')
    await owner.waitForSelector('.banner:has-text("This account was deleted. All calls are refused (HTTP 401, code -32090).")')
    await guest.waitForSelector('.banner:has-text("This account was deleted")')
    await openPage(guest, 'Keys')
    await guest.click('.banner a:has-text("Undo")')
    await guest.waitForSelector('form[aria-label="Keep this account"]')
    await checkLook(guest)
    await guest.click('button:has-text("Keep this account")')
    await guest.waitForSelector('.toast:has-text("The account is kept")')
    for (const page of [owner, guest]) await page.waitForSelector('.banner', { state: 'detached' })
  })

  t.test('an owner removes somebody, who is signed out; who leaves is signed out too', async t => {
    await openPage(guest, 'Profile')
    await guest.click('button:has-text("Leave this account")')
    await guest.click('dialog button:has-text("Cancel")')
    await openPage(owner, 'Access')
    await owner.fill('form[aria-label="Add a person"] [name=name]', 'hal')
    await owner.click('button:has-text("Add a person")')
    const link = (await owner.textContent('form[aria-label="Add a person"] [role=status] code')) ?? ''
    const hal = await openWindow()
    await hal.goto(`${portal}/sign-in${new URL(link).hash}`)
    await hal.waitForSelector('[data-testid=credits-left]')
    await chooseAction(owner, 'hal', 'Remove')
    await confirmQuestion(owner)
    await hal.waitForSelector('h1:has-text("Sign in")')
    await guest.click('button:has-text("Leave this account")')
    await confirmQuestion(guest)
    await guest.waitForSelector('h1:has-text("Sign in")')
    await owner.reload()
    await owner.waitForSelector('td:has-text("owner")')
    t.equal(await owner.locator('td:has-text("ginevra")').count(), 0)
  })

  t.test('whoever is signed in is asked before a link signs in somebody else', async () => {
    const link = `${portal}/sign-in#${await printSignInToken(deployment, 'alice', '--person', 'ned', '--role', 'viewer')}`
    await owner.goto(link)
    await owner.waitForSelector(
      '[role=status]:has-text("You are signed in as \\"owner\\" of the account \\"alice\\"; this link signs in \\"ned\\" of the account \\"alice\\".")',
    )
    await checkLook(owner)
    await owner.click('button:has-text("Stay signed in")')
    await owner.waitForSelector('.owner small:text-is("owner")')
    await owner.goto(link)
    await owner.click('button:has-text("Sign in with the link")')
    await owner.waitForSelector('.owner small:has-text("ned · viewer")')
  })

  const signUp = async (name: string): Promise<Page> => {
    const page = await openWindow()
    await page.goto(`${portal}/`)
    await page.fill('[name=email]', `${name}@example.org`)
    await page.click('button:has-text("Send a sign-in link")')
    await page.waitForSelector('h1:text-is("Check your mail")')
    t.match(
      await page.textContent('[role=status]'),
      `If ${name}@example.org has an account or an invitation, or may create an account here, a sign-in link`,
    )
    t.equal(await page.evaluate('document.activeElement.textContent'), 'Check your mail')
    t.ok(await page.isVisible('li:text-is("If you are new here, the link creates your account.")'))
    await openMailedLink(page, '/sign-in', `${name}@example.org`)
    return page
  }

  t.test('whoever signs up is told that the operator approves new accounts, who does so on their page', async t => {
    const newcomer = await signUp('newcomer')
    await newcomer.waitForSelector(
      '.banner:has-text("The operator approves new accounts. Calls are refused until then (HTTP 401, code -32090).")',
    )
    await checkLook(newcomer)
    const operator = await openWindow()
    await operator.goto(`${admin}/operator/accounts?state=unapproved`)
    await operator.fill('[name=token]', adminToken)
    await operator.click('button:has-text("Sign in")')
    await operator.waitForSelector('tr:has-text("newcomer@example.org"):has-text("to be approved")')
    t.equal(await operator.locator('tbody tr').count(), 1, 'others are filtered out')
    await checkLook(operator)
    await operator.click('a:has-text("newcomer@example.org")')
    await operator.click('button:has-text("Approve the account")')
    await operator.waitForSelector('[data-testid=account-state]:has-text("active")')
    await newcomer.waitForSelector('.banner', { state: 'detached' })
    await newcomer.close()
    await operator.close()
  })

  t.test('a sign-in link is sent again after a minute', async t => {
    const page = await openWindow()
    await page.clock.install()
    await page.goto(`${portal}/`)
    await page.fill('[name=email]', 'waits@example.org')
    await page.click('button:has-text("Send a sign-in link")')
    await page.waitForSelector('button:disabled:text-matches("^Send again .[0-9]+ s.$")')
    await checkLook(page)
    await page.clock.fastForward(61_000)
    const sent = page.waitForRequest(request => request.method() === 'POST')
    await page.click('button:text-is("Send again")')
    t.same((await sent).postDataJSON(), { email: 'waits@example.org' })
    await page.waitForSelector('[role=status]:text-is("A new link was asked for.")')
    await page.waitForSelector('button:disabled:has-text("Send again")')
    await page.click('button:text-is("Use another address")')
    await page.waitForSelector('[name=email]')
    await page.close()
  })

  t.test('the page of a link says that no more accounts are made today', async t => {
    const late = await signUp('late')
    await late.waitForSelector('[role=alert]:has-text("No more accounts are made today; try again tomorrow.")')
    t.same(await findAccessibilityViolations(late), [])
    await late.close()
  })

  t.test('no page has thrown an error', t => {
    t.same(problems, [])
    t.end()
  })
})
