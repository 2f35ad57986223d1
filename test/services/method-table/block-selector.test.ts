import t from '../../support/tap.ts'
import { blockSelectorOf, namedBlocksOf, withBlocks } from '../../../src/services/method-table/block-selector.ts'
import type { Json } from '../../../src/plugin/call.ts'

const hash = `0x${'ab'.repeat(32)}`

t.test('the blocks that a call selects', async t => {
  for (const [param, blocks] of [
    ['0x10', { from: 16, to: 16 }],
    ['earliest', { from: 'earliest', to: 'earliest' }],
    [undefined, { from: 'latest', to: 'latest' }],
    [null, { from: 'latest', to: 'latest' }],
    [hash, { hash }],
    [{ blockHash: hash, requireCanonical: true }, { hash }],
    [{ blockNumber: '0x10' }, { from: 16, to: 16 }],
    [{}, { from: 'latest', to: 'latest' }],
    [
      { fromBlock: '0x1', toBlock: 'finalized' },
      { from: 1, to: 'finalized' },
    ],
    [{ toBlock: '0x2' }, { from: 'latest', to: 2 }],
    ['0x1fffffffffffff', { from: 2 ** 53 - 1, to: 2 ** 53 - 1 }],
    ['0x20000000000000', { from: 2 ** 53 - 1, to: 2 ** 53 - 1 }],
    ['0xno', { from: '0xno', to: '0xno' }],
  ] as const satisfies readonly (readonly [Json | undefined, object])[]) {
    const params = param === undefined ? ['first'] : ['first', param]
    t.same(blockSelectorOf({ blockParam: 1 }, params), blocks, JSON.stringify(param))
  }
  t.equal(blockSelectorOf({}, ['0x1']), undefined, 'whose method does not say where')
  t.equal(blockSelectorOf(undefined, ['0x1']), undefined, 'which is in no table')
})

t.test('the numbers and tags that a call names are listed once each', async t => {
  t.same(namedBlocksOf({ from: 1, to: 'finalized' }), [1, 'finalized'])
  t.same(namedBlocksOf({ from: 'pending', to: 'pending' }), ['pending'])
  t.same(namedBlocksOf({ hash }), [])
  t.same(namedBlocksOf(undefined), [])
})

t.test('a request gets other blocks where it names its own', async t => {
  for (const [param, replaced] of [
    ['finalized', '0x10'],
    [
      { blockNumber: 'finalized', requireCanonical: true },
      { blockNumber: '0x10', requireCanonical: true },
    ],
    [
      { fromBlock: 'finalized', address: 'a' },
      { fromBlock: '0x10', toBlock: 'latest', address: 'a' },
    ],
    [
      { blockHash: hash, address: 'a' },
      { fromBlock: '0x10', toBlock: 'latest', address: 'a' },
    ],
  ] as const satisfies readonly (readonly [Json, Json])[]) {
    const request = { method: 'm', params: ['first', param, 'last'] }
    t.same(withBlocks(request, { blockParam: 1 }, { from: 16, to: 'latest' }), { method: 'm', params: ['first', replaced, 'last'] })
  }
  const withoutBlock = { method: 'm', params: [] }
  t.same(withBlocks(withoutBlock, { blockParam: 1 }, { from: 16, to: 16 }), { method: 'm', params: [null, '0x10'] })
})
