import { createHook } from 'node:async_hooks'
import { channel } from 'node:diagnostics_channel'
import { setImmediate as turn } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import t from 'tap'
import type { Test } from 'tap'
import type { Json, Request, Target } from '../../src/call.ts'
import { wholeOf } from '../../src/pieces.ts'
import { isFailure } from '../../src/reply.ts'
import type { Failure, Reply } from '../../src/reply.ts'
import { Secret } from '../../src/secret.ts'
import { causeOf } from '../../src/services/agents/cause.ts'
import { exchange } from '../../src/services/agents/exchange.ts'
import { Gate } from '../../src/services/agents/gate.ts'
import type { Waiter } from '../../src/services/agents/gate.ts'
import { openAgents } from '../../src/services/agents/index.ts'
import type { Terms } from '../../src/services/agents/index.ts'
import { openNames } from '../../src/services/agents/names.ts'
import type { Hearer, Lines } from '../../src/services/agents/lines.ts'
import { placeOf } from '../../src/services/agents/place.ts'
import { openRoom } from '../../src/services/agents/room.ts'
import type { Room } from '../../src/services/agents/room.ts'
import { Watch } from '../../src/services/agents/watch.ts'
import { systemClock } from '../../src/services/clock.ts'
import type { Clock } from '../../src/services/clock.ts'
import { TestClock } from '../support/fakes.ts'
import { closesKept, faults, http, isRight, packs } from '../support/faults.ts'
import type { Fault } from '../support/faults.ts'
import { startNode } from '../support/node.ts'
import { deadUrl, rightResult, startBlackHole, startFaultyNode, startTlsNode } from '../support/faulty.ts'

const request: Request = { method: 'eth_call', params: [{ data: '0x1' }] }
const right = rightResult(request.method, request.params)
const targetOf = (url: string, over: Partial<Target> = {}): Target => ({ name: 'own', url: new Secret(url), source: 'node', ...over })
const terms = (over: Partial<Terms> = {}): Terms => ({
  timeout: 5000,
  maxBytes: 1 << 20,
  signal: new AbortController().signal,
  resend: true,
  ...over,
})
const text = (reply: Reply): string =>
  isFailure(reply) ? `${reply.kind}: ${reply.cause ?? reply.error.message}` : wholeOf(reply.result).toString()

const world = async (test: Test, fault: Fault = isRight, room: Room = openRoom(Infinity), clock: Clock = systemClock) => {
  const node = await startFaultyNode(fault)
  const agents = openAgents(clock, room)
  test.teardown(async () => {
    await agents.close()
    await node.stop()
  })
  const target = targetOf(node.url)
  return { node, agents, target, ask: (over: Partial<Terms> = {}) => agents.ask(target, request, terms(over)) }
}

const waiter = (): Waiter => ({ isOver: false, whenOver: undefined })

/** In ms. */
const timed = async (run: () => Promise<unknown>): Promise<number> => {
  const begun = performance.now()
  await run()
  return performance.now() - begun
}

