import { useSignal } from '@preact/signals'
import { Fragment } from 'preact'
import type { AccountWithBalance } from '../../operations/account-operations.ts'
import type { ListedKeyJson } from '../../operations/key-operations.ts'
import { now } from '../clock.ts'
import { AllowedByKey, describeKeyRate } from '../components/allowed-by-key.tsx'
import { Badge } from '../components/badge.tsx'
import type { ChangeKeyProps } from '../components/change-key.tsx'
import { Notice, WhenLoaded, useConfirmation } from '../components/controls.tsx'
import { CreditsCard } from '../components/credits-card.tsx'
import { Dialog } from '../components/dialog.tsx'
import { Bar, toneOfUse } from '../components/figure.tsx'
import { ShownOnce, useSubmit } from '../components/form.tsx'
import { KeyActions, KeyState } from '../components/key-actions.tsx'
import type { IssuedKey, KeyAnswer } from '../components/key-actions.tsx'
import type { CreateKeyProps } from '../components/key-form.tsx'
import { Table } from '../components/table.tsx'
import { VerifyWishes } from '../components/verify-wishes.tsx'
import { formatHourOfUse, formatNumber, formatTime } from '../format.ts'
import { request, useRequest } from '../request.ts'
import type { Loaded } from '../request.ts'
import { texts } from '../texts.ts'
import type { ChangeAccountProps, SuspendAccountProps } from './change-account.tsx'
import { People } from './account-people.tsx'
import { accountForms } from './load-account-forms.ts'
import { AccountUsage } from './account-usage.tsx'
import { CallAcceptance, isAtLimit } from './call-acceptance.tsx'
import { AccountState } from './account-state.tsx'
import { PageLink } from './links.tsx'
import { session } from './operator-session.ts'
import { formatShare } from './format-figures.ts'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.accounts

const CreateKey = accountForms.component<CreateKeyProps>(code => code.CreateKey)
const ChangeKey = accountForms.component<ChangeKeyProps & { readonly key: string }>(code => code.ChangeKey, null)
const ChangeAccount = accountForms.component<ChangeAccountProps>(code => code.ChangeAccount, null)
const SuspendAccount = accountForms.component<SuspendAccountProps>(code => code.SuspendAccount, null)
const AccountAlerts = accountForms.component<Pick<ChangeProps, 'path'>>(code => code.AccountAlerts)

/** Below the figures, which are long in a narrow window. */
const sections = [
  { id: 'keys', title: text.keys },
  { id: 'people', title: operatorTexts.people.people },
  { id: 'alerts', title: texts.pages.alerts },
]

/** One account: whether its calls are accepted, its credits, what can be changed, its calls, keys, people and alerts. */
export const AccountDetails = ({ name }: { readonly name: string }) => {
  const path = `/accounts/${name}`
  const loaded = useRequest<AccountWithBalance>(path)
  const keys = useRequest<readonly ListedKeyJson[]>(`${path}/keys`)
  const showChange = (changed: AccountWithBalance): void => {
    loaded.show(changed)
    // Another plan is another balance.
    loaded.reload()
  }
  return (
    <>
      <p>
        <PageLink to="/operator/accounts">{text.back}</PageLink>
        {' · '}
        <PageLink to={`/operator/audit?account=${name}`}>{text.audit}</PageLink>
        {sections.map(({ id, title }) => (
          <Fragment key={id}>
            {' · '}
            <a href={`#${id}`}>{title}</a>
          </Fragment>
        ))}
      </p>
      <WhenLoaded from={loaded}>
        {account => (
          <>
            <CallAcceptance account={account} keys={keys.data.value ?? []} />
            <div class="cards">
              <CreditsCard balance={account.balance} forecast={<PlanLimits account={account} />} />
              <StateCard account={account} path={path} onChanged={loaded.reload} onSaved={showChange} />
            </div>
            <AccountUsage path={path} name={name} keys={keys.data.value ?? []} />
            <Keys path={path} keys={keys} limit={account.balance.limit} />
            <People path={path} hasDashboard={session.value?.dashboard !== null} />
            <Alerts path={path} />
            {account.deleteAt === null && <DeleteAccount path={path} onDeleted={loaded.reload} />}
          </>
        )}
      </WhenLoaded>
    </>
  )
}

