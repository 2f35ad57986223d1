import t from '../../support/tap.ts'
import failover from '../../../plugins/failover/index.ts'
import type { Cancellation, Json, Request, Signal, Target } from '../../../src/plugin/call.ts'
import { refuse } from '../../../src/plugin/reply.ts'
import type { ErrorCategory } from '../../../src/plugin/error-table.ts'
import type { Failure, Reply } from '../../../src/plugin/reply.ts'
import { Secret } from '../../../src/plugin/secret.ts'
import { fakeCall, fakeOrigin, fakeResult, unreachableNext, valueOrErrorCode } from '../../support/fakes.ts'
import { breaker, failure, getLogs, getReceipt, node, openFailover, uncounted } from './failover-fixture.ts'
import type { Responder } from './failover-fixture.ts'

t.test('requests the first node, and the next one when it fails', async t => {
  const { request, requested } = openFailover(t, { b: () => fakeResult('b') })
  t.equal(valueOrErrorCode(await request(getLogs())), 'b')
  t.same(requested, ['a', 'b'])
})

t.test('the target that plugins below get is that of all calls, and cannot be changed in place', async t => {
  const headers = { 'x-api-key': new Secret('secret') }
  const targets: Target[] = []
  const responder: Responder = call => {
    targets.push(call.context.target)
    return fakeResult('a')
  }
  const { request } = openFailover(t, { a: responder }, { upstreams: [node('a', { headers })] })
  await request(getLogs())
  for (const target of targets) t.ok(Object.isFrozen(target) && Object.isFrozen(target.headers))
  t.match(targets, [{ name: 'a', headers }])
})

t.test("an error that is the caller's own is returned at once", async t => {
  const { request, requested } = openFailover(t, { a: () => refuse('tooMany') })
  t.equal(valueOrErrorCode(await request(getLogs())), -32005)
  t.same(requested, ['a'])
})

t.test('when no node can answer the reply is 503 -32002 with Retry-After, whose fault is upstream', async t => {
  const { request } = openFailover(t, {})
  t.match(await request(getLogs()), {
    status: 503,
    error: { code: -32002, message: 'no upstream can answer now' },
    fault: 'upstream',
    retryAfter: 5,
  })
})

t.test('when all nodes are down the reply comes at once', async t => {
  const { requestMany, request, requested } = openFailover(t, {})
  await requestMany(10)
  const before = requested.length
  const begun = performance.now()
  for (let i = 0; i < 100; i++) t.match(await request(getLogs()), { status: 503, fault: 'upstream', retryAfter: 5 })
  t.ok((performance.now() - begun) / 100 < 20)
  t.equal(requested.length, before)
})

t.test('a bug below is not taken for a failing node', async t => {
  const { request, requested } = openFailover(t, { a: unreachableNext })
  await t.rejects(request(getLogs()), { message: /next\(\) was called/ })
  t.same(requested, ['a'])
})

const problemsOf = (options: object): string[] => {
  const problems: string[] = []
  failover.check?.(options as never, (path, message) => problems.push(`${path.join('.')}: ${message}`))
  return problems
}

t.test('no listener stays on the signal of a WebSocket, however its calls end', async t => {
  const listeners = new Set<() => void>()
  const signal: Signal = {
    aborted: false,
    addEventListener: (_type, listener) => void listeners.add(listener),
    removeEventListener: (_type, listener) => void listeners.delete(listener),
  }
  const responders: Record<string, Responder> = {
    answer: () => fakeResult('a'),
    failure: () => failure('a'),
    bug: () => {
      throw new Error('bug')
    },
  }
  for (const [name, responder] of Object.entries(responders)) {
    const { request } = openFailover(t, { a: responder }, { upstreams: [node('a')] })
    for (const call of [getLogs(), getReceipt()])
      await request({ ...call, signal }).catch((bug: unknown) => t.match(bug, { message: 'bug' }))
    t.equal(listeners.size, 0, name)
  }
})

t.test('duplicate names of nodes are a problem', async t => {
  t.same(problemsOf({ upstreams: [node('a'), node('a')], partner: { ...node('a') }, breaker }), [
    'upstreams.1.name: duplicate upstream name "a"',
    'partner.name: duplicate name "a": an upstream has the same name',
  ])
})

