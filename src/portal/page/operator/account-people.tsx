import { useSignal } from '@preact/signals'
import type { Role } from '../../../services/accounts/account-fields.ts'
import type { PersonJson } from '../../person-json.ts'
import { Badge } from '../components/badge.tsx'
import { RowButton, TextField, WhenLoaded } from '../components/controls.tsx'
import { ConfirmDialog, Dialog } from '../components/dialog.tsx'
import { Form, ShownOnce } from '../components/form.tsx'
import { Table } from '../components/table.tsx'
import { formatTime } from '../format.ts'
import { request, useRequest } from '../request.ts'
import { texts } from '../texts.ts'
import { operatorTexts } from './operator-texts.ts'
import { RoleSelect } from '../components/role-select.tsx'

const text = operatorTexts.people

interface Asked {
  readonly person: PersonJson
  readonly to: 'change' | 'remove' | 'link'
}

/** Who signs in for the account; `path` is that of the account. */
export const People = ({ path, hasDashboard }: { readonly path: string; readonly hasDashboard: boolean }) => {
  const people = useRequest<readonly PersonJson[]>(`${path}/people`)
  const asked = useSignal<Asked | undefined>(undefined)
  const isAdding = useSignal(false)
  const close = (): void => void ([asked.value, isAdding.value] = [undefined, false])
  const { person, to } = asked.value ?? {}
  return (
    <div>
      <div class="section-heading">
        <h2>{text.people}</h2>
        {hasDashboard && (
          <button type="button" class="quiet" onClick={() => (isAdding.value = true)}>
            {text.add}
          </button>
        )}
      </div>
      <WhenLoaded from={people}>
        {found =>
          found.length === 0 ? (
            <p class="lead">{text.none}</p>
          ) : (
            <Table
              caption={text.people}
              keyOf={({ id }) => id}
              rows={found}
              columns={[
                { title: text.name, cell: ({ name }) => name },
                { title: text.role, cell: ({ role }) => role },
                { title: text.email, cell: person => <Email person={person} /> },
                {
                  title: text.actions,
                  cell: person =>
                    person.invitedUntil !== null ? (
                      '–'
                    ) : (
                      <span class="actions">
                        <RowButton label={text.change} of={person.name} onClick={() => (asked.value = { person, to: 'change' })} />
                        {hasDashboard && (
                          <RowButton label={text.link} of={person.name} onClick={() => (asked.value = { person, to: 'link' })} />
                        )}
                        {!isLastOwner(person, found) && (
                          <RowButton label={text.remove} of={person.name} onClick={() => (asked.value = { person, to: 'remove' })} />
                        )}
                      </span>
                    ),
                },
              ]}
            />
          )
        }
      </WhenLoaded>
      {isAdding.value && (
        <Dialog title={text.add} onClose={close}>
          <SignInLink path={path} onMade={people.reload} />
        </Dialog>
      )}
      {person !== undefined && to === 'change' && (
        <Dialog title={`${text.change} ${person.name}`} onClose={close}>
          <ChangePerson
            person={person}
            onChanged={() => {
              close()
              people.reload()
            }}
          />
        </Dialog>
      )}
      {person !== undefined && to === 'link' && (
        <Dialog title={`${text.link}: ${person.name}`} onClose={close}>
          <SignInLink path={path} person={person} onMade={people.reload} />
        </Dialog>
      )}
      {person !== undefined && to === 'remove' && (
        <ConfirmDialog
          title={`${text.remove} ${person.name}`}
          action={text.remove}
          confirm={() => request('DELETE', `/people/${person.id}`).then(people.reload)}
          onClose={close}
        >
          {text.confirmRemove}
        </ConfirmDialog>
      )}
    </div>
  )
}

/** Who stays, unless somebody else becomes an owner. */
const isLastOwner = (person: PersonJson, all: readonly PersonJson[]): boolean =>
  person.role === 'owner' && !all.some(({ id, role, invitedUntil }) => role === 'owner' && invitedUntil === null && id !== person.id)

const Email = ({ person: { email, emailVerified, newEmail, invitedUntil } }: { readonly person: PersonJson }) => (
  <>
    {email ?? '–'}{' '}
    {email !== null && invitedUntil === null && (
      <Badge tone={emailVerified ? 'ok' : 'warn'}>{emailVerified ? text.confirmed : text.notConfirmed}</Badge>
    )}
    {newEmail !== null && (
      <p class="help">
        {text.becomes} {newEmail}
      </p>
    )}
    {invitedUntil !== null && (
      <Badge tone="accent">
        {text.invitedUntil} {formatTime(invitedUntil)}
      </Badge>
    )}
  </>
)

interface EditPersonProps {
  readonly person: PersonJson
  onChanged(): void
}

const ChangePerson = ({ person, onChanged }: EditPersonProps) => {
  const role = useSignal<Role>(person.role)
  const change = async (values: FormData): Promise<void> => {
    const [name, email] = ['name', 'email'].map(field => String(values.get(field)).trim())
    // What is not changed here may just be changed by others.
    await request('PATCH', `/people/${person.id}`, {
      ...(name !== person.name && { name }),
      ...(role.value !== person.role && { role: role.value }),
      ...(email !== '' && email !== (person.email ?? '') && { email }),
    })
    onChanged()
  }
  return (
    <Form title={text.change} heading="none" button={text.save} send={change}>
      {errorOf => (
        <>
          <TextField label={text.name} name="name" required value={person.name} error={errorOf('name')} />
          <RoleSelect role={role} />
          <TextField
            label={text.email}
            name="email"
            type="email"
            help={text.emailHelp}
            value={person.email ?? ''}
            error={errorOf('email')}
          />
        </>
      )}
    </Form>
  )
}

interface SignInLinkProps {
  readonly path: string
  /** Undefined: somebody new, who may see and change nothing unless it is said. */
  readonly person?: PersonJson
  onMade(): void
}

const SignInLink = ({ path, person, onMade }: SignInLinkProps) => {
  const role = useSignal<Role>('viewer')
  const create = async (values: FormData) => {
    const name = person?.name ?? String(values.get('person')).trim()
    const email = String(values.get('email') ?? '').trim()
    const made = await request<{ readonly link: string }>('POST', `${path}/sign-in-links`, {
      person: name,
      ...(person === undefined && { role: role.value }),
      ...(email !== '' && { email }),
    })
    onMade()
    return made
  }
  return (
    <Form
      title={person === undefined ? text.add : text.makeLink}
      heading="none"
      send={create}
      done={({ link }) => <ShownOnce help={texts.access.linkHelp} text={link} label={texts.access.link} />}
    >
      {errorOf =>
        person === undefined ? (
          <>
            <TextField label={text.name} name="person" required error={errorOf('person')} />
            <RoleSelect role={role} />
            <TextField label={text.email} name="email" type="email" help={text.emailHelp} error={errorOf('email')} />
          </>
        ) : (
          <p class="help">{text.linkHelp}</p>
        )
      }
    </Form>
  )
}
