import { ApiError } from '../api-errors.ts'
import { sendInBackground } from '../mail/mailer.ts'
import { confirmEmail, findConfirmation, mailEmailChanged } from '../people/one-time-links.ts'
import type { EmailConfirmation } from '../people/one-time-links.ts'
import { object, schemaRef, text, textOrNull } from '../response-schemas.ts'
import type { JsonOf } from '../response-schemas.ts'
import { accountOf, accountsAs } from '../portal-services.ts'
import type { PortalServices } from '../portal-services.ts'
import { defineRoute } from '../route.ts'
import { linkToken } from './session.ts'

/** What whoever opens the link of a confirmation reads before they confirm. */
export const emailConfirmationSchema = object({
  email: text,
  asker: { type: 'string', description: 'Who has entered the address.' },
  account: { type: 'string', description: 'The name of the account.' },
  person: { type: 'string', description: 'The name of the person whose address it becomes.' },
  role: text,
  previous: { ...textOrNull, description: 'The address that it takes the place of.' },
})

export type EmailConfirmationJson = JsonOf<typeof emailConfirmationSchema>

const body = { type: 'object', properties: { token: linkToken }, required: ['token'] } as const

export const emailConfirmationRoutes = [
  defineRoute({
    method: 'post',
    path: '/email-confirmations/lookup',
    operationId: 'lookUpEmailConfirmation',
    summary: 'What the link that was mailed to an address would confirm. Its token is not used up.',
    role: 'anyone',
    body,
    response: schemaRef('EmailConfirmation'),
    async handle({ body: { token }, callerNetwork }, services): Promise<EmailConfirmationJson> {
      const { person, email, asker } = await useToken(services, callerNetwork, () => findConfirmation(services.store, token))
      const { name: account } = await accountOf(services, person.account)
      const previous = person.email === email ? null : (person.email ?? null)
      return { email, asker, account, person: person.name, role: person.role, previous }
    },
  }),
  defineRoute({
    method: 'post',
    path: '/email-confirmations',
    operationId: 'confirmEmail',
    summary:
      'Confirms an e-mail address with the token of the link that was mailed there, which is used up by that. It takes the place of another.',
    role: 'anyone',
    body,
    response: { type: 'object', properties: { email: { type: 'string' } } },
    async handle({ body: { token }, callerNetwork }, services) {
      const { isTaken, ...confirmed } = await useToken(services, callerNetwork, () => confirmEmail(services.store, token))
      const { person, email } = confirmed
      if (isTaken) throw new ApiError(409, 'has-account', `${email} signs in to another account here: leave that account first`)
      if (person.email !== email) await reportChange(services, confirmed)
      return { email }
    },
  }),
]

/** Rejects with ApiError where the token is none. */
const useToken = async <T>({ limits }: PortalServices, network: string, use: () => Promise<T | undefined>): Promise<T> =>
  (await limits.failedSignIns.attemptToFind(network, use)) ??
  Promise.reject(new ApiError(404, 'link-invalid', 'the link is used up or has expired, or the address was changed'))

const reportChange = async (services: PortalServices, confirmed: EmailConfirmation): Promise<void> => {
  const { person, email } = confirmed
  const change = { before: { email: person.email ?? null }, after: { email } }
  await accountsAs(services, person).recordOf(person.account, { action: 'person-changed', target: person.id, ...change })
  if (person.isEmailVerified !== true) return
  const { name } = await accountOf(services, person.account)
  sendInBackground(services.log, mailEmailChanged(services, name, confirmed), 'mail to the former address of a person could not be sent')
}
