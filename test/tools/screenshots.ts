import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openStore } from '../../src/store/open-store.ts'
import { systemClock } from '../../src/services/clock.ts'
import { hourMs } from '../../src/util/dates.ts'
import type { Page } from 'playwright-core'
import { openBrowser, skipWithoutChromium } from '../support/browser.ts'
import { networkFile } from '../support/deployment.ts'
import type { Deployment } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { createPortalDeployment, printSignInToken } from '../support/portal-client.ts'
import { call } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

// npm run screenshots: writes docs/images/ from a running gateway, with the usage of a week and calls of now.

const imageDir = fileURLToPath(new URL('../../../docs/images', import.meta.url))

const weekHours = 168

/** More in the day than in the night, so that the chart has a shape. */
const callsOfHour = (hour: number, weight: number): number => Math.round(weight * (60 + 50 * Math.sin((hour / 12) * Math.PI)))

const methods = { eth_getLogs: 255, eth_getStorageAt: 80, eth_call: 80, eth_blockNumber: 80, eth_getTransactionReceipt: 80 }

const seedUsage = async (dir: string, account: string, key: string): Promise<void> => {
  const store = await openStore({ kind: 'lmdb', path: join(dir, '..', 'data') }, systemClock)
  const now = Math.floor(systemClock.now() / hourMs)
  const counts = Array.from({ length: weekHours }, (_, i) => now - weekHours + i).flatMap(hour =>
    Object.entries(methods).map(([method, cost], i) => {
      const calls = callsOfHour(hour, 1 / (i + 1))
      return { account, key, network: 'devnet', method, outcome: 'ok', forwarded: false, hour, calls, credits: calls * cost }
    }),
  )
  await store.reportUsage({ process: 'screenshots', seq: 1, counts, retentionHours: 2_160 })
  await store.close()
}

const block = { number: '0x1499a3f', hash: `0x${'ab'.repeat(32)}`, parentHash: `0x${'cd'.repeat(32)}` }

const nodeAnswers = () => ({
  eth_chainId: { result: '0x7a69' },
  eth_blockNumber: { result: block.number },
  eth_getBlockByNumber: { result: { ...block, timestamp: `0x${Math.floor(systemClock.now() / 1_000).toString(16)}` } },
  eth_getBalance: { result: '0x2386f26fc10000' },
})

const adminToken = 'screenshots'

/** Accounts that the operator sees beside the one of the dashboard. */
const otherAccounts = [
  { name: 'wallet-app', plan: 'growth', label: 'customer 1042' },
  { name: 'indexer', plan: 'custom', label: 'customer 1077' },
  { name: 'trading-desk', plan: 'growth', label: 'customer 1101' },
] as const

const openDeployment = (urls: readonly string[]): Deployment =>
  createPortalDeployment('', {
    networks: { devnet: networkFile('devnet', urls) },
    gateway: { admin: { token: adminToken } },
  })

/** Writes an image of each part of a page in both themes. */
const shoot = async (page: Page, titles: readonly string[], prefix = ''): Promise<void> => {
  for (const title of titles) {
    await page.click(`nav >> text="${title}"`)
    await page.waitForSelector(`h1:has-text("${title}")`)
    await page.waitForSelector('tbody tr, figure')
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      await page.screenshot({ path: join(imageDir, `${prefix}${title.toLowerCase()}-${colorScheme}.png`) })
    }
  }
}

const shootDashboard = async (page: Page, url: string, token: string): Promise<void> => {
  await page.goto(`${url}/sign-in#${token}`)
  await page.waitForSelector('[data-testid=credits-used]')
  const shown = async () => Number((await page.textContent('[data-testid=credits-used]'))?.replaceAll(/\D.*/g, ''))
  await waitUntil(async () => (await shown()) > 0)
  await shoot(page, ['Overview', 'Usage'])
}

const shootOperatorPage = async (page: Page, url: string): Promise<void> => {
  // Its tables are wider.
  await page.setViewportSize({ width: 1_280, height: 640 })
  await page.goto(`${url}/operator`)
  await page.fill('[name=token]', adminToken)
  await page.keyboard.press('Enter')
  await page.waitForSelector('h1:has-text("Home")')
  await shoot(page, ['Accounts', 'Nodes'], 'operator-')
}

const addAccounts = async (deployment: Deployment): Promise<string> => {
  const { dir, run, addKey } = deployment
  await run('accounts', 'add', 'example', '--plan', 'core')
  const created = await run('keys', 'add', 'example', '--credits', '500000', '--ips', '203.0.113.0/24,127.0.0.1', '--json')
  const { id, key } = JSON.parse(created.stdout) as { readonly id: string; readonly key: string }
  for (const { name, plan, label } of otherAccounts) {
    await run('accounts', 'add', name, '--plan', plan, '--label', label)
    await addKey(name)
  }
  const { stdout } = await run('accounts', 'list', '--json')
  const accounts = JSON.parse(stdout) as readonly { readonly id: string; readonly name: string }[]
  await seedUsage(dir, accounts.find(({ name }) => name === 'example')?.id ?? '', id)
  return key
}

const main = async (): Promise<void> => {
  if (skipWithoutChromium !== false) throw new Error(skipWithoutChromium)
  const nodes = [await startFakeNode(nodeAnswers()), await startFakeNode(nodeAnswers())]
  const deployment = openDeployment(nodes.map(({ url }) => url))
  const browser = await openBrowser()
  try {
    const key = await addAccounts(deployment)
    const gateway = await deployment.start()
    for (let i = 0; i < 200; i += 1) await call(gateway.http(key), 'eth_getBalance', [`0x${String(i).padStart(40, '0')}`, 'latest'])
    mkdirSync(imageDir, { recursive: true })
    const page = await browser.newPage({ viewport: { width: 1_100, height: 760 } })
    await shootDashboard(page, gateway.portal ?? '', await printSignInToken(deployment, 'example'))
    await shootOperatorPage(page, gateway.admin)
  } finally {
    await browser.close()
    await deployment.remove()
    await Promise.all(nodes.map(node => node.stop()))
  }
}

await main()
