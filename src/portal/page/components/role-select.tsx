import type { Signal } from '@preact/signals'
import type { Role } from '../../../services/accounts/account-fields.ts'
import { settingsTexts } from '../settings-texts.ts'
import { Select } from './controls.tsx'

const text = settingsTexts.access

const roles = ['viewer', 'developer', 'owner'] as const satisfies readonly Role[]

/** The role of a person, and what the person can do with it. */
export const RoleSelect = ({ role }: { readonly role: Signal<Role> }) => (
  <Select label={text.role} help={text.roleHelp[role.value]} options={roles} value={role.value} onChange={value => (role.value = value)} />
)
