import type { Dimension } from '../../queries/usage-dimensions.ts'
import { now } from '../clock.ts'
import { Select } from '../components/controls.tsx'
import { Icon } from '../components/icon.tsx'
import { formatMethod, formatOutcome } from '../format.ts'
import { changeQuery, query, withQuery } from '../router.ts'
import { developerTexts } from './developer-texts.ts'
import { hourMs } from '../format.ts'

const text = developerTexts.usage

/** What calls are grouped and filtered by; the same names in the address of a page and in the API. */
export const dimensions = ['method', 'network', 'key', 'outcome'] as const satisfies readonly Dimension[]

const rangeMembers = ['range', 'from', 'to'] as const

const customRange = 'custom'

const usageRanges = ['1h', '6h', '24h', '7d', '30d', '90d', 'thisMonth', 'lastMonth', customRange] as const

/** Of the log of requests, which is kept for a day unless the gateway says otherwise. */
const logRanges = ['all', '1h', '6h', customRange] as const

/** The range and the filters of the address, as the API takes them. */
export const rangeAndFilters = (more: Readonly<Record<string, string>> = {}): string => toApiQuery([...rangeMembers, ...dimensions], more)

const toApiQuery = (names: readonly string[], more: Readonly<Record<string, string>>): string => {
  const members = new URLSearchParams(more)
  for (const name of names) {
    const value = query.value.get(name)
    if (value !== null) members.set(name, value)
  }
  return members.toString()
}

export const chooseFilter = (dimension: Dimension, value: string): void => changeQuery({ [dimension]: value, after: '' })

export const chooseTime = (from: string, to: string): void => changeQuery({ range: '', from, to, after: '' })

/** Another page with the filters of this one. */
export const linkWithFilters = (path: string, filters: Partial<Record<Dimension, string>> = {}): string => {
  const kept = Object.fromEntries(dimensions.map(name => [name, filters[name] ?? query.value.get(name) ?? '']))
  const search = withQuery({ ...Object.fromEntries(Array.from(query.value.keys(), name => [name, ''])), ...kept }).split('?')[1]
  return search === undefined ? path : `${path}?${search}`
}

/** What is shown of a key, an outcome, a method or a network. */
export const nameOfValue = (dimension: Dimension, value: string, nameOfKey: (id: string) => string): string =>
  dimension === 'key'
    ? nameOfKey(value)
    : dimension === 'outcome'
      ? formatOutcome(value)
      : dimension === 'method'
        ? formatMethod(value)
        : value

/** For inputs of times, which have neither seconds nor a zone. */
const toInputTime = (iso: string | null): string => (iso ?? '').slice(0, 16)

const startCustomRange = (): void => {
  const end = Math.ceil(now.value / hourMs) * hourMs
  chooseTime(new Date(end - 24 * hourMs).toISOString(), new Date(end).toISOString())
}

/** How far back, or from when until when. */
export const RangePicker = ({ isOfLog = false }: { readonly isOfLog?: boolean }) => {
  const [from, to] = [query.value.get('from'), query.value.get('to')]
  const isCustom = from !== null
  const [ranges, initial] = isOfLog ? [logRanges, 'all'] : [usageRanges, '24h']
  const options = ranges.map(value => ({ value, label: text.ranges[value] }))
  const choose = (value: (typeof options)[number]['value']): void =>
    value === customRange ? startCustomRange() : changeQuery({ range: value === initial ? '' : value, from: '', to: '', after: '' })
  const timeField = (label: string, name: 'from' | 'to', value: string | null) => (
    <div class="field">
      <label for={`range-${name}`}>{label}</label>
      <input
        id={`range-${name}`}
        type="datetime-local"
        value={toInputTime(value)}
        onChange={({ currentTarget }) => currentTarget.value !== '' && changeQuery({ [name]: `${currentTarget.value}:00.000Z`, after: '' })}
      />
    </div>
  )
  return (
    <>
      <Select
        label={text.range}
        options={options}
        // Of the address, which may have anything: the API says what is wrong with it.
        value={isCustom ? customRange : ((query.value.get('range') ?? initial) as '24h')}
        onChange={choose}
      />
      {isCustom && timeField(text.from, 'from', from)}
      {isCustom && timeField(text.to, 'to', to)}
    </>
  )
}

interface FilterSelectProps {
  readonly dimension: Dimension
  readonly values: readonly string[]
  nameOf?(value: string): string
}

/** One of the values, or all. What the address has is among them. */
export const FilterSelect = ({ dimension, values, nameOf = value => value }: FilterSelectProps) => {
  const chosen = query.value.get(dimension) ?? ''
  const options = [...new Set([...values, chosen])].filter(value => value !== '').map(value => ({ value, label: nameOf(value) }))
  return (
    <Select
      label={text[dimension]}
      options={[{ value: '', label: developerTexts.requests.all }, ...options]}
      value={chosen}
      onChange={value => chooseFilter(dimension, value)}
    />
  )
}

interface FilterChipsProps {
  /** Those that are not chosen elsewhere on the page; all unless given. */
  readonly of?: readonly Dimension[]
  nameOfKey(id: string): string
}

/** The filters that are in force, each with a button that takes it away. */
export const FilterChips = ({ of = dimensions, nameOfKey }: FilterChipsProps) => {
  const active = of.flatMap(name => {
    const value = query.value.get(name)
    return value === null ? [] : [{ name, value }]
  })
  if (active.length === 0) return null
  const nameOf = (name: Dimension, value: string): string => nameOfValue(name, value, nameOfKey)
  return (
    <ul class="filters" aria-label={text.filters}>
      {active.map(({ name, value }) => (
        <li key={name} class="chip">
          {text[name]}: {nameOf(name, value)}
          <button
            type="button"
            aria-label={`${developerTexts.remove} ${text[name]}: ${nameOf(name, value)}`}
            onClick={() => chooseFilter(name, '')}
          >
            <Icon name="close" />
          </button>
        </li>
      ))}
      <li>
        <ClearFilters />
      </li>
    </ul>
  )
}

export const hasFilter = (): boolean => dimensions.some(name => query.value.has(name))

/** The range stays. */
export const ClearFilters = () => (
  <button
    type="button"
    class="plain small"
    onClick={() => changeQuery({ ...Object.fromEntries(dimensions.map(name => [name, ''])), after: '' })}
  >
    {text.clearFilters}
  </button>
)

interface FilterButtonProps {
  readonly dimension: Dimension
  readonly value: string
  /** What is shown of it. */
  readonly name?: string
}

/** A value that becomes a filter. */
export const FilterButton = ({ dimension, value, name = value }: FilterButtonProps) => (
  <button type="button" class="link" title={`${developerTexts.showOnly} ${name}`} onClick={() => chooseFilter(dimension, value)}>
    {dimension === 'outcome' ? name : <code>{name}</code>}
  </button>
)
