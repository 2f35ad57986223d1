import t from '../../../support/tap.ts'
import type { Test } from 'tap'
import { refuse } from '../../../../src/plugin/reply.ts'
import type { ChainUpdate, FeedListener } from '../../../../src/services/chain-heads/index.ts'
import { ancestorAt, responseAt, seededRandom } from '../../../support/model-chain.ts'
import type { ModelBlock, ModelNode } from '../../../support/model-chain.ts'
import { startFakeSubscriptionNode } from '../../../support/fake-subscription-node.ts'
import type { FakeSubscriptionNode } from '../../../support/fake-subscription-node.ts'
import { waitUntil } from '../../../support/wait-until.ts'
import { isJsonObject, toHexQuantity } from '../../../../src/util/json.ts'
import type { Json } from '../../../../src/plugin/call.ts'
import { openModelHeads } from '../model-heads.ts'
import type { ResponseOverride } from '../model-heads.ts'

/** What a subscriber makes of the updates; fails the test when one of them does not follow from those before. */
class Replay implements FeedListener {
  readonly blocks: { number: number; hash: string; json: string }[] = []
  addedCount = 0
  hasEnded = false
  readonly #t: Test

  constructor(t: Test) {
    this.#t = t
  }

  onUpdate({ removed, added }: ChainUpdate): void {
    for (const { hash } of removed) {
      const last = this.blocks.pop()
      if (last !== undefined && last.hash !== hash) this.#t.fail('a block was removed that is not the newest')
    }
    for (const { number, hash, json } of added) {
      const last = this.blocks.at(-1)
      if (last !== undefined && number !== last.number + 1) this.#t.fail(`block ${number} follows block ${last.number}`)
      const { parentHash } = JSON.parse(json) as { parentHash?: string }
      if (last !== undefined && parentHash !== undefined && parentHash !== last.hash) this.#t.fail('a header follows that is no child')
      this.blocks.push({ number, hash, json })
      this.addedCount += 1
    }
  }

  onEnd(): void {
    this.hasEnded = true
  }

  /** Are these the newest blocks of the chain up to the tip? */
  isChainOf(tip: ModelBlock): boolean {
    return this.blocks.at(-1)?.hash === tip.hash && this.blocks.every(({ number, hash }) => ancestorAt(tip, number)?.hash === hash)
  }
}

const openFeeds = async (t: Test, names: readonly string[], webSocketUrls = {}) => {
  const model = openModelHeads(names, undefined, {}, webSocketUrls)
  const listen = (kind: 'headers' | 'logs' | 'receipts') => {
    const replay = new Replay(t)
    return { replay, ...model.heads.feeds[kind].subscribe(replay) }
  }
  const [headers, logs] = [listen('headers'), listen('logs')]
  t.same(await Promise.all([headers.isStarted, logs.isStarted]), [true, true])
  t.teardown(() => {
    headers.close()
    logs.close()
    model.stop()
  })
  return { ...model, headers: headers.replay, logs: logs.replay, listen }
}

t.test('a feed replays to the canonical chain, whatever the chain and the upstreams do', async t => {
  const steps = Number(process.env['FEED_STEPS'] ?? 600)
  const model = await openFeeds(t, ['a', 'b', 'c'])
  const { chain, nodes, responseOverrides, advance, headers, logs } = model
  const random = seededRandom(11)
  const failing = new Set<ModelNode>()
  const disturb = (node: ModelNode): void => {
    const lag = random(3)
    const dice = random(12)
    if (dice === 0 && failing.size < nodes.length - 1) failing.add(node)
    else if (dice === 1) failing.delete(node)
    // An upstream is behind, stays on a branch that was left, or has the tip.
    else if (dice < 4) node.head = ancestorAt(chain.tip, chain.tip.number - lag) ?? node.head
    else if (dice > 5) node.head = chain.tip
    responseOverrides.set(node.name, (method, params) => (failing.has(node) ? undefined : node.answer(method, params)))
  }
  for (let step = 0; step < steps; step++) {
    const dice = random(10)
    if (dice < 6) chain.mine()
    else if (dice === 6) chain.reorg()
    else if (dice === 7) for (let i = random(30); i > 0; i--) chain.mine()
    chain.finalize()
    nodes.forEach(disturb)
    await advance(500)
    if (step % 100 !== 99) continue
    failing.clear()
    for (const node of nodes) node.head = chain.tip
    for (let i = 0; i < 60 && !(headers.isChainOf(chain.tip) && logs.isChainOf(chain.tip)); i++) await advance(500)
    t.ok(headers.isChainOf(chain.tip) && logs.isChainOf(chain.tip), `after ${step + 1} steps`)
  }
  t.notOk(headers.hasEnded || logs.hasEnded)
  t.ok(headers.addedCount > steps, `${headers.addedCount} headers`)
})

