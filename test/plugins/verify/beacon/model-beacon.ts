import { createServer } from 'node:http'
import type { IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import bls from '@chainsafe/blst'
import { beaconChains, forkAt, hasFork, periodOf, signingRootOf, slotAt } from '../../../../plugins/verify/beacon/beacon-chain.ts'
import type { BeaconChain } from '../../../../plugins/verify/beacon/beacon-chain.ts'
import {
  beaconHeaderRootOf,
  membersPerCommittee,
  executionHeaderRootOf,
  hashPair,
  toCommittee,
} from '../../../../plugins/verify/beacon/ssz.ts'
import type { Json } from '../../../../src/plugin/call.ts'

// A made-up beacon chain, whose committees have keys of its own: what its node returns is of the form that the Beacon API has, and right unless it is changed.

type Members = { readonly [name: string]: Json }

export const toHex = (bytes: Uint8Array): string => `0x${Buffer.from(bytes).toString('hex')}`
const toBytes = (hex: string): Buffer => Buffer.from(hex.slice(2), 'hex')
const zero = Buffer.alloc(32)

/** The nodes of a tree of which only these are known; all others are zeros. */
class SparseTree {
  readonly #leaves: ReadonlyMap<number, Buffer>

  constructor(leaves: Readonly<Record<number, Buffer>>) {
    this.#leaves = new Map(Object.entries(leaves).map(([index, leaf]) => [Number(index), leaf]))
  }

  node(index: number): Buffer {
    const leaf = this.#leaves.get(index)
    if (leaf !== undefined) return leaf
    const isAbove = (below: number): boolean =>
      below > index && below >> (Math.floor(Math.log2(below)) - Math.floor(Math.log2(index))) === index
    return [...this.#leaves.keys()].some(isAbove) ? hashPair(this.node(2 * index), this.node(2 * index + 1)) : zero
  }

  branch(index: number): string[] {
    return index === 1 ? [] : [toHex(this.node(index ^ 1)), ...this.branch(index >> 1)]
  }
}

/** An execution block. */
export interface ModelBlock {
  readonly hash: string
  readonly number: number
}

interface HeaderOptions {
  readonly block?: ModelBlock
  readonly finalizedRoot?: Buffer
}

interface UpdateOptions extends HeaderOptions {
  /** Of the newest finalized block; none for an update of the newest block. */
  readonly finalizedSlot?: number
  readonly hasNextCommittee?: boolean
  readonly finalBlock?: ModelBlock | undefined
  readonly signatureSlot?: number
  readonly signers?: number
  /** Whose committee signs. */
  readonly signerPeriod?: number
  /** The version of the fork in what is signed. */
  readonly version?: string
}

const keysPerCommittee = 4

const memoizeByNumber = <T>(make: (number: number) => T): ((number: number) => T) => {
  const made = new Map<number, T>()
  return number => {
    const known = made.get(number) ?? make(number)
    made.set(number, known)
    return known
  }
}

export class ModelBeacon {
  readonly chain: BeaconChain

  constructor(chain: BeaconChain = beaconChains.get(1)!) {
    this.chain = chain
  }

  /** A validator may be a member several times: a committee has 4 of them. */
  readonly secrets = memoizeByNumber((period: number) =>
    Array.from({ length: keysPerCommittee }, (_, i) => bls.SecretKey.fromKeygen(Buffer.alloc(32, 1 + (period % 50) * 4 + i))),
  )

  readonly committee = memoizeByNumber((period: number) => {
    const keys = this.secrets(period).map(secret => secret.toPublicKey())
    const members = Array.from({ length: membersPerCommittee }, (_, i) => keys[i % keysPerCommittee]!)
    return { pubkeys: members.map(key => toHex(key.toBytes())), aggregate_pubkey: toHex(bls.aggregatePublicKeys(members).toBytes()) }
  })

  readonly #committeeRoot = memoizeByNumber((period: number) => toCommittee(this.committee(period)).root)

  state(slot: number, finalizedRoot: Buffer = zero) {
    const indexes = hasFork(this.chain, 'gloas', slot) ? ([2945, 2946, 735] as const) : ([86, 87, 169] as const)
    const [current, next, finalized] = indexes
    const period = periodOf(slot)
    const tree = new SparseTree({
      [current]: this.#committeeRoot(period),
      [next]: this.#committeeRoot(period + 1),
      [finalized]: finalizedRoot,
    })
    return { root: tree.node(1), current: tree.branch(current), next: tree.branch(next), finalized: tree.branch(finalized) }
  }

  /** A LightClientHeader. */
  header(slot: number, { block = blockOf(slot), finalizedRoot }: HeaderOptions = {}): Members {
    const execution = executionOf(block)
    const isGloas = hasFork(this.chain, 'gloas', slot)
    const index = isGloas ? 2856 : 25
    const body = new SparseTree({ [index]: isGloas ? toBytes(block.hash) : executionHeaderRootOf(execution, true) })
    return {
      beacon: {
        slot: String(slot),
        proposer_index: '7',
        parent_root: toHex(zero),
        state_root: toHex(this.state(slot, finalizedRoot).root),
        body_root: toHex(body.node(1)),
      },
      ...(isGloas ? { execution_block_hash: block.hash } : { execution }),
      execution_branch: body.branch(index),
    }
  }

  rootOf(header: Members): Buffer {
    return beaconHeaderRootOf(header['beacon'] as Members)
  }

  checkpoint(slot: number): string {
    return toHex(this.rootOf(this.header(slot)))
  }

  bootstrap(slot: number): Members {
    return {
      header: this.header(slot),
      current_sync_committee: this.committee(periodOf(slot)),
      current_sync_committee_branch: this.state(slot).current,
    }
  }

  update(slot: number, options: UpdateOptions = {}): Members {
    const { block, finalizedSlot, finalBlock, hasNextCommittee = false, signatureSlot = slot + 1, signers = membersPerCommittee } = options
    const finalized = finalizedSlot === undefined ? undefined : this.header(finalizedSlot, finalBlock && { block: finalBlock })
    const finalizedRoot = finalized && this.rootOf(finalized)
    const attested = this.header(slot, { ...(block && { block }), ...(finalizedRoot && { finalizedRoot }) })
    const state = this.state(slot, finalizedRoot)
    return {
      attested_header: attested,
      ...(finalized && { finalized_header: finalized, finality_branch: state.finalized }),
      ...(hasNextCommittee && {
        next_sync_committee: this.committee(periodOf(slot) + 1),
        next_sync_committee_branch: state.next,
      }),
      sync_aggregate: this.#aggregate(this.rootOf(attested), signatureSlot, signers, options),
      signature_slot: String(signatureSlot),
    }
  }

  #aggregate(
    root: Buffer,
    signatureSlot: number,
    signers: number,
    { signerPeriod = periodOf(signatureSlot), version }: UpdateOptions,
  ): Members {
    const message = signingRootOf(root, version ?? forkAt(this.chain, signatureSlot - 1)!.version, this.chain)
    const signatures = this.secrets(signerPeriod).map(secret => secret.sign(message))
    const bits = Buffer.alloc(membersPerCommittee / 8)
    for (let i = 0; i < signers; i++) bits[i >> 3]! |= 1 << (i & 7)
    const signature = bls.aggregateSignatures(Array.from({ length: signers }, (_, i) => signatures[i % keysPerCommittee]!))
    return { sync_committee_bits: toHex(bits), sync_committee_signature: toHex(signature.toBytes()) }
  }
}

/** Of a slot for which the test gives none. */
const blockOf = (slot: number): ModelBlock => ({ hash: toHex(hashPair(zero, Buffer.from(String(slot)))), number: slot })

const executionOf = ({ hash, number }: ModelBlock): Members => ({
  parent_hash: toHex(zero),
  fee_recipient: `0x${'11'.repeat(20)}`,
  state_root: toHex(zero),
  receipts_root: toHex(zero),
  logs_bloom: `0x${'00'.repeat(256)}`,
  prev_randao: toHex(zero),
  block_number: String(number),
  gas_limit: '30000000',
  gas_used: '21000',
  timestamp: '1',
  extra_data: '0x6162',
  base_fee_per_gas: '7',
  block_hash: hash,
  transactions_root: toHex(zero),
  withdrawals_root: toHex(zero),
  blob_gas_used: '0',
  excess_blob_gas: '0',
})

/** What the node of a test answers by path; undefined is HTTP 404. */
type Answers = (path: string, request: IncomingMessage) => Json | string | undefined

/** A consensus node over HTTP. */
export const startBeaconNode = async (answers: Answers) => {
  const requests: string[] = []
  const server = createServer((request, response) => {
    const path = (request.url ?? '').replace(/^.*\/eth\/v1\//, '').replace('beacon/light_client/', '')
    requests.push(path)
    const answer = answers(path, request)
    response.statusCode = answer === undefined ? 404 : 200
    response.end(typeof answer === 'string' ? answer : JSON.stringify(answer ?? { code: 404 }))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo // listens on a port
  return {
    requests,
    url: `http://127.0.0.1:${port}`,
    stop: async () => {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

/** The answers of an honest node of the chain at the time, whose newest signed block is that of the slot. */
export const honestAnswers = (
  model: ModelBeacon,
  options: { now(): number; block?(slot: number): ModelBlock; readonly finalBlock?: ModelBlock; gloasEpoch?: number },
): Answers => {
  const { now, block = blockOf, finalBlock, gloasEpoch } = options
  return path => {
    const slot = slotAt(model.chain, now())
    const [name = '', query = ''] = path.split('?')
    if (name === 'config/spec') return { data: { ...(gloasEpoch !== undefined && { GLOAS_FORK_EPOCH: String(gloasEpoch) }) } }
    if (name.startsWith('bootstrap/')) {
      const root = name.slice('bootstrap/'.length)
      const found = checkpoints.get(root)
      return found === undefined ? undefined : { data: model.bootstrap(found) }
    }
    if (name === 'updates') {
      const params = new URLSearchParams(query)
      const first = Number(params.get('start_period'))
      const last = Math.min(first + Number(params.get('count')) - 1, periodOf(slot))
      return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => {
        const attested = Math.min((first + i) * 8192 + 200, slot - 1)
        return { version: 'fulu', data: model.update(attested, { finalizedSlot: attested - 96, hasNextCommittee: true }) }
      })
    }
    const head = slot - 1
    if (name === 'finality_update') return { data: model.update(head, { finalizedSlot: head - 96, finalBlock, block: block(head) }) }
    return name === 'optimistic_update' ? { data: model.update(head, { block: block(head) }) } : undefined
  }
}

const checkpoints = new Map<string, number>()

/** The root of the block of the slot, of which an honest node has the bootstrap. */
export const checkpointAt = (model: ModelBeacon, slot: number): string => {
  const root = model.checkpoint(slot)
  checkpoints.set(root, slot)
  return root
}
