import type { RecordedAccounts } from '../services/accounts/recorded-accounts.ts'
import type { Clock } from '../services/clock.ts'
import type { RecordStore } from '../store/record-store.ts'

/** For what reads and writes records. */
export interface RecordServices {
  readonly store: RecordStore
  readonly clock: Clock
}

/** For what is in the log of changes. */
export interface ChangeServices extends RecordServices {
  /** In the name of who changes something. */
  readonly accounts: RecordedAccounts
}
