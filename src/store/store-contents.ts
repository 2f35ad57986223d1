import { readAccounts, scanKeys } from './accounts.ts'
import type { Engine } from './engine.ts'
import { moveFields, moveTable } from './movable-engine.ts'
import { processesTag } from './store-days.ts'
import type { StoreContents } from './store.ts'

export const noContents: StoreContents = { accounts: [], hasKeyRates: false, isMoved: false, warnings: [] }

/** Without writing anything. */
export const readContents = async (source: Pick<Engine, 'scan'>, warnings: readonly string[]): Promise<StoreContents> => {
  const accounts = await readAccounts(source)
  let [hasKeyRates, isMoved] = [false, false]
  for await (const { rate } of scanKeys(source)) hasKeyRates ||= rate !== undefined
  for await (const [field] of source.scan(processesTag, moveTable)) isMoved ||= field === moveFields.movedTo
  return { accounts, hasKeyRates, isMoved, warnings }
}
