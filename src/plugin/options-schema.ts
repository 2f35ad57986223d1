import type { Secret } from './secret.ts'

/**
 * The part of JSON Schema that options may use, and the types of their values. One schema serves validation, defaults, the
 * type of the options in code and the help in editors: so each property must have a description.
 *
 * Objects are closed: a property that is not listed is a problem, unless `additionalProperties` gives its schema.
 */
export type Schema = StringSchema | NumberSchema | BooleanSchema | ArraySchema | ObjectSchema | AnySchema

interface DescribedSchema {
  /** One sentence for operators, shown by editors. */
  readonly description?: string
  /** Values as an operator writes them; required where there is no default. */
  readonly examples?: readonly unknown[]
  /**
   * Of a property of a list's items: what applies to an item without the property while another item has it. `tollgate check`
   * then warns of the item.
   */
  readonly whenOthersHaveIt?: string
  /** Of a property: another option that it requires. An empty list and `false` require nothing. */
  readonly requires?: RequiredOption
}

interface RequiredOption {
  /** One of these suffices: a name is that of an option of the same map, a path with dots begins at the top. */
  readonly options: readonly string[]
  /** The fix. */
  readonly hint: string
  /** Without the option the property does nothing, in place of being incomplete. */
  readonly isIdle?: true
}

export interface StringSchema extends DescribedSchema {
  readonly type: 'string'
  readonly enum?: readonly string[]
  readonly pattern?: string
  /** Describes an accepted text, in messages after "must be": by its format, or `a string that matches …`, unless given. */
  readonly label?: string
  readonly minLength?: number
  readonly maxLength?: number
  readonly default?: string
  /**
   * The text's format; the plugin gets the value converted.
   * `duration`: `250ms`, `10s`, `5m`, `2h`, `1d` -> milliseconds. `auto-duration`: the same, or `auto` -> `'auto'`. `size`: `512B`, `64KiB`, `1MiB`, `2GiB` -> bytes.
   * `url`: http(s) or ws(s), may hold a provider's key -> Secret. `redis`: a Redis URL, may hold a password -> Secret that
   * shows host and port. `address`: host:port -> { host, port }. `secret`: a password or token -> Secret. `path`: relative to the YAML file ->
   * absolute path. `log-file`: the same, or `stdout`. `rate`: `100/s`, `6000/m`, `100000/h` -> so many per second. `subnet`: an IP address or a
   * subnet. `host`: without port -> lower case. `kebab-case`: a name. `web-url`: http(s) and a host, no path. `https-url`: http is for this machine.
   * `http-url`, `smtp-url`: URLs that may hold a password -> Secret. `store`: lmdb:PATH or a Redis URL -> StoreAddress.
   */
  readonly format?: PlainFormat | ConvertedFormat | SecretFormat
  /** The least duration or size, such as `1d`. */
  readonly minimum?: string
  /** For a duration or size: values outside are valid, but surely a mistake, so that `tollgate check` warns of them. */
  readonly usual?: UsualRange
  /** A secret that is shorter is valid, but may be guessed, so that `tollgate check` warns of it. */
  readonly usualMinLength?: number
  /** In an `optional` network, the text is omitted when a variable in it is not set. */
  readonly omitWhenUnset?: true
}

/** A text stays a text. */
type PlainFormat = 'path' | 'log-file' | 'subnet' | 'host' | 'kebab-case' | 'web-url' | 'https-url'

type ConvertedFormat = 'duration' | 'auto-duration' | 'size' | 'rate' | 'address' | 'store'

/** What a text of these formats holds is shown nowhere, or only its host. */
type SecretFormat = 'url' | 'redis' | 'secret' | 'http-url' | 'smtp-url'

/** A listener's. */
export interface Address {
  readonly host: string
  readonly port: number
}

/** A directory, absolute, or a URL that may hold a password; printed, it shows host and port. */
export type PlainStoreAddress = { readonly kind: 'lmdb'; readonly path: string } | RedisAddress

