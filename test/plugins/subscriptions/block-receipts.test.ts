import t from '../../support/tap.ts'
import { BlockReceipts, parseReceiptFilter } from '../../../plugins/subscriptions/block-receipts.ts'
import type { ReceiptFilter } from '../../../plugins/subscriptions/block-receipts.ts'
import { ReceiptPublisher } from '../../../plugins/subscriptions/publishers.ts'
import type { Json } from '../../../src/plugin/call.ts'
import { results } from '../../../src/services/results.ts'
import { shippedMethods } from '../../services/method-table/shipped-table.ts'

const hashOf = (number: number): string => `0x${number.toString(16).padStart(64, '0')}`
const receiptOf = (number: number) => ({
  status: '0x1',
  logs: [{ transactionHash: hashOf(99), data: 'ä' }],
  transactionHash: hashOf(number),
})
const blockOf = (...numbers: readonly number[]) => ({
  number: 7,
  hash: '0x7',
  parentHash: '0x6',
  json: JSON.stringify(numbers.map(receiptOf)),
})

const filterOf = (...hashes: readonly string[]): ReceiptFilter => parseReceiptFilter({ transactionHashes: hashes }) as ReceiptFilter

t.test('the receipts of a block', async t => {
  const match = (filter: ReceiptFilter, ...numbers: readonly number[]) =>
    new BlockReceipts(blockOf(...numbers), results).match(filter).map(text => JSON.parse(Buffer.from(text, 'latin1').toString()) as Json)

  t.test('are one event, with those that a filter names, in the order of the block', async t => {
    t.same(match(filterOf(), 1, 2, 3), [[1, 2, 3].map(receiptOf)])
    t.same(match(filterOf(hashOf(3), hashOf(1), hashOf(8)), 1, 2, 3), [[1, 3].map(receiptOf)])
    t.same(match(filterOf(hashOf(2)), 1, 2, 3), [[receiptOf(2)]])
  })

  t.test('are no event where no receipt matches, or where there is none', async t => {
    t.same(match(filterOf(hashOf(99)), 1, 2), [], 'the hash of a transaction in a log is not that of the receipt')
    t.same(match(filterOf()), [])
  })
})

t.test('a filter of receipts', async t => {
  t.test('names all transactions where it is missing or empty, as in geth', async t => {
    for (const value of [undefined, null, {}, { transactionHashes: null }, { transactionHashes: [] }] as const)
      t.match(parseReceiptFilter(value), { hashes: undefined, valueCount: 0 })
    t.equal(filterOf(hashOf(1), hashOf(2), hashOf(1)).valueCount, 2)
  })

  t.test('takes transaction hashes alone, and logs take none', async t => {
    for (const value of [true, { address: hashOf(1) }, { transactionHashes: [], topics: [] }])
      t.match(parseReceiptFilter(value), { error: { code: -32602, message: /with "transactionHashes" alone/ } })
  })

  t.test('has up to 200 hashes', async t => {
    const check = (count: number) =>
      shippedMethods
        .get('eth_subscribe')
        ?.check(['transactionReceipts', { transactionHashes: Array.from({ length: count }, (_, i) => hashOf(i)) }])
    t.notOk('issue' in (check(200) ?? { issue: '' }))
    t.match(check(201), { issue: /transactionHashes has 201 elements/ })
  })
})

t.test('receipts of removed blocks are not taken back', async t => {
  const delivered: unknown[] = []
  const delivery = { deliver: (_: unknown, { bytes }: { readonly bytes: number }) => void delivered.push(bytes) }
  const publisher = new ReceiptPublisher({ subscriptions: new Set(), delivery, results })
  const block = blockOf(1)
  publisher.publish({ removed: [], added: [block] })
  publisher.publish({ removed: [block], added: [blockOf(2)] })
  t.equal(delivered.length, 2)
})
