import { useSignal } from '@preact/signals'
import type { AccountJson, AccountWithBalance } from '../../operations/account-operations.ts'
import type { KeyJson } from '../../key-settings.ts'
import type { Plan } from '../../../plugin/call.ts'
import type { ChangeKeyProps } from '../components/change-key.tsx'
import { Notice, Select, TextField, WhenLoaded, useConfirmation } from '../components/controls.tsx'
import { CreditsCard } from '../components/credits-card.tsx'
import { Dialog } from '../components/dialog.tsx'
import { Form, ShownOnce, typedText, useSubmit } from '../components/form.tsx'
import { KeyActions, KeyState } from '../components/key-actions.tsx'
import type { IssuedKey, KeyAnswer } from '../components/key-actions.tsx'
import type { CreateKeyProps } from '../components/key-form.tsx'
import { loadLater } from '../components/load-later.tsx'
import { Table } from '../components/table.tsx'
import { showToast } from '../components/toast.tsx'
import { VerifyWishes } from '../components/verify-wishes.tsx'
import { formatNumber, formatTime } from '../format.ts'
import { request, useRequest } from '../request.ts'
import type { Loaded } from '../request.ts'
import { texts } from '../texts.ts'
import { AccountAlerts } from './account-alerts.tsx'
import { People } from './account-people.tsx'
import { AccountUsage } from './account-usage.tsx'
import { AccountState } from './accounts.tsx'
import { PageLink } from './links.tsx'
import { session } from './operator-session.ts'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.accounts

// Few who look at an account change its keys.
const keyForms = loadLater(() => import('./key-forms.ts'))
const CreateKey = keyForms.component<CreateKeyProps>(code => code.CreateKey)
const ChangeKey = keyForms.component<ChangeKeyProps & { readonly key: string }>(code => code.ChangeKey, null)

/** One account: its credits, what can be changed, its keys. */
export const AccountDetails = ({ name }: { readonly name: string }) => {
  const path = `/accounts/${name}`
  const loaded = useRequest<AccountWithBalance>(path)
  const keys = useRequest<readonly KeyJson[]>(`${path}/keys`)
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
      </p>
      <WhenLoaded from={loaded}>
        {account => (
          <>
            <div class="cards">
              <CreditsCard balance={account.balance} />
              <StateCard account={account} path={path} onChanged={loaded.reload} onSaved={showChange} />
            </div>
            <AccountUsage path={path} name={name} keys={keys.data.value ?? []} />
            <Keys path={path} keys={keys} />
            <People path={path} hasDashboard={session.value?.dashboard !== null} />
            <AccountAlerts path={path} />
          </>
        )}
      </WhenLoaded>
    </>
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
        {deleteAt === null && <DeleteAccount path={path} onDeleted={onChanged} />}
      </div>
      {isChanging.value && (
        <Dialog title={text.settings} onClose={() => (isChanging.value = false)}>
          <ChangeAccount account={account} path={path} onSaved={onSaved} onClose={() => (isChanging.value = false)} />
        </Dialog>
      )}
      {isSuspending.value && <SuspendAccount path={path} onSuspended={onChanged} onClose={() => (isSuspending.value = false)} />}
    </section>
  )
}

interface SuspendAccountProps {
  readonly path: string
  onSuspended(): void
  onClose(): void
}

const SuspendAccount = ({ path, onSuspended, onClose }: SuspendAccountProps) => {
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

/** Asked for twice. */
const DeleteAccount = ({ path, onDeleted }: { readonly path: string; onDeleted(): void }) => {
  const deletion = useConfirmation()
  const { error, isSending, submit } = useSubmit(async () => {
    await request('POST', `${path}/delete`)
    onDeleted()
  })
  if (!deletion.isAsking) {
    return (
      <button type="button" class="danger" ref={deletion.askRef} onClick={deletion.ask}>
        {text.delete}
      </button>
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

interface ChangeAccountProps extends ChangeProps {
  onSaved(changed: AccountWithBalance): void
  onClose(): void
}

const ChangeAccount = ({ account, path, onSaved, onClose }: ChangeAccountProps) => {
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
  )
}

const Keys = ({ path, keys }: { readonly path: string; readonly keys: Loaded<readonly KeyJson[]> }) => {
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
        <h2>{text.keys}</h2>
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
            <KeyTable keys={found} onChanged={onChanged} onChange={id => (changedId.value = id)} />
          )
        }
      </WhenLoaded>
    </div>
  )
}

interface AccountKeysProps {
  readonly keys: readonly KeyJson[]
  onChanged(answer: KeyAnswer): void
  onChange(id: string): void
}

const KeyTable = ({ keys, onChanged, onChange }: AccountKeysProps) => (
  <Table
    caption={text.keys}
    keyOf={key => key.id}
    rows={keys.toReversed()}
    columns={[
      {
        title: texts.keys.name,
        cell: key => (
          <>
            {key.name || key.id}
            <VerifyWishes verify={key.verify} />
          </>
        ),
      },
      { title: texts.keys.key, cell: key => <code>…{key.hint}</code> },
      { title: texts.keys.networks, cell: key => key.networks.join(', ') || texts.all },
      { title: texts.keys.limit, cell: key => (key.dailyCredits === null ? texts.keys.noLimit : formatNumber(key.dailyCredits)) },
      { title: texts.keys.expires, isTime: true, cell: key => formatTime(key.expires, texts.never) },
      { title: texts.keys.state, cell: key => <KeyState state={key.state} /> },
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
