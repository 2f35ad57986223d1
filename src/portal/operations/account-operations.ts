import { readBalance, removedPlanLabel } from '../../services/account-reports.ts'
import { accountCredits, accountLabel, accountName, accountPlan, suspensionReason } from '../../services/accounts/account-fields.ts'
import { deleteAccount, prepareDeletion, resumeChange } from '../../services/accounts/account-deletion.ts'
import { accountState, accountStates } from '../../services/accounts/account-state.ts'
import { generateAccountId, keyIdPrefix } from '../../services/accounts/api-key.ts'
import { effectivePlan } from '../../services/accounts/effective-plan.ts'
import { failedOutcomes } from '../../services/traffic/figures.ts'
import type { AccountChange, AccountRow } from '../../store/store.ts'
import { hourMs, isoTime, isoTimeOrNull } from '../../util/dates.ts'
import { didYouMean, formatAlternatives } from '../../util/did-you-mean.ts'
import { ApiError, invalidField } from '../api-errors.ts'
import { approvalText } from '../mail/mail-texts.ts'
import { createSignInLink, signInLinkHours } from '../people/one-time-links.ts'
import {
  balanceSchema,
  count,
  countOrNull,
  flag,
  listOf,
  numberOrNull,
  object,
  schemaRef,
  text,
  textOrNull,
  time,
  timeOrNull,
} from '../response-schemas.ts'
import type { JsonOf } from '../response-schemas.ts'
import { findInvitationsTo } from '../people/invitations.ts'
import { findPersonByEmail, firstPersonName, getOrAddPerson, listVerifiedOwners } from '../people/people.ts'
import { defineOperation, tableOr } from './operation.ts'
import type { OperationServices } from './operation.ts'

export const accountId = { type: 'string', description: 'The name or the id of the account.' } as const

/** In place of a number: the credits of the plan. */
const planDefaultKeyword = 'plan'

const flags = {
  plan: { placeholder: 'PLAN' },
  credits: { keyword: planDefaultKeyword },
} as const

const accountJson = (row: AccountRow) => ({
  id: row.id,
  name: row.name,
  plan: row.plan,
  credits: row.credits ?? null,
  label: row.label ?? null,
  state: accountState(row),
  suspended: isoTimeOrNull(row.suspended),
  suspensionReason: row.suspensionReason ?? null,
  deleteAt: isoTimeOrNull(row.deleteAt),
  created: isoTime(row.created),
})

export type AccountJson = ReturnType<typeof accountJson>

const account = {
  id: text,
  name: text,
  plan: text,
  credits: countOrNull,
  label: textOrNull,
  state: { type: 'string', enum: accountStates, description: '`unapproved`: made by a sign-up that has not been approved.' },
  suspended: timeOrNull,
  suspensionReason: textOrNull,
  deleteAt: timeOrNull,
  created: time,
} as const

/** What the operations return, by the name in the OpenAPI document. */
export const accountSchemas = {
  Account: object(account),
  NewAccount: object({ ...account, link: { ...textOrNull, description: 'Signs the owner in to the dashboard, once, within a day.' } }),
  AccountPage: object({
    accounts: listOf(object({ ...account, used: { ...count, description: 'Credits of today that counted calls have cost.' } })),
    next: { ...textOrNull, description: '`after` of the next request; null at the end.' },
  }),
  AccountWithBalance: object({
    ...account,
    balance: balanceSchema,
    lastCalls: {
      ...object({
        from: time,
        calls: { ...count, description: 'All calls, failed or not.' },
        failures: listOf(
          object({
            outcome: { ...text, description: 'What came of the calls, as `errors` names it.' },
            byGateway: { ...flag, description: 'By the fault of nodes or of the gateway; false: the callers’ own error.' },
            calls: count,
          }),
        ),
      }),
      description: 'Of this hour and the one before.',
    },
    ofPlan: {
      ...object({
        dailyCredits: { ...count, description: 'Credits a day (UTC).' },
        rate: { ...numberOrNull, description: 'Calls per second.' },
        burst: { ...countOrNull, description: 'Calls at once.' },
      }),
      type: ['object', 'null'],
      description: 'What the plan has; null where gateway.yaml no longer has it.',
    },
  }),
} as const

export type AccountWithBalance = JsonOf<typeof accountSchemas.AccountWithBalance>

export type AccountPageJson = JsonOf<typeof accountSchemas.AccountPage>

/** With the credits of today that its counted calls have cost. */
export type ListedAccount = AccountPageJson['accounts'][number]

type LastCalls = AccountWithBalance['lastCalls']

