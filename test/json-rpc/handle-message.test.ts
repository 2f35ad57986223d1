import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import t from '../support/tap.ts'
import { Cancellation } from '../../src/plugin/call.ts'
import type { Call, Json, Signal } from '../../src/plugin/call.ts'
import type { DirectNext } from '../../src/plugin/internal.ts'
import type { Next } from '../../src/plugin/plugin.ts'
import { isFailure, refuse } from '../../src/plugin/reply.ts'
import type { Reply } from '../../src/plugin/reply.ts'
import { handleMessage, internalErrorResponse, failureResponse } from '../../src/json-rpc/handle-message.ts'
import { bodyToLatin1, bodyToBuffer } from '../../src/json-rpc/serialize-response.ts'
import type { RpcResponse } from '../../src/json-rpc/handle-message.ts'
import { createMessageParser } from '../../src/json-rpc/parse-message.ts'
import type { ParseMessage } from '../../src/json-rpc/parse-message.ts'
import { generateApiKey } from '../../src/services/accounts/api-key.ts'
import { FairScheduler } from '../../src/server/fair-scheduler.ts'
import type { BatchMemory, BatchScheduler } from '../../src/json-rpc/run-batch.ts'
import { CallerMemory, MemoryBudget } from '../../src/services/memory-budget.ts'
import { isJsonObject } from '../../src/util/json.ts'
import { fakeCharge, fakeOrigin, TestClock, TestLog, fakeAccessLog } from '../support/fakes.ts'

const limits = { depth: 64, batch: 100, batchReply: 64 << 20, batchConcurrency: 64, batchTimeout: 30_000 }

const resultOf = (text: string, more: Partial<Reply> = {}): Reply => ({ result: Buffer.from(text), source: 'node', ...more }) as Reply // a spread of a union of shapes

const nodeErrorReply = (code: number, message: string, data?: Json): Reply => ({
  error: data === undefined ? { code, message } : { code, message, data },
  kind: 'node',
  fault: 'caller',
  status: 200,
  source: 'node',
})

/** Refuses what is no request, as the first plugin of a pipeline does; every other result is "0x1". */
const runEnvelope: Next = async ({ message }) => {
  const id = isJsonObject(message) ? message['id'] : true
  return typeof id === 'boolean' || (typeof id === 'object' && id !== null)
    ? refuse('invalid', { message: 'invalid request: test' })
    : resultOf('"0x1"')
}

interface HandlerOverrides {
  readonly run?: DirectNext
  readonly log?: TestLog
  readonly limits?: object
  readonly parse?: ParseMessage
  readonly clock?: TestClock
  readonly signal?: Signal
  readonly memory?: BatchMemory
  readonly scheduler?: BatchScheduler
}

/** No batch waits for a turn. */
const freeScheduler: BatchScheduler = { enter: () => undefined }

/** One parser for all tests: what it has cached must not change a response. */
const parse = createMessageParser(limits)

const callerMemory = (maxBytes: number): CallerMemory => new CallerMemory(new MemoryBudget(maxBytes), 'alice')

const handle = async (
  message: string | Uint8Array,
  { signal = new Cancellation(), memory = callerMemory(1 << 30), scheduler = freeScheduler, ...over }: HandlerOverrides = {},
): Promise<RpcResponse> =>
  handleMessage(
    {
      parse,
      run: runEnvelope,
      clock: new TestClock(),
      log: new TestLog(),
      accessLog: fakeAccessLog,
      ...over,
      limits: { ...limits, ...over.limits },
    },
    Buffer.from(message),
    fakeOrigin({ signal }),
    memory,
    scheduler,
  )

const responseTextOf = ({ body }: RpcResponse): string | undefined => (body === undefined ? undefined : bodyToBuffer(body).toString())

const handleToText = async (message: string | Uint8Array, over?: HandlerOverrides): Promise<string | undefined> =>
  responseTextOf(await handle(message, over))

const withReply = (reply: Reply): HandlerOverrides => ({ run: async () => reply })

const request = (id: string, more = ''): string => `{"jsonrpc":"2.0","id":${id},"method":"eth_blockNumber"${more}}`
const notification = '{"jsonrpc":"2.0","method":"eth_blockNumber","params":[]}'
const successText = (id: string): string => `{"jsonrpc":"2.0","id":${id},"result":"0x1"}`
const errorText = (id: string, code: number, message: string): string =>
  `{"jsonrpc":"2.0","id":${id},"error":{"code":${code},"message":"${message}"}}`
const invalidRequestText = (what: string): string => errorText('null', -32600, `invalid request: ${what}`)
const batchOf = (...members: readonly string[]): string => `[${members.join()}]`
const parseError = errorText('null', -32700, 'parse error')

