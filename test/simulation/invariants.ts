import { dayMs } from '../../src/util/dates.ts'
import { maxClockJumpMs } from './fault-profile.ts'
import { maxCost, minCost } from './simulated-account.ts'
import type { SimulatedAccount } from './simulated-account.ts'
import type { SimulatedProcess } from './simulated-process.ts'
import { sum } from './observed-day.ts'
import type { ObservedDay } from './observed-day.ts'
import type { Simulation } from './simulation.ts'

/** Checks what one process served, leased and holds. */
export const checkLease = (simulation: Simulation, observed: ObservedDay): void => {
  const record = simulation.leaseRecord(observed)
  const held = record.granted - record.returned - observed.served
  const maxExpected = maxHeld(simulation, observed) + observed.forgottenReturns
  if (held > maxExpected) simulation.fail(`${observed.label}: ${held} held, which is more than ${maxExpected}`)
  checkOverdraft(simulation, observed, observed.overdraftAgainst(record))
  if (simulation.isStoreDayCorrect) checkCalendarDay(simulation, observed)
}

/** Every served credit is leased, or overdrawn within the grace. */
const checkOverdraft = (simulation: Simulation, observed: ObservedDay, overdraft: number): void => {
  if (overdraft > simulation.faultProfile.grace.maxCredits) simulation.fail(`${observed.label}: served exceeds leased by ${overdraft}`)
  // An overdraft that was refunded may be spent again later.
  if (overdraft <= observed.overdraft) return
  checkOverdraftAllowed(simulation, observed)
  observed.overdraft = overdraft
}

/** A process overdraws only while the store is unreachable for it, and not after the grace has ended. */
const checkOverdraftAllowed = (simulation: Simulation, { label, process: { reachability } }: ObservedDay): void => {
  const { grace, stallsPerSecond } = simulation.faultProfile
  // A stalled process detects an outage late.
  if (stallsPerSecond > 0) return
  if (!reachability.maySeemUnavailable) simulation.fail(`${label}: credits are overdrawn, though the store is reachable`)
  const outageMs = simulation.virtualTime.now - reachability.lastAnsweredAt
  if (outageMs > grace.maxDurationMs + maxDetectionDelayMs) simulation.fail(`${label}: credits are overdrawn after ${outageMs} ms`)
}

/** A heartbeat interval, and the timeout of the heartbeat, both with the lateness of timers. */
const maxDetectionDelayMs = 2_100

/** Checks the store's totals of one account's day. */
export const checkTotals = (simulation: Simulation, account: SimulatedAccount, day: number): void => {
  const { leased, used, held, forfeited } = simulation.store.dayTotals(account.id, day)
  const maxLeased = maxServed(simulation, account, day)
  if (leased > maxLeased) simulation.fail(`${account.id}: ${leased} leased of ${maxLeased}`)
  if (leased !== used + held + forfeited) {
    simulation.fail(`${account.id}: ${leased} leased, but ${used} used, ${held} held and ${forfeited} forfeited`)
  }
  const isMixed = simulation.processes.some(process => simulation.observedDay(process, account, day).hasMixedBackups)
  if (!isMixed && Math.min(used, held, forfeited) < 0) {
    simulation.fail(`${account.id}: negative: ${used} used, ${held} held or ${forfeited} forfeited`)
  }
}

/** Whatever day processes assume, no account is served more than its limit on a true day. */
const checkCalendarDay = (simulation: Simulation, { account }: ObservedDay): void => {
  const served = account.served(simulation.today)
  const overdraft = sum(simulation.processes.map(process => simulation.observedDay(process, account, simulation.today).overdraft))
  const max = maxServed(simulation, account, simulation.today) + overdraft
  if (served > max) simulation.fail(`${account.id}: ${served} served of ${max}`)
}

/**
 * Grants that a restored backup lacks may be granted once more. An overdraft is charged after the outage, even beyond the
 * limit.
 */
const maxServed = (simulation: Simulation, account: SimulatedAccount, day: number): number =>
  maxLimit(simulation, account, day) + account.forgottenGrants(day) + account.overdraft(day)