t.test('a feed', async t => {
  t.test('requests each block once, however many listen', async t => {
    const { chain, nodes, advance, requestCount, listen, headers, logs } = await openFeeds(t, ['a'])
    const others = [listen('headers'), listen('headers'), listen('logs')]
    await Promise.all(others.map(({ isStarted }) => isStarted))
    await advance(1_000)
    const [blocksBefore, logsBefore] = [requestCount('eth_getBlockByHash'), requestCount('eth_getLogs')]
    for (let i = 0; i < 5; i++) chain.mine()
    nodes.forEach(node => Object.assign(node, { head: chain.tip }))
    await advance(1_000)
    t.equal(requestCount('eth_getBlockByHash') - blocksBefore, 4)
    t.equal(requestCount('eth_getLogs') - logsBefore, 5)
    for (const { replay } of [...others, { replay: headers }, { replay: logs }]) t.equal(replay.addedCount, 5)
  })

  t.test('asks the next upstream for a block where one is slow, and that one first for those that follow', async t => {
    const { chain, nodeOf, nodes, responseOverrides, advance, headers, requests } = await openFeeds(t, ['a', 'b'])
    const isByHash = (method: string) => method === 'eth_getBlockByHash'
    responseOverrides.set('a', (method, params) => (isByHash(method) ? new Promise(() => undefined) : nodeOf('a').answer(method, params)))
    const mine = async (ms: number) => {
      for (let i = 0; i < 4; i++) chain.mine()
      nodes.forEach(node => Object.assign(node, { head: chain.tip }))
      await advance(ms)
    }
    await mine(2_000)
    t.equal(headers.addedCount, 4)
    const asked = requests.filter(request => request === 'a eth_getBlockByHash').length
    await mine(500)
    t.equal(headers.addedCount, 8)
    t.equal(requests.filter(request => request === 'a eth_getBlockByHash').length, asked)
  })

  t.test('does not go back with a lower head, but when no upstream has the blocks any more', async t => {
    const { chain, nodeOf, responseOverrides, advance, headers } = await openFeeds(t, ['a', 'b'])
    const before = chain.tip
    for (let i = 0; i < 3; i++) chain.mine()
    nodeOf('a').head = chain.tip
    await advance(1_000)
    responseOverrides.set('a', () => undefined)
    await advance(2_000)
    t.equal(headers.blocks.length, 3, 'only the other upstream answers, and it is behind')
    responseOverrides.clear()
    nodeOf('a').head = before
    await advance(30_000)
    t.equal(headers.blocks.length, 0)
  })

  t.test('ends when more blocks are missing than can be fetched', async t => {
    const { chain, nodes, advance, headers, logs } = await openFeeds(t, ['a'])
    for (let i = 0; i < 600; i++) chain.mine()
    nodes.forEach(node => Object.assign(node, { head: chain.tip }))
    await advance(5_000)
    t.same([headers.hasEnded, logs.hasEnded, headers.addedCount], [true, true, 0])
  })

  for (const depth of [15, 16, 20, 40]) {
    t.test(`has all blocks of a new branch that replaces ${depth} blocks, also those from before its start`, async t => {
      const { chain, nodes, responseOverrides, nodeOf, advance, headers, logs } = await openFeeds(t, ['a'])
      const left = chain.tip
      // A node keeps the blocks of the branch that it has left.
      responseOverrides.set('a', (method, params) => nodeOf('a').answer(method, params) ?? responseAt(left, chain.final, method, params))
      chain.fork(depth, depth + 1)
      nodes.forEach(node => Object.assign(node, { head: chain.tip }))
      await advance(2_000)
      const branch = Array.from({ length: depth + 1 }, (_, i) => ancestorAt(chain.tip, left.number - depth + 1 + i)?.hash)
      for (const { hasEnded, blocks } of [headers, logs]) {
        t.equal(hasEnded, false)
        t.same(
          blocks.map(({ hash }) => hash),
          branch,
        )
      }
    })
  }

  t.test('ends with a reorg to below the blocks that it knows, when no upstream returns those of the branch that was left', async t => {
    const { chain, nodes, advance, headers, logs } = await openFeeds(t, ['a'])
    chain.fork(40, 41)
    nodes.forEach(node => Object.assign(node, { head: chain.tip }))
    await advance(2_000)
    t.same([headers.hasEnded, logs.hasEnded, headers.addedCount], [true, true, 0])
  })

  for (const height of [101, 102]) {
    t.test(`has block 101 as soon as an upstream has returned it, though another has answered height ${height} to a caller`, async t => {
      const { heads, chain, nodeOf, requests, settle, advance, headers, logs } = await openFeeds(t, ['a', 'b'])
      await advance(1_000)
      chain.mine()
      nodeOf('b').head = chain.tip
      heads.reportHeight('a', height)
      requests.length = 0
      heads.pollLagging()
      await settle()
      t.same(
        [headers.blocks, logs.blocks].map(blocks => blocks.map(({ hash }) => hash)),
        [[chain.tip.hash], [chain.tip.hash]],
      )
      t.notOk(requests.includes('a eth_getBlockByNumber'), 'the other upstream has not been polled')
    })
  }

  for (const kind of ['headers', 'logs'] as const) {
    t.test(`of ${kind} has the blocks that the upstreams have, once sync() resolves, though a poll from before was in flight`, async t => {
      const { heads, chain, nodeOf, responseOverrides, advance, clock, settle, ...feeds } = await openFeeds(t, ['a'])
      await advance(1_000)
      const answers: (() => void)[] = []
      responseOverrides.set('a', (method, params) => {
        const answer = nodeOf('a').answer(method, params)
        if (method !== 'eth_getBlockByNumber') return answer
        return new Promise(resolve => answers.push(() => resolve(answer)))
      })
      clock.advance(500)
      await settle()
      t.equal(answers.length, 1, 'a poll is in flight')
      chain.mine()
      nodeOf('a').head = chain.tip
      let publishedBySync: number | undefined
      const synced = heads.feeds[kind].sync().then(() => (publishedBySync = feeds[kind].addedCount))
      for (let i = 0; i < 4; i++) {
        await settle()
        for (const answer of answers.splice(0)) answer()
      }
      await synced
      t.equal(publishedBySync, 1)
    })
  }

  t.test('does not start while no upstream answers', async t => {
    const { heads, responseOverrides, advance } = openModelHeads(['a'])
    responseOverrides.set('a', () => undefined)
    const { isStarted } = heads.feeds.headers.subscribe(new Replay(t))
    await advance(4_000)
    t.equal(await isStarted, false)
  })

  t.test('asks again for logs that a node leaves out, as the header tells that there are some', async t => {
    const { chain, nodes, nodeOf, responseOverrides, advance, logs } = await openFeeds(t, ['a', 'b'])
    responseOverrides.set('a', (method, params) => {
      if (method === 'eth_getLogs') return []
      const answer = nodeOf('a').answer(method, params)
      return method.startsWith('eth_getBlock') ? { ...(answer as object), logsBloom: '0x0010' } : answer
    })
    chain.mine()
    nodes.forEach(node => Object.assign(node, { head: chain.tip }))
    await advance(1_000)
    t.equal((JSON.parse(logs.blocks[0]?.json ?? '[]') as unknown[]).length, 1)
  })

  t.test('ends at a block whose logs exceed 32 MiB, which the log names, and starts anew behind it', async t => {
    const { chain, nodes, nodeOf, responseOverrides, advance, logs, listen, log } = await openFeeds(t, ['a', 'b'])
    const exceedOn = (name: string, hash: string): void => {
      responseOverrides.set(name, (method, params) =>
        method === 'eth_getLogs' && JSON.stringify(params).includes(hash) ? refuse('tooLarge') : nodeOf(name).answer(method, params),
      )
    }
    const mine = async (...exceeding: readonly string[]) => {
      chain.mine()
      for (const name of exceeding) exceedOn(name, chain.tip.hash)
      nodes.forEach(node => Object.assign(node, { head: chain.tip }))
      await advance(1_000)
      return chain.tip
    }
    await mine('a')
    t.same([logs.hasEnded, logs.addedCount, log.lines], [false, 1, []], 'another upstream returns them')
    const { number, hash } = await mine('a', 'b')
    t.same([logs.hasEnded, logs.addedCount], [true, 1])
    t.match(log.lines, [
      { level: 'error', fields: { block: number, hash, limit: '32 MiB' }, message: /^the logs of a block exceed a limit/ },
    ])
    const { replay, isStarted, close } = listen('logs')
    t.teardown(close)
    t.equal(await isStarted, true)
    const { number: next } = await mine()
    t.match([replay.hasEnded, replay.blocks], [false, [{ number: next }]])
  })
})