/** Beside the credits: whose they are, and how fast they may be used. */
const PlanLimits = ({ account: { credits, ofPlan } }: Pick<ChangeProps, 'account'>) =>
  ofPlan === null ? null : (
    <>
      {credits !== null && `${text.ownCredits} ${formatNumber(ofPlan.dailyCredits)}. `}
      {ofPlan.rate === null ? text.noRate : `${text.ratesOfPlan} ${describeKeyRate({ rate: `${ofPlan.rate}/s`, burst: ofPlan.burst })}.`}
    </>
  )

/** Read when they are opened. */
const Alerts = ({ path }: Pick<ChangeProps, 'path'>) => {
  const isOpen = useSignal(false)
  return (
    <details id="alerts" class="section" onToggle={({ currentTarget }) => (isOpen.value = currentTarget.open)}>
      <summary>
        <h2>{texts.pages.alerts}</h2>
      </summary>
      {isOpen.value && <AccountAlerts path={path} />}
    </details>
  )
}

interface ChangeProps {
  readonly account: AccountWithBalance
  readonly path: string
}

interface StateCardProps extends ChangeProps, Pick<ChangeAccountProps, 'onSaved'> {
  onChanged(): void
}

const StateCard = ({ account, path, onChanged, onSaved }: StateCardProps) => {
  const { id, state, suspended, suspensionReason, deleteAt, plan, created } = account
  const isChanging = useSignal(false)
  const isSuspending = useSignal(false)
  const { error, isSending, submit } = useSubmit(async () => {
    await request('POST', `${path}/resume`)
    onChanged()
  })
  return (
    <section class="card" aria-label={text.state}>
      <h2>{text.state}</h2>
      <p data-testid="account-state">
        <AccountState account={{ state, deleteAt }} />
      </p>
      <p>
        {text.plan} {plan}, <code>{id}</code>, {text.created.toLowerCase()} {formatTime(created)}
      </p>
      {suspensionReason !== null && (
        <p>
          {text.reason}: {suspensionReason}
        </p>
      )}
      <p class="help">{text.stateHelp[state]}</p>
      <Notice text={error.value?.message} />
      <div class="buttons">
        <button type="button" class="quiet" onClick={() => (isChanging.value = true)}>
          {text.settings}
        </button>
        {suspended === null ? (
          <button type="button" class="quiet" onClick={() => (isSuspending.value = true)}>
            {text.suspend}
          </button>
        ) : (
          <form onSubmit={submit}>
            <button type="submit" disabled={isSending.value}>
              {state === 'unapproved' ? text.approve : text.resume}
            </button>
          </form>
        )}
      </div>
      {isChanging.value && <ChangeAccount account={account} path={path} onSaved={onSaved} onClose={() => (isChanging.value = false)} />}
      {isSuspending.value && <SuspendAccount path={path} onSuspended={onChanged} onClose={() => (isSuspending.value = false)} />}
    </section>
  )
}

/** Asked for twice. */
const DeleteAccount = ({ path, onDeleted }: { readonly path: string; onDeleted(): void }) => {
  const deletion = useConfirmation()
  const { error, isSending, submit } = useSubmit(async () => {
    await request('POST', `${path}/delete`)
    onDeleted()
  })
  if (!deletion.isAsking) {
    return (
      <p>
        <button type="button" class="danger" ref={deletion.askRef} onClick={deletion.ask}>
          {text.delete}
        </button>
      </p>
    )
  }
  return (
    <form onSubmit={submit} aria-label={text.delete}>
      <p>{text.confirmDelete}</p>
      <Notice text={error.value?.message} />
      <div class="buttons">
        <button type="submit" class="danger final" disabled={isSending.value}>
          {text.delete}
        </button>
        <button type="button" class="quiet" ref={deletion.cancelRef} onClick={deletion.cancel}>
          {texts.cancel}
        </button>
      </div>
    </form>
  )
}

interface KeysProps {
  readonly path: string
  readonly keys: Loaded<readonly ListedKeyJson[]>
  /** Daily credits of the account. */
  readonly limit: number | null
}

