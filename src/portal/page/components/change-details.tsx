import type { Change, ChangeAction } from '../../../services/accounts/change-history.ts'
import type { Json } from '../../../util/json.ts'
import { formatNumber, formatTime } from '../format.ts'
import { texts } from '../texts.ts'

const text = texts.settings

/** Newer gateways may have more actions. */
export const describeAction = (action: ChangeAction): string => {
  const names: Readonly<Partial<Record<ChangeAction, string>>> = text.actions
  return names[action] ?? action
}

interface ChangeDetailsProps {
  readonly change: Change
  /** The target has a column of its own. */
  readonly isTargetShown?: boolean
}

/** What it is about, and each member that was set, with what it was before. */
export const ChangeDetails = ({ change: { action, target, before = {}, after = {} }, isTargetShown = false }: ChangeDetailsProps) => {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  if (names.length === 0 && isTargetShown) return texts.none
  return (
    <div class="lines">
      {names.map(name => (
        <span key={name}>
          <span class="lead">{nameMember(name)}:</span> {before[name] !== undefined && `${formatValue(before[name])} → `}
          {name in after ? formatValue(after[name]) : texts.none}
        </span>
      ))}
      {/* The id of a token could be taken for the token. */}
      {!isTargetShown && target !== undefined && !action.startsWith('token-') && <code>{target}</code>}
    </div>
  )
}

/** Others are named as in the API. */
const nameMember = (name: string): string => {
  const names: Readonly<Record<string, string>> = text.members
  return names[name] ?? name
}

const isoTimePattern = /^\d{4}-\d{2}-\d{2}T\S+Z$/

const formatValue = (value: Json | undefined): string => {
  if (value === null || value === undefined || value === '') return texts.none
  if (typeof value === 'number') return formatNumber(value)
  if (typeof value === 'string' && isoTimePattern.test(value)) return formatTime(value)
  return Array.isArray(value) ? value.join(', ') : typeof value === 'object' ? JSON.stringify(value) : String(value)
}
