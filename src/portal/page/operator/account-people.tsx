import { useSignal } from '@preact/signals'
import type { PersonJson } from '../../people/person-json.ts'
import { Badge } from '../components/badge.tsx'
import { RowButton, WhenLoaded } from '../components/controls.tsx'
import { ConfirmDialog } from '../components/dialog.tsx'
import { Table } from '../components/table.tsx'
import { formatTime } from '../format.ts'
import { request, useRequest } from '../request.ts'
import { accountForms } from './load-account-forms.ts'
import { operatorTexts } from './operator-texts.ts'
import type { PersonFormProps, SignInLinkProps } from './person-forms.tsx'

const text = operatorTexts.people

const ChangePerson = accountForms.component<PersonFormProps>(code => code.ChangePerson, null)
const SignInLink = accountForms.component<SignInLinkProps>(code => code.SignInLink, null)

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
        <h2 id="people">{text.people}</h2>
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
      {isAdding.value && <SignInLink path={path} onMade={people.reload} onClose={close} />}
      {person !== undefined && to === 'change' && <ChangePerson person={person} onChanged={people.reload} onClose={close} />}
      {person !== undefined && to === 'link' && <SignInLink path={path} person={person} onMade={people.reload} onClose={close} />}
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
