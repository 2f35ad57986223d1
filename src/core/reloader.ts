import { compareConfigs, formatChange, formatReloadProblem, reloadEffectiveFiles, reloadGatewayConfig } from './config-changes.ts'
import type { ConfigChange } from './config-changes.ts'
import type { PartialProblem, Problem } from '../config/problem.ts'
import type { FileTexts } from '../config/config-files.ts'
import type { EffectiveFile } from '../config/effective-file.ts'
import type { Config, GatewayConfig } from '../config/types.ts'
import type { Log, RootLog } from '../services/log.ts'
import { metricDefinitions } from '../services/metric-definitions.ts'
import type { Gauge, Metrics } from '../services/metrics.ts'
import { StageStartError } from './network.ts'
import { ReloadError } from './running-networks.ts'
import { nextFlight } from '../util/async.ts'

/** A configuration without problems. */
export type ValidConfig = Config & {
  readonly gateway: GatewayConfig
  /** Its files, for people; absent where the configuration was made otherwise. */
  readonly effective?: readonly EffectiveFile[]
  readonly texts?: FileTexts
}

/** Reads the files of the configuration, to apply them or to show what would change; returns their problems if they have any. */
export type ReadConfig = (purpose: 'reload' | 'preview') => Promise<ValidConfig | readonly Problem[]>

/** Started beside what runs, and without calls yet. One of the two must be called. */
export interface PreparedReload {
  /** Calls from now on are served by it. */
  commit(): void
  abandon(): Promise<void>
}

export interface Reloadable {
  /** Rejects with ReloadError or StageStartError; then nothing has changed. */
  prepareReload(config: ValidConfig): Promise<PreparedReload>
}

/** What a reload has come to. */
export interface ReloadReport {
  /** False: the configuration from before serves on. */
  readonly isApplied: boolean
  /** What differs from before; what needs a restart differs from what runs, too, until the restart. */
  readonly changes: readonly ConfigChange[]
  /** Why it was not applied. */
  readonly problems: readonly PartialProblem[]
}

interface ReloadPreview extends ReloadReport {
  /** Absent where they have problems, or the configuration was made otherwise. */
  readonly files?: readonly EffectiveFile[] | undefined
}

interface ReloaderOptions extends Reloadable {
  /** What runs. */
  readonly config: ValidConfig
  readonly readConfig: ReadConfig
  readonly log: Log
  /** Of all processes: a worker that applies a configuration later than the others would undo what operators have set since. */
  readonly logLevel: Pick<RootLog, 'level'>
  readonly metrics: Metrics
}

/** Reloads the configuration of a gateway, one reload after the other. Whatever is wrong, what runs serves on. */
export class Reloader {
  readonly #options: ReloaderOptions
  readonly #isSuccessful: Gauge
  #config: ValidConfig
  #isStopped = false

  constructor(options: ReloaderOptions) {
    this.#options = options
    this.#config = options.config
    this.#isSuccessful = options.metrics.gauge(metricDefinitions.configReloadSuccessful, {})
    this.#isSuccessful.set(1)
  }

  /** What was applied last. */
  get current(): Pick<ValidConfig, 'unserved'> & { readonly files: readonly EffectiveFile[] } {
    const { effective = [], unserved } = this.#config
    return { files: effective, unserved }
  }

  /** Never rejects. During a reload the next one follows it, as the files may have changed since they were read. */
  readonly reload = nextFlight((): Promise<ReloadReport> => this.#run())

  /** What a reload now would change, with the files as they would be, or their problems. Never rejects; changes and logs nothing. */
  readonly preview = async (): Promise<ReloadPreview> => {
    try {
      const config = await this.#options.readConfig('preview')
      return 'networks' in config
        ? { isApplied: false, changes: compareConfigs(this.#config, config), problems: [], files: config.effective }
        : { isApplied: false, changes: [], problems: config }
    } catch (error) {
      return { isApplied: false, changes: [], problems: problemsOf(error) }
    }
  }

  /** What is being prepared is abandoned. */
  stop(): void {
    this.#isStopped = true
  }

  /** After stop(): a reload that changes nothing follows the last one. */
  async whenIdle(): Promise<void> {
    await this.reload()
  }

  async #run(): Promise<ReloadReport> {
    if (this.#isStopped) return { isApplied: false, changes: [], problems: [{ message: 'the gateway is stopping' }] }
    try {
      const config = await this.#options.readConfig('reload')
      return 'networks' in config ? await this.#apply(config) : this.#refuse(config)
    } catch (error) {
      if (!isReloadProblem(error)) this.#options.log.error({ err: error }, 'reload failed because of a bug')
      return this.#refuse(problemsOf(error))
    }
  }

  async #apply(config: ValidConfig): Promise<ReloadReport> {
    const changes = compareConfigs(this.#config, config)
    const applied = changes.filter(({ needsRestart }) => !needsRestart)
    if (applied.length > 0) {
      const prepared = await this.#options.prepareReload(config)
      if (this.#isStopped) {
        await prepared.abandon()
        throw new ReloadError('the gateway is stopping')
      }
      prepared.commit()
      const { gateway, effective } = this.#config
      if (config.gateway.log !== gateway.log) this.#options.logLevel.level = config.gateway.log
      this.#config = {
        ...config,
        gateway: reloadGatewayConfig(gateway, config.gateway),
        ...(effective && config.effective && { effective: reloadEffectiveFiles(effective, config.effective) }),
      }
    }
    this.#isSuccessful.set(1)
    this.#logChanges(applied, changes)
    return { isApplied: true, changes, problems: [] }
  }

  #logChanges(applied: readonly ConfigChange[], changes: readonly ConfigChange[]): void {
    const { log } = this.#options
    const message = applied.length > 0 ? 'configuration reloaded' : 'configuration reloaded: nothing to apply has changed'
    log.info({ event: 'reloaded', changes: applied.slice(0, maxLoggedChanges).map(formatChange), changeCount: applied.length }, message)
    const unapplied = changes.filter(({ needsRestart }) => needsRestart).map(({ path }) => path)
    if (unapplied.length > 0) log.warn({ event: 'restart-needed' }, `restart the gateway to apply: ${unapplied.join(', ')}`)
  }

  #refuse(problems: readonly PartialProblem[]): ReloadReport {
    this.#isSuccessful.set(0)
    for (const problem of problems) {
      const { file, line, column } = problem
      const text = formatReloadProblem(problem)
      this.#options.log.error({ event: 'reload-failed', file, line, column }, `reload failed, nothing has changed: ${text}`)
    }
    return { isApplied: false, changes: [], problems }
  }
}

/** More are only counted. */
const maxLoggedChanges = 50

/** False for a bug. */
const isReloadProblem = (error: unknown): boolean => error instanceof ReloadError || error instanceof StageStartError

/** Why a reload could not be prepared. */
export const problemsOf = (error: unknown): readonly PartialProblem[] =>
  error instanceof ReloadError && error.problems.length > 0
    ? error.problems
    : [{ message: error instanceof Error ? error.message : String(error) }]
