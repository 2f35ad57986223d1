import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import type { Plan } from '../../../plugin/call.ts'
import type { AccountPageJson, ListedAccount } from '../../operations/account-operations.ts'
import type { OperatorKeyJson } from '../../operations/key-operations.ts'
import { SearchField, Select, WhenLoaded } from '../components/controls.tsx'
import { EmptyState } from '../components/empty-state.tsx'
import { Icon } from '../components/icon.tsx'
import { Table } from '../components/table.tsx'
import { formatNumber, formatTime } from '../format.ts'
import { useRequest } from '../request.ts'
import { changeQuery, queryMember } from '../router.ts'
import { texts } from '../texts.ts'
import { formatShare } from './format-figures.ts'
import type { CreateAccountProps } from './change-account.tsx'
import type { FoundKeysProps } from './found-keys.tsx'
import { AccountLink } from './links.tsx'
import { Labeled } from './labeled.tsx'
import { AccountState } from './account-state.tsx'
import { accountForms } from './load-account-forms.ts'
import { recordsFile } from './load-records.ts'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.accounts

const FoundKeys = recordsFile.component<FoundKeysProps>(code => code.FoundKeys, <p class="lead">{text.lookingForKeys}</p>)

const CreateAccount = accountForms.component<CreateAccountProps>(code => code.CreateAccount, null)

const states = [
  { value: '', label: texts.all },
  ...(['active', 'unapproved', 'suspended', 'deleted'] as const).map(value => ({ value, label: text.states[value] })),
] as const

/** `4f2a`, as a customer quotes the end of a key, perhaps with dots in front. */
const keyEndingOf = (search: string): string | undefined => /^(?:…|\.{2,3})?([0-9A-Za-z]{4})$/.exec(search.trim())?.[1]

/** A whole key is a secret, which an address must not have: its end finds it too. */
const withoutKey = (search: string): string => search.replace(/\btg_[0-9A-Za-z]{16,}([0-9A-Za-z]{4})\b/g, '…$1')

/** To look for keys reads all of them: not for each word that has four letters while it is typed. */
const typingPauseMs = 300

/** The value once it has been the same for a while; undefined before. */
const useAfterTyping = (value: string | undefined): string | undefined => {
  const settled = useSignal(value)
  useEffect(() => {
    const timer = setTimeout(() => (settled.value = value), typingPauseMs)
    return () => clearTimeout(timer)
  }, [value])
  return settled.value === value ? value : undefined
}

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
  const foundKeys = useSignal<readonly OperatorKeyJson[] | undefined>(undefined)
  const typedEnding = keyEndingOf(search.value)
  const keyEnding = useAfterTyping(typedEnding)
  const mayBeKey = typedEnding !== undefined && foundKeys.value?.length !== 0
  return (
    <>
      <div class="controls">
        <Labeled label={text.search}>
          <SearchField
            label={text.searchHelp}
            value={search.value}
            onInput={value => changeQuery({ search: withoutKey(value), after: '' }, { isTyping: true })}
          />
        </Labeled>
        <Select label={text.state} options={states} value={shownState} onChange={value => changeQuery({ state: value, after: '' })} />
        <div class="buttons">
          <button type="button" onClick={() => (isCreating.value = true)}>
            <Icon name="plus" />
            {text.create}
          </button>
        </div>
      </div>
      {isCreating.value && <CreateAccount onClose={() => (isCreating.value = false)} />}
      {keyEnding !== undefined && <FoundKeys key={keyEnding} ending={keyEnding} found={foundKeys} />}
      <WhenLoaded from={page}>
        {({ accounts }) =>
          accounts.length === 0 && mayBeKey ? null : accounts.length > 0 ? (
            <AccountTable accounts={accounts} plans={plans.data.value ?? []} sort={query.sort} />
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
  readonly sort: string
}

const AccountTable = ({ accounts, plans, sort }: AccountTableProps) => {
  const ofPlan = ({ plan }: ListedAccount): number | undefined => plans.find(({ name }) => name === plan)?.dailyCredits
  const limitOf = (account: ListedAccount): number | undefined => account.credits ?? ofPlan(account)
  return (
    <Table
      caption={operatorTexts.pages.accounts}
      keyOf={account => account.id}
      rows={accounts}
      order={{
        by: sort,
        isDescending: sort === 'used',
        sortBy: column => changeQuery({ sort: column === 'name' ? '' : column, after: '' }),
      }}
      columns={[
        { title: text.name, sort: 'name', cell: account => <AccountLink {...account} /> },
        { title: text.state, cell: account => <AccountState account={account} /> },
        { title: text.plan, cell: account => account.plan },
        {
          title: text.usedToday,
          sort: 'used',
          isNumber: true,
          cell: account => (
            <>
              {formatNumber(account.used)}{' '}
              {account.used > 0 && <span class="since">({formatShare(shareOfLimit(account.used, limitOf(account)))})</span>}
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
              <>
                {formatNumber(account.credits)}{' '}
                <span class="since">
                  {text.ownCreditsShort} {formatNumber(ofPlan(account) ?? null)}
                </span>
              </>
            ),
        },
        { title: text.label, cell: account => account.label ?? '–' },
        { title: text.created, isTime: true, cell: account => formatTime(account.created) },
      ]}
    />
  )
}

const shareOfLimit = (used: number, limit: number | undefined): number | null => (limit === undefined || limit === 0 ? null : used / limit)
