import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { stringify } from 'yaml'
import type { Infer, ObjectSchema } from '../plugin/options-schema.ts'
import type { Path } from '../util/json.ts'
import {
  accountCredits,
  accountLabel,
  accountName,
  accountPlan,
  emailAddress,
  personName,
  roles,
} from '../services/accounts/account-fields.ts'
import { didYouMean } from '../util/did-you-mean.ts'
import { isDirectory } from '../util/files.ts'
import { isJsonObject } from '../util/json.ts'
import { checkOptions } from './check-options.ts'
import { directoryError, displayPath, fileNamesIn } from './config-files.ts'
import { unsetVariableProblems } from './optional-variables.ts'
import type { Problem } from './problem.ts'
import { formatOptionPath } from './schema.ts'
import type { Env } from './variables.ts'
import { readYamlFile } from './yaml-file.ts'
import type { YamlFile } from './yaml-file.ts'

const personSchema = {
  type: 'object',
  properties: {
    role: { type: 'string', enum: roles, description: 'What the person may do in the dashboard.', examples: ['owner'] },
    email: {
      ...emailAddress,
      description:
        'Where the person asks for links to sign in, in place of an address before; one person has an address. Without it, the address stays as it is.',
      examples: ['dan@example.org'],
    },
  },
  required: ['role'],
} as const satisfies ObjectSchema

const accountSchema = {
  type: 'object',
  properties: {
    plan: { ...accountPlan, examples: ['core'] },
    credits: {
      ...accountCredits,
      default: 0,
      description: 'Daily credits of the account in place of those of its plan. Without it, or with 0: those of its plan.',
    },
    label: { ...accountLabel, default: '', description: 'What you call the account besides its name, such as a customer number.' },
    suspended: {
      type: 'boolean',
      description:
        'Whether all keys of the account are refused; false also undoes a deletion. Without it, the account stays as it is, but for what an ' +
        'apply has suspended.',
      examples: [true],
    },
    people: {
      type: 'object',
      description: 'People by name, who sign in to the dashboard. Without it, the people stay as they are.',
      entries: { noun: 'person', example: 'owner: { role: owner, email: dan@example.org }', name: personName },
      additionalProperties: personSchema,
    },
  },
  required: ['plan'],
} as const satisfies ObjectSchema

/** A file of `tollgate accounts apply`. */
export const accountsSchema = {
  type: 'object',
  description: 'Accounts that `tollgate accounts apply` brings into the store. Keys are never in it.',
  properties: {
    accounts: {
      type: 'object',
      description: 'Accounts by name.',
      entries: { noun: 'account', example: 'acme: { plan: core }', name: accountName },
      additionalProperties: accountSchema,
    },
  },
  required: ['accounts'],
} as const satisfies ObjectSchema

type AccountOptions = Infer<typeof accountSchema>
export type DeclaredPerson = Infer<typeof personSchema>

/** An account as a file has it. */
export interface DeclaredAccount extends Omit<AccountOptions, 'people'> {
  readonly name: string
  /** By name, with addresses in lower case. */
  readonly people?: Readonly<Record<string, DeclaredPerson>>
  /** Placed at a value of the account, or at the account. */
  problemAt(inside: Path, message: string, hint?: string): Problem
}

interface AccountFiles {
  /** In the order of their names. */
  readonly accounts: readonly DeclaredAccount[]
  readonly problems: readonly Problem[]
}

/** Reads a file, or all files of a folder. With problems, what they say is not complete. */
export const readAccountFiles = (path: string, env: Env, plans: readonly string[]): AccountFiles => {
  const { files, problems } = isDirectory(path) ? listFiles(path) : { files: [path], problems: [] }
  const sources = files.map(file => readYamlFile(file, env))
  const read = sources.map(source => readAccounts(source, plans))
  return {
    accounts: read.flatMap(({ accounts }) => accounts).sort((a, b) => (a.name < b.name ? -1 : 1)),
    problems: [...problems, ...read.flatMap(file => file.problems), ...duplicateProblems(sources)],
  }
}

/** A file that is left out would be missed later, or its accounts be removed: each is read, or a problem. */
const listFiles = (dir: string): { readonly files: readonly string[]; readonly problems: readonly Problem[] } => {
  const unreadable = directoryError(dir)
  if (unreadable !== undefined) return { files: [], problems: [problemOfPath(dir, unreadable)] }
  const names = fileNamesIn(dir).filter(name => !name.startsWith('.'))
  const files = names.filter(name => name.endsWith('.yaml')).map(name => join(dir, name))
  const problems = names.flatMap(name => {
    const path = join(dir, name)
    if (existsSync(path) && isDirectory(path))
      return [problemOfPath(path, 'a folder in a folder of accounts is not read', 'move its files up, or apply it by itself')]
    return name.endsWith('.yml') ? [problemOfPath(path, 'the name of a file of accounts must end with .yaml', 'rename it')] : []
  })
  const isEmpty = files.length === 0 && problems.length === 0
  return { files, problems: isEmpty ? [problemOfPath(dir, 'the folder contains no file that ends with .yaml')] : problems }
}

