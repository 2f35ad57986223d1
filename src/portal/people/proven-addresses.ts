import { isoTime } from '../../util/dates.ts'
import { ApiError } from '../api-errors.ts'
import { listOf, object, text, textOrNull, time } from '../response-schemas.ts'
import type { JsonOf } from '../response-schemas.ts'
import { acceptInvitation, findInvitationsTo } from './invitations.ts'
import { linkNewIdentity, verifiedPerson } from './oidc-identities.ts'
import type { ProvenAddress } from './one-time-links.ts'
import { findPersonByEmail } from './people.ts'
import type { Person } from './people.ts'
import { personProperties } from './person-json.ts'
import { maySignUp, signUpWithEmail } from './sign-up.ts'
import type { SignUpServices } from './sign-up.ts'

/** What whoever was invited chooses from before they are signed in. */
export const signInChoiceSchema = object({
  token: { type: 'string', description: 'Send it again with what was chosen, to POST /session.' },
  email: text,
  account: { ...textOrNull, description: 'The account that the address has already: nobody joins another one with it.' },
  invitations: listOf(object({ id: text, account: text, inviter: text, role: personProperties.role, expires: time })),
  signUp: { type: 'boolean', description: 'Whether the address may make an account of its own.' },
})

export type SignInChoiceJson = JsonOf<typeof signInChoiceSchema>

type SignInChoice = Omit<SignInChoiceJson, 'token'>

/** Undefined where there is nothing to choose. Rejects with ApiError where an invitation has ended and nothing else is left. */
export const choiceOf = async (services: SignUpServices, address: ProvenAddress): Promise<SignInChoice | undefined> => {
  const { store } = services
  const { email, isInvited = false } = address
  const [person, found] = [await findPersonByEmail(store, email), await findInvitationsTo(store, email)]
  if (!isInvited && (person !== undefined || found.length === 0)) return undefined
  const invitations = await Promise.all(
    found.map(async ({ id, account, inviter, role, expires }) => {
      const { name } = (await store.account(account)) ?? {}
      return name === undefined ? [] : [{ id, account: name, inviter, role, expires: isoTime(expires) }]
    }),
  )
  const signUp = person === undefined && maySignUp(services, address)
  const choice = { email, account: await accountName(services, person), invitations: invitations.flat(), signUp }
  if (person === undefined && !signUp && choice.invitations.length === 0)
    throw new ApiError(401, 'link-invalid', 'the invitation was withdrawn, or has expired')
  return choice
}

const accountName = async ({ store }: SignUpServices, person: Person | undefined): Promise<string | null> =>
  person === undefined ? null : ((await store.account(person.account))?.name ?? null)

/** Signs in with the address: to the account of the invitation, else to that which it has, else to a new one. Rejects with ApiError. */
export const signInWithAddress = async (
  services: SignUpServices,
  address: ProvenAddress,
  { invitation, network }: { readonly invitation?: string | undefined; readonly network: string },
): Promise<Person> => {
  const { store } = services
  const { email, identity } = address
  const person =
    invitation === undefined
      ? ((await findPersonByEmail(store, email)) ?? (await signUpWithEmail(services, address, network)))
      : await acceptInvitation(services, email, invitation)
  if (identity !== undefined) await linkNewIdentity(store, person, identity)
  return verifiedPerson(store, person)
}
