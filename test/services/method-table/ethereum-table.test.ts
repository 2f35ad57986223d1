import t from '../../support/tap.ts'
import type { Json } from '../../../src/plugin/call.ts'
import type { TableFile } from '../../../src/services/method-table/table-types.ts'
import { check, hex, isRefused, shippedMethods, shippedData, shippedTable } from './shipped-table.ts'

const address = hex(20)
const hash = hex(32)
const topic = hex(32, 'cd')

/** A long text as issues show it. */
const cut = (text: string): string => `"${text.slice(0, 37)}..."`

const addressWords = 'an address (20 bytes of hex with 0x)'
const slotWords = 'up to 32 bytes of hex with 0x'
const topicWords = 'a topic (32 bytes of hex with 0x)'
const hashWords = 'a hash (32 bytes of hex with 0x)'
const tagWords = 'one of latest, earliest, pending, safe, finalized'
const heightWords = `a block (a hex number with 0x, or ${tagWords})`
const blockWords = `a block (32 bytes of hex with 0x or a hex number with 0x, or ${tagWords})`

interface Row {
  readonly name: string
  readonly params: readonly Json[]
  readonly gives: Json
}

/** `gives` is the normalized parameters, or the issue. */
const holds = (what: string, rows: readonly Row[]) =>
  t.test(what, async t => {
    for (const { name, params, gives } of rows) {
      t.strictSame(check(name, params), gives, `${name} ${JSON.stringify(params)}`)
    }
  })

const rowsOf = (name: string, rows: readonly (readonly [params: readonly Json[], gives: Json])[]): readonly Row[] =>
  rows.map(([params, gives]) => ({ name, params, gives }))

const filters = (rows: readonly (readonly [filter: Json, gives: Json])[]): readonly Row[] =>
  rowsOf(
    'eth_getLogs',
    rows.map(([filter, gives]) => [[filter], typeof gives === 'string' ? gives : [gives]]),
  )

holds(
  'eth_getStorageAt takes an address, a storage position and a block (contract 4.2)',
  rowsOf('eth_getStorageAt', [
    [
      [address, '0x0', 'latest'],
      [address, '0x0', 'latest'],
    ],
    [
      [address, '0x0', '0x1b4'],
      [address, '0x0', '0x1b4'],
    ],
    [[], `eth_getStorageAt needs params[0], the contract address: ${addressWords}`],
    [[address], `eth_getStorageAt needs params[1], the storage position: ${slotWords}`],
    [[address, '0x0', 'latest', 1], 'eth_getStorageAt takes at most 3 parameters, got 4'],
    [[null, '0x0', 'latest'], `params[0] must be ${addressWords}, not null`],
    [['0x12', '0x0', 'latest'], `params[0] must be ${addressWords}, not "0x12" (1 byte)`],
    [['0x123', '0x0', 'latest'], `params[0] must be ${addressWords}, not "0x123" (3 digits)`],
    [[hash, '0x0', 'latest'], `params[0] must be ${addressWords}, not ${cut(hash)} (32 bytes)`],
    [[address.slice(2), '0x0'], `params[0] must be ${addressWords}, not "abababababababababababababababababababab" (without 0x)`],
    [[{}, '0x0', 'latest'], `params[0] must be ${addressWords}, not an object`],
    [[[address], '0x0', 'latest'], `params[0] must be ${addressWords}, not an array`],
    [[true, '0x0', 'latest'], `params[0] must be ${addressWords}, not true`],
  ]),
)