const problemOfPath = (path: string, message: string, hint?: string): Problem => ({
  file: displayPath(path),
  line: 1,
  column: 1,
  message,
  ...(hint !== undefined && { hint }),
})

const readAccounts = (source: YamlFile, plans: readonly string[]): AccountFiles => {
  if (source.value === undefined) return { accounts: [], problems: source.problems }
  const { options, problems } = checkOptions({ source, namePath: [], owner: '', schema: accountsSchema })
  return {
    accounts: Object.entries(options?.accounts ?? {}).map(([name, account]) => toDeclaredAccount(source, name, account)),
    problems: [...source.problems, ...problems, ...unknownPlanProblems(source, plans), ...unsetVariableProblems(source)],
  }
}

const toDeclaredAccount = (source: YamlFile, name: string, { people, ...account }: AccountOptions): DeclaredAccount => ({
  ...account,
  name,
  ...(people !== undefined && { people: mapValues(people, person => ({ ...person, ...lowerCaseEmail(person) })) }),
  problemAt: (inside, message, hint) => source.problemAt(['accounts', name, ...inside], message, hint),
})

const mapValues = <T>(values: Readonly<Record<string, T>>, change: (value: T) => T): Readonly<Record<string, T>> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, change(value)]))

const lowerCaseEmail = ({ email }: DeclaredPerson) => email !== undefined && { email: email.toLowerCase() }

// The rules that no schema can express read the files themselves, so that all problems show in one run.

const entriesAt = (source: YamlFile, path: Path): readonly Path[] => {
  const value = source.valueAt(path)
  return isJsonObject(value) ? Object.keys(value).map(name => [...path, name]) : []
}

const unknownPlanProblems = (source: YamlFile, plans: readonly string[]): readonly Problem[] =>
  entriesAt(source, ['accounts']).flatMap(account => {
    const path = [...account, 'plan']
    const plan = source.textAt(path)
    if (plan === undefined || plans.includes(plan)) return []
    const message = `${formatOptionPath('', path)} must be one of plans in gateway.yaml: ${plans.join(', ')}; not ${source.describeValueAt(path)}`
    return [source.problemAt(path, message, didYouMean(plan, plans))]
  })

/** An account in two files, and an address of two people. */
const duplicateProblems = (sources: readonly YamlFile[]): readonly Problem[] => {
  const accounts = new Map<string, YamlFile>()
  const people = new Map<string, string>()
  return sources.flatMap(source =>
    entriesAt(source, ['accounts']).flatMap(account => {
      const name = String(account.at(-1))
      const other = accounts.get(name)
      accounts.set(name, source)
      return [
        ...(other === undefined ? [] : [source.problemAtKey(account, `the account \`${name}\` is also in ${other.file}`)]),
        ...entriesAt(source, [...account, 'people']).flatMap(person => duplicateEmailProblems(source, person, people)),
      ]
    }),
  )
}

const duplicateEmailProblems = (source: YamlFile, person: Path, people: Map<string, string>): readonly Problem[] => {
  const path = [...person, 'email']
  const email = source.textAt(path)?.toLowerCase()
  const other = email === undefined ? undefined : people.get(email)
  if (email !== undefined) people.set(email, formatOptionPath('', person))
  if (other === undefined) return []
  return [source.problemAt(path, `${formatOptionPath('', path)} is also the address of ${other}`, 'an address belongs to one person')]
}

/** An account for a file: what is absent is not written. */
export type ExportedAccount = Pick<DeclaredAccount, 'name' | 'plan'> & Partial<Omit<DeclaredAccount, 'problemAt'>>

/** A file of these accounts, of which `comments` are the first lines. */
export const formatAccounts = (accounts: readonly ExportedAccount[], comments: readonly string[]): string => {
  const rows = accounts.map(({ name, people, ...account }) => {
    const members = { ...account, ...(people !== undefined && { people: new Map(Object.entries(people)) }) }
    return [name, members] as const
  })
  const yaml = stringify(escapeVariables({ accounts: new Map(rows) }), { lineWidth: 0 })
  return comments.map(comment => `# ${comment}\n`).join('') + yaml
}

/** A copy of maps and texts that stays as it is when variables are replaced. Names have no dollar sign. */
const escapeVariables = (value: unknown): unknown => {
  if (typeof value === 'string') return /\$[${]/.test(value) ? value.replaceAll('$', '$$$$') : value
  if (value instanceof Map) return new Map(Array.from(value, ([name, item]: [unknown, unknown]) => [name, escapeVariables(item)]))
  return isJsonObject(value) ? new Map(Object.entries(value).map(([name, item]) => [name, escapeVariables(item)])) : value
}
