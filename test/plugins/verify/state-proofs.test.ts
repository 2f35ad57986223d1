import fc from 'fast-check'
import t from '../../support/tap.ts'
import { headerHashOf } from '../../../plugins/verify/block-header.ts'
import type { Json, Request } from '../../../src/plugin/call.ts'
import { harness } from '../../../src/testing/index.ts'
import { toHexQuantity } from '../../../src/util/json.ts'
import { deployEmitter, startAnvilChain } from '../../support/anvil-chain.ts'
import { openProofs } from './proof-fixture.ts'
import type { Node } from './proof-fixture.ts'
import type { JsonMembers } from './verify-fixture.ts'

const defaultChangeCount = 300
/** `--changes 10000` runs the long form. */
const changeCount = process.argv.includes('--changes') ? Number(process.argv[process.argv.indexOf('--changes') + 1]) : defaultChangeCount

t.test('state of a real node', async t => {
  const chain = await startAnvilChain()
  t.teardown(() => chain.stop())
  const emitter = await deployEmitter(chain)
  const [account = '', other = ''] = await chain.request<string[]>('eth_accounts')
  await emitter.emitLogs(3)
  await chain.request('anvil_mine', '0x3')
  const nobody = `0x${'12'.repeat(20)}`
  const slots = ['0x0', '0x1', `0x${'ab'.repeat(32)}`]
  // A storage with branches.
  for (let i = 2; i < 60; i++) await chain.request('anvil_setStorageAt', emitter.address, toSlot(i), toSlot(i * 1_000))
  // An account with code and one value, and one whose storage was emptied.
  const [single, emptied] = [`0x${'5a'.repeat(20)}`, `0x${'5b'.repeat(20)}`]
  for (const address of [single, emptied]) await chain.request('anvil_setStorageAt', address, toSlot(1), toSlot(9))
  await chain.request('anvil_setCode', single, '0x6001')
  await chain.request('anvil_mine', '0x1')
  const whenFilled = await chain.request<string>('eth_blockNumber')
  await chain.request('anvil_setStorageAt', emptied, toSlot(1), toSlot(0))
  await chain.request('anvil_mine', '0x50')
  const head = Number(await chain.request<string>('eth_blockNumber'))

  const honest: Node = ({ method, params }) => chain.request<Json>(method, ...params)
  /** A node that changes its answers to one method. */
  const lying =
    (method: string, lie: (value: Json, request: Request) => Json | Promise<Json>): Node =>
    async request =>
      request.method === method ? lie((await honest(request))!, request) : honest(request)

  const questions: readonly (readonly [string, ...Json[]])[] = [
    ...[account, other, nobody, emitter.address].flatMap(address =>
      (['eth_getBalance', 'eth_getTransactionCount', 'eth_getCode'] as const).map(method => [method, address] as const),
    ),
    ...[...slots, toSlot(7), toSlot(42), toSlot(77)].map(slot => ['eth_getStorageAt', emitter.address, slot] as const),
    ['eth_getStorageAt', nobody, '0x0'],
    ['eth_getStorageAt', account, '0x0'],
  ]

  t.test('is answered as the node does, at each way to name a block', async t => {
    const { hash } = await chain.request<{ hash: string }>('eth_getBlockByNumber', 'latest', false)
    for (const known of [undefined, head]) {
      const { call } = openProofs({ one: honest, two: honest }, { head: () => known })
      for (const block of ['latest', 'finalized', toHexQuantity(head), '0x2', hash, { blockHash: hash }, { blockNumber: '0x2' }]) {
        for (const [method, ...params] of questions) {
          const said = await chain.request<Json>(method, ...params, block)
          t.equal(await call(method, ...params, block), said, `${method} ${JSON.stringify([...params, block])}`)
        }
      }
    }
  })

  t.test('is refused where the header is of another state, as that of the first block of this node', async t => {
    t.equal(await openProofs({ one: honest, two: honest }).call('eth_getBalance', account, 'earliest'), undefined)
  })

  t.test('code is written as Ethereum writes bytes, however the node does', async t => {
    const capitals = lying('eth_getCode', code => String(code).toUpperCase())
    const ask = ['eth_getCode', emitter.address, toHexQuantity(head)] as const
    const { call } = openProofs({ one: capitals, two: honest, three: honest }, { policies: { eth_getCode: 'proof' }, head: () => head })
    t.equal(await call(...ask), await chain.request<Json>(...ask))
  })

  t.test('is what the proof shows, whatever else the node says', async t => {
    const { call } = openProofs({
      one: lying('eth_getProof', proof => ({ ...(proof as JsonMembers), balance: '0x0', nonce: '0x99', codeHash: toSlot(1) })),
      two: honest,
    })
    for (const [method, ...params] of questions)
      t.equal(await call(method, ...params, 'latest'), await chain.request(method, ...params, 'latest'))
  })

  /** The proof of something else in place of the requested one. */
  const proofOf = (address: string, keys: readonly string[], block?: string) =>
    lying('eth_getProof', (_, { params }) => chain.request<Json>('eth_getProof', address, keys, block ?? params[2]))
  const changed = (name: 'accountProof', change: (nodes: readonly Json[]) => Json) =>
    lying('eth_getProof', proof => ({ ...(proof as JsonMembers), [name]: change((proof as JsonMembers)[name] as readonly Json[]) }))
  const inStorage = (change: (entry: JsonMembers) => Json) =>
    lying('eth_getProof', proof => ({
      ...(proof as JsonMembers),
      storageProof: ((proof as JsonMembers)['storageProof'] as readonly JsonMembers[]).map(change),
    }))

  const balance = ['eth_getBalance', account, 'latest'] as const
  const slot = ['eth_getStorageAt', emitter.address, toSlot(42), 'latest'] as const
  const code = ['eth_getCode', emitter.address, 'latest'] as const
  const lies: Readonly<Record<string, readonly [Node, readonly [string, ...Json[]]]>> = {
    'the proof of another account': [proofOf(other, []), balance],
    'the proof of an account that does not exist': [proofOf(nobody, []), balance],
    'the proof of an earlier block': [proofOf(account, [], '0x1'), balance],
    'no proof': [changed('accountProof', () => []), balance],
    'a proof without its last node': [changed('accountProof', nodes => nodes.slice(0, -1)), balance],
    'a proof without its first node': [changed('accountProof', nodes => nodes.slice(1)), balance],
    'a proof that is no hex': [changed('accountProof', nodes => ['0xzz', ...nodes.slice(1)]), balance],
    'a proof that is no list': [changed('accountProof', () => null), balance],
    'no object': [lying('eth_getProof', () => 'ok'), balance],
    'a slot of another account': [proofOf(nobody, [toSlot(42)]), slot],
    'another slot': [proofOf(emitter.address, [toSlot(41)]), slot],
    'a slot that is empty': [proofOf(emitter.address, [toSlot(1_000)]), slot],
    'no slot': [proofOf(emitter.address, []), slot],
    'an old value': [proofOf(emitter.address, [toSlot(42)], '0x3'), slot],
    'a storage proof without its last node': [inStorage(each => ({ ...each, proof: (each['proof'] as Json[]).slice(0, -1) })), slot],
    'other code': [lying('eth_getCode', () => '0x6001'), code],
    'no code': [lying('eth_getCode', () => '0x'), code],
  }

  for (const [what, [node, [method, ...params]]] of Object.entries(lies)) {
    t.test(`${what} is refused, and the node is blamed`, async t => {
      const { call, log } = openProofs({ liar: node, honest })
      t.equal(await call(method, ...params), undefined)
      t.match(log.lines, [{ fields: { upstream: 'liar', method, cause: /^wrong result: / }, message: 'upstream returned a wrong result' }])
    })
  }

  t.test('with any byte of the proof changed is refused, or is the truth', async t => {
    const truth = await chain.request<Json>(...(slot as unknown as [string, ...Json[]]))
    await fc.assert(
      fc.asyncProperty(fc.boolean(), fc.nat(), fc.nat(), fc.integer({ min: 1, max: 255 }), async (isOfStorage, i, at, bits) => {
        const corrupt = (nodes: Json): Json => {
          const list = nodes as readonly string[]
          const bytes = Buffer.from(list[i % list.length]!.slice(2), 'hex')
          bytes[at % bytes.length]! ^= bits
          return list.with(i % list.length, `0x${bytes.toString('hex')}`)
        }
        const node = isOfStorage ? inStorage(each => ({ ...each, proof: corrupt(each['proof']!) })) : changed('accountProof', corrupt)
        const [method, ...params] = slot
        t.ok([undefined, truth].includes((await openProofs({ one: node, two: honest }).call(method, ...params)) as undefined))
      }),
      { numRuns: 100 },
    )
  })

  t.test('with any change of any answer is refused, or is the truth', async t => {
    const known = new Map<string, Json>()
    const kept: Node = async request => {
      const key = JSON.stringify(request)
      if (!known.has(key)) known.set(key, (await honest(request))!)
      return structuredClone(known.get(key)!)
    }
    const blocks = ['latest', whenFilled, toHexQuantity(head - 1)]
    const asked = [
      ...questions,
      ...[single, emptied].flatMap(address => [
        ...(['eth_getBalance', 'eth_getTransactionCount', 'eth_getCode'] as const).map(method => [method, address] as const),
        ...[1, 2].map(slot => ['eth_getStorageAt', address, toSlot(slot)] as const),
      ]),
    ].flatMap(question => blocks.map(block => [...question, block] as const))
    const others = await Promise.all(
      [account, nobody, emitter.address, single, emptied].flatMap(address =>
        [0, 1, 42].flatMap(slot => blocks.map(block => kept({ method: 'eth_getProof', params: [address, [toSlot(slot)], block] }))),
      ),
    )
    const outcomes = { refused: 0, right: 0 }
    await fc.assert(
      fc.asyncProperty(fc.nat(), fc.array(anyEdit, { minLength: 1, maxLength: 3 }), fc.nat(), async (which, edits, other) => {
        const [method, ...params] = asked[which % asked.length]!
        const truth = (await kept({ method, params })) as string
        const changing: Node = async request =>
          edits.reduce<Json>((value, edit) => change(value, edit, others[other % others.length]!), (await kept(request))!)
        const reply = await openProofs({ liar: changing, honest: kept }, { head: () => head }).call(method, ...params)
        outcomes[reply === undefined ? 'refused' : 'right'] += 1
        if (reply !== undefined) t.equal(reply, truth, JSON.stringify([method, ...params]))
      }),
      { numRuns: changeCount },
    )
    t.ok(outcomes.refused > 0 && outcomes.right > 0, JSON.stringify(outcomes))
    if (changeCount > defaultChangeCount) console.log(`# ${JSON.stringify(outcomes)}`)
  })

  t.test('a header that looks right is trusted only where nodes agree on it', async t => {
    const forge = lying('eth_getBlockByNumber', block => {
      const forged = { ...(block as JsonMembers), stateRoot: toSlot(1) }
      return { ...forged, hash: headerHashOf(forged) }
    })
    const [method, ...params] = balance
    const truth = await chain.request<Json>(method, ...params)
    t.equal(await openProofs({ honest, liar: forge }).call(method, ...params), undefined, 'one of two')
    t.equal(await openProofs({ honest, liar: forge, third: honest }).call(method, ...params), truth, 'one of three')
    t.equal(await openProofs({ honest, liar: forge, third: honest }, { agree: 3 }).call(method, ...params), undefined, 'all must agree')
    t.equal(await openProofs({ honest }).call(method, ...params), truth, 'one node alone')
    t.equal(await openProofs({ honest, otherChain: forge }).call(method, ...params), truth, 'a node of another chain has no say')
    const unverified = openProofs({ honest, unverified: honest })
    t.equal(
      await unverified.call(method, ...params),
      undefined,
      'one of two is not believed alone, also where the other has not answered since the start',
    )
    t.notOk(unverified.requests.some(each => each.startsWith('unverified')))
    t.equal(await openProofs({ honest, second: honest, unverified: forge }).call(method, ...params), truth)
    t.equal(await openProofs({ honest, down: async () => undefined }).call(method, ...params), undefined, 'one of two does not answer')
    const wrongHash = lying('eth_getBlockByNumber', block => ({ ...(block as JsonMembers), stateRoot: toSlot(1) }))
    t.equal(await openProofs({ honest, liar: wrongHash, third: honest }).call(method, ...params), truth)
  })

  t.test('a header is requested once for all calls until there is a new head', async t => {
    const gateway = openProofs({ one: honest, two: honest }, { head: () => head })
    const [method, ...params] = balance
    await Promise.all([gateway.call(method, ...params), gateway.call(method, ...params)])
    await gateway.call(method, ...params)
    const headers = () => gateway.requests.filter(each => each.endsWith('eth_getBlockByNumber')).length
    t.equal(headers(), 2)
    gateway.newHead()
    await gateway.call(method, ...params)
    t.equal(headers(), 4)
  })

  t.test('latest is the newest block that nodes agree on, and never below what callers were told', async t => {
    let newest = head - 1
    const behind: Node = async request => (Number(request.params[0]) > newest ? null : honest(request))
    const [method, ...params] = balance
    const truth = await chain.request<Json>(method, ...params)
    const gateway = openProofs({ honest, lagging: behind }, { head: () => head })
    t.equal(await gateway.call(method, ...params), truth)
    const told = { head: () => head, reportedHeight: head }
    t.equal(await openProofs({ honest, lagging: behind }, told).call(method, ...params), undefined)
    const waiting = openProofs({ honest, lagging: behind }, { ...told, onWait: () => (newest = head) })
    t.equal(await waiting.call(method, ...params), truth)
  })

  t.test('nodes that do not come to the reported block are waited for 4 s in all', async t => {
    const behind: Node = async request => (Number(request.params[0]) === head ? null : honest(request))
    let waitedMs = 0
    const gateway = openProofs(
      { honest, lagging: behind, stuck: behind },
      {
        ...{ head: () => head, reportedHeight: head },
        onWait: timeoutMs => {
          waitedMs += timeoutMs
          gateway.clock.advance(timeoutMs)
        },
      },
    )
    const [method, ...params] = balance
    t.equal(await gateway.call(method, ...params), undefined)
    t.equal(waitedMs, 4_000)
  })

  t.test('`safe` and `finalized` are not older than what a majority of nodes calls final', async t => {
    const old = lying('eth_getBlockByNumber', (block, { params }) =>
      ['safe', 'finalized'].includes(String(params[0])) ? chain.request('eth_getBlockByNumber', '0x2', false) : block,
    )
    const nodes = { one: old, two: honest, three: honest }
    for (const [finalized, expected] of [
      [{ one: 2, two: 10, three: 12 }, '0xa'],
      [{ one: 40, two: 12, three: 10 }, '0xc'],
      [{ one: 2, two: 10 }, '0x2'],
      [{ two: 10 }, '0x2'],
    ] as const) {
      const { call } = openProofs(nodes, { head: () => head, finalized })
      for (const tag of ['safe', 'finalized']) t.match(await call('eth_getBlockByNumber', tag, false), { number: expected })
      t.equal(
        await call('eth_getTransactionCount', account, 'finalized'),
        await chain.request('eth_getTransactionCount', account, expected),
      )
    }
  })

  t.test('the header of a final block is requested once, until finality is reverted', async t => {
    let isReset = false
    const node: Node = async request => {
      const block = await honest(request)
      if (!isReset || request.method !== 'eth_getBlockByNumber') return block
      const other = { ...(block as JsonMembers), timestamp: '0x1' }
      return { ...other, hash: headerHashOf(other) }
    }
    const gateway = openProofs({ one: node, two: node }, { head: () => head, finalized: head })
    const [method, ...params] = balance
    const truth = await chain.request<Json>(method, ...params)
    const headerRequests = async () => {
      gateway.requests.length = 0
      t.equal(await gateway.call(method, ...params), truth)
      return gateway.requests.filter(each => each.endsWith('eth_getBlockByNumber')).length
    }
    t.equal(await headerRequests(), 2)
    gateway.newHead()
    t.equal(await headerRequests(), 0)
    isReset = true
    gateway.revertFinality()
    t.equal(await headerRequests(), 2)
  })

  t.test('code that is only checked has the hash that a proof about its account has shown at a block that does not change', async t => {
    const wrong = lying('eth_getCode', () => '0x01')
    const contract = emitter.address
    const newest = toHexQuantity(head)
    const { hash: blockHash = null } = await chain.request<JsonMembers>('eth_getBlockByNumber', newest, false)
    const code = await chain.request<Json>('eth_getCode', contract, newest)
    const open = (node: Node, finalized?: number) =>
      openProofs(
        { node, two: honest, three: honest },
        { policies: { eth_getCode: 'check' }, head: () => head, ...(finalized !== undefined && { finalized }) },
      )
    for (const [block, finalized] of [
      [{ blockHash }, undefined],
      [newest, head],
    ] as const) {
      const liar = open(wrong, finalized)
      t.equal(await liar.call('eth_getCode', contract, block), '0x01', 'nothing is known')
      await liar.call('eth_getBalance', contract.toUpperCase().replace('0X', '0x'), block)
      t.equal(await liar.call('eth_getCode', contract, block), undefined)
      t.match(liar.log.lines[0], { message: 'upstream returned a wrong result' })
      const right = open(honest, finalized)
      await right.call('eth_getBalance', contract, block)
      t.match(await right.reply('eth_getCode', contract, block), { verified: 'check' })
      t.equal(await right.call('eth_getCode', contract, block), code)
    }
    const recent = open(wrong)
    await recent.call('eth_getBalance', contract, newest)
    t.equal(await recent.call('eth_getCode', contract, newest), '0x01', 'the block may be another one by now')
  })

  t.test('after a reorg, the proof is judged by the header of now', async t => {
    let isOld = true
    const reorged: Node = lying('eth_getBlockByNumber', async (block, { params }) => {
      const forged = { ...(block as JsonMembers), stateRoot: toSlot(1) }
      return isOld && params[0] === toHexQuantity(head) ? { ...forged, hash: headerHashOf(forged) } : block
    })
    const gateway = openProofs({ one: reorged, two: reorged }, { head: () => head })
    const [method, ...params] = balance
    t.equal(await gateway.call(method, ...params), undefined)
    isOld = false
    t.equal(await gateway.call(method, ...params), await chain.request<Json>(method, ...params))
  })

  t.test('a block that is named by its hash needs no other node', async t => {
    const { hash } = await chain.request<{ hash: string }>('eth_getBlockByNumber', '0x3', false)
    const gateway = openProofs({ one: honest, two: honest })
    t.equal(await gateway.call('eth_getBalance', account, hash), await chain.request('eth_getBalance', account, hash))
    t.same(gateway.requests, ['one eth_getBlockByHash', 'one eth_getProof'])
    const wrong = lying('eth_getBlockByHash', block => ({ ...(block as JsonMembers), stateRoot: toSlot(1) }))
    t.equal(await openProofs({ one: wrong }).call('eth_getBalance', account, hash), undefined)
  })

  t.test('the caller gets what another node proves, in the whole gateway', async t => {
    const block = await chain.request<JsonMembers>('eth_getBlockByNumber', toHexQuantity(head), false)
    const proofFor = (address: string) => chain.request<Json>('eth_getProof', address, [], block['number'])
    const gateway = await harness({
      pipeline: `
- failover: { upstreams: [{ name: liar, url: http://liar.test }, { name: honest, url: http://honest.test }] }
- verify: { methods: { eth_getBalance: proof } }
- upstream: {}`,
      upstreams: {
        liar: { eth_getBlockByNumber: { result: block }, eth_getProof: { result: await proofFor(other) } },
        honest: { eth_getBlockByNumber: { result: block }, eth_getProof: { result: await proofFor(account) } },
      },
    })
    const { result } = await gateway.call('eth_getBalance', [account, 'latest'])
    t.equal(result, await chain.request('eth_getBalance', account, 'latest'))
    t.ok(gateway.metric('tollgate_verified_results_total', { upstream: 'liar', outcome: 'refused' }) > 0)
    t.equal(gateway.metric('tollgate_verified_results_total', { upstream: 'honest', outcome: 'proven' }), 1)
    await gateway.stop()
  })

  t.test('a method of which nothing is proven cannot have the policy', async t => {
    await t.rejects(harness({ pipeline: '- verify: { methods: { eth_call: proof } }' }), /nothing is proven of eth_call/)
  })

  t.test('a node without eth_getProof is no answer, and does not show', async t => {
    const upstream = { eth_getProof: { error: { code: -32601, message: 'the method eth_getProof does not exist' } } }
    const block = await chain.request<JsonMembers>('eth_getBlockByNumber', toHexQuantity(head), false)
    const pipeline = '- verify: { methods: { eth_getBalance: proof } }'
    const gateway = await harness({ pipeline, upstream: { ...upstream, eth_getBlockByNumber: { result: block } } })
    const { error } = await gateway.call('eth_getBalance', [account, block['number']!])
    t.match(error, { code: -32002 })
    t.notMatch(JSON.stringify(error), /eth_getProof/)
    await gateway.stop()
  })

  t.test('the state of the pending block is not proven', async t => {
    const gateway = openProofs({ one: honest })
    t.ok(await gateway.call('eth_getBalance', account, 'pending'))
    t.same(gateway.requests, ['one eth_getBalance'])
  })
})