/** `from`: the store that is used until `tollgate store copy --switch` has copied it. */
export type StoreAddress = PlainStoreAddress & { readonly from?: PlainStoreAddress }

export interface RedisAddress {
  readonly kind: 'redis'
  readonly url: Secret
}

/** Both bounds are included, and written as in YAML. 0 is always usual: it is written on purpose. */
export interface UsualRange {
  readonly min: string
  readonly max: string
}

export interface NumberSchema extends DescribedSchema {
  readonly type: 'integer' | 'number'
  readonly minimum?: number
  readonly maximum?: number
  readonly exclusiveMinimum?: number
  /** The text `auto` is accepted too. */
  readonly orAuto?: true
  readonly default?: number
}

interface BooleanSchema extends DescribedSchema {
  readonly type: 'boolean'
  readonly default?: boolean
}

export interface ArraySchema extends DescribedSchema {
  readonly type: 'array'
  readonly items: Schema
  readonly minItems?: number
  readonly maxItems?: number
  readonly default?: readonly unknown[]
}

/** The schema of a map of options. */
export interface ObjectSchema extends DescribedSchema {
  readonly type: 'object'
  readonly properties?: { readonly [name: string]: Schema & { readonly description: string } }
  readonly required?: readonly string[]
  /** The schema of the other properties, for maps. */
  readonly additionalProperties?: Schema
  /** In an `optional` network, the object is omitted when a variable in it is not set. */
  readonly omitWhenUnset?: true
  readonly default?: Readonly<Record<string, unknown>>
  /** Exactly one of these properties must be given. */
  readonly exactlyOneOf?: { readonly options: readonly string[]; readonly hint: string }
  /** Of a map with `additionalProperties`: what an entry is called. It has at least one entry, and names in kebab-case unless `name` says how they are. */
  readonly entries?: {
    readonly noun: string
    readonly example: string
    readonly name?: { readonly pattern: string; readonly label: string }
  }
}

/** Any YAML value; the plugin checks it itself. */
interface AnySchema extends DescribedSchema {
  readonly type?: never
}

type InferString<S> = S extends { format: 'duration' | 'size' | 'rate' }
  ? number
  : S extends { format: 'auto-duration' }
    ? number | 'auto'
    : S extends { format: SecretFormat }
      ? Secret
      : S extends { format: 'address' }
        ? Address
        : S extends { format: 'store' }
          ? StoreAddress
          : S extends { enum: readonly (infer E)[] }
            ? E
            : string

type PropertiesOf<S> = S extends { properties: infer P } ? P : Record<never, never>
type RequiredKeys<S> = S extends { required: readonly (infer R)[] } ? R : never
type PresentKeys<S> = {
  [K in keyof PropertiesOf<S>]: PropertiesOf<S>[K] extends { default: unknown } ? K : K extends RequiredKeys<S> ? K : never
}[keyof PropertiesOf<S>]

type InferObject<S> = S extends { properties: object }
  ? { readonly [K in PresentKeys<S>]: Infer<PropertiesOf<S>[K]> } & {
      readonly [K in Exclude<keyof PropertiesOf<S>, PresentKeys<S>>]?: Infer<PropertiesOf<S>[K]>
    }
  : S extends { additionalProperties: infer V }
    ? { readonly [name: string]: Infer<V> }
    : Record<string, never>

/** The type of an option as the plugin gets it: defaults filled in, durations and sizes as numbers, URLs as Secrets. */
export type Infer<S> = S extends { type: 'string' }
  ? InferString<S>
  : S extends { type: 'integer' | 'number' }
    ? number | (S extends { orAuto: true } ? 'auto' : never)
    : S extends { type: 'boolean' }
      ? boolean
      : S extends { type: 'array'; items: infer I }
        ? readonly Infer<I>[]
        : S extends { type: 'object' }
          ? InferObject<S>
          : unknown
