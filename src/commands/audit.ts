import { setTimeout } from 'node:timers/promises'
import { planFor } from '../services/accounts.ts'
import { auditOf } from '../services/ledger/audit.ts'
import type { Audit } from '../services/ledger/audit.ts'
import { gone, withStore } from './books.ts'
import type { Books } from './books.ts'
import { exit } from './command.ts'
import type { Command } from './command.ts'
import { table } from './table.ts'
import { readWords } from './verbs.ts'

/**
 * A process that runs is up to a second behind, with calls in flight longer: what is wrong must be wrong three times,
 * with a pause in between.
 */
export const createAudit = (pause: () => Promise<unknown>): Command => ({
  name: 'audit',
  summary: "Holds today's books of all accounts against each other: leases, and the calls that were counted.",
  usage: ['audit [--json] [--config DIR]'],
  async run(args, terminal) {
    const {
      values: { config, json },
    } = readWords(args, [], {})
    let found: readonly Row[] = []
    const code = await withStore(config, terminal, async ({ store, plans }) => {
      found = await look({ store, plans })
      for (let looks = 1; looks < 3 && found.some(isWrong); looks += 1) {
        await pause()
        found = await look({ store, plans })
      }
      for (const line of json ? [JSON.stringify(found)] : describe(found)) terminal.out(line)
    })
    return found.some(isWrong) ? exit.failed : code
  },
})

export const audit = createAudit(() => setTimeout(1_000))

interface Row extends Audit {
  readonly account: string
  readonly plan: string
}

const look = async ({ store, plans }: Books): Promise<readonly Row[]> => {
  const rows: Row[] = []
  for (const account of await store.accounts()) {
    const limit = planFor(account, plans)?.dailyCredits ?? null
    rows.push({ account: account.name, plan: account.plan, ...(await auditOf(store, account.id, limit)) })
  }
  return rows
}

const isWrong = ({ faults }: Row): boolean => faults.length > 0

const titles = ['ACCOUNT', 'PLAN', 'LIMIT', 'LEASED', 'USED', 'HELD', 'FORFEITED', 'COUNTED']

const describe = (rows: readonly Row[]): readonly string[] =>
  rows.length === 0
    ? ['no accounts']
    : [
        ...table(titles, rows.map(cellsOf)),
        ...rows.flatMap(({ account, faults }) => faults.map(fault => `${account}: ${fault}`)),
        ...(rows.some(isWrong) ? [] : ['the books are right']),
      ]

const cellsOf = ({ account, plan, limit, leased, used, held, forfeited, counted }: Row): readonly string[] => [
  account,
  plan,
  ...[limit ?? gone, leased, used, held, forfeited, counted].map(String),
]
