import { readFileSync } from 'node:fs'
import bls from '@chainsafe/blst'
import { beaconChains, signingRootOf, withForkSchedule } from '../../../../plugins/verify/beacon/beacon-chain.ts'
import { LightClient, UnprovenUpdate } from '../../../../plugins/verify/beacon/light-client.ts'
import { beaconHeaderRootOf, executionHeaderRootOf, hashPair, isBranch, toCommittee } from '../../../../plugins/verify/beacon/ssz.ts'
import type { Json } from '../../../../src/plugin/call.ts'
import t from '../../../support/tap.ts'
import { ModelBeacon, toHex } from './model-beacon.ts'

type Members = { readonly [name: string]: Json }

interface RecordedUpdate {
  readonly attested_header: Members
  readonly finalized_header: Members
  readonly finality_branch: readonly string[]
  readonly next_sync_committee_branch?: readonly string[]
  readonly sync_aggregate: { readonly sync_committee_bits: string; readonly sync_committee_signature: string }
}

interface RecordedHeader {
  readonly beacon: { readonly body_root: string }
  readonly execution: Members
  readonly execution_branch: readonly string[]
}

/**
 * Of a network of geth and Lodestar with the fork Electra, as Snowbridge has recorded it for its tests (Apache-2.0), and a header of Ethereum with the fork
 * Capella, of the tests of Helios (MIT).
 */
interface Recorded {
  readonly genesisValidatorsRoot: string
  readonly checkpoint: { readonly header: Members; readonly current_sync_committee_branch: readonly string[] }
  readonly keys: readonly string[]
  /** The positions of the members' keys. */
  readonly members: string
  readonly aggregate_pubkey: string
  readonly committeeUpdate: RecordedUpdate
  readonly finalityUpdate: RecordedUpdate
  readonly executionHeader: RecordedHeader
  readonly mainnetHeader: RecordedHeader
}

const recorded = JSON.parse(readFileSync('test/plugins/verify/beacon/recorded-beacon.json', 'utf8')) as Recorded // of that file

const toBytes = (hex: Json | undefined): Buffer => Buffer.from(String(hex).slice(2), 'hex')
const toNodes = (branch: readonly string[] = []): Buffer[] => branch.map(toBytes)

t.test('what a consensus node of another program has signed is proven', async t => {
  const { checkpoint, committeeUpdate, finalityUpdate, keys, members, aggregate_pubkey } = recorded
  const committee = toCommittee({ pubkeys: [...members].map(i => keys[Number(i)]!), aggregate_pubkey })
  const stateRoot = (header: Members) => toBytes(header['state_root'])
  t.ok(isBranch(committee.root, toNodes(checkpoint.current_sync_committee_branch), 86, stateRoot(checkpoint.header)))
  t.ok(isBranch(committee.root, toNodes(committeeUpdate.next_sync_committee_branch), 87, stateRoot(committeeUpdate.attested_header)))
  const signingKeys = committee.keys.map(key => bls.PublicKey.fromBytes(key))
  for (const { attested_header, finalized_header, finality_branch, sync_aggregate } of [committeeUpdate, finalityUpdate]) {
    t.ok(isBranch(beaconHeaderRootOf(finalized_header), toNodes(finality_branch), 169, stateRoot(attested_header)))
    const signature = bls.Signature.fromBytes(toBytes(sync_aggregate.sync_committee_signature), true)
    const chain = { genesisTime: 0, genesisValidatorsRoot: recorded.genesisValidatorsRoot, forks: [] }
    const isSigned = (version: string) =>
      bls.fastAggregateVerify(signingRootOf(beaconHeaderRootOf(attested_header), version, chain), signingKeys, signature)
    t.ok(isSigned('0x05000000'))
    t.notOk(isSigned('0x04000000'), 'another fork')
  }
})