t.test('headers that cannot be sent, and options without effect, are problems that show no value', async t => {
  const headers = (values: Record<string, string>) =>
    Object.fromEntries(Object.entries(values).map(([name, value]) => [name, new Secret(value)]))
  const upstreams = [
    node('a', {
      headers: headers({ 'X-Api-Key': 'key', 'x y': '1', Host: 'h', 'sec-websocket-key': 'k', 'x-api-KEY': '2', 'X-Two': 'a\r\nb' }),
    }),
    { ...node('b', { headers: headers({ Authorization: 'Bearer t' }) }), url: new Secret('https://user:pass@b.test') },
    { ...node('c', { compression: true }), url: new Secret('wss://c.test') },
  ]
  t.same(problemsOf({ upstreams, partner: node('p', { headers: headers({ 'X-\u00e9': '1' }) }), breaker }), [
    'partner.headers.X-\u00e9: "X-\u00e9" is not the name of an HTTP header, such as X-Api-Key',
    'upstreams.0.headers.x y: "x y" is not the name of an HTTP header, such as X-Api-Key',
    'upstreams.0.headers.Host: the gateway sets the header `Host` itself',
    'upstreams.0.headers.sec-websocket-key: the gateway sets the header `sec-websocket-key` itself',
    'upstreams.0.headers.x-api-KEY: duplicate header `x-api-KEY`: upper and lower case make no difference',
    'upstreams.0.headers.X-Two: the value of a header must be one line of ASCII characters',
    'upstreams.1.headers.Authorization: `Authorization` and the user of `url` are both credentials: remove one of them',
    'upstreams.2.compression: `compression` applies only to http:// and https://',
  ])
})

t.test('weights share the calls, as evenly as they can', async t => {
  const responders = { a: () => fakeResult('a'), b: () => fakeResult('b'), c: () => fakeResult('c') }
  const upstreams = [node('a', { weight: 3 }), node('b'), node('c', { weight: 0 })]
  const { requestMany, requested } = openFailover(t, responders, { upstreams })
  await requestMany(8)
  t.same(requested, ['a', 'a', 'b', 'a', 'a', 'a', 'b', 'a'])
  const broken = openFailover(t, { ...responders, b: () => failure('b', { unresponsive: true }) }, { upstreams })
  await broken.requestMany(8)
  t.equal(broken.countOf('a'), 8)
  t.equal(broken.countOf('c'), 0)
  const last = openFailover(t, { c: responders.c }, { upstreams })
  t.equal(valueOrErrorCode(await last.request(getLogs())), 'c', 'a node of weight 0 only when no other can answer')
})

t.test('a transaction that the node signs is sent to one node once, and to the next one only when it was not sent', async t => {
  const send = fakeCall('eth_sendTransaction', [{}])
  const failing = openFailover(t, { b: () => fakeResult('b') }, { hedge: true })
  t.equal(valueOrErrorCode(await failing.request(send)), -32002)
  t.same(failing.requested, ['a'])
  const busy = openFailover(t, { a: () => failure('a', { source: 'gateway' }), b: () => fakeResult('b') })
  t.equal(valueOrErrorCode(await busy.request(send)), 'b')
})

