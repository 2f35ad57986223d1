import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Bytes of answers after which the memory they took is asked back. */
const bytesPerCollection = 4 << 20

/**
 * glibc gives what is free at the end of its heap back to the system from 128 KiB on, only to ask for it again with the
 * next piece of an answer: page faults were a sixth of what 6 MB cost. Once it has freed a block of this size, which takes
 * no memory as nobody writes to it, it keeps up to twice as much.
 */
const mmapThresholdBytes = 4 << 20

/**
 * Takes back the memory of long answers as soon as they have been sent. Left to itself V8 waits until 32 MB of them lie
 * about, so that answers of 6 MB, one after the other, take 36 MB. A collection of what is young takes 1 ms.
 */
export const openGcHints = (): ((length: number) => void) => {
  // V8 takes what a batch needs for long-lived and puts it where only a full collection finds it: a third of a batch's CPU.
  setFlagsFromString('--no-allocation-site-pretenuring')
  const collect = findMinorCollector()
  Buffer.allocUnsafeSlow(mmapThresholdBytes)
  let sentBytes = 0
  return length => {
    sentBytes += length
    if (sentBytes < bytesPerCollection) return
    sentBytes = 0
    // What has just been sent is still in use until the next turn.
    setImmediate(collect)
  }
}

/** V8's own collector is given to contexts that are made while its flag is set. */
const findMinorCollector = (): (() => void) => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as (options: { type: 'minor' }) => void // as V8 describes it
  setFlagsFromString('--no-expose-gc')
  return () => {
    // The thread that should free the bytes beside the event loop often comes to it only with the next collection: the memory
    // of two answers in place of one. To free 6 MB at once takes 0.03 ms, and such answers a tenth less CPU. Not for full
    // collections: with 400,000 kept answers that would hold up the event loop for 18 ms more.
    setFlagsFromString('--no-concurrent-array-buffer-sweeping')
    collect({ type: 'minor' })
    setFlagsFromString('--concurrent-array-buffer-sweeping')
  }
}
