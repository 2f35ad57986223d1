import { useSignal } from '@preact/signals'
import type { Plan } from '../../../plugin/call.ts'
import type { AccountJson, AccountPageJson } from '../../operations/account-operations.ts'
import { Notice, Select, TextField, WhenLoaded } from '../components/controls.tsx'
import { Form } from '../components/form.tsx'
import { Table } from '../components/table.tsx'
import { formatNumber, formatTime } from '../format.ts'
import { request, useRequest } from '../request.ts'
import { followLink, navigate } from '../router.ts'
import { texts } from '../texts.ts'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.accounts

/** Names need no escapes. */
const pathOf = ({ name }: Pick<AccountJson, 'name'>): string => `/operator/accounts/${name}`

export const Accounts = () => {
  const search = useSignal('')
  const after = useSignal('')
  const page = useRequest<AccountPageJson>(`/accounts?${new URLSearchParams({ search: search.value, after: after.value })}`)
  const next = page.data.value?.next ?? ''
  const searchFor = (event: SubmitEvent) => {
    event.preventDefault()
    search.value = String(new FormData(event.currentTarget as HTMLFormElement).get('search')).trim()
    after.value = ''
  }
  return (
    <>
      <form class="controls" aria-label={text.search} onSubmit={searchFor}>
        <TextField label={text.searchLabel} name="search" />
        <button type="submit">{text.search}</button>
      </form>
      <details>
        <summary>{text.create}</summary>
        <CreateAccount />
      </details>
      <WhenLoaded from={page}>
        {({ accounts }) => (accounts.length === 0 ? <p>{text.none}</p> : <AccountTable accounts={accounts} />)}
      </WhenLoaded>
      <div class="pager">
        {after.value !== '' && (
          <button type="button" class="quiet" onClick={() => (after.value = '')}>
            {text.first}
          </button>
        )}
        {next !== '' && (
          <button type="button" class="quiet" onClick={() => (after.value = next)}>
            {texts.next}
          </button>
        )}
      </div>
    </>
  )
}

const AccountTable = ({ accounts }: { readonly accounts: readonly AccountJson[] }) => (
  <Table
    caption={operatorTexts.pages.accounts}
    keyOf={account => account.id}
    rows={accounts}
    columns={[
      {
        title: text.name,
        cell: account => (
          <a href={pathOf(account)} onClick={followLink}>
            {account.name}
          </a>
        ),
      },
      { title: text.state, cell: account => <State account={account} /> },
      { title: text.plan, cell: account => account.plan },
      { title: text.credits, isNumber: true, cell: account => (account.credits === null ? text.ofPlan : formatNumber(account.credits)) },
      { title: text.label, cell: account => account.label ?? '–' },
      { title: text.created, isTime: true, cell: account => formatTime(account.created) },
    ]}
  />
)

const State = ({ account: { suspended, deleteAt } }: { readonly account: AccountJson }) => (
  <>
    {suspended === null ? text.active : text.suspended}
    {deleteAt !== null && (
      <p class="error">
        {text.deleteAt} {formatTime(deleteAt)}
      </p>
    )}
  </>
)

const CreateAccount = () => {
  const plans = useRequest<readonly Plan[]>('/plans')
  const plan = useSignal('')
  const planNames = plans.data.value?.map(({ name }) => name) ?? []
  const create = async (values: FormData): Promise<void> => {
    const credits = String(values.get('credits'))
    const created = await request<AccountJson>('POST', '/accounts', {
      name: String(values.get('name')).trim(),
      plan: plan.value || planNames[0],
      label: String(values.get('label')).trim(),
      ...(credits !== '' && { credits: Number(credits) }),
    })
    navigate(pathOf(created))
  }
  return (
    <Form title={text.create} send={create}>
      {errorOf => (
        <>
          <TextField label={text.name} name="name" required error={errorOf('name')} />
          <Select
            label={text.plan}
            options={planNames}
            value={plan.value || (planNames[0] ?? '')}
            onChange={value => (plan.value = value)}
          />
          <TextField label={text.credits} name="credits" type="number" help={text.creditsHelp} error={errorOf('credits')} />
          <TextField label={text.label} name="label" error={errorOf('label')} />
          <Notice text={plans.error.value} />
        </>
      )}
    </Form>
  )
}
