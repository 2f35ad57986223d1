import { setTimeout } from 'node:timers/promises'
import type { GatewayConfig } from '../config/types.ts'
import { effectivePlan } from '../services/accounts/effective-plan.ts'
import type { AccountRow, DayTotals, StoreDetails } from '../store/store.ts'
import { removedPlanLabel } from '../services/account-reports.ts'
import { withStoreContext } from './store-context.ts'
import { commandSummaries, exitCodes } from './command.ts'
import type { Command } from './command.ts'
import { formatTable } from './table-output.ts'
import { readArguments, commonOptions } from './args.ts'
import { plain } from '../util/style.ts'

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
  options: commonOptions,
  examples: {
    audit: 'a line for each account, and each disagreement',
    'audit --json --config /etc/tollgate': 'for programs; exit code 1 on a disagreement',
  },
  async run(args, terminal) {
    const {
      values: { config: dir, json },
    } = readArguments(args, [], commonOptions)
    /** By the ids of the accounts, in their order. */
    const rows = new Map<string, AuditRow>()
    const doubtful = (): readonly string[] => [...rows].filter(([, row]) => hasFaults(row)).map(([id]) => id)
    const code = await withStoreContext(dir, terminal, async ({ store, config: { plans } }) => {
      const audit = (accounts: readonly AccountRow[]) => auditAccounts({ store, plans }, accounts, rows)
      await audit(await store.accounts())
      for (let attempts = 1; attempts < maxAttempts && doubtful().length > 0; attempts += 1) {
        await waitBetweenAttempts()
        const again: AccountRow[] = []
        for (const id of doubtful()) {
          // Its limit may be another one by now, and the account may be gone.
          const account = await store.account(id)
          if (account === undefined) rows.delete(id)
          else again.push(account)
        }
        await audit(again)
      }
      const found = [...rows.values()]
      for (const line of json ? [JSON.stringify(found)] : formatAudit(found, terminal.styleOut)) terminal.out(line)
    })
    return doubtful().length > 0 ? exitCodes.failed : code
  },
})

export const auditCommand = createAuditCommand(() => setTimeout(attemptIntervalMs))

interface AuditRow extends Audit {
  readonly account: string
  readonly plan: string
}

/** Read together: 100,000 accounts on a Redis take 8 s in place of 28. More would take more memory for the answers. */
const accountsPerRead = 200

const auditAccounts = async (
  { store, plans }: { readonly store: Pick<StoreDetails, 'dayTotalsOf'> } & Pick<GatewayConfig, 'plans'>,
  accounts: readonly AccountRow[],
  rows: Map<string, AuditRow>,
): Promise<void> => {
  for (let from = 0; from < accounts.length; from += accountsPerRead) {
    const some = accounts.slice(from, from + accountsPerRead)
    const totals = await store.dayTotalsOf(some.map(({ id }) => id))
    some.forEach((account, i) => {
      const limit = effectivePlan(account, plans)?.dailyCredits ?? null
      rows.set(account.id, { account: account.name, plan: account.plan, ...auditDay(totals[i]!, limit) })
    })
  }
}

/** One account's day as its leases and its counted calls have it, and where they disagree. */
interface Audit {
  /** Null when gateway.yaml does not have the account's plan. */
  readonly limit: number | null
  readonly leased: number
  readonly used: number
  readonly held: number
  readonly forfeited: number
  /** Credits of the day by the counted calls. Each call is stored in its count, and apart from it in the use of a lease. */
  readonly counted: number
  /** By how much `used` and `counted` may differ: 0, except beside a gateway that has not reported yet. */
  readonly tolerance: number
  /** One sentence for each disagreement. */
  readonly faults: readonly string[]
}

/** Verifies that leased credits and counted calls of an account agree for that day. */
export const auditDay = ({ leased, used, held, forfeited, counted, isExact }: DayTotals, limit: number | null): Audit => {
  const totals = { limit, leased, used, held, forfeited, counted, tolerance: isExact ? 0 : maxDifference(leased, used) }
  return { ...totals, faults: findDiscrepancies(totals) }
}

/**
 * For a process that reports use and counts apart. 0 for an idle account: all leased credits are used. Otherwise the process is a
 * second behind with either report, has calls in flight, or died before a report: the credits that are leased and not used, and
 * 1 % of the leased credits.
 */
const maxDifference = (leased: number, used: number): number => (leased === used ? 0 : Math.abs(leased - used) + Math.ceil(leased / 100))

const findDiscrepancies = ({ limit, leased, used, held, forfeited, counted, tolerance }: Omit<Audit, 'faults'>): readonly string[] => {
  const faults: string[] = []
  if (leased !== used + held + forfeited) {
    faults.push(`leased is ${leased}, but used + held + forfeited is ${used + held + forfeited}`)
  }
  if (Math.min(held, forfeited) < 0) {
    faults.push(`more calls were counted than credits leased: held is ${held}, forfeited is ${forfeited}`)
  }
  if (limit !== null && leased > limit) {
    faults.push(
      `leased exceeds the limit by ${leased - limit}: the limit was lowered, or credits were overdrawn while the store was unreachable`,
    )
  }
  if (Math.abs(used - counted) > tolerance) {
    faults.push(`used is ${used}, but the counted calls cost ${counted}; the tolerance is ${tolerance}`)
  }
  return faults
}

const hasFaults = ({ faults }: AuditRow): boolean => faults.length > 0

const columnTitles = ['ACCOUNT', 'PLAN', 'LIMIT', 'LEASED', 'USED', 'HELD', 'FORFEITED', 'COUNTED']

const formatAudit = (rows: readonly AuditRow[], style = plain): readonly string[] =>
  rows.length === 0
    ? ['no accounts']
    : [
        ...formatTable(columnTitles, rows.map(toCells), style),
        ...rows.flatMap(({ account, faults }) => faults.map(fault => style('error', `${account}: ${fault}`))),
        ...(rows.some(hasFaults) ? [] : [style('ok', 'leased credits and counted calls agree')]),
      ]

const toCells = ({ account, plan, limit, leased, used, held, forfeited, counted }: AuditRow): readonly string[] => [
  account,
  plan,
  ...[limit ?? removedPlanLabel, leased, used, held, forfeited, counted].map(String),
]