t.test('time', async t => {
  t.test("a dripping answer is cut at the deadline, and is the node's fault", async t => {
    for (const name of ['drips an answer', 'drips white space', 'hangs mid body'] as const) {
      const { ask, node } = await world(t, faults[name])
      let reply: Reply | undefined
      const took = await timed(async () => {
        reply = await ask({ timeout: 500 })
      })
      t.match(reply, { kind: 'unavailable', fault: 'upstream', source: 'node' }, name)
      t.ok(took > 450 && took < 600, `${name}: ${took} ms`)
      await node.quiet()
    }
  })

  t.test('a long answer that does not end in time is a slow query, as callers may ask for as much as they like', async t => {
    const node = await startNode({ eth_call: { raw: `{"jsonrpc":"2.0","id":1,"result":"0x${'ab'.repeat(600_000)}`, then: 'hang' } })
    const agents = openAgents(systemClock, openRoom(Infinity))
    t.teardown(() => Promise.all([agents.close(), node.stop()]))
    t.match(await agents.ask(targetOf(node.url), request, terms({ timeout: 500, maxBytes: 1 << 24 })), {
      kind: 'timeout',
      fault: 'upstream',
    })
  })

  t.test('no byte until the deadline is a timeout', async t => {
    const { ask, node } = await world(t, faults.hangs)
    t.match(await ask({ timeout: 100 }), { kind: 'timeout', fault: 'upstream' })
    await node.quiet()
  })

  t.test('a silent node without a pulse hangs; with one the query is only slow', async t => {
    const { ask } = await world(t, faults.hangs)
    t.match(await ask({ silence: { after: 30, alive: async () => false } }), { kind: 'unavailable', hangs: true, cause: 'the node hangs' })
    t.match(await ask({ timeout: 200, silence: { after: 30, alive: async () => true } }), { kind: 'timeout' })
  })

  t.test('a node that takes connections and reads nothing is found out in the same way', async t => {
    const hole = await startBlackHole()
    const agents = openAgents(systemClock, openRoom(Infinity))
    t.teardown(() => Promise.all([agents.close(), hole.stop()]))
    const reply = await agents.ask(targetOf(hole.url), request, terms({ silence: { after: 30, alive: async () => false } }))
    t.match(reply, { hangs: true })
  })
})

t.test('name and password in a URL go out as HTTP Basic, and nothing does without them', async t => {
  const node = await startNode({ eth_call: { result: '0x1' } })
  const agents = openAgents(systemClock, openRoom(Infinity))
  t.teardown(() => Promise.all([agents.close(), node.stop()]))
  const at = (user: string) => node.url.replace('//', `//${user}`)
  for (const user of ['me:s%40cret%', 'me@', '@', '']) {
    t.equal(text(await agents.ask(targetOf(at(user === '' || user.endsWith('@') ? user : `${user}@`)), request, terms())), '"0x1"')
  }
  t.same(
    node.received.map(({ headers }) => headers.authorization),
    [`Basic ${btoa('me:s@cret%')}`, `Basic ${btoa('me:')}`, undefined, undefined],
  )
})

t.test('callers who leave', async t => {
  t.test('take their connection with them within 100 ms', async t => {
    for (const name of ['hangs', 'hangs mid body', 'answers endlessly'] as const) {
      const { ask, node } = await world(t, faults[name])
      const caller = new AbortController()
      const asked = ask({ signal: caller.signal, maxBytes: 2 ** 40 })
      await node.reached(1)
      const took = await timed(async () => {
        caller.abort()
        t.match(await asked, { fault: 'caller', cause: 'the caller left' })
        await node.quiet()
      })
      t.ok(took < 100, `${name}: ${took} ms`)
    }
  })

  t.test('before anything was sent cost the node nothing', async t => {
    const { ask, node } = await world(t)
    t.match(await ask({ signal: AbortSignal.abort() }), { fault: 'caller' })
    t.equal(node.asked(), 0)
  })
})

t.test('a kept connection that closes as it is used again', async t => {
  t.test('10,000 calls see no error', async t => {
    const { agents, target, node } = await world(t, closesKept)
    let wrong = 0
    for (let round = 0; round < 100; round++) {
      const replies = await Promise.all(Array.from({ length: 100 }, () => agents.ask(target, request, terms())))
      wrong += replies.filter(reply => text(reply) !== right).length
    }
    t.equal(wrong, 0)
    t.ok(node.asked() > 10_000, `${node.asked()} requests`)
  })

  t.test('what must not be sent twice is not', async t => {
    const { agents, target, node } = await world(t, closesKept)
    for (let i = 0; i < 10; i++) {
      t.equal(text(await agents.ask(target, request, terms({ resend: false }))), right)
      await turn() // the connection is free again
    }
    t.match(await agents.ask(target, request, terms({ resend: false })), { kind: 'unavailable', cause: /the connection was closed/ })
    t.equal(node.asked(), 11)
  })

  t.test('is counted, unlike one that we close', async t => {
    const { node, agents, target, ask } = await world(t, closesKept)
    t.equal(agents.losses(target), 0)
    for (let i = 0; i < 11; i++) t.equal(text(await ask()), right)
    t.equal(agents.losses(target), 1)
    node.does(isRight)
    await ask()
    const before = agents.losses(target)
    const end = new AbortController()
    node.does(faults.hangs)
    const left = ask({ signal: end.signal })
    end.abort()
    await left
    t.equal(agents.losses(target), before)
  })

  t.test('a new connection that closes is not tried again', async t => {
    const { ask, node } = await world(t, faults['resets at once'])
    t.match(await ask(), { fault: 'upstream' })
    t.equal(node.asked(), 1)
  })

  t.test('connections are replaced after 30 s, so that a node which moves is found', async t => {
    let later = 0
    const clock = { ...systemClock, monotonic: () => systemClock.monotonic() + later }
    const { ask, node } = await world(t, isRight, openRoom(Infinity), clock)
    const opened: unknown[] = []
    const note = (message: unknown) => opened.push(message)
    channel('undici:client:connected').subscribe(note)
    t.teardown(() => channel('undici:client:connected').unsubscribe(note))
    await ask()
    await turn()
    await ask()
    await turn()
    t.equal(opened.length, 1)
    later = 31_000
    await ask()
    t.equal(opened.length, 2)
    t.equal(node.asked(), 3)
  })
})

