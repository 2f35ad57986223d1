import fc from 'fast-check'
import t from '../../support/tap.ts'
import { check, shippedMethods } from './shipped-table.ts'
import { officialArity, officialMethodNames, officialParams } from './official-calls.ts'

const inTable = officialMethodNames.filter(name => shippedMethods.get(name) !== undefined)

t.test('the table has every method of the Ethereum JSON-RPC specification', async t => {
  t.same(
    officialMethodNames.filter(name => !inTable.includes(name)),
    [],
  )
})

t.test('no method takes fewer parameters than the specification says, or needs more', async t => {
  for (const name of inTable) {
    const { most, least } = officialArity(name)
    const positions = shippedMethods.get(name)?.describeParams() ?? []
    t.ok(positions.length >= most, `${name} takes ${most}`)
    t.ok(positions.filter(({ optional }) => !optional).length <= least, `${name} needs ${least} at most`)
  }
})

t.test('every call that the specification allows passes the rules', async t => {
  for (const name of inTable) {
    fc.assert(
      fc.property(officialParams(name), params => {
        const checked = check(name, params)
        if (typeof checked === 'string') throw new Error(`${name} ${JSON.stringify(params)}: ${checked}`)
      }),
      { numRuns: 70 },
    )
  }
  t.pass(`${inTable.length} methods`)
})
