import { emailAddress, personName, roles } from '../../services/accounts/account-fields.ts'
import { ApiError } from '../api-errors.ts'
import { createSignInLink } from '../one-time-links.ts'
import { object, schemaRef, text } from '../openapi.ts'
import { firstPersonName, getOrAddPerson, setEmail } from '../people.ts'
import type { Person } from '../people.ts'
import { accountId, describeLink, findAccount } from './account-operations.ts'
import { defineOperation } from './operation.ts'
import type { OperationServices } from './operation.ts'

/** What the operations return, by the name in the OpenAPI document. */
export const linkSchemas = {
  SignInLink: object({
    account: object({ id: text, name: text }),
    person: text,
    link: { type: 'string', description: 'Works once, for a day.' },
  }),
} as const

export const linkOperations = [
  defineOperation({
    name: 'accounts link',
    method: 'post',
    path: '/accounts/{id}/sign-in-links',
    status: 201,
    summary: 'Makes a link that signs a person in to the dashboard, once, within a day. A new name adds the person to the account.',
    input: {
      type: 'object',
      properties: {
        id: accountId,
        person: {
          ...personName,
          default: firstPersonName,
          description: `The name of the person who signs in; \`${firstPersonName}\` if absent. A new name adds a person to the account.`,
        },
        role: { type: 'string', enum: roles, default: 'owner', description: 'The role of a new person; owner if absent.' },
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
      const { id, name } = await findAccount(services, idOrName)
      const person = await getOrAddPerson(services.store, services.clock, { account: id, name: named, role })
      if (email !== undefined && !(await giveEmail(services, person, email.toLowerCase())))
        throw new ApiError(409, 'exists', `somebody else signs in with ${email.toLowerCase()}`, 'email')
      return { account: { id, name }, person: named, link: await createSignInLink(services, url, person) }
    },
    command: {
      positionals: { id: 'NAME' },
      flags: { person: { placeholder: 'PERSON' }, role: { placeholder: 'ROLE' }, email: { placeholder: 'EMAIL' } },
      text: ({ link }) => describeLink(link),
    },
  }),
]

/** False where somebody else has the address. In lower case. */
export const giveEmail = async (
  { store, accounts }: Pick<OperationServices, 'store' | 'accounts'>,
  person: Person,
  email: string,
): Promise<boolean> => {
  const before = person.email ?? null
  if (!(await setEmail(store, person, email))) return false
  if (before !== email)
    await accounts.recordOf(person.account, { action: 'person-changed', target: person.id, before: { email: before }, after: { email } })
  return true
}