t.test('compressed answers', async t => {
  t.test('are not asked for, but inflated when they come', async t => {
    for (const encoding of ['gzip', 'deflate', 'br'] as const) {
      const { ask } = await world(t, packs(encoding))
      t.equal(text(await ask()), right, encoding)
    }
  })

  t.test('are plain when the header says no more than that', async t => {
    for (const encoding of ['', 'identity', 'Identity']) {
      const { ask } = await world(t, (socket, asked) => {
        const body = JSON.stringify({ jsonrpc: '2.0', id: asked.id, result: JSON.parse(asked.right) as Json })
        socket.write(http(body, { headers: { 'content-encoding': encoding } }))
      })
      t.equal(text(await ask()), right, `"${encoding}"`)
    }
  })

  t.test('that take long keep nobody waiting', async t => {
    const held: (() => void)[] = []
    const { ask } = await world(t, (socket, asked) => {
      const bytes = gzipSync(JSON.stringify({ jsonrpc: '2.0', id: asked.id, result: JSON.parse(asked.right) as Json }))
      socket.write(http('', { headers: { 'content-encoding': 'gzip', 'content-length': bytes.length } }))
      socket.write(bytes.subarray(0, 12))
      held.push(() => void socket.write(bytes.subarray(12)))
      if (held.length === 5) for (const finish of held) finish()
    })
    for (const reply of await Promise.all(Array.from({ length: 5 }, () => ask()))) t.equal(text(reply), right)
  })

  t.test('are cut at the cap on inflated bytes', async t => {
    for (const name of ['sends a gzip bomb', 'sends a deflate bomb', 'sends a brotli bomb'] as const) {
      const room = openRoom(Infinity)
      const { ask, node } = await world(t, faults[name], room)
      t.match(await ask(), { kind: 'tooLarge', elsewhere: true }, name)
      t.equal(room.taken, 0)
      await node.quiet()
    }
  })

  t.test('that are chained, unknown or broken are no answers', async t => {
    for (const name of ['packs twice', 'packs in an unknown way', 'breaks off a gzip', 'lies about gzip'] as const) {
      const { ask } = await world(t, faults[name])
      t.match(await ask(), { kind: 'unavailable', fault: 'upstream', cause: /compressed/ }, name)
    }
  })
})

t.test('bytes', async t => {
  t.test('an answer is cut at its cap', async t => {
    for (const name of ['answers endlessly', 'answers hugely'] as const) {
      const { ask, node } = await world(t, faults[name])
      t.match(await ask(), { kind: 'tooLarge', source: 'node', elsewhere: true }, name)
      await node.quiet()
    }
  })

  t.test('all answers together stay within their room, and give it back', async t => {
    const room = openRoom(1000)
    const { ask } = await world(t, socket => void socket.write(http('{"jsonrpc":"2.0",', { headers: { 'content-length': 10_000 } })), room)
    const callers = Array.from({ length: 100 }, () => new AbortController())
    const replies = callers.map(caller => ask({ signal: caller.signal }))
    const refused = await Promise.race(replies)
    t.match(refused, {
      kind: 'unavailable',
      status: 503,
      source: 'gateway',
      fault: 'gateway',
      retryAfter: 1,
      error: { message: 'too many answers wait to be read now' },
    })
    t.ok(room.taken <= 1000)
    for (const caller of callers) caller.abort()
    await Promise.all(replies)
    t.equal(room.taken, 0)
  })
})

