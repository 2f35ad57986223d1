import { useSignal } from '@preact/signals'
import type { Plan } from '../../../plugin/call.ts'
import type { AccountJson, AccountPageJson, ListedAccount } from '../../operations/account-operations.ts'
import { Badge } from '../components/badge.tsx'
import { Notice, SearchField, Select, TextField, WhenLoaded } from '../components/controls.tsx'
import { Dialog } from '../components/dialog.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { Form } from '../components/form.tsx'
import { Icon } from '../components/icon.tsx'
import { Table } from '../components/table.tsx'
import { Segments } from '../components/tabs.tsx'
import { formatNumber, formatTime } from '../format.ts'
import { request, useRequest } from '../request.ts'
import { changeQuery, navigate, queryMember } from '../router.ts'
import { texts } from '../texts.ts'
import { formatShare } from './format-figures.ts'
import { AccountLink } from './links.tsx'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.accounts

const states = [
  { value: '', label: texts.all },
  ...(['active', 'unapproved', 'suspended', 'deleted'] as const).map(value => ({ value, label: text.states[value] })),
] as const

export const Accounts = () => {
  const isCreating = useSignal(false)
  const [search, sort, state, after] = [queryMember('search'), queryMember('sort', 'name'), queryMember('state'), queryMember('after')]
  const shownState = states.find(({ value }) => value === state.value)?.value ?? ''
  const query = {
    search: search.value.trim(),
    sort: sort.value === 'used' ? 'used' : 'name',
    after: after.value,
    ...(shownState !== '' && { state: shownState }),
  }
  const plans = useRequest<readonly Plan[]>('/plans', Infinity)
  const page = useRequest<AccountPageJson>(`/accounts?${new URLSearchParams(query)}`)
  const next = page.data.value?.next ?? ''
  return (
    <>
      <div class="controls">
        <SearchField
          label={text.searchLabel}
          value={search.value}
          onInput={value => changeQuery({ search: value, after: '' }, { isTyping: true })}
        />
        <Segments
          label={text.sort}
          options={[
            { value: 'name', label: text.byName },
            { value: 'used', label: text.byUse },
          ]}
          value={query.sort}
          onChange={value => changeQuery({ sort: value === 'name' ? '' : value, after: '' })}
        />
        <Select label={text.state} options={states} value={shownState} onChange={value => changeQuery({ state: value, after: '' })} />
        <div class="buttons">
          <button type="button" onClick={() => (isCreating.value = true)}>
            <Icon name="plus" />
            {text.create}
          </button>
        </div>
      </div>
      {isCreating.value && (
        <Dialog title={text.create} onClose={() => (isCreating.value = false)}>
          <CreateAccount onCancel={() => (isCreating.value = false)} />
        </Dialog>
      )}
      <WhenLoaded from={page}>
        {({ accounts }) =>
          accounts.length > 0 ? (
            <AccountTable accounts={accounts} plans={plans.data.value ?? []} />
          ) : query.search === '' && shownState === '' ? (
            <EmptyState icon="people" title={text.none} />
          ) : (
            <EmptyState
              icon="people"
              title={query.search === '' ? `${text.noneMatches}.` : `${text.noneMatches} “${query.search}”.`}
              actions={
                <button type="button" class="quiet" onClick={() => changeQuery({ search: '', state: '', after: '' })}>
                  {text.clear}
                </button>
              }
            />
          )
        }
      </WhenLoaded>
      <div class="pager">
        {after.value !== '' && (
          <button type="button" class="quiet" onClick={() => after.set('')}>
            {text.first}
          </button>
        )}
        {next !== '' && (
          <button type="button" class="quiet" onClick={() => after.set(next)}>
            {texts.next}
          </button>
        )}
      </div>
    </>
  )
}

interface AccountTableProps {
  readonly accounts: readonly ListedAccount[]
  readonly plans: readonly Plan[]
}

const AccountTable = ({ accounts, plans }: AccountTableProps) => {
  const ofPlan = ({ plan }: ListedAccount): number | undefined => plans.find(({ name }) => name === plan)?.dailyCredits
  const limitOf = (account: ListedAccount): number | undefined => account.credits ?? ofPlan(account)
  return (
    <Table
      caption={operatorTexts.pages.accounts}
      keyOf={account => account.id}
      rows={accounts}
      columns={[
        { title: text.name, cell: account => <AccountLink {...account} /> },
        { title: text.state, cell: account => <AccountState account={account} /> },
        { title: text.plan, cell: account => account.plan },
        {
          title: text.usedToday,
          isNumber: true,
          cell: account => (
            <>
              {formatNumber(account.used)} <span class="since">{formatShare(shareOfLimit(account.used, limitOf(account)))}</span>
            </>
          ),
        },
        {
          title: text.credits,
          isNumber: true,
          cell: account =>
            account.credits === null ? (
              <>
                {formatNumber(ofPlan(account) ?? null)} <span class="since">{text.ofPlan}</span>
              </>
            ) : (
              formatNumber(account.credits)
            ),
        },
        { title: text.label, cell: account => account.label ?? '–' },
        { title: text.created, isTime: true, cell: account => formatTime(account.created) },
      ]}
    />
  )
}

const shareOfLimit = (used: number, limit: number | undefined): number | null => (limit === undefined || limit === 0 ? null : used / limit)

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

const CreateAccount = ({ onCancel }: { onCancel(): void }) => {
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
    navigate(`/operator/accounts/${created.name}`)
  }
  return (
    <Form title={text.create} heading="none" send={create} onCancel={onCancel}>
      {errorOf => (
        <>
          <TextField label={text.name} name="name" required error={errorOf('name')} />
          <Select
            label={text.plan}
            options={planNames}
            value={plan.value || (planNames[0] ?? '')}
            onChange={value => (plan.value = value)}
          />
          <TextField label={text.credits} name="credits" type="number" help={`${text.creditsHelp}.`} error={errorOf('credits')} />
          <TextField label={text.label} name="label" error={errorOf('label')} />
          <Notice text={plans.error.value} />
        </>
      )}
    </Form>
  )
}
