import { configId } from '../core/config-changes.ts'
import type { PreparedReload, ReadConfig, Reloadable, ReloadProblem } from '../core/reloader.ts'
import { problemsOf } from '../core/reloader.ts'
import type { PrimaryMessage, WorkerMessage } from './channel.ts'

type Prepare = Extract<PrimaryMessage, { readonly kind: 'prepareReload' }>
type End = Extract<PrimaryMessage, { readonly kind: 'endReload' }>

/** A worker's part in a reload: it prepares when the primary asks it to, and commits when all workers have prepared. */
export class WorkerReload {
  readonly #gateway: Reloadable
  readonly #readConfig: ReadConfig
  readonly #send: (message: WorkerMessage) => void
  #prepared: { readonly id: number; readonly reload: PreparedReload } | undefined
  #lastEndedId = 0
  #latest = Promise.resolve()

  constructor(gateway: Reloadable, readConfig: ReadConfig, send: (message: WorkerMessage) => void) {
    this.#gateway = gateway
    this.#readConfig = readConfig
    this.#send = send
  }

  /** One after the other: of two at once, one would run on although nobody ends it. */
  prepare(request: Prepare): Promise<void> {
    return (this.#latest = this.#latest.then(() => this.#answer(request)))
  }

  async #answer({ id, configId: expectedId }: Prepare): Promise<void> {
    await this.#abandon()
    const problems = await this.#prepare(id, expectedId)
    // Meanwhile the primary may have given up.
    if (this.#lastEndedId >= id) await this.#abandon()
    this.#send({ kind: 'reloadPrepared', id, problems })
  }

  end({ id, isCommitted }: End): void {
    this.#lastEndedId = Math.max(this.#lastEndedId, id)
    if (this.#prepared?.id !== id) return
    if (!isCommitted) return void this.#abandon()
    this.#prepared.reload.commit()
    this.#prepared = undefined
  }

  async #prepare(id: number, expectedId: string): Promise<readonly ReloadProblem[]> {
    try {
      const config = await this.#readConfig('reload')
      if (!('networks' in config)) return config
      if (configId(config) !== expectedId) return [{ message: 'the files changed while the workers read them' }]
      this.#prepared = { id, reload: await this.#gateway.prepareReload(config) }
      return []
    } catch (error) {
      return problemsOf(error)
    }
  }

  async #abandon(): Promise<void> {
    const prepared = this.#prepared
    this.#prepared = undefined
    await prepared?.reload.abandon()
  }
}
