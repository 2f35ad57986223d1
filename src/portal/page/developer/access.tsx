import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import type { Role } from '../../../services/accounts/account-fields.ts'
import type { IdentityJson } from '../../routes/oidc.ts'
import type { PersonJson } from '../../person-json.ts'
import type { NewPersonJson } from '../../routes/people.ts'
import type { SignInOptions } from '../../routes/session.ts'
import type { NewTokenJson, TokenJson } from '../../routes/tokens.ts'
import { Notice, RowButton, Select, TextField, WhenLoaded, useConfirmation } from '../components/controls.tsx'
import { Form, ShownOnce } from '../components/form.tsx'
import { Table } from '../components/table.tsx'
import { formatTime } from '../format.ts'
import { request, useRequest } from '../request.ts'
import { signOutBy } from '../session-end.ts'
import { texts } from '../texts.ts'
import { session } from './developer-session.ts'

const text = texts.access

export const Access = () => (
  <>
    <People />
    <Identities />
    <Tokens />
    <p>
      <a href="/api/v1/openapi.json">{text.api}</a>
    </p>
    <Leave />
    <button type="button" class="danger" onClick={() => void signOutBy(request('DELETE', '/sessions'))}>
      {texts.signOutEverywhere}
    </button>
  </>
)

/** Removes what has this path, and reads the list again; `error` says why that was refused. */
const useRemove = (reload: () => void) => {
  const error = useSignal<string | undefined>(undefined)
  const removing = useRef(new Set<string>()).current
  const remove = async (path: string): Promise<void> => {
    // To the second click, what the first one removes would not be there.
    if (removing.has(path)) return
    removing.add(path)
    try {
      await request('DELETE', path)
      error.value = undefined
      reload()
    } catch (reason) {
      removing.delete(path)
      error.value = (reason as Error).message // request() throws nothing else
    }
  }
  return { error, remove: (path: string) => void remove(path) }
}

const People = () => {
  const people = useRequest<readonly PersonJson[]>('/people')
  const options = useRequest<SignInOptions>('/sign-in-options').data.value
  const canMail = options?.email === true
  const isOwner = session.value?.person.role === 'owner'
  const { error, remove } = useRemove(people.reload)
  return (
    <>
      <h2>{text.people}</h2>
      <Notice text={error.value} />
      <WhenLoaded from={people}>
        {found => (
          <Table
            caption={text.people}
            keyOf={person => person.id}
            rows={found}
            columns={[
              { title: texts.keys.name, cell: person => person.name },
              { title: text.role, cell: person => person.role },
              { title: text.email, cell: person => <EmailAddress person={person} canMail={isOwner && canMail} /> },
              {
                title: text.remove,
                cell: person =>
                  isOwner && person.id !== session.value?.person.id ? (
                    <RowButton
                      label={person.invitedUntil === null ? text.remove : text.withdraw}
                      of={person.name}
                      onClick={() => remove(`/people/${person.id}`)}
                    />
                  ) : (
                    '–'
                  ),
              },
            ]}
          />
        )}
      </WhenLoaded>
      {isOwner && <AddPerson canInvite={canMail || typeof options?.provider === 'string'} onAdded={people.reload} />}
    </>
  )
}

const EmailAddress = ({
  person: { id, email, emailVerified, invitedUntil },
  canMail,
}: {
  readonly person: PersonJson
  readonly canMail: boolean
}) => {
  const outcome = useSignal('')
  if (email === null || emailVerified) return <>{email ?? '–'}</>
  const mail =
    invitedUntil === null
      ? { path: 'email-confirmation', state: text.notConfirmed, label: text.confirmAgain, sent: text.confirmationSent }
      : {
          ...{ path: 'invitation', state: `${text.invited} ${formatTime(invitedUntil)}` },
          ...{ label: text.inviteAgain, sent: text.invitationSent },
        }
  const send = () =>
    request('POST', `/people/${id}/${mail.path}`).then(
      () => (outcome.value = `${mail.sent} ${email}`),
      (reason: Error) => (outcome.value = reason.message),
    )
  return (
    <>
      {email} ({mail.state}){' '}
      {canMail && (
        <button type="button" class="quiet" aria-label={`${mail.label}: ${email}`} onClick={() => void send()}>
          {mail.label}
        </button>
      )}
      <span role="status">{outcome.value}</span>
    </>
  )
}

