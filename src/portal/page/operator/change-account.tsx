import { useSignal } from '@preact/signals'
import type { AccountJson, AccountWithBalance } from '../../operations/account-operations.ts'
import type { Plan } from '../../../plugin/call.ts'
import { describeKeyRate } from '../components/allowed-by-key.tsx'
import { Notice, Select, TextField } from '../components/controls.tsx'
import { Dialog } from '../components/dialog.tsx'
import { Form, typedText } from '../components/form.tsx'
import { showToast } from '../components/toast.tsx'
import { formatNumber } from '../format.ts'
import { request, useRequest } from '../request.ts'
import { navigate } from '../router.ts'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.accounts

export interface ChangeAccountProps {
  readonly account: AccountWithBalance
  readonly path: string
  onSaved(changed: AccountWithBalance): void
  onClose(): void
}

export const ChangeAccount = ({ account, path, onSaved, onClose }: ChangeAccountProps) => {
  const plans = useRequest<readonly Plan[]>('/plans')
  // Undefined until another is chosen.
  const plan = useSignal<string | undefined>(undefined)
  // The plan of the account may have left gateway.yaml.
  const planNames = [...new Set([account.plan, ...(plans.data.value?.map(each => each.name) ?? [])])]
  const planCredits = plans.data.value?.find(({ name }) => name === (plan.value ?? account.plan))?.dailyCredits
  const change = async (values: FormData) => {
    const [credits, label] = [Number(values.get('credits')), String(values.get('label')).trim()]
    // What is not changed here may just be changed by others.
    const changes = {
      ...(plan.value !== undefined && plan.value !== account.plan && { plan: plan.value }),
      ...(credits !== (account.credits ?? 0) && { credits }),
      ...(label !== (account.label ?? '') && { label }),
    }
    if (Object.keys(changes).length === 0) return text.nothingToChange
    onSaved({ ...account, ...(await request<AccountJson>('PATCH', path, changes)) })
    showToast(text.changed)
    onClose()
    return ''
  }
  return (
    <Dialog title={text.settings} onClose={onClose}>
      <Form title={text.settings} heading="none" button={text.save} send={change} success={said => said} onCancel={onClose}>
        {errorOf => (
          <>
            <Select label={text.plan} options={planNames} value={plan.value ?? account.plan} onChange={value => (plan.value = value)} />
            <TextField
              label={text.credits}
              name="credits"
              type="number"
              help={`${text.creditsHelp}${planCredits === undefined ? '' : ` (${formatNumber(planCredits)})`}.`}
              value={String(account.credits ?? '')}
              error={errorOf('credits')}
            />
            <TextField label={text.label} name="label" value={account.label ?? ''} error={errorOf('label')} />
            <Notice text={plans.error.value} />
          </>
        )}
      </Form>
    </Dialog>
  )
}

export interface SuspendAccountProps {
  readonly path: string
  onSuspended(): void
  onClose(): void
}

export const SuspendAccount = ({ path, onSuspended, onClose }: SuspendAccountProps) => {
  const suspend = async (values: FormData): Promise<void> => {
    await request('POST', `${path}/suspend`, { reason: typedText(values, 'reason') })
    onSuspended()
    onClose()
  }
  return (
    <Dialog title={text.suspend} onClose={onClose}>
      <Form title={text.suspend} heading="none" send={suspend} onCancel={onClose}>
        {errorOf => (
          <>
            <p>{text.stateHelp.active}</p>
            <TextField label={text.reason} name="reason" help={text.reasonHelp} error={errorOf('reason')} />
          </>
        )}
      </Form>
    </Dialog>
  )
}

/** `core: 3,000,000 credits a day, at most 50 calls/s`. */
const describePlan = ({ name, dailyCredits, rate, burst }: Plan): string =>
  [
    `${name}: ${formatNumber(dailyCredits)} ${text.creditsADay}`,
    ...(rate === undefined ? [] : [describeKeyRate({ rate: `${rate}/s`, burst: burst ?? null })]),
  ].join(', ')

export interface CreateAccountProps {
  onClose(): void
}

export const CreateAccount = ({ onClose }: CreateAccountProps) => {
  const plans = useRequest<readonly Plan[]>('/plans')
  const plan = useSignal('')
  const offered = plans.data.value ?? []
  const create = async (values: FormData): Promise<void> => {
    const credits = String(values.get('credits'))
    const created = await request<AccountJson>('POST', '/accounts', {
      name: String(values.get('name')).trim(),
      plan: plan.value || offered[0]?.name,
      label: String(values.get('label')).trim(),
      ...(credits !== '' && { credits: Number(credits) }),
    })
    navigate(`/operator/accounts/${created.name}`)
  }
  return (
    <Dialog title={text.create} onClose={onClose}>
      <Form title={text.create} heading="none" send={create} onCancel={onClose}>
        {errorOf => (
          <>
            <TextField label={text.name} name="name" required error={errorOf('name')} />
            <Select
              label={text.plan}
              help={text.planHelp}
              options={offered.map(each => ({ value: each.name, label: describePlan(each) }))}
              value={plan.value || (offered[0]?.name ?? '')}
              onChange={value => (plan.value = value)}
            />
            <TextField label={text.credits} name="credits" type="number" help={`${text.creditsHelp}.`} error={errorOf('credits')} />
            <TextField label={text.label} name="label" help={text.labelHelp} error={errorOf('label')} />
            <p class="help">{text.ownerHelp}</p>
            <Notice text={plans.error.value} />
          </>
        )}
      </Form>
    </Dialog>
  )
}
