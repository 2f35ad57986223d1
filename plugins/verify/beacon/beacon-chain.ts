import { hashPair, padded } from './ssz.ts'

/** The first fork whose headers of light clients have an execution block, and those after it. */
type ForkName = 'capella' | 'deneb' | 'electra' | 'fulu' | 'gloas'

interface BeaconFork {
  readonly name: ForkName
  readonly version: string
  /** Undefined before it is scheduled: the consensus node says it. */
  readonly epoch: number | undefined
}

/** A beacon chain with the preset `mainnet`. */
export interface BeaconChain {
  /** Seconds since 1970. */
  readonly genesisTime: number
  readonly genesisValidatorsRoot: string
  /** From the oldest to the newest. */
  readonly forks: readonly BeaconFork[]
}

export const slotSeconds = 12
/** An epoch: its first block may become final. */
export const slotsPerCheckpoint = 32
/** 27 hours. */
const slotsPerPeriod = 8192

const epochOf = (slot: number): number => Math.floor(slot / slotsPerCheckpoint)
/** A sync committee signs for one period. */
export const periodOf = (slot: number): number => Math.floor(slot / slotsPerPeriod)

const toForks = (forks: Readonly<Record<ForkName, readonly [version: string, epoch?: number]>>): readonly BeaconFork[] =>
  (['capella', 'deneb', 'electra', 'fulu', 'gloas'] as const).map(name => ({ name, version: forks[name][0], epoch: forks[name][1] }))

/** By the ID of the execution chain: Ethereum, Sepolia and Hoodi, as eth-clients publishes them. */
export const beaconChains: ReadonlyMap<number, BeaconChain> = new Map([
  [
    1,
    {
      genesisTime: 1_606_824_023,
      genesisValidatorsRoot: '0x4b363db94e286120d76eb905340fdd4e54bfe9f06bf33ff6cf5ad27f511bfe95',
      forks: toForks({
        capella: ['0x03000000', 194_048],
        deneb: ['0x04000000', 269_568],
        electra: ['0x05000000', 364_032],
        fulu: ['0x06000000', 411_392],
        gloas: ['0x07000000'],
      }),
    },
  ],
  [
    11_155_111,
    {
      genesisTime: 1_655_733_600,
      genesisValidatorsRoot: '0xd8ea171f3c94aea21ebc42a1ed61052acf3f9209c00e4efbaaddac09ed9b8078',
      forks: toForks({
        capella: ['0x90000072', 56_832],
        deneb: ['0x90000073', 132_608],
        electra: ['0x90000074', 222_464],
        fulu: ['0x90000075', 272_640],
        gloas: ['0x90000076'],
      }),
    },
  ],
  [
    560_048,
    {
      genesisTime: 1_742_213_400,
      genesisValidatorsRoot: '0x212f13fc4df078b6cb7db228f1c8307566dcecf900867401a92023d7ba99cb5f',
      forks: toForks({
        capella: ['0x40000910', 0],
        deneb: ['0x50000910', 0],
        electra: ['0x60000910', 2_048],
        fulu: ['0x70000910', 50_688],
        gloas: ['0x80000910', 132_352],
      }),
    },
  ],
])

/**
 * With the epoch of a fork that had none. A wrong one proves nothing: signatures are made for the version of their fork, and versions are fixed here.
 */
export const withForkSchedule = (chain: BeaconChain, name: ForkName, epoch: number | undefined): BeaconChain => ({
  ...chain,
  forks: chain.forks.map(fork => (fork.name === name && fork.epoch === undefined ? { ...fork, epoch } : fork)),
})

/** The newest fork at the slot; undefined before the first one. */
export const forkAt = ({ forks }: BeaconChain, slot: number): BeaconFork | undefined =>
  forks.findLast(fork => fork.epoch !== undefined && fork.epoch <= epochOf(slot))

export const hasFork = ({ forks }: BeaconChain, name: ForkName, slot: number): boolean =>
  (forks.find(fork => fork.name === name)?.epoch ?? Infinity) <= epochOf(slot)

/** DOMAIN_SYNC_COMMITTEE */
const domainType = Buffer.from('07000000', 'hex')

/** What a sync committee signs for the root of a header, under the version of a fork. */
export const signingRootOf = (root: Buffer, version: string, { genesisValidatorsRoot }: BeaconChain): Buffer => {
  const forkDataRoot = hashPair(padded(Buffer.from(version.slice(2), 'hex')), Buffer.from(genesisValidatorsRoot.slice(2), 'hex'))
  return hashPair(root, Buffer.concat([domainType, forkDataRoot.subarray(0, 28)]))
}

/** Milliseconds since 1970. */
export const timeOf = ({ genesisTime }: BeaconChain, slot: number): number => (genesisTime + slot * slotSeconds) * 1000

export const slotAt = ({ genesisTime }: BeaconChain, timeMs: number): number => Math.floor((timeMs / 1000 - genesisTime) / slotSeconds)