t.test('execution blocks of recorded headers are those of their beacon blocks, also as the fork Gloas has them', async t => {
  for (const [{ beacon, execution, execution_branch }, isSinceDeneb, index, leaves] of [
    [recorded.mainnetHeader, false, 412, 16],
    [recorded.executionHeader, true, 812, 32],
  ] as const) {
    const bodyRoot = toBytes(beacon.body_root)
    const root = executionHeaderRootOf(execution, isSinceDeneb)
    t.ok(isBranch(root, toNodes(execution_branch), 25, bodyRoot))
    for (const name of Object.keys(execution)) {
      const value = String(execution[name])
      const other = value.startsWith('0x') ? `${value.slice(0, -1)}${value.endsWith('0') ? '1' : '0'}` : String(BigInt(value) + 1n)
      t.notOk(executionHeaderRootOf({ ...execution, [name]: other }, isSinceDeneb).equals(root), name)
    }
    t.equal(index, 25 * leaves + 12, 'the block hash is the 13th field')
  }
})

const isRefused = (done: Promise<unknown>): Promise<boolean> =>
  done.then(
    () => false,
    error => error instanceof UnprovenUpdate,
  )

const mainnet = beaconChains.get(1)!
const period = 1700
const start = period * 8192 + 64
const now = start + 5_000

const open = async (model: ModelBeacon, bootstrap: Json = model.bootstrap(start), checkpoint = model.checkpoint(start)) =>
  LightClient.open({ chain: () => model.chain, bls, yieldToOthers: async () => undefined }, checkpoint, bootstrap)

const model = new ModelBeacon()

t.test('a light client starts from its checkpoint alone', async t => {
  t.equal((await open(model)).head.slot, start)
  t.equal((await open(model, model.bootstrap(start), model.checkpoint(start).toUpperCase().replace('0X', '0x'))).head.slot, start)
  const right = model.bootstrap(start)
  for (const [what, wrong] of Object.entries({
    'another block': model.bootstrap(start + 1),
    'another committee': { ...right, current_sync_committee: model.committee(period + 1) },
    'the next committee': {
      ...right,
      current_sync_committee: model.committee(period + 1),
      current_sync_committee_branch: model.state(start).next,
    },
    'another execution block': {
      ...right,
      header: { ...(right['header'] as Members), execution: (model.header(start + 1) as Members)['execution']! },
    },
    'no branch': { ...right, current_sync_committee_branch: [] },
    'a committee of 511': {
      ...right,
      current_sync_committee: { ...model.committee(period), pubkeys: model.committee(period).pubkeys.slice(1) },
    },
    nothing: null,
  }))
    t.ok(await isRefused(open(model, wrong, model.checkpoint(start))), what)
})

t.test('a header counts when two thirds of the committee have signed it', async t => {
  const client = await open(model)
  await client.update(model.update(start + 10, { signers: 342 }), now)
  t.match(client.head, { slot: start + 10, blockNumber: start + 10 })
  const block = { hash: `0x${'ab'.repeat(32)}`, number: 17 }
  await client.update(model.update(start + 11, { block, finalizedSlot: start + 5 }), now)
  t.match(client.head, { slot: start + 11, blockHash: block.hash, blockNumber: 17 })
  t.equal(client.finalized.slot, start + 5)
  await client.update(model.update(start + 2, { signers: 400 }), now)
  t.equal(client.head.slot, start + 11, 'an older one changes nothing')
})

