import type { GatewayConfig } from '../config/types.ts'
import { version } from '../core/version.ts'
import type { NumberSchema, Schema, StringSchema } from '../plugin/options-schema.ts'
import { ApiError } from '../portal/api-errors.ts'
import type { FlagForm, Operation, OperationServices, TextBlock } from '../portal/operations/operation.ts'
import { printablePattern } from '../util/printable-text.ts'
import type { IncidentsJson } from '../portal/operations/incident-schemas.ts'
import { openMailer } from '../portal/mail/mailer.ts'
import { createUsageQueries } from '../portal/queries/usage-queries.ts'
import type { NetworkStatus } from '../server/network-status.ts'
import { schemeOf, urlOf } from '../server/listener-urls.ts'
import { checkInput } from '../portal/check-input.ts'
import { systemClock } from '../services/clock.ts'
import type { LogLevel } from '../services/log-settings.ts'
import { didYouMean, formatAlternatives } from '../util/did-you-mean.ts'
import type { Style } from '../util/style.ts'
import { configArgument, formatHint, parsePositiveInteger, readArguments, readList, runSubcommand, commonOptions } from './args.ts'
import type { Subcommand } from './args.ts'
import { CommandError, UsageError, commandSummaries, formatOption, programName } from './command.ts'
import type { Command, CommandName, CommandOption, Terminal } from './command.ts'
import { withStoreContext } from './store-context.ts'
import type { StoreContext } from './store-context.ts'
import { formatFields, formatTable, quoteCsvField } from './table-output.ts'

/** A subcommand that the API does not have. */
interface OwnSubcommand extends Pick<Command, 'options'>, Partial<Pick<Command, 'positionals'>> {
  /** Its line of the usage. */
  readonly usage: string
  readonly run: Subcommand
}

/** The command that consists of operations: of the one with its name, and of subcommands. */
export const createOperationCommand = (
  name: CommandName,
  operations: readonly Operation[],
  examples: Command['examples'],
  own: Readonly<Record<string, OwnSubcommand>> = {},
): Command => {
  const whole = operations.find(operation => operation.name === name)
  const subcommands: Readonly<Record<string, Subcommand>> = Object.fromEntries([
    ...operations.filter(each => each !== whole).map(each => [each.name.slice(name.length + 1), createSubcommand(each)] as const),
    ...Object.entries(own).map(([subcommand, { run }]) => [subcommand, run] as const),
  ])
  const runWhole = whole && createSubcommand(whole)
  return {
    name,
    summary: commandSummaries[name],
    usage: [...operations.map(formatForm), ...Object.values(own).map(({ usage }) => usage)],
    positionals: Object.assign(
      {},
      ...operations.map(describePositionals),
      ...Object.values(own).map(({ positionals }) => positionals),
    ) as Command['positionals'],
    options: Object.assign({}, ...operations.map(optionsOf), ...Object.values(own).map(({ options }) => options)) as Command['options'],
    examples,
    run: async (args, terminal) =>
      runWhole !== undefined && !Object.hasOwn(subcommands, args[0] ?? '')
        ? runWhole(args, terminal)
        : runSubcommand(subcommands, args, terminal),
  }
}

/** An option, and the member of the input that it gives. */
interface Flag extends FlagForm {
  readonly name: string
  readonly member: string
  readonly schema: Schema
  readonly isRequired: boolean
}

const flagsOf = ({ input: { properties = {}, required = [] }, command: { positionals = {}, flags = {}, fixed = {} } }: Operation) =>
  Object.entries(properties)
    .filter(([member]) => !(member in positionals || member in fixed))
    .map(([member, schema]): Flag => {
      const form = (flags as Readonly<Record<string, FlagForm>>)[member]
      return { name: member, placeholder: defaultPlaceholder(schema), ...form, member, schema, isRequired: required.includes(member) }
    })

const defaultPlaceholder = (schema: Schema): string => {
  if (schema.type === 'integer' || schema.type === 'number') return 'N'
  if (schema.type === 'boolean') return 'on|off'
  if (schema.type === 'array') return schema.items.type === 'integer' ? 'N,N' : 'A,B'
  return schema.type === 'string' && schema.enum !== undefined ? schema.enum.join('|') : 'TEXT'
}