const AddPerson = ({ canInvite, onAdded }: { readonly canInvite: boolean; onAdded(): void }) => {
  const role = useSignal<Role>('developer')
  const send = async (values: FormData) => {
    const email = String(values.get('email') ?? '').trim()
    const person = { name: values.get('name'), role: role.value, ...(email !== '' && { email }) }
    const added = await request<NewPersonJson>('POST', '/people', person)
    onAdded()
    return added
  }
  return (
    <Form
      title={text.addPerson}
      heading="h3"
      send={send}
      done={({ person, link }) =>
        link === null ? (
          <p>
            {text.invitedPerson} {person.email}
          </p>
        ) : (
          <ShownOnce help={text.linkHelp} text={link} label={text.link} />
        )
      }
    >
      {errorOf => (
        <>
          <TextField label={texts.keys.name} name="name" required error={errorOf('name')} />
          {canInvite && <TextField label={text.email} name="email" help={text.emailHelp} error={errorOf('email')} />}
          <Select
            label={text.role}
            options={['viewer', 'developer', 'owner']}
            value={role.value}
            onChange={value => (role.value = value)}
          />
        </>
      )}
    </Form>
  )
}

/** Asked for twice: only an owner brings somebody back. */
const Leave = () => {
  const leaving = useConfirmation()
  const error = useSignal<string | undefined>(undefined)
  const leave = async (): Promise<void> => {
    try {
      await request('DELETE', `/people/${session.value?.person.id}`)
      void signOutBy(Promise.resolve())
    } catch (reason) {
      error.value = (reason as Error).message // request() throws nothing else
      leaving.cancel()
    }
  }
  return (
    <>
      <Notice text={error.value} />
      <p class="actions">
        {leaving.isAsking ? (
          <>
            {text.confirmLeave}
            <button type="button" class="danger" onClick={() => void leave()}>
              {text.leave}
            </button>
            <button type="button" class="quiet" ref={leaving.cancelRef} onClick={leaving.cancel}>
              {texts.cancel}
            </button>
          </>
        ) : (
          <button type="button" class="quiet" ref={leaving.askRef} onClick={leaving.ask}>
            {text.leave}
          </button>
        )}
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
      <h2>{text.identities}</h2>
      <Notice text={error.value ?? identities.error.value} />
      <Table
        caption={text.identities}
        keyOf={identity => identity.id}
        rows={found}
        columns={[
          { title: text.provider, cell: identity => identity.issuer },
          { title: text.linked, isTime: true, cell: identity => formatTime(identity.linked) },
          {
            title: text.unlink,
            cell: identity => <RowButton label={text.unlink} of={identity.issuer} onClick={() => remove(`/identities/${identity.id}`)} />,
          },
        ]}
      />
    </>
  )
}

const Tokens = () => {
  const tokens = useRequest<readonly TokenJson[]>('/tokens')
  const removal = useRemove(tokens.reload)
  const create = async (values: FormData) => {
    const days = String(values.get('days') ?? '')
    const body = { name: String(values.get('name')).trim(), ...(days !== '' && { days: Number(days) }) }
    const created = await request<NewTokenJson>('POST', '/tokens', body)
    tokens.reload()
    return created
  }
  return (
    <>
      <h2>{text.tokens}</h2>
      <p>{text.tokensHelp}</p>
      <Notice text={removal.error.value} />
      <WhenLoaded from={tokens}>
        {found => (found.length === 0 ? <p>{text.noTokens}</p> : <TokenTable tokens={found} remove={removal.remove} />)}
      </WhenLoaded>
      <Form
        title={text.createToken}
        heading="h3"
        send={create}
        done={({ token }) => <ShownOnce help={text.saveToken} text={token} label={text.newToken} />}
      >
        {errorOf => (
          <>
            <TextField label={texts.keys.name} name="name" required error={errorOf('name')} />
            <TextField label={text.days} name="days" type="number" error={errorOf('days')} />
          </>
        )}
      </Form>
    </>
  )
}

const TokenTable = ({ tokens, remove }: { readonly tokens: readonly TokenJson[]; remove(path: string): void }) => (
  <Table
    caption={text.tokens}
    keyOf={token => token.id}
    rows={tokens}
    columns={[
      { title: texts.keys.name, cell: token => token.name },
      { title: texts.keys.key, cell: token => <code>…{token.hint}</code> },
      { title: texts.keys.created, isTime: true, cell: token => formatTime(token.created) },
      { title: text.expires, isTime: true, cell: token => formatTime(token.expires, texts.never) },
      {
        title: text.remove,
        cell: token => <RowButton label={text.remove} of={token.name} onClick={() => remove(`/tokens/${token.id}`)} />,
      },
    ]}
  />
)
