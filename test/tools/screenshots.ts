import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openStore } from '../../src/store/open-store.ts'
import { systemClock } from '../../src/services/clock.ts'
import { hourMs } from '../../src/util/dates.ts'
import { openBrowser, skipWithoutChromium } from '../support/browser.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { createPortalDeployment, printSignInToken } from '../support/portal-client.ts'
import { call } from '../support/rpc-client.ts'
import { waitUntil } from '../support/wait-until.ts'

// npm run screenshots: writes docs/images/ from a running gateway, with the usage of a week and calls of now.

const imageDir = fileURLToPath(new URL('../../../docs/images', import.meta.url))

const pages = ['Overview', 'Usage'] as const

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

const main = async (): Promise<void> => {
  if (skipWithoutChromium !== false) throw new Error(skipWithoutChromium)
  const node = await startFakeNode({
    eth_chainId: { result: '0x7a69' },
    eth_blockNumber: { result: '0x10' },
    eth_gasPrice: { result: '0x7' },
  })
  const deployment = createPortalDeployment(node.url)
  const browser = await openBrowser()
  try {
    const added = await deployment.run('accounts', 'add', 'example', '--plan', 'core', '--json')
    const created = await deployment.run('keys', 'add', 'example', '--credits', '500000', '--ips', '203.0.113.0/24,127.0.0.1', '--json')
    const { id, key } = JSON.parse(created.stdout) as { readonly id: string; readonly key: string }
    await seedUsage(deployment.dir, (JSON.parse(added.stdout) as { readonly id: string }).id, id)
    const gateway = await deployment.start()
    const page = await browser.newPage({ viewport: { width: 1_100, height: 760 } })
    await page.goto(`${gateway.portal}/sign-in#${await printSignInToken(deployment, 'example')}`)
    for (let i = 0; i < 200; i += 1) await call(gateway.http(key), 'eth_gasPrice')
    const shown = async () => Number((await page.textContent('[data-testid=credits-used]'))?.replaceAll(/\D.*/g, ''))
    await page.waitForSelector('[data-testid=credits-used]')
    await waitUntil(async () => (await shown()) > 0)
    mkdirSync(imageDir, { recursive: true })
    for (const title of pages) {
      await page.click(`nav >> text="${title}"`)
      await page.waitForSelector(`h1:has-text("${title}")`)
      await page.waitForSelector('table, figure')
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
        await page.screenshot({ path: join(imageDir, `${title.toLowerCase()}-${colorScheme}.png`) })
      }
    }
  } finally {
    await browser.close()
    await deployment.remove()
    await node.stop()
  }
}

await main()