const optionsOf = (operation: Operation): Readonly<Record<string, CommandOption>> => ({
  ...Object.fromEntries(flagsOf(operation).map(flag => [flag.name, toOption(flag)])),
  ...(operation.command.csv && { csv: csvOption }),
  ...commonOptions,
})

const csvOption = { type: 'boolean', default: false, description: 'Prints CSV.' } as const satisfies CommandOption

const toOption = ({ placeholder = '', keyword, schema, isSwitch = false }: Flag): CommandOption => {
  if (isSwitch) return { type: 'boolean', default: false, description: schema.description ?? '' }
  return {
    type: 'string',
    placeholder,
    description: schema.description + (keyword === undefined || schema.type === 'string' ? '' : ` ${describeKeyword(keyword, schema)}`),
  }
}

const describeKeyword = (keyword: string, { type }: Schema): string =>
  `\`${keyword}\` stands for ${type === 'array' ? 'an empty list' : '0'}.`

const positionalsOf = ({ command: { positionals = {} } }: Operation): readonly (readonly [member: string, name: string])[] =>
  Object.entries(positionals as Readonly<Record<string, string>>)

const describePositionals = (operation: Operation): Readonly<Record<string, string>> =>
  Object.fromEntries(positionalsOf(operation).map(([member, name]) => [name, operation.input.properties?.[member]?.description ?? '']))

/** Its line of the usage. */
const formatForm = (operation: Operation): string => {
  const flags = flagsOf(operation)
  const isChange = operation.method === 'patch'
  const format = ({ placeholder = '', keyword, name, isSwitch }: Flag): string =>
    isSwitch
      ? `--${name}`
      : formatOption(name, { placeholder: keyword === undefined || !isChange ? placeholder : `${placeholder}|${keyword}` } as CommandOption)
  const formatWithParts = (flag: Flag): string =>
    [format(flag), ...flags.filter(({ of }) => of === flag.name).map(part => `[${format(part)}]`)].join(' ')
  return [
    operation.name,
    ...positionalsOf(operation).map(([, name]) => name),
    ...flags.filter(({ of }) => of === undefined).map(flag => (flag.isRequired ? formatWithParts(flag) : `[${formatWithParts(flag)}]`)),
    operation.command.csv === undefined ? '[--json]' : '[--json|--csv]',
    '[--config DIR]',
  ].join(' ')
}

const createSubcommand =
  (operation: Operation): Subcommand =>
  (args, terminal) => {
    const { command } = operation
    const names = positionalsOf(operation).map(([, name]) => name)
    const { values, positionals } = readArguments(args, names, optionsOf(operation))
    const { config, json, csv, ...texts } = values as { readonly [flag: string]: unknown } & OperationFlags
    if (json && csv === true) throw new UsageError('--json and --csv cannot be combined')
    const input = readInput(operation, positionals, texts as Readonly<Record<string, string | boolean | undefined>>)
    return withStoreContext(config, terminal, async context => {
      const output = await operation.run(input, servicesOf(context, config, terminal)).catch(throwAsCommandError)
      const failure = command.failure?.(output)
      if (json) terminal.out(JSON.stringify(command.json === undefined ? output : command.json(output)))
      else if (failure === undefined)
        for (const line of formatOutput(operation, { output, input, config, csv: csv === true }, terminal)) terminal.out(line)
      if (failure !== undefined) throw new CommandError(failure)
    })
  }

/** What no member of the input is. */
interface OperationFlags {
  readonly config: string
  readonly json: boolean
  readonly csv?: boolean
}

interface OperationResult extends Pick<OperationFlags, 'config'> {
  readonly csv: boolean
  readonly input: Parameters<Operation['run']>[0]
  readonly output: unknown
}

const formatOutput = ({ command }: Operation, { input, output, config, csv }: OperationResult, terminal: Terminal): readonly string[] => {
  const table = csv ? command.csv?.(output) : undefined
  if (table !== undefined) return [table.columns, ...table.rows].map(cells => cells.map(quoteCsvField).join(','))
  const commandLine = (words: string): string => `${programName(terminal)} ${words}${configArgument(config)}`
  return command.text(output, input, { commandLine, now: systemClock.now() }).flatMap(block => formatBlock(block, terminal.styleOut))
}

const formatBlock = (block: TextBlock, style?: Style): readonly string[] => {
  if (typeof block === 'string') return [block]
  return 'fields' in block ? formatFields(block.fields, style) : formatTable(block.columns, block.rows, style)
}

