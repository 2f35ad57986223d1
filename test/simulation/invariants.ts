import { minCost } from './simulated-account.ts'
import type { SimulatedAccount } from './simulated-account.ts'
import type { SimulatedProcess } from './simulated-process.ts'
import { sum } from './observed-day.ts'
import type { ObservedDay } from './observed-day.ts'
import type { Simulation } from './simulation.ts'

/** What one process served, leased and holds. */
export const checkLease = (world: Simulation, observed: ObservedDay): void => {
  const entry = world.leaseRecord(observed)
  const held = entry.granted - entry.returned - observed.served
  const maxExpected = maxHeld(world, observed) + observed.forgottenReturns
  if (held > maxExpected) world.fail(`${observed.label}: ${held} held, which is more than ${maxExpected}`)
  checkOverdraft(world, observed, observed.overdraftAgainst(entry))
  if (world.isStoreDayCorrect) checkCalendarDay(world, observed)
}

/** What is served is leased, or lent by grace. */
const checkOverdraft = (world: Simulation, sheet: ObservedDay, overdraft: number): void => {
  if (overdraft > world.faultProfile.grace.maxCredits) world.fail(`${sheet.label}: ${overdraft} more served than leased`)
  // What was lent and given back may be spent again later.
  if (overdraft <= sheet.overdraft) return
  checkOverdraftAllowed(world, sheet)
  sheet.overdraft = overdraft
}

/** Credits are lent only while the process hears nothing from the store, and not for longer than grace lasts. */
const checkOverdraftAllowed = (world: Simulation, { label: title, machine: { reachability: contact } }: ObservedDay): void => {
  const { grace, stallsPerSecond: stall } = world.faultProfile
  // Who stands still notices late that nothing is heard.
  if (stall > 0) return
  if (!contact.maySeemUnavailable) world.fail(`${title}: credits are lent, though the store answers`)
  const outageMs = world.virtualTime.now - contact.lastAnsweredAt
  if (outageMs > grace.maxDurationMs + maxDetectionDelayMs) world.fail(`${title}: credits are lent after ${outageMs} ms`)
}

/** A process asks each second, and waits for the answer a second and a little more; ms. */
const maxDetectionDelayMs = 2_100

/** The store's own books of one account's day. */
export const checkTotals = (world: Simulation, account: SimulatedAccount, day: number): void => {
  const { leased, used, held, forfeited } = world.store.dayTotals(account.id, day)
  const most = maxServed(world, account, day)
  if (leased > most) world.fail(`${account.id}: ${leased} leased of ${most}`)
  if (leased !== used + held + forfeited) {
    world.fail(`${account.id}: ${leased} leased, but ${used} used, ${held} held and ${forfeited} forfeited`)
  }
  const isMixed = world.processes.some(machine => world.observedDay(machine, account, day).hasMixedBackups)
  if (!isMixed && Math.min(used, held, forfeited) < 0) {
    world.fail(`${account.id}: below zero: ${used} used, ${held} held or ${forfeited} forfeited`)
  }
}

/** Whatever processes believe, nobody is served more on a day than its balance. */
const checkCalendarDay = (world: Simulation, { account }: ObservedDay): void => {
  const served = account.served(world.today)
  const lent = sum(world.processes.map(machine => world.observedDay(machine, account, world.today).overdraft))
  const most = maxServed(world, account, world.today) + lent
  if (served > most) world.fail(`${account.id}: ${served} served of ${most}`)
}

/**
 * After a backup was put back: what was granted in the time that was lost may be granted once more. What was lent is
 * charged when the store is back, whether or not it is there.
 */
const maxServed = (world: Simulation, account: SimulatedAccount, day: number): number =>
  world.limit(account, day) + account.forgottenGrants(day) + account.overdraft(day)

/**
 * What a process may take along when it is killed: a chunk, and what was given back to it since. A store that forgot
 * what it granted may answer a late ask once more.
 */
export const maxHeld = (world: Simulation, { account, day, recentRefunds: fresh, hasForgottenState: isForgotten }: ObservedDay): number =>
  world.maxLease(account, day) * (isForgotten ? 2 : 1) + sum(fresh.map(({ cost }) => cost))

/** A process that has stopped left nothing behind, and the store knows all that it served. */
export const checkStopped = (world: Simulation, machine: SimulatedProcess): void => {
  checkSettled(world, machine, ({ hasForgottenState: isForgotten }) => !isForgotten)
}

/** Nobody has called for a while: nothing is held, and nothing is unknown. */
export const checkIdle = (world: Simulation): void => {
  for (const machine of world.liveProcesses) checkSettled(world, machine, ({ hasForgottenState: isForgotten }) => !isForgotten)
}

/** Everybody has had calls, time, and a store that answers: what it forgot is known again, and nothing is left over. */
export const checkFinalState = (world: Simulation): void => {
  // After ten minutes of rest a process has forgotten what it would have to tell.
  const isKnown = (day: number) => day === world.today && !world.faultProfile.hasIdlePeriod
  for (const machine of world.liveProcesses) {
    checkSettled(world, machine, ({ hasForgottenState: isForgotten, day }) => !isForgotten || isKnown(day))
  }
  for (const account of world.accounts) {
    for (const day of world.days) checkTotals(world, account, day)
    checkUnserved(world, account)
  }
}

/** Who has no more to say about a day cannot put right a store that forgot it; `isHealed` tells who has. */
const checkSettled = (world: Simulation, machine: SimulatedProcess, isHealed: (sheet: ObservedDay) => boolean): void => {
  if (machine.pendingCalls !== 0) world.fail(`${machine.pendingCalls} calls still wait in ${machine.name}`)
  for (const sheet of world.observedDays(machine).filter(sheet => !sheet.hasMixedBackups && isHealed(sheet))) {
    const { granted, returned, used } = world.leaseRecord(sheet)
    const held = granted - returned - used
    if (held !== 0) world.fail(`${sheet.label}: ${held} held at the end`)
    if (used !== sheet.served) world.fail(`${sheet.label}: ${sheet.served} served, but the store knows of ${used}`)
  }
}

/** What is not served was taken along by those who were killed, or is too little for a call. */
const checkUnserved = (world: Simulation, account: SimulatedAccount): void => {
  const sheets = world.processes.map(machine => world.observedDay(machine, account, world.today))
  const gone = sheets.filter(({ machine }) => machine.state !== 'alive')
  const forfeited = sum(gone.map(({ maxForfeited: forfeit, forgottenReturns: stuck }) => forfeit + stuck))
  const unserved = account.limit - sum(sheets.map(({ served }) => served))
  const maxUnserved = minCost + forfeited
  if (unserved >= maxUnserved) world.fail(`${account.id}: ${unserved} not served, which is not less than ${maxUnserved}`)
}
