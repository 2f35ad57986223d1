import { deleteAccount, mayOwnersResume, undoDeletionChange } from '../../services/accounts/account-deletion.ts'
import { accountName } from '../../services/accounts/account-fields.ts'
import { isoTimeOrNull } from '../../util/dates.ts'
import type { AccountRow } from '../../store/store.ts'
import { ApiError } from '../api-errors.ts'
import { changeFilters, changedDays, checkDays, daysOf } from '../operations/change-operations.ts'
import { accountRefSchema, object, schemaRef, timeOrNull } from '../response-schemas.ts'
import type { ChangePage } from '../queries/page-queries.ts'
import { listVerifiedOwners } from '../people/people.ts'
import type { Person } from '../people/people.ts'
import { deletionText } from '../mail/mail-texts.ts'
import { sendInBackground } from '../mail/mailer.ts'
import { accountOf, accountsAs } from '../portal-services.ts'
import type { PortalServices } from '../portal-services.ts'
import { defineRoute } from '../route.ts'

const deletionSchema = object({ deleteAt: { ...timeOrNull, description: 'When the account is removed; null: it is not.' } })

const deletionJson = ({ deleteAt }: AccountRow) => ({ deleteAt: isoTimeOrNull(deleteAt) })

export interface ChangePageJson extends ChangePage {
  /** YYYY-MM: of the first day. */
  readonly month: string
}

/** What owners do with their account, and see of what was done. */
export const accountChangeRoutes = [
  defineRoute({
    method: 'get',
    path: '/changes',
    operationId: 'listChanges',
    summary: 'The log of changes of the account in a month: who changed what, also the operator.',
    role: 'owner',
    query: { type: 'object', properties: { ...changedDays, ...changeFilters } },
    response: schemaRef('ChangePage'),
    async handle({ person: { account }, query: { month, from, to, ...filters } }, { queries, clock }): Promise<ChangePageJson> {
      checkDays({ from, to }, clock.now())
      const days = daysOf({ month, from, to }, clock.now())
      return { month: days.from.slice(0, 7), ...(await queries.changePage({ ...days, ...filters, account, forOwners: true })) }
    },
  }),
  defineRoute({
    method: 'patch',
    path: '/account',
    summary: 'Gives the account another name. The operator finds it by its former names too, which no other account gets.',
    role: 'owner',
    body: { type: 'object', properties: { name: accountName }, required: ['name'] },
    response: accountRefSchema,
    async handle({ person, body: { name } }, services) {
      const account = await accountOf(services, person.account)
      if (name !== account.name) await renameAccount(services, person, account, name)
      return { id: account.id, name }
    },
  }),
  defineRoute({
    method: 'post',
    path: '/account/delete',
    summary:
      'Refuses calls of the account at once, and removes it with its keys and people after 7 days, unless an owner undoes that before.',
    role: 'owner',
    isRemoval: true,
    body: {
      type: 'object',
      properties: { name: { type: 'string', description: 'The name of the account, in case another one was meant.' } },
      required: ['name'],
    },
    response: deletionSchema,
    async handle({ person, body: { name } }, services) {
      const { store, clock, log } = services
      const account = await accountOf(services, person.account)
      if (name !== account.name) throw new ApiError(400, 'invalid', 'name must be the name of your account', 'name')
      const deleted = await deleteAccount({ store, clock, accounts: accountsAs(services, person) }, account, 'owner')
      if (deleted === undefined) throw gone()
      if (account.deleteAt === undefined) {
        log.info(
          { event: 'account-deleted', account: account.id, person: person.id },
          'account deleted in the dashboard: it is removed later',
        )
        await tellOwners(services, person, deleted)
      }
      return deletionJson(deleted)
    },
  }),
  defineRoute({
    method: 'post',
    path: '/account/undelete',
    summary: 'Undoes the deletion of the account by an owner.',
    role: 'owner',
    response: deletionSchema,
    async handle({ person }, services) {
      const { store } = services
      const account = await accountOf(services, person.account)
      if (account.deleteAt === undefined) return deletionJson(account)
      if (!(await mayOwnersResume(store, account)))
        throw new ApiError(409, 'by-operator', 'the operator has deleted or suspended the account: only they undo that')
      const change = undoDeletionChange(account)
      if (!(await accountsAs(services, person).changeFoundAccount(account, change)))
        throw new ApiError(409, 'by-operator', 'the operator has just changed the account: try again')
      return { deleteAt: null }
    },
  }),
]

/** The operator may know the account by each of them. */
const maxFormerNames = 10

const renameAccount = async (services: PortalServices, person: Person, found: AccountRow, name: string): Promise<void> => {
  const { formerNames = [] } = found
  if (found.declared !== undefined)
    throw new ApiError(409, 'by-operator', 'the operator has written the name of the account in a file: ask them to change it')
  if (formerNames.length >= maxFormerNames && !formerNames.includes(name))
    throw new ApiError(
      409,
      'too-many',
      `the account has had ${maxFormerNames} other names: choose one of them, or ask the operator`,
      'name',
    )
  services.limits.accountNames.attempt(found.id)
  if (!(await accountsAs(services, person).renameAccount(found, name)))
    throw new ApiError(409, 'exists', 'another account has, or had, this name', 'name')
}

const gone = (): ApiError => new ApiError(401, 'not-signed-in', 'the account no longer exists')

/** Somebody may have got hold of the session of one of them. */
const tellOwners = async (services: PortalServices, { name: author }: Person, { id, name, deleteAt }: AccountRow): Promise<void> => {
  const { store, sendMail, url, log, limits, brand } = services
  if (sendMail === undefined) return
  for (const { email } of await listVerifiedOwners(store, id)) {
    if (limits.peopleMails.isReached(id)) return
    limits.peopleMails.record(id)
    const mail = { to: email, ...deletionText(brand, { author, account: name, deleteAt, settingsPage: `${url}/settings` }) }
    sendInBackground(log, sendMail(mail), 'mail about the deletion of an account could not be sent')
  }
}
