import { copyFileSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Browser, Page } from 'playwright-core'
import { systemClock } from '../../src/services/clock.ts'
import { openStore } from '../../src/store/open-store.ts'
import type { UsageCount } from '../../src/store/usage-store.ts'
import { hourMs } from '../../src/util/dates.ts'
import { latencyBucketOf } from '../../src/util/latency-buckets.ts'
import { openBrowser, skipWithoutChromium } from '../support/browser.ts'
import { networkFile } from '../support/deployment.ts'
import type { Deployment, GatewayProcess } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import type { FakeNode } from '../support/fake-node.ts'
import { createPortalDeployment, printSignInToken, signInToPortal } from '../support/portal-client.ts'
import { call } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

// npm run screenshots: writes each page in both themes and two widths into dist/screenshots/ from a running gateway, with the usage of a week
// and calls of now; those that the documentation shows are copied to docs/images/.

const root = fileURLToPath(new URL('../../..', import.meta.url))
const allDir = join(root, 'dist/screenshots')
const docsDir = join(root, 'docs/images')

const shownInDocs = ['overview', 'first-run', 'usage', 'keys', 'try-it', 'requests', 'operator-home', 'operator-nodes']

const widths = [1_280, 360] as const
const heightPx = 800

const chains = { 'ethereum-mainnet': 1, 'base-mainnet': 8_453, 'arbitrum-mainnet': 42_161, 'linea-mainnet': 59_144 } as const

type NetworkName = keyof typeof chains

const networkNames = Object.keys(chains) as readonly NetworkName[]

const weekHours = 168

/** More in the day than in the night, and never twice the same, so that the chart has a shape. */
const callsOfHour = (hour: number, weight: number): number =>
  Math.round(weight * (70 + 55 * Math.sin(((hour % 24) / 12) * Math.PI) + 17 * Math.sin(hour * 1.7) + 9 * Math.sin(hour * weight)))

const methods = [
  { method: 'eth_call', cost: 80, weight: 9, latencyMs: 21 },
  { method: 'eth_getLogs', cost: 255, weight: 5, latencyMs: 64 },
  { method: 'eth_getBalance', cost: 80, weight: 3, latencyMs: 14 },
  { method: 'eth_blockNumber', cost: 80, weight: 2, latencyMs: 0.6 },
  { method: 'eth_getTransactionReceipt', cost: 80, weight: 1.4, latencyMs: 17 },
] as const

/** Most calls take about as long, and some longer. */
const latenciesAround = (latencyMs: number, calls: number): readonly number[] => {
  const buckets: number[] = []
  for (const [factor, share] of [
    [0.8, 0.3],
    [1, 0.4],
    [1.4, 0.2],
    [2.5, 0.07],
    [5, 0.03],
  ] as const) {
    const bucket = latencyBucketOf(latencyMs * factor)
    buckets[bucket] = (buckets[bucket] ?? 0) + Math.round(calls * share)
  }
  return Array.from(buckets, count => count ?? 0)
}

interface SeededKey {
  readonly id: string
  readonly share: number
}

const countsOf = (account: string, keys: readonly SeededKey[], hour: number): readonly UsageCount[] =>
  keys.flatMap(({ id: key, share }) =>
    methods.flatMap(({ method, cost, weight, latencyMs }, i) => {
      const calls = Math.max(0, callsOfHour(hour, weight * share))
      const failed = method === 'eth_getLogs' ? Math.round(calls * (hour % 7 === 0 ? 0.12 : 0.02)) : 0
      const group = { account, key, network: networkNames[i % networkNames.length] ?? '', method, forwarded: false, hour }
      return [
        {
          ...group,
          outcome: 'ok',
          calls: calls - failed,
          credits: (calls - failed) * cost,
          latencies: latenciesAround(latencyMs, calls - failed),
        },
        ...(failed === 0 ? [] : [{ ...group, outcome: 'params', calls: failed, credits: 0 }]),
      ]
    }),
  )

const seedUsage = async (dir: string, account: string, keys: readonly SeededKey[]): Promise<void> => {
  const store = await openStore({ kind: 'lmdb', path: join(dir, '..', 'data') }, systemClock)
  const now = Math.floor(systemClock.now() / hourMs)
  const counts = Array.from({ length: weekHours }, (_, i) => countsOf(account, keys, now - weekHours + i)).flat()
  await store.reportUsage({ process: 'screenshots', seq: 1, counts, retentionHours: 2_160 })
  await store.close()
}