/** The account with this name or id. Rejects with ApiError. */
export const findAccount = async ({ store }: Pick<OperationServices, 'store'>, idOrName: string): Promise<AccountRow> => {
  const found = await store.account(idOrName)
  if (found !== undefined) return found
  const names = (await store.accounts()).map(({ name }) => name)
  const hint = didYouMean(idOrName, names) ?? '`tollgate accounts list` shows the names'
  throw new ApiError(404, 'not-found', `unknown account "${idOrName}"; ${hint}`)
}

const checkPlan = ({ plans }: OperationServices, name: string): string => {
  if (Object.hasOwn(plans, name)) return name
  throw new ApiError(400, 'invalid', `unknown plan "${name}": expected ${formatAlternatives(Object.keys(plans))}`, 'plan')
}

/** What a change of this account has made of it. Throws ApiError where it was removed meanwhile. */
const changedAccount = ({ name }: AccountRow, changed: AccountRow | undefined): AccountJson => {
  if (changed === undefined) throw new ApiError(404, 'not-found', `account "${name}" no longer exists`)
  return accountJson(changed)
}

const changeKnown = async (services: OperationServices, known: AccountRow, change: AccountChange): Promise<AccountJson> =>
  changedAccount(known, await services.accounts.changeAccount(known.id, change))

/** What an owner has deleted, only the operator resumes from now on. The reason of a suspension before stays unless another is given. */
const suspensionOf = async ({ store, clock }: OperationServices, known: AccountRow, reason?: string): Promise<AccountChange> => {
  if (known.deleteAt !== undefined) await prepareDeletion(store, known, clock.now())
  return { suspended: clock.now(), ...(reason !== undefined && { suspensionReason: reason === '' ? null : reason }) }
}

/** Whoever has signed up is told that the account is approved. */
const resume = async (services: OperationServices, known: AccountRow, change: AccountChange = {}): Promise<AccountJson> => {
  const resumed = await changeKnown(services, known, { ...change, ...resumeChange })
  if (accountState(known) === 'unapproved') await mailApproval(services, known)
  return resumed
}

const mailApproval = async ({ store, sendMail, dashboardUrl, config }: OperationServices, { id, name }: AccountRow): Promise<void> => {
  const url = dashboardUrl()
  if (sendMail === undefined || url === undefined) return
  for (const { email } of await listVerifiedOwners(store, id)) {
    await sendMail({ to: email, ...approvalText(config.portal.brand, name, url) })
  }
}

const lastCallsHours = 2

const readLastCalls = async ({ queries, clock }: OperationServices, { id }: AccountRow): Promise<LastCalls> => {
  const to = Math.floor(clock.now() / hourMs) + 1
  const from = to - lastCallsHours
  const { calls, groups } = await queries.failures({ from, to, account: id, network: undefined })
  const byOutcome = new Map<string, number>()
  for (const group of groups) byOutcome.set(group.outcome, (byOutcome.get(group.outcome) ?? 0) + group.calls)
  const failures = Array.from(byOutcome, ([outcome, count]) => ({ outcome, byGateway: failedOutcomes.has(outcome), calls: count }))
  return {
    from: isoTime(from * hourMs),
    calls,
    failures: failures.sort((a, b) => Number(b.byGateway) - Number(a.byGateway) || b.calls - a.calls),
  }
}

/** Of the key with this id, or of the person with this e-mail address, who may just be invited: one look-up each, however many there are. */
const accountsOf = async (store: OperationServices['store'], search: string): Promise<readonly string[]> => {
  if (search.startsWith(keyIdPrefix)) return [await store.findKeyById(search)].flatMap(found => found?.account.id ?? [])
  if (!search.includes('@')) return []
  const email = search.toLowerCase()
  const [person, invitations] = await Promise.all([findPersonByEmail(store, email), findInvitationsTo(store, email)])
  return [person ?? [], invitations].flat().map(({ account: id }) => id)
}

export const onlyId = { type: 'object', properties: { id: accountId }, required: ['id'] } as const

/** The command of an operation that changes whether an account's keys are accepted. */
const stateCommand = {
  positionals: { id: 'NAME' },
  text: (changed: AccountJson) => [`account ${changed.name}: ${formatState(changed)}`],
} as const

