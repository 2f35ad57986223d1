import type { Plan } from '../plugin/call.ts'
import type { AccessLogConfig } from '../services/access-log.ts'
import type { TlsFiles } from '../services/tls-files.ts'
import type { JwtOptions } from '../services/jwt/index.ts'
import type { LogLevel } from '../services/log-settings.ts'
import type { AnyPlugin, Path } from '../plugin/plugin.ts'
import type { PluginFile } from '../plugin/plugin-fault.ts'
import type { Secret } from '../plugin/secret.ts'
import type { Problem } from './problem.ts'
import type { CompiledTable } from '../services/method-table/table-types.ts'

/** gateway.yaml, checked, with defaults. Sizes are in bytes, durations in ms. */
export interface GatewayConfig {
  readonly listen: {
    readonly rpc: Address
    readonly admin?: Address
    readonly portal?: Address
    readonly tls?: TlsOptions
    /** Whether each process listens on the RPC port itself (SO_REUSEPORT). */
    readonly reusePort: boolean
    /** Whether trusted proxies begin each connection to the RPC listener with a header of the PROXY protocol. */
    readonly proxyProtocol: boolean
    /** Addresses and subnets of proxies. */
    readonly trustedProxies: readonly string[]
  }
  readonly portal: {
    /** The URL by which browsers reach the dashboard. */
    readonly url?: string
    /** The base URL of a network, with `{host}` for its host. */
    readonly networkUrl?: string
    /** Sign session cookies: the first signs, all are accepted. None: a key in the store does. */
    readonly secrets: readonly Secret[]
    readonly smtp?: { readonly url: Secret; readonly from: string }
    readonly oidc?: {
      readonly issuer: string
      readonly clientId: string
      readonly clientSecret: Secret
      readonly domains: readonly string[]
      readonly name: string
    }
    readonly usageWebhook?: { readonly url: Secret; readonly secret?: Secret }
    readonly webhooks: { readonly allow: readonly string[] }
    readonly signUp?: { readonly plan: string; readonly perDay: number; readonly domains: readonly string[] }
  }
  readonly admin: {
    /** Required to sign in, and to read or change anything; without it nobody can. */
    readonly token?: Secret
    /** The URL by which the operator's browser reaches it. */
    readonly url?: string
    /** Hosts that its requests may name besides loopback names and its own address, that of `url` included; as in networks. */
    readonly hosts: readonly string[]
    readonly tls?: TlsFiles
  }
  readonly store: StoreAddress
  /** Worker processes that share the port. */
  readonly workers: number
  /** Whether a change of the files reloads the configuration. */
  readonly watch: boolean
  readonly plans: Readonly<Record<string, Plan>>
  /** Tokens in place of API keys. */
  readonly jwt?: JwtOptions
  /** Bytes of all caches together. */
  readonly memory: number
  readonly limits: GatewayLimits
  readonly log: LogLevel
  readonly accessLog: AccessLogConfig
  /** What happens between SIGTERM and the end of the process. */
  readonly drain: {
    /** How long new calls are still accepted while `/readyz` already answers 503. */
    readonly grace: number
    /** How long calls in flight may then take to finish. */
    readonly timeout: number
  }
  readonly metrics: {
    /** Whether the time of each plugin is measured. */
    readonly plugins: boolean
  }
  readonly usage: {
    /** How long counts of calls are stored. */
    readonly retention: number
  }
}

/** The paths of PEM files, absolute. */
export interface TlsOptions extends TlsFiles {
  /** Those that accept TLS, and nothing else. */
  readonly listeners: readonly ('rpc' | 'portal')[]
}

/** Limits on requests, and on the memory of responses; sizes in bytes. */
export interface GatewayLimits {
  /** Maximum number of open connections of callers. */
  readonly connections: number
  /** Maximum size of the body of an HTTP request. */
  readonly body: number
  /** Maximum size of a WebSocket message. */
  readonly frame: number
  /** Maximum number of calls in a batch. */
  readonly batch: number
  /** Maximum size of the response to a batch. */
  readonly batchReply: number
  /** Maximum size of all responses together that are arriving from nodes or waiting for callers to read them. */
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
  readonly devNode: boolean
  /** In lower case, without port. */
  readonly hosts: readonly string[]
  readonly methods: CompiledTable
  /** Outermost first. */
  readonly steps: readonly Step[]
  /** Its file, as operators see it. */
  readonly file: string
}

/** One plugin in a pipeline. */
export interface Step {
  /** The name of the plugin, or the step's own name. */
  readonly name: string
  readonly plugin: AnyPlugin
  /** Of an external plugin, whose promises are not tested here. */
  readonly file?: PluginFile
  /** Checked against the plugin's schema, converted, with defaults. */
  readonly options: unknown
  /** A problem at a path inside the options. */
  problemAt(path: Path, message: string): Problem
}

/** An optional network that is not served, and the variables that are missing for it. */
export interface UnservedNetwork {
  readonly network: string
  readonly variables: readonly string[]
}

/** A configuration directory. With problems, the parts that could be read. */
export interface Config {
  readonly gateway: GatewayConfig | undefined
  readonly networks: readonly NetworkConfig[]
  readonly unserved: readonly UnservedNetwork[]
  readonly problems: readonly Problem[]
  /** What is valid, but probably not meant. */
  readonly warnings: readonly Problem[]
}
