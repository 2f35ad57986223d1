import { isJsonObject } from '../../../src/plugin/plugin.ts'
import type { Json, JsonObject } from '../../../src/plugin/plugin.ts'
import { MalformedMember, toHex, toList, toObject } from '../hex.ts'
import { forkAt, hasFork, periodOf, signingRootOf } from './beacon-chain.ts'
import type { BeaconChain } from './beacon-chain.ts'
import {
  beaconHeaderRootOf,
  membersPerCommittee,
  executionHeaderRootOf,
  isBranch,
  toBytesOf,
  toCommittee,
  toRoot,
  toUintNumber,
} from './ssz.ts'
import type { Committee } from './ssz.ts'

/** What a consensus node sent proves nothing. */
export class UnprovenUpdate extends Error {}

type Bls = typeof import('@chainsafe/blst')

/** A beacon block, and the execution block that it has. */
export interface BeaconHeader {
  readonly slot: number
  readonly root: Buffer
  readonly stateRoot: Buffer
  /** In lower case. */
  readonly blockHash: string
  /** Of the execution block; undefined since the fork Gloas. */
  readonly blockNumber: number | undefined
}

/** A committee whose keys are decoded. */
interface Signers {
  readonly root: Buffer
  readonly keys: readonly InstanceType<Bls['PublicKey']>[]
}

interface LightClientOptions {
  /** Asked each time: forks may be scheduled meanwhile. */
  chain(): BeaconChain
  readonly bls: Bls
  /** Lets other work run: 64 keys take 2.6 ms to decode. */
  yieldToOthers(): Promise<void>
}

const keysPerTurn = 64

/**
 * Follows a beacon chain from a block that an operator trusts, as ethereum/consensus-specs, light-client/sync-protocol.md says: a header counts when two
 * thirds of the sync committee have signed it. A committee is known from the state of a header that the one before has signed, once that header is final.
 */
export class LightClient {
  readonly #options: LightClientOptions
  #period: number
  #current: Signers
  #next: Signers | undefined
  #finalized: BeaconHeader
  #head: BeaconHeader

  private constructor(options: LightClientOptions, header: BeaconHeader, signers: Signers) {
    this.#options = options
    this.#period = periodOf(header.slot)
    this.#current = signers
    this.#finalized = header
    this.#head = header
  }

  /** `checkpoint`: the root of the block. Throws UnprovenUpdate where the bootstrap is of another block. */
  static async open(options: LightClientOptions, checkpoint: string, bootstrap: Json): Promise<LightClient> {
    const { header, committee } = withoutMalformed(() => {
      const { header: headerJson, current_sync_committee: committeeJson, current_sync_committee_branch: branch } = toObject(bootstrap)
      const header = toHeader(headerJson, options.chain())
      const committee = toCommittee(toObject(committeeJson))
      assertThat(toHex(header.root) === checkpoint.toLowerCase(), 'the block is not the checkpoint')
      assertThat(
        isBranch(committee.root, toNodes(branch), indexesAt(options.chain(), header.slot).currentCommittee, header.stateRoot),
        'the sync committee is not that of the checkpoint',
      )
      return { header, committee }
    })
    return new LightClient(options, header, await decode(committee, options))
  }

  /** The newest block that the committee has signed. */
  get head(): BeaconHeader {
    return this.#head
  }

  get finalized(): BeaconHeader {
    return this.#finalized
  }

  /** The period whose update tells the next committee that is not known. */
  get neededPeriod(): number {
    return this.#next === undefined ? this.#period : this.#period + 1
  }

