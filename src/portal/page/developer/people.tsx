import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import type { Role } from '../../../services/accounts/account-fields.ts'
import type { PersonJson } from '../../people/person-json.ts'
import type { NewPersonJson, PersonLinkJson } from '../../routes/people.ts'
import type { SignInOptions } from '../../routes/session.ts'
import { Badge } from '../components/badge.tsx'
import { CopyText, Notice, TextField, WhenLoaded } from '../components/controls.tsx'
import { ConfirmDialog, Dialog } from '../components/dialog.tsx'
import { Form, ShownOnce } from '../components/form.tsx'
import { Menu } from '../components/menu.tsx'
import { Table } from '../components/table.tsx'
import { request, useRequest } from '../request.ts'
import { accountTexts } from './account-texts.ts'
import { developerTexts } from './developer-texts.ts'
import { loadSession, session } from './developer-session.ts'
import { EmailAddress } from './email-address.tsx'
import { RoleSelect } from '../components/role-select.tsx'

const text = accountTexts.access

/** What an owner is doing with one of the people. */
interface PersonAction {
  readonly person: PersonJson
  readonly kind: 'change' | 'link' | 'remove'
}

export const People = () => {
  const people = useRequest<readonly PersonJson[]>('/people')
  const options = useRequest<SignInOptions>('/sign-in-options').data.value
  const action = useSignal<PersonAction | undefined>(undefined)
  const canMail = options?.email === true
  const isOwner = session.value?.person.role === 'owner'
  const close = (): void => void (action.value = undefined)
  const start = (kind: PersonAction['kind'], person: PersonJson) => () => void (action.value = { kind, person })
  return (
    <>
      <h2>{text.people}</h2>
      <WhenLoaded from={people}>
        {found => (
          <Table
            caption={text.people}
            keyOf={person => person.id}
            rows={found}
            columns={[
              {
                title: developerTexts.keys.name,
                cell: person => (
                  <>
                    {person.name} {person.id === session.value?.person.id && <Badge isLabel>{text.you}</Badge>}
                  </>
                ),
              },
              { title: text.role, cell: person => person.role },
              { title: text.email, cell: person => <EmailAddress person={person} canMail={isOwner && canMail} /> },
              ...(isOwner
                ? [{ title: developerTexts.keys.actions, cell: (person: PersonJson) => <Actions person={person} start={start} /> }]
                : []),
            ]}
          />
        )}
      </WhenLoaded>
      {action.value?.kind === 'change' && (
        <ChangePerson person={action.value.person} canMail={canMail} onSaved={people.reload} onClose={close} />
      )}
      {action.value?.kind === 'link' && <SignInLink person={action.value.person} onClose={close} />}
      {action.value?.kind === 'remove' && <RemovePerson person={action.value.person} onRemoved={people.reload} onClose={close} />}
      {isOwner && <AddPerson canInvite={canMail || typeof options?.provider === 'string'} onAdded={people.reload} />}
    </>
  )
}

interface ActionsProps {
  readonly person: PersonJson
  start(kind: PersonAction['kind'], person: PersonJson): () => void
}

const Actions = ({ person, start }: ActionsProps) => {
  const isInvited = person.invitedUntil !== null
  const removal = { label: isInvited ? text.withdraw : text.remove, isDangerous: true, onSelect: start('remove', person) }
  const isSelf = person.id === session.value?.person.id
  return (
    <Menu
      label={`${developerTexts.keys.actions}: ${person.name}`}
      items={[
        ...(isInvited
          ? []
          : [
              { label: text.change, onSelect: start('change', person) },
              { label: text.newLink, onSelect: start('link', person) },
            ]),
        ...(isSelf ? [] : [removal]),
      ]}
    />
  )
}

interface PersonDialogProps {
  readonly person: PersonJson
  onClose(): void
}

interface ChangePersonProps extends PersonDialogProps {
  readonly canMail: boolean
  onSaved(): void
}

const ChangePerson = ({ person, canMail, onSaved, onClose }: ChangePersonProps) => {
  // What others change meanwhile is not changed back.
  const before = useRef({ name: person.name, email: person.newEmail ?? person.email ?? '' }).current
  const role = useSignal<Role>(person.role)
  const isSelf = person.id === session.value?.person.id
  const save = async (values: FormData): Promise<void> => {
    const changed = (['name', 'email'] as const).flatMap(field => {
      const typed = String(values.get(field) ?? before[field]).trim()
      return typed === before[field] ? [] : [[field, typed] as const]
    })
    await request('PATCH', `/people/${person.id}`, {
      ...Object.fromEntries(changed),
      ...(role.value !== person.role && { role: role.value }),
    })
    // Who is an owner no longer sees less from now on.
    if (isSelf) await loadSession()
    onSaved()
    onClose()
  }
  const title = `${text.change}: ${person.name}`
  return (
    <Dialog title={title} onClose={onClose}>
      <Form title={title} heading="none" button={developerTexts.keys.save} send={save} onCancel={onClose}>
        {errorOf => (
          <>
            <TextField label={developerTexts.keys.name} name="name" required value={person.name} error={errorOf('name')} />
            {/* The field beside which the last owner is told that they stay one. */}
            <Notice text={errorOf('role')} />
            <RoleSelect role={role} />
            {canMail && (isSelf || !person.emailVerified) && (
              <TextField
                label={text.email}
                name="email"
                type="email"
                value={before.email}
                help={text.newEmailHelp}
                error={errorOf('email')}
              />
            )}
          </>
        )}
      </Form>
    </Dialog>
  )
}

/** Made when it is asked for: a link that nobody uses would be one more to lose. */
const SignInLink = ({ person, onClose }: PersonDialogProps) => (
  <Dialog title={`${text.newLink}: ${person.name}`} onClose={onClose}>
    <Form
      title={text.newLink}
      heading="none"
      send={() => request<PersonLinkJson>('POST', `/people/${person.id}/sign-in-links`)}
      done={({ link, mailedTo }) =>
        link === null ? (
          <p>
            {text.linkMailed} {mailedTo}
          </p>
        ) : (
          <>
            <p>{text.linkHelp}</p>
            <CopyText text={link} label={text.link} />
          </>
        )
      }
    >
      {() => <p>{text.newLinkHelp}</p>}
    </Form>
  </Dialog>
)

const RemovePerson = ({ person, onRemoved, onClose }: PersonDialogProps & { onRemoved(): void }) => {
  const isInvited = person.invitedUntil !== null
  return (
    <ConfirmDialog
      title={`${isInvited ? text.withdraw : text.remove}: ${person.name}`}
      action={isInvited ? text.withdraw : text.remove}
      confirm={() => request('DELETE', `/people/${person.id}`).then(onRemoved)}
      onClose={onClose}
    >
      {isInvited ? text.confirmWithdraw : text.confirmRemove}
    </ConfirmDialog>
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
      isWide
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
          <TextField
            label={developerTexts.keys.name}
            name="name"
            required
            help={canInvite ? undefined : text.linkToPassOn}
            error={errorOf('name')}
          />
          {canInvite && <TextField label={text.email} name="email" help={text.emailHelp} error={errorOf('email')} />}
          <RoleSelect role={role} />
        </>
      )}
    </Form>
  )
}