/** A number in 32 bytes. */
function toSlot(value: number): string {
  return `0x${value.toString(16).padStart(64, '0')}`
}

/** One change of an answer: of the member at the end of the path, by its kind. */
interface Edit {
  readonly path: readonly number[]
  readonly kind: number
  readonly at: number
  readonly bits: number
}

const anyEdit = fc.record<Edit>({
  path: fc.array(fc.nat(1_000), { maxLength: 5 }),
  kind: fc.nat(1_000),
  at: fc.nat(10_000),
  bits: fc.integer({ min: 1, max: 255 }),
})

const change = (value: Json, { path: [first, ...path], ...edit }: Edit, other: Json): Json => {
  const keys = typeof value === 'object' && value !== null ? Object.keys(value) : []
  const key = first === undefined ? undefined : keys[first % (keys.length + 1)]
  if (key === undefined) return editsOf(value, edit, other)[edit.kind % editsOf(value, edit, other).length]!
  if (Array.isArray(value)) return value.with(Number(key), change(value[Number(key)] as Json, { ...edit, path }, other))
  const members = value as JsonMembers
  return { ...members, [key]: change(members[key]!, { ...edit, path }, other) }
}

const editsOf = (value: Json, { at, bits }: Omit<Edit, 'path'>, other: Json): readonly Json[] => {
  const anywhere: readonly Json[] = [null, 0, '0x', '0x0', `0x${'00'.repeat(32)}`, 'x', [], {}, other]
  if (typeof value === 'string' && value.length > 3) {
    const bytes = Buffer.from(value.slice(2).padStart(2 * Math.ceil((value.length - 2) / 2), '0'), 'hex')
    const changed = Buffer.from(bytes)
    changed[at % changed.length]! ^= bits
    const hex = (buffer: Uint8Array): string => `0x${Buffer.from(buffer).toString('hex')}`
    const cut = at % bytes.length
    const texts = [
      hex(changed),
      hex(changed),
      hex(bytes.subarray(cut)),
      hex(bytes.subarray(0, cut)),
      `${value}00`,
      value.slice(0, -1),
      value.toUpperCase(),
    ]
    return [...texts, hex(Buffer.alloc(bytes.length)), ...anywhere]
  }
  if (Array.isArray(value)) {
    const list = value as readonly Json[]
    const i = at % Math.max(1, list.length)
    return [
      list.toSpliced(i, 1),
      list.slice(0, i),
      list.slice(i),
      list.toReversed(),
      [...list, ...list],
      list.toSpliced(i, 0, list[bits % list.length] ?? null),
      ...anywhere,
    ]
  }
  if (typeof value !== 'object' || value === null) return anywhere
  const entries = Object.entries(value)
  return [Object.fromEntries(entries.toSpliced(at % Math.max(1, entries.length), 1)), ...anywhere]
}
