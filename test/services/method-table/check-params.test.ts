import fc from 'fast-check'
import t from '../../support/tap.ts'
import type { Json } from '../../../src/plugin/call.ts'
import { ajvSchemaOf, createRuleSchemas, ruleSchemas } from '../../../src/services/method-table/check-params.ts'
import { check, hex, isRefused, shippedMethods, shippedTable } from './shipped-table.ts'

const digit = fc.constantFrom(...'0123456789abcdefABCDEF')
const hexText = (digits: fc.Arbitrary<number>) =>
  digits.chain(count => fc.string({ unit: digit, minLength: count, maxLength: count })).map(text => `0x${text}`)

const address = hexText(fc.constant(40))
const hash = hexText(fc.constant(64))
const tag = fc.constantFrom('latest', 'earliest', 'pending', 'safe', 'finalized')
const height = fc.oneof(hexText(fc.integer({ min: 1, max: 16 })), tag)
const block = fc.oneof(
  height,
  hash,
  fc.record({ blockNumber: height }),
  fc.record({ blockHash: hash, requireCanonical: fc.boolean() }, { requiredKeys: ['blockHash'] }),
)
const topics = fc.array(fc.oneof(hash, fc.constant(null), fc.array(fc.option(hash))), { maxLength: 4 })
const where = { address: fc.oneof(address, fc.array(address)), topics }
const filter = fc.oneof(
  fc.record({ ...where, blockHash: hash }, { requiredKeys: ['blockHash'] }),
  fc.record({ ...where, fromBlock: fc.option(height), toBlock: fc.option(tag) }, { requiredKeys: [] }),
)
const transaction = fc.record({ to: address, data: hash, more: fc.jsonValue() }, { requiredKeys: [] })
const calls: fc.Arbitrary<readonly [string, readonly Json[]]> = fc.oneof(
  fc.tuple(fc.constant('eth_getStorageAt'), fc.tuple(address, hexText(fc.integer({ min: 0, max: 64 })), block)),
  fc.tuple(fc.constant('eth_getBalance'), fc.tuple(address)),
  fc.tuple(fc.constant('eth_getLogs'), fc.tuple(filter)),
  fc.tuple(fc.constant('eth_getTransactionReceipt'), fc.tuple(hash)),
  fc.tuple(fc.constant('eth_call'), fc.tuple(transaction, block)),
) as fc.Arbitrary<readonly [string, readonly Json[]]> // fast-check's JsonValue is Json

t.test('the build has written the code of each rule of the shipped table, and it says what Ajv says', async t => {
  const rules = [...shippedTable.entries.values()].flatMap(({ positions = [] }) => positions.map(({ rule }) => rule))
  const ajv = createRuleSchemas(t.testdir())
  const validators = rules.map(ajvSchemaOf).map(schema => {
    t.ok(ruleSchemas.isWritten(schema))
    return [ruleSchemas.compile(schema), ajv.compile(schema)] as const
  })
  const value = fc.oneof(
    calls.chain(([, params]) => fc.constantFrom(...params)),
    fc.jsonValue(),
    fc.constant({ from: 7, to: null, gas: '0x00' }),
  )
  fc.assert(
    fc.property(fc.nat({ max: validators.length - 1 }), value, (i, one) => {
      const [written, compiled] = validators[i] ?? []
      t.equal(written?.(one), compiled?.(one))
      t.same(written?.errors, compiled?.errors)
    }),
    { numRuns: 2000 },
  )
})

t.test('the examples of parameters and of their members are accepted', async t => {
  for (const name of shippedMethods.names) {
    const params = shippedMethods.get(name)?.describeParams() ?? []
    const examples = params.map(({ example }) => example)
    t.notOk(isRefused(name, examples), `${name} ${JSON.stringify(examples)}`)
    for (const [i, { members = [], example }] of params.entries()) {
      for (const { title, example: value } of members) {
        const withMember = examples.with(i, { ...(example as object), [title]: value }) // members are those of objects
        t.notOk(isRefused(name, withMember), `${name} ${JSON.stringify(withMember)}`)
      }
    }
  }
})

t.test('normalized parameters are accepted and stay the same', async () => {
  fc.assert(
    fc.property(calls, ([name, params]) => {
      const normal = check(name, params)
      return Array.isArray(normal) && JSON.stringify(check(name, normal)) === JSON.stringify(normal)
    }),
  )
})

t.test('the parameters themselves are not changed', async () => {
  fc.assert(
    fc.property(calls, ([name, params]) => {
      const before = JSON.stringify(params)
      check(name, freeze(params))
      return JSON.stringify(params) === before
    }),
  )
})

t.test('normalized parameters mean the same to a node', async () => {
  fc.assert(fc.property(calls, ([name, params]) => meaning(name, check(name, params)) === meaning(name, params)))
})

t.test('equivalent parameters have the same JSON text', async () => {
  fc.assert(
    fc.property(
      calls,
      fc.infiniteStream(fc.boolean()),
      ([name, params], coins) => JSON.stringify(check(name, respell(params, coins))) === JSON.stringify(check(name, params)),
    ),
  )
})

t.test('equivalent filters of eth_getLogs have one text', async t => {
  const normal = (filter: Json): string => JSON.stringify(check('eth_getLogs', [filter]))
  const address = hex(20, 'ab')
  const respelled = normal({ toBlock: 'latest', fromBlock: '0X01', address: hex(20, 'AB') })
  t.equal(normal({ address, fromBlock: '0x1' }), respelled)
  t.equal(normal({ topics: [], blockhash: hex(32) }), normal({ blockHash: hex(32, 'AB'), topics: [], address: null }))
  t.not(normal({ address: [address] }), normal({ address: [address, address] }))
})