t.test('a forged update is refused, and changes nothing', async t => {
  const client = await open(model)
  const right = model.update(start + 10, { finalizedSlot: start + 5 })
  const other = model.update(start + 11, { finalizedSlot: start + 6, block: { hash: `0x${'ab'.repeat(32)}`, number: 1 } })
  const aggregate = right['sync_aggregate'] as Members
  const bits = Buffer.alloc(64, 0xff)
  bits[0] = 0xfe
  const forged: Readonly<Record<string, Json>> = {
    'a third of the committee less one': model.update(start + 10, { signers: 341 }),
    'nobody has signed': { ...right, sync_aggregate: { ...aggregate, sync_committee_bits: `0x${'00'.repeat(64)}` } },
    'another committee': model.update(start + 10, { signerPeriod: period + 1 }),
    'another fork': model.update(start + 10, { version: '0x05000000' }),
    'another chain': new ModelBeacon({ ...mainnet, genesisValidatorsRoot: `0x${'00'.repeat(32)}` }).update(start + 10),
    'the signature of another header': { ...right, sync_aggregate: other['sync_aggregate']! },
    'a member who has not signed': { ...right, sync_aggregate: { ...aggregate, sync_committee_bits: toHex(bits) } },
    'a signature that is none': { ...right, sync_aggregate: { ...aggregate, sync_committee_signature: `0x${'11'.repeat(96)}` } },
    'another header': { ...right, attested_header: other['attested_header']! },
    'another finalized header': { ...right, finalized_header: other['finalized_header']! },
    'another execution block': {
      ...right,
      attested_header: { ...(right['attested_header'] as Members), execution: (other['attested_header'] as Members)['execution']! },
    },
    'no execution block': { ...right, attested_header: { beacon: (right['attested_header'] as Members)['beacon']! } },
    'a finalized header after the attested': model.update(start + 10, { finalizedSlot: start + 20 }),
    'a signature before the block': model.update(start + 10, { signatureSlot: start + 10 }),
    'a signature of the future': model.update(now + 10),
    'another next committee': {
      ...model.update(start + 10, { hasNextCommittee: true }),
      next_sync_committee: model.committee(period + 2),
    },
    'the current committee as the next': {
      ...model.update(start + 10, { hasNextCommittee: true }),
      next_sync_committee: model.committee(period),
      next_sync_committee_branch: model.state(start + 10).current,
    },
    'no update': 'ok',
  }
  for (const [what, update] of Object.entries(forged)) t.ok(await isRefused(client.update(update, now)), what)
  t.equal(client.head.slot, start)
  t.equal(client.finalized.slot, start)
  t.equal(client.neededPeriod, period)
  await client.update(right, now)
  t.equal(client.head.slot, start + 10)
})

t.test('committees follow each other, and none is skipped', async t => {
  const client = await open(model)
  const late = (period + 3) * 8192
  const ofPeriod = (each: number, slot = each * 8192 + 200) => model.update(slot, { finalizedSlot: slot - 96, hasNextCommittee: true })
  t.ok(await isRefused(client.update(ofPeriod(period + 1), late)), 'its committee is not known yet')
  await client.update(model.update(start + 200, { hasNextCommittee: true }), late)
  t.equal(client.neededPeriod, period, 'a committee of a state that is not final is not known')
  await client.update(ofPeriod(period, start + 300), late)
  t.equal(client.neededPeriod, period + 1)
  t.ok(await isRefused(client.update(ofPeriod(period + 2), late)))
  const first = (period + 1) * 8192 + 3
  await client.update(model.update(first, { finalizedSlot: first - 96 }), late)
  t.equal(client.head.slot, first, 'signed by the next committee while the finalized block is of the time of the one before')
  await client.update(ofPeriod(period + 1), late)
  t.equal(client.neededPeriod, period + 2)
  await client.update(model.update((period + 2) * 8192 + 5), late)
  t.equal(client.head.slot, (period + 2) * 8192 + 5)
  t.ok(await isRefused(client.update(model.update((period + 2) * 8192 + 9, { signerPeriod: period + 1 }), late)))
})

t.test('a fork changes the version that is signed, the places in the state, and the form of headers', async t => {
  const forkSlot = start + 96
  const gloas = new ModelBeacon(withForkSchedule(mainnet, 'gloas', forkSlot / 32))
  const client = await open(gloas)
  await client.update(gloas.update(forkSlot - 1), now)
  t.equal(client.head.blockNumber, forkSlot - 1, 'the block before the fork is signed by the version of its time, or that of the next slot')
  await client.update(gloas.update(forkSlot + 1, { finalizedSlot: start + 10, hasNextCommittee: true }), now)
  t.match(client.head, { slot: forkSlot + 1, blockNumber: undefined })
  t.equal(client.finalized.slot, start + 10)
  t.equal(client.neededPeriod, period + 1)
  t.ok(await isRefused(client.update(gloas.update(forkSlot + 5, { version: '0x06000000' }), now)))
  const header = gloas.header(forkSlot + 6)
  t.ok(
    await isRefused(
      client.update(
        {
          ...gloas.update(forkSlot + 6),
          attested_header: { ...header, execution_block_hash: toHex(hashPair(toBytes('0x00'), toBytes('0x01'))) },
        },
        now,
      ),
    ),
  )
  const unaware = await open(model)
  t.ok(await isRefused(unaware.update(gloas.update(forkSlot + 7), now)), 'a fork that is not known')
})