t.test('the id comes back as it was written', async t => {
  for (const id of [
    '0',
    '1',
    '-1',
    '-0',
    '42',
    '6458874991179852',
    '9007199254740993',
    '18446744073709551616',
    '1.0',
    '1e0',
    '1e400',
    '1.5E-3',
    'null',
    '""',
    '"1"',
    '"null"',
    '"8f14e45f-ceea-467f-9575-6b6e9e2d3c1a"',
    '"\\u0041\\n\\/"',
    '"é漢😀"',
    '"\\ud800"',
    `"${'a'.repeat(5000)}"`,
  ]) {
    const shown = id.slice(0, 40)
    t.equal(await handleToText(request(id)), successText(id), shown)
    t.equal(await handleToText(batchOf(request(id))), batchOf(successText(id)), `${shown} in a batch`)
    t.equal(await handleToText(request(id), withReply(nodeErrorReply(3, 'x'))), errorText(id, 3, 'x'), `${shown} with an error`)
  }
})

t.test('an id of another type comes back as null', async t => {
  for (const id of ['true', 'false', '{}', '[]', '[1]', '{"id":1}']) {
    t.equal(await handleToText(request(id)), invalidRequestText('test'), id)
    t.equal(await handleToText(request(id), withReply(resultOf('"0x1"'))), successText('null'), `${id}, where the pipeline accepts it`)
  }
})

t.test('the id is found at any position', async t => {
  t.equal(await handleToText(' {\n"params" : [ {"id":2} ] , "id"\t:\r1 , "method":"x","jsonrpc":"2.0" } '), successText('1'))
  t.equal(await handleToText('{"x":{"id":2},"Id":3,"id ":4,"méthod":5,"id":1}'), successText('1'))
})

t.test('a result is sent as the node wrote it, and is not copied', async t => {
  const result = '{ "n": 90071992547409931.0, "s":"\\u0041é", "a":[ 1,2 ] }'
  t.equal(await handleToText(request('1'), withReply(resultOf(result))), `{"jsonrpc":"2.0","id":1,"result":${result}}`)
  const reply = { result: Buffer.alloc(100_000, 0x20), source: 'node' } as const
  for (const message of [request('1'), batchOf(request('1'), request('2'))]) {
    const { body } = await handle(message, withReply(reply))
    t.ok(body?.chunks.includes(reply.result))
    t.equal(body?.byteLength, bodyToBuffer(body!).length)
    t.equal(bodyToLatin1(body!), bodyToBuffer(body!).toString('latin1'))
  }
})

t.test('an error is serialized with code, message and data, in any script', async t => {
  const text = await handleToText(request('1'), withReply(nodeErrorReply(-32000, 'größer 漢 "x"\n', { at: ['0x1', null] })))
  const error = '{"code":-32000,"message":"größer 漢 \\"x\\"\\n","data":{"at":["0x1",null]}}'
  t.equal(text, `{"jsonrpc":"2.0","id":1,"error":${error}}`)
})

t.test('status and retryAfter are those of a single failure; the status of a success is 200', async t => {
  t.match(await handle(request('1')), { status: 200, retryAfter: undefined })
  const tooFast = withReply(refuse('rate', { retryAfter: 2 }))
  t.match(await handle(request('1'), tooFast), { status: 429, retryAfter: 2 })
  t.match(await handle(batchOf(request('1')), tooFast), { status: 200, retryAfter: undefined })
  t.match(await handle(request('1'), withReply(refuse('spent'))), { status: 402, retryAfter: undefined })
  t.match(failureResponse(refuse('key')), { status: 401, replies: [{ kind: 'key' }] })
})

t.test('a message that is not JSON is one parse error with id null', async t => {
  for (const text of ['', ' ', 'hello', '{', '[', '{"id":1', '[{"id":1}', '{"id":1}x', '{"id":1}{"id":2}']) {
    t.equal(await handleToText(text), parseError, text)
  }
  t.equal(await handleToText(`\ufeff${request('1')}`), parseError, 'a byte order mark is no JSON')
  t.equal(await handleToText(Buffer.from('7b226964223a22ff227d', 'hex')), parseError, 'not UTF-8')
  t.equal(await handleToText(Buffer.from(request('"é"'), 'latin1')), parseError, 'latin1')
  t.equal(await handleToText(Buffer.from(request('1'), 'utf16le')), parseError, 'UTF-16')
})

t.test('a JSON value that is no request is one invalid request with id null, never a batch', async t => {
  for (const text of ['42', '"x"', 'null', 'true', '-1e5']) t.equal(await handleToText(text), invalidRequestText('test'), text)
})

t.test('a notification', async t => {
  t.test('runs and gets no response', async t => {
    const ran: Json[] = []
    const all = await handle(notification, { run: async ({ message }) => (ran.push(message), resultOf('1')) })
    t.match(all, { body: undefined, status: 204, replies: [{ source: 'node' }] })
    t.same(ran, [JSON.parse(notification)])
  })

  t.test('gets none when it fails either', async t => {
    const bug: Next = () => {
      throw new Error('a bug')
    }
    for (const given of [withReply(refuse('rate', { retryAfter: 2 })), withReply(nodeErrorReply(3, 'x')), { run: bug }]) {
      t.match(await handle(notification, given), { body: undefined, status: 204, retryAfter: undefined })
    }
  })

  t.test('gets a response with id null when it is no valid request', async t => {
    const refusing = withReply(refuse('invalid', { message: 'invalid request: test' }))
    t.equal(await handleToText('{}', refusing), invalidRequestText('test'))
    t.equal(await handleToText('[{}]', refusing), batchOf(invalidRequestText('test')))
  })
})