export const accountOperations = [
  defineOperation({
    name: 'accounts add',
    method: 'post',
    path: '/accounts',
    status: 201,
    summary: 'Creates an account.',
    input: {
      type: 'object',
      properties: {
        name: accountName,
        plan: accountPlan,
        credits: accountCredits,
        label: accountLabel,
        link: {
          type: 'boolean',
          default: false,
          description: 'Adds the owner of the account, and makes a link that signs them in to the dashboard, if the gateway has one.',
        },
      },
      required: ['name', 'plan'],
    },
    output: schemaRef('NewAccount'),
    async run({ name, plan: planName, credits: own = 0, label: called = '', link }, services) {
      const row: AccountRow = {
        id: generateAccountId(),
        name,
        plan: checkPlan(services, planName),
        created: services.clock.now(),
        ...(own > 0 && { credits: own }),
        ...(called !== '' && { label: called }),
      }
      if (!(await services.accounts.addAccount(row))) throw new ApiError(409, 'exists', `account "${name}" already exists`, 'name')
      const url = link ? services.dashboardUrl() : undefined
      return { ...accountJson(row), link: url === undefined ? null : await createOwnerLink(services, url, row) }
    },
    command: {
      positionals: { name: 'NAME' },
      flags,
      fixed: { link: true },
      text: added => [
        `added account ${added.name} (${added.id}) on ${describePlan(added)}`,
        ...(added.link === null ? [] : describeLink(added.link)),
      ],
    },
  }),
  defineOperation({
    name: 'accounts list',
    method: 'get',
    path: '/accounts',
    operationId: 'listAccounts',
    summary: 'Accounts by name, or by what they have used today.',
    input: {
      type: 'object',
      properties: {
        search: {
          type: 'string',
          default: '',
          description:
            'A part of the name, a former name or the label, the beginning of the id; or the whole id of a key, or e-mail address of a person.',
        },
        state: {
          type: 'string',
          enum: accountStates,
          description: 'Only accounts of this state; `unapproved` are those of sign-ups that wait for `accounts resume`.',
        },
        sort: {
          type: 'string',
          enum: ['name', 'used'],
          default: 'name',
          description: 'By name, or by the credits of today, the most first.',
        },
        after: { type: 'string', default: '', description: '`next` of the response before.' },
        limit: { type: 'integer', minimum: 1, maximum: 1_000, default: 100, description: 'Most accounts of the response.' },
      },
    },
    output: schemaRef('AccountPage'),
    check({ sort, after }) {
      if (sort === 'used' && !/^\d{0,15}$/.test(after)) throw invalidField('after', 'must be `next` of the response before')
    },
    async run(input, { store, queries }): Promise<AccountPageJson> {
      const { accounts, next = null } = await queries.accountPage({ ...input, also: await accountsOf(store, input.search) })
      return { accounts: accounts.map(({ row, used }) => ({ ...accountJson(row), used })), next }
    },
    command: {
      fixed: { after: '', limit: Infinity },
      json: ({ accounts }) => accounts,
      text: ({ accounts }, { search, state }, { commandLine }) =>
        tableOr(
          state !== undefined
            ? `no accounts are ${state}`
            : search === ''
              ? `no accounts yet: ${commandLine('accounts add NAME --plan PLAN')}`
              : `no accounts with "${search}"`,
          ['NAME', 'PLAN', 'CREDITS', 'USED', 'LABEL', 'ID', 'CREATED', 'STATE'],
          accounts.map(toCells),
        ),
    },
  }),
  defineOperation({
    name: 'accounts show',
    method: 'get',
    path: '/accounts/{id}',
    summary: 'An account, by id or name, with its credits of today, and what came of its last calls.',
    input: onlyId,
    output: schemaRef('AccountWithBalance'),
    async run(input, services): Promise<AccountWithBalance> {
      const found = await findAccount(services, input.id)
      const limit = effectivePlan(found, services.plans)?.dailyCredits ?? null
      const { dailyCredits, rate = null, burst = null } = services.plans[found.plan] ?? {}
      return {
        ...accountJson(found),
        balance: await readBalance(services.store, found.id, limit),
        lastCalls: await readLastCalls(services, found),
        ofPlan: dailyCredits === undefined ? null : { dailyCredits, rate, burst },
      }
    },
    command: {
      positionals: { id: 'NAME' },
      text: ({ balance, lastCalls, ...shown }) => [
        {
          fields: {
            name: shown.name,
            id: shown.id,
            plan: shown.plan,
            credits: shown.credits ?? planDefaultKeyword,
            label: shown.label ?? '',
            created: shown.created,
            state: formatState(shown),
            used: balance.used,
            held: balance.held,
            left: balance.left ?? removedPlanLabel,
            calls: `${lastCalls.calls} since ${lastCalls.from.slice(0, 16)}Z`,
            'gateway errors': formatFailures(lastCalls.failures.filter(({ byGateway }) => byGateway)),
            'caller errors': formatFailures(lastCalls.failures.filter(({ byGateway }) => !byGateway)),
          },
        },
      ],
    },
  }),
  defineOperation({
    name: 'accounts set',
    method: 'patch',
    path: '/accounts/{id}',
    summary: 'Changes the members of an account that are named.',
    input: {
      type: 'object',
      properties: {
        id: accountId,
        plan: accountPlan,
        credits: accountCredits,
        label: accountLabel,
        suspended: { type: 'boolean', description: 'Whether all its keys are refused. False undoes a deletion too.' },
      },
      required: ['id'],
    },
    output: schemaRef('Account'),
    async run({ id: idOrName, plan: planName, credits: own, label: called, suspended }, services) {
      const known = await findAccount(services, idOrName)
      const change = {
        ...(planName !== undefined && { plan: checkPlan(services, planName) }),
        ...(own !== undefined && { credits: own === 0 ? null : own }),
        ...(called !== undefined && { label: called === '' ? null : called }),
      }
      if (suspended === false) return resume(services, known, change)
      return changeKnown(services, known, { ...change, ...(suspended === true && (await suspensionOf(services, known))) })
    },
    command: {
      positionals: { id: 'NAME' },
      flags,
      fixed: { suspended: undefined },
      text(changed, input) {
        const sentences = [
          ...((input.plan ?? input.credits) === undefined ? [] : [`is on ${describePlan(changed)}`]),
          ...(input.label === undefined ? [] : [changed.label === null ? 'has no label' : `has the label "${changed.label}"`]),
        ]
        return [`account ${changed.name} ${sentences.join(' and ')} now`]
      },
    },
  }),
  defineOperation({
    name: 'accounts suspend',
    method: 'post',
    path: '/accounts/{id}/suspend',
    summary: 'Refuses calls with all keys of the account until it is resumed.',
    input: {
      type: 'object',
      properties: { id: accountId, reason: suspensionReason },
      required: ['id'],
    },
    output: schemaRef('Account'),
    async run({ id, reason }, services) {
      const known = await findAccount(services, id)
      return changeKnown(services, known, await suspensionOf(services, known, reason))
    },
    command: stateCommand,
  }),
  defineOperation({
    name: 'accounts resume',
    method: 'post',
    path: '/accounts/{id}/resume',
    summary: 'Accepts calls with the keys of a suspended account again; undoes a deletion, and approves the account of a sign-up.',
    input: onlyId,
    output: schemaRef('Account'),
    run: async (input, services) => resume(services, await findAccount(services, input.id)),
    command: stateCommand,
  }),
  defineOperation({
    name: 'accounts delete',
    method: 'post',
    path: '/accounts/{id}/delete',
    summary: 'Suspends the account at once, and removes it with its keys and people after 7 days, unless it is resumed before.',
    input: onlyId,
    output: schemaRef('Account'),
    async run(input, services) {
      const known = await findAccount(services, input.id)
      return changedAccount(known, await deleteAccount(services, known))
    },
    command: stateCommand,
  }),
]

