import { useSignal } from '@preact/signals'
import type { WebhookFormat } from '../../alerts/message-format.ts'
import type { AlertsJson } from '../../alerts/manage-alerts.ts'
import type { NetworkJson } from '../../routes/networks.ts'
import type { SignInOptions } from '../../routes/session.ts'
import { AlertFields, Deliveries, Incidents, readChangedAlertFields } from '../components/alert-fields.tsx'
import { Banner } from '../components/banner.tsx'
import { Checkbox, Notice, Select, TextField } from '../components/controls.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { Form, ShownOnce } from '../components/form.tsx'
import { Skeleton } from '../components/skeleton.tsx'
import { request, useRequest } from '../request.ts'
import { followLink } from '../router.ts'
import { accountTexts } from './account-texts.ts'
import { session } from './developer-session.ts'

const text = accountTexts.alerts

export const Alerts = () => (session.value?.person.role === 'owner' ? <OwnerAlerts /> : <p>{text.ownersOnly}</p>)

const OwnerAlerts = () => {
  const alerts = useRequest<AlertsJson>('/alerts')
  const options = useRequest<SignInOptions>('/sign-in-options')
  const found = alerts.data.value
  const networks = useRequest<readonly NetworkJson[]>('/networks')
  const error = alerts.error.value ?? options.error.value
  return (
    <>
      <Notice text={error} />
      {found === undefined || options.data.value === undefined ? (
        error === undefined && <Skeleton height={20} />
      ) : (
        <>
          {isUndelivered(found, options.data.value.email) && <Undelivered alerts={found} canMail={options.data.value.email} />}
          <Incidents incidents={found.incidents} />
          <Conditions
            alerts={found}
            networks={networks.data.value?.map(({ name }) => name)}
            canMail={options.data.value.email}
            onChanged={alerts.show}
          />
          <Webhook url={found.webhook?.url} onChanged={alerts.reload} />
          <h2>{text.sent}</h2>
          {found.deliveries.length === 0 ? (
            <EmptyState icon="alerts" title={text.nothingSent} />
          ) : (
            <Deliveries deliveries={found.deliveries} />
          )}
        </>
      )}
    </>
  )
}

interface AlertsProps {
  readonly alerts: AlertsJson
  readonly canMail: boolean
}

const isUndelivered = ({ webhook, email, mailReceivers }: AlertsJson, canMail: boolean): boolean =>
  webhook === null && !(canMail && email && mailReceivers.length > 0)

/** Thresholds are set, but no alert would reach anybody. */
const Undelivered = ({ alerts: { mailReceivers }, canMail }: AlertsProps) => (
  <Banner tone="warn" title={text.undelivered}>
    {!canMail ? (
      text.setWebhook
    ) : mailReceivers.length > 0 ? (
      text.tickMail
    ) : (
      <>
        <a href="/profile" onClick={followLink}>
          {text.confirmAddress}
        </a>
        {text.thenTick}
      </>
    )}
  </Banner>
)

interface ConditionsProps extends AlertsProps {
  readonly networks: readonly string[] | undefined
  onChanged(changed: AlertsJson): void
}

const Conditions = ({ alerts, networks, canMail, onChanged }: ConditionsProps) => {
  const save = async (values: FormData) => {
    const email = values.get('email') !== null
    const change = { ...readChangedAlertFields(values, alerts), ...(canMail && email !== alerts.email && { email }) }
    const changed = await request<AlertsJson>('PATCH', '/alerts', change)
    // Before the form is reset: to what is stored, not to what was.
    onChanged(changed)
    return changed
  }
  return (
    <Form title={text.conditions} button={text.save} send={save} success={() => text.saved}>
      {errorOf => (
        <>
          <AlertFields alerts={alerts} networks={networks} errorOf={errorOf} />
          <h3>{text.delivery}</h3>
          {canMail ? <Checkbox label={text.email} name="email" isChecked={alerts.email} /> : <p>{text.noMail}</p>}
          {canMail && (
            <p class="help">
              {alerts.mailReceivers.length === 0 ? text.noMailReceivers : `${text.mailReceivers} ${alerts.mailReceivers.join(', ')}`}
            </p>
          )}
          {canMail && alerts.email && alerts.mailReceivers.length > 0 && <Receiver channel="email" />}
        </>
      )}
    </Form>
  )
}

const formats = (['standard', 'slack'] as const).map(value => ({ value, label: text.formats[value] }))

const Webhook = ({ url, onChanged }: { readonly url: string | undefined; onChanged(): void }) => {
  const format = useSignal<WebhookFormat>('standard')
  const set = async (values: FormData) => {
    const webhook = { url: String(values.get('url')).trim(), format: format.value }
    const { secret } = await request<{ readonly secret: string }>('POST', '/alerts/webhook', webhook)
    onChanged()
    return { secret, format: webhook.format }
  }
  return (
    <Form
      title={text.webhook}
      button={url === undefined ? text.set : text.replace}
      send={set}
      done={answer =>
        // Slack checks no signatures.
        answer.format === 'slack' ? <p>{text.saved}</p> : <ShownOnce help={text.saveSecret} text={answer.secret} label={text.secret} />
      }
    >
      {errorOf => (
        <>
          {url !== undefined && (
            <>
              <p>
                <code>{url}</code>
              </p>
              <Receiver channel="webhook" onRemoved={onChanged} />
            </>
          )}
          <div class="pairs">
            <TextField label={url === undefined ? text.url : text.newUrl} name="url" required help={text.urlHelp} error={errorOf('url')} />
            <Select label={text.format} options={formats} value={format.value} onChange={value => (format.value = value)} />
          </div>
        </>
      )}
    </Form>
  )
}

interface ReceiverProps {
  readonly channel: 'email' | 'webhook'
  /** Of the webhook. */
  onRemoved?(): void
}

/** What can be done with a receiver of alerts, and how that ended. */
const Receiver = ({ channel, onRemoved }: ReceiverProps) => {
  const outcome = useSignal('')
  const fail = (reason: Error) => (outcome.value = reason.message)
  const test = () =>
    request<{ readonly isDelivered: boolean; readonly status: string }>('POST', `/alerts/test?channel=${channel}`).then(
      ({ isDelivered, status }) => (outcome.value = `${isDelivered ? text.testDelivered : text.testFailed} ${status}`),
      fail,
    )
  const remove = () => request('DELETE', '/alerts/webhook').then(onRemoved, fail)
  return (
    <>
      <div class="buttons">
        <button type="button" class="quiet" onClick={() => void test()}>
          {channel === 'email' ? text.testMail : text.test}
        </button>
        {onRemoved !== undefined && (
          <button type="button" class="quiet" onClick={() => void remove()}>
            {text.removeWebhook}
          </button>
        )}
      </div>
      <p role="status" data-testid={`${channel}-test`}>
        {outcome.value}
      </p>
    </>
  )
}