t.test('a batch', async t => {
  t.test('gets its responses in the order of the calls, whatever the order of completion', async t => {
    const waiting: (() => void)[] = []
    const run: Next = ({ message }) =>
      new Promise(resolve => {
        waiting.unshift(() => resolve(resultOf(JSON.stringify((message as { id: Json }).id))))
        if (waiting.length === 3) for (const finish of waiting) finish()
      })
    t.same(
      JSON.parse((await handleToText(batchOf(request('1'), request('2'), request('3')), { run })) ?? ''),
      [1, 2, 3].map(id => ({ jsonrpc: '2.0', id, result: id })),
    )
  })

  t.test('starts all its calls in order before it waits for any', async t => {
    const started: Json[] = []
    const pending = handle(batchOf(request('1'), request('2'), request('3')), {
      run: ({ message }) => (started.push((message as { id: Json }).id), Promise.resolve(resultOf('1'))),
    })
    t.same(started, [1, 2, 3])
    await pending
  })

  t.test('of one stays a batch', async t => {
    t.equal(await handleToText(batchOf(request('1'))), batchOf(successText('1')))
  })
  t.test('may use an id twice', async t => {
    t.equal(await handleToText(batchOf(request('1'), request('1'))), batchOf(successText('1'), successText('1')))
  })
  t.test('has no responses to notifications', async t => {
    const batch = batchOf(notification, request('1'), notification, request('2'))
    t.equal(await handleToText(batch), batchOf(successText('1'), successText('2')))
  })
  t.test('of notifications only gets no response', async t => {
    t.match(await handle(batchOf(notification, notification)), { body: undefined, status: 204, replies: { length: 2 } })
  })
  t.test('has an error for each entry that is no request', async t => {
    const invalid = ['1', '"x"', 'null', '[]', batchOf(request('1'))]
    t.equal(
      await handleToText(batchOf(...invalid, request('7'))),
      batchOf(...invalid.map(() => invalidRequestText('test')), successText('7')),
    )
  })
  t.test('that is empty is one invalid request, not an empty array', async t => {
    t.equal(await handleToText('[]'), invalidRequestText('the batch is empty'))
    t.equal(await handleToText(' [ ] '), invalidRequestText('the batch is empty'))
  })

  t.test('runs so many of its calls at the same time, begun in their order', async t => {
    const started: Json[] = []
    const running: (() => void)[] = []
    const run: Next = ({ message }) =>
      new Promise(resolve => {
        started.push((message as { id: Json }).id)
        running.push(() => resolve(resultOf(JSON.stringify((message as { id: Json }).id))))
      })
    const pending = handleToText(batchOf(...[1, 2, 3, 4, 5].map(id => request(`${id}`))), { run, limits: { batchConcurrency: 2 } })
    t.same(started, [1, 2])
    for (const [finished, next] of [
      [1, [1, 2, 3]],
      [0, [1, 2, 3, 4]],
      [0, [1, 2, 3, 4, 5]],
    ] as const) {
      running.splice(finished, 1)[0]?.()
      await setImmediate()
      t.same(started, next)
    }
    for (const finish of running) finish()
    t.same(
      JSON.parse((await pending) ?? '').map(({ result }: { result: Json }) => result),
      [1, 2, 3, 4, 5],
    )
  })

  t.test('lets others have their turn while it runs', async t => {
    const scheduler = new FairScheduler(new TestClock())
    for (const owner of ['bob', 'alice', 'bob']) scheduler.enter(owner, 1)
    let begun = 0
    let answered = 0
    const countAt = async (turn: Promise<void> | undefined) => {
      await turn
      return begun
    }
    const text = handleToText(batchOf(...Array<string>(500).fill(request('1'))), {
      parse: createMessageParser({ ...limits, batch: 500 }),
      scheduler,
      run: async () => {
        begun += 1
        await setImmediate()
        answered += 1
        return resultOf('"0x1"')
      },
    })
    const callsBefore: number[] = []
    while (answered < 500) {
      callsBefore.push(await countAt(scheduler.enter('bob', 1)))
      await setImmediate()
    }
    t.equal(JSON.parse((await text) ?? '').length, 500)
    const callsBetween = callsBefore.map((count, i) => count - (callsBefore[i - 1] ?? 0))
    t.ok(Math.max(...callsBetween) <= 48, `${Math.max(...callsBetween)} calls between two of another account`)
  })

  t.test('that the cache answers lets others have their turn too', async t => {
    const turns: number[] = []
    await handleToText(batchOf(...Array<string>(1000).fill(request('1'))), {
      parse: createMessageParser({ ...limits, batch: 1000 }),
      scheduler: {
        enter(_owner, units) {
          turns.push(units)
          return undefined
        },
      },
      run: () => resultOf('"0x1"'),
    })
    t.same(turns, Array(7).fill(16))
  })

  t.test('whose answers are long takes turns by their bytes', async t => {
    let usedUnits = 0
    await handleToText(batchOf(...Array<string>(64).fill(request('1'))), {
      parse: createMessageParser({ ...limits, batch: 64 }),
      scheduler: {
        enter(_owner, units) {
          usedUnits += units
          return undefined
        },
      },
      run: () => resultOf(`"${'x'.repeat(65_536)}"`),
    })
    t.equal(usedUnits, 128)
  })

  t.test('that takes too long has an error for each call that has not begun', async t => {
    const clock = new TestClock()
    const ran: Json[] = []
    const run: Next = async ({ message }) => {
      ran.push((message as { id?: Json }).id ?? null)
      clock.advance(400)
      return resultOf('"0x1"')
    }
    const batch = batchOf(request('1'), request('2'), request('3'), request('"4"'), notification)
    const text = await handleToText(batch, { run, clock, limits: { batchConcurrency: 1, batchTimeout: 1000 } })
    const late = (id: string) => errorText(id, -32002, 'the batch takes too long; send fewer calls in a batch')
    t.equal(text, batchOf(successText('1'), successText('2'), successText('3'), late('"4"')))
    t.same(ran, [1, 2, 3])
  })

  t.test('whose caller has disconnected begins no further call', async t => {
    const signal = new Cancellation()
    let count = 0
    const run: Next = async () => {
      count += 1
      signal.abort()
      return resultOf('"0x1"')
    }
    const { replies } = await handle(batchOf(request('1'), request('2'), request('3')), { run, signal, limits: { batchConcurrency: 1 } })
    t.equal(count, 1)
    t.match(replies, [{ source: 'node' }, { kind: 'unavailable', fault: 'caller' }, { kind: 'unavailable', fault: 'caller' }])
  })

  t.test('asks no further call once a response does not fit', async t => {
    const ran: Json[] = []
    const run: Next = async ({ message }) => {
      ran.push((message as { id?: Json }).id ?? null)
      return resultOf(`"${'x'.repeat(500)}"`)
    }
    const refused = Array<string>(101).fill(request('1'))
    t.equal(
      await handleToText(batchOf(...refused), { limits: { batchReply: 600 } }),
      batchOf(...refused.map(() => errorText('1', -32600, 'invalid request: more than 100 calls in a batch'))),
      'refusals are no answers',
    )
    const { body, replies } = await handle(batchOf(...['1', '2', '3', '4'].map(id => request(id)), notification), {
      run,
      limits: { batchConcurrency: 1, batchReply: 600 },
    })
    t.same(ran, [1, 2])
    t.match(JSON.parse(bodyToBuffer(body!).toString()), [{ id: 1, result: /x/ }, ...[2, 3, 4].map(id => ({ id, error: { code: -32003 } }))])
    t.match(replies, [{ source: 'node' }, ...Array(4).fill({ kind: 'tooLarge', source: 'gateway', charge: undefined })])
  })
})

