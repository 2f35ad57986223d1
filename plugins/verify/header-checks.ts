import { isJsonObject } from '../../src/plugin/plugin.ts'
import type { Json, JsonObject } from '../../src/plugin/plugin.ts'
import type { Finding } from './chain-rules.ts'
import { MalformedMember, toBytes, toList, toObject } from './hex.ts'
import { hasBloomBits } from './logs-bloom.ts'
import { coveredReceiptsOf, isEncodableIn } from './receipts-root.ts'
import { holds } from './result-checks.ts'
import type { TrustedHeader } from './block-header.ts'

/** The header with that hash, if it is known. */
type KnownHeader = (hash: string) => TrustedHeader | undefined

/** What the checks find beside the headers that are known: these are those of their hashes, so a result that names the hash must fit. */
export const headerChecks = {
  receipts: (value: Json, knownHeader: KnownHeader): readonly Finding[] => checkReceipts(toList(value).map(toObject), knownHeader),
  receipt: (value: Json, knownHeader: KnownHeader): readonly Finding[] => checkLogs(toList(toObject(value)['logs']), knownHeader),
  logs: (value: Json, knownHeader: KnownHeader): readonly Finding[] => checkLogs(toList(value), knownHeader),
} as const

const headerOf = ({ blockHash }: JsonObject, knownHeader: KnownHeader): TrustedHeader | undefined =>
  typeof blockHash === 'string' ? knownHeader(blockHash.toLowerCase()) : undefined

const checkReceipts = (receipts: readonly JsonObject[], knownHeader: KnownHeader): readonly Finding[] => {
  const [first] = receipts
  const header = first && headerOf(first, knownHeader)
  if (header === undefined || !receipts.every(receipt => isEncodableIn(receipt, header))) return []
  const covered = withoutMalformed(() => coveredReceiptsOf(receipts, header))
  if (covered === 'unknown') return []
  return [
    {
      rule: 'the receipts of a block have the root of its header',
      holds: covered !== undefined,
      block: header.number,
      knownFor: 'Ethereum',
      isEvidence: true,
    },
  ]
}

const withoutMalformed = <T>(compute: () => T): T | undefined => {
  try {
    return compute()
  } catch (error) {
    if (error instanceof MalformedMember) return undefined
    throw error
  }
}

const checkLogs = (logs: readonly Json[], knownHeader: KnownHeader): readonly Finding[] => {
  const known = logs.flatMap(log => {
    const header = isJsonObject(log) ? headerOf(log, knownHeader) : undefined
    return header === undefined ? [] : [{ log: toObject(log), header }]
  })
  const [first] = known
  if (first === undefined) return []
  return [
    {
      rule: 'the bloom of a block has its logs',
      holds: holds(() =>
        known.every(({ log: { address, topics }, header }) => {
          const bloom = toBytes(header.logsBloom)
          return [address, ...toList(topics)].every(value => hasBloomBits(bloom, value))
        }),
      ),
      block: first.header.number,
      knownFor: 'Ethereum',
      isEvidence: true,
    },
  ]
}
