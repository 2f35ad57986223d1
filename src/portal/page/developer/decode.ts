import { formatTime, groupDigits } from '../format.ts'

/** What a hexadecimal number counts. */
type Unit = 'count' | 'wei' | 'gasPrice' | 'time' | 'outcome'

const unitsByMember: Readonly<Record<string, Unit>> = {
  ...{ timestamp: 'time', blockTimestamp: 'time', status: 'outcome', value: 'wei', balance: 'wei' },
  ...{ gasPrice: 'gasPrice', effectiveGasPrice: 'gasPrice', baseFeePerGas: 'gasPrice', blobGasPrice: 'gasPrice' },
  ...{ maxFeePerGas: 'gasPrice', maxPriorityFeePerGas: 'gasPrice', maxFeePerBlobGas: 'gasPrice' },
  ...{ number: 'count', blockNumber: 'count', gas: 'count', gasLimit: 'count', gasUsed: 'count', cumulativeGasUsed: 'count' },
  ...{ blobGasUsed: 'count', excessBlobGas: 'count', nonce: 'count', size: 'count', type: 'count', chainId: 'count' },
  ...{ transactionIndex: 'count', logIndex: 'count', oldestBlock: 'count', highestBlock: 'count', currentBlock: 'count' },
}

const unitsByMethod: Readonly<Record<string, Unit>> = {
  ...{ eth_getBalance: 'wei', eth_gasPrice: 'gasPrice', eth_maxPriorityFeePerGas: 'gasPrice' },
  ...{ eth_baseFee: 'gasPrice', eth_blobBaseFee: 'gasPrice' },
}

/** A value in words that people use. */
interface Decoded {
  readonly name: string
  readonly text: string
}

/** A list is as long as many a screen: its first entries show what it has. */
const maxDecodedEntries = 3

/** The numbers and times of a result, as people read them; empty where there are none. */
export const decodeResult = (method: string, result: unknown): readonly Decoded[] => {
  if (typeof result === 'string') {
    const text = decodeQuantity(result, unitsByMethod[method] ?? 'count')
    return text === undefined ? [] : [{ name: 'result', text }]
  }
  if (Array.isArray(result)) {
    const entries = result.slice(0, maxDecodedEntries).flatMap((entry, i) => decodeMembers(entry, `[${i}].`))
    return [{ name: 'entries', text: formatCount(BigInt(result.length)) }, ...entries]
  }
  return decodeMembers(result, '')
}

const decodeMembers = (value: unknown, prefix: string): readonly Decoded[] =>
  typeof value !== 'object' || value === null
    ? []
    : Object.entries(value).flatMap(([name, member]) => {
        if (Array.isArray(member)) return [{ name: `${prefix}${name}`, text: `${formatCount(BigInt(member.length))} ×` }]
        const unit = unitsByMember[name]
        const text = typeof member === 'string' && unit !== undefined ? decodeQuantity(member, unit) : undefined
        return text === undefined ? [] : [{ name: `${prefix}${name}`, text }]
      })

/** Longer ones are words of storage, hashes or bytes. */
const quantityPattern = /^0x(0|[1-9a-f][0-9a-f]{0,31})$/i

const decodeQuantity = (hex: string, unit: Unit): string | undefined => {
  if (!quantityPattern.test(hex)) return undefined
  const value = BigInt(hex)
  if (unit === 'time') return formatTime(new Date(Number(value) * 1_000).toISOString())
  if (unit === 'outcome') return value === 1n ? 'success' : 'failure'
  if (unit === 'wei') return `${formatUnits(value, 18)} ether`
  if (unit === 'gasPrice') return `${formatUnits(value, 9)} gwei`
  return formatCount(value)
}

const formatCount = (value: bigint): string => groupDigits(String(value))

/** With all digits, and no zeros at the end. */
const formatUnits = (value: bigint, decimals: number): string => {
  const unit = 10n ** BigInt(decimals)
  const fraction = String(value % unit)
    .padStart(decimals, '0')
    .replace(/0+$/, '')
  return fraction === '' ? formatCount(value / unit) : `${formatCount(value / unit)}.${fraction}`
}