/** The highest limit that any process may use on that day, which begins early when the store's clock jumps. */
const maxLimit = ({ isStoreDayCorrect }: Simulation, account: SimulatedAccount, day: number): number =>
  account.maxLimitSince(day * dayMs - (isStoreDayCorrect ? 0 : maxClockJumpMs))

/** 1 % of the day's limit, or one call. */
export const maxLease = (simulation: Simulation, account: SimulatedAccount, day: number): number =>
  Math.max(Math.floor(maxLimit(simulation, account, day) / 100), maxCost)

/**
 * What a process may forfeit when it is killed: a lease, and refunds since. A store that forgot a grant may grant it again
 * for a delayed request.
 */
export const maxHeld = (simulation: Simulation, { account, day, recentRefunds, hasForgottenState }: ObservedDay): number =>
  maxLease(simulation, account, day) * (hasForgottenState ? 2 : 1) + sum(recentRefunds.map(({ cost }) => cost))

/** What a process keeps of an idle account that was far from the store. */
const maxKept = (simulation: Simulation, { account, day }: ObservedDay): number => Math.floor(maxLimit(simulation, account, day) / 500)

/** A process that has stopped holds nothing, and the store knows all that it served. */
export const checkStopped = (simulation: Simulation, process: SimulatedProcess): void => {
  checkSettled(simulation, process, ({ hasForgottenState }) => !hasForgottenState)
}

/** Without calls for a while, nothing is held but what is kept, and the store knows all that was served. */
export const checkIdle = (simulation: Simulation): void => {
  for (const process of simulation.liveProcesses) {
    checkSettled(
      simulation,
      process,
      ({ hasForgottenState }) => !hasForgottenState,
      observed => maxKept(simulation, observed),
    )
  }
}

/** After calls to every account, and time with a reachable store, forgotten state is restored and every credit is accounted for. */
export const checkFinalState = (simulation: Simulation): void => {
  // After ten idle minutes a process has evicted the account, and cannot restore the store's state.
  const isRestored = (day: number) => day === simulation.today && !simulation.faultProfile.hasIdlePeriod
  for (const process of simulation.liveProcesses) {
    checkSettled(simulation, process, ({ hasForgottenState, day }) => !hasForgottenState || isRestored(day))
  }
  for (const account of simulation.accounts) {
    for (const day of simulation.days) checkTotals(simulation, account, day)
    checkUnserved(simulation, account)
  }
}

/** `isChecked`: false for a day whose forgotten state the process cannot restore. */
const checkSettled = (
  simulation: Simulation,
  process: SimulatedProcess,
  isChecked: (observed: ObservedDay) => boolean,
  mostHeld: (observed: ObservedDay) => number = () => 0,
): void => {
  if (process.pendingCalls !== 0) simulation.fail(`${process.pendingCalls} calls are still pending in ${process.name}`)
  for (const observed of simulation.observedDays(process).filter(observed => !observed.hasMixedBackups && isChecked(observed))) {
    const { granted, returned, used } = simulation.leaseRecord(observed)
    const held = granted - returned - used
    if (held < 0 || held > mostHeld(observed)) simulation.fail(`${observed.label}: ${held} held at the end`)
    if (used !== observed.served) simulation.fail(`${observed.label}: ${observed.served} served, but the store knows of ${used}`)
  }
}

/** Unserved credits were forfeited by killed processes, or are too few for a call. */
const checkUnserved = (simulation: Simulation, account: SimulatedAccount): void => {
  const observedDays = simulation.processes.map(process => simulation.observedDay(process, account, simulation.today))
  const ended = observedDays.filter(({ process }) => process.state !== 'alive')
  const forfeited = sum(ended.map(({ maxForfeited, forgottenReturns }) => maxForfeited + forgottenReturns))
  const unserved = account.limit - sum(observedDays.map(({ served }) => served))
  const maxUnserved = minCost + forfeited
  if (unserved >= maxUnserved) simulation.fail(`${account.id}: ${unserved} not served, which is not less than ${maxUnserved}`)
}
