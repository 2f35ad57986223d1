import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import type { Role } from '../../people.ts'
import type { IdentityJson } from '../../routes/oidc.ts'
import type { NewTokenJson, TokenJson } from '../../routes/people.ts'
import type { PersonJson, SignInOptions } from '../../routes/session.ts'
import { Notice, RowButton, Select, TextField, WhenLoaded } from '../components/controls.tsx'
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
  const canMail = useRequest<SignInOptions>('/sign-in-options').data.value?.email === true
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
              { title: text.email, cell: person => <EmailAddress person={person} canConfirm={isOwner && canMail} /> },
              {
                title: text.remove,
                cell: person =>
                  isOwner && person.id !== session.value?.person.id ? (
                    <RowButton label={text.remove} of={person.name} onClick={() => remove(`/people/${person.id}`)} />
                  ) : (
                    '–'
                  ),
              },
            ]}
          />
        )}
      </WhenLoaded>
      {isOwner && <AddPerson onAdded={people.reload} />}
    </>
  )
}

const EmailAddress = ({
  person: { id, email, emailVerified },
  canConfirm,
}: {
  readonly person: PersonJson
  readonly canConfirm: boolean
}) => {
  const outcome = useSignal('')
  const send = () =>
    request('POST', `/people/${id}/email-confirmation`).then(
      () => (outcome.value = `${text.confirmationSent} ${email}`),
      (reason: Error) => (outcome.value = reason.message),
    )
  if (email === null || emailVerified) return <>{email ?? '–'}</>
  return (
    <>
      {email} ({text.notConfirmed}){' '}
      {canConfirm && (
        <button type="button" class="quiet" aria-label={`${text.confirmAgain}: ${email}`} onClick={() => void send()}>
          {text.confirmAgain}
        </button>
      )}
      <span role="status">{outcome.value}</span>
    </>
  )
}

const AddPerson = ({ onAdded }: { onAdded(): void }) => {
  const role = useSignal<Role>('developer')
  const send = async (values: FormData) => {
    const email = String(values.get('email') ?? '').trim()
    const person = { name: values.get('name'), role: role.value, ...(email !== '' && { email }) }
    const added = await request<{ readonly link: string }>('POST', '/people', person)
    onAdded()
    return added
  }
  return (
    <Form
      title={text.addPerson}
      heading="h3"
      send={send}
      done={({ link }) => <ShownOnce help={text.linkHelp} text={link} label={text.link} />}
    >
      {errorOf => (
        <>
          <TextField label={texts.keys.name} name="name" required error={errorOf('name')} />
          <TextField label={text.email} name="email" help={text.emailHelp} error={errorOf('email')} />
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