t.test('the responses of a batch', async t => {
  const resultBytes = 100_000
  const count = 20
  const batch = batchOf(...Array.from({ length: count }, (_, i) => request(`${i}`)))

  t.test('are reserved in the memory budget until all of them are there', async t => {
    const budget = new MemoryBudget(100 * resultBytes)
    const memory = new CallerMemory(budget, 'alice')
    const reserved: number[] = []
    const run: Next = async () => {
      await setImmediate()
      reserved.push(budget.reservedBytes)
      return { result: Buffer.alloc(resultBytes, '1'), source: 'node' }
    }
    const { body } = await handle(batch, { run, memory, limits: { batchConcurrency: 1 } })
    t.equal(JSON.parse(bodyToBuffer(body!).toString()).length, count)
    t.ok(
      reserved.every((bytes, i) => bytes >= i * resultBytes),
      `${reserved}`,
    )
    t.equal(budget.reservedBytes, 0, 'who sends the response reserves its bytes')
  })

  t.test('that do not fit it are refused and refunded, and the rest is not asked', async t => {
    const budget = new MemoryBudget(10 * resultBytes)
    const memory = new CallerMemory(budget, 'alice')
    const refunds: string[] = []
    const charge = fakeCharge(outcome => void refunds.push(outcome))
    let asked = 0
    const run: Next = async () => {
      await setImmediate()
      asked += 1
      t.ok(budget.reservedBytes < 10 * resultBytes)
      return { result: Buffer.alloc(resultBytes, '1'), source: 'node', charge }
    }
    const { body, replies } = await handle(batch, { run, memory, limits: { batchConcurrency: 2 } })
    const answers = JSON.parse(bodyToBuffer(body!).toString()) as { id: number; error?: { code: number; message: string } }[]
    t.same(
      answers.map(({ id }) => id),
      Array.from({ length: count }, (_, i) => i),
    )
    const refused = answers.filter(({ error }) => error !== undefined)
    t.ok(refused.length > count / 2 && refused.length < count, `${refused.length} refused`)
    t.ok(
      refused.every(
        ({ error }) => error?.code === -32002 && error.message.startsWith('too many bytes are in flight for the answers of the batch'),
      ),
    )
    t.equal(asked - refunds.length, count - refused.length, 'who was asked and is not answered gets the credits back')
    t.ok(asked <= count - refused.length + 2)
    t.ok(refunds.every(outcome => outcome === 'unavailable'))
    t.equal(replies.filter(isFailure).length, refused.length)
    t.equal(budget.reservedBytes, 0)
  })

  t.test('that are known at once need no room but that of one call', async t => {
    let reservedCalls = 0
    const memory = {
      owner: 'alice',
      reserve: () => true,
      release: () => undefined,
      reserveCall: () => (reservedCalls += 1) > 0,
      releaseCalls: () => undefined,
    }
    const run = () => resultOf('"0x1"')
    t.equal(await handleToText(batch, { run, memory }), batchOf(...Array.from({ length: count }, (_, i) => successText(`${i}`))))
    t.equal(reservedCalls, 0)
    await handleToText(batch, { run: async () => run(), memory })
    t.ok(reservedCalls > 0)
  })

  t.test('need room for each call in flight: without it, fewer calls run at the same time', async t => {
    const budget = new MemoryBudget(100_000)
    const memory = new CallerMemory(budget, 'alice')
    let running = 0
    let most = 0
    const run: Next = async () => {
      running += 1
      most = Math.max(most, running)
      await setImmediate()
      running -= 1
      return resultOf('"0x1"')
    }
    t.equal(await handleToText(batch, { run, memory }), batchOf(...Array.from({ length: count }, (_, i) => successText(`${i}`))))
    t.ok(most > 1 && most < 10, `${most}`)
    t.equal(budget.reservedBytes, 0)
  })
})

