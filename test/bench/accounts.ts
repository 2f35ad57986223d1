import { join } from 'node:path'
import { writeConfig } from './bench-gateway.ts'
import type { CaseResult } from './cases.ts'
import { cpuRatio, createFigure, p99Ratio, spreadOf } from './figures.ts'
import { addAccountsWithKeys } from './fill-store.ts'
import { compareScenarios } from './measure.ts'
import type { ReportSkipped, Round, Scenario, ScenarioResult } from './measure.ts'
import { storageAtRequest } from './request-templates.ts'
import type { BenchServers } from './servers.ts'

/** Accounts that call in turn. */
const callingCounts = [10, 100, 1_000, 10_000] as const
const [fewest, most] = [callingCounts[0], callingCounts[3]]

/** Accounts of another store, of which most never call. */
const storedCount = 100_000
const callingOfStored = 1_000

/** Targets. */
const maxCpuRatio = 1.3
const maxP99Ratio = 2
const maxKBPerAccount = 6

/**
 * Leases are renewed, reported and returned over seconds: a round lasts longer than in other cases. The gateways take turns, and before each of its
 * rounds all accounts of a gateway have called.
 */
const roundLength = { roundMs: 5_000, minWarmUpMs: 3_000, leadMs: 2_000 }
const maxRounds = 5

/** Cached calls of accounts in turn: what a call costs, and what an account takes, by the number of accounts. */
export const accountsInTurn = async (servers: BenchServers, reportSkipped: ReportSkipped): Promise<CaseResult> => {
  const { rounds, ...settings } = servers.settings
  const scenarios = [
    ...(await scenariosOf(servers, 'accounts', most, callingCounts)),
    ...(await scenariosOf(servers, 'many-accounts', storedCount, [callingOfStored])),
  ]
  const longRounds = { ...servers, settings: { ...settings, ...roundLength, rounds: Math.min(rounds, maxRounds) } }
  const rows = await compareScenarios(longRounds, scenarios, reportSkipped)
  const [few, many, ofStored] = [nameOf(fewest), nameOf(most), nameOf(callingOfStored, storedCount)]
  return {
    rows,
    figures: [
      ...callingCounts.slice(1).map(count => cpuRatio(rows, nameOf(count), few, count === most ? maxCpuRatio : undefined)),
      cpuRatio(rows, ofStored, nameOf(callingOfStored)),
      p99Ratio(rows, many, few, maxP99Ratio),
      createFigure('memory of an account that calls', 'KB', spreadOf(kilobytesPerAccount(rows, many, few)), maxKBPerAccount),
    ],
  }
}

const nameOf = (calling: number, stored?: number): string =>
  `${calling.toLocaleString('en')} ${stored === undefined ? 'accounts' : `of ${stored.toLocaleString('en')} accounts`}`

/** A gateway for each number of accounts, and one store for all. */
const scenariosOf = async (
  { dir, node }: BenchServers,
  folder: string,
  stored: number,
  counts: readonly number[],
): Promise<readonly Scenario[]> => {
  const keys = await addAccountsWithKeys(join(dir, folder, 'data'), stored)
  return Promise.all(
    counts.map(async (count): Promise<Scenario> => {
      const config = join(dir, folder, `${count}`)
      await writeConfig(config, { node, store: '../data' })
      return {
        name: nameOf(count, stored === most ? undefined : stored),
        server: `config:${config}`,
        path: 'v3/',
        transport: 'http:',
        connections: 32,
        requests: [storageAtRequest],
        keys: keys.slice(0, count),
      }
    }),
  )
}

const roundsOf = (rows: readonly ScenarioResult[], name: string): readonly Round[] => rows.find(row => row.name === name)?.rounds ?? []

/** By the peaks of resident memory. */
const kilobytesPerAccount = (rows: readonly ScenarioResult[], many: string, few: string) => {
  const base = roundsOf(rows, few)
  return roundsOf(rows, many).map(({ peakRssMB: peak }, i) => {
    const basePeak = base[i]?.peakRssMB
    return peak === undefined || basePeak === undefined ? undefined : ((peak - basePeak) * 1_000) / (most - fewest)
  })
}
