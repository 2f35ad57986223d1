import type { Plan } from '../plugin/call.ts'
import type { LogLevel } from '../services/log.ts'
import type { AnyPlugin, Path } from '../plugin/plugin.ts'
import type { Secret } from '../plugin/secret.ts'
import type { Problem } from './problem.ts'
import type { CompiledTable } from '../services/method-table/compile-table.ts'

/** gateway.yaml, checked, with defaults. Sizes in bytes, times in ms. */
export interface GatewayConfig {
  readonly listen: { readonly rpc: Address; readonly admin?: Address; readonly portal?: Address }
  readonly store: StoreAddress
  /** Processes that share the port. */
  readonly workers: number
  readonly plans: Readonly<Record<string, Plan>>
  /** Bytes of all caches together. */
  readonly memory: number
  readonly limits: GatewayLimits
  readonly log: LogLevel
  /** What happens between SIGTERM and the end of the process. */
  readonly drain: {
    /** How long new calls are still accepted while `/readyz` already answers 503. */
    readonly grace: number
    /** How long calls in flight may then take to finish. */
    readonly timeout: number
  }
  readonly usage: {
    /** How long counts of calls are stored. */
    readonly retention: number
  }
}

/** Bounds on what callers send, and on what answers take; sizes in bytes. */
export interface GatewayLimits {
  /** Longest body of an HTTP request. */
  readonly body: number
  /** Longest WebSocket message. */
  readonly frame: number
  /** Most calls in a batch. */
  readonly batch: number
  /** Deepest nesting of a message. */
  readonly depth: number
  /** Longest answer to a batch. */
  readonly batchReply: number
  /** Bytes of all answers that come in from nodes, or wait for callers to read them. */
  readonly inFlight: number
}

export interface Address {
  readonly host: string
  readonly port: number
}

export type StoreAddress = { readonly kind: 'lmdb'; readonly path: string } | RedisAddress

/** The URL may hold a password; printed, it shows host and port. */
export interface RedisAddress {
  readonly kind: 'redis'
  readonly url: Secret
}

/** One networks/<name>.yaml, checked, with defaults. */
export interface NetworkConfig {
  readonly name: string
  readonly chainId: number
  readonly blockTime: number
  /** In lower case, without port. */
  readonly hosts: readonly string[]
  readonly methods: CompiledTable
  /** Outermost first. */
  readonly steps: readonly Step[]
  /** The file it stands in, as it is shown to operators. */
  readonly file: string
}

/** One plugin in a pipeline. */
export interface Step {
  /** The plugin's name, or the name that the step was given because the plugin stands twice. */
  readonly name: string
  readonly plugin: AnyPlugin
  /** Checked against the plugin's schema, converted, defaults filled in. */
  readonly options: unknown
  /** A problem at a place inside the options. */
  problemAt(path: Path, message: string): Problem
}

/** An optional network that is not served, and the variables that would change that. */
export interface UnservedNetwork {
  readonly network: string
  readonly variables: readonly string[]
}

/** A whole configuration directory. With problems, what could be read all the same. */
export interface Config {
  readonly gateway: GatewayConfig | undefined
  readonly networks: readonly NetworkConfig[]
  readonly unserved: readonly UnservedNetwork[]
  readonly problems: readonly Problem[]
}