/** Replies that can be paid back, and what has become of them. */
const settledReplies = () => {
  const [refunded, settled]: [string[], string[]] = [[], []]
  const replyTo = (id: unknown, text = '"0x1"'): Reply =>
    resultOf(text, {
      charge: fakeCharge(outcome => void refunded.push(`${id} ${outcome}`)),
      onSettled: isDelivered => void settled.push(`${id} ${isDelivered}`),
    })
  return { refunded, settled, replyTo }
}

const idOf = (message: Json): unknown => (isJsonObject(message) ? message['id'] : undefined)

t.test('a bug of a batch itself', async t => {
  /** The reservation of this number is a bug. */
  const brokenMemory = (brokenAt: number) => {
    const memory = { owner: 'alice', bytes: 0, calls: 0, reservations: 0 }
    return Object.assign(memory, {
      reserve: (bytes: number) => {
        if ((memory.reservations += 1) === brokenAt) throw new Error('bug')
        memory.bytes += bytes
        return true
      },
      release: (bytes: number) => void (memory.bytes -= bytes),
      reserveCall: () => (memory.calls += 1) > 0,
      releaseCalls: (count: number) => void (memory.calls -= count),
    })
  }
  const batch = batchOf(...['1', '2', '3', '4'].map(id => request(id)))

  t.test('is one internal error; each call that has run is refunded and settled once, also one that answers later', async t => {
    const { refunded, settled, replyTo } = settledReplies()
    const [log, memory] = [new TestLog(), brokenMemory(2)]
    const run: DirectNext = async ({ message }) => {
      const id = idOf(message)
      for (let turn = 0; turn < (id === 1 ? 5 : 0); turn++) await setImmediate()
      return replyTo(id)
    }
    const text = await handleToText(batch, { run, log, memory, limits: { batchConcurrency: 2 } })
    t.match(JSON.parse(text ?? ''), { id: null, error: { code: -32603, data: { requestId: 'r-1' } } })
    t.equal(log.lines.length, 1)
    t.same(refunded.sort(), ['1 internal', '2 internal', '3 internal'])
    t.same(settled.sort(), ['1 false', '2 false', '3 false'])
    t.match(memory, { bytes: 0, calls: 0 }, 'nothing stays reserved')
  })

  t.test('begins no further call, and leaves nothing unsettled where turns fail', async t => {
    const { refunded, settled, replyTo } = settledReplies()
    const ids: unknown[] = []
    const longText = `"${'x'.repeat(600_000)}"`
    const run: DirectNext = ({ message }) => {
      ids.push(idOf(message))
      return replyTo(idOf(message), longText)
    }
    const scheduler = { enter: () => Promise.reject(new Error('bug')) }
    const calls = Array.from({ length: 100 }, (_, i) => request(String(i)))
    const text = await handleToText(batchOf(...calls), { run, scheduler })
    t.match(JSON.parse(text ?? ''), { id: null, error: { code: -32603 } })
    t.ok(ids.length > 0 && ids.length < 10, `${ids.length} have begun`)
    t.same(
      refunded,
      ids.map(id => `${id} internal`),
    )
    t.same(
      settled,
      ids.map(id => `${id} false`),
    )
  })
})

