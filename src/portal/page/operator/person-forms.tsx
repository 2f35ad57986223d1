import { useSignal } from '@preact/signals'
import type { Role } from '../../../services/accounts/account-fields.ts'
import type { PersonJson } from '../../people/person-json.ts'
import { TextField } from '../components/controls.tsx'
import { Dialog } from '../components/dialog.tsx'
import { Form, ShownOnce } from '../components/form.tsx'
import { RoleSelect } from '../components/role-select.tsx'
import { request } from '../request.ts'
import { settingsTexts } from '../settings-texts.ts'
import { operatorTexts } from './operator-texts.ts'

const text = operatorTexts.people

export interface PersonFormProps {
  readonly person: PersonJson
  onChanged(): void
  onClose(): void
}

export const ChangePerson = ({ person, onChanged, onClose }: PersonFormProps) => {
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
    onClose()
  }
  return (
    <Dialog title={`${text.change} ${person.name}`} onClose={onClose}>
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
    </Dialog>
  )
}

export interface SignInLinkProps {
  readonly path: string
  /** Undefined: somebody new, who may see and change nothing unless it is said. */
  readonly person?: PersonJson
  onMade(): void
  onClose(): void
}

export const SignInLink = ({ path, person, onMade, onClose }: SignInLinkProps) => {
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
    <Dialog title={person === undefined ? text.add : `${text.link}: ${person.name}`} onClose={onClose}>
      <Form
        title={person === undefined ? text.add : text.makeLink}
        heading="none"
        send={create}
        done={({ link }) => <ShownOnce help={settingsTexts.access.linkHelp} text={link} label={settingsTexts.access.link} />}
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
    </Dialog>
  )
}
