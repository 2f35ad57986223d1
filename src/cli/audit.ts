import { setTimeout } from 'node:timers/promises'
import { effectivePlan } from '../services/accounts/index.ts'
import { auditAccount } from '../services/ledger/audit.ts'
import type { Audit } from '../services/ledger/audit.ts'
import { removedPlanLabel, withStoreContext } from './store-context.ts'
import type { StoreContext } from './store-context.ts'
import { exitCodes } from './command.ts'
import { commandSummaries } from './command-summaries.ts'
import type { Command } from './command.ts'
import { formatTable } from './table-output.ts'
import { readArguments, storeOptions } from './args.ts'

const maxAttempts = 3
const attemptIntervalMs = 1_000

/**
 * A running process reports up to a second late, and later while calls are in flight: only a discrepancy that is found in
 * three attempts, with a pause between them, is reported.
 */
export const createAuditCommand = (waitBetweenAttempts: () => Promise<unknown>): Command => ({
  name: 'audit',
  summary: commandSummaries.audit,
  usage: ['audit [--json] [--config DIR]'],
  positionals: {},
  options: storeOptions,
  async run(args, terminal) {
    const {
      values: { config, json },
    } = readArguments(args, [], storeOptions)
    let rows: readonly AuditRow[] = []
    const code = await withStoreContext(config, terminal, async ({ store, plans }) => {
      rows = await auditAccounts({ store, plans })
      for (let attempts = 1; attempts < maxAttempts && rows.some(hasFaults); attempts += 1) {
        await waitBetweenAttempts()
        rows = await auditAccounts({ store, plans })
      }
      for (const line of json ? [JSON.stringify(rows)] : formatAudit(rows)) terminal.out(line)
    })
    return rows.some(hasFaults) ? exitCodes.failed : code
  },
})

export const auditCommand = createAuditCommand(() => setTimeout(attemptIntervalMs))

interface AuditRow extends Audit {
  readonly account: string
  readonly plan: string
}

const auditAccounts = async ({ store, plans }: Pick<StoreContext, 'store' | 'plans'>): Promise<readonly AuditRow[]> => {
  const rows: AuditRow[] = []
  for (const account of await store.accounts()) {
    const limit = effectivePlan(account, plans)?.dailyCredits ?? null
    rows.push({ account: account.name, plan: account.plan, ...(await auditAccount(store, account.id, limit)) })
  }
  return rows
}

const hasFaults = ({ faults }: AuditRow): boolean => faults.length > 0

const columnTitles = ['ACCOUNT', 'PLAN', 'LIMIT', 'LEASED', 'USED', 'HELD', 'FORFEITED', 'COUNTED']

const formatAudit = (rows: readonly AuditRow[]): readonly string[] =>
  rows.length === 0
    ? ['no accounts']
    : [
        ...formatTable(columnTitles, rows.map(toCells)),
        ...rows.flatMap(({ account, faults }) => faults.map(fault => `${account}: ${fault}`)),
        ...(rows.some(hasFaults) ? [] : ['leased credits and counted calls agree']),
      ]

const toCells = ({ account, plan, limit, leased, used, held, forfeited, counted }: AuditRow): readonly string[] => [
  account,
  plan,
  ...[limit ?? removedPlanLabel, leased, used, held, forfeited, counted].map(String),
]
