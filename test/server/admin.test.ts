import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { openAdminListener } from '../../src/server/index.ts'
import type { MetricFamily } from '../../src/services/metrics.ts'
import { TestLog } from '../support/fakes.ts'
import { post } from '../support/rpc-client.ts'

// The admin listener itself, over metrics that a test holds back or lets fail.

const open = async () => {
  const log = new TestLog()
  const pendingScrapes: { resolve(families: readonly MetricFamily[]): void; reject(error: Error): void }[] = []
  const status = {
    isReady: () => true,
    networks: () => [],
    metrics: () =>
      new Promise<readonly MetricFamily[]>((resolve, reject) => {
        pendingScrapes.push({ resolve, reject })
      }),
  }
  const admin = await openAdminListener({ host: '127.0.0.1', port: 0 }, status, log)
  t.teardown(() => admin.stop())
  const next = async () => {
    while (pendingScrapes.length === 0) await new Promise(setImmediate)
    return pendingScrapes.shift()!
  }
  const scrape = () => post(`${admin.url}/metrics`, '', { method: 'GET' })
  return { admin, log, next, scrape }
}

/** What the process writes to stderr while `work` runs. */
const stderrOf = async (work: () => Promise<void>): Promise<string> => {
  const written: string[] = []
  const write = process.stderr.write
  process.stderr.write = chunk => written.push(String(chunk)) > 0
  await work().finally(() => {
    process.stderr.write = write
  })
  return written.join('')
}

t.test('metrics that cannot be told are a 500 and a line in the log, and the listener serves on', async t => {
  const { log, next, scrape } = await open()
  t.equal(
    await stderrOf(async () => {
      const failing = scrape()
      const { reject } = await next()
      reject(new Error('inside'))
      const { status, text } = await failing
      t.equal(status, 500)
      t.notMatch(text, /inside/)
    }),
    '',
  )
  t.match(log.lines, [
    { level: 'error', message: 'a request to the admin listener failed because of a bug', fields: { err: { message: 'inside' } } },
  ])
  const scraping = scrape()
  const { resolve } = await next()
  resolve([])
  t.equal((await scraping).status, 200)
})

t.test('a scraper that resets its connection is a line in the log, and no error', async t => {
  const { admin, log, next } = await open()
  const { hostname, port } = new URL(admin.url)
  t.equal(
    await stderrOf(async () => {
      const scraper = connect(Number(port), hostname)
      await once(scraper, 'connect')
      scraper.write('GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n')
      const { resolve } = await next()
      scraper.resetAndDestroy()
      while (log.lines.length === 0) await new Promise(setImmediate)
      resolve([])
      await new Promise(setImmediate)
    }),
    '',
  )
  t.match(log.lines, [
    { level: 'info', message: 'a request to the admin listener was broken off', fields: { err: { code: 'ECONNRESET' } } },
  ])
})
