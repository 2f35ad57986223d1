import type { AlertsJson } from '../../alerts/manage-alerts.ts'
import { formatLatency, formatNumber, formatTime } from '../format.ts'
import { settingsTexts } from '../settings-texts.ts'
import { texts } from '../texts.ts'
import { Badge } from './badge.tsx'
import { Banner } from './banner.tsx'
import { TextField } from './controls.tsx'
import type { ErrorOf } from './form.tsx'
import { splitList, typedText } from './form.tsx'
import { formatAlert } from './format-alert.ts'
import { MultiSelect } from './multi-select.tsx'
import { Table } from './table.tsx'

const text = settingsTexts.alerts

const lists = ['daily', 'monthly', 'keyDaily'] as const

/** Empty where no alert is to be sent. */
const rates = ['errorRate', 'latency'] as const
const numbers = ['window', 'minCalls'] as const

type AlertConditions = Pick<AlertsJson, (typeof lists)[number] | (typeof rates)[number] | (typeof numbers)[number] | 'networks'>

interface AlertFieldsProps {
  readonly alerts: AlertConditions
  /** Names that may be chosen; others may be typed. */
  readonly networks?: readonly string[] | undefined
  readonly errorOf: ErrorOf
}

/** When an alert is sent. */
export const AlertFields = ({ alerts, networks = [], errorOf }: AlertFieldsProps) => (
  <>
    <h3>{texts.credits}</h3>
    <p class="lead">{text.often.credits}</p>
    <div class="fields">
      {lists.map(name => (
        <TextField
          key={name}
          label={text[name]}
          name={name}
          help={text.fieldHelp[name]}
          value={alerts[name].join(', ')}
          error={errorOf(name)}
        />
      ))}
    </div>
    <h3>{text.failures}</h3>
    <p class="lead">{text.often.failures}</p>
    <div class="fields">
      {rates.map(name => (
        <TextField
          key={name}
          type="number"
          label={text[name]}
          name={name}
          help={text.fieldHelp[name]}
          value={alerts[name] === 0 ? '' : String(alerts[name])}
          error={errorOf(name)}
        />
      ))}
      {numbers.map(name => (
        <TextField
          key={name}
          type="number"
          required
          label={text[name]}
          name={name}
          help={text.fieldHelp[name]}
          value={String(alerts[name])}
          error={errorOf(name)}
        />
      ))}
    </div>
    <h3>{text.outages}</h3>
    <MultiSelect
      label={text.networks}
      name="networks"
      options={networks}
      value={alerts.networks}
      placeholder={text.noNetwork}
      help={text.fieldHelp.networks}
      error={errorOf('networks')}
    />
  </>
)

/** What was entered that is not stored, as the API takes it: what others change meanwhile is not changed back. */
export const readChangedAlertFields = (values: FormData, stored: AlertConditions): Partial<AlertConditions> =>
  Object.fromEntries(
    Object.entries(readAlertFields(values)).filter(([name, value]) => String(value) !== String(stored[name as keyof AlertConditions])), // its own names
  )

const readAlertFields = (values: FormData): AlertConditions => {
  const numberOf = (name: string): number => Number(typedText(values, name))
  const listOf = (name: string): readonly number[] => splitList(values.get(name)).map(Number)
  return {
    ...{ daily: listOf('daily'), monthly: listOf('monthly'), keyDaily: listOf('keyDaily') },
    ...{ errorRate: numberOf('errorRate'), latency: numberOf('latency') },
    ...{ window: numberOf('window'), minCalls: numberOf('minCalls') },
    networks: splitList(values.get('networks')),
  }
}

/** A day, a month, or when calls began to fail or to be slow, or an outage began or ended. */
const formatAlertDate = ({ type, date }: Pick<AlertsJson['deliveries'][number], 'type' | 'date'>): string =>
  type === 'credits.threshold' ? date : formatTime(date)

const tones = { pending: 'warn', delivered: 'ok', failed: 'danger' } as const

/** What was sent, to whom, and how that ended. */
export const Deliveries = ({ deliveries }: Pick<AlertsJson, 'deliveries'>) => (
  <Table
    caption={text.sent}
    keyOf={({ type, date, threshold, key, network, channel, person }) => [type, date, threshold, key, network, channel, person].join()}
    rows={deliveries}
    columns={[
      { title: text.of, cell: row => formatAlertDate(row) },
      { title: texts.alert.title, cell: row => formatAlert(row) },
      { title: text.to, cell: ({ channel, person }) => (channel === 'webhook' ? text.webhook : (person ?? '–')) },
      { title: text.state, cell: ({ state }) => <Badge tone={tones[state]}>{text.states[state]}</Badge> },
      { title: text.lastStatus, cell: ({ lastStatus }) => lastStatus ?? '–' },
      { title: text.lastAttempt, isTime: true, cell: ({ lastAttempt }) => formatTime(lastAttempt) },
      { title: text.nextAttempt, isTime: true, cell: ({ nextAttempt }) => formatTime(nextAttempt) },
    ]}
  />
)

/** What was reported and has not ended. */
export const Incidents = ({ incidents }: Pick<AlertsJson, 'incidents'>) => (
  <>
    {incidents.map(({ type, since, value, calls, window }) => (
      <Banner
        key={type}
        tone="danger"
        title={type === 'errors.threshold' ? `${value} % ${text.callsFailed}` : `${text.slow} ${formatLatency(value)}`}
      >
        {formatNumber(calls)} {text.callsIn} {window} {text.minutesBefore} {formatTime(since)}. {text.untilEnded}
      </Banner>
    ))}
  </>
)
