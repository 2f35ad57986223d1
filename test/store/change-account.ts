import { applyChange } from '../../src/store/store.ts'
import type { AccountChange, AccountRow, AccountStore } from '../../src/store/store.ts'

/** The account as it is now, whoever else changes it meanwhile; undefined when there is none with this id. */
export const changeAccount = async (
  store: Pick<AccountStore, 'account' | 'changeFoundAccount'>,
  id: string,
  change: AccountChange,
): Promise<AccountRow | undefined> => {
  for (;;) {
    const found = await store.account(id)
    if (found === undefined || (await store.changeFoundAccount(found, change))) return found && applyChange<AccountRow>(found, change)
  }
}