t.test('others get their turn while a long answer comes in', async t => {
  const clock = new TestClock()
  let paused = 0
  let hearer: Hearer | undefined
  const trip = {
    abort: () => undefined,
    pause: () => {
      paused += 1
    },
    resume: () => {
      paused -= 1
    },
  }
  const lines: Lines = {
    post: (_place, _body, hears) => {
      hearer = hears
      return trip
    },
    losses: () => 0,
    close: async () => undefined,
  }
  const target = targetOf('http://127.0.0.1:9')
  const reply = exchange(lines, placeOf(target.url), {
    id: 1,
    request,
    target,
    maxBytes: 1 << 22,
    resend: true,
    clock,
    room: openRoom(Infinity),
    inflaters: { zlib: new Gate(clock, 1), brotli: new Gate(clock, 1) },
    watch: new Watch(clock, terms()),
    onEnd: () => undefined,
  })
  const answer = Buffer.from(`{"jsonrpc":"2.0","id":1,"result":"${'0'.repeat(1 << 20)}"}`)
  hearer?.head(200, {})
  hearer?.chunk(answer.subarray(0, 700_000))
  t.equal(paused, 0)
  hearer?.chunk(answer.subarray(700_000, 800_000))
  t.equal(paused, 1)
  await turn()
  t.equal(paused, 0)
  hearer?.chunk(answer.subarray(800_000))
  hearer?.end()
  t.equal(text(await reply).length, (1 << 20) + 2)
})

t.test('calls at once', async t => {
  t.test('as many as the limit are under way, as many wait, and the rest go elsewhere at once', async t => {
    const held: (() => void)[] = []
    const { node, agents } = await world(t, (socket, asked) => void held.push(() => isRight(socket, asked)))
    const target = targetOf(node.url, { concurrency: 2 })
    const ask = (over = {}) => agents.ask(target, request, terms(over))
    const first = [ask(), ask(), ask(), ask()]
    t.match(await ask(), { kind: 'unavailable', source: 'gateway', fault: 'upstream', upstream: 'own' })
    await node.reached(2)
    const health = ask({ ahead: true })
    await node.reached(3)
    t.pass('what asks after the health of the node does not wait')
    for (const answer of held.splice(0)) answer()
    await node.reached(5)
    for (const answer of held.splice(0)) answer()
    t.same((await Promise.all([...first, health])).map(text), Array(5).fill(right))
  })

  t.test('a place is waited for no longer than a second', async t => {
    const clock = new TestClock()
    const gate = new Gate(clock, 1)
    t.equal(gate.enter(waiter()), true)
    const second = gate.enter(waiter())
    clock.turn(1000)
    t.equal(await second, false)
    gate.leave()
    t.equal(gate.enter(waiter()), true)
  })

  t.test('who leaves while waiting gives up the wait', async t => {
    const gate = new Gate(new TestClock(), 1)
    gate.enter(waiter())
    const second = waiter()
    const waiting = gate.enter(second)
    second.whenOver?.()
    t.equal(await waiting, false)
  })
})

t.test('a user and a password in the URL become an Authorization header', async t => {
  const { headers } = placeOf(new Secret('https://us%40er:pass@node.test/path?key=1'))
  t.equal(headers[headers.indexOf('authorization') + 1], `Basic ${Buffer.from('us@er:pass').toString('base64')}`)
  t.match(placeOf(new Secret('http://node.test:8545/path?key=1')), { origin: 'http://node.test:8545', path: '/path?key=1' })
  t.notOk(placeOf(new Secret('http://node.test')).headers.includes('authorization'))
})