holds(
  'a storage position is up to 32 bytes of hex, not a quantity',
  rowsOf('eth_getStorageAt', [
    [
      [address, '0x'],
      [address, '0x', 'latest'],
    ],
    [
      [address, '0x00A'],
      [address, '0x00a', 'latest'],
    ],
    [
      [address, hex(32, '00')],
      [address, hex(32, '00'), 'latest'],
    ],
    [
      [address, hex(32, 'FF')],
      [address, hex(32, 'ff'), 'latest'],
    ],
    [[address, hex(33, '00')], `params[1] must be ${slotWords}, not ${cut(hex(33, '00'))} (33 bytes)`],
    [[address, '0xasdf'], `params[1] must be ${slotWords}, not "0xasdf"`],
    [[address, '0'], `params[1] must be ${slotWords}, not "0" (without 0x)`],
    [[address, 0], `params[1] must be ${slotWords}, not 0`],
    [[address, ''], `params[1] must be ${slotWords}, not ""`],
  ]),
)

holds(
  'a block parameter is a number, a tag, a hash or an EIP-1898 object',
  rowsOf('eth_getStorageAt', [
    ...['latest', 'earliest', 'pending', 'safe', 'finalized'].map(
      tag =>
        [
          [address, '0x0', tag],
          [address, '0x0', tag],
        ] as const,
    ),
    [
      [address, '0x0', '0x00A'],
      [address, '0x0', '0xa'],
    ],
    [
      [address, '0x0', '0x000'],
      [address, '0x0', '0x0'],
    ],
    [
      [address, '0x0', '0xffffffffffffffff'],
      [address, '0x0', '0xffffffffffffffff'],
    ],
    [[address, '0x0', '0x10000000000000000'], `params[2] must be ${blockWords}, not "0x10000000000000000" (17 digits)`],
    [
      [address, '0x0', hash],
      [address, '0x0', hash],
    ],
    [
      [address, '0x0', hex(32, '00')],
      [address, '0x0', hex(32, '00')],
    ],
    [
      [address, '0x0', { blockNumber: '0x0A' }],
      [address, '0x0', { blockNumber: '0xa' }],
    ],
    [
      [address, '0x0', { requireCanonical: true, blockHash: hash }],
      [address, '0x0', { blockHash: hash, requireCanonical: true }],
    ],
    [[address, '0x0', {}], 'params[2] must have exactly one of "blockNumber" and "blockHash"'],
    [[address, '0x0', { blockNumber: '0x1', blockHash: hash }], 'params[2] must have exactly one of "blockNumber" and "blockHash"'],
    [[address, '0x0', { blockHash: '0x1' }], `params[2].blockHash must be ${hashWords}, not "0x1" (1 digit)`],
    [[address, '0x0', { blockHash: hash, requireCanonical: 'yes' }], 'params[2].requireCanonical must be true or false, not "yes"'],
    [
      [address, '0x0', { blockHash: hash, canonical: true }],
      'params[2].canonical is unknown; a block may have blockNumber, blockHash, requireCanonical',
    ],
    [[address, '0x0', 'lates'], `params[2] must be ${blockWords}, not "lates"; did you mean \`latest\`?`],
    [[address, '0x0', 'LATEST'], `params[2] must be ${blockWords}, not "LATEST"; did you mean \`latest\`?`],
    [[address, '0x0', '0x'], `params[2] must be ${blockWords}, not "0x" (0 bytes)`],
    [[address, '0x0', 436], `params[2] must be ${blockWords} or an object, not 436; write "0x1b4"`],
    [[address, '0x0', -1], `params[2] must be ${blockWords} or an object, not -1`],
  ]),
)

t.test('a missing block means latest, except under strict', async t => {
  for (const params of [
    [address, '0x0'],
    [address, '0x0', null],
  ]) {
    t.strictSame(check('eth_getStorageAt', params), [address, '0x0', 'latest'])
  }
  const strict = shippedMethods.strict()
  t.equal(
    check('eth_getStorageAt', [address, '0x0'], strict),
    `eth_getStorageAt needs params[2], the block parameter: ${blockWords} or an object`,
  )
  t.equal(check('eth_getStorageAt', [address, '0x0', null], strict), `params[2] must be ${blockWords} or an object, not null`)
  t.same(check('eth_getStorageAt', [address, '0x0', '0x1'], strict), [address, '0x0', '0x1'])
  t.strictSame(check('eth_getBalance', [address], strict), [address, 'latest'], 'no other method is meant')
})

