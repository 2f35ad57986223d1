import { useSignal } from '@preact/signals'
import type { AlertsJson } from '../../alerts/manage-alerts.ts'
import { AlertFields, Deliveries, Incidents, readChangedAlertFields } from '../components/alert-fields.tsx'
import { Checkbox, Notice, TextField, WhenLoaded } from '../components/controls.tsx'
import { Form, ShownOnce } from '../components/form.tsx'
import { request, useRequest } from '../request.ts'
import { settingsTexts } from '../settings-texts.ts'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.alerts

interface AccountAlerts extends AlertsJson {
  readonly enabled: boolean
}

/** Who is told of the account's credits and calls, and what was sent; `path` is that of the account. */
export const AccountAlerts = ({ path }: { readonly path: string }) => {
  const alerts = useRequest<AccountAlerts>(`${path}/alerts`)
  return (
    <WhenLoaded from={alerts}>
      {found => (
        <>
          {!found.enabled && <p class="lead">{text.notEnabled}</p>}
          <Incidents incidents={found.incidents} />
          <Settings alerts={found} path={path} onChanged={alerts.show} />
          {found.webhook !== null && <TestWebhook path={path} />}
          {found.deliveries.length === 0 ? (
            <p class="lead">{settingsTexts.alerts.nothingSent}</p>
          ) : (
            <Deliveries deliveries={found.deliveries} />
          )}
        </>
      )}
    </WhenLoaded>
  )
}

interface SettingsProps {
  readonly alerts: AccountAlerts
  readonly path: string
  onChanged(changed: AccountAlerts): void
}

/** Only what is changed is sent. */
const Settings = ({ alerts, path, onChanged }: SettingsProps) => {
  const save = async (values: FormData) => {
    const typed = (name: string): string => String(values.get(name) ?? '').trim()
    const email = values.get('email') !== null
    const webhook = typed('webhook') === '' ? 'none' : typed('webhook')
    const { secret, ...changed } = await request<AccountAlerts & { readonly secret: string | null }>('PATCH', `${path}/alerts`, {
      ...readChangedAlertFields(values, alerts),
      ...(email !== alerts.email && { email }),
      ...(webhook !== (alerts.webhook?.url ?? 'none') && { webhook }),
    })
    // Before the form is reset: to what is stored, not to what was.
    onChanged(changed)
    return secret
  }
  return (
    <Form
      title={settingsTexts.alerts.conditions}
      button={settingsTexts.alerts.save}
      send={save}
      success={() => settingsTexts.alerts.saved}
      done={secret =>
        secret !== null && <ShownOnce help={settingsTexts.alerts.saveSecret} text={secret} label={settingsTexts.alerts.secret} />
      }
    >
      {errorOf => (
        <>
          <AlertFields alerts={alerts} errorOf={errorOf} />
          <Checkbox label={settingsTexts.alerts.email} name="email" isChecked={alerts.email} />
          <Notice text={errorOf('email')} />
          <p class="help">
            {alerts.mailReceivers.length === 0
              ? text.noMailReceivers
              : `${settingsTexts.alerts.mailReceivers} ${alerts.mailReceivers.join(', ')}`}
          </p>
          <TextField
            label={settingsTexts.alerts.webhook}
            name="webhook"
            help={text.webhookHelp}
            value={alerts.webhook?.url ?? ''}
            error={errorOf('webhook')}
          />
        </>
      )}
    </Form>
  )
}

const TestWebhook = ({ path }: { readonly path: string }) => {
  const outcome = useSignal('')
  const test = () =>
    request<{ readonly isDelivered: boolean; readonly status: string }>('POST', `${path}/alerts/test`).then(
      ({ isDelivered, status }) =>
        (outcome.value = `${isDelivered ? settingsTexts.alerts.testDelivered : settingsTexts.alerts.testFailed} ${status}`),
      (reason: Error) => (outcome.value = reason.message),
    )
  return (
    <>
      <p>
        <button type="button" class="quiet" onClick={() => void test()}>
          {settingsTexts.alerts.test}
        </button>
      </p>
      <p role="status">{outcome.value}</p>
    </>
  )
}