t.test('host names', async t => {
  t.test('are looked up once for all connections that open at once', async t => {
    const { node } = await world(t)
    const agents = openAgents(systemClock, openRoom(Infinity))
    t.teardown(() => agents.close())
    const target = targetOf(node.url.replace('127.0.0.1', 'localhost'))
    let asked = 0
    const hook = createHook({
      init: (_id, type) => {
        asked += Number(type === 'GETADDRINFOREQWRAP')
      },
    }).enable()
    const replies = await Promise.all(Array.from({ length: 50 }, () => agents.ask(target, request, terms())))
    hook.disable()
    t.same(new Set(replies.map(text)), new Set([right]))
    t.equal(node.open, 50)
    t.equal(asked, 1)
  })

  t.test('are looked up anew by the next, also after an error, and apart from others', async t => {
    const asked: { readonly host: string; tell(...found: Found): void }[] = []
    const look = openNames((host, _options, tell) => void asked.push({ host, tell }))
    const found: Found[] = []
    const ask = (host: string) => look(host, { all: true }, (...all) => void found.push(all))
    for (const host of ['a.test', 'b.test', 'a.test']) ask(host)
    t.same(
      asked.map(({ host }) => host),
      ['a.test', 'b.test'],
    )
    const error = new Error('ENOTFOUND')
    asked[0]?.tell(error, [])
    t.same(found, [
      [error, []],
      [error, []],
    ])
    ask('a.test')
    asked[2]?.tell(null, [{ address: '127.0.0.1', family: 4 }])
    t.same(found.at(-1), [null, [{ address: '127.0.0.1', family: 4 }]])
    t.equal(asked.length, 3)
  })
})

type Found = Parameters<Parameters<ReturnType<typeof openNames>>[2]>

t.test('what went wrong is said without the URL', async t => {
  const agents = openAgents(systemClock, openRoom(Infinity))
  const untrusted = await startTlsNode('self-signed')
  t.teardown(() => Promise.all([agents.close(), untrusted.stop()]))
  const causeAt = async (url: string) => {
    const reply = await agents.ask(targetOf(`${url}/v3/secret-key`), request, terms())
    t.match(reply, { kind: 'unavailable', fault: 'upstream', source: 'node' })
    t.notMatch(JSON.stringify(reply), /secret-key/)
    return isFailure(reply) ? reply.cause : undefined
  }
  t.match(await causeAt(await deadUrl()), /nothing listens there/)
  t.match(await causeAt(untrusted.url), /TLS failed \(DEPTH_ZERO_SELF_SIGNED_CERT\)/)
  t.match(await causeAt('http://no-such-host.invalid'), /the host name cannot be resolved/)
})

t.test("what is not an answer is the node's fault, whatever it is", async t => {
  const { node, ask } = await world(t)
  // Of these some take long, and some are well-formed: what they mean is for `upstream` to say.
  const others = [
    'hangs',
    'drips',
    'again',
    'bomb',
    'endlessly',
    'hugely',
    'internal',
    'behind',
    'promises more',
    'in JSON',
    'for none',
    'lacks',
    '413',
  ]
  for (const [name, fault] of Object.entries(faults)) {
    if (others.some(word => name.includes(word))) continue
    node.does(fault)
    t.match(await ask({ timeout: 1000 }), { kind: 'unavailable', fault: 'upstream', source: 'node' }, name)
  }
  node.does(isRight)
  t.equal(text(await ask()), right)
})

t.test('an answer that nobody asked for never becomes the answer to the next call', async t => {
  const { ask } = await world(t, faults['sends another answer behind'])
  for (let i = 0; i < 50; i++) t.not(text(await ask()), '"0xbad"')
})

t.test('a limit says how long it holds', async t => {
  const { node, ask } = await world(t, faults['limits us'])
  t.same(limitOf(await ask()), ['limited', undefined])
  node.does(faults['limits us for a second'])
  t.same(limitOf(await ask()), ['limited', 1])
  const date = new Date(systemClock.now() + 90_000).toUTCString()
  node.does(socket => void socket.write(http('', { status: 429, headers: { 'retry-after': date } })))
  const [, seconds] = limitOf(await ask())
  t.ok(Number(seconds) > 80 && Number(seconds) <= 90)
})

