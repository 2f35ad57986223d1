import { cheapest } from './account.ts'
import type { Account } from './account.ts'
import type { Machine } from './machine.ts'
import { sum } from './sheet.ts'
import type { Sheet } from './sheet.ts'
import type { World } from './world.ts'

/** What one process served, leased and holds. */
export const checkLease = (world: World, sheet: Sheet): void => {
  const entry = world.entry(sheet)
  const held = entry.granted - entry.returned - sheet.served
  const most = mostInHand(world, sheet) + sheet.stuck
  if (held > most) world.fail(`${sheet.title}: ${held} held, which is more than ${most}`)
  checkLent(world, sheet, sheet.beyond(entry))
  if (world.isDayTrue) checkTrueDay(world, sheet)
}

/** What is served is leased, or lent by grace. */
const checkLent = (world: World, sheet: Sheet, lent: number): void => {
  if (lent > world.weather.grace.credits) world.fail(`${sheet.title}: ${lent} more served than leased`)
  // What was lent and given back may be spent again later.
  if (lent <= sheet.lent) return
  checkLoan(world, sheet)
  sheet.lent = lent
}

/** Credits are lent only while the process hears nothing from the store, and not for longer than grace lasts. */
const checkLoan = (world: World, { title, machine: { contact } }: Sheet): void => {
  const { grace, stall } = world.weather
  // Who stands still notices late that nothing is heard.
  if (stall > 0) return
  if (!contact.isAway) world.fail(`${title}: credits are lent, though the store answers`)
  const awayFor = world.timeline.now - contact.heardAt
  if (awayFor > grace.lasts + unnoticed) world.fail(`${title}: credits are lent after ${awayFor} ms`)
}

/** A process asks each second, and waits for the answer a second and a little more; ms. */
const unnoticed = 2_100

/** The store's own books of one account's day. */
export const checkTotals = (world: World, account: Account, day: number): void => {
  const { leased, used, held, forfeited } = world.store.totals(account.id, day)
  const most = mostServed(world, account, day)
  if (leased > most) world.fail(`${account.id}: ${leased} leased of ${most}`)
  if (leased !== used + held + forfeited) {
    world.fail(`${account.id}: ${leased} leased, but ${used} used, ${held} held and ${forfeited} forfeited`)
  }
  const isMixed = world.machines.some(machine => world.sheet(machine, account, day).isMixed)
  if (!isMixed && Math.min(used, held, forfeited) < 0) {
    world.fail(`${account.id}: below zero: ${used} used, ${held} held or ${forfeited} forfeited`)
  }
}

/** Whatever processes believe, nobody is served more on a day than its balance. */
const checkTrueDay = (world: World, { account }: Sheet): void => {
  const served = account.served(world.today)
  const lent = sum(world.machines.map(machine => world.sheet(machine, account, world.today).lent))
  const most = mostServed(world, account, world.today) + lent
  if (served > most) world.fail(`${account.id}: ${served} served of ${most}`)
}

/**
 * After a backup was put back: what was granted in the time that was lost may be granted once more. What was lent is
 * charged when the store is back, whether or not it is there.
 */
const mostServed = (world: World, account: Account, day: number): number =>
  world.limit(account, day) + account.lost(day) + account.owed(day)

/**
 * What a process may take along when it is killed: a chunk, and what was given back to it since. A store that forgot
 * what it granted may answer a late ask once more.
 */
export const mostInHand = (world: World, { account, day, fresh, isForgotten }: Sheet): number =>
  world.chunk(account, day) * (isForgotten ? 2 : 1) + sum(fresh.map(({ cost }) => cost))

/** A process that has stopped left nothing behind, and the store knows all that it served. */
export const checkStopped = (world: World, machine: Machine): void => {
  checkSettled(world, machine, ({ isForgotten }) => !isForgotten)
}

/** Nobody has called for a while: nothing is held, and nothing is unknown. */
export const checkQuiet = (world: World): void => {
  for (const machine of world.alive) checkSettled(world, machine, ({ isForgotten }) => !isForgotten)
}

/** Everybody has had calls, time, and a store that answers: what it forgot is known again, and nothing is left over. */
export const checkRest = (world: World): void => {
  // After ten minutes of rest a process has forgotten what it would have to tell.
  const isKnown = (day: number) => day === world.today && !world.weather.hasPause
  for (const machine of world.alive) {
    checkSettled(world, machine, ({ isForgotten, day }) => !isForgotten || isKnown(day))
  }
  for (const account of world.accounts) {
    for (const day of world.days) checkTotals(world, account, day)
    checkUnserved(world, account)
  }
}

/** Who has no more to say about a day cannot put right a store that forgot it; `isHealed` tells who has. */
const checkSettled = (world: World, machine: Machine, isHealed: (sheet: Sheet) => boolean): void => {
  if (machine.waiting !== 0) world.fail(`${machine.waiting} calls still wait in ${machine.name}`)
  for (const sheet of world.sheets(machine).filter(sheet => !sheet.isMixed && isHealed(sheet))) {
    const { granted, returned, used } = world.entry(sheet)
    const held = granted - returned - used
    if (held !== 0) world.fail(`${sheet.title}: ${held} held at the end`)
    if (used !== sheet.served) world.fail(`${sheet.title}: ${sheet.served} served, but the store knows of ${used}`)
  }
}

/** What is not served was taken along by those who were killed, or is too little for a call. */
const checkUnserved = (world: World, account: Account): void => {
  const sheets = world.machines.map(machine => world.sheet(machine, account, world.today))
  const gone = sheets.filter(({ machine }) => machine.state !== 'alive')
  const forfeited = sum(gone.map(({ forfeit, stuck }) => forfeit + stuck))
  const unserved = account.limit - sum(sheets.map(({ served }) => served))
  const most = cheapest + forfeited
  if (unserved >= most) world.fail(`${account.id}: ${unserved} not served, which is not less than ${most}`)
}
