import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { networkInterfaces } from 'node:os'
import t from '../support/tap.ts'
import { Secret } from '../../src/plugin/secret.ts'
import { openAdminListener, openAppListener } from '../../src/server/index.ts'
import { LogFileError } from '../../src/services/line-writer.ts'
import type { LogLevel } from '../../src/services/log-settings.ts'
import { logLevels } from '../../src/services/log-settings.ts'
import { createMetricsRegistry } from '../../src/services/metrics.ts'
import type { MetricFamily } from '../../src/services/metrics.ts'
import { TestClock, TestLog, openTestAccessLog } from '../support/fakes.ts'
import { openRawConnection, post } from '../support/rpc-client.ts'

// The admin listener, with metrics that a test delays or makes fail.

const minuteMs = 60_000

const open = async (token?: Secret, host = '127.0.0.1') => {
  const clock = new TestClock()
  const { accessLog } = openTestAccessLog(clock)
  const log = new TestLog()
  const logLevel: { level: LogLevel } = { level: 'info' }
  const pendingScrapes: { resolve(families: readonly MetricFamily[]): void; reject(error: Error): void }[] = []
  const options = {
    isReady: () => true,
    networks: async () => [],
    metrics: () =>
      new Promise<readonly MetricFamily[]>((resolve, reject) => {
        pendingScrapes.push({ resolve, reject })
      }),
    logLevel,
    reloader: undefined,
    operatorApp: () => Promise.reject(new Error('not requested')),
    accessLog,
    token,
    url: 'https://Admin.Internal',
    trustedProxies: ['127.0.0.1'],
    clock,
    log,
    ownMetrics: createMetricsRegistry(),
  }
  const admin = await openAdminListener({ host, port: 0 }, options)
  t.teardown(() => admin.stop())
  const next = async () => {
    while (pendingScrapes.length === 0) await new Promise(setImmediate)
    return pendingScrapes.shift()!
  }
  const scrape = () => post(`${admin.url}/metrics`, '', { method: 'GET' })
  return { admin, clock, log, accessLog, logLevel, next, scrape }
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

t.test('an application that cannot be loaded is a 503 and a line in the log, and the next request loads it', async t => {
  const log = new TestLog()
  let loadCount = 0
  const load = async () => {
    loadCount += 1
    if (loadCount === 1) throw new Error('too many open files')
    return (_: unknown, res: ServerResponse) => void res.end('app')
  }
  const options = {
    peer: 'portal',
    tls: undefined,
    trustedProxies: [],
    clock: new TestClock(),
    log,
    ownMetrics: createMetricsRegistry(),
  } as const
  const listener = await openAppListener({ host: '127.0.0.1', port: 0 }, load, options)
  t.teardown(() => listener.stop())
  const get = () => post(listener.url, '', { method: 'GET' })
  t.equal((await get()).status, 503)
  t.match(log.lines, [{ level: 'error', fields: { err: { message: 'too many open files' } } }])
  t.match(await get(), { status: 200, text: 'app' })
})

t.test('metrics that cannot be collected are a 500 and a line in the log, and the listener serves on', async t => {
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
  t.match(log.lines, [{ level: 'error', message: 'admin request failed because of a bug', fields: { err: { message: 'inside' } } }])
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
  t.match(log.lines, [{ level: 'info', message: 'admin request aborted by the client', fields: { err: { code: 'ECONNRESET' } } }])
})

t.test('the log level', async t => {
  const { admin, clock, log, logLevel } = await open(new Secret('s3cret'))
  const send = (method: string, body = '', headers: Record<string, string> = { authorization: 'Bearer s3cret' }) =>
    post(`${admin.url}/log-level`, body, { method, headers })
  const put = (level: unknown) => send('PUT', JSON.stringify({ level }))

  t.test('is read and set with the token', async t => {
    t.same((await send('GET')).json(), { level: 'info' })
    for (const level of logLevels) {
      const { status, text } = await put(level)
      t.same([status, JSON.parse(text)], [200, { level }])
      t.equal(logLevel.level, level)
    }
    t.match(log.lines.at(-1), { level: 'warn', fields: { event: 'log-level', from: 'fatal', to: 'silent' } })
    t.same((await send('GET')).json(), { level: 'silent' })
  })

  t.test('is not shown without the token', async t => {
    for (const authorization of ['', 's3cret', 'Bearer ', 'Bearer s3cre', 'Bearer s3cret2', 'Basic s3cret']) {
      for (const method of ['GET', 'PUT', 'DELETE']) {
        const { status, headers, text } = await send(
          method,
          method === 'PUT' ? '{"level":"debug"}' : '',
          authorization === '' ? {} : { authorization },
        )
        t.same([status, headers['www-authenticate']], [401, 'Bearer'])
        t.notMatch(text, /silent|s3cret/)
      }
      clock.advance(minuteMs)
    }
    t.equal(logLevel.level, 'silent')
  })

  t.test('must be one of the levels of pino, which the error lists', async t => {
    for (const body of ['{"level":"loud"}', '{"level":30}', '{}', '[]', '""', '', 'level=debug']) {
      const { status, headers } = await send('PUT', body)
      t.equal(status, 400, body)
      t.match(headers['content-type'], /^(application\/json|text\/plain)/)
    }
    t.match((await put('loud')).json(), { error: /^level must be one of trace, .*silent$/, levels: logLevels })
    t.equal((await send('PUT', `{"level":"debug","x":"${'x'.repeat(2000)}"}`)).status, 413)
    t.equal(logLevel.level, 'silent')
    t.same(
      log.lines.filter(({ level }) => level === 'error'),
      [],
    )
  })

  t.test('has 5 wrong tokens a minute from one address answered; then every token from there gets 429', async t => {
    const sendFrom = async (address: string, token: string) =>
      send('GET', '', { authorization: `Bearer ${token}`, 'x-forwarded-for': address })
    for (let i = 0; i < 5; i += 1) t.equal((await sendFrom('192.0.2.1', `guess${i}`)).status, 401)
    t.match(log.lines.at(-1), { level: 'warn', fields: { event: 'admin-token-refused', address: '192.0.2.1' } })
    t.notMatch(JSON.stringify(log.lines), /guess/)
    clock.advance(minuteMs - 1_500)
    const { status, headers, json } = await sendFrom('192.0.2.1', 's3cret')
    t.same([status, headers['retry-after'], json()], [429, '2', { error: 'too many wrong tokens from this address; retry later' }])
    t.equal((await sendFrom('192.0.2.2', 's3cret')).status, 200, 'another address is not concerned')
    clock.advance(1_500)
    t.equal((await sendFrom('192.0.2.1', 's3cret')).status, 200)
    const statuses = await Promise.all(Array.from({ length: 20 }, () => sendFrom('2001:db8::1', 'guess').then(response => response.status)))
    t.equal(statuses.filter(each => each === 401).length, 5, 'guesses at the same time are counted too')
    t.equal((await sendFrom('2001:db8::ffff', 's3cret')).status, 429, 'a /64 of IPv6 is one address')
  })

  t.test('takes GET and PUT', async t => {
    const { status, headers } = await send('DELETE')
    t.same([status, headers['allow']], [405, 'GET, PUT'])
  })
})

t.test('an admin.token that is a JWT opens the listener, and other JWTs are guesses of it', async t => {
  const jwt = 'eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl'
  const { admin } = await open(new Secret(jwt))
  const send = async (token: string) =>
    (await post(`${admin.url}/log-level`, '', { method: 'GET', headers: { authorization: `Bearer ${token}` } })).status
  t.equal(await send(jwt), 200)
  for (let i = 0; i < 5; i += 1) t.equal(await send(`${jwt}x`), 401)
  t.equal(await send(jwt), 429)
})

t.test('health and metrics take any host; all else only loopback names, the own address and the host of admin.url', async t => {
  const { admin, next } = await open()
  const { port } = new URL(admin.url)
  const statusFor = async (path: string, ...hosts: readonly string[]) => {
    const raw = await openRawConnection(admin.url)
    raw.write(`GET ${path} HTTP/1.1\r\n${hosts.map(host => `Host: ${host}\r\n`).join('')}Connection: close\r\n\r\n`)
    return Number(/^HTTP\/1.1 (\d+) /.exec(await raw.received)?.[1])
  }
  for (const host of ['evil.example', '', `evil.example:${port}`]) {
    t.equal(await statusFor('/livez', host), 200)
    const reading = statusFor('/readyz?verbose', host)
    ;(await next()).resolve([])
    t.equal(await reading, 200)
    const scraping = statusFor('/metrics', host)
    ;(await next()).resolve([])
    t.equal(await scraping, 200)
  }
  const known = [
    'localhost',
    'LocalHost.',
    'a.localhost',
    '127.0.0.1',
    '127.9.9.9',
    '[::1]',
    '[0:0:0:0:0:0:0:1]',
    'Admin.Internal',
    'admin.internal',
  ]
  for (const host of known) {
    t.equal(await statusFor('/log-level', host), 404, host)
    t.equal(await statusFor('/log-level', `${host}:${port}`), 404, host)
  }
  for (const host of [
    'evil.example',
    'localhost.evil.example',
    'xlocalhost',
    '127.0.0.1.evil.example',
    '10.0.0.1',
    '[::2]',
    '0.0.0.0',
    'localhost:80@evil.example',
    '127.0.0.1:x',
    '',
  ]) {
    t.equal(await statusFor('/log-level', host), 421, host)
    t.equal(await statusFor('/', host), 421, host)
  }
  t.equal(await statusFor('/log-level'), 421, 'no host')
  t.equal(await statusFor('http://evil.example/log-level', 'localhost'), 421, 'the host of the request target counts')
})

t.test('without a token, the page of the operator says what it needs', async t => {
  const { admin } = await open()
  const { status, text } = await post(`${admin.url}/operator`, '', { method: 'GET' })
  t.equal(status, 404)
  t.match(text, 'set `admin.token` in gateway.yaml')
})

t.test('the own address of an admin listener that is not on the loopback interface is known', async t => {
  const address = Object.values(networkInterfaces())
    .flatMap(addresses => addresses ?? [])
    .find(({ family, internal }) => family === 'IPv4' && !internal)?.address
  if (address === undefined) return t.comment('this machine has no such address')
  for (const host of ['0.0.0.0', '::']) {
    const { admin } = await open(undefined, host)
    const url = `http://${address}:${new URL(admin.url).port}/nothing`
    t.equal((await post(url, '', { method: 'GET' })).status, 404)
    t.equal((await post(url, '', { method: 'GET', host: '192.0.2.1' })).status, 421)
  }
})

t.test('the access log', async t => {
  const { admin, accessLog, log } = await open(new Secret('s3cret'))
  const send = (method: string, body: unknown = undefined, path = '') =>
    post(`${admin.url}/access-log${path}`, body === undefined ? '' : JSON.stringify(body), {
      method,
      headers: { authorization: 'Bearer s3cret' },
    })
  const initial = accessLog.settings

  t.test('is read, and changed one setting at a time', async t => {
    t.same((await send('GET')).json(), initial)
    t.same((await send('PUT', { sample: 0.5 })).json(), { ...initial, sample: 0.5 })
    t.same((await send('PUT', { target: 'none' })).json(), { target: 'none', sample: 0.5 })
    t.match(log.lines.at(-1), { level: 'warn', fields: { event: 'access-log', from: { sample: 0.5 }, to: { target: 'none' } } })
    t.equal((await send('POST', undefined, '/reopen')).status, 200)
  })

  t.test('is not changed by what is wrong', async t => {
    const before = accessLog.settings
    for (const [body, error] of [
      [{ target: 'file' }, 'target must be one of none, stdout'],
      [{ target: '/etc/passwd' }, 'target must be one of none, stdout'],
      [{ sample: 2 }, 'sample must be a number from 0 to 1'],
      [{ sample: '1' }, 'sample must be a number from 0 to 1'],
      [{ sample: 0.1, slow: 1 }, 'slow is unknown: expected target, sample'],
      [['sample'], 'the body must be a JSON object'],
    ] as const) {
      const { status, text } = await send('PUT', body)
      t.same([status, JSON.parse(text)], [400, { error }])
    }
    t.equal(accessLog.settings, before)
  })

  t.test('gets 409 where its file cannot be opened anew', async t => {
    accessLog.reopen = () => {
      throw new LogFileError('cannot open the log file: ENOENT')
    }
    const { status, text } = await send('POST', undefined, '/reopen')
    t.same([status, JSON.parse(text)], [409, { error: 'cannot open the log file: ENOENT' }])
  })

  t.test('is not shown without the token', async t => {
    for (const path of ['', '/reopen']) {
      const { status, text } = await post(`${admin.url}/access-log${path}`, '', { method: 'POST' })
      t.same([status, JSON.parse(text)], [401, { error: 'send the token of `admin.token` as Authorization: Bearer TOKEN' }])
    }
  })
})

t.test('a body that nobody needs is not read', async t => {
  const { admin } = await open(new Secret('s3cret'))
  const raw = await openRawConnection(admin.url)
  raw.write('PUT /log-level HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000000\r\n\r\nx')
  t.match(await raw.received, /^HTTP\/1.1 401 /)
})

t.test('without a token there is no log level to set', async t => {
  const { admin, logLevel } = await open()
  for (const [method, body] of [
    ['GET', ''],
    ['PUT', '{"level":"debug"}'],
  ] as const)
    t.equal((await post(`${admin.url}/log-level`, body, { method, headers: { authorization: 'Bearer undefined' } })).status, 404)
  t.equal(logLevel.level, 'info')
})