holds(
  'eth_getTransactionReceipt takes a transaction hash (contract 4.4)',
  rowsOf('eth_getTransactionReceipt', [
    [[hash], [hash]],
    [[hex(32, 'AB')], [hash]],
    [[], `eth_getTransactionReceipt needs params[0], the transaction hash: ${hashWords}`],
    [[null], `params[0] must be ${hashWords}, not null`],
    [['0x'], `params[0] must be ${hashWords}, not "0x" (0 bytes)`],
    [[hash, hash], 'eth_getTransactionReceipt takes at most 1 parameter, got 2'],
  ]),
)

holds(
  'eth_blockNumber takes no parameters (contract 4.5)',
  rowsOf('eth_blockNumber', [
    [[], []],
    [['latest'], 'eth_blockNumber takes no parameters, got 1'],
    [[null], 'eth_blockNumber takes no parameters, got 1'],
  ]),
)

holds(
  'a filter takes an address or a list of addresses (contract 2.4)',
  filters([
    [
      { address, blockHash: hash },
      { address, blockHash: hash },
    ],
    [
      { address: [address, hex(20, 'CD')], blockHash: hash },
      { address: [address, hex(20, 'cd')], blockHash: hash },
    ],
    [
      { address: [], blockHash: hash },
      { address: [], blockHash: hash },
    ],
    [{ address: '0x12' }, `params[0].address must be ${addressWords}, not "0x12" (1 byte)`],
    [{ address: 5 }, `params[0].address must be ${addressWords} or an array, not 5`],
    [{ address: [address, '0x12'] }, `params[0].address[1] must be ${addressWords}, not "0x12" (1 byte)`],
    [{ address: [null] }, `params[0].address[0] must be ${addressWords}, not null`],
    [{ address: [[address]] }, `params[0].address[0] must be ${addressWords}, not an array`],
  ]),
)

holds(
  'a filter takes up to four positions of topics, each a topic, a list of them, or null',
  filters([
    [
      { topics: [], blockHash: hash },
      { topics: [], blockHash: hash },
    ],
    [
      { topics: [topic], blockHash: hash },
      { topics: [topic], blockHash: hash },
    ],
    [
      { topics: [null, hex(32, 'CD')], blockHash: hash },
      { topics: [null, topic], blockHash: hash },
    ],
    [
      { topics: [[topic, hex(32, 'EF')], null, [], topic], blockHash: hash },
      { topics: [[topic, hex(32, 'ef')], null, [], topic], blockHash: hash },
    ],
    [
      { topics: [[null, topic]], blockHash: hash },
      { topics: [[null, topic]], blockHash: hash },
    ],
    [{ topics: [topic, topic, topic, topic, topic] }, 'params[0].topics has 5 elements, more than the 4 allowed'],
    [{ topics: topic }, `params[0].topics must be an array, not ${cut(topic)}`],
    [{ topics: [address] }, `params[0].topics[0] must be ${topicWords}, not ${cut(hash)} (20 bytes)`],
    [{ topics: [topic, [topic, 'x']] }, `params[0].topics[1][1] must be ${topicWords}, not "x"`],
    [{ topics: [[[topic]]] }, `params[0].topics[0][0] must be ${topicWords}, not an array`],
    [{ topics: [5] }, `params[0].topics[0] must be ${topicWords} or an array, not 5`],
  ]),
)

