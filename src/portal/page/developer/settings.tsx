import { useSignal } from '@preact/signals'
import type { Change } from '../../../services/accounts/change-history.ts'
import type { ChangePageJson } from '../../routes/account-changes.ts'
import type { SessionJson } from '../../routes/session.ts'
import { now } from '../clock.ts'
import { ChangeDetails, describeAction } from '../components/change-details.tsx'
import { CopyText, Select, TextField, WhenLoaded } from '../components/controls.tsx'
import { Dialog } from '../components/dialog.tsx'
import { Downloads } from '../components/downloads.tsx'
import { Form, typedText } from '../components/form.tsx'
import { Pager, Table } from '../components/table.tsx'
import { showToast } from '../components/toast.tsx'
import { Facts } from '../components/facts.tsx'
import { formatMonth, formatSeconds, formatTime } from '../format.ts'
import { get, request, useRequest } from '../request.ts'
import { accountTexts } from './account-texts.ts'
import { developerTexts } from './developer-texts.ts'
import { account, accountNameOf, loadAccount, session } from './developer-session.ts'

const text = accountTexts.settings

/** What is the account's, not a person's. */
export const Settings = () => {
  const current = session.value
  if (!current) return null
  const isOwner = current.person.role === 'owner'
  return (
    <>
      <section class="card" aria-label={text.account}>
        <h2>{text.account}</h2>
        <Facts of={[[text.name, accountNameOf(current)]]}>
          <div class="wide">
            <dt>{text.id}</dt>
            <dd>
              <CopyText text={current.account.id} label={text.id} />
            </dd>
          </div>
        </Facts>
        {isOwner && <RenameAccount />}
      </section>
      {isOwner ? (
        <>
          <AccountChanges />
          <section class="card">
            <DeleteAccount />
          </section>
        </>
      ) : (
        <p class="lead">{text.ownersOnly}</p>
      )}
    </>
  )
}

const RenameAccount = () => {
  const isOpen = useSignal(false)
  const close = (): void => void (isOpen.value = false)
  const current = session.value
  if (!current) return null
  return (
    <>
      <p>
        <button type="button" class="quiet" onClick={() => (isOpen.value = true)}>
          {text.rename}
        </button>
      </p>
      {isOpen.value && (
        <Dialog title={text.rename} onClose={close}>
          <Form
            title={text.rename}
            heading="none"
            button={developerTexts.keys.save}
            onCancel={close}
            send={async values => {
              const renamed = await request<SessionJson['account']>('PATCH', '/account', { name: typedText(values, 'name') })
              session.value = { ...current, account: { ...current.account, name: renamed.name } }
              close()
              showToast(text.renamed)
              await loadAccount()
            }}
          >
            {errorOf => (
              <TextField
                label={text.name}
                name="name"
                value={accountNameOf(current)}
                help={text.renameHelp}
                required
                error={errorOf('name')}
              />
            )}
          </Form>
        </Dialog>
      )}
    </>
  )
}

const changesPerPage = 20

/** The months that changes are kept for, the newest first. */
const shownMonths = 13

/** Who changed what in the account, for its owners. */
const AccountChanges = () => {
  const months = monthsUpTo(now.value)
  const month = useSignal(months[0] ?? '')
  const offset = useSignal(0)
  const page = useRequest<ChangePageJson>(`/changes?month=${month.value}&offset=${offset.value}&limit=${changesPerPage}`)
  const choose = (chosen: string): void => void ([month.value, offset.value] = [chosen, 0])
  return (
    <>
      <h2>{text.changes}</h2>
      <div class="controls">
        <Select
          label={text.month}
          options={months.map(value => ({ value, label: formatMonth(value) }))}
          value={month.value}
          onChange={choose}
        />
        <Downloads
          name={`changes-${month.value}`}
          titles={csvTitles}
          read={async () => {
            const changes = await readAll(month.value)
            return { json: changes, rows: changes.map(toCells) }
          }}
        />
      </div>
      <WhenLoaded from={page}>
        {({ changes, changeCount }) =>
          changes.length === 0 ? (
            <p class="lead">{text.noChanges}</p>
          ) : (
            <>
              <Table
                caption={text.changes}
                keyOf={({ time, action, target }) => `${time} ${action} ${target}`}
                rows={changes}
                columns={[
                  { title: developerTexts.usage.time, isTime: true, cell: change => <Line text={formatSeconds(change.time)} /> },
                  {
                    title: text.by,
                    cell: ({ by }) => <Line text={nameAuthor(by)} />,
                  },
                  { title: text.what, cell: change => <Line text={describeAction(change.action)} /> },
                  { title: text.details, cell: change => <ChangeDetails change={change} /> },
                ]}
              />
              <Pager offset={offset} size={changesPerPage} count={changeCount} />
            </>
          )
        }
      </WhenLoaded>
    </>
  )
}

const nameAuthor = ({ kind, name }: Change['by']): string => (kind === 'person' ? name.replace(/ \(usr_.*/, '') : text.authors[kind])

const csvTitles = ['time', 'by', 'action', 'target', 'before', 'after'] as const

const toCells = ({ time, by, action, target = '', before = {}, after = {} }: Change) => [
  ...[time, nameAuthor(by), action, target],
  ...[before, after].map(members => JSON.stringify(members)),
]

/** As many as the API sends at once. */
const maxChanges = 1_000

const readAll = async (month: string): Promise<readonly Change[]> => {
  const all: Change[] = []
  for (let count = Infinity; all.length < count; ) {
    const { changes, changeCount } = await get<ChangePageJson>(`/changes?month=${month}&offset=${all.length}&limit=${maxChanges}`)
    all.push(...changes)
    count = changes.length === 0 ? 0 : changeCount
  }
  return all
}

const Line = ({ text: shown }: { readonly text: string }) => <span class="one-line">{shown}</span>

const monthsUpTo = (time: number): readonly string[] => {
  const today = new Date(time)
  return Array.from({ length: shownMonths }, (_, i) =>
    new Date(Date.UTC(today.getUTCFullYear(), today.getUTCMonth() - i)).toISOString().slice(0, 7),
  )
}

/** Deletes the account after a week, or undoes that. */
const DeleteAccount = () => {
  const isAsking = useSignal(false)
  const name = session.value ? accountNameOf(session.value) : ''
  const current = account.value
  const close = (): void => void (isAsking.value = false)
  const undelete = async (): Promise<void> => {
    await request('POST', '/account/undelete')
    // The form is gone by then.
    showToast(text.undeleted)
  }
  if (current?.state === 'deleted') {
    return (
      <Form title={text.undelete} heading="h2" send={undelete}>
        {() => (
          <p>
            {text.removedAt} {formatTime(current.deleteAt)}.
          </p>
        )}
      </Form>
    )
  }
  return (
    <>
      <h2>{text.delete}</h2>
      <p>{text.deleteHelp}</p>
      <p>
        <button type="button" class="danger" onClick={() => (isAsking.value = true)}>
          {text.delete}
        </button>
      </p>
      {isAsking.value && (
        <Dialog title={text.delete} onClose={close}>
          <Form
            title={text.delete}
            heading="none"
            isDangerous
            onCancel={close}
            send={async values => {
              await request('POST', '/account/delete', { name: String(values.get('name')).trim() })
              close()
            }}
          >
            {errorOf => (
              <>
                <p>{text.deleteEnds}</p>
                <TextField label={`${text.typeName} ${name}`} name="name" required error={errorOf('name')} />
              </>
            )}
          </Form>
        </Dialog>
      )}
    </>
  )
}