const createOwnerLink = async (services: OperationServices, url: string, row: AccountRow): Promise<string> => {
  const owner = await getOrAddPerson(services.store, services.clock, { account: row.id, name: firstPersonName, role: 'owner' })
  return createSignInLink(services, url, owner)
}

export const describeLink = (link: string): readonly string[] => [`The dashboard, signed in (once, within ${signInLinkHours} hours):`, link]

const describePlan = (shown: AccountJson): string =>
  `plan ${shown.plan}${shown.credits === null ? '' : `, with ${shown.credits} credits a day of its own`}`

/** `rate 12, params 3`. */
const formatFailures = (failures: LastCalls['failures']): string =>
  failures.map(({ outcome, calls }) => `${outcome} ${calls}`).join(', ') || '0'

const toCells = (shown: ListedAccount): readonly string[] => [
  ...[shown.name, shown.plan, String(shown.credits ?? planDefaultKeyword), String(shown.used), shown.label ?? ''],
  ...[shown.id, shown.created, formatState(shown)],
]

const formatState = ({ state, suspended, suspensionReason: reason, deleteAt }: AccountJson): string => {
  if (state === 'deleted') return `suspended, to be removed at ${deleteAt}`
  if (state === 'active') return state
  return `${state === 'unapproved' ? 'to be approved, signed up' : state} at ${suspended}${reason === null ? '' : `: ${reason}`}`
}
