import { readFile } from 'node:fs/promises'
import { execFile, spawn } from 'node:child_process'
import { promisify } from 'node:util'
import t from '../support/tap.ts'
import type { Page, Request } from 'playwright-core'
import { openPortal } from '../../src/portal/index.ts'
import { NodeIncidents } from '../../src/portal/operator/node-incidents.ts'
import { codeSamples } from '../../src/portal/page/developer/code-samples.ts'
import { createSignInToken, signInUrl } from '../../src/portal/people/one-time-links.ts'
import { addPerson } from '../../src/portal/people/people.ts'
import { createMetricsRegistry } from '../../src/services/metrics.ts'
import { openStore } from '../../src/store/open-store.ts'
import { dayMs } from '../../src/util/dates.ts'
import { tempFolder } from '../store/temp-store.ts'
import { startAnvilChain } from '../support/anvil-chain.ts'
import { findAccessibilityViolations, openBrowser, skipWithoutChromium } from '../support/browser.ts'
import { TestClock, TestLog, testRequestLog } from '../support/fakes.ts'
import { fastestMs } from '../support/fastest-ms.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { networkFile } from '../support/deployment.ts'
import { createPortalDeployment, printSignInToken, signInToPortal } from '../support/portal-client.ts'
import { addValue, chooseAction, confirmQuestion, copiedCode, createKey, openKeyForm, openPage, showKey } from '../support/page-actions.ts'
import { startOidcProvider } from '../support/oidc-provider.ts'
import { call, post } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

const pageTitles = [
  'Overview',
  'Usage',
  'Errors',
  'Requests',
  'Keys',
  'Try it',
  'Networks',
  'Plan',
  'Alerts',
  'Access',
  'Settings',
  'Profile',
]

const runFile = promisify(execFile)

/** Where an element stands. */
const boxOf = async (page: Page, selector: string) => {
  const box = await page.locator(selector).boundingBox()
  if (box === null) throw new Error(`${selector} is not visible`)
  return box
}

/** Runs code that prints what it gets while blocks are mined; the first hash that it prints, or what it printed in 20 s. */
const firstHashOf = async (code: string, mine: () => Promise<unknown>): Promise<string> => {
  // Node has WebSocket by itself from 22 on.
  const child = spawn(process.execPath, ['--experimental-websocket', '--input-type=module', '--eval', code])
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', data => (output += String(data)))
  const found = () => /0x[0-9a-f]{64}/.exec(output)?.[0]
  const minedAt = performance.now()
  await waitUntil(async () => {
    await mine()
    return found() !== undefined || child.exitCode !== null || performance.now() - minedAt > 20_000
  })
  child.kill()
  return found() ?? output
}

const creditsUsed = async (page: Page): Promise<number> =>
  Number((await page.textContent('[data-testid=credits-used]'))?.replaceAll(',', '').match(/^\d+/)?.[0])

/** As keys are written. */
const anyKey = `tg_${'a'.repeat(38)}`