holds(
  'fromBlock and toBlock are numbers or tags, and default to latest (contract 4.3.1)',
  filters([
    [{}, { fromBlock: 'latest', toBlock: 'latest' }],
    [
      { fromBlock: null, toBlock: null, address: null, topics: null, blockHash: null },
      { fromBlock: 'latest', toBlock: 'latest' },
    ],
    [{ fromBlock: '0x01' }, { fromBlock: '0x1', toBlock: 'latest' }],
    [{ toBlock: '0xFF' }, { fromBlock: 'latest', toBlock: '0xff' }],
    ...['latest', 'earliest', 'pending', 'safe', 'finalized'].map(
      tag =>
        [
          { fromBlock: tag, toBlock: tag },
          { fromBlock: tag, toBlock: tag },
        ] as const,
    ),
    [
      { fromBlock: '0x1', toBlock: '0x1' },
      { fromBlock: '0x1', toBlock: '0x1' },
    ],
    [
      { fromBlock: 'latest', toBlock: '0x1' },
      { fromBlock: 'latest', toBlock: '0x1' },
    ],
    [{ fromBlock: '0x10', toBlock: '0xf' }, 'params[0] has "fromBlock" 0x10 above "toBlock" 0xf'],
    [{ fromBlock: '0x00a', toBlock: '0X9' }, 'params[0] has "fromBlock" 0x00a above "toBlock" 0X9'],
    [
      { fromBlock: '0x9', toBlock: '0x00a' },
      { fromBlock: '0x9', toBlock: '0xa' },
    ],
    [{ fromBlock: 'head' }, `params[0].fromBlock must be ${heightWords}, not "head"`],
    [{ fromBlock: '100' }, `params[0].fromBlock must be ${heightWords}, not "100" (without 0x)`],
    [{ toBlock: 100 }, `params[0].toBlock must be ${heightWords}, not 100; write "0x64"`],
    [{ fromBlock: hash }, `params[0].fromBlock must be ${heightWords}, not ${cut(hash)} (32 bytes)`],
  ]),
)

holds(
  'with blockHash there is neither fromBlock nor toBlock (contract 2.4 and 4.3.2)',
  filters([
    [{ blockHash: hash }, { blockHash: hash }],
    [{ blockhash: hash }, { blockHash: hash }],
    [{ blockHash: hash, fromBlock: null, toBlock: null }, { blockHash: hash }],
    [{ blockHash: null, blockhash: hash }, { blockHash: hash }],
    [{ blockHash: hash, fromBlock: '0x1' }, 'params[0] must not have "fromBlock" together with "blockHash"'],
    [{ blockHash: hash, toBlock: 'latest' }, 'params[0] must not have "toBlock" together with "blockHash"'],
    [{ blockhash: hash, toBlock: 'latest' }, 'params[0] must not have "toBlock" together with "blockHash"'],
    [{ blockHash: hash, blockhash: hash }, 'params[0] has both "blockhash" and "blockHash", which mean the same; send one of them'],
    [{ blockHash: '0x1' }, `params[0].blockHash must be ${hashWords}, not "0x1" (1 digit)`],
    [{ blockhash: '0x1' }, `params[0].blockhash must be ${hashWords}, not "0x1" (1 digit)`],
  ]),
)

holds('a filter is one object with known members only', [
  ...rowsOf('eth_getLogs', [
    [[], 'eth_getLogs needs params[0], the filter: a filter object'],
    [[null], 'params[0] must be a filter object, not null'],
    [['0x1'], 'params[0] must be a filter object, not "0x1"'],
    [[[{}]], 'params[0] must be a filter object, not an array'],
    [[{}, {}], 'eth_getLogs takes at most 1 parameter, got 2'],
  ]),
  ...filters([
    [{ topic: [] }, 'params[0].topic is unknown; did you mean `topics`?'],
    [{ from_block: '0x1' }, 'params[0].from_block is unknown; did you mean `fromBlock`?'],
    [{ limit: 5 }, 'params[0].limit is unknown; a filter object may have address, fromBlock, toBlock, topics, blockHash, blockhash'],
  ]),
])

