import { emailAddress, personName, roles } from '../../services/accounts/account-fields.ts'
import type { Role } from '../../services/accounts/account-fields.ts'
import type { AccountRow } from '../../store/store.ts'
import { didYouMean } from '../../util/did-you-mean.ts'
import { ApiError } from '../api-errors.ts'
import { createSignInLink } from '../people/one-time-links.ts'
import { accountRefSchema, object, schemaRef, text } from '../response-schemas.ts'
import { firstPersonName, listPeople } from '../people/people.ts'
import type { Person } from '../people/people.ts'
import { addToAccount } from '../people/person-changes.ts'
import { accountId, describeLink, findAccount } from './account-operations.ts'
import { defineOperation } from './operation.ts'
import type { OperationServices } from './operation.ts'
import { bindEmail, confirmationSchema, describeConfirmation, requireFreeEmail } from './people-operations.ts'

/** What the operations return, by the name in the OpenAPI document. */
export const linkSchemas = {
  SignInLink: object({
    account: accountRefSchema,
    person: text,
    link: { type: 'string', description: 'Works once, for a day.' },
    confirmation: confirmationSchema,
  }),
} as const

export const linkOperations = [
  defineOperation({
    name: 'accounts link',
    method: 'post',
    path: '/accounts/{id}/sign-in-links',
    status: 201,
    summary: 'Makes a link that signs a person in to the dashboard, once, within a day; with a role, it adds a person of a new name.',
    input: {
      type: 'object',
      properties: {
        id: accountId,
        person: {
          ...personName,
          default: firstPersonName,
          description: `The name of the person who signs in; \`${firstPersonName}\` if absent.`,
        },
        role: {
          type: 'string',
          enum: roles,
          description: 'Adds a person of this role to the account, unless it has one of the name. Without it, the person must exist.',
        },
        email: {
          ...emailAddress,
          description: 'Where the person can ask for further links, if `portal.smtp` is configured. One person has an address.',
        },
      },
      required: ['id'],
    },
    output: schemaRef('SignInLink'),
    async run({ id: idOrName, person: named, role, email }, services) {
      const url = services.dashboardUrl()
      if (url === undefined) {
        const message = 'the dashboard has no address: set `listen.portal` in gateway.yaml to a host and a port, or `portal.url`'
        throw new ApiError(409, 'no-dashboard', message)
      }
      const account = await findAccount(services, idOrName)
      const address = email?.toLowerCase()
      const person = await findOrAddPerson(services, account, { name: named, role, email: address })
      const confirmation = address === undefined ? null : await bindEmail(services, person, address)
      const { id, name } = account
      return { account: { id, name }, person: named, link: await createSignInLink(services, url, person), confirmation }
    },
    command: {
      positionals: { id: 'NAME' },
      flags: { person: { placeholder: 'PERSON' }, role: { placeholder: 'ROLE' }, email: { placeholder: 'EMAIL' } },
      text: ({ link, confirmation }, { email = '' }) => [...describeLink(link), ...describeConfirmation(confirmation, email)],
    },
  }),
]

interface LinkedPerson extends Pick<Person, 'name'> {
  readonly role: Role | undefined
  /** In lower case. */
  readonly email: string | undefined
}

/** A mistyped name adds nobody: the role of somebody new must be named, but for the first person. Nor does an address that somebody has. Rejects with ApiError. */
const findOrAddPerson = async (
  services: OperationServices,
  { id: account, name: accountName }: AccountRow,
  { name, role, email }: LinkedPerson,
): Promise<Person> => {
  const people = await listPeople(services.store, account)
  const found = people.find(person => person.name === name)
  if (found !== undefined) return found
  const newRole = role ?? (name === firstPersonName ? 'owner' : undefined)
  if (newRole !== undefined)
    return addToAccount(services, { account, name, role: newRole }, async () => {
      if (email !== undefined) await requireFreeEmail(services, email)
    })
  const hint =
    didYouMean(
      name,
      people.map(person => person.name),
    ) ?? 'name a role to add a new person'
  throw new ApiError(404, 'not-found', `account "${accountName}" has no person "${name}"; ${hint}`, 'person')
}
