import { emailAddress, personName, roles } from '../../services/accounts/account-fields.ts'
import type { AccountRow } from '../../store/store.ts'
import { ApiError } from '../api-errors.ts'
import { listInvitations } from '../people/invitations.ts'
import { mailConfirmation } from '../people/one-time-links.ts'
import { accountRefSchema, listOf, object, schemaRef } from '../response-schemas.ts'
import type { JsonOf } from '../response-schemas.ts'
import { findPerson, findPersonByEmail, listPeople } from '../people/people.ts'
import type { Person } from '../people/people.ts'
import { giveEmail, giveRole, removeFromAccount, rename, requireOtherOwner } from '../people/person-changes.ts'
import { invitationJson, personJson, personProperties } from '../people/person-json.ts'
import type { PersonJson } from '../people/person-json.ts'
import { findAccount, onlyId } from './account-operations.ts'
import { defineOperation, tableOr } from './operation.ts'
import type { OperationServices } from './operation.ts'

export const confirmationSchema = {
  type: ['string', 'null'],
  enum: ['sent', 'failed', null],
  description:
    'What became of the mail that asks to confirm the e-mail address; null where none was to be sent, or the gateway sends no mail.',
} as const

type Confirmation = JsonOf<typeof confirmationSchema>

const operatorPerson = { ...personProperties, account: accountRefSchema } as const

/** What the operations return, by the name in the OpenAPI document. */
export const peopleSchemas = {
  Person: object(operatorPerson),
  ChangedPerson: object({ ...operatorPerson, confirmation: confirmationSchema }),
} as const

type OperatorPersonJson = JsonOf<typeof peopleSchemas.Person>

const id = { type: 'string', description: 'The id of the person, as `people list` shows it.' } as const

const unknownPerson = (personId: string): ApiError =>
  new ApiError(404, 'not-found', `unknown person id "${personId}"; \`people list ACCOUNT\` shows the ids`)

/** Rejects with ApiError. */
const findPersonById = async ({ store }: OperationServices, personId: string) => {
  const person = await findPerson(store, personId)
  const account = person && (await store.account(person.account))
  if (person === undefined || account === undefined) throw unknownPerson(personId)
  return { person, account }
}

const withAccount = (person: PersonJson, { id: accountId, name }: Pick<AccountRow, 'id' | 'name'>): OperatorPersonJson => ({
  ...person,
  account: { id: accountId, name },
})

/** Rejects with ApiError where somebody but the person has the address, which is in lower case. */
export const requireFreeEmail = async ({ store }: Pick<OperationServices, 'store'>, email: string, person?: Person): Promise<void> => {
  const holder = await findPersonByEmail(store, email)
  if (holder !== undefined && holder.id !== person?.id) throw emailTaken(email)
}

const emailTaken = (email: string): ApiError => new ApiError(409, 'exists', `somebody else signs in with ${email}`, 'email')

/** In lower case. The address is the person’s at once, and a mail asks them to confirm it. Rejects with ApiError. */
export const bindEmail = async (services: OperationServices, person: Person, email: string): Promise<Confirmation> => {
  const { store, clock, sendMail } = services
  if (!(await giveEmail(services, person, email))) throw emailTaken(email)
  const [url, bound, account] = [services.dashboardUrl(), await findPerson(store, person.id), await store.account(person.account)]
  if (sendMail === undefined || url === undefined || bound === undefined || bound.isEmailVerified === true) return null
  const confirmation = { person: bound, email, asker: 'The operator' }
  const isSent = await mailConfirmation(
    { store, clock, url, sendMail, brand: services.config.portal.brand },
    account?.name ?? '',
    confirmation,
  )
  return isSent ? 'sent' : 'failed'
}

export const describeConfirmation = (confirmation: Confirmation, email: string): readonly string[] =>
  confirmation === null
    ? []
    : [
        confirmation === 'sent'
          ? `A mail to ${email} asks to confirm the address.`
          : `The mail server did not accept the mail to ${email} that asks to confirm the address.`,
      ]

export const peopleOperations = [
  defineOperation({
    name: 'people list',
    method: 'get',
    path: '/accounts/{id}/people',
    summary: 'The people who sign in for an account, and those who were invited.',
    input: onlyId,
    output: listOf(schemaRef('Person')),
    async run(input, { store, ...services }) {
      const account = await findAccount({ ...services, store }, input.id)
      const people = [
        ...(await listPeople(store, account.id)).map(personJson),
        ...(await listInvitations(store, account.id)).map(invitationJson),
      ]
      // Their ids are random.
      return people.toSorted((a, b) => (a.name < b.name ? -1 : 1)).map(person => withAccount(person, account))
    },
    command: {
      positionals: { id: 'ACCOUNT' },
      text: (people, input, { commandLine }) =>
        tableOr(
          `no people yet: ${commandLine(`accounts link ${input.id}`)}`,
          ['ID', 'NAME', 'ROLE', 'EMAIL', 'STATE'],
          people.map(toCells),
        ),
    },
  }),
  defineOperation({
    name: 'people set',
    method: 'patch',
    path: '/people/{id}',
    summary:
      'Changes the name, the role or the e-mail address of a person. A mail asks them to confirm the address, which is theirs at once.',
    input: {
      type: 'object',
      properties: {
        id,
        name: { ...personName, description: 'Unique in the account.' },
        role: { type: 'string', enum: roles, description: 'What the person may do. The last owner of an account stays one.' },
        email: { ...emailAddress, description: 'Where the person can ask for sign-in links. One person has an address.' },
      },
      required: ['id'],
    },
    output: schemaRef('ChangedPerson'),
    async run({ id: personId, name, role, email }, services) {
      const { person, account } = await findPersonById(services, personId)
      // Where one of them is refused, none is changed.
      if (email !== undefined) await requireFreeEmail(services, email.toLowerCase(), person)
      if (role !== undefined && role !== 'owner') await requireOtherOwner(services.store, person, 'role')
      if (name !== undefined) await rename(services, person, name)
      if (role !== undefined) await giveRole(services, person, role)
      const confirmation = email === undefined ? null : await bindEmail(services, person, email.toLowerCase())
      const { person: changed } = await findPersonById(services, personId)
      return { ...withAccount(personJson(changed), account), confirmation }
    },
    command: {
      positionals: { id: 'ID' },
      flags: { name: { placeholder: 'NAME' }, role: { placeholder: 'ROLE' }, email: { placeholder: 'EMAIL' } },
      text: ({ confirmation, ...changed }) => [
        { fields: { id: changed.id, account: changed.account.name, name: changed.name, role: changed.role, email: changed.email ?? '' } },
        ...describeConfirmation(confirmation, changed.email ?? ''),
      ],
    },
  }),
  defineOperation({
    name: 'people remove',
    method: 'delete',
    path: '/people/{id}',
    summary: 'Removes a person from their account: sessions and tokens end.',
    input: { type: 'object', properties: { id }, required: ['id'] },
    output: schemaRef('Person'),
    async run({ id: personId }, services) {
      const { person, account } = await findPersonById(services, personId)
      await removeFromAccount(services, person, () => requireOtherOwner(services.store, person))
      return withAccount(personJson(person), account)
    },
    command: {
      positionals: { id: 'ID' },
      text: ({ name, account }) => [`removed ${name} from the account ${account.name}`],
    },
  }),
]

const toCells = (person: PersonJson): readonly string[] => [
  ...[person.id, person.name, person.role, person.email ?? ''],
  person.invitedUntil === null
    ? person.email === null || person.emailVerified
      ? 'active'
      : 'address not confirmed'
    : `invited until ${person.invitedUntil}`,
]