const servicesOf = ({ store, accounts, config }: StoreContext, dir: string, { err, env }: Terminal): OperationServices => ({
  store,
  accounts,
  config,
  version,
  plans: config.plans,
  requestLog: config.requestLog,
  queries: createUsageQueries(store, systemClock),
  dashboardUrl: () => dashboardUrlOf(config),
  networkNames: async () => (await import('../config/load.ts')).networkNames(dir),
  async nodes() {
    const networks = await (await import('./gateway-status.ts')).fetchNetworkStatuses(config)
    return networks === undefined ? { networks: await configuredNetworks(dir, env), isLive: false } : { networks, isLive: true }
  },
  async readLogLevel() {
    return ((await (await import('./gateway-status.ts')).requestWithToken(config, '/log-level')) as { readonly level: LogLevel }).level // of the same version
  },
  async setLogLevel(level) {
    await (await import('./gateway-status.ts')).requestWithToken(config, '/log-level', { method: 'PUT', body: { level } })
  },
  async readIncidents(network) {
    const query = network === undefined ? '' : `?${new URLSearchParams({ network })}`
    const { requestWithToken } = await import('./gateway-status.ts')
    return (await requestWithToken(config, `/api/v1/overview/incidents${query}`)) as IncidentsJson // of the same version
  },
  /** A warning only: the `params` plugin of a network may add methods that no table has. */
  async checkMethods(names) {
    if (names.length === 0) return
    const known = (await import('../config/method-tables.ts')).declaredMethodNames(dir)
    for (const name of known.length === 0 ? [] : names.filter(method => !known.includes(method))) {
      err(`warning: no method table has "${name}"${formatHint(didYouMean(name, known))}`)
    }
  },
  sendMail: config.portal.smtp && openMailer(config.portal.smtp, logTo(err)),
  log: logTo(err),
  clock: systemClock,
})

const logTo = (err: Terminal['err']) => ({ warn: (_fields: object, message: string) => err(`warning: ${message}`) })

/** The nodes that the files name. Throws CommandError where they have problems. */
const configuredNetworks = async (dir: string, env: Terminal['env']): Promise<readonly NetworkStatus[]> => {
  const [{ loadConfig }, { loadBuiltInPlugins }, { listUpstreams }] = await Promise.all([
    import('../config/load.ts'),
    import('./built-in-plugins.ts'),
    import('./ask-upstreams.ts'),
  ])
  const config = await loadConfig(dir, await loadBuiltInPlugins(), env)
  if (config.problems.length > 0)
    throw new CommandError(`no gateway answers, and the configuration has problems: \`tollgate check\` lists them`)
  const upstreams = listUpstreams(config)
  return config.networks.map(network => {
    const its = upstreams.filter(each => each.network === network)
    return {
      name: network.name,
      state: 'unknown',
      nodes: its.filter(({ isPartner }) => !isPartner).length,
      usableNodes: 0,
      upstreams: its.map(({ target: { name }, isPartner }) => ({
        name,
        usable: true,
        condition: 'unknown',
        ...(isPartner && { partner: true as const }),
      })),
    }
  })
}

/** As browsers reach it. A free port is known to the running gateway alone. */
const dashboardUrlOf = ({ listen, portal }: GatewayConfig): string | undefined => {
  if (portal.url !== undefined || listen.portal === undefined || listen.portal.port === 0) return portal.url
  return urlOf(listen.portal.host, listen.portal.port, schemeOf(listen))
}

const throwAsCommandError = (error: unknown): never => {
  throw error instanceof ApiError ? new CommandError(error.message) : error
}