const block = { number: '0x1499a3f', hash: `0x${'ab'.repeat(32)}`, parentHash: `0x${'cd'.repeat(32)}` }

const startNode = (chainId: number): Promise<FakeNode> =>
  startFakeNode({
    eth_chainId: { result: `0x${chainId.toString(16)}` },
    eth_blockNumber: { result: block.number },
    eth_getBlockByNumber: () => ({ result: { ...block, timestamp: `0x${Math.floor(systemClock.now() / 1_000).toString(16)}` } }),
    eth_getBalance: { result: '0x2386f26fc10000' },
    eth_gasPrice: { result: '0x3b9aca00' },
  })

const adminToken = 'screenshots-operator'

/** Accounts that the operator sees beside the one of the dashboard. */
const otherAccounts = [
  { name: 'wallet-app', plan: 'growth', label: 'customer 1042' },
  { name: 'indexer', plan: 'custom', label: 'customer 1077' },
  { name: 'trading-desk', plan: 'growth', label: 'customer 1101' },
] as const

const account = 'example'
const newcomer = 'newcomer'

/** The first network has no host of its own: calls without one are its. */
const openDeployment = (nodes: ReadonlyMap<NetworkName, readonly FakeNode[]>): Deployment =>
  createPortalDeployment('', {
    networks: Object.fromEntries(
      [...nodes].map(([name, its], i) => [
        name,
        {
          ...networkFile(
            name,
            its.map(({ url }) => url),
          ),
          ...{ chainId: chains[name], hosts: i === 0 ? ['127.0.0.1'] : [`${name}.localhost`] },
        },
      ]),
    ),
    gateway: { admin: { token: adminToken }, portal: { url: 'http://127.0.0.1', publicStatus: true } },
  })

/** The accounts, and the key that the calls of now have. */
const addAccounts = async ({ dir, run, addKey }: Deployment): Promise<string> => {
  await run('accounts', 'add', account, '--plan', 'core')
  await run('accounts', 'add', newcomer, '--plan', 'core')
  const added = []
  for (const options of [
    ['--name', 'indexer', '--credits', '500000', '--ips', '203.0.113.0/24,127.0.0.1'],
    ['--name', 'staging', '--networks', 'ethereum-mainnet,base-mainnet'],
    [
      '--name',
      'production dApp',
      '--methods',
      'eth_call,eth_getBalance,eth_getLogs',
      '--origins',
      'https://dapp.example',
      '--rate',
      '50/s',
    ],
  ]) {
    const { stdout, stderr } = await run('keys', 'add', account, ...options, '--json')
    if (stdout === '') throw new Error(stderr)
    added.push(JSON.parse(stdout) as { readonly id: string; readonly key: string })
  }
  for (const { name, plan, label } of otherAccounts) {
    await run('accounts', 'add', name, '--plan', plan, '--label', label)
    await addKey(name)
  }
  const accounts = JSON.parse((await run('accounts', 'list', '--json')).stdout) as readonly { readonly id: string; readonly name: string }[]
  const shares = [0.5, 0.15, 1]
  const keys = added.map(({ id }, i) => ({ id, share: shares[i] ?? 1 }))
  await seedUsage(dir, accounts.find(({ name }) => name === account)?.id ?? '', keys)
  return added[0]?.key ?? ''
}

/** Calls of now: many that succeed, and some of each way to fail. */
const callNow = async (gateway: GatewayProcess, key: string): Promise<void> => {
  const url = gateway.http(key)
  for (let i = 0; i < 200; i += 1) await call(url, 'eth_getBalance', [`0x${String(i).padStart(40, '0')}`, 'latest'])
  for (let i = 0; i < 4; i += 1) {
    await call(url, 'eth_getLogs', [{ fromBlock: '0x1499a3f', toBlock: '0x1' }])
    await call(url, 'eth_getBalance', ['0x1234', 'latest'])
    await call(url, 'eth_getBlance', [])
  }
}

/** Writes what is shown in both themes and all widths. */
const shoot = async (page: Page, name: string): Promise<void> => {
  for (const width of widths) {
    await page.setViewportSize({ width, height: heightPx })
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
      await page.waitForSelector('.skeleton', { state: 'detached' })
      // Charts are drawn with the next frame, in the size and the colors of now.
      await page.evaluate('new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)))')
      await page.screenshot({ path: join(allDir, `${name}-${width}-${colorScheme}.png`) })
    }
  }
  await page.setViewportSize({ width: widths[0], height: heightPx })
}