t.test('eth_getLogs accepts at most 5,000 addresses and topics together (contract 8)', async t => {
  const addresses = (count: number): Json => Array<string>(count).fill(address)
  const topics = (count: number): Json => Array<string>(count).fill(topic)
  const complaint = 'params[0] has more than the 5000 values allowed in "address" and "topics" together'
  for (const filter of [
    { address: addresses(5000) },
    { topics: [topics(5000)] },
    { address: addresses(2500), topics: [topics(1250), null, topics(1249), topic] },
    { address, topics: [topics(4999)] },
  ])
    t.notOk(isRefused('eth_getLogs', [filter]))
  for (const filter of [
    { address: addresses(5001) },
    { topics: [topics(5001)] },
    { address: addresses(2500), topics: [topics(1250), null, topics(1250), topic] },
    { address, topics: [topics(5000)] },
  ])
    t.equal(check('eth_getLogs', [filter]), complaint)
  const nulls = Array<null>(5001).fill(null)
  const tooLong = 'params[0].topics[0] has 5001 elements, more than the 5000 allowed'
  t.equal(check('eth_getLogs', [{ topics: [nulls] }]), tooLong)
})

t.test('the filters of common clients are accepted', async t => {
  const mixed = '0xdAC17F958D2ee523a2206206994597C13D831ec7'
  for (const filter of [
    {},
    { topics: [] },
    { topics: [], blockHash: hash },
    { address: mixed, topics: [], fromBlock: '0x1', toBlock: 'latest' },
    { address: [mixed, mixed.toLowerCase()], topics: [topic, null, [topic, hash]] },
    { topics: [[topic]], fromBlock: '0x112a880' },
    { fromBlock: 'safe', toBlock: 'finalized', address: mixed.toLowerCase() },
  ])
    t.notOk(isRefused('eth_getLogs', [filter]), JSON.stringify(filter))
})

t.test('the errors of the official test suite that need no node are errors of the gateway', async t => {
  t.ok(isRefused('eth_getStorageAt', [address, `${hex(32, '00')}0`, 'latest']))
  t.ok(isRefused('eth_getStorageAt', [address, '0xasdf', 'latest']))
  t.ok(isRefused('eth_getLogs', [{ blockHash: hash, fromBlock: '0x3', toBlock: '0x4' }]))
  t.ok(isRefused('eth_getLogs', [{ fromBlock: '0x20', toBlock: '0x4' }]))
})

holds(
  'a transaction object is open, and what is known of it is checked',
  rowsOf('eth_call', [
    [[{}], [{}, 'latest']],
    [
      [{ data: '0xABCD', to: hex(20, 'AB'), value: '0x00', authorizationList: [{ a: 'X' }] }, '0x1'],
      [{ to: address, value: '0x0', data: '0xabcd', authorizationList: [{ a: 'X' }] }, '0x1'],
    ],
    [
      [{ to: null, from: address }, null, { [address]: { balance: '0x1' } }],
      [{ from: address }, 'latest', { [address]: { balance: '0x1' } }],
    ],
    [
      [{ to: address }, 'latest', null, null],
      [{ to: address }, 'latest'],
    ],
    [[{ data: '', input: '0x' }], [{ data: '0x', input: '0x' }, 'latest']],
    [[{ to: '0x1' }], `params[0].to must be ${addressWords}, not "0x1" (1 digit)`],
    [[{ data: '0xabc' }], 'params[0].data must be bytes (whole bytes of hex with 0x), not "0xabc" (3 digits)'],
    [[{ gas: 21000 }], 'params[0].gas must be an index (a hex number with 0x), not 21000; write "0x5208"'],
    [
      [{ value: `0x1${'0'.repeat(64)}` }],
      `params[0].value must be a quantity (a hex number with 0x), not "0x1${'0'.repeat(34)}..." (65 digits)`,
    ],
    [[], 'eth_call needs params[0], the transaction: a transaction object'],
  ]),
)