t.test('the page in a browser', { skip: skipWithoutChromium }, async t => {
  const node = await startFakeNode({
    eth_chainId: { result: '0x7a69' },
    eth_blockNumber: { result: '0x10' },
    eth_gasPrice: { result: '0x7' },
    eth_getBalance: { result: '0x10' },
  })
  const provider = await startOidcProvider()
  const billingUrl = 'https://billing.example.org/?account={account}'
  const deployment = createPortalDeployment(node.url, {
    networks: {
      devnet: networkFile('devnet', [node.url], {
        'rate-limit': { account: { rate: '900/s', creditRate: '90000/s' }, ip: { rate: '2000/s' } },
        verify: { methods: { eth_getCode: 'proof' }, costs: { proof: '2x' } },
      }),
    },
    gateway: {
      portal: {
        ...{ url: 'http://127.0.0.1', brand: { support: 'mailto:help@example.org' }, billingUrl },
        oidc: { ...provider.config, name: 'Example' },
      },
      plans: {
        core: { dailyCredits: 3_000_000 },
        growth: { dailyCredits: 200_000_000, forwarding: true, rate: '100/s', offered: true, price: '$49 a month' },
        custom: { dailyCredits: 1_000_000_000 },
        scale: { dailyCredits: 500_000_000, offered: true, url: 'https://shop.example.org/{account}' },
        steady: { dailyCredits: 1_000, rate: '25/s', burst: 1_500 },
      },
    },
    env: provider.env,
  })
  const browser = await openBrowser()
  t.teardown(async () => {
    await browser.close()
    await deployment.remove()
    await Promise.all([node.stop(), provider.stop()])
  })
  await deployment.addAccount('alice')
  const gateway = await deployment.start()
  const context = await browser.newContext({ viewport: { width: 1_200, height: 800 }, permissions: ['clipboard-read', 'clipboard-write'] })
  const page = await context.newPage()
  const problems: string[] = []
  const origins = new Set<string>()
  page.on('pageerror', error => problems.push(error.message))
  page.on('console', message => message.type() === 'error' && problems.push(message.text()))
  page.on('response', response => origins.add(new URL(response.url()).origin))

  t.test('a sign-in link opens the Overview, and its token leaves the address', async t => {
    await page.goto(`${gateway.portal}/sign-in#${await printSignInToken(deployment, 'alice')}`)
    await page.waitForSelector('[data-testid=credits-left]')
    t.equal(await page.textContent('[data-testid=account]'), 'alice')
    t.equal(new URL(page.url()).hash, '')
    t.same([...origins], [gateway.portal], 'nothing is loaded from elsewhere')
  })

  t.test('what the Overview shows at first is asked for by its HTML file, once, and before the code has run', async t => {
    const requests: string[] = []
    const record = (request: Request) => requests.push(new URL(request.url()).pathname)
    // The page before shows its credits before it has asked for the rest.
    await page.goto('about:blank')
    page.on('request', record)
    await page.goto(gateway.portal ?? '')
    await page.waitForSelector('[data-testid=credits-left]')
    page.off('request', record)
    const ofApi = requests.filter(path => path.startsWith('/api/')).map(path => path.slice('/api/v1/'.length))
    t.same(ofApi.slice(0, 4).sort(), ['account', 'networks', 'session', 'usage'])
    t.equal(ofApi[4], 'events')
  })

  t.test('a key is created once, shown once, opens the gateway, and costs what is shown; revoked, it is refused', async t => {
    await openPage(page, 'Keys')
    const form = await openKeyForm(page)
    await page.fill(`${form} [name=name]`, 'from the page')
    const focusedWithKey = page.evaluate(`new Promise(resolve => {
      const observer = new MutationObserver(() => {
        if (document.querySelector('[data-testid=new-key]') === null) return
        observer.disconnect()
        resolve(document.activeElement.ariaLabel)
      })
      observer.observe(document.body, { childList: true, subtree: true })
    })`)
    await page.dblclick(`${form} [type=submit]`)
    const key = (await page.textContent('[data-testid=new-key] code')) ?? ''
    t.match(key, /^tg_\w{38}$/)
    t.equal(await focusedWithKey, 'Copy: Your new key', 'the keyboard goes on at the key before it is painted')
    await page.waitForSelector('button[aria-label="Copy: Your new key"]:focus')
    await page.waitForSelector('[role=tabpanel] button:has-text("Copy with key")')
    t.match(await page.textContent('[role=tabpanel] .copy code'), `/v3/tg_…${key.slice(-4)}`)
    await showKey(page)
    t.match(await page.textContent('[role=tabpanel] .copy code'), `/v3/${key}`)
    await page.click('[role=tab]:text-is("curl")')
    t.match(await page.textContent('[role=tabpanel] pre'), `/v3/${key} \\\n  -H 'Content-Type: application/json'`)
    await page.waitForSelector('td:has-text("from the page")')
    t.equal(await page.locator('tbody tr').count(), 1, 'a double click creates one key')
    await openPage(page, 'Overview')
    const tookMs = await fastestMs(2_000, async () => {
      const usedBefore = await creditsUsed(page)
      await waitUntil(async () => (await call(gateway.http(key), 'eth_gasPrice')).result === '0x7')
      const calledMs = performance.now()
      await waitUntil(async () => (await creditsUsed(page)) >= usedBefore + 80)
      return performance.now() - calledMs
    })
    t.ok(tookMs < 2_000, 'the credits go down within 2 s, without a reload')
    await openPage(page, 'Keys')
    await page.waitForSelector('[data-testid=new-key] .banner.warn:has-text("Save the key now.")')
    await page.click('button:has-text("I have saved it")')
    t.notMatch(await page.textContent('main'), key)
    await chooseAction(page, 'from the page', 'Suspend')
    await page.waitForSelector('td .badge:text-is("suspended")')
    await waitUntil(async () => (await call(gateway.http(key), 'eth_gasPrice')).error?.code === -32090)
    await chooseAction(page, 'from the page', 'Resume')
    await page.waitForSelector('td .badge:text-is("active")')
    await chooseAction(page, 'from the page', 'Revoke')
    await page.waitForSelector(`dialog h2:text-is("Revoke the key from the page …${key.slice(-4)}")`)
    t.match(
      await page.textContent('dialog p'),
      /^[0-9]+ calls? since [A-Z][a-z]{2} [0-9]+, [0-9]{2}:00 UTC\. Calls with this key will be refused/,
    )
    t.same(await findAccessibilityViolations(page), [])
    await confirmQuestion(page)
    await page.click('text="Show revoked and expired keys (1)"')
    await page.waitForSelector('td .badge:text-is("revoked")')
    await waitUntil(async () => (await call(gateway.http(key), 'eth_gasPrice')).error?.code === -32090)
    await createKey(page, 'never saved')
    await chooseAction(page, 'never saved', 'Revoke')
    await confirmQuestion(page)
    // Nobody is to save a key that is refused.
    await page.waitForSelector('[data-testid=new-key]', { state: 'detached' })
  })

  t.test('a form says which field is wrong and why', async t => {
    const form = await openKeyForm(page)
    await page.fill(`${form} [name=name]`, 'k')
    await addValue(page, form, 'networks', 'devnt')
    await page.click(`${form} [type=submit]`)
    await page.waitForSelector(`${form} .multi-select:has([name=networks]) [aria-invalid=true]`)
    t.match(await page.textContent('.error'), /did you mean/i)
    t.match(await page.textContent('.error'), '“devnt”')
    t.equal(await page.textContent('.error code'), 'devnet')
    await page.click('button[aria-label="Remove devnt"]')
    await addValue(page, form, 'networks', 'devnet')
    await page.click(`${form} summary`)
    await addValue(page, form, 'ips', '10.0.0.300')
    await page.click(`${form} summary`)
    await page.click(`${form} [type=submit]`)
    await page.waitForSelector(`${form} .multi-select:has([name=ips]) [aria-invalid=true]:visible`)
    await page.keyboard.press('Escape')
  })

  t.test('a key is changed in a form that has what it may do, and the keyboard goes on at its row', async t => {
    await page.reload()
    const names = ['eth_chainId', 'eth_gasPrice']
    const body = JSON.stringify({ name: 'to change', methods: names, rate: '5/s', burst: 9, dailyCredits: 1_000 })
    const create = `fetch('/api/v1/keys', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '${body}' })`
    const { id } = (await page.evaluate(`${create}.then(response => response.json())`)) as { id: string }
    await page.reload()
    const button = page.locator('button[aria-label="Change to change"]')
    await button.press('Enter')
    const form = 'form[aria-label="Change: to change"]'
    t.equal(await page.inputValue(`${form} [name=methods]`), names.join(', '))
    t.equal(await page.evaluate('document.activeElement.name'), 'name')
    t.same(await findAccessibilityViolations(page), [])
    await addValue(page, form, 'origins', 'dapp.example')
    await page.click(`${form} [type=submit]`)
    await page.waitForSelector(`${form} .multi-select:has([name=origins]) [aria-invalid=true]`)
    await page.click('button[aria-label="Remove dapp.example"]')
    await addValue(page, form, 'origins', 'https://dapp.example')
    await page.fill(`${form} [name=dailyCredits]`, '')
    await page.fill(`${form} [name=burst]`, '')
    const sent = page.waitForRequest(request => request.method() === 'PATCH')
    await page.click(`${form} [type=submit]`)
    t.same((await sent).postDataJSON(), { origins: ['https://dapp.example'], dailyCredits: 0, rate: '5/s' })
    await page.waitForSelector('tr:has-text("to change") dd span:has-text("https://dapp.example")')
    t.equal(await page.locator(form).count(), 0)
    t.equal(await page.evaluate('document.activeElement.ariaLabel'), 'Change to change')
    await page.evaluate(`fetch('/api/v1/keys/${id}/revoke', { method: 'POST' })`)
    await page.reload()
  })

  t.test('a first call is shown for no key that would refuse it, and what a key accepts where it is chosen', async t => {
    for (const [name, value] of [
      ['methods', 'eth_chainId'],
      ['origins', 'https://dapp.example'],
    ] as const) {
      const form = await openKeyForm(page)
      await page.fill(`${form} [name=name]`, name)
      await page.click(`${form} summary`)
      await addValue(page, form, name, value)
      await page.click(`${form} [type=submit]`)
      await page.waitForSelector('[role=status] .urls')
      t.equal(await page.locator('[role=tab]').count(), 0, name)
      await showKey(page)
      await page.waitForSelector('.urls code:text-matches("/ws/v3/tg_[0-9A-Za-z]{38}$")')
      await openPage(page, 'Try it')
      await page.waitForSelector(`form .help:text-is("Accepts only ${name} ${value}")`)
      await openPage(page, 'Keys')
      await page.reload()
    }
  })

  t.test('the code of the page runs as it is shown', async t => {
    await openPage(page, 'Keys')
    await createKey(page, 'of code')
    const codeIn = async (language: string): Promise<string> => {
      await page.click(`[role=tab]:text-is("${language}")`)
      t.notMatch(await page.textContent('[role=tabpanel] pre'), /tg_\w/, 'the key is shown to nobody who did not ask for it')
      return copiedCode(page)
    }
    const curl = await runFile('sh', ['-c', await codeIn('curl')])
    t.match(JSON.parse(curl.stdout), { id: 1, result: '0x10' })
    const run = async (code: string): Promise<string> => (await runFile(process.execPath, ['--input-type=module', '--eval', code])).stdout
    const viem = await codeIn('viem')
    t.match(viem, "import { foundry } from 'viem/chains'\n\nconst client = createPublicClient({\n  chain: foundry,\n")
    t.equal(await run(viem), '0x10\n')
    t.equal(await run(await codeIn('ethers')), '0x10\n')
    const url = /'(http.*)'/.exec(viem)?.[1] ?? ''
    for (const { language, code } of codeSamples({ url, chainId: 31_338, method: 'eth_blockNumber', params: [] }))
      if (['viem', 'ethers'].includes(language)) t.equal(await run(code), '0x10\n', `${language}, on a chain that viem does not name`)
    await page.click('button:has-text("I have saved it")')
  })

  t.test('Try it shows the cost before the call, the answer, and the call in code', async t => {
    const key = await createKey(page, 'k')
    await waitUntil(async () => (await call(gateway.http(key), 'eth_chainId')).error === undefined)
    await openPage(page, 'Try it')
    await page.selectOption('select >> nth=1', 'eth_gasPrice')
    t.equal(await page.textContent('[data-testid=cost]'), '80')
    await page.click('button[type=submit]')
    t.match(await page.textContent('[data-testid=response]'), /"result": "0x7"/)
    const masked = `/v3/tg_…${key.slice(-4)}`
    const code = (await page.textContent('[role=tabpanel]')) ?? ''
    t.match(code, /curl -s [^]*eth_gasPrice/)
    t.match(code, masked, 'the code has the chosen key, masked')
    t.match(await copiedCode(page), `/v3/${key}`, 'copied, it runs')
    await showKey(page)
    t.match(await page.textContent('[role=tabpanel]'), `/v3/${key}`)
    await page.click('button:text-is("Hide the key")')
    await page.waitForSelector(`[role=tabpanel]:has-text("${masked}")`)
    await page.selectOption('select:has(option:text-is("Another key"))', '')
    await page.waitForSelector('[role=tabpanel]:has-text("/v3/API_KEY")')
    t.equal(await page.locator('button:has-text("Show the key")').count(), 0)
    await page.fill('[name=key]', key)
    await page.waitForSelector(`[role=tabpanel]:has-text("${masked}")`)
    await showKey(page)
    await page.waitForSelector(`[role=tabpanel]:has-text("/v3/${key}")`)
    await page.fill('[name=key]', anyKey)
    await page.waitForSelector('[role=tabpanel]:has-text("/v3/tg_…aaaa")')
    await page.waitForSelector('button:text-is("Show the key")')
    await page.fill('[name=key]', key)
    t.match(await page.textContent('section[aria-label="About the method"]'), /^eth_gasPrice\(\)A gas price/)
  })

  t.test('Try it changes no digit of a number, in the call, the answer and the code', async t => {
    const digits = '12345678901234567890.50'
    await page.selectOption('select >> nth=1', 'eth_call')
    await page.check('label:has-text("JSON") input', { force: true })
    await page.fill('[name=param-0]', `{ "to": "0x${'11'.repeat(20)}", "value": ${digits}, "accessList": [] }`)
    const sent = page.waitForRequest(request => request.method() === 'POST' && request.url().includes('/v3/'))
    await page.route('**/v3/*', route => route.fulfill({ contentType: 'application/json', body: `{"id":1,"result":{"n":[${digits},{}]}}` }))
    await page.click('button[type=submit]')
    t.match((await sent).postData(), `"value":${digits},"accessList":[]}`)
    await page.waitForSelector(`[data-testid=response]:has-text("${digits}")`)
    t.equal(
      await page.textContent('[data-testid=response] pre'),
      `{\n  "id": 1,\n  "result": {\n    "n": [\n      ${digits},\n      {}\n    ]\n  }\n}`,
    )
    for (const language of ['curl', 'viem', 'ethers', 'web3.py', 'wagmi', 'Foundry']) {
      await page.click(`[role=tab]:text-is("${language}")`)
      t.match(await page.textContent('[role=tabpanel]'), digits, language)
    }
    await page.unroute('**/v3/*')
  })

  t.test('Try it has a field for each member, an example for each, and keeps the key, the fields and the calls of the tab', async t => {
    const code = () => page.textContent('section[aria-label="The same call in code"] [role=tabpanel] pre')
    await page.selectOption('select >> nth=1', 'eth_getLogs')
    await page.fill('[name="param-0.fromBlock"]', '0x1')
    await page.fill('[name="param-0.topics"]', '[null]')
    t.match(await code(), '"params":[{"fromBlock":"0x1","topics":[null]}]')
    await page.check('label:has-text("JSON") input', { force: true })
    t.equal(await page.inputValue('[name=param-0]'), '{"fromBlock":"0x1","topics":[null]}')
    await page.check('label:has-text("Fields") input', { force: true })
    t.equal(await page.inputValue('[name="param-0.fromBlock"]'), '0x1')
    await page.click('text="Fill in examples"')
    t.match(await code(), /"address":"0x[0-9a-fA-F]{40}","fromBlock":"0x1","toBlock":"latest","topics":\[null\]/)
    await page.selectOption('select >> nth=1', 'eth_getBalance')
    t.same(await findAccessibilityViolations(page), [])
    await page.click('text="Fill in examples"')
    await page.route('**/v3/*', route => route.fulfill({ contentType: 'application/json', body: `{"id":1,"result":"0x2386f26fc10000"}` }))
    await page.click('form [type=submit]')
    await page.waitForSelector('section[aria-label=Response] dd:text-is("0.01 ether")')
    await page.waitForSelector('section[aria-label=Response] .badge:text-matches("^[0-9]+ ms round trip$")')
    await page.unroute('**/v3/*')
    await openPage(page, 'Plan')
    await page.waitForSelector(
      'tr:has-text("eth_getCode"):has-text("proof"):has-text("160"):has-text("80 credits with Tollgate-Verify: none")',
    )
    await page.waitForSelector('tr:has-text("eth_getLogs"):has-text("check"):has-text("510 credits with Tollgate-Verify: proof")')
    const limits =
      '10,000 results at most: more are an error, never a cut answer. An error after 10 s. The gateway sets no limit on the block range.'
    await page.waitForSelector(`tr:has-text("eth_getLogs"):has-text("${limits}")`)
    t.same(await findAccessibilityViolations(page), [])
    await openPage(page, 'Try it')
    await page.waitForSelector('.field:has-text("API key") option:checked:text-matches("^k ….{4}$")', { state: 'attached' })
    t.equal(await page.locator('[name=key]').count(), 0, 'a key that the tab knows is chosen by name')
    await page.selectOption('select >> nth=1', 'eth_getLogs')
    t.equal(await page.inputValue('[name="param-0.fromBlock"]'), '0x1')
    await page.click('section[aria-label="Recent calls"] button:has-text("eth_getBalance")')
    t.match(await page.inputValue('[name=param-0]'), /^0x/)
    t.same(await findAccessibilityViolations(page), [])
  })

  t.test(
    'Try it subscribes over a WebSocket, says what that costs beside the button, and shows the blocks of a chain as they come',
    async t => {
      const chain = await startAnvilChain()
      const watched = createPortalDeployment(chain.url)
      const context = await browser.newContext({ viewport: { width: 1_200, height: 800 } })
      t.teardown(async () => {
        await context.close()
        await watched.remove()
        await chain.stop()
      })
      const { key } = await watched.addCaller('watcher')
      const { portal } = await watched.start()
      const page = await context.newPage()
      await page.goto(`${portal}/sign-in#${await printSignInToken(watched, 'watcher')}`)
      await openPage(page, 'Try it')
      await page.selectOption('select >> nth=1', 'eth_subscribe')
      await page.fill('[name=key]', key)
      await page.fill('[name=param-0]', 'newHeads')
      const [cost, button] = [await boxOf(page, '[data-testid=cost]'), await boxOf(page, 'button:has-text("Subscribe")')]
      t.match(await page.textContent('[data-testid=cost]'), /^\d+$/)
      t.ok(Math.abs(cost.y + cost.height / 2 - button.y - button.height / 2) < 8 && cost.x > button.x && cost.x - button.x < 300)
      await page.click('button:has-text("Subscribe")')
      await page.waitForSelector('section[aria-label=Events] .badge:text-is("live")')
      for (const count of [1, 2]) {
        await chain.request('anvil_mine', '0x1')
        const { hash } = await chain.request<{ readonly hash: string }>('eth_getBlockByNumber', 'latest', false)
        await page.waitForSelector(`section[aria-label=Events] li:nth-child(1):has-text("#${count}") pre:has-text("${hash}")`)
      }
      await page.waitForSelector('section[aria-label=Events] [role=status]:has-text("2 events")')
      t.same(await findAccessibilityViolations(page), [])
      await page.click('section[aria-label=Events] button:has-text("Stop")')
      t.equal(await page.locator('section[aria-label=Events]').count(), 0)
      await page.fill('[name=param-0]', '')
      await page.click('text="Fill in examples"')
      t.match(
        await page.textContent('[role=tabpanel] pre'),
        `echo '{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}'`,
      )
      await page.click('[role=tab]:text-is("web3.py")')
      t.match(await page.textContent('[role=tabpanel] pre'), 'flush=True')
      await showKey(page)
      await page.click('[role=tab]:text-is("viem")')
      t.match(await page.textContent('[role=tabpanel] pre'), new RegExp(`webSocket\\('ws:.*/ws/v3/${key}'\\)[^]*params: \\["newHeads"\\]`))
      for (const language of ['viem', 'JavaScript']) {
        await page.click(`[role=tab]:text-is("${language}")`)
        const code = (await page.textContent('[role=tabpanel] pre')) ?? ''
        t.match(await firstHashOf(code, () => chain.request('anvil_mine', '0x1')), /^0x[0-9a-f]{64}$/, `${language} shows blocks`)
      }
      await page.click('button:has-text("Subscribe")')
      await page.waitForSelector('section[aria-label=Events] .badge:text-is("live")')
      await page.click('section[aria-label=Events] button:has-text("Stop")')
      await page.fill('[name=param-0]', 'newTails')
      await page.click('button:has-text("Subscribe")')
      await page.waitForSelector('section[aria-label=Events] .badge:text-is("closed")')
      t.match(await page.textContent('section[aria-label=Events]'), /newTails/)
      t.equal(await page.locator('text="Waiting for the first event…"').count(), 0, 'none comes')
    },
  )

  t.test('each key shows its calls of a day, and usage is downloaded as CSV, in which no field is a formula', async t => {
    const createKey = `fetch('/api/v1/keys', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"name":"=1+1,x"}' })`
    const { id, key } = (await page.evaluate(`${createKey}.then(response => response.json())`)) as { id: string; key: string }
    await waitUntil(async () => (await call(gateway.http(key), 'eth_gasPrice')).error === undefined)
    const isCounted = `fetch('/api/v1/usage?by=key').then(response => response.text()).then(text => text.includes('${id}'))`
    await waitUntil(async () => (await page.evaluate(isCounted)) === true)
    await openPage(page, 'Keys')
    await page.waitForSelector(
      'tr:has-text("=1+1,x") svg[aria-label^="=1+1,x, 1 call since "][aria-label$=":00 UTC"] rect:last-child:not(.none)',
    )
    await page.waitForSelector('tr:has-text("=1+1,x"):has(.number:text-is("80")):has-text("no daily limit"):has-text("UTC")')
    await openPage(page, 'Usage')
    await page.waitForSelector('tfoot')
    await page.waitForSelector('p:text-is("Last 24 hours. The current hour is not over yet.")')
    const lines = `['tbody', 'tfoot'].map(part => getComputedStyle(document.querySelector(part + ' tr:last-child td')).borderBottomWidth)`
    t.same(await page.evaluate(lines), ['1px', '0px'], 'a line is between the rows and their sum')
    await page.selectOption('select >> nth=1', 'key')
    await page.waitForSelector('code:text-matches("^=1[+]1,x …[0-9A-Za-z]{4}$")')
    await page.click('button:has-text("Export")')
    const [download] = await Promise.all([page.waitForEvent('download'), page.click('[role=menuitem]:text-is("CSV")')])
    const csv = await readFile(await download.path(), 'utf8')
    t.match(csv, /^key,hint,id,calls,credits,forwarded,failed,p50Ms,p95Ms\r\n/)
    t.match(csv, /^"'=1\+1,x",\w{4},key_\w+,\d+,\d+,0,0,[\d.]+,[\d.]+\r$/m)
    await page.click('button:has-text("Export")')
    const [series] = await Promise.all([page.waitForEvent('download'), page.click('[role=menuitem]:text-is("CSV over time")')])
    const seriesCsv = await readFile(await series.path(), 'utf8')
    t.match(seriesCsv, /^time,key,hint,id,calls,failed,credits\r\n/)
    t.match(seriesCsv, /^20[-\d]+T\d\d:00:00.000Z,"'=1\+1,x",\w{4},key_\w+,\d+,0,\d+\r$/m)
  })

  t.test('keys of one project are shown together, those of none last', async t => {
    await openPage(page, 'Keys')
    const form = await openKeyForm(page)
    await page.fill(`${form} [name=name]`, 'of a project')
    await page.fill(`${form} [name=project]`, 'wallet')
    await page.click(`${form} [type=submit]`)
    await page.waitForSelector('section:has(h2:text-is("wallet")) td:has-text("of a project")')
    t.same(await page.$$eval('main h2', found => found.map(each => each.textContent)).then(titles => titles.slice(-2)), [
      'wallet',
      'No project',
    ])
    t.same(await findAccessibilityViolations(page), [])
    await page.click('button[aria-label="Change of a project"]')
    await page.fill('dialog [name=project]', '')
    await page.click('dialog [type=submit]')
    await page.waitForSelector('h2:text-is("wallet")', { state: 'detached' })
    await chooseAction(page, 'of a project', 'Revoke')
    await confirmQuestion(page)
    await page.waitForSelector('td:has-text("of a project")', { state: 'detached' })
  })

  t.test('the address has what a page shows: a reload keeps it, and the way back leads to what was shown before', async t => {
    await openPage(page, 'Usage')
    await page.selectOption('select >> nth=1', 'network')
    await page.selectOption('select >> nth=0', '7d')
    t.equal(new URL(page.url()).search, '?by=network&range=7d')
    await page.reload()
    await page.waitForSelector('th:text-is("Network")')
    t.equal(await page.inputValue('select >> nth=0'), '7d')
    await page.goBack()
    await waitUntil(async () => Boolean(await page.evaluate(`document.querySelector('select').value === '24h'`)))
    t.equal(new URL(page.url()).search, '?by=network')
    await openPage(page, 'Overview')
    t.equal(new URL(page.url()).search, '')
  })

  t.test('a failed call is found in Requests, explained, and tried again', async t => {
    const createKey = `fetch('/api/v1/keys', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"name":"tries"}' })`
    const { key } = (await page.evaluate(`${createKey}.then(response => response.json())`)) as { key: string }
    await waitUntil(async () => (await call(gateway.http(key), 'eth_gasPrice')).error === undefined)
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_getBalance', params: ['0x12', 'latest'] })
    const { headers } = await post(gateway.http(key), body)
    const countLogged = `fetch('/api/v1/requests?method=eth_getBalance').then(response => response.json()).then(({ requests }) => requests.length)`
    await waitUntil(async () => Number(await page.evaluate(countLogged)) > 0)
    await openPage(page, 'Requests')
    await page.click('label:has-text("Failed")')
    await page.waitForSelector('tr:has-text("Invalid params (-32602)"):has-text("tries"):has-text("devnet")')
    await page.waitForSelector('tr:has-text("eth_gasPrice")', { state: 'detached' })
    await page.selectOption('.field:has-text("Method") select', 'eth_getBalance')
    await page.selectOption('.field:has-text("Range") select', '1h')
    await page.waitForSelector(
      'p:text-matches("^1 of 1 calls are logged: failed and slow ones .1.00.s or more., and a sample of the rest. Kept 24 h.$")',
    )
    await call(gateway.http(key), '=1+1')
    await waitUntil(async () => Number(await page.evaluate(countLogged.replace('eth_getBalance', '%3D1%2B1'))) > 0)
    const requestsAsCsv = async (): Promise<string> => {
      await page.click('button:has-text("Export")')
      const [download] = await Promise.all([page.waitForEvent('download'), page.click('[role=menuitem]:text-is("CSV")')])
      return readFile(await download.path(), 'utf8')
    }
    const csv = await requestsAsCsv()
    t.match(
      csv,
      /^time,requestId,method,network,key,hint,keyId,outcome,code,message,durationMs,credits,transport,cache,attempts,upstream,params\r\n/,
    )
    t.match(
      csv,
      /^20[-\d]+T[\d:.]+Z,[^,]+,eth_getBalance,devnet,tries,\w{4},key_\w+,params,-32602,.*,http,,,,"\[""0x12"",""latest""\]"\r$/m,
    )
    t.equal(csv.split('\r\n').length, 3, 'what the filters include, and no more')
    await page.selectOption('.field:has-text("Method") select', '=1+1')
    await page.waitForSelector('tr:has-text("=1+1")')
    t.match(await requestsAsCsv(), /Z,[^,]+,'=1\+1,devnet,/, 'no field is a formula')
    await page.selectOption('.field:has-text("Method") select', 'eth_getBalance')
    await page.fill('[type=search]', 'AN ADDRESS')
    await page.waitForSelector('p:text-matches("^Calls are logged: ")')
    await page.waitForSelector('.pager >> text="1–1 of 1"')
    await page.fill('[type=search]', String(headers['x-request-id']))
    await waitUntil(async () => Boolean(await page.evaluate(`document.querySelectorAll('tbody tr').length === 1`)))
    t.match(new URL(page.url()).search, /outcome=failed.*method=eth_getBalance.*range=1h/)
    t.same(await findAccessibilityViolations(page), [])
    await page.click('tbody tr td:has-text("devnet") >> nth=0', { position: { x: 2, y: 2 } })
    t.match(await page.textContent('[data-testid=why]'), /Correct the parameter that the message names/)
    t.match(await page.textContent('[data-testid=message]'), /address/)
    t.match(await page.textContent('dialog'), String(headers['x-request-id']))
    await page.evaluate(
      'Promise.all(document.getAnimations().flatMap(({ timeline, finished }) => (timeline === document.timeline ? [finished] : [])))',
    )
    t.same(await findAccessibilityViolations(page), [])
    const { search } = new URL(page.url())
    await page.reload()
    t.match(await page.textContent('dialog h2'), 'eth_getBalance')
    t.equal(new URL(page.url()).search, search)
    await page.click('dialog summary:has-text("The request in code")')
    t.match(await page.textContent('dialog [role=tabpanel] pre'), /v3\/\S+ [^]*"method":"eth_getBalance","params":\["0x12","latest"\]/)
    t.same(await findAccessibilityViolations(page), [])
    await page.keyboard.press('Escape')
    await page.setViewportSize({ width: 360, height: 800 })
    const cells = page.locator('tbody tr td')
    t.equal(await cells.evaluateAll(all => all.filter(cell => cell.scrollWidth > cell.clientWidth).length), 0, 'no name is cut')
    const { height } = await boxOf(page, '.told')
    t.ok(height > 10 && height < 45, 'the message has up to two lines')
    await page.setViewportSize({ width: 1_200, height: 800 })
    await page.goBack()
    await page.click('text="Try again"')
    await page.waitForSelector('h1:has-text("Try it")')
    t.same([await page.inputValue('[name=param-0]'), await page.inputValue('[name=param-1]')], ['0x12', 'latest'])
    await page.waitForSelector(`form p:has-text("The request was made with tries …${key.slice(-4)}.")`)
    await page.fill('[name=key]', key.slice(0, -1))
    await page.fill('[name=param-0]', `0x${'12'.repeat(20)}`)
    await page.click('button[type=submit]')
    await page.waitForSelector('form [role=alert]:has-text("Enter a whole API key")')
    await page.fill('[name=key]', key)
    await page.click('button[type=submit]')
    await page.waitForSelector('[data-testid=response]:has-text("0x10")')
    // Of calls that succeed, a sample is logged, and those of Try it.
    for (let i = 0; i < 20; i += 1) await call(gateway.http(key), 'eth_gasPrice')
    await page.click('button[type=submit]')
    await page.waitForSelector('[data-testid=response]:has-text("0x10")')
    await page.click('text="Show in Requests"')
    await page.waitForSelector('tbody tr:has-text("Successful"):has-text("eth_getBalance"):has-text("tries")')
    t.equal(await page.locator('tbody tr').count(), 1)
    await page.fill('[type=search]', 'no-such-id')
    await page.waitForSelector(
      '.empty:has-text("A call is not in the list if it"):has-text("is older than 24 hours"):has-text("Calls from Try it or with the header"):has-text("was not a JSON-RPC call")',
    )
    t.same(await findAccessibilityViolations(page), [])
  })

  t.test('a key that was typed once is chosen by name, fills URLs and code, and is in nothing that outlives the tab', async t => {
    const { keys } = (await page.evaluate(
      `fetch('/api/v1/keys').then(response => response.json()).then(keys => ({ keys: keys.filter(({ name }) => name === 'tries') }))`,
    )) as { keys: readonly { readonly hint: string }[] }
    const name = `tries …${keys[0]?.hint}`
    await openPage(page, 'Networks')
    await page.waitForSelector(`.field:has-text("API key") option:checked:text-is("${name}")`, { state: 'attached' })
    t.match(
      await page.textContent('.urls code'),
      new RegExp(`/v3/tg_…${keys[0]?.hint}$`),
      'a secret is not shown where it is only to be copied',
    )
    await page.click('.urls button >> nth=0')
    await page.waitForSelector('.urls button:has-text("Copied")')
    const url = String(await page.evaluate('navigator.clipboard.readText()'))
    t.match(url, /\/v3\/tg_\w{38}$/)
    await page.evaluate('navigator.clipboard.writeText = () => Promise.reject()')
    await page.click('.urls button >> nth=1')
    await page.waitForSelector('.urls code:text-matches("/v3/tg_[0-9A-Za-z]{38}$")')
    await waitUntil(async () => /\/ws\/v3\/tg_\w{38}$/.test(String(await page.evaluate('String(getSelection())'))))
    await page.evaluate('delete navigator.clipboard.writeText')
    t.same(await findAccessibilityViolations(page), [])
    await page.selectOption('.field:has-text("API key") select', { label: 'Another key' })
    await page.waitForSelector('.urls code:text-matches("/v3/API_KEY$")')
    t.equal(await page.inputValue('[name=key]'), '')
    await page.fill('[name=key]', url.slice(url.lastIndexOf('/') + 1))
    await page.waitForSelector('.urls code:text-matches("/v3/tg_")')
    await page.route('**/api/v1/keys', async route => {
      const found = (await (await route.fetch()).json()) as readonly object[]
      await route.fulfill({ json: found.map(key => ({ ...key, networks: ['other'] })) })
    })
    await openPage(page, 'Overview')
    await page.waitForSelector('section[aria-label=Endpoints]:has-text("The chosen key is not enabled for this network.")')
    await page.unroute('**/api/v1/keys')
    await openPage(page, 'Requests')
    await page.click('tr:has-text("Invalid params"):has-text("tries") time >> nth=0')
    await page.click('dialog summary:has-text("The request in code")')
    t.match(await copiedCode(page, 'dialog'), url)
    await page.click('text="Try again"')
    await page.waitForSelector(`.field:has-text("API key") option:checked:text-is("${name}")`, { state: 'attached' })
    t.equal(await page.locator('[name=key]').count(), 0)
    t.same(await page.evaluate('[localStorage.length, sessionStorage.length, location.href.includes("tg_")]'), [0, 0, false])
    await openPage(page, 'Keys')
    await chooseAction(page, 'tries', 'Revoke')
    await confirmQuestion(page)
    await page.waitForSelector('td:has-text("tries")', { state: 'detached' })
    await openPage(page, 'Networks')
    await page.waitForSelector('[name=key]')
    t.equal(await page.inputValue('[name=key]'), '')
  })

  t.test(
    'the Overview has the URLs of a network, what failed today and why, which methods used credits, and the share that is used',
    async t => {
      await page.goto(`${gateway.portal}/`)
      await page.waitForSelector('section[aria-label=Endpoints] code:text-matches("/v3/API_KEY$")')
      await page.waitForSelector('.failures li:has-text("Invalid params") .said:text-matches("[a-z]{3}")')
      t.match(await page.getAttribute('.failures .heading a', 'href'), /^\/errors\?from=[0-9-]+T00%3A00%3A00\.000Z&to=/, 'of the same time')
      const ofMethods = page.locator('section[aria-label="Credits today, by method"]')
      await ofMethods.locator('li:has-text("eth_gasPrice") .number:text-matches("^[1-9]")').waitFor()
      t.match(await ofMethods.locator('.help').textContent(), /^Latency of successful calls: p50 [0-9.]+.ms · p95 [0-9.]+.ms$/)
      t.match(await page.textContent('.credits .spread'), /^[0-9,]+ of 3,000,000[0-9.]+\u00a0% used$/)
      t.same(await findAccessibilityViolations(page), [])
    },
  )

  t.test('an export has the filters on all its pages that were chosen when it began', async t => {
    await page.goto(`${gateway.portal}/requests?method=eth_getBalance`)
    const asked: URLSearchParams[] = []
    await page.route('**/api/v1/requests?*limit=1000*', async route => {
      asked.push(new URL(route.request().url()).searchParams)
      const json = await (await route.fetch()).json()
      if (asked.length === 1) {
        await page.selectOption('.field:has-text("Method") select', '')
        await page.waitForURL(url => !url.searchParams.has('method'))
      }
      await route.fulfill({ json: { ...json, next: asked.length === 1 ? json.requests[0].id : null } })
    })
    await page.click('button:has-text("Export")')
    await Promise.all([page.waitForEvent('download'), page.click('[role=menuitem]:text-is("CSV")')])
    t.same(
      asked.map(each => [each.get('method'), each.has('after')]),
      [
        ['eth_getBalance', false],
        ['eth_getBalance', true],
      ],
    )
    await page.unrouteAll({ behavior: 'wait' })
  })

  t.test('owners say what is logged of requests', async t => {
    await openPage(page, 'Requests')
    await page.click('text="What is logged"')
    await page.waitForSelector(
      'dialog:has-text("Calls are logged: failed and slow ones (1.00 s or more), and a sample of the rest. Kept 24 h."):has-text("At most about the last 10,000 requests are kept."):has-text("“Tollgate-Log: always”")',
    )
    const changes: string[] = []
    const record = (request: Request) => request.method() === 'PATCH' && changes.push(String(request.postData()))
    page.on('request', record)
    await page.click('dialog >> text="Save"')
    await page.waitForSelector('dialog', { state: 'detached' })
    t.same(changes, [], 'what is saved as it was deletes nothing')
    page.off('request', record)
    await page.click('text="What is logged"')
    t.equal(await page.locator('dialog .banner').count(), 0)
    await page.click('label:has-text("Nothing")')
    await page.waitForSelector(
      'dialog .banner.warn:has(strong:text-matches("^Deletes all logged requests: [1-9][0-9]*.$")):has-text("This cannot be undone.")',
    )
    await page.click('dialog button.danger:text-is("Save and delete")')
    await page.waitForSelector('h2:has-text("turned off for this account")')
    await page.click('text="What is logged"')
    await page.waitForSelector('dialog:has-text("At most about the last 10,000 requests are kept.")')
    t.notMatch(await page.textContent('dialog'), /are logged/, 'nothing is logged')
    await page.click('label:has-text("Requests with their parameters")')
    await page.click('dialog button:text-is("Save")')
    await page.waitForSelector('h2:has-text("turned off for this account")', { state: 'detached' })
    t.equal(await page.locator('dialog').count(), 0)
  })

  t.test('a click on a row, the legend or a column filters everything; filters combine, and a reload keeps them', async t => {
    await openPage(page, 'Usage')
    await page.click('tbody button:has-text("eth_getBalance")')
    await page.selectOption('select >> nth=1', 'outcome')
    await page.waitForSelector('tbody button:text-is("Invalid params")')
    await page.click('[aria-label="Show only Invalid params"]')
    await page.waitForSelector('[data-testid=calls]:text-is("1")')
    t.equal(new URL(page.url()).search, '?method=eth_getBalance&by=outcome&outcome=params')
    await page.reload()
    await page.waitForSelector('[data-testid=calls]:text-is("1")')
    // What is chosen in a list has no chip.
    t.same(await page.locator('.filters .chip').allTextContents(), ['Outcome: Invalid params'])
    t.equal(await page.inputValue('.field:has-text("Method") select >> nth=-1'), 'eth_getBalance')
    t.same(await findAccessibilityViolations(page), [])
    const { width } = await boxOf(page, '.u-over')
    await page.click('.u-over', { position: { x: width - 2, y: 20 } })
    await page.waitForSelector('label:has-text("From (UTC)")')
    const { searchParams } = new URL(page.url())
    t.equal(Date.parse(searchParams.get('to') ?? '') - Date.parse(searchParams.get('from') ?? ''), 3_600_000)
    await page.waitForSelector('[data-testid=calls]:text-is("1")')
    await page.click('[aria-label="Remove Outcome: Invalid params"]')
    await page.waitForSelector('[data-testid=calls]:text-is("3")')
    await page.waitForSelector('.filters', { state: 'detached' })
    await page.selectOption('.controls.pairs .field:has-text("Method") select', '')
    await page.waitForSelector('[data-testid=calls]:not(:text-is("3"))')
    t.equal(new URL(page.url()).searchParams.has('method'), false)
    await page.selectOption('.field:has-text("Network") select >> nth=-1', 'devnet')
    await page.selectOption('.controls.pairs .field:has-text("Method") select', 'eth_getBalance')
    await page.waitForSelector('[data-testid=calls]:text-is("3")')
    t.match(page.url(), /&network=devnet\b/)
    t.match(page.url(), /&method=eth_getBalance\b/)
    await page.goto(`${page.url()}&outcome=spent`)
    await page.waitForSelector('h2:text-is("No calls match these filters in this range")')
    await page.click('.empty button:text-is("Clear all filters")')
    await page.waitForSelector('[data-testid=calls]')
    t.notMatch(page.url(), /network=|method=|outcome=spent/)
  })

  t.test('Errors counts the failed calls by method and by message, says of how many, and leads to the requests of each', async t => {
    const createKey = `fetch('/api/v1/keys', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"name":"fails"}' })`
    const { id, key } = (await page.evaluate(`${createKey}.then(response => response.json())`)) as { id: string; key: string }
    await waitUntil(async () => (await call(gateway.http(key), 'eth_gasPrice')).error === undefined)
    const addresses = ['0x1', '0x2', '0x3', '0x4']
    for (const address of [...addresses, '0x4']) await call(gateway.http(key), 'eth_getBalance', [address, 'latest'])
    await call(gateway.http(key), 'eth_getCode', ['0x1', 'latest'])
    const countOf = (path: string) => `fetch('/api/v1/${path}').then(response => response.json())`
    const logged = `${countOf(`errors?key=${id}&outcome=params`)}.then(({ errors: [found] }) => found?.loggedRequests === 6 && found.calls === 6)`
    await waitUntil(async () => Boolean(await page.evaluate(logged)))
    await page.goto(`${gateway.portal}/errors?key=${id}&outcome=params`)
    await page.waitForSelector('.counts li:nth-child(1):text-matches("eth_getBalance 5")')
    await page.waitForSelector('.counts li:nth-child(2):text-matches("eth_getCode 1")')
    await page.waitForSelector(
      '.message:nth-child(1):has-text("0x4"):has-text("2 of 6 logged requests · eth_getBalance on devnet · fails …")',
    )
    await page.waitForSelector('p:text-is("6 failed of 7 calls (85.71 %).")')
    t.equal(await page.locator('.message').count(), 3)
    t.same(await findAccessibilityViolations(page), [])
    await page.click('button:text-is("Show all 5")')
    await page.waitForSelector('dialog p:has-text("5 messages, by method · 6 logged requests of 6 calls.")')
    t.equal(await page.locator('dialog tbody tr').count(), 5)
    t.same(await findAccessibilityViolations(page), [])
    await page.click('dialog tr:has-text("eth_getCode") a')
    await page.waitForSelector('h1:text-is("Requests")')
    await page.waitForSelector('.pager >> text="1–1 of 1"')
    await page.waitForSelector('tbody tr:has-text("eth_getCode")')
    await page.goBack()
    await page.waitForSelector('dialog tbody')
    await page.keyboard.press('Escape')
    await page.click('td:has-text("Invalid params") + td a:text-is("6")')
    await page.waitForSelector('p:text-matches("^6 of 6 calls are logged: ")')
    const addOther = `fetch('/api/v1/keys', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"name":"other"}' })`
    const other = (await page.evaluate(`${addOther}.then(response => response.json())`)) as { id: string; key: string }
    await waitUntil(async () => (await call(gateway.http(other.key), 'eth_gasPrice')).error === undefined)
    for (const address of ['0x4', '0x4', '0x4']) await call(gateway.http(other.key), 'eth_getBalance', [address, 'latest'])
    const ofOther = `${countOf(`errors?key=${other.id}`)}.then(({ errors: [found] }) => found?.loggedRequests === 3)`
    await waitUntil(async () => Boolean(await page.evaluate(ofOther)))
    await page.goto(`${gateway.portal}/errors?outcome=params&method=eth_getBalance`)
    // One message, whoever was told it.
    await page.waitForSelector(
      '.message:has-text("0x4") p:text-matches("5 of [0-9]+ logged requests · eth_getBalance on devnet · other ….{4} 3, fails ….{4} 2 · ")',
    )
    await page.selectOption('.field:has-text("Key") select', other.id)
    await page.waitForSelector('.message:has-text("0x4"):has-text("3 of 3 logged requests · eth_getBalance on devnet · other …")')
    t.match(page.url(), new RegExp(`key=${other.id}`))
    t.equal(await page.locator('.filters .chip').count(), 1, 'what is chosen in a list has no chip')
    await page.selectOption('.field:has-text("Network") select', 'devnet')
    await page.waitForSelector('p:text-is("3 failed of 3 calls (100 %).")')
    t.match(page.url(), /network=devnet/)
    await page.click('.message a')
    await page.waitForSelector('.pager >> text="1–3 of 3"')
    t.match(page.url(), /network=devnet/)
    await call(gateway.http(key), 'eth_getBlance')
    const unknown = `${countOf(`errors?key=${id}&outcome=method`)}.then(({ errors: [found] }) => found?.loggedRequests === 1)`
    await waitUntil(async () => Boolean(await page.evaluate(unknown)))
    await page.goto(`${gateway.portal}/requests?key=${id}&outcome=method`)
    await page.click('tbody tr td:has-text("devnet") >> nth=0', { position: { x: 2, y: 2 } })
    await page.waitForSelector('dialog p:text-matches("^Not logged: the network has no method of this name")')
    t.equal(await page.getAttribute('[data-testid=why] a:text-is("Plan")', 'href'), '/plan')
    t.match(await page.getAttribute('dialog a:has-text("Try eth_getBalance")', 'href'), /method=eth_getBalance/)
    await page.click('dialog a:text-is("Calls of unknown methods")')
    await page.waitForSelector('tbody button:has-text("unknown methods")')
    await page.goto(`${gateway.portal}/errors?key=${id}&outcome=method`)
    await page.click('tbody a:text-is("Plan")')
    await page.waitForSelector('h1:text-is("Plan")')
    await page.goto(`${gateway.portal}/usage`)
  })

  t.test('in a narrow window a week is drawn by days, and latencies are those of the gateway', async t => {
    const columns = async () => Number(await page.getAttribute('[role=slider]', 'aria-valuemax')) + 1
    await page.goto(`${gateway.portal}/usage?range=7d`)
    await page.waitForSelector('[role=slider]')
    t.equal(await columns(), 168)
    await page.setViewportSize({ width: 360, height: 800 })
    await waitUntil(async () => [7, 8].includes(await columns()))
    t.match(await page.getAttribute('[role=slider]', 'aria-valuetext'), /^[A-Z][a-z]{2} [0-9]+, UTC, so far; Total: [1-9]/)
    if ((await columns()) === 8) {
      await page.waitForSelector(
        '.legend .not-over span:text-matches("^Striped: since [A-Z][a-z]{2} [0-9]+, [0-9]{2}:00 UTC; [A-Z][a-z]{2} [0-9]+, UTC, not over yet$")',
      )
      const partOfDay = /^[A-Z][a-z]{2} [0-9]+, UTC, since [A-Z][a-z]{2} [0-9]+, [0-9]{2}:00 UTC/
      await page.focus('[role=slider]')
      await page.keyboard.press('Home')
      t.match(await page.getAttribute('[role=slider]', 'aria-valuetext'), partOfDay)
      await page.click('figcaption button:text-is("Table")')
      t.match(await page.textContent('.chart tbody tr:first-child'), partOfDay)
      await page.click('figcaption button:text-is("Chart")')
    }
    await page.click('text="Latency"')
    await waitUntil(async () => (await columns()) === 168)
    await page.waitForSelector('figcaption:has-text("in the gateway: from when it has the call until it has the answer")')
    await page.waitForSelector('.legend li:text-matches("^p99[0-9.]+.m?s$")')
    await page.setViewportSize({ width: 1_200, height: 800 })
  })

  t.test('Usage has the calls of a calendar month, and a CSV of what each key used on each network', async t => {
    await page.goto(`${gateway.portal}/usage?range=thisMonth`)
    const today = new Date().toISOString().slice(0, 10)
    await page.waitForSelector(`p:has-text("${today.slice(0, 4)}. Days and months are those of UTC.")`)
    await page.click('button:has-text("Export")')
    const [download] = await Promise.all([page.waitForEvent('download'), page.click('[role=menuitem]:text-is("CSV by key and network")')])
    const lines = (await readFile(await download.path(), 'utf8')).split('\r\n')
    t.equal(lines[0], 'from,to,key,hint,id,network,calls,credits,forwarded,failed')
    t.match(
      lines[1],
      new RegExp(`^${today.slice(0, 7)}-01T00:00:00.000Z,${'20[-0-9]+T00:00:00.000Z'},.*,key_\\w+,devnet,\\d+,\\d+,0,\\d+$`),
    )
    const shown = (await page.textContent('[data-testid=calls]'))?.replaceAll(',', '')
    const callsOf = (line: string): number => Number(line.split(',').at(-4) ?? 0)
    t.equal(
      lines.slice(1).reduce((sum, line) => sum + (line === '' ? 0 : callsOf(line)), 0),
      Number(shown),
    )
    t.equal(await page.locator('.banner').count(), 0, 'all days are kept')
    await page.selectOption('select >> nth=0', 'lastMonth')
    await page.waitForSelector('text="No calls in this range"')
    await page.goto(`${gateway.portal}/usage?from=2020-01-01T00:00:00Z&to=2020-02-01T00:00:00Z`)
    await page.waitForSelector('text="No calls in this range"')
    await page.waitForSelector('.banner:has-text("Older days are no longer kept. All calls are included from 20")')
    t.same(await findAccessibilityViolations(page), [])
  })

  t.test('latencies are compared over time by key, and what is not over yet is said', async t => {
    await page.goto(`${gateway.portal}/usage?by=key&of=latency`)
    await page.waitForSelector('.charts figure:has-text("p95 latency by key") .plot canvas')
    await page.waitForSelector('.charts figure:has-text("p50 latency by key") .legend:has-text("fails …")')
    await page.waitForSelector('.legend .not-over span:text-matches("^Dot: [A-Z][a-z]{2} [0-9]+, .*UTC, not over yet$")')
    t.same(await findAccessibilityViolations(page), [])
    await page.click('[aria-label="Show as table: p95 latency by key"]')
    await page.waitForSelector('.charts th:has-text("fails …")')
    await page.goto(`${gateway.portal}/usage?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z`)
    await page.waitForSelector('text="No calls in this range"')
    t.equal(await page.locator('.not-over').count(), 0)
  })

  t.test('Usage says of which range the figures are, and what is not over yet', async t => {
    const today = new Date().toISOString().slice(0, 10)
    for (const [address, said] of [
      ['?range=1h', /^Last hour\. The current 5 minutes are not over yet\.$/],
      ['?range=30d', /^Last 30 days\. The current day is not over yet\.$/],
      [
        `?from=${today}T00:00:00Z&to=${today}T23:59:59Z`,
        /^Calls since [A-Z][a-z]{2} [0-9]+, 00:00 UTC\. The current (hour|5 minutes) (is|are) not over yet\.$/,
      ],
    ] as const) {
      await page.goto(`${gateway.portal}/usage${address}`)
      t.match(await page.textContent('p.lead:has-text("not over yet.")'), said)
    }
  })

  t.test('the chart is read and used with the keyboard', async t => {
    await page.goto(`${gateway.portal}/usage`)
    const plot = page.locator('.plot')
    const press = async (key: string, index: number) => {
      await plot.press(key)
      await page.waitForSelector(`.plot[aria-valuenow="${index}"]`)
    }
    const describe = () => plot.getAttribute('aria-valuetext')
    await plot.press('ArrowLeft')
    await page.waitForSelector('.tooltip')
    await press('ArrowLeft', 22)
    // Also where the tests run over a whole hour, nobody has called two hours ago.
    await press('ArrowLeft', 21)
    t.match(await describe(), /^[A-Z][a-z]{2} [0-9]+, [0-9]{2}:00.–.[0-9]{2}:00.UTC; Total: 0; Failed: 0; /)
    await press('ArrowRight', 22)
    if (/; Failed: 0/.test((await describe()) ?? '')) await press('ArrowRight', 23)
    await plot.press('Enter')
    await page.waitForSelector('label:has-text("To (UTC)")')
    await page.click('[aria-label^="Show as table"]')
    await page.waitForSelector('.chart th:has-text("Failed")')
  })

  t.test('an owner sets thresholds and a webhook, sees its secret once, and how a test message ended', async t => {
    await openPage(page, 'Alerts')
    await page.fill('[name=daily]', '90, 50')
    await page.click('text="Save"')
    await page.waitForSelector('text="Saved."')
    await waitUntil(async () => (await page.inputValue('[name=daily]')) === '50, 90')
    await page.fill('[name=daily]', '101')
    await page.click('text="Save"')
    await page.waitForSelector('[name=daily][aria-invalid=true]')
    await page.waitForSelector('.error:text-is("Each must be an integer from 1 to 100.")')
    await page.fill('[name=daily]', '50, 90')
    await page.fill('[name=errorRate]', '5')
    await page.fill('[name=latency]', '800')
    await page.fill('[name=minCalls]', '9')
    await page.click('text="Save"')
    await page.waitForSelector('[name=minCalls][aria-invalid=true]')
    await page.fill('[name=minCalls]', '10')
    const [saved] = await Promise.all([page.waitForRequest(request => request.method() === 'PATCH'), page.click('text="Save"')])
    t.same(saved.postDataJSON(), { errorRate: 5, latency: 800, minCalls: 10 }, 'what others change meanwhile is not changed back')
    await page.waitForSelector('text="Saved."')
    await page.waitForSelector('[name=minCalls][aria-invalid=false]')
    await page.reload()
    await page.waitForSelector('[name=errorRate]')
    t.same(await Promise.all(['errorRate', 'latency', 'window', 'minCalls'].map(name => page.inputValue(`[name=${name}]`))), [
      '5',
      '800',
      '15',
      '10',
    ])
    await page.fill('[name=url]', 'http://169.254.169.254/latest')
    await page.click('text="Set the webhook"')
    t.match(await page.textContent('form[aria-label=Webhook] [role=status] code'), /^whsec_/)
    await page.click('text="Send a test message"')
    await page.waitForSelector('[data-testid=webhook-test]:has-text("private")')
    await page.route('**/alerts/webhook', route => route.fulfill({ status: 503, contentType: 'text/html', body: '' }))
    await page.click('text="Remove the webhook"')
    await page.waitForSelector('[data-testid=webhook-test]:has-text("The gateway could not be reached")')
    await page.unroute('**/alerts/webhook')
    await openPage(page, 'Keys')
    await openPage(page, 'Alerts')
    await page.waitForSelector('code:text-is("http://169.254.169.254/latest")')
    t.notMatch(await page.textContent('main'), /whsec_/)
    await openPage(page, 'Settings')
    const changes = page.locator('tr:has-text("Alerts changed") td[data-label=Details]')
    await changes.first().waitFor()
    t.match(await changes.allTextContents(), [
      'webhook: none → http://169.254.169.254',
      /^alert when calls fail: none → 5 %alert at p95 latency: none → 800 msignore fewer than: 100 calls → 10 calls$/,
      'daily alerts: 75, 85, 100 % → 50, 90 %',
    ])
    await page.waitForSelector('td:has-text("daily limit: 1,000 credits"):has-text("rate limit: 5 calls/s"):has-text("burst: 9 calls")')
    t.equal(await page.locator('tr:has-text("Key created"):has-text("none")').count(), 0, 'what was left empty is not said')
    t.match(await page.textContent('tbody td >> nth=0'), /^20[-0-9]+ [0-9]{2}:[0-9]{2}:[0-9]{2}$/)
    await page.click('button:has-text("Export")')
    const [download] = await Promise.all([page.waitForEvent('download'), page.click('[role=menuitem]:text-is("CSV")')])
    const lines = (await readFile(await download.path(), 'utf8')).split('\r\n')
    t.equal(lines[0], 'time,by,action,target,before,after')
    const countChanges = `fetch('/api/v1/changes').then(response => response.json()).then(({ changeCount }) => changeCount)`
    t.equal(lines.length - 2, await page.evaluate(countChanges), 'all of the month, not those of one page')
    t.ok(lines.some(line => /^20[-0-9T:.]+Z,owner,key-created,key_\w+,/.test(line)))
  })

  t.test('why something cannot be removed is said', async t => {
    await openPage(page, 'Access')
    await page.fill('form[aria-label="Create a token"] [name=name]', 'ci')
    t.ok(await page.isChecked('form[aria-label="Create a token"] [name=readOnly]'), 'a token that may do more is chosen')
    t.equal(await page.inputValue('form[aria-label="Create a token"] [name=days]'), '90', 'and one without an end')
    await page.click('button:has-text("Create a token")')
    await page.waitForSelector(
      'tr:has-text("ci"):has(td[data-label="Rights"]:has-text("read-only")):has(td[data-label="Last used"]:has-text("never"))',
    )
    await page.route('**/tokens/*', route => route.fulfill({ status: 404, json: { error: { code: 'x', message: 'no such token' } } }))
    await page.click('button[aria-label="Revoke ci"]')
    await page.waitForSelector('[role=alert]:has-text("no such token")')
    await page.unroute('**/tokens/*')
    await page.click('button[aria-label="Revoke ci"]')
    await page.waitForSelector('button[aria-label="Revoke ci"]', { state: 'detached' })
    t.equal(await page.$$eval('[role=alert]', found => found.length), 0)
  })

  t.test('an invitation says which field is wrong and why', async t => {
    await openPage(page, 'Access')
    const form = 'form[aria-label="Add a person"]'
    await page.fill(`${form} >> label:has-text("Name")`, 'bob')
    await page.fill(`${form} >> label:has-text("E-mail")`, 'bob')
    await page.click(`${form} >> button`)
    const email = page.locator(`${form} .field:has(label:has-text("E-mail"))`)
    t.equal(await email.locator('.error').textContent(), 'Must be an e-mail address.')
    t.equal(await email.locator('input').getAttribute('aria-invalid'), 'true')
    t.equal(await page.locator(`${form} [aria-invalid=true]`).count(), 1)
  })

  t.test('a long name and a URL fit a window of 360 px', async t => {
    await page.setViewportSize({ width: 360, height: 800 })
    await page.evaluate(`document.querySelector('[data-testid=account]').textContent = 'a'.repeat(64)`)
    t.equal(await page.evaluate('document.documentElement.scrollWidth'), 360)
    t.notOk(await page.isVisible('nav'), 'the navigation is behind a button')
    await page.click('button:has-text("Menu")')
    t.equal(await page.evaluate('document.documentElement.scrollWidth'), 360)
    t.ok((await boxOf(page, '[data-testid=account]')).width < 360)
    const signOut = await boxOf(page, 'button:has-text("Sign out")')
    t.ok(signOut.y + signOut.height <= 800, 'the whole menu is in sight')
    await page.keyboard.press('Escape')
    await page.waitForSelector('nav', { state: 'hidden' })
    await page.click('button:has-text("Menu")')
    await openPage(page, 'Networks')
    await page.waitForSelector('nav', { state: 'hidden' })
    t.ok((await boxOf(page, '.copy:has-text("/v3/API_KEY") >> nth=0')).height < 100, 'a URL is broken into few lines')
    await page.click('button:has-text("Menu")')
    await openPage(page, 'Keys')
    await page.click(`${await openKeyForm(page)} summary`)
    const lineAboveButtons = () => page.evaluate(`getComputedStyle(document.querySelector('dialog .buttons.end')).borderTopColor`)
    // More of the form follows: the line comes with the frame after the form.
    await waitUntil(async () => (await lineAboveButtons()) !== 'rgba(0, 0, 0, 0)')
    await page.evaluate(`document.querySelector('dialog').scrollTo(0, 10_000)`)
    await waitUntil(async () => (await lineAboveButtons()) === 'rgba(0, 0, 0, 0)')
    await page.keyboard.press('Escape')
    await page.setViewportSize({ width: 1_200, height: 800 })
  })

  t.test('a key has the hour of its last call', async t => {
    await openPage(page, 'Keys')
    const hour = /^[A-Z][a-z]{2} [0-9]+, [0-9]{2}:00.–.[0-9]{2}:00.UTC/
    await page.waitForSelector('tr:has(svg) td.time')
    t.match(await page.textContent('tr:has(svg) td.time'), hour)
  })

  t.test('the theme that somebody chooses is kept in the browser, and is there before the first paint', async t => {
    const canvas = `getComputedStyle(document.documentElement).backgroundColor`
    const light = await page.evaluate(canvas)
    await page.check('label:has-text("Dark") input', { force: true })
    const dark = await page.evaluate(canvas)
    t.not(dark, light)
    await page.route('**/assets/index-*.js', route => route.abort())
    await page.reload()
    t.equal(await page.evaluate(canvas), dark, 'without the code of the page')
    await page.unroute('**/assets/index-*.js')
    await page.reload()
    await page.check('label:has-text("System") input', { force: true })
    t.equal(await page.evaluate(canvas), light)
    t.equal(await page.evaluate('localStorage.length'), 0)
  })

  t.test('the page that is shown stands out in the navigation where the system sets the colors', async t => {
    await page.emulateMedia({ forcedColors: 'active' })
    const backgrounds = `new Set([...document.querySelectorAll('nav a')].map(link => getComputedStyle(link).backgroundColor)).size`
    t.equal(await page.evaluate(backgrounds), 2)
    await page.emulateMedia({ forcedColors: 'none' })
  })

  /** In a browser of its own. */
  const openAs = async (account: string, script?: string): Promise<Page> => {
    const context = await browser.newContext({ viewport: { width: 1_200, height: 800 } })
    if (script !== undefined) await context.addInitScript(script)
    const opened = await context.newPage()
    await opened.goto(`${gateway.portal}/sign-in#${await printSignInToken(deployment, account)}`)
    await opened.waitForSelector('[data-testid=credits-left]')
    return opened
  }

  t.test('a new account is led to its first call, whose arrival the page shows by itself', async t => {
    await deployment.addAccount('newcomer')
    const page = await openAs('newcomer', 'globalThis.ethereum = { request: async call => void (globalThis.asked = call) }')
    await page.waitForSelector('.guide [aria-current=step] h3:text-is("Create a key")')
    t.same(await findAccessibilityViolations(page), [])
    await page.click('.guide button:has-text("Create a key")')
    await page.waitForSelector('.guide [aria-current=step]:has(h3:text-is("Create a key")) .banner.warn:has-text("Save the key now.")')
    t.same(await findAccessibilityViolations(page), [])
    await page.click('text="I have saved it"')
    await page.waitForSelector('.guide [aria-current=step] h3:text-is("Call a network")')
    t.same(
      await page.locator('.guide .links strong').allTextContents(),
      ['Restrict the key', 'Set an alert', 'Watch your usage', 'Add your team'],
      'what comes next is in sight before the first call',
    )
    await showKey(page)
    const [, key = ''] = /\/v3\/(tg_\w+)/.exec((await page.textContent('[role=tabpanel] code')) ?? '') ?? []
    t.same(await findAccessibilityViolations(page), [])
    await page.click('[role=tab]:text-is("Wallet")')
    await page.click('text="Add to the wallet"')
    await page.waitForSelector('[role=status] >> text="The wallet has the network."')
    t.match(await page.evaluate('asked'), {
      method: 'wallet_addEthereumChain',
      params: [{ chainId: '0x7a69', chainName: 'devnet', rpcUrls: [gateway.http(key)] }],
    })
    await page.waitForSelector('[data-testid=first-call] >> text="Waiting for the first call…"')
    await waitUntil(async () => (await call(gateway.http(key), 'eth_gasPrice')).result === '0x7')
    // Within a second, as usage-queries.test.ts has it: on a busy machine, a browser takes as long as it likes.
    await page.waitForSelector('[data-testid=first-call] >> text="Your first call has arrived."')
    await page.waitForSelector('.guide.done h3:text-is("Protect the key, and set an alert")')
    t.same(await findAccessibilityViolations(page), [])
    await page.setViewportSize({ width: 360, height: 800 })
    t.equal(await page.evaluate('document.documentElement.scrollWidth'), 360)
    await page.click('.guide button:text-is("Close")')
    await page.waitForSelector('.plot')
    await page.context().close()
  })

  t.test('who has used up the credits reads so on each page, and until when calls are refused; before, that it comes near', async t => {
    const [limit, cost] = [805, 80]
    await deployment.run('accounts', 'add', 'spender', '--plan', 'core', '--credits', String(limit))
    const { key } = await deployment.addKey('spender')
    const page = await openAs('spender')
    const spend = async (calls: number) => {
      for (let i = 0; i < calls; i += 1) await waitUntil(async () => (await call(gateway.http(key), 'eth_gasPrice')).result === '0x7')
      await waitUntil(async () => (await creditsUsed(page)) % cost === 0)
    }
    await spend(7)
    t.equal(await page.locator('.banner').count(), 0)
    await spend(1)
    await page.waitForSelector('.banner.warn:has-text("79 % of today’s credits are used.")')
    t.same(await findAccessibilityViolations(page), [])
    await openPage(page, 'Plan')
    t.equal(await page.locator('.banner').count(), 0, 'only on the Overview')
    await openPage(page, 'Overview')
    await spend(2)
    await page.waitForSelector('[role=alert]:has-text("Today’s credits are used up.")')
    t.match(await page.textContent('.banner.danger'), /Calls are refused until 00:00 UTC, in (\d+ h )?\d+ min \(HTTP 402, code -33000\)\./)
    t.notMatch(await page.textContent('.credits'), /At the pace/, 'nothing is left that could last')
    t.same(await findAccessibilityViolations(page), [])
    await openPage(page, 'Keys')
    await page.click('.banner.danger >> text="Ask for more credits"')
    await page.waitForSelector('tr:has-text("core"):has-text("Your plan"):has-text("805")')
    const growth =
      'tr:has-text("growth"):has-text("$49 a month"):has-text("248,447×"):has-text("100 calls/s"):has-text("Some calls may be sent to a partner")'
    const ask = await page.getAttribute(`${growth} >> a:text-is("Ask for growth")`, 'href')
    t.match(decodeURIComponent(ask ?? ''), /^mailto:help@example.org\?subject=Plan growth: acc_\w+$/)
    t.match(await page.getAttribute('tr:has-text("scale") >> a:text-is("Get scale")', 'href'), /^https:\/\/shop\.example\.org\/acc_\w+$/)
    const invoices = 'a:text-is("Invoices and payment")'
    t.match(await page.getAttribute(`p > ${invoices}`, 'href'), /^https:\/\/billing\.example\.org\/\?account=acc_\w+$/)
    t.ok(await page.isVisible(`.banner ${invoices}`))
    t.equal(await page.locator('tr:has-text("custom")').count(), 0, 'only what is offered')
    t.equal(await page.locator('text="Ask for more credits"').count(), 0, 'that is this page')
    t.same(await findAccessibilityViolations(page), [])
    await page.click('.banner.danger >> text="See what used them"')
    await page.waitForSelector('h1:has-text("Usage")')
    await page.waitForSelector('label:has-text("Credits") input:checked')
    t.equal(await page.locator('text="See what used them"').count(), 0, 'that is this page')
    t.equal(await page.locator('th:has-text("Sent to a partner")').count(), 0, 'the plan has none')
    await deployment.run('accounts', 'suspend', 'spender', '--reason', 'Invoice 17 is unpaid')
    await page.reload()
    await page.waitForSelector(
      '[role=alert]:has-text("The operator has suspended this account."):has-text("Reason: Invoice 17 is unpaid. Since 20"):has-text("Invoices and payment")',
    )
    t.same(await findAccessibilityViolations(page), [])
    await openPage(page, 'Overview')
    await page.waitForSelector('.credits.unused:has-text("Suspended: calls are refused, so no credits are used.")')
    await page.waitForSelector('.credits:has-text("805 a day, set for your account")')
    t.equal(await page.locator('.figure.danger').count(), 0, 'one thing is wrong, not two')
    t.equal(await page.locator('[data-testid=reset]').count(), 0, 'the reset changes nothing of that')
    t.notMatch(await page.textContent('.credits'), /At the pace/)
    await page.context().close()
  })

  t.test(
    'the page Plan says how many calls a second a plan allows, and at once, what is refused, and which credits are the account’s own',
    async t => {
      const page = await openAs('newcomer')
      await openPage(page, 'Plan')
      await page.waitForSelector(
        '.card > :has-text("When all our nodes are down"):has-text("Calls fail"):has-text("HTTP 503, code -32002")',
      )
      await page.waitForSelector('.card > :has-text("3,000,000"):has-text("new at 00:00 UTC; what is left is not carried over")')
      await page.waitForSelector('.card > :has-text("Rate limit"):has-text("by network"):has-text("See below what each network allows.")')
      await page.waitForSelector(
        'p:text-is("Rate limits on devnet: your account: 900 calls/s, 90,000 credits/s; each IP address: 2,000 calls/s. Rate limits of keys apply.")',
      )
      await deployment.run('accounts', 'set', 'newcomer', '--plan', 'steady')
      await page.reload()
      await page.waitForSelector(
        '.card > :has-text("Rate limit"):has-text("25 calls/s"):has-text("At once: 1,500. Over all keys and networks. Keys may have limits of their own.")',
      )
      await page.waitForSelector('p:has-text("your account: 25 calls/s (1,500 at once), 90,000 credits/s")')
      await deployment.run('accounts', 'set', 'newcomer', '--credits', '800')
      await page.reload()
      await page.waitForSelector('.card > :has-text("800"):has-text("set for your account; new at 00:00 UTC")')
      t.same(await findAccessibilityViolations(page), [])
      await page.context().close()
    },
  )

  t.test('an address that is none of a page says so, with a way home', async t => {
    await page.goto(`${gateway.portal}/kyes`)
    await page.waitForSelector('h1:has-text("Page not found")')
    t.equal(await page.locator('[aria-current]').count(), 0)
    t.same(await findAccessibilityViolations(page), [])
    await page.click('main >> text="Overview"')
    await page.waitForSelector('h1:has-text("Overview")')
    t.equal(page.url(), `${gateway.portal}/`)
    await page.goto(`${gateway.portal}/sign-in`)
    await page.waitForSelector('h1:has-text("Overview")')
  })

  t.test('a window of 1,280 px has all columns of each table', async t => {
    await page.setViewportSize({ width: 1_280, height: 800 })
    const body = JSON.stringify({
      ...{ name: 'a key of many limits', methods: ['eth_chainId', 'eth_gasPrice', 'eth_getTransactionReceipt'], rate: '50/s', burst: 100 },
      ...{ origins: ['https://dapp.example', 'https://*.wallet.example'], ips: ['203.0.113.0/24', '127.0.0.1'], dailyCredits: 500_000 },
    })
    const create = `fetch('/api/v1/keys', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '${body}' })`
    await page.evaluate(`${create}.then(response => response.json())`)
    for (const title of ['Keys', 'Access']) {
      await openPage(page, title)
      await page.waitForSelector(`h1:has-text("${title}")`)
      if (title === 'Keys') await page.waitForSelector('td:has-text("a key of many limits")')
      await page.waitForSelector('tbody tr')
      const cutOff = `[...document.querySelectorAll('.scroll')].filter(table => table.scrollWidth > table.clientWidth).length`
      t.equal(await page.evaluate(cutOff), 0, title)
    }
  })

  t.test('a box to tick stands beside what it means', async t => {
    await page.route('**/api/v1/sign-in-options', route => route.fulfill({ json: { email: true, signUp: false, provider: null } }))
    await openPage(page, 'Access')
    await openPage(page, 'Alerts')
    const [box, label] = [await boxOf(page, '[name=email]'), await boxOf(page, 'label:has-text("Mail to")')]
    t.ok(box.width < 30 && Math.abs(box.y - label.y) < 10)
    t.equal((await boxOf(page, '[name=minCalls]')).y, (await boxOf(page, '[name=window]')).y, 'a label of two lines moves no field')
    await page.unroute('**/api/v1/sign-in-options')
  })

  t.test('the chart says what the column below the pointer stands for, and goes on while figures arrive', async t => {
    await page.setViewportSize({ width: 1_200, height: 800 })
    await openPage(page, 'Overview')
    await page.waitForSelector('.plot canvas')
    const { width } = await boxOf(page, '.u-over')
    await page.hover('.u-over', { position: { x: width - 2, y: 20 } })
    await page.waitForSelector('.tooltip p:text-matches("^[A-Z][a-z]{2} [0-9]+, [0-9]{2}:00.–.[0-9]{2}:00.UTC, so far$")')
    await page.evaluate(`globalThis.canvas = document.querySelector('.plot canvas')`)
    const before = await creditsUsed(page)
    const createKey = `fetch('/api/v1/keys', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"name":"chart"}' })`
    const { key } = (await page.evaluate(`${createKey}.then(response => response.json())`)) as { key: string }
    await waitUntil(async () => (await call(gateway.http(key), 'eth_gasPrice')).error === undefined)
    await waitUntil(async () => (await creditsUsed(page)) > before)
    t.equal(await page.evaluate('globalThis.canvas.isConnected'), true, 'the chart is not drawn anew')
    t.ok(await page.isVisible('.tooltip'))
  })

  t.test('the pages are reached with the keyboard alone', async t => {
    await page.setViewportSize({ width: 1_200, height: 800 })
    await page.goto(`${gateway.portal}/`)
    await page.waitForSelector('nav')
    const reached = new Set<string>()
    for (let i = 0; i < 22; i++) {
      await page.keyboard.press('Tab')
      reached.add(String(await page.evaluate('document.activeElement.textContent')))
    }
    t.same(
      pageTitles.filter(title => !reached.has(title)),
      [],
    )
    t.ok(reached.has('Skip to content'))
  })

  t.test('a lost connection is shown, and healed', async t => {
    await openPage(page, 'Overview')
    await context.setOffline(true)
    await page.waitForSelector('[role=alert]')
    await context.setOffline(false)
    await page.waitForSelector('[role=alert]', { state: 'detached' })
    t.ok(await page.isVisible('[data-testid=credits-left]'))
  })

  t.test('while the store is unreachable the page says so, on opening too, and goes on by itself', async t => {
    const message = 'The store is unreachable: nothing can be read or changed here now.'
    const body = JSON.stringify({ error: { code: 'store-unavailable', message } })
    await page.route('**/api/v1/**', route => route.fulfill({ status: 503, contentType: 'application/json', body }))
    await openPage(page, 'Networks')
    await page.waitForSelector(`.page-heading ~ [role=alert]:has-text("${message}")`)
    t.equal(await page.locator('.skeleton, .empty').count(), 0, 'it is said once, and nothing looks as if it were on its way')
    await page.reload()
    await page.waitForSelector(`[role=alert]:has-text("${message}")`)
    t.same(await findAccessibilityViolations(page), [])
    await page.unroute('**/api/v1/**')
    await page.waitForSelector('h1:has-text("Networks")')
    await page.waitForSelector('[role=alert]', { state: 'detached' })
    await page.route('**/api/v1/events', route => route.fulfill({ status: 503, contentType: 'application/json', body }))
    await page.goto(`${gateway.portal}/`)
    await page.waitForSelector('h1:has-text("Overview")')
    await page.unroute('**/api/v1/events')
    await page.waitForSelector('[data-testid=credits-left]')
  })

  t.test('an address is confirmed with a button, not by opening the link', async t => {
    await page.goto(`${gateway.portal}/confirm-email#used-up`)
    await page.waitForSelector('h1:has-text("Confirm your e-mail address")')
    await page.waitForSelector('[role=alert]:has-text("the link is used up or has expired")')
    t.same(await findAccessibilityViolations(page), [])
    t.equal(await page.locator('button:has-text("Confirm")').count(), 0)
    t.ok(await page.isVisible('a[href="/profile"]:text-is("Ask for another link on Profile")'))
    await page.goto(`${gateway.portal}/`)
    await page.waitForSelector('[data-testid=credits-left]')
  })

  t.test('an owner invites by e-mail address, and withdraws an invitation', async t => {
    await openPage(page, 'Access')
    for (const name of ['ivy', 'wil']) {
      await page.fill('form[aria-label="Add a person"] [name=name]', name)
      await page.fill('form[aria-label="Add a person"] [name=email]', `${name}@example.org`)
      await page.click('button:has-text("Add a person")')
      await page.waitForSelector(`[role=status]:has-text("The person joins the account after signing in"):has-text("${name}@example.org")`)
      await page.waitForSelector(`td:has-text("${name}@example.org"):has(.badge:text-is("invited")):has-text("until 2")`)
    }
    t.same(await findAccessibilityViolations(page), [])
    await chooseAction(page, 'wil', 'Withdraw')
    await confirmQuestion(page)
    await page.waitForSelector('td:has-text("wil@example.org")', { state: 'detached' })
    await openPage(page, 'Profile')
    await page.click('button:has-text("Leave this account")')
    await page.waitForSelector('dialog:has-text("You are the only owner. Make another person an owner first"):not(:has(.danger))')
    await page.click('dialog button:text-is("Close")')
    await openPage(page, 'Overview')
  })

  t.test('that calls fail is said on Alerts until it has ended, or nobody is to be told of it', async t => {
    await openPage(page, 'Alerts')
    await page.fill('[name=errorRate]', '1')
    await page.click('text="Save"')
    await page.waitForSelector('text="Saved."')
    const { key } = await deployment.addKey('alice')
    for (let i = 0; i < 12; i += 1) await call(gateway.http(key), 'eth_getBalance', ['0x1'])
    const countIncidents = `fetch('/api/v1/alerts').then(response => response.json()).then(({ incidents }) => incidents.length)`
    await waitUntil(async () => Number(await page.evaluate(countIncidents)) > 0)
    await page.reload()
    await page.waitForSelector('.banner:has-text("% of the calls failed"):has-text("No further alert is sent until this has ended.")')
    await page.waitForSelector('tr:has-text("1 % failed"):has-text("Webhook")')
    t.same(await findAccessibilityViolations(page), [])
    await page.fill('[name=errorRate]', '')
    await page.click('text="Save"')
    await page.locator('.banner:has-text("of the calls failed")').waitFor({ state: 'detached' })
  })

  t.test('signing out leaves nothing on the page', async t => {
    await page.click('button:has-text("Sign out")')
    await page.waitForSelector('h1:has-text("Sign in")')
    t.notMatch(await page.textContent('body'), 'tollgate accounts link', 'with a provider, no command of the operator is needed')
    t.notMatch(await page.textContent('body'), /alice/)
  })

  const returnFromProviderAs = async (name: string) => {
    await page.unroute(`${provider.config.issuer}/authorize*`)
    await page.route(`${provider.config.issuer}/authorize*`, (route, request) => {
      const query = provider.authorize(request.url(), { sub: name, email: `${name}@example.org`, email_verified: true })
      return route.fulfill({ status: 302, headers: { location: `${gateway.portal}/sign-in?${query}` } })
    })
  }

  t.test('who was invited is asked before they join, may decline, and leaves the account again', async t => {
    await returnFromProviderAs('ivy')
    await page.click('button:has-text("Sign in with Example")')
    await page.waitForSelector('section:has-text("owner invites you to the account alice as developer.")')
    t.same(await findAccessibilityViolations(page), [])
    t.equal(page.url(), `${gateway.portal}/sign-in`)
    await page.click('button:has-text("Join alice")')
    await page.waitForSelector('[data-testid=credits-left]')
    t.equal(await page.textContent('[data-testid=account]'), 'alice')
    await openPage(page, 'Profile')
    await page.click('button:has-text("Leave this account")')
    t.same(await findAccessibilityViolations(page), [])
    await confirmQuestion(page)
    await page.waitForSelector('button:has-text("Sign in with Example")')
    const alice = await signInToPortal(deployment, gateway, 'alice')
    await alice.post('/people', { name: 'ivy', role: 'viewer', email: 'ivy@example.org' })
    await page.click('button:has-text("Sign in with Example")')
    await page.click('button[aria-label="Decline: alice"]')
    await page.waitForSelector('text=There are no invitations left.')
    t.same(await findAccessibilityViolations(page), [])
    t.equal((await alice.get('/people')).json.length, 1)
    await page.goto(`${gateway.portal}/`)
  })

  t.test('a person signs in at a provider, and nothing of that stays in the address', async t => {
    await printSignInToken(deployment, 'alice', '--person', 'dan', '--email', 'dan@example.org')
    await returnFromProviderAs('dan')
    await page.click('button:has-text("Sign in with Example")')
    await page.waitForSelector('[data-testid=credits-left]')
    t.equal(page.url(), `${gateway.portal}/`)
    await page.click('button:has-text("Sign out")')
    await provider.stop()
    await page.click('button:has-text("Sign in with Example")')
    // The browser comes back, and the gateway does not reach the provider.
    await page.waitForSelector('[role=alert]:has-text("Example cannot be used now; sign-in links go on working")')
    t.same(await findAccessibilityViolations(page), [])
  })

  t.test('the console of the browser shows no error but for requests that were refused', async t => {
    t.same(
      problems.filter(text => !/status of (40[0149]|503)|ERR_INTERNET_DISCONNECTED|ERR_NETWORK|ERR_FAILED/.test(text)),
      [],
    )
  })

  t.test('a page that is left open over midnight shows the new day', async t => {
    const midnight = Date.UTC(2026, 0, 16)
    const clock = new TestClock(midnight - 90_000)
    const path = await tempFolder(t)
    const store = await openStore({ kind: 'lmdb', path }, clock)
    const account = { id: 'acc_1', name: 'alice', plan: 'core', created: clock.now() }
    await store.addAccount(account)
    const lease = { account: account.id, process: 'p1', minCredits: 0, limit: 1_000, shareDivisor: 1 }
    await store.requestLease({ ...lease, day: midnight / dayMs - 1, seq: 1, counters: undefined, desiredCredits: 400 })
    await store.requestLease({
      ...lease,
      day: midnight / dayMs - 1,
      seq: 2,
      counters: { granted: 400, returned: 0, used: 240 },
      desiredCredits: 0,
    })
    const portal = await openPortal({
      ...{ address: { host: '127.0.0.1', port: 0 }, store, storeAddress: { kind: 'lmdb', path }, clock, log: new TestLog(), version: '0' },
      ...{ trustedProxies: [], networks: [], plans: { core: { name: 'core', dailyCredits: 1_000, forwarding: false } } },
      ...{ usageRetentionMs: dayMs, requestLog: testRequestLog, metrics: createMetricsRegistry(), rpcUrl: 'http://127.0.0.1:1' },
      describeMethods: async () => new Map(),
      networkStatuses: () => [],
      incidents: async () => new NodeIncidents({ clock, observedNetworks: async () => [] }),
    })
    const page = await browser.newPage()
    t.teardown(async () => {
      await page.close()
      await portal.stop()
      await store.close()
    })
    await page.clock.install({ time: clock.now() })
    const person = await addPerson(store, { account: account.id, name: 'owner', role: 'owner' })
    await page.goto(signInUrl(portal.url, await createSignInToken(store, clock, person)))
    await page.waitForSelector('[data-testid=credits-used] >> text=/^240 of 1,000/')
    await page.waitForSelector('[data-testid=reset] ~ p:has-text("1 min")')
    await page.clock.fastForward(120_000)
    clock.advance(120_000)
    await page.waitForSelector('[data-testid=credits-used] >> text=/^0 of 1,000/')
    await page.waitForSelector('[data-testid=reset] ~ p:has-text("23 h 59 min")')
    t.match(await page.textContent('[data-testid=credits-left]'), '1,000')
  })
})