/** An error of a node. */
const nodeError = (code: number, message: string) =>
  ({ kind: 'node', source: 'node', fault: 'caller', status: 200, error: { code, message } }) as const

for (const [kind, method] of [
  ['logs', 'eth_getLogs'],
  ['receipts', 'eth_getBlockReceipts'],
] as const) {
  t.test(`a feed of ${kind}`, async t => {
    const open = async (t: Test) => {
      const model = await openFeeds(t, ['a', 'b'])
      const { replay, isStarted, close } = model.listen(kind)
      t.equal(await isStarted, true)
      t.teardown(close)
      const { chain, nodes, nodeOf, responseOverrides, advance } = model
      /** What the node answers about a block whose logs or receipts are requested. */
      const respond = (name: string, answer: (params: readonly Json[]) => ReturnType<ResponseOverride>): void => {
        responseOverrides.set(name, (called, params) => (called === method ? answer(params) : nodeOf(name).answer(called, params)))
      }
      const mine = async () => {
        chain.mine()
        nodes.forEach(node => Object.assign(node, { head: chain.tip }))
        await advance(1_000)
      }
      return { ...model, replay, respond, mine }
    }

    t.test('has those of each block, from an upstream that knows the block', async t => {
      const { chain, respond, nodeOf, replay, mine } = await open(t)
      respond('a', () => (kind === 'logs' ? nodeError(-32000, 'unknown block') : null))
      await mine()
      t.match(replay.blocks, [{ hash: chain.tip.hash }])
      t.same(
        JSON.parse(replay.blocks[0]?.json ?? ''),
        nodeOf('b').answer(method, [kind === 'logs' ? { blockHash: chain.tip.hash } : chain.tip.hash]),
      )
    })

    t.test('waits for an upstream that limits the rate, or does not answer, however long', async t => {
      const { respond, replay, mine, advance, responseOverrides, log } = await open(t)
      respond('a', () => nodeError(-32005, 'request rate limited'))
      respond('b', () => undefined)
      await mine()
      await advance(100_000)
      t.same([replay.hasEnded, replay.addedCount, log.lines.filter(({ level }) => level === 'error')], [false, 0, []])
      responseOverrides.clear()
      await advance(2_000)
      t.equal(replay.addedCount, 1)
    })

    t.test('ends at a block that each upstream has refused for a minute, and the log says why', async t => {
      const { chain, respond, replay, mine, advance, log } = await open(t)
      for (const name of ['a', 'b']) respond(name, () => nodeError(-32000, `leveldb: not found on ${name}`))
      await mine()
      await advance(50_000)
      t.equal(replay.hasEnded, false)
      await advance(15_000)
      t.same([replay.hasEnded, replay.addedCount], [true, 0])
      const { number, hash } = chain.tip
      t.match(log.lines.at(-1), {
        level: 'error',
        fields: { block: number, hash, cause: 'leveldb: not found on a' },
        message: `the ${kind} of a block are refused by each upstream: subscriptions to ${kind} end`,
      })
    })

    t.test('waits a minute for an upstream that is behind, where the other exceeds a limit or is late', async t => {
      for (const failure of [refuse('tooLarge'), refuse('timeout')]) {
        const { respond, replay, mine, advance, responseOverrides } = await open(t)
        respond('a', () => failure)
        respond('b', () => nodeError(-32000, 'unknown block'))
        await mine()
        await advance(50_000)
        t.same([replay.hasEnded, replay.addedCount], [false, 0])
        responseOverrides.delete('b')
        await advance(2_000)
        t.same([replay.hasEnded, replay.addedCount], [false, 1])
      }
    })

    t.test('ends at a block that each upstream has not returned in time for a minute', async t => {
      const { respond, replay, mine, advance, log } = await open(t)
      for (const name of ['a', 'b']) respond(name, () => refuse('timeout'))
      await mine()
      await advance(50_000)
      t.equal(replay.hasEnded, false)
      await advance(15_000)
      t.equal(replay.hasEnded, true)
      t.match(log.lines.at(-1), { level: 'error', fields: { cause: 'no answer within 10 s' } })
    })

    t.test('asks the next upstream where one is slow, and that one first for the blocks that follow', async t => {
      const { respond, replay, mine, advance, requests } = await open(t)
      const requestsTo = (name: string) => requests.filter(request => request === `${name} ${method}`).length
      respond('a', () => new Promise(() => undefined))
      await mine()
      t.equal(replay.addedCount, 0)
      await advance(500)
      t.equal(replay.addedCount, 1)
      const before = requestsTo('a')
      for (const count of [2, 3, 4]) {
        await mine()
        t.equal(replay.addedCount, count)
      }
      t.equal(requestsTo('a'), before)
    })

    t.test('goes on when an upstream that was behind has the block within a minute', async t => {
      const { respond, replay, mine, advance, responseOverrides } = await open(t)
      for (const name of ['a', 'b']) respond(name, () => nodeError(-32000, 'unknown block'))
      await mine()
      await advance(50_000)
      responseOverrides.clear()
      await advance(2_000)
      t.same([replay.hasEnded, replay.addedCount], [false, 1])
    })
  })
}

