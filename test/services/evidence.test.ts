import t from '../support/tap.ts'
import { EvidenceWriter, clearEvidence, findEvidence, readEvidence } from '../../src/services/evidence.ts'
import type { EvidenceInput } from '../../src/services/evidence.ts'
import { NodeTrust } from '../../src/services/node-trust.ts'
import { openLmdbStore } from '../../src/store/lmdb/lmdb-store.ts'
import { StoreError } from '../../src/store/store.ts'
import { DrainedNodes, readmitNode } from '../../src/services/drained-nodes.ts'
import { TestClock, TestLog } from '../support/fakes.ts'
import { waitUntil } from '../support/wait-until.ts'

const wrong: EvidenceInput = {
  upstream: 'own',
  methodClass: 'logs',
  cause: 'receipts are not those of the header',
  request: { method: 'eth_getBlockReceipts', params: ['0x10'] },
  answer: Buffer.from('[]'),
  header: { number: 16 },
}

t.test('evidence in the store', async t => {
  const clock = new TestClock()
  const store = await openLmdbStore(t.testdir(), clock)
  t.teardown(() => store.close())
  const writer = new EvidenceWriter({ store, clock, log: new TestLog() })
  const devnet = writer.of('devnet')

  t.test('is found by its id, the newest first, with the network and the time', async t => {
    const first = devnet.add(wrong)!
    clock.advance(1_000)
    const second = devnet.add({ ...wrong, request: { method: 'eth_getProof', params: [] }, header: null })!
    await writer.whenIdle()
    t.same(
      (await readEvidence(store)).map(({ id }) => id),
      [second, first],
    )
    t.match(await findEvidence(store, first), {
      ...wrong,
      network: 'devnet',
      answer: '[]',
      answerBytes: 2,
      answerSha256: /^4f53cda18c2baa0c/,
    })
    t.equal(await findEvidence(store, 'none'), undefined)
    t.match(await devnet.proven(), [{ upstream: 'own', methodClass: 'logs' }], 'what contradicts itself is no lie')
    t.same(await writer.of('other').proven(), [])
  })

  t.test('is kept once a minute of a node and method', async t => {
    t.equal(devnet.add(wrong), undefined)
    t.ok(devnet.add({ ...wrong, upstream: 'second' }))
    t.ok(writer.of('other').add(wrong))
    clock.advance(60_000)
    t.ok(devnet.add(wrong))
    await writer.whenIdle()
  })

  t.test('of a lie is kept also where the node has just contradicted itself, and where its evidence has just been cleared', async t => {
    const drainedNodes = new DrainedNodes({ store, clock, log: new TestLog() })
    const other = new EvidenceWriter({ store, clock, log: new TestLog(), drainedNodes })
    const name = { network: 'readmission', upstream: 'own' }
    const network = other.of(name.network)
    await drainedNodes.start()
    t.teardown(() => drainedNodes.stop())
    t.ok(network.add({ ...wrong, header: null }))
    t.ok(network.add(wrong), 'a lie')
    t.equal(network.add(wrong), undefined)
    await other.whenIdle()
    t.equal(await clearEvidence(store, name), 2)
    await readmitNode(store, name, clock.now())
    clock.advance(1_000)
    await waitUntil(() => network.add(wrong) !== undefined)
    await other.whenIdle()
    t.match(await network.proven(), [{ upstream: 'own', methodClass: 'logs' }])
    await clearEvidence(store, name)
  })

  t.test('has the first bytes of a long answer, and of long parameters', async t => {
    const request = { method: 'eth_getLogs', params: ['0x'.padEnd(100_000, '1')] }
    const id = devnet.add({ ...wrong, request, answer: Buffer.alloc(1 << 20, 'a') })!
    await writer.whenIdle()
    const found = await findEvidence(store, id)
    t.equal(found?.answer.length, 16_384)
    t.equal(found?.answerBytes, 1 << 20)
    t.ok(JSON.stringify(found).length < 26_000)
  })

  t.test('is removed with its node, and the oldest for a new one', async t => {
    for (const { network, upstream } of await readEvidence(store)) await clearEvidence(store, { network, upstream })
    for (let i = 0; i < 205; i++) {
      clock.advance(1)
      devnet.add({ ...wrong, upstream: `node-${i % 2}`, request: { method: `m${i}`, params: [] } })
    }
    await writer.whenIdle()
    const all = await readEvidence(store)
    t.equal(all.length, 200)
    t.equal(all.at(-1)?.request.method, 'm5')
    t.equal(await clearEvidence(store, { network: 'devnet', upstream: 'node-0' }), 100)
    t.equal(await clearEvidence(store, { network: 'other', upstream: 'node-1' }), 0)
    t.equal((await readEvidence(store)).length, 100)
  })

  t.test('that shows last that a node has lied in a class stays until it is cleared, however much comes after it', async t => {
    const lied = { ...wrong, upstream: 'liar' }
    devnet.add(lied)
    clock.advance(60_000)
    const last = devnet.add(lied)!
    for (let i = 0; i < 201; i++) {
      clock.advance(1)
      devnet.add({ ...lied, request: { method: `m${i}`, params: [] }, header: null })
    }
    await writer.whenIdle()
    const all = await readEvidence(store)
    t.equal(all.length, 200)
    t.same(
      all.filter(({ upstream, header }) => upstream === 'liar' && header !== null).map(({ id }) => id),
      [last],
    )
  })

  t.test('that cannot be written is lost, and no error', async t => {
    const log = new TestLog()
    const putRecord = async () => Promise.reject(new StoreError('unreachable'))
    const broken = new EvidenceWriter({ store: { ...store, putRecord }, clock, log })
    t.ok(broken.of('devnet').add(wrong))
    await broken.whenIdle()
    t.same(log.lines, [])
  })
})

t.test('a node is trusted again for a class after 100 right answers, or never', async t => {
  const trust = new NodeTrust()
  t.equal(trust.recordRight('own', 'logs'), false)
  t.equal(trust.distrust('own', 'logs'), true)
  t.equal(trust.distrust('own', 'logs'), false)
  t.ok(trust.isDistrusted('own', 'logs'))
  t.notOk(trust.isDistrusted('own', 'light'))
  t.notOk(trust.isDistrusted('second', 'logs'))
  for (let i = 0; i < 99; i++) t.equal(trust.recordRight('own', 'logs'), false)
  trust.distrust('own', 'logs')
  for (let i = 0; i < 99; i++) trust.recordRight('own', 'logs')
  t.ok(trust.isDistrusted('own', 'logs'), 'another lie begins anew')
  t.equal(trust.recordRight('own', 'logs'), true)
  t.notOk(trust.isDistrusted('own', 'logs'))
  trust.distrust('own', 'logs', { isForGood: true })
  trust.distrust('own', 'logs')
  for (let i = 0; i < 200; i++) trust.recordRight('own', 'logs')
  t.ok(trust.isDistrusted('own', 'logs'))
})