t.test('a transaction that may have been sent', async t => {
  // The first transaction of the EIP-155 example, and its hash.
  const raw =
    '0xf86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83'
  const hash = '0x33469b22e9f636356c4160a87eb19df52b7412e8eac32a4a55ffe88ea8350788'
  const nodeError = (message: string, category?: ErrorCategory): Failure => ({
    ...refuse('params', { source: 'node', upstream: 'b' }),
    kind: 'node',
    error: { code: -32000, message },
    ...(category && { category }),
  })
  const send = (text = raw) => fakeCall('eth_sendRawTransaction', [text])

  t.test('is sent to each node once, and is a success when the next node knows it', async t => {
    const { request, requested } = openFailover(t, { b: () => nodeError('already known', 'alreadyKnown') })
    t.match(await request(send()), { source: 'node', upstream: 'b', result: Buffer.from(`"${hash}"`) })
    t.same(requested, ['a', 'b'])
  })

  t.test('is an error when the first node knows it', async t => {
    const { request } = openFailover(t, { a: () => nodeError('already known', 'alreadyKnown') })
    t.equal(valueOrErrorCode(await request(send())), -32000)
  })

  t.test('is a success when it has used up its nonce, and not when another transaction has', async t => {
    const requests: Request[] = []
    const respondWith =
      (found: Json): Responder =>
      ({ context }) => {
        requests.push(context.request)
        return context.request.method === 'eth_sendRawTransaction'
          ? nodeError('nonce too low: next nonce 5, tx nonce 4')
          : fakeResult(found)
      }
    t.equal(valueOrErrorCode(await openFailover(t, { b: respondWith({ hash }) }).request(send())), hash)
    t.match(requests.at(-1), { method: 'eth_getTransactionByHash', params: [hash] })
    t.equal(valueOrErrorCode(await openFailover(t, { b: respondWith(null) }).request(send())), -32000)
  })

  t.test('is looked up whenever the error is about its nonce, in whatever words', async t => {
    for (const error of [
      nodeError('nonce too low'),
      nodeError('OldNonce, Current nonce: 5, nonce of rejected tx: 4.'), // Nethermind
      nodeError('a transaction with the same nonce already exists', 'alreadyKnown'),
    ])
      for (const [found, expected] of [
        [{ hash }, hash],
        [null, -32000],
      ] as const) {
        const b: Responder = ({ context }) => (context.request.method === 'eth_sendRawTransaction' ? error : fakeResult(found))
        t.equal(valueOrErrorCode(await openFailover(t, { b }).request(send())), expected, error.error.message)
      }
  })

  t.test('is a success after any fault of a node that has accepted it', async t => {
    for (const fault of ['502', 'hang'] as const)
      for (const state of ['pooled', 'mined', 'unknown'] as const) {
        let isAccepted = false
        const { request, requested } = openFailover(t, {
          a: () => {
            isAccepted = true
            return failure('a', fault === 'hang' ? { unresponsive: true, cause: 'no response' } : { cause: 'HTTP 502' })
          },
          b: ({ context }) => {
            if (context.request.method !== 'eth_sendRawTransaction') return fakeResult(isAccepted ? { hash } : null)
            if (state === 'unknown') return fakeResult(hash)
            return state === 'pooled' ? nodeError('already known', 'alreadyKnown') : nodeError('nonce too low: next nonce 5, tx nonce 4')
          },
        })
        t.equal(valueOrErrorCode(await request(send())), hash, `${fault}, ${state}`)
        t.same(requested, state === 'mined' ? ['a', 'b', 'b'] : ['a', 'b'])
      }
  })

  t.test('that no node has answered is a success when one of them has it', async t => {
    for (const [found, expected] of [
      [{ hash }, hash],
      [null, -32002],
    ] as const)
      for (const name of ['a', 'b']) {
        const failing: Responder = ({ context: { target, request } }) =>
          request.method === 'eth_sendRawTransaction' ? failure(target.name) : fakeResult(target.name === name ? found : null)
        const { request, requested } = openFailover(t, { a: failing, b: failing })
        t.equal(valueOrErrorCode(await request(send())), expected)
        t.same(requested, ['a', 'b', 'a', 'b'].slice(0, found !== null && name === 'a' ? 3 : 4))
      }
    const alone = openFailover(
      t,
      { a: ({ context }) => (context.request.method === 'eth_sendRawTransaction' ? failure('a') : fakeResult({ hash })) },
      { upstreams: [node('a')] },
    )
    t.equal(valueOrErrorCode(await alone.request(send())), hash)
  })

  t.test('is looked up within the budget of retries, where it may have been sent at all', async t => {
    const dead = openFailover(t, { a: () => uncounted('a') }, { upstreams: [node('a')] })
    for (let i = 0; i < 20; i++) t.equal(valueOrErrorCode(await dead.request(send())), -32002)
    t.equal(dead.requested.length, 20 + 4)
    const busy = openFailover(t, { a: () => failure('a', { source: 'gateway' }) }, { upstreams: [node('a')] })
    await busy.request(send())
    t.same(busy.requested, ['a'])
    const refused = openFailover(t, { a: () => nodeError('insufficient funds') }, { upstreams: [node('a')] })
    t.equal(valueOrErrorCode(await refused.request(send())), -32000)
    t.same(refused.requested, ['a'])
  })

  t.test(
    'whose receipt is waited for has the receipt of the next node that knows it, else the error of EIP-7966 with its hash',
    async t => {
      const sendSync = fakeCall('eth_sendRawTransactionSync', [raw, 5_000])
      const respondWith =
        (found: Json, error = nodeError('already known', 'alreadyKnown')): Responder =>
        ({ context: { request } }) =>
          request.method === 'eth_sendRawTransactionSync' ? error : fakeResult(found)
      const receipt = { transactionHash: hash, blockNumber: '0x1' }
      t.same(valueOrErrorCode(await openFailover(t, { b: respondWith(receipt) }).request(sendSync)), receipt)
      t.match(await openFailover(t, { b: respondWith(null) }).request(sendSync), { error: { code: 4, data: hash }, fault: 'caller' })
      t.equal(valueOrErrorCode(await openFailover(t, { b: respondWith(null, nodeError('nonce too low')) }).request(sendSync)), -32000)
    },
  )

  t.test('whose receipt is waited for is sent to no second node when the wait is over, which counts against none', async t => {
    let found: Json = null
    let isMined = false
    let sentToOther = 0
    const opened = openFailover(t, {
      a: ({ context: { request } }) => {
        if (request.method === 'eth_getTransactionReceipt') return fakeResult(isMined ? { transactionHash: hash } : null)
        if (request.method === 'eth_getTransactionByHash') return fakeResult(found)
        opened.clock.advance(15_000)
        return failure('a', { category: 'timeout', retryElsewhere: true })
      },
      b: ({ context: { request } }) => {
        if (request.method === 'eth_sendRawTransactionSync') sentToOther += 1
        return fakeResult(null)
      },
    })
    const sendSync = fakeCall('eth_sendRawTransactionSync', [raw, '0x1388'])
    t.equal(valueOrErrorCode(await opened.request(sendSync)), -32002, 'the node has no such transaction')
    found = { hash }
    t.match(await opened.request(sendSync), { error: { code: 4, data: hash }, fault: 'caller' }, 'it has accepted the transaction')
    isMined = true
    t.same(valueOrErrorCode(await opened.request(sendSync)), { transactionHash: hash }, 'a block has it meanwhile')
    for (let i = 0; i < 8; i++) await opened.request(sendSync)
    t.equal(sentToOther, 0, 'the breaker is closed')
  })

  t.test("with blobs gets the node's error, as its hash is not that of the sent bytes", async t => {
    const { request } = openFailover(t, { b: () => nodeError('already known', 'alreadyKnown') })
    t.equal(valueOrErrorCode(await request(send('0x03f87001'))), -32000)
  })
})

