import type { Failure } from '../../src/plugin/plugin.ts'

/** A poll of a filter whose answer is being prepared or delivered: the next poll goes on from it, and does not count where this one does not. */
export class FilterPoll<Filter> {
  /** The filter once the answer is delivered; undefined when there is none. */
  readonly next: Promise<Filter | undefined>
  /** Whether that has become the filter. */
  readonly isStored: Promise<boolean>
  /** It is known whether the answer was delivered; it may not be stored yet. */
  isSettled = false
  /** To be called once it is known whether that has become the filter. */
  readonly end: (isStored: boolean) => void

  constructor(
    prepared: Promise<{ readonly moved: Filter } | Failure | undefined>,
    previous: FilterPoll<Filter> | undefined,
    onEnd: (poll: FilterPoll<Filter>, isStored: boolean) => void,
  ) {
    // A poll that fails stands for the one before it.
    this.next = prepared.then(
      answer => (answer === undefined ? undefined : 'moved' in answer ? answer.moved : previous?.next),
      () => previous?.next,
    )
    let resolve = (_isStored: boolean): void => undefined
    this.isStored = new Promise(ended => (resolve = ended))
    this.end = isStored => {
      resolve(isStored)
      onEnd(this, isStored)
    }
  }
}