t.test(
  'a feed of logs ends at a block that has too many for its node, though that says so with the code of a limit of the rate',
  async t => {
    const { chain, nodes, nodeOf, responseOverrides, advance, logs, log } = await openFeeds(t, ['a'])
    const message = 'query returned more than 10000 results'
    responseOverrides.set('a', (method, params) =>
      method === 'eth_getLogs' ? nodeError(-32005, message) : nodeOf('a').answer(method, params),
    )
    chain.mine()
    nodes.forEach(node => Object.assign(node, { head: chain.tip }))
    await advance(1_000)
    t.equal(logs.hasEnded, true)
    t.match(log.lines, [
      { level: 'error', fields: { block: chain.tip.number, limit: message }, message: /^the logs of a block exceed a limit/ },
    ])
  },
)

t.test('a feed of receipts asks again for those that a node leaves out, as the header tells that there are some', async t => {
  const { chain, nodes, nodeOf, responseOverrides, advance, listen } = await openFeeds(t, ['a', 'b'])
  const { replay, isStarted, close } = listen('receipts')
  t.teardown(close)
  await isStarted
  responseOverrides.set('a', (method, params) => {
    if (method === 'eth_getBlockReceipts') return []
    const answer = nodeOf('a').answer(method, params)
    return method.startsWith('eth_getBlock') ? { ...(answer as object), receiptsRoot: `0x${'1'.repeat(64)}` } : answer
  })
  chain.mine()
  nodes.forEach(node => Object.assign(node, { head: chain.tip }))
  await advance(1_000)
  t.equal((JSON.parse(replay.blocks[0]?.json ?? '[]') as unknown[]).length, 1)
})