const limitOf = (reply: Reply) => (isFailure(reply) ? [reply.meaning, reply.retryAfter] : [])

t.test('an HTTP status that is a failure', async t => {
  const error = { code: -32000, message: 'Query timeout exceeded.' }
  const says =
    (status: number, rest: object, headers = {}): Fault =>
    (socket, { id }) =>
      void socket.write(http(JSON.stringify({ jsonrpc: '2.0', id, ...rest }), { status, headers }))
  const heard = async (fault: Fault) => {
    const reply = await (await world(t, fault)).ask()
    return isFailure(reply) ? { kind: reply.kind, fault: reply.fault, cause: reply.cause, said: reply.said } : reply
  }

  t.test('brings along what the node said, if that is a JSON-RPC error', async t => {
    for (const status of [500, 503, 504]) {
      t.same(await heard(says(status, { error })), { kind: 'unavailable', fault: 'upstream', cause: `HTTP ${status}`, said: error })
    }
  })

  t.test('is all there is, whatever else comes', async t => {
    const alone = { kind: 'unavailable', fault: 'upstream', cause: 'HTTP 503', said: undefined }
    for (const fault of [
      says(503, { result: '0xbad' }),
      says(503, { id: 0, error }),
      says(503, { error }, { 'content-type': 'text/html' }),
      says(503, { error }, { 'content-encoding': 'lzma' }),
      says(503, { error: 'no' }),
      ((socket, { id }) =>
        void socket.end(`HTTP/1.1 503 X\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"id":${id}`)) as Fault,
    ])
      t.same(await heard(fault), alone)
  })
})

t.test('a node that takes no request of this length', async t => {
  const tooLong: Partial<Failure> = {
    kind: 'bodyTooLarge',
    fault: 'upstream',
    elsewhere: true,
    source: 'node',
    upstream: 'own',
    status: 413,
  }

  t.test('says nothing about its health: another one may take it', async t => {
    for (const status of [413, 414, 431]) {
      for (const body of ['', '<html>no</html>', '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"too large"}}']) {
        const { ask } = await world(t, socket => void socket.write(http(body, { status })))
        t.match(await ask(), { ...tooLong, cause: `HTTP ${status}` }, `${status} ${body}`)
      }
    }
  })

  t.test('and closes the connection before it has said so to the end, is taken at its word', async t => {
    const { ask } = await world(t, socket => void socket.end('HTTP/1.1 413 X\r\ncontent-length: 10\r\n\r\nno'))
    t.match(await ask(), tooLong)
  })

  t.test('and says why in JSON-RPC, is heard', async t => {
    const error = { code: -32614, message: 'eth_getLogs is limited to a 10,000 range' }
    const { ask } = await world(
      t,
      (socket, { id }) => void socket.write(http(JSON.stringify({ jsonrpc: '2.0', id, error }), { status: 413 })),
    )
    t.match(await ask(), { kind: 'node', error, fault: 'caller' })
  })
})

t.test('a bug of ours is not blamed on the node', async t => {
  const { agents, target } = await world(t)
  const circle: unknown[] = []
  circle.push(circle)
  await t.rejects(agents.ask(target, { method: 'eth_call', params: circle as never }, terms()), TypeError)
  const broken: Room = {
    take: () => {
      throw new RangeError('a bug')
    },
    give: () => undefined,
    taken: 0,
  }
  const { ask } = await world(t, isRight, broken)
  await t.rejects(ask(), RangeError)
  t.equal(causeOf(Object.assign(new Error('x'), { code: 'ERR_INVALID_ARG_TYPE' })), undefined)
})

t.test('redirects are not followed', async t => {
  const trap = await startFaultyNode()
  const { ask } = await world(t, socket => void socket.write(http('', { status: 307, headers: { location: trap.url } })))
  t.teardown(() => trap.stop())
  t.match(await ask(), { kind: 'unavailable', cause: 'HTTP 307' })
  t.equal(trap.asked(), 0)
})