holds(
  'trace_filter gets no tag that its caller did not write, as most nodes take numbers alone, and no member that a node may ignore',
  rowsOf('trace_filter', [
    [[{ fromBlock: '0x01', toAddress: [address] }], [{ fromBlock: '0x1', toAddress: [address] }]],
    [[{ fromBlock: '0x1', toBlock: 'latest' }], [{ fromBlock: '0x1', toBlock: 'latest' }]],
    [[{ toAddress: [address] }], [{ toAddress: [address] }]],
    [[{ fromBlock: '0x1', mode: 'intersection', count: 2 }], [{ fromBlock: '0x1', mode: 'intersection', count: 2 }]],
    [[{ blockHash: hash }], [{ blockHash: hash }]],
    [[{ blockHash: hash, toBlock: '0x1' }], 'params[0] must not have "toBlock" together with "blockHash"'],
    [[{ fromBlock: '0x1', toBlock: '0x1', ToBlock: '0xffffff' }], 'params[0].ToBlock is unknown; did you mean `toBlock`?'],
  ]),
)

holds('the other methods have rules as well', [
  ...rowsOf('eth_sendRawTransaction', [
    [['0x02F8'], ['0x02f8']],
    [['0x02F'], 'params[0] must be bytes (whole bytes of hex with 0x), not "0x02F" (3 digits)'],
  ]),
  ...rowsOf('eth_getBlockByNumber', [
    [['0x01'], ['0x1', false]],
    [
      ['latest', true],
      ['latest', true],
    ],
    [[hash, true], `params[0] must be ${heightWords}, not ${cut(hash)} (32 bytes)`],
    [['0x1', 'true'], 'params[1] must be true or false, not "true"'],
  ]),
  ...rowsOf('eth_getProof', [
    [
      [address, ['0x0', '0X1A'], 'latest'],
      [address, ['0x0', '0x1a'], 'latest'],
    ],
    [[address, Array<string>(1025).fill('0x0')], 'params[1] has 1025 elements, more than the 1024 allowed'],
  ]),
  ...rowsOf('eth_feeHistory', [
    [
      ['0x4', 'latest'],
      ['0x4', 'latest', []],
    ],
    [
      [4, 'latest', [25, 75.5]],
      [4, 'latest', [25, 75.5]],
    ],
    [[0, 'latest'], 'params[0] must be at least 1, not 0'],
    [[1.5, 'latest'], 'params[0] must be an index (a hex number with 0x) or a whole number, not 1.5'],
    [['0x4', 'latest', [101]], 'params[2][0] must be at most 100, not 101'],
  ]),
  ...rowsOf('eth_estimateGas', [
    [[{}], [{}]],
    [
      [{}, null, {}],
      [{}, null, {}],
    ],
  ]),
])

