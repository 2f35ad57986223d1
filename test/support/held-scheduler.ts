import { FairScheduler } from '../../src/server/fair-scheduler.ts'
import { TestClock } from './fakes.ts'

/** A scheduler with which work waits for its turn while a test holds it. */
export class HeldScheduler extends FairScheduler {
  #turn: Promise<void> | undefined
  #release = (): void => undefined
  /** What is waiting. */
  readonly waiting: { readonly owner: string; readonly units: number }[] = []
  connectionCount = 0

  constructor() {
    super(new TestClock())
  }

  hold(): void {
    this.#turn = new Promise(resolve => {
      this.#release = resolve
    })
  }

  release(): void {
    this.#turn = undefined
    this.waiting.length = 0
    this.#release()
  }

  override recordConnection(): void {
    this.connectionCount += 1
  }

  override enter(owner: string, units: number): Promise<void> | undefined {
    if (this.#turn !== undefined) this.waiting.push({ owner, units })
    return this.#turn
  }
}
