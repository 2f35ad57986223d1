import type { AccountJson } from '../../operations/account-operations.ts'
import { Badge } from '../components/badge.tsx'
import { formatTime } from '../format.ts'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.accounts

const stateTones = { active: 'ok', unapproved: 'accent', suspended: 'warn', deleted: 'danger' } as const

export const AccountState = ({ account: { state, deleteAt } }: { readonly account: Pick<AccountJson, 'state' | 'deleteAt'> }) => (
  <>
    <Badge tone={stateTones[state]}>{text.states[state]}</Badge>
    {deleteAt !== null && (
      <p class="error">
        {text.deleteAt} {formatTime(deleteAt)}
      </p>
    )}
  </>
)
