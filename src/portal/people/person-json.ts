import { roles } from '../../services/accounts/account-fields.ts'
import { isoTime } from '../../util/dates.ts'
import type { Invitation } from './invitations.ts'
import { object, text, textOrNull, timeOrNull } from '../response-schemas.ts'
import type { JsonOf } from '../response-schemas.ts'
import type { Person } from './people.ts'

export const personProperties = {
  id: text,
  name: text,
  role: { type: 'string', enum: roles },
  email: textOrNull,
  emailVerified: { type: 'boolean', description: 'Whether the person has shown that the address is theirs: alerts go to no other.' },
  newEmail: {
    ...textOrNull,
    description: 'The address that takes the place of `email` once the person has confirmed it by the mailed link.',
  },
  invitedUntil: {
    ...timeOrNull,
    description: 'Until then the invitation of the address can be accepted; null: the person is in the account.',
  },
} as const

export const personSchema = object(personProperties)

export type PersonJson = JsonOf<typeof personSchema>

/** A person as the APIs show them. */
export const personJson = ({ id, name, role, email, isEmailVerified = false, newEmail }: Person): PersonJson => ({
  id,
  name,
  role,
  email: email ?? null,
  emailVerified: isEmailVerified,
  newEmail: newEmail ?? null,
  invitedUntil: null,
})

/** Somebody who was invited is no person yet. */
export const invitationJson = ({ id, name, role, email, expires }: Invitation): PersonJson => ({
  id,
  name,
  role,
  email,
  emailVerified: false,
  newEmail: null,
  invitedUntil: isoTime(expires),
})