t.test('a reply that cannot be serialized because of a bug is refunded and settled', async t => {
  const { refunded, settled, replyTo } = settledReplies()
  const unserializable = { ...replyTo(1), result: undefined } as never
  const text = await handleToText(batchOf(request('1'), request('2')), {
    run: ({ message }) => (idOf(message) === 1 ? unserializable : replyTo(2)),
  })
  t.match(JSON.parse(text ?? ''), [
    { id: 1, error: { code: -32603 } },
    { id: 2, result: '0x1' },
  ])
  t.same([refunded, settled], [['1 internal'], ['1 false']])
})

t.test('a message over a limit', async t => {
  const never = {
    run: () => {
      throw new Error('reached')
    },
  }
  const tooMany = (id: string): string => errorText(id, -32600, 'invalid request: more than 100 calls in a batch')

  t.test('has an error for each id of a batch, and none for notifications', async t => {
    const ids = ['1', '18446744073709551616', '"8f14"', '"\\u0041"', 'null', '-1.5e3', '"é"']
    const log = new TestLog()
    const others = Array<string>(94).fill(notification)
    const text = await handleToText(batchOf(...ids.map(id => request(id)), ...others), { ...never, log })
    t.equal(text, batchOf(...ids.map(tooMany)))
    const unreadable = ['1', '[]', 'null', request('true'), request('[1]'), request('1', ',"id":2')]
    const mixed = batchOf(...unreadable, ...others, ` {"\\u0069d" :\t7 } `)
    t.equal(await handleToText(mixed, { ...never, log }), batchOf(...unreadable.map(() => tooMany('null')), tooMany('7')))
    t.match(await handle(batchOf(...Array<string>(101).fill(notification)), never), { status: 204, body: undefined, isBatch: true })
    t.same(log.lines, [])
    const calls = Array<string>(100).fill(request('1'))
    t.equal(await handleToText(batchOf(...calls)), batchOf(...calls.map(() => successText('1'))), 'at the limit it is served')
  })

  t.test('has them for up to 10,000 members; above that, one error without an id', async t => {
    const most = Array.from({ length: 10_000 }, (_, i) => request(`${i}`))
    t.equal(await handleToText(batchOf(...most), never), batchOf(...most.map((_, i) => tooMany(`${i}`))))
    t.equal(await handleToText(batchOf(...most, notification), never), tooMany('null'))
    t.equal(await handleToText(`[${'[],'.repeat(340_000)}1]`, never), tooMany('null'))
    t.equal(await handleToText(`[${'1,'.repeat(500_000)}`, never), tooMany('null'))
  })

  t.test('has the ids too when it has too many values or members', async t => {
    const values = (id: string, count: number): string => request(id, `,"params":[${'{},'.repeat(count)}1]`)
    const tooManyValues = (id: string): string => errorText(id, -32600, 'invalid request: more than 25000 values')
    t.equal(await handleToText(values('7', 300_000), never), tooManyValues('7'))
    t.equal(
      await handleToText(batchOf(values('7', 13_000), notification, values('"8"', 13_000)), never),
      batchOf(...['7', '"8"'].map(tooManyValues)),
    )
    const members = Array.from({ length: 30 }, (_, i) => `,"x${i}":${i}`).join('')
    const tooManyMembers = (id: string): string => errorText(id, -32600, 'invalid request: more than 32 members in a request')
    t.equal(await handleToText(batchOf(request('1'), request('2', members)), never), batchOf(tooManyMembers('1'), tooManyMembers('2')))
  })

  t.test('that is no JSON is a parse error, and one that is too deep has one error', async t => {
    const calls = Array<string>(150).fill(request('1')).join()
    t.equal(await handleToText(`[${calls}`, never), parseError)
    t.equal(await handleToText(`[${calls},${'['.repeat(70)}${']'.repeat(70)}]`, never), invalidRequestText('nested deeper than 64 levels'))
  })

  t.test('has no answer longer than four times the message and 4 KiB', async () => {
    const member = fc.constantFrom('1', '{}', '[]', '{"id":1}', '{"id":""}', request('1'), notification)
    await fc.assert(
      fc.asyncProperty(fc.array(member, { minLength: 1, maxLength: 5 }), fc.integer({ min: 1, max: 600 }), async (members, times) => {
        const message = batchOf(...Array<string[]>(times).fill(members).flat())
        const text = await handleToText(message, {
          run: async () => refuse('invalid', { message: 'invalid request: it must be an object' }),
        })
        return (text?.length ?? 0) <= 4 * message.length + 4096
      }),
      // The example's errors are one byte longer.
      { numRuns: 200, examples: [[['{"id":""}', '1', '1', notification], 82]] },
    )
  })
})