/** What the WebSocket of a node does with a new block, whose parent it has published before. */
type FeedFault = (node: FakeSubscriptionNode, block: ModelBlock, blocks: readonly ModelBlock[]) => void

const headerOf = ({ number, hash, parent }: ModelBlock) => ({
  number: toHexQuantity(number),
  hash,
  parentHash: parent?.hash,
  timestamp: '0x1',
})

const publish = (node: FakeSubscriptionNode, block: ModelBlock | undefined): void => {
  if (block !== undefined) node.publish(headerOf(block))
}

const feedFaults: Readonly<Record<string, FeedFault>> = {
  'is silent': () => undefined,
  'is behind': (node, _block, blocks) => publish(node, blocks.at(-5)),
  'stays on another fork': (node, block) =>
    node.publish({ ...headerOf(block), hash: `0x${'f'.repeat(64)}`, parentHash: `0x${'e'.repeat(64)}` }),
  'repeats blocks': (node, block, blocks) => [block, block, blocks.at(-2), block].forEach(each => publish(node, each)),
  'has them out of order': (node, block, blocks) =>
    [block, blocks.at(-3), blocks.at(-2), blocks.at(-4)].forEach(each => publish(node, each)),
  'leaves out blocks': (node, block) => (block.number % 3 === 0 ? publish(node, block) : undefined),
  'is closed at each block': node => node.dropConnections(),
  'sends what is no JSON': node => node.sendText('nonsense'),
  'sends messages that are too long': node => node.sendText(`"${'x'.repeat(200_000)}"`),
  'sends headers that are incomplete': node => node.publish({ number: '0x1', hash: null }),
  'sends a block of the far future': (node, block) => node.publish({ ...headerOf(block), number: '0x3b9aca00' }),
}

