import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import t from '../support/tap.ts'
import { createDocsSearch } from '../tools/docs-search.ts'
import { createDocsServer } from '../tools/docs-server.ts'
import { readPages } from './markdown.ts'

/** What strangers ask, in their words and not in those of the pages, and the sections that answer it. */
const questions: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  operator: {
    'How much RAM and how many cores do I need?': ['docs/limits.md#how-many-cores-and-how-much-ram'],
    'Does it run on Windows or macOS?': ['README.md#start'],
    'Is there a Docker image for ARM?': ['docs/deployment.md#container'],
    'How do I install a new version without downtime?': ['docs/deployment.md#upgrade-to-a-new-version'],
    'What happens when Redis is down?': ['docs/store.md#while-redis-is-unreachable', 'docs/credits.md#while-the-store-is-unreachable'],
    "How do I set up HTTPS with Let's Encrypt?": ['docs/deployment.md#https-tls-without-a-proxy'],
    'A customer abuses the service, how do I block him?': ['docs/credits.md#block-an-account-or-a-key'],
    'How can I support another blockchain?': ['docs/networks.md#add-a-network'],
    'A customer complains that a request was slow yesterday': ['docs/logs.md#find-one-slow-request-by-its-id'],
    'How do I back up the database?': ['docs/store.md#back-up-and-restore'],
  },
  author: {
    "How do I read the client's IP address or a request header?": ['docs/plugins.md#where-a-call-comes-from-ip-address-request-headers'],
    'How do I return a custom error code?': ['docs/plugins.md#a-custom-error-code'],
    'How can I unit test my plugin without a blockchain node?': ['docs/plugins.md#test-a-plugin'],
    'How do I publish my plugin on npm?': ['docs/plugins.md#publish-a-plugin'],
    'Can I call an external web service from a plugin?': ['docs/plugins.md#a-whole-plugin'],
    'How do I keep state that survives a config reload?': ['docs/plugins.md#life-cycle-start-reload-stop'],
    'How do I expose my own Prometheus counter?': ['docs/plugins.md#services-log-metrics-clock-and-others'],
    'Can a plugin modify the JSON that the node sent back?': ['docs/plugins.md#a-custom-result', 'docs/plugins.md#a-whole-plugin'],
    'How do I run something every minute in the background?': [
      'docs/plugins.md#services-log-metrics-clock-and-others',
      'docs/plugins.md#life-cycle-start-reload-stop',
    ],
    'What happens if my plugin throws an exception?': ['docs/plugins.md#the-handler-pass-on-answer-or-reject-a-call'],
  },
  developer: {
    'Which URL do I put into viem or ethers?': ['docs/app-developers.md#url-and-key', 'docs/app-developers.md#libraries'],
    'Why am I getting HTTP 429 too many requests?': ['docs/app-developers.md#when-a-call-fails', 'docs/credits.md#calls-per-second'],
    'How many requests can I still make today?': ['docs/app-developers.md#how-much-is-left-today'],
    'When does my quota reset?': ['docs/app-developers.md#credits-and-limits'],
    'What does a batch of calls cost?': ['docs/credits.md#what-a-call-or-a-batch-costs'],
    'getLogs returns an error because there are too many results': [
      'docs/app-developers.md#when-a-call-fails',
      'docs/errors.md#every-error-that-the-gateway-itself-returns',
    ],
    'My websocket got disconnected, did I miss events?': ['docs/app-developers.md#websockets'],
    'Is it safe to put my API key into a web page?': ['docs/app-developers.md#url-and-key'],
    'Do I pay for requests that fail?': ['docs/credits.md#what-a-call-or-a-batch-costs', 'docs/app-developers.md#when-a-call-fails'],
    'Will my transaction be sent twice when I retry it?': ['docs/failover.md#retries'],
  },
}

const search = createDocsSearch(readPages())

for (const [reader, list] of Object.entries(questions)) {
  void t.test(`a question of the ${reader} is answered by one of the first two sections that the search finds`, async t => {
    t.equal(Object.keys(list).length, 10)
    for (const [question, expected] of Object.entries(list)) {
      const found = search(question).map(({ target }) => target)
      t.ok(
        found.slice(0, 2).some(target => expected.includes(target)),
        `${question} -> ${found.slice(0, 4).join(', ')}; expected at ${expected.map(each => found.indexOf(each) + 1).join()}`,
      )
    }
  })
}

const serve = async (t: Test): Promise<string> => {
  const server = createDocsServer().listen(0, '127.0.0.1')
  t.teardown(() => void server.close())
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const attributesOf = (html: string, pattern: RegExp): readonly string[] => Array.from(html.matchAll(pattern), ([, value = '']) => value)

void t.test('every link and picture of every page that is served leads to something, and every anchor to a heading', async t => {
  const origin = await serve(t)
  const texts = new Map<string, Promise<{ readonly status: number; readonly text: string }>>()
  const load = (path: string) => {
    const loading =
      texts.get(path) ?? fetch(origin + path).then(async response => ({ status: response.status, text: await response.text() }))
    texts.set(path, loading)
    return loading
  }
  let links = 0
  for (const path of ['/', ...readPages().map(({ file }) => `/${file}`)]) {
    const { status, text } = await load(path)
    t.equal(status, 200, path)
    for (const target of attributesOf(text, /(?:href|src|srcset)="([^"]+)"/g)) {
      const { origin: linked, pathname, hash } = new URL(target, origin + path)
      if (linked !== origin) continue
      links += 1
      const found = await load(pathname)
      t.equal(found.status, 200, `${path}: ${target}`)
      if (hash !== '' && pathname.endsWith('.md')) t.ok(found.text.includes(` id="${hash.slice(1)}"`), `${path}: ${target}`)
    }
  }
  t.ok(links > 500, `${links} links`)
})

void t.test('the search lists sections with their headings, and shows what was asked as text', async t => {
  const origin = await serve(t)
  const ask = async (question: string) => (await fetch(`${origin}/?q=${encodeURIComponent(question)}`)).text()
  t.match(
    await ask('back up the database'),
    /<ol><li><a href="\/docs\/store.md#back-up-and-restore">The store › Back up and restore<\/a><br>[^<]/,
  )
  t.match(await ask('prometeus'), /Prometheus/, 'a word that no page has is taken for one that differs by a letter')
  t.match(await ask('<b>xyzzyq</b>'), /value="&#60;b&#62;xyzzyq&#60;\/b&#62;"[^]*Nothing was found/)
})

void t.test('files that no page links to are not served', async t => {
  const origin = await serve(t)
  for (const path of ['/package.json', '/data', '/.git/config', '/..%2f..%2fetc/passwd', '/docs/../package-lock.json'])
    t.equal((await fetch(origin + path)).status, 404, path)
})