  /**
   * An update of a period, of finality, or of the newest block. Throws UnprovenUpdate, and then nothing has changed. An update that is not newer than what is
   * known changes nothing, and its signature is not computed.
   */
  async update(json: Json, currentSlot: number): Promise<void> {
    const update = withoutMalformed(() => toUpdate(json, this.#options.chain()))
    const { attested, finalized, nextCommittee, signatureSlot } = update
    const attestedPeriod = periodOf(attested.slot)
    const finalizedPeriod = finalized && periodOf(finalized.slot)
    const tellsNext = nextCommittee !== undefined && attestedPeriod === this.neededPeriod && finalizedPeriod === attestedPeriod
    if (attested.slot <= this.#head.slot && (finalized?.slot ?? 0) <= this.#finalized.slot && !tellsNext) return
    assertThat(signatureSlot <= currentSlot, 'the signature is of the future')
    assertThat(signatureSlot > attested.slot && attested.slot >= (finalized?.slot ?? 0), 'slots are not in order')
    const signers = this.#signersAt(signatureSlot)
    assertThat(3 * update.signers >= 2 * membersPerCommittee, `only ${update.signers} of ${membersPerCommittee} members have signed`)
    assertThat(this.#isSigned(update, signers), 'the signature is not that of the sync committee')
    const next = tellsNext ? await decode(nextCommittee, this.#options) : undefined
    if (finalized !== undefined && finalizedPeriod === this.#period + 1 && this.#next !== undefined) {
      this.#current = this.#next
      this.#next = undefined
      this.#period += 1
    }
    if (next !== undefined && attestedPeriod === this.#period) this.#next ??= next
    if (finalized !== undefined && finalized.slot > this.#finalized.slot) this.#finalized = finalized
    if (attested.slot > this.#head.slot) this.#head = attested
  }

  #signersAt(slot: number): Signers {
    const period = periodOf(slot)
    const signers = period === this.#period ? this.#current : period === this.#period + 1 ? this.#next : undefined
    if (signers === undefined) throw new UnprovenUpdate('the sync committee of that time is not known')
    return signers
  }

  #isSigned({ attested, signatureSlot, bits, signature }: Update, { keys }: Signers): boolean {
    const { bls } = this.#options
    const chain = this.#options.chain()
    const fork = forkAt(chain, signatureSlot - 1)
    if (fork === undefined) return false
    const signingKeys = keys.filter((_, i) => isSet(bits, i))
    try {
      const message = signingRootOf(attested.root, fork.version, chain)
      return bls.fastAggregateVerify(message, signingKeys, bls.Signature.fromBytes(signature, true))
    } catch {
      // Bytes that are no point of the curve.
      return false
    }
  }
}

interface Update {
  readonly attested: BeaconHeader
  readonly finalized: BeaconHeader | undefined
  readonly nextCommittee: Committee | undefined
  readonly signatureSlot: number
  readonly bits: Buffer
  readonly signers: number
  readonly signature: Buffer
}

/** Throws for headers and committees that are not those of the attested header; the signature of that is not checked. */
const toUpdate = (json: Json, chain: BeaconChain): Update => {
  const members = toObject(json)
  const attested = toHeader(members['attested_header'], chain)
  const indexes = indexesAt(chain, attested.slot)
  const aggregate = toObject(members['sync_aggregate'])
  const bits = toBytesOf(aggregate['sync_committee_bits'], membersPerCommittee / 8)
  return {
    attested,
    finalized: toFinalized(members, attested, chain),
    nextCommittee: toNextCommittee(members, attested, indexes.nextCommittee),
    signatureSlot: toUintNumber(members['signature_slot']),
    bits,
    signers: Array.from({ length: membersPerCommittee }, (_, i) => isSet(bits, i)).filter(Boolean).length,
    signature: toBytesOf(aggregate['sync_committee_signature'], signatureBytes),
  }
}

const signatureBytes = 96

/** An update of the newest block has none. */
const toFinalized = (
  { finalized_header: json, finality_branch: branch }: JsonObject,
  attested: BeaconHeader,
  chain: BeaconChain,
): BeaconHeader | undefined => {
  if (json === undefined || isZero(toNodes(branch))) return undefined
  const finalized = toHeader(json, chain)
  assertThat(
    isBranch(finalized.root, toNodes(branch), indexesAt(chain, attested.slot).finalizedRoot, attested.stateRoot),
    'the finalized block is not that of the attested state',
  )
  return finalized
}

const toNextCommittee = (
  { next_sync_committee: json, next_sync_committee_branch: branch }: JsonObject,
  attested: BeaconHeader,
  index: number,
): Committee | undefined => {
  if (!isJsonObject(json) || isZero(toNodes(branch))) return undefined
  const committee = toCommittee(json)
  assertThat(
    isBranch(committee.root, toNodes(branch), index, attested.stateRoot),
    'the next sync committee is not that of the attested state',
  )
  return committee
}

/** A LightClientHeader, whose execution block is that of its beacon block. */
const toHeader = (json: Json | undefined, chain: BeaconChain): BeaconHeader => {
  const { beacon: beaconJson, execution, execution_block_hash: hash, execution_branch: branch } = toObject(json)
  const beacon = toObject(beaconJson)
  const slot = toUintNumber(beacon['slot'])
  const header = { slot, root: beaconHeaderRootOf(beacon), stateRoot: toRoot(beacon['state_root']) }
  const bodyRoot = toRoot(beacon['body_root'])
  const isSinceDeneb = hasFork(chain, 'deneb', slot)
  assertThat(hasFork(chain, 'capella', slot), 'the block is older than the fork Capella')
  if (execution === undefined) {
    // Since Gloas, also for blocks from before it.
    const index = hasFork(chain, 'gloas', slot) ? 2856 : isSinceDeneb ? 812 : 412
    assertThat(isBranch(toRoot(hash), toNodes(branch), index, bodyRoot), otherExecution)
    return { ...header, blockHash: toHex(toRoot(hash)), blockNumber: undefined }
  }
  const members = toObject(execution)
  assertThat(
    !hasFork(chain, 'gloas', slot) && isBranch(executionHeaderRootOf(members, isSinceDeneb), toNodes(branch), 25, bodyRoot),
    otherExecution,
  )
  return { ...header, blockHash: toHex(toRoot(members['block_hash'])), blockNumber: toUintNumber(members['block_number']) }
}

const otherExecution = 'the execution block is not that of the beacon block'

/** Generalized indexes in the state. */
const indexesAt = (chain: BeaconChain, slot: number) => {
  if (hasFork(chain, 'gloas', slot)) return { finalizedRoot: 735, currentCommittee: 2945, nextCommittee: 2946 }
  if (hasFork(chain, 'electra', slot)) return { finalizedRoot: 169, currentCommittee: 86, nextCommittee: 87 }
  return { finalizedRoot: 105, currentCommittee: 54, nextCommittee: 55 }
}

const toNodes = (branch: Json | undefined): readonly Buffer[] => toList(branch).map(toRoot)

/** As a member that is not there is written. */
const isZero = (nodes: readonly Buffer[]): boolean => nodes.every(node => node.every(byte => byte === 0))

const isSet = (bits: Buffer, i: number): boolean => ((bits[i >> 3]! >> (i & 7)) & 1) === 1

/** The keys are those of validators, whose deposits have proven them: whether they are in the right group is not computed again, which takes four times as long. */
const decode = async ({ keys, root }: Committee, { bls, yieldToOthers }: LightClientOptions): Promise<Signers> => {
  const decoded: InstanceType<Bls['PublicKey']>[] = []
  for (let i = 0; i < keys.length; i += keysPerTurn) {
    await yieldToOthers()
    try {
      for (const key of keys.slice(i, i + keysPerTurn)) decoded.push(bls.PublicKey.fromBytes(key, false))
    } catch {
      throw new UnprovenUpdate('a key of the sync committee is none')
    }
  }
  return { root, keys: decoded }
}

function assertThat(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new UnprovenUpdate(otherwise)
}

const withoutMalformed = <T>(read: () => T): T => {
  try {
    return read()
  } catch (error) {
    if (error instanceof MalformedMember) throw new UnprovenUpdate('a member is missing or malformed')
    throw error
  }
}