t.test('a response to a batch that exceeds its limit', async t => {
  const refunds: string[] = []
  const kept: string[] = []
  const run: Next = async ({ message }) => {
    const id = String((message as { id?: Json }).id)
    return resultOf(`"${'x'.repeat(id === '2' ? 500 : 10)}"`, {
      source: id === '3' ? 'node' : 'cache',
      credits: 80,
      charge: fakeCharge(
        outcome => void refunds.push(`${id} ${outcome}`),
        outcome => void kept.push(`${id} ${outcome}`),
      ),
    })
  }
  const small = (id: number): string => `{"jsonrpc":"2.0","id":${id},"result":"xxxxxxxxxx"}`
  const tooLarge = (id: number): string => errorText(String(id), -32003, 'response too large')
  const batch = batchOf(notification, ...['1', '2', '3', '4'].map(id => request(id)))
  const fittingBytes = batchOf(small(1), small(3)).length

  t.test(
    'replaces what does not fit with an error, and refunds its charge unless a node answered it; both are recorded as that error',
    async t => {
      const text = await handleToText(batch, { run, limits: { batchReply: fittingBytes } })
      t.equal(text, batchOf(small(1), tooLarge(2), small(3), tooLarge(4)))
      t.same([refunds.splice(0), kept.splice(0)], [['2 tooLarge', '4 tooLarge'], []])
      const less = await handleToText(batch, { run, limits: { batchReply: fittingBytes - 1 } })
      t.equal(less, batchOf(small(1), tooLarge(2), tooLarge(3), tooLarge(4)))
      t.same([refunds.splice(0), kept.splice(0)], [['2 tooLarge', '4 tooLarge'], ['3 tooLarge']])
      const { replies } = await handle(batch, { run, limits: { batchReply: fittingBytes - 1 } })
      t.same(
        replies.map(({ credits }) => credits),
        [80, 80, undefined, 80, undefined],
      )
      t.match(replies[3], { kind: 'tooLarge' })
    },
  )
  t.test('has the outcome of each call', async t => {
    const { replies } = await handle(batch, { run, limits: { batchReply: fittingBytes } })
    const outcomes = replies.map(reply => ('kind' in reply ? reply.kind : reply.source))
    t.same(outcomes, ['cache', 'cache', 'tooLarge', 'node', 'tooLarge'])
  })
  t.test('survives a refund that throws', async t => {
    const log = new TestLog()
    const broken: Next = async () =>
      resultOf('"xxxxxxxxxx"', {
        source: 'cache',
        charge: fakeCharge(() => {
          throw new Error('no')
        }),
      })
    const given = { run: broken, log, limits: { batchReply: batchOf(small(1)).length } }
    const text = await handleToText(batchOf(request('1'), request('2')), given)
    t.match(JSON.parse(text ?? ''), [
      { id: 1, result: 'xxxxxxxxxx' },
      { id: 2, error: { code: -32603 } },
    ])
    t.equal(log.lines.length, 1)
  })
})

t.test('a bug is logged with the method of the call, but not with an API key in place of that', async t => {
  const key = generateApiKey().reveal()
  for (const [method, logged] of [
    ['eth_call', 'eth_call'],
    [key, '***'],
    [`${'x'.repeat(80)}${key}`, `${'x'.repeat(80)}***`],
  ] as const) {
    const log = new TestLog()
    await handleToText(JSON.stringify({ jsonrpc: '2.0', id: 1, method }), { run: () => Promise.reject(new Error('bug')), log })
    t.match(log.lines, [{ fields: { method: logged } }])
  }
})

t.test('a bug fails its own call only, is logged once, and is not shown to the caller', async t => {
  const internal = (id: string): string =>
    `{"jsonrpc":"2.0","id":${id},"error":{"code":-32603,"message":"internal error","data":{"requestId":"r-1"}}}`
  const bugs: readonly [string, Next][] = [
    [
      'thrown before the first await',
      () => {
        throw new Error('secret')
      },
    ],
    ['a rejected promise', () => Promise.reject(new Error('secret'))],
    [
      'thrown later',
      async () => {
        await null
        throw new Error('secret')
      },
    ],
    [
      'something thrown that is no error',
      () => {
        throw { secret: 1 }
      },
    ],
    [
      'null thrown',
      () => {
        throw null
      },
    ],
    ['an error that cannot be serialized', async () => ({ error: { code: 1n }, status: 200 }) as never],
  ]
  for (const [what, bug] of bugs) {
    const log = new TestLog()
    const first: Next = call => (isJsonObject(call.message) && call.message['id'] === 1 ? bug(call) : runEnvelope(call))
    const text = await handleToText(batchOf(request('1'), request('2')), { run: first, log })
    t.equal(text, batchOf(internal('1'), successText('2')), what)
    const fields = { requestId: 'r-1', network: 'devnet', method: 'eth_blockNumber', stack: String }
    t.match(log.lines, [{ level: 'error', fields }])
    t.equal(log.lines.length, 1)
    t.match(await handle(request('1'), { run: bug }), { status: 200, replies: [{ kind: 'internal', source: 'gateway' }] })
  }

  const log = new TestLog()
  t.equal(responseTextOf(internalErrorResponse({ log }, fakeOrigin(), new Error('secret'))), internal('null'))
  t.match(log.lines, [{ fields: { method: undefined, stack: /^Error: secret\n {4}at / } }])
})

