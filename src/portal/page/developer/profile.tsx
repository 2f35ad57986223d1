import { useSignal } from '@preact/signals'
import type { PersonJson } from '../../people/person-json.ts'
import type { IdentityJson } from '../../routes/oidc.ts'
import type { SignInOptions } from '../../routes/session.ts'
import type { SessionListItem } from '../../routes/sessions.ts'
import { Badge } from '../components/badge.tsx'
import { Notice, RowButton, TextField, WhenLoaded } from '../components/controls.tsx'
import { ConfirmDialog, Dialog } from '../components/dialog.tsx'
import { Form } from '../components/form.tsx'
import { Table } from '../components/table.tsx'
import { formatTime } from '../format.ts'
import { request, useRequest } from '../request.ts'
import { signOutBy } from '../session-end.ts'
import { accountTexts } from './account-texts.ts'
import { developerTexts } from './developer-texts.ts'
import { loadSession, session } from './developer-session.ts'
import { EmailAddress } from './email-address.tsx'
import { useRemove } from './use-remove.ts'

const text = accountTexts.profile

export const Profile = () => {
  const person = session.value?.person
  if (person === undefined) return null
  return (
    <>
      <Person person={person} />
      <Sessions />
      <Identities />
      <Leave person={person} />
    </>
  )
}

const Person = ({ person }: { readonly person: PersonJson }) => {
  const canMail = useRequest<SignInOptions>('/sign-in-options').data.value?.email === true
  const save = async (values: FormData): Promise<PersonJson> => {
    const typed = { name: String(values.get('name')).trim(), email: String(values.get('email') ?? '').trim() }
    const changed = await request<PersonJson>('PATCH', `/people/${person.id}`, {
      ...(typed.name !== person.name && { name: typed.name }),
      ...(typed.email !== '' && { email: typed.email }),
    })
    await loadSession()
    return changed
  }
  return (
    <Form
      title={text.you}
      button={developerTexts.keys.save}
      send={save}
      success={({ newEmail }) => (newEmail === null ? text.saved : `${accountTexts.access.confirmationSent} ${newEmail}`)}
    >
      {errorOf => (
        <>
          <p>
            {text.role} <strong>{person.role}</strong>
          </p>
          {(person.email ?? person.newEmail) !== null && (
            <div class="field">
              <span class="lead">{text.email}</span>
              <EmailAddress person={person} canMail={canMail} />
            </div>
          )}
          <TextField label={developerTexts.keys.name} name="name" required value={person.name} error={errorOf('name')} />
          {canMail && (
            <TextField
              label={person.email === null ? accountTexts.access.email : text.newEmail}
              name="email"
              autocomplete="email"
              help={text.newEmailHelp}
              error={errorOf('email')}
            />
          )}
        </>
      )}
    </Form>
  )
}

const Sessions = () => {
  const sessions = useRequest<readonly SessionListItem[]>('/sessions')
  const { error, remove } = useRemove(sessions.reload)
  return (
    <>
      <h2>{text.sessions}</h2>
      <Notice text={error.value} />
      <WhenLoaded from={sessions}>
        {found => (
          <Table
            caption={text.sessions}
            keyOf={each => each.id}
            rows={found}
            columns={[
              {
                title: text.browser,
                cell: each => (
                  <>
                    {each.browser} {each.isCurrent && <Badge isLabel>{text.here}</Badge>}
                  </>
                ),
              },
              { title: text.network, cell: each => each.network ?? '–' },
              { title: text.signedIn, isTime: true, cell: each => formatTime(each.signedIn) },
              { title: text.lastSeen, isTime: true, cell: each => formatTime(each.lastSeen) },
              {
                title: developerTexts.keys.actions,
                cell: each =>
                  !each.isCurrent && (
                    <RowButton label={developerTexts.signOut} of={each.browser} onClick={() => remove(`/sessions/${each.id}`)} />
                  ),
              },
            ]}
          />
        )}
      </WhenLoaded>
      <p>
        <button type="button" class="quiet" onClick={() => void signOutBy(request('DELETE', '/sessions'))}>
          {developerTexts.signOutEverywhere}
        </button>
      </p>
    </>
  )
}

/** Nothing for those who sign in by links. */
const Identities = () => {
  const identities = useRequest<readonly IdentityJson[]>('/identities')
  const { error, remove } = useRemove(identities.reload)
  const found = identities.data.value ?? []
  if (found.length === 0) return <Notice text={identities.error.value} />
  return (
    <>
      <h2>{accountTexts.access.identities}</h2>
      <Notice text={error.value ?? identities.error.value} />
      <Table
        caption={accountTexts.access.identities}
        keyOf={identity => identity.id}
        rows={found}
        columns={[
          { title: accountTexts.access.provider, cell: identity => identity.issuer },
          { title: accountTexts.access.linked, isTime: true, cell: identity => formatTime(identity.linked) },
          {
            title: accountTexts.access.unlink,
            cell: identity => (
              <RowButton label={accountTexts.access.unlink} of={identity.issuer} onClick={() => remove(`/identities/${identity.id}`)} />
            ),
          },
        ]}
      />
    </>
  )
}

const Leave = ({ person }: { readonly person: PersonJson }) => {
  const isAsking = useSignal(false)
  const close = (): void => void (isAsking.value = false)
  return (
    <section class="card">
      <h2>{text.leave}</h2>
      <p>{text.leaveHelp}</p>
      <p>
        <button type="button" class="quiet" onClick={() => (isAsking.value = true)}>
          {text.leave}
        </button>
      </p>
      {isAsking.value &&
        (person.role === 'owner' ? <LeaveAsOwner id={person.id} onClose={close} /> : <ConfirmLeave id={person.id} onClose={close} />)}
    </section>
  )
}

interface LeaveProps {
  readonly id: string
  onClose(): void
}

/** Only an owner brings somebody back: the last one cannot leave. */
const LeaveAsOwner = ({ id, onClose }: LeaveProps) => {
  const people = useRequest<readonly PersonJson[]>('/people').data.value
  if (people === undefined) return null
  const owners = people.filter(({ role, invitedUntil }) => role === 'owner' && invitedUntil === null)
  if (owners.length > 1) return <ConfirmLeave id={id} onClose={onClose} />
  return (
    <Dialog title={text.leave} onClose={onClose}>
      <p>{text.lastOwner}</p>
      <div class="buttons end">
        <button type="button" class="quiet" autofocus onClick={onClose}>
          {developerTexts.close}
        </button>
      </div>
    </Dialog>
  )
}

const ConfirmLeave = ({ id, onClose }: LeaveProps) => {
  const leave = async (): Promise<void> => {
    await request('DELETE', `/people/${id}`)
    await signOutBy(Promise.resolve())
  }
  return (
    <ConfirmDialog title={text.confirmLeave} action={text.leave} confirm={leave} onClose={onClose}>
      {text.leaveEnds}
    </ConfirmDialog>
  )
}
