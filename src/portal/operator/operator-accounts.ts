import { readBalance } from '../../services/account-reports.ts'
import type { Balance } from '../../services/account-reports.ts'
import { deleteAccount, resumeChange } from '../../services/accounts/account-deletion.ts'
import { generateAccountId } from '../../services/accounts/api-key.ts'
import { effectivePlan } from '../../services/accounts/index.ts'
import type { AccountRow } from '../../store/store.ts'
import { isoTime, isoTimeOrNull } from '../../util/dates.ts'
import { didYouMean } from '../../util/did-you-mean.ts'
import { ApiError, invalidField, notFound } from '../api-errors.ts'
import { printablePattern, schemaRef } from '../openapi.ts'
import { createSignInLink } from '../one-time-links.ts'
import { firstPersonName, getOrAddPerson, personNameLabel, personNamePattern, roles } from '../people.ts'
import { defineOperatorRoute } from './operator-route.ts'
import type { OperatorServices } from './operator-route.ts'

const plan = { type: 'string', description: 'One of `plans` in gateway.yaml.' } as const

const credits = {
  type: 'integer',
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description: 'Daily credits of the account in place of those of its plan; 0: those of its plan.',
} as const

const label = {
  type: 'string',
  pattern: printablePattern(200),
  label: 'at most 200 printable characters on one line',
  description: 'Empty: none.',
} as const

const accountJson = (row: AccountRow) => ({
  id: row.id,
  name: row.name,
  plan: row.plan,
  credits: row.credits ?? null,
  label: row.label ?? null,
  suspended: isoTimeOrNull(row.suspended),
  deleteAt: isoTimeOrNull(row.deleteAt),
  created: isoTime(row.created),
})

export type AccountJson = ReturnType<typeof accountJson>

/** With the credits of today. */
export interface AccountWithBalance extends AccountJson {
  readonly balance: Balance
}

/** A part of the accounts, in the order of their names. */
export interface AccountPageJson {
  readonly accounts: readonly AccountJson[]
  /** `after` of the next request; null at the end. */
  readonly next: string | null
}

/** Throws ApiError when there is no such account. */
export const findAccount = async ({ store }: OperatorServices, idOrName = ''): Promise<AccountRow> => {
  const account = await store.account(idOrName)
  if (account === undefined) throw notFound('account')
  return account
}

const checkPlan = ({ plans }: OperatorServices, name: string): string => {
  if (Object.hasOwn(plans, name)) return name
  const hint = didYouMean(name, Object.keys(plans))
  throw invalidField('plan', `has "${name}", which gateway.yaml does not have${hint === undefined ? '' : `; ${hint}`}`)
}

/** `{id}` is an id or a name. */
export const operatorAccountRoutes = [
  defineOperatorRoute({
    method: 'get',
    path: '/accounts',
    summary: 'Accounts in the order of their names.',
    response: schemaRef('AccountPage'),
    query: {
      type: 'object',
      properties: {
        search: { type: 'string', default: '', description: 'A part of the name or the label.' },
        after: { type: 'string', default: '', description: '`next` of the response before.' },
        limit: { type: 'integer', minimum: 1, maximum: 1_000, default: 100, description: 'Most accounts of the response.' },
      },
    },
    async handle({ query }, { queries }): Promise<AccountPageJson> {
      const { accounts, next = null } = await queries.accountPage(query)
      return { accounts: accounts.map(accountJson), next }
    },
  }),
  defineOperatorRoute({
    method: 'post',
    path: '/accounts',
    summary: 'Creates an account.',
    response: schemaRef('Account'),
    body: {
      type: 'object',
      properties: {
        name: {
          type: 'string',
          pattern: '^(?!acc_)[\\w.@-]{1,64}$',
          label: '1 to 64 letters, digits or . _ - @, not starting with acc_',
          description: 'Unique.',
        },
        plan,
        credits,
        label,
      },
      required: ['name', 'plan'],
    },
    status: 201,
    async handle({ body: { name, plan: planName, credits: own = 0, label: text = '' } }, services) {
      const account: AccountRow = {
        id: generateAccountId(),
        name,
        plan: checkPlan(services, planName),
        created: services.clock.now(),
        ...(own > 0 && { credits: own }),
        ...(text !== '' && { label: text }),
      }
      if (!(await services.accounts.addAccount(account))) throw new ApiError(409, 'exists', `account "${name}" already exists`, 'name')
      return accountJson(account)
    },
  }),
  defineOperatorRoute({
    method: 'get',
    path: '/accounts/{id}',
    summary: 'An account, by id or name, with its credits of today.',
    response: schemaRef('AccountWithBalance'),
    async handle({ params }, services): Promise<AccountWithBalance> {
      const account = await findAccount(services, params['id'])
      const limit = effectivePlan(account, services.plans)?.dailyCredits ?? null
      return { ...accountJson(account), balance: await readBalance(services.store, account.id, limit) }
    },
  }),
  defineOperatorRoute({
    method: 'patch',
    path: '/accounts/{id}',
    summary: 'Changes what the body names.',
    response: schemaRef('Account'),
    body: {
      type: 'object',
      properties: {
        plan,
        credits,
        label,
        suspended: { type: 'boolean', description: 'Whether all its keys are refused. False undoes a deletion too.' },
      },
    },
    async handle({ params, body: { plan: planName, credits: own, label: text, suspended } }, services) {
      const { id } = await findAccount(services, params['id'])
      const changed = await services.accounts.changeAccount(id, {
        ...(planName !== undefined && { plan: checkPlan(services, planName) }),
        ...(own !== undefined && { credits: own === 0 ? null : own }),
        ...(text !== undefined && { label: text === '' ? null : text }),
        ...(suspended !== undefined && (suspended ? { suspended: services.clock.now() } : resumeChange)),
      })
      if (changed === undefined) throw notFound('account')
      return accountJson(changed)
    },
  }),
  defineOperatorRoute({
    method: 'post',
    path: '/accounts/{id}/delete',
    summary: 'Suspends the account at once, and removes it with its keys and people after 7 days, unless it is resumed before.',
    response: schemaRef('Account'),
    async handle({ params }, services) {
      const deleted = await deleteAccount(services, await findAccount(services, params['id']))
      if (deleted === undefined) throw notFound('account')
      return accountJson(deleted)
    },
  }),
  defineOperatorRoute({
    method: 'post',
    path: '/accounts/{id}/sign-in-links',
    summary: 'Makes a link that signs a person in to the dashboard, once, within a day. A new name adds the person to the account.',
    body: {
      type: 'object',
      properties: {
        person: {
          type: 'string',
          pattern: personNamePattern,
          label: personNameLabel,
          default: firstPersonName,
          description: 'Who signs in.',
        },
        role: { type: 'string', enum: roles, default: 'owner', description: 'Of a new person.' },
      },
    },
    status: 201,
    response: schemaRef('SignInLink'),
    async handle({ params, body: { person: name, role } }, services) {
      const url = services.dashboardUrl()
      if (url === undefined)
        throw new ApiError(409, 'no-dashboard', 'the gateway has no dashboard: `listen.portal` in gateway.yaml gives it one')
      const { id } = await findAccount(services, params['id'])
      const person = await getOrAddPerson(services.store, services.clock, { account: id, name, role })
      return { person: name, link: await createSignInLink(services, url, person) }
    },
  }),
]