t.test('a feed has each block in order, whatever the WebSocket of an upstream does:', async t => {
  for (const [name, disturb] of Object.entries(feedFaults)) {
    t.test(`it ${name}`, async t => {
      const node = await startFakeSubscriptionNode(1)
      t.teardown(() => node.stop())
      const { chain, nodes, responseOverrides, advance, clock, headers, logs } = await openFeeds(t, ['a', 'b'], { a: node.url })
      // Without timestamps no head is implausible.
      for (const each of nodes) {
        responseOverrides.set(each.name, (method, params) => {
          const answer = each.answer(method, params)
          return isJsonObject(answer) ? { ...answer, timestamp: toHexQuantity(Math.floor(clock.now() / 1_000)) } : answer
        })
      }
      await node.waitForRequests('eth_subscribe', 1)
      const blocks: ModelBlock[] = []
      for (let i = 0; i < 20; i++) {
        if (i % 7 === 6) chain.reorg()
        else chain.mine()
        blocks.push(chain.tip)
        disturb(node, chain.tip, blocks)
        for (const each of nodes) each.head = chain.tip
        await advance(500)
      }
      await waitUntil(() => {
        clock.advance(250)
        return headers.isChainOf(chain.tip) && logs.isChainOf(chain.tip)
      })
      t.notOk(headers.hasEnded || logs.hasEnded)
      t.ok(headers.addedCount >= 20, `${headers.addedCount} headers`)
    })
  }
})
