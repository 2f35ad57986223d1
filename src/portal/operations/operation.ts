import type { GatewayConfig } from '../../config/types.ts'
import type { JsonSchema } from '../../config/schema.ts'
import type { Infer, ObjectSchema } from '../../plugin/options-schema.ts'
import type { RecordedAccounts } from '../../services/accounts/recorded-accounts.ts'
import type { NetworkStatus } from '../../server/network-status.ts'
import type { Log } from '../../services/log.ts'
import type { LogLevel } from '../../services/log-settings.ts'
import type { MaybePromise } from '../../util/async.ts'
import type { PortalServices } from '../portal-services.ts'
import type { PageQueries } from '../queries/page-queries.ts'
import type { UsageQueries } from '../queries/usage-queries.ts'
import type { RouteBase } from '../route.ts'
import type { IncidentsJson } from './incident-schemas.ts'

/** What operations work with, whoever asks for them; plans and the log of requests as of now. */
export interface OperationServices extends Pick<PortalServices, 'store' | 'plans' | 'requestLog' | 'sendMail' | 'clock' | 'version'> {
  /** The accounts of the store, with what the operator changes in the log of changes. */
  readonly accounts: RecordedAccounts
  readonly queries: PageQueries & Pick<UsageQueries, 'lastUses'>
  /** What gateway.yaml says of the dashboard. */
  readonly config: Pick<GatewayConfig, 'listen' | 'portal'>
  /** The URL of the dashboard; undefined where the gateway has none. */
  dashboardUrl(): string | undefined
  networkNames(): MaybePromise<readonly string[]>
  nodes(): Promise<NodesView>
  /** Of all processes of the running gateway. Reject where none answers. */
  readLogLevel(): MaybePromise<LogLevel>
  setLogLevel(level: LogLevel): MaybePromise<void>
  readonly log: Pick<Log, 'warn'>
  /** Of one network, or of all. Rejects where no gateway answers. */
  readIncidents(network: string | undefined): Promise<IncidentsJson>
  /** The gateway knows every method of its networks, and rejects with ApiError; a command knows the method tables, and warns. */
  checkMethods(names: readonly string[]): MaybePromise<void>
}

/** The networks and their nodes, as who asks can see them. */
export interface NodesView {
  readonly networks: readonly NetworkStatus[]
  /** False where no gateway answers: the names are those of the configuration, and nothing else is known. */
  readonly isLive: boolean
}

/**
 * One thing that operators do. The route of the operator's API, its place in the OpenAPI document, and the command with its arguments,
 * options and help are made from it: so the API and the command line take the same input, and return the same JSON.
 */
export interface Operation<Input extends ObjectSchema = ObjectSchema, Output = unknown>
  extends Pick<RouteBase<never, never>, 'method' | 'path' | 'summary' | 'status' | 'operationId'> {
  /** The words of the command: one, or two such as `accounts add`. */
  readonly name: string
  /** A member that `path` names is taken from there; the others are the query of a GET, or the body. */
  readonly input: Input
  readonly output: JsonSchema
  /** What a schema cannot say of the input. Throws ApiError. */
  check?(input: Infer<Input>, now: number): void
  /** Rejects with ApiError or StoreError. */
  run(input: Infer<Input>, services: OperationServices): Promise<Output>
  readonly command: CommandForm<Infer<Input>, Output>
}

/** How the command differs from what follows from the schema of the input: each member is an option of its name. */
interface CommandForm<Input, Output> {
  /** The members that are positional arguments, in their order, with their names in the help. */
  readonly positionals?: { readonly [Member in keyof Input]?: string }
  readonly flags?: { readonly [Member in keyof Input]?: FlagForm }
  /** Members that are no options, with the values that the command gives them. */
  readonly fixed?: { readonly [Member in keyof Input]?: unknown }
  /** What `--json` prints; the whole output unless given. A command prints lists whole, where the API returns them in parts. */
  json?(output: Output): unknown
  /** What `--csv` prints; without it there is no such option. */
  csv?(output: Output): TextTable
  /** What is printed without these options. */
  text(output: Output, input: Input, context: TextContext): readonly TextBlock[]
  /** Why the command fails all the same, in place of `text`. */
  failure?(output: Output): string | undefined
}

/** How an option is written. */
export interface FlagForm {
  /** Of the option, where it is not that of the member. */
  readonly name?: string
  /** Stands for the value in the help. */
  readonly placeholder?: string
  /** A word that is written for 0, for an empty list, or for itself where the member is a text. */
  readonly keyword?: string
  /** The option that this one is about, and requires. */
  readonly of?: string
  /** Of a boolean that is false by default: the option has no value. */
  readonly isSwitch?: boolean
  /** After `must be`, in place of what follows from the schema. */
  readonly expected?: string
}

interface TextContext {
  /** A command line that does this on the same configuration. */
  commandLine(words: string): string
  readonly now: number
}

/** A line, a line for each field, or a table. */
export type TextBlock = string | { readonly fields: Readonly<Record<string, string | number>> } | TextTable

interface TextTable {
  readonly columns: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

/** Without rows, a sentence in place of the table. */
export const tableOr = (sentence: string, columns: readonly string[], rows: TextTable['rows']): readonly TextBlock[] =>
  rows.length === 0 ? [sentence] : [{ columns, rows }]

/** Ties the types of input and output to each other. */
export const defineOperation = <const Input extends ObjectSchema, Output>(operation: Operation<Input, Output>): Operation =>
  // The one cast: checkInput() checks what run() gets, and text() gets what run() returns.
  operation as unknown as Operation

/** The members of the input that the path names, as `{id}`. */
export const pathMembers = ({ path }: Pick<Operation, 'path'>): readonly string[] =>
  Array.from(path.matchAll(/\{(\w+)\}/g), ([, name = '']) => name)