/** Each page of the navigation, and what else is worth a picture of some: by the name of the page. */
const shootAll = async (page: Page, prefix: string, prepare: Readonly<Record<string, () => Promise<void>>>): Promise<void> => {
  for (const title of await page.locator('nav a').allTextContents()) {
    const name = title.toLowerCase().replaceAll(' ', '-')
    await page.click(`nav >> text="${title}"`)
    await page.waitForSelector(`h1:has-text("${title}")`)
    await prepare[name]?.()
    await shoot(page, `${prefix}${name}`)
  }
}

const signIn = async (browser: Browser, deployment: Deployment, gateway: GatewayProcess, name: string): Promise<Page> => {
  const page = await (await browser.newContext({ viewport: { width: widths[0], height: heightPx } })).newPage()
  await page.goto(`${gateway.portal}/sign-in#${await printSignInToken(deployment, name)}`)
  await page.waitForSelector('[data-testid=credits-used]')
  return page
}

const shootDashboard = async (page: Page, key: string): Promise<void> => {
  const shown = async () => Number((await page.textContent('[data-testid=credits-used]'))?.replaceAll(/\D.*/g, ''))
  await waitUntil(async () => (await shown()) > 0)
  await shootAll(page, '', {
    'try-it': async () => {
      await page.selectOption('select >> nth=1', 'eth_getBalance')
      await page.fill('[name=key]', key)
      await page.click('text="Fill in examples"')
      await page.click('form [type=submit]')
      await page.waitForSelector('section[aria-label=Response]')
    },
  })
  await page.click('nav >> text="Keys"')
  await page.click('.page-heading button')
  await page.fill('dialog [name=name]', 'mobile app')
  await page.click('dialog .field:has([name=methods]) [role=combobox]')
  await page.keyboard.type('eth_get')
  await shoot(page, 'keys-create')
  await page.keyboard.press('Escape')
  await page.keyboard.press('Escape')
}

const shootFirstRun = async (page: Page): Promise<void> => {
  await page.click('.guide button')
  await page.click('[role=tab]:text-is("viem")')
  await shoot(page, 'first-run')
}

const shootSignedOut = async (page: Page, portal: string): Promise<void> => {
  await page.context().clearCookies()
  await page.goto(`${portal}/sign-in`)
  await page.waitForSelector('h1:has-text("Sign in")')
  await shoot(page, 'sign-in')
  await page.goto(`${portal}/status`)
  await page.waitForSelector('.network')
  await shoot(page, 'status')
}

const shootOperatorPage = async (page: Page, url: string): Promise<void> => {
  await page.goto(`${url}/operator`)
  await page.fill('[name=token]', adminToken)
  await page.keyboard.press('Enter')
  await page.waitForSelector('h1:has-text("Home")')
  await shootAll(page, 'operator-', {})
  await page.goto(`${url}/operator/accounts/${account}`)
  await page.waitForSelector('[data-testid=credits-left]')
  await shoot(page, 'operator-account')
}

const main = async (): Promise<void> => {
  if (skipWithoutChromium !== false) throw new Error(skipWithoutChromium)
  const nodes = new Map<NetworkName, readonly FakeNode[]>()
  for (const name of networkNames) nodes.set(name, [await startNode(chains[name]), await startNode(chains[name])])
  const deployment = openDeployment(nodes)
  const browser = await openBrowser()
  try {
    const key = await addAccounts(deployment)
    const gateway = await deployment.start()
    await callNow(gateway, key)
    const owner = await signInToPortal(deployment, gateway, account)
    await owner.post('/people', { name: 'Dana', role: 'developer' })
    rmSync(allDir, { recursive: true, force: true })
    mkdirSync(allDir, { recursive: true })
    await shootFirstRun(await signIn(browser, deployment, gateway, newcomer))
    const page = await signIn(browser, deployment, gateway, account)
    await shootDashboard(page, key)
    await shootOperatorPage(page, gateway.admin)
    await shootSignedOut(page, gateway.portal ?? '')
    mkdirSync(docsDir, { recursive: true })
    for (const name of shownInDocs)
      for (const theme of ['light', 'dark'])
        copyFileSync(join(allDir, `${name}-${widths[0]}-${theme}.png`), join(docsDir, `${name}-${theme}.png`))
  } finally {
    await browser.close()
    await deployment.remove()
    await Promise.all([...nodes.values()].flat().map(node => node.stop()))
  }
}

await main()