t.test('values of callers are short, printable and on one line in issues', async t => {
  const rude = `\u001b[31m"\n\u202e${'x'.repeat(1000)}`
  const complaint = String(check('eth_getStorageAt', [rude]))
  t.match(complaint, /not "\\u001b\[31m\\"\\n\\u202ex+\.\.\."$/)
  t.ok(complaint.length < 130)
  t.match(check('eth_getLogs', [{ [rude]: 1 }]), /^params\[0\]\["\\u001b\[31m\\"\\n\\u202ex+\.\.\."\] is unknown/)
  t.notMatch(check('eth_getLogs', [{ [rude]: 1 }]), /[^ -~]/)
})

t.test('members of the prototype are members like any other', async t => {
  const hostile = (text: string): Json => JSON.parse(text) as Json // JSON.parse gives Json
  for (const name of ['__proto__', 'constructor', 'toString']) {
    t.match(check('eth_getLogs', [hostile(`{"${name}":{"fromBlock":"0x1"}}`)]), /is unknown/)
  }
  const [transaction] = check('eth_call', [hostile('{"__proto__":{"to":"x"},"constructor":1}')]) as readonly Json[]
  t.equal(JSON.stringify(transaction), '{"__proto__":{"to":"x"},"constructor":1}')
  t.equal(Object.getPrototypeOf(transaction), Object.prototype)
  t.same(check('eth_getLogs', [{}]), [{ fromBlock: 'latest', toBlock: 'latest' }], 'nothing was left behind')
  t.equal(shippedMethods.get('constructor'), undefined)
  t.equal(shippedMethods.get('__proto__'), undefined)
})

t.test('the cost of each method is that of the contract, or the usual one where the contract has none', async t => {
  const costs: Readonly<Record<string, number>> = {
    eth_getStorageAt: 80,
    eth_getLogs: 255,
    eth_getTransactionReceipt: 80,
    eth_blockNumber: 80,
    eth_call: 80,
    eth_estimateGas: 300,
    eth_getProof: 150,
    eth_getBlockReceipts: 1000,
    eth_chainId: 5,
    net_version: 5,
    web3_clientVersion: 5,
    net_listening: 5,
    eth_accounts: 5,
    eth_syncing: 5,
  }
  for (const [name, cost] of Object.entries(costs)) t.equal(shippedMethods.get(name)?.cost, cost, name)
  t.equal(shippedMethods.defaultCost, 80)
})

t.test('eth_getLogs has the limits of contract 8, and its own class', async t => {
  const { maxResults, maxTime, class: kind } = shippedMethods.get('eth_getLogs') ?? {}
  t.same({ maxResults, maxTime }, { maxResults: 10_000, maxTime: 10_000 })
  t.same(
    shippedMethods.names.filter(name => shippedMethods.get(name)?.class === kind),
    ['eth_getLogs'],
  )
})

t.test(
  'only the result of eth_getStorageAt is a word, and of the methods that may be retried only those that send a signed transaction are not idempotent',
  async t => {
    t.same(
      shippedMethods.names.filter(name => shippedMethods.get(name)?.result === 'word'),
      ['eth_getStorageAt'],
    )
    t.same(
      shippedMethods.names.filter(name => shippedMethods.get(name)?.idempotent === false && shippedMethods.get(name)?.retryable !== false),
      ['eth_sendRawTransaction', 'eth_sendRawTransactionSync'],
    )
    for (const name of ['eth_sendRawTransactionSync', 'eth_sendTransactionSync'])
      t.match(shippedMethods.get(name), { cache: 'never', class: 'waiting', maxWait: 60_000, waitParam: 1, reports: 'transaction' }, name)
    t.equal(shippedMethods.get('eth_sendRawTransaction')?.cache, 'never')
    t.equal(shippedMethods.get('eth_blockNumber')?.cache, 'latest')
    t.equal(shippedMethods.get('eth_getTransactionReceipt')?.cache, 'mined')
  },
)

t.test('methods that sign, trace, read the pool or change a node are not offered unless a network names them', async t => {
  const isReserved = (name: string) =>
    /^(debug|trace|txpool|ots|evm|hardhat|anvil|personal)_/.test(name) ||
    /sign|sendTransaction|coinbase|requestAccounts|pendingTransactions/.test(name)
  for (const name of shippedMethods.names) t.equal(shippedMethods.get(name)?.offered === false, isReserved(name), name)
  t.same(
    shippedMethods.offering([]).names,
    shippedMethods.names.filter(name => !isReserved(name)),
  )
})

t.test('a call that a node signs, or that changes the node, is neither cached nor sent twice', async t => {
  const ofNode = shippedMethods.names.filter(
    name => /^(evm|hardhat|anvil|personal)_/.test(name) || /^eth_(sign|sendTransaction)/.test(name),
  )
  t.ok(ofNode.length > 50)
  for (const name of ofNode) t.match(shippedMethods.get(name), { cache: 'never', idempotent: false, retryable: false }, name)
})

t.test('every method that executes something, or reads an account, reads state', async t => {
  for (const name of shippedMethods.names) {
    const { class: kind, readsState = false } = shippedMethods.get(name) ?? {}
    const isAboutAccount = /^eth_get(Account|Balance|Code|Proof|Storage|TransactionCount)/.test(name)
    if (kind === 'execution' && name !== 'eth_fillTransaction') t.ok(readsState, name)
    if (kind === 'light') t.equal(readsState, isAboutAccount || name === 'ots_hasCode', name)
    if (/^(debug_trace|trace_(?!raw))/.test(name)) t.ok(readsState, name)
  }
})

t.test('what depends on the pool or on the node that answers is not cached', async t => {
  const changing = shippedMethods.names.filter(name =>
    /^txpool_|pending|fillTransaction|simulate|capabilities|config|peerCount/i.test(name),
  )
  t.ok(changing.length >= 9)
  for (const name of changing) t.equal(shippedMethods.get(name)?.cache, 'never', name)
})

t.test('methods with `answer` are answered for this network', async t => {
  const answers = Object.fromEntries(
    shippedMethods.names.flatMap(name => {
      const answer = shippedMethods.get(name)?.answer
      return answer === undefined ? [] : [[name, Buffer.from(answer).toString()]]
    }),
  )
  t.same(answers, {
    eth_chainId: '"0x7a69"',
    net_version: '"31337"',
    web3_clientVersion: '"Tollgate/1.2.3"',
    rpc_modules: '{"eth":"1.0","net":"1.0","rpc":"1.0","web3":"1.0"}',
    eth_hashrate: '"0x0"',
    net_listening: 'true',
    eth_accounts: '[]',
  })
})

t.test('every method says of what type its result is; any type is for results that differ from node to node', async t => {
  for (const name of shippedMethods.names) t.ok(shippedMethods.get(name)?.result, name)
  t.same(
    shippedMethods.names.filter(name => shippedMethods.get(name)?.result === 'any' && !/^(evm|hardhat|anvil)_/.test(name)),
    [
      'eth_syncing',
      'eth_protocolVersion',
      'eth_getBlockAccessList',
      'eth_signTransaction',
      'debug_traceTransaction',
      'debug_traceCall',
      'ots_getApiLevel',
    ],
  )
})

holds(
  'eth_callMany takes bundles of calls, at the end of the newest block unless the caller says otherwise',
  rowsOf('eth_callMany', [
    [[[{ transactions: [{ to: address }] }]], [[{ transactions: [{ to: address }] }], { blockNumber: 'latest' }]],
    [
      [[{ transactions: [] }], { blockNumber: '0x0A', transactionIndex: -1 }, {}, 5000],
      [[{ transactions: [] }], { blockNumber: '0xa', transactionIndex: -1 }, {}, 5000],
    ],
    [[{}], 'params[0] must be an array, not an object'],
    [[[], { blockNumber: 'now' }], `params[1].blockNumber must be ${blockWords}, not "now"`],
  ]),
)

holds(
  'how long the node may wait for a receipt is a number or hex, as nodes differ',
  rowsOf('eth_sendRawTransactionSync', [
    [['0x12'], ['0x12']],
    [
      ['0x12', 5000],
      ['0x12', 5000],
    ],
    [
      ['0x12', '0x1388'],
      ['0x12', '0x1388'],
    ],
    [['0x12', -1], 'params[1] must be at least 0, not -1'],
  ]),
)

t.test('more than 256 blocks of eth_simulateV1 are left to the node, which has a code of its own', async t => {
  const blockStateCalls = Array.from({ length: 257 }, () => ({}))
  t.same(check('eth_simulateV1', [{ blockStateCalls }]), [{ blockStateCalls }, 'latest'])
})

t.test('names are in the order of the file, and each position has a title', async t => {
  const { methods } = shippedData() as TableFile // it compiles, so it has this type
  t.same(shippedMethods.names, Object.keys(methods))
  t.same(shippedTable.names, shippedMethods.names)
  for (const [name, { params }] of Object.entries(methods)) {
    t.ok(params?.every(({ title }) => /^[a-z][a-z ]+$/.test(title)) ?? /^(evm|hardhat|anvil)_/.test(name), name)
  }
})