t.test('a refusal is final only when each node gave it: another node may accept the query', async t => {
  const tooWide = (name: string) =>
    failure(name, { kind: 'node', fault: 'caller', retryElsewhere: true, category: 'rangeTooWide', error: { code: -32602, message: name } })
  const limited = () => tooWide('a')
  for (const [other, retryElsewhere] of [
    [() => tooWide('b'), undefined],
    [() => failure('b'), true],
    [() => ({ ...tooWide('b'), category: 'blockNotFound' }) as const, true],
  ] as const) {
    const { request, requested } = openFailover(t, { a: limited, b: other })
    t.match(await request(getLogs()), { error: { code: -32602 }, category: 'rangeTooWide', retryElsewhere })
    t.same(requested, ['a', 'b'])
  }
  const { request, requestMany, requested } = openFailover(t, { a: limited, b: () => failure('b', { unresponsive: true }) })
  await requestMany(1)
  requested.length = 0
  t.match(await request(getLogs()), { category: 'rangeTooWide', retryElsewhere: true })
  t.same(requested, ['a'], 'the other node has an open breaker')
})

t.test('a caller who leaves says nothing of what a node can prove that has lied', async t => {
  let isLeaving = true
  const { request, requested, services } = openFailover(
    t,
    {
      a: ({ signal }) =>
        isLeaving
          ? new Promise<Reply>(resolve =>
              signal?.addEventListener('abort', () => resolve(refuse('unavailable', { source: 'node', upstream: 'a', fault: 'caller' }))),
            )
          : fakeResult('a'),
    },
    { upstreams: [node('a')] },
  )
  services.nodes.trust.beginProving(['light'])
  services.nodes.trust.distrust('a', 'light')
  const origin = fakeOrigin()
  const left = request({ ...getReceipt(), origin })
  ;(origin.signal as Cancellation).abort()
  await left
  isLeaving = false
  t.equal(valueOrErrorCode(await request(getReceipt())), 'a', 'it is asked at once')
  t.same(requested, ['a', 'a'])
})