/** The input that the arguments and options give. Throws UsageError or, where a name is no name, CommandError. */
const readInput = (
  operation: Operation,
  positionals: readonly string[],
  options: Readonly<Record<string, string | boolean | undefined>>,
): Parameters<Operation['run']>[0] => {
  const { input: schema, command } = operation
  const flags = flagsOf(operation)
  const texts: Readonly<Record<string, string | undefined>> = Object.fromEntries(
    Object.entries(options).flatMap(([name, value]) => (typeof value === 'string' ? [[name, value] as const] : [])),
  )
  const switches = flags.filter(({ isSwitch = false }) => isSwitch).map(({ name, member }) => [member, options[name] === true])
  const missing = flags.find(({ name, isRequired }) => isRequired && texts[name] === undefined)
  if (missing !== undefined) throw new UsageError(`missing option ${formatOption(missing.name, toOption(missing))}`)
  const given = flags.flatMap(flag => (texts[flag.name] === undefined ? [] : [[flag, texts[flag.name] ?? ''] as const]))
  if (operation.method === 'patch' && given.length === 0) {
    const names = flags.filter(({ of }) => of === undefined).map(({ name }) => `--${name}`)
    throw new UsageError(`nothing to change: expected ${formatAlternatives(names)}`)
  }
  const named = Object.fromEntries(positionalsOf(operation).map(([member], i) => [member, positionals[i] ?? '']))
  const members = {
    ...named,
    ...Object.fromEntries(switches),
    ...Object.fromEntries(given.map(([flag, text]) => [flag.member, readFlag(flag, text)])),
  }
  const asUsageError = (error: ApiError, isShown: boolean) => toUsageError(error, operation, { ...named, ...texts }, isShown)
  const checked = orThrow(
    () => checkInput('body', schema, members) as object,
    error => asUsageError(error, true),
  )
  const input = { ...checked, ...command.fixed } as never // checked against the schema
  // What check() throws has the text already, or must not have it.
  orThrow(
    () => operation.check?.(input, systemClock.now()),
    error => asUsageError(error, false),
  )
  return input
}

const orThrow = <T>(work: () => T, toError: (error: ApiError) => Error): T => {
  try {
    return work()
  } catch (error) {
    throw error instanceof ApiError ? toError(error) : error
  }
}

/** A longer text would push the message out of view. */
const isShowable = new RegExp(printablePattern(100), 'u')

/** What the API says of a member, of the option or the argument. */
const toUsageError = (
  { message, field = '' }: ApiError,
  operation: Operation,
  texts: Readonly<Record<string, string | undefined>>,
  isShown: boolean,
): UsageError | CommandError => {
  const [member = '', item] = field.split('.')
  const expected = message.slice(field.length)
  const flag = flagsOf(operation).find(each => each.member === member)
  if (flag === undefined) {
    const resource = operation.name.replace(/s? .*/, '')
    return new CommandError(`invalid ${resource} ${member} "${texts[member]}": ${expected.replace(/^ must be/, 'expected')}`)
  }
  const shown = texts[flag.name] ?? ''
  const found = isShown && flag.schema.type === 'string' && isShowable.test(shown) ? `, not "${shown}"` : ''
  return new UsageError(`--${flag.name}${item === undefined ? '' : ': each item'}${expected}${found}`)
}

/** Throws UsageError. */
const readFlag = (flag: Flag, text: string): unknown => {
  const { name, schema, keyword } = flag
  if (text.trim() === keyword) return schema.type === 'array' ? [] : schema.type === 'string' ? text.trim() : 0
  switch (schema.type) {
    case 'integer':
    case 'number':
      return readNumber(flag, schema, text)
    case 'boolean':
      return readBoolean(flag, text)
    case 'array':
      return schema.items.type === 'string' ? readList(name, text) : text.split(',').map(each => (each.trim() === '' ? NaN : Number(each)))
    default:
      return readText(flag, schema as StringSchema, text)
  }
}

/** Of a number with a keyword, 0 is written by the keyword alone. */
const readNumber = ({ name, keyword, expected }: Flag, { minimum = 1, maximum = Number.MAX_SAFE_INTEGER }: NumberSchema, text: string) => {
  const number = parsePositiveInteger(text)
  if (number !== undefined && number >= minimum && number <= maximum) return number
  const range = expected ?? `a number from ${keyword === undefined ? minimum : Math.max(1, minimum)} to ${maximum}`
  throw new UsageError(`--${name} must be ${range}${keyword === undefined ? '' : `, or \`${keyword}\``}, not "${text}"`)
}

const readBoolean = ({ name }: Flag, text: string): boolean => {
  if (text === 'on' || text === 'off') return text === 'on'
  throw new UsageError(`--${name} must be on or off, not "${text}"`)
}

const readText = ({ name }: Flag, { enum: values }: StringSchema, text: string): string => {
  if (values === undefined || values.includes(text)) return text
  throw new UsageError(`--${name} must be ${formatAlternatives(values)}, not "${text}"${formatHint(didYouMean(text, values))}`)
}
