import type { Infer } from '../plugin/options-schema.ts'
import type { AnyPlugin } from '../plugin/plugin.ts'
import type { Path } from '../util/json.ts'
import type { PluginFile } from '../plugin/plugin-fault.ts'
import type { gatewaySchema } from './gateway-options.ts'
import type { Plans } from '../services/accounts/effective-plan.ts'
import type { Problem } from './problem.ts'
import type { CompiledTable } from '../services/method-table/table-types.ts'

type GatewayFile = Infer<typeof gatewaySchema>

/** gateway.yaml, checked, with defaults. Sizes are in bytes, durations in ms. */
export interface GatewayConfig extends Omit<GatewayFile, 'workers' | 'plans'> {
  readonly workers: number
  readonly plans: Plans
}

export type { Address, PlainStoreAddress, RedisAddress, StoreAddress } from '../plugin/options-schema.ts'

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
  /** Of an external plugin: so long a call waits for it. */
  readonly timeoutMs?: number
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
