import type { Change, ChangeAction } from '../../../services/accounts/change-history.ts'
import type { Json } from '../../../util/json.ts'
import { formatNumber, formatTime } from '../format.ts'
import { texts } from '../texts.ts'
import { changeTexts } from './change-texts.ts'

const text = changeTexts

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
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(name =>
    [before[name], after[name]].some(value => formatMember(name, value) !== texts.none),
  )
  if (names.length === 0 && isTargetShown) return '–'
  return (
    <div class="lines">
      {names.map(name => (
        <span key={name}>
          <span class="lead">{nameMember(name)}:</span> {before[name] !== undefined && `${formatMember(name, before[name])} → `}
          {formatMember(name, after[name])}
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

const units: Readonly<Record<string, string>> = text.units

/** A value as forms have it, with what it counts. */
const formatMember = (name: string, value: Json | undefined): string => {
  if (value === null || value === undefined || value === '') return texts.none
  if (typeof value === 'boolean') return value ? texts.yes : texts.no
  // Of alerts, 0 is none.
  if (typeof value === 'number') return value === 0 && name in units ? texts.none : `${formatNumber(value)}${units[name] ?? ''}`
  if (Array.isArray(value)) return value.length === 0 ? texts.none : `${value.join(', ')}${units[name] ?? ''}`
  if (typeof value === 'object') return JSON.stringify(value)
  return isoTimePattern.test(value) ? formatTime(value) : value
}
