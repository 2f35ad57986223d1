import { parseArgs } from 'node:util'
import { isFailed } from './attack.ts'
import type { Attack, Figure } from './attack.ts'
import { attacks } from './attacks.ts'

// npm run attack                            every attack, about four minutes; fails when a figure is above its limit
// npm run attack -- --full                  twenty times as much of each
// npm run attack -- --only kills,exhaustion these attacks only
// npm run attack -- --scale 5 --seed 17     five times as much of each, with another seed
// npm run attack -- --only failover --cases away   the cases with this text in their names
// npm run attack -- --only moves --accounts 1000000   a store with so many accounts

/** How much more --full does than a run without it. */
const fullScale = 20

const { values: options } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    scale: { type: 'string', default: '1' },
    full: { type: 'boolean', default: false },
    only: { type: 'string' },
    cases: { type: 'string' },
    accounts: { type: 'string' },
  },
})

const selectAttacks = (names: readonly string[] | undefined): readonly Attack[] => {
  const unknown = names?.find(name => !attacks.some(attack => attack.name === name))
  if (unknown !== undefined) throw new Error(`no attack "${unknown}"; attacks: ${attacks.map(({ name }) => name).join(', ')}`)
  return attacks.filter(({ name }) => names === undefined || names.includes(name))
}

const formatFigure = (figure: Figure): string => {
  const { name, value, unit = '', limit } = figure
  const outcome = limit === undefined ? '' : `   at most ${limit}   ${isFailed(figure) ? 'FAILED' : 'ok'}`
  return `  ${name.padEnd(64)} ${value.toLocaleString('en', { maximumFractionDigits: 1 }).padStart(12)} ${unit.padEnd(8)}${outcome}`
}

/** Prints the figures of one attack; resolves with the number of failed figures. An attack that throws has failed. */
const runAttack = async ({ name, summary, run }: Attack): Promise<number> => {
  const startMs = performance.now()
  console.log(`${name}: ${summary}`)
  const scale = options.full ? fullScale : Number(options.scale)
  const { seed, cases, accounts } = options
  const log = (line: string): void => console.log(`    ${line}`)
  const selected = { ...(cases !== undefined && { cases }), ...(accounts !== undefined && { accounts: Number(accounts) }) }
  const figures = await run({ seed: Number(seed), scale, ...selected, log }).catch((error: Error) => {
    console.log(`  FAILED: ${error.stack}`)
    return [{ name: 'attacks that could not be run', value: 1, limit: 0 }]
  })
  for (const figure of figures) console.log(formatFigure(figure))
  console.log(`  ${((performance.now() - startMs) / 1_000).toFixed(0)} s\n`)
  return figures.filter(isFailed).length
}

let failed = 0
for (const attack of selectAttacks(options.only?.split(','))) failed += await runAttack(attack)
console.log(failed === 0 ? 'every figure is within its limit' : `${failed} figures are above their limit; seed ${options.seed}`)
process.exit(failed === 0 ? 0 : 1)
