import type { AccountRow } from '../../store/store.ts'

/** `unapproved`: made by a sign-up that the operator has not approved yet. Calls are refused unless the account is active. */
export const accountStates = ['active', 'unapproved', 'suspended', 'deleted'] as const

export type AccountState = (typeof accountStates)[number]

export const accountState = ({
  suspended,
  deleteAt,
  awaitsApproval,
}: Pick<AccountRow, 'suspended' | 'deleteAt' | 'awaitsApproval'>): AccountState => {
  if (deleteAt !== undefined) return 'deleted'
  if (suspended === undefined) return 'active'
  return suspended === awaitsApproval ? 'unapproved' : 'suspended'
}