t.test('no message does harm', async t => {
  const never: Next = () => {
    throw new Error('reached')
  }

  t.test('nested too deep', async t => {
    const deep = (levels: number): string => request('1', `,"params":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}`)
    const refusal = invalidRequestText('nested deeper than 64 levels')
    t.equal(await handleToText(deep(64)), successText('1'))
    t.equal(await handleToText(deep(65), { run: never }), refusal)
    t.equal(await handleToText(batchOf(deep(63), deep(64)), { run: never }), refusal, 'one error for the whole batch')
    t.equal(await handleToText('['.repeat(1 << 20), { run: never }), refusal)
    t.equal(await handleToText('{"a":'.repeat(200_000), { run: never }), refusal)
  })

  t.test('nearly too many values', async t => {
    const params = (text: string, count: number): string => request('1', `,"params":[${text.repeat(count)}1]`)
    t.equal(await handleToText(params('"0x1",', 20_000)), successText('1'))
  })

  t.test('a duplicate member of the envelope', async t => {
    const duplicate = (id: string, name: string): string => errorText(id, -32600, `invalid request: duplicate member ${name}`)
    t.equal(await handleToText(request('1', ',"method":"eth_sendRawTransaction"'), { run: never }), duplicate('1', 'method'))
    t.equal(await handleToText(request('1', ',"params":[],"params":[1]'), { run: never }), duplicate('1', 'params'))
    t.equal(await handleToText(request('1', ',"jsonrpc":"2.0"'), { run: never }), duplicate('1', 'jsonrpc'))
    t.equal(await handleToText(request('1', ',"id":1'), { run: never }), duplicate('null', 'id'))
    t.equal(await handleToText(request('1', ',"\\u0069d":2'), { run: never }), duplicate('null', 'id'))
    t.equal(await handleToText(request('1', ',"m\\u0065tho\\u0064":"x"'), { run: never }), duplicate('1', 'method'))
    t.equal(await handleToText('{"method":"a","method":"b"}', { run: never }), duplicate('null', 'method'))
    const batch = batchOf(request('1', ',"params":[],"params":[]'), request('2'))
    t.equal(await handleToText(batch), batchOf(duplicate('1', 'params'), successText('2')))
    t.equal(await handleToText(request('1', ',"params":[{"id":1,"id":2,"method":3}],"x":1,"x":2')), successText('1'), 'other members may')
  })

  t.test('__proto__ is a name like any other', async t => {
    const messages: Json[] = []
    const record: Next = async ({ message }: Call) => (messages.push(message), resultOf('1'))
    const proto = '"__proto__":{"polluted":1}'
    await handle(request('1', `,${proto},"params":[{${proto},"constructor":{"prototype":{"polluted":1}}}]`), { run: record })
    t.same(Object.keys(messages[0] as object), ['jsonrpc', 'id', 'method', '__proto__', 'params'])
    t.equal((messages[0] as { polluted?: 1 }).polluted, undefined)
    t.equal(({} as { polluted?: 1 }).polluted, undefined)
  })

  t.test('any bytes get a JSON response or none', async t => {
    const part = fc.constantFrom(
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"id"',
      '"__proto__"',
      '"method"',
      '"x"',
      '1',
      'null',
      '"jsonrpc":"2.0"',
      '\\',
    )
    const anything = fc.oneof(
      fc.array(part, { maxLength: 12 }).map(parts => Buffer.from(parts.join(''))),
      fc.uint8Array({ maxLength: 20 }),
    )
    const isResponse = (json: { jsonrpc: unknown; id: unknown }): boolean => json.jsonrpc === '2.0' && 'id' in json
    await fc.assert(
      fc.asyncProperty(anything, async bytes => {
        const text = await handleToText(bytes)
        return text === undefined || [JSON.parse(text)].flat().every(isResponse)
      }),
      { numRuns: 700 },
    )
    t.equal(({} as { polluted?: 1 }).polluted, undefined)
  })
})

t.test('bytes that are no Buffer are parsed too', async t => {
  const bytes = new Uint8Array(Buffer.from(`  ${request('"é"')}`)).subarray(2)
  t.equal(
    responseTextOf(
      await handleMessage(
        { parse, run: runEnvelope, limits, clock: new TestClock(), log: new TestLog(), accessLog: fakeAccessLog },
        bytes,
        fakeOrigin(),
        callerMemory(1 << 20),
        freeScheduler,
      ),
    ),
    successText('"é"'),
  )
})