const Keys = ({ path, keys, limit }: KeysProps) => {
  const created = useSignal<IssuedKey | undefined>(undefined)
  const isCreating = useSignal(false)
  const changedId = useSignal<string | undefined>(undefined)
  const onChanged = (answer: KeyAnswer): void => {
    if ('key' in answer) created.value = answer
    keys.reload()
  }
  const changed = keys.data.value?.find(({ id }) => id === changedId.value)
  const closeChange = (): void => void (changedId.value = undefined)
  return (
    <div>
      <div class="section-heading">
        <h2 id="keys">{text.keys}</h2>
        <button type="button" class="quiet" onClick={() => (isCreating.value = true)}>
          {texts.keys.create}
        </button>
      </div>
      {isCreating.value && (
        <Dialog title={texts.keys.create} onClose={() => (isCreating.value = false)}>
          <CreateKey
            setsVerify
            onCancel={() => (isCreating.value = false)}
            create={async ({ days, ...settings }) => {
              const expires = days === undefined ? undefined : `${days}d`
              onChanged(await request<IssuedKey>('POST', `${path}/keys`, { ...settings, expires }))
              isCreating.value = false
            }}
          />
        </Dialog>
      )}
      {changed !== undefined && <ChangeKey key={changed.id} setsVerify apiKey={changed} onSaved={keys.reload} onClose={closeChange} />}
      {/* There before the key: a region that comes with its text is not announced everywhere. */}
      <div role="status" data-testid="new-key">
        {created.value !== undefined && (
          <section class="card new-key" aria-label={text.newKey}>
            <h2>
              {text.newKey}: {created.value.name || created.value.id}
            </h2>
            <ShownOnce help={texts.keys.saveNow} text={created.value.key} label={text.newKey} />
          </section>
        )}
      </div>
      <WhenLoaded from={keys}>
        {found =>
          found.length === 0 ? (
            <p class="lead">{text.noKeys}</p>
          ) : (
            <KeyTable keys={found} limit={limit} onChanged={onChanged} onChange={id => (changedId.value = id)} />
          )
        }
      </WhenLoaded>
    </div>
  )
}

interface AccountKeysProps extends Pick<KeysProps, 'limit'> {
  readonly keys: readonly ListedKeyJson[]
  onChanged(answer: KeyAnswer): void
  onChange(id: string): void
}

const KeyTable = ({ keys, limit, onChanged, onChange }: AccountKeysProps) => (
  <Table
    caption={text.keys}
    keyOf={key => key.id}
    rows={keys.toReversed()}
    columns={[
      {
        title: texts.keys.name,
        cell: key => (
          <>
            <span class="row-name">{key.name || key.id}</span> <code>…{key.hint}</code>
            {key.name !== '' && (
              <p class="help">
                <code>{key.id}</code>
              </p>
            )}
            <VerifyWishes verify={key.verify} />
          </>
        ),
      },
      { title: texts.keys.allowed, cell: key => <AllowedByKey apiKey={key} /> },
      {
        title: texts.keys.limit,
        cell: key => (
          <>
            <KeyLimit apiKey={key} ofAccount={limit} />
            {key.rate !== null && <p class="help">{describeKeyRate(key)}</p>}
          </>
        ),
      },
      {
        title: texts.keys.lastUsed,
        isTime: true,
        cell: key => (key.lastUsed === null ? text.notUsedLately : formatHourOfUse(key.lastUsed, now.value)),
      },
      { title: texts.keys.expires, isTime: true, cell: key => formatTime(key.expires, texts.never) },
      {
        title: texts.keys.state,
        cell: key => (isAtLimit(key) ? <Badge tone="danger">{text.atLimit}</Badge> : <KeyState state={key.state} />),
      },
      {
        title: texts.keys.actions,
        cell: key =>
          key.state === 'active' || key.state === 'suspended' ? (
            <KeyActions apiKey={key} onChanged={onChanged} onChange={() => onChange(key.id)} />
          ) : (
            '–'
          ),
      },
    ]}
  />
)

/** How much of its limit a key has used today; without one, the credits of the account are all that limits it. */
const KeyLimit = ({ apiKey, ofAccount }: { readonly apiKey: ListedKeyJson; readonly ofAccount: number | null }) => {
  const { name, hint, dailyCredits } = apiKey
  if (dailyCredits === null) return ofAccount === null ? texts.keys.noLimit : `${text.limitOfAccount} ${formatNumber(ofAccount)}`
  const used = apiKey.usedToday ?? 0
  return (
    <>
      {formatNumber(used)} {texts.of} {formatNumber(dailyCredits)} <span class="one-line">({formatShare(used / dailyCredits)})</span>
      <Bar label={`${texts.keys.limit}: ${name || hint}`} value={used} max={dailyCredits} tone={toneOfUse(used, dailyCredits)} isThin />
    </>
  )
}
