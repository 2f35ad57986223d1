import t from '../../support/tap.ts'
import { blockSelectorOf } from '../../../src/services/method-table/index.ts'
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
    ['0x20000000000000', { from: '0x20000000000000', to: '0x20000000000000' }],
  ] as const satisfies readonly (readonly [Json | undefined, object])[]) {
    const params = param === undefined ? ['first'] : ['first', param]
    t.same(blockSelectorOf({ blockParam: 1 }, params), blocks, JSON.stringify(param))
  }
  t.equal(blockSelectorOf({}, ['0x1']), undefined, 'whose method does not say where')
  t.equal(blockSelectorOf(undefined, ['0x1']), undefined, 'which is in no table')
})