t.test('check() never throws, whatever the parameters', async () => {
  const anyone = fc.constantFrom(...shippedMethods.names)
  const anyTable = fc.constantFrom(shippedMethods, shippedMethods.strict())
  const value = fc.oneof(fc.jsonValue(), filter, address, block) as fc.Arbitrary<Json> // JSON, all of it
  fc.assert(
    fc.property(anyone, fc.array(value, { maxLength: 5 }), anyTable, (name, params, methods) => {
      const checked = methods.get(name)?.check(params)
      if (checked === undefined) return false
      return 'issue' in checked ? checked.issue.length < 400 : checked.params.length <= 5
    }),
    { numRuns: 400 },
  )
})

/** Milliseconds of CPU, the best of five: to other processes, which may use the machine, this process loses only time. */
const cpuMs = (name: string, params: readonly Json[]): number =>
  Math.min(
    ...Array.from({ length: 5 }, () => {
      const begun = process.cpuUsage()
      shippedMethods.get(name)?.check(params)
      const { user, system } = process.cpuUsage(begun)
      return (user + system) / 1_000
    }),
  )

t.test('a filter with 5,000 addresses is checked in less than 10 ms of CPU', async t => {
  const address = Array.from({ length: 5000 }, (_, i) => `0x${i.toString(16).padStart(40, 'aB')}`)
  t.ok(cpuMs('eth_getLogs', [{ address }]) < 10)
})

t.test('1 MB of any parameters is checked in less than 250 ms of CPU', async t => {
  const long = '0'.repeat(1e6)
  const many = Object.fromEntries(Array.from({ length: 80_000 }, (_, i) => [`k${i}`, 1]))
  const deep = JSON.parse('['.repeat(5000) + ']'.repeat(5000)) as Json // JSON.parse gives Json
  const rows: readonly (readonly [string, readonly Json[]])[] = [
    ['eth_getLogs', [{ address: Array<string>(300_000).fill('') }]],
    ['eth_getLogs', [{ address: Array<string>(23_000).fill(hex(20)) }]],
    ['eth_getLogs', [{ topics: [Array<null>(200_000).fill(null)] }]],
    ['eth_getLogs', [{ topics: Array<null>(200_000).fill(null) }]],
    ['eth_getLogs', [{ topics: deep, address: deep }]],
    ['eth_getLogs', [{ [long]: 1 }]],
    ['eth_getLogs', [{ fromBlock: `0x${long}`, toBlock: `0x${long}z` }]],
    ['eth_getLogs', [many]],
    ['eth_call', [many]],
    ['eth_call', [{ data: `0x${long}z` }, `0x${long}z`, many]],
    ['eth_getStorageAt', [`0x${long}`, long, long]],
    ['eth_getStorageAt', [hex(20), `0x${long}`, long]],
    ['eth_sendRawTransaction', [`0x${long}`]],
    ['eth_sendRawTransaction', [`0x${long}zz`]],
    ['eth_getProof', [hex(20), Array<string>(200_000).fill('0x0')]],
    ['eth_blockNumber', Array<number>(500_000).fill(1)],
  ]
  // The most measured on an idle machine is 13 ms, for 80,000 members; anything quadratic would take minutes.
  for (const [name, params] of rows) t.ok(cpuMs(name, params) < 250, name)
})

const freeze = <T>(value: T): T => {
  if (typeof value === 'object' && value !== null) Object.values(value).forEach(freeze)
  return Object.freeze(value)
}

type Filter = { readonly [name: string]: Json }

/** Parameters as a node parses them: numbers as numbers, bytes as bytes, defaults added. */
const meaning = (name: string, params: Json): string => {
  const [first, second, third] = params as readonly Json[]
  if (name === 'eth_getLogs') {
    const { fromBlock, toBlock, blockHash, address = null, topics = [] } = first as Filter
    const range = blockHash ? blockOf(blockHash) : [blockOf(fromBlock ?? 'latest'), blockOf(toBlock ?? 'latest')]
    return lower([range, address, topics])
  }
  if (name === 'eth_getStorageAt') return lower([first, BigInt(`${String(second)}0`).toString(), blockOf(third)])
  if (name === 'eth_getBalance') return lower([first, blockOf(second ?? 'latest')])
  if (name === 'eth_call') {
    const { to = null, data = null, more = null } = first as Filter
    return JSON.stringify([lower([to, data, blockOf(second)]), more])
  }
  return lower([first])
}

const lower = (value: unknown): string => JSON.stringify(value).toLowerCase()

const blockOf = (block: Json | undefined): unknown =>
  typeof block === 'string' && /^0x.{1,63}$/.test(block)
    ? BigInt(block).toString()
    : typeof block === 'object' && block !== null && 'blockNumber' in block
      ? { blockNumber: blockOf(block.blockNumber) }
      : block

/** Hex in upper case and members in reverse order, at random; not in parts without a rule. */
const respell = (params: readonly Json[], coins: Iterator<boolean>): readonly Json[] =>
  params.map(value => (typeof value === 'object' && value !== null && 'more' in value ? value : turn(value, coins)))

const turn = (value: Json, coins: Iterator<boolean>): Json => {
  const heads = coins.next().value === true
  if (typeof value === 'string') return heads && value.startsWith('0x') ? value.toUpperCase() : value
  if (Array.isArray(value)) return value.map(one => turn(one, coins))
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value).map(([name, one]) => [name, turn(one, coins)] as const)
  return Object.fromEntries(heads ? members.reverse() : members)
}
