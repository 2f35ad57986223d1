import { useEffect, useRef } from 'preact/hooks'
import type { KeyJson } from '../../key-settings.ts'
import type { CallCounts } from '../../queries/page-queries.ts'
import type { ErrorReport } from '../../operations/usage-operations.ts'
import { now } from '../clock.ts'
import { WhenLoaded } from '../components/controls.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { Segments } from '../components/tabs.tsx'
import { formatNumber } from '../format.ts'
import { useRequest } from '../request.ts'
import { queryMember } from '../router.ts'
import { texts } from '../texts.ts'
import type { AccountRequestsProps } from './account-requests.tsx'
import { CallsOverTime, describeCalls } from './calls-over-time.tsx'
import { ErrorTable } from './errors.tsx'
import { GroupTable } from './group-table.tsx'
import { recordsFile } from './load-records.ts'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.accountUsage

const hoursPerDay = 24
const stepsMs = { hour: 3_600_000, day: 86_400_000 } as const

const ranges = (['1', '7', '31'] as const).map(value => ({ value, label: text.ranges[value] }))

const views = ['method', 'network', 'key', 'errors', 'requests'] as const

const viewOptions = views.map(value => ({ value, label: text.views[value] }))

const AccountRequests = recordsFile.component<AccountRequestsProps>(code => code.AccountRequests)

interface AccountUsageProps {
  /** That of the account. */
  readonly path: string
  readonly name: string
  readonly keys: readonly KeyJson[]
}

/** What the account has called, and what of it has failed. */
export const AccountUsage = ({ path, name, keys }: AccountUsageProps) => {
  const [chosenDays, chosenView] = [queryMember('days', '1'), queryMember('by', 'method')]
  const days = ranges.find(({ value }) => value === chosenDays.value)?.value ?? '1'
  const view = views.find(value => value === chosenView.value) ?? 'method'
  const step = days === '1' ? 'hour' : 'day'
  const overTime = useRequest<CallCounts>(`${path}/usage?${new URLSearchParams({ by: step, days })}`)
  const shownView = useRef(view)
  // The chart and what is listed below it are of one moment.
  useEffect(() => {
    if (shownView.current !== view) overTime.reload()
    shownView.current = view
  }, [view])
  return (
    <>
      <div class="section-heading">
        <h2>{texts.pages.usage}</h2>
        <Segments label={texts.usage.range} options={ranges} value={days} onChange={chosenDays.set} />
      </div>
      <WhenLoaded from={overTime} skeleton={<Skeleton height={16} />}>
        {found => (found.total.calls === 0 ? <p class="lead">{text.none}</p> : <CallsOfDays found={found} />)}
      </WhenLoaded>
      <div class="controls">
        <Segments label={texts.usage.by} options={viewOptions} value={view} onChange={chosenView.set} />
      </div>
      {view === 'errors' ? (
        <AccountErrors name={name} days={Number(days)} />
      ) : view === 'requests' ? (
        <AccountRequests path={path} keys={keys} />
      ) : (
        <CallsBy path={path} name={name} by={view} days={days} keys={keys} />
      )}
    </>
  )
}

/** By hour where it is of one day. */
const CallsOfDays = ({ found: { from, to, groups, total } }: { readonly found: CallCounts }) => {
  const stepMs = from === to ? stepsMs.hour : stepsMs.day
  const first = Date.parse(from)
  const end = Math.min(Date.parse(to) + stepsMs.day, Math.ceil((now.value + 1) / stepMs) * stepMs)
  const note = `${describeCalls(total)}, ${formatNumber(total.credits)} ${texts.credits.toLowerCase()}`
  return <CallsOverTime first={first} end={end} stepMs={stepMs} groups={groups} note={note} />
}

interface CallsByProps extends Pick<AccountUsageProps, 'path' | 'name' | 'keys'> {
  readonly by: Exclude<(typeof views)[number], 'errors' | 'requests'>
  readonly days: string
}

const CallsBy = ({ path, name: account, by, days, keys }: CallsByProps) => {
  const nameOf = (id: string): string => {
    const key = keys.find(each => each.id === id)
    return key === undefined ? id : `${key.name} …${key.hint}`.trim()
  }
  const counts = useRequest<CallCounts>(`${path}/usage?${new URLSearchParams({ by, days })}`)
  return (
    <WhenLoaded from={counts} skeleton={<Skeleton height={8} />}>
      {({ groups, total }) =>
        groups.length === 0 ? null : (
          <GroupTable
            caption={text.views[by]}
            by={by}
            failedOf={name => ({ account, of: { [by]: name } })}
            groups={groups}
            total={total}
            nameOf={by === 'key' ? nameOf : undefined}
          />
        )
      }
    </WhenLoaded>
  )
}

/** Since midnight (UTC), as the days of usage. */
const AccountErrors = ({ name, days }: { readonly name: string; readonly days: number }) => {
  const hours = Math.min(31 * hoursPerDay, (days - 1) * hoursPerDay + new Date(now.value).getUTCHours() + 1)
  const report = useRequest<ErrorReport>(`/errors?${new URLSearchParams({ account: name, hours: String(hours) })}`)
  return (
    <WhenLoaded from={report} skeleton={<Skeleton height={8} />}>
      {({ groups }) =>
        groups.length === 0 ? <p class="lead">{operatorTexts.errors.none}</p> : <ErrorTable groups={groups} account={name} />
      }
    </WhenLoaded>
  )
}
