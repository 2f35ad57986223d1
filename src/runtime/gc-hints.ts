import { executionAsyncResource } from 'node:async_hooks'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Bytes of sent responses after which their memory is collected. */
const bytesPerCollection = 4 << 20

/**
 * glibc returns free memory at the end of its heap to the system from 128 KiB on, only to request it again with the next
 * chunk of a response: 5,000 page faults for each 21 MB, which were half of the CPU on a busy machine. Once it has freed a block of this
 * size, which takes no memory as nobody writes to it, it keeps up to twice as much: more than one response of 21 MB.
 */
const mmapThresholdBytes = 12 << 20

type Collect = () => void

/**
 * Collects the memory of long responses as soon as they have been sent. V8 by itself waits until 32 MB of them have gathered, so
 * that responses of 6 MB, one after the other, take 36 MB. A collection of the young generation takes 1 ms. Where V8 offers none,
 * the hint does nothing.
 */
export const openGcHints = (findCollector: () => Collect | undefined = findMinorCollector): ((byteLength: number) => void) => {
  // V8 takes the objects of a batch for long-lived and puts them where only a full collection finds them: a third of a batch's CPU.
  setFlagsFromString('--no-allocation-site-pretenuring')
  Buffer.allocUnsafeSlow(mmapThresholdBytes)
  const collect = findCollector()
  if (collect === undefined) return () => undefined
  let sentBytes = 0
  return byteLength => {
    sentBytes += byteLength
    if (sentBytes < bytesPerCollection) return
    sentBytes = 0
    // What has just been sent is still in use until the next turn.
    setImmediate(collect)
  }
}

/** Collects all without an argument: Node.js 20 takes any object, also one of the type `major`, for a minor collection. */
type Collector = (options?: { readonly type: 'minor' }) => void

let collector: Collector | undefined

/** V8's own collector, which contexts have that are made while its flag is set. One context: each takes 0.15 MB. */
const findCollector = (): Collector | undefined => {
  if (collector !== undefined) return collector
  setFlagsFromString('--expose-gc')
  const collect: unknown = runInNewContext('globalThis.gc')
  setFlagsFromString('--no-expose-gc')
  if (typeof collect === 'function') collector = options => void (options === undefined ? collect() : collect(options))
  return collector
}

/** Undefined where V8 offers none. */
export const findMinorCollector = (): Collect | undefined => {
  const collect = findCollector()
  return (
    collect &&
    (() => {
      // The thread that frees bytes beside the event loop often runs only with the next collection: the memory of two responses
      // instead of one. To free 6 MB at once takes 0.03 ms, and such responses a tenth less CPU. Not for full collections: with
      // 400,000 kept responses that would block the event loop for 18 ms more.
      setFlagsFromString('--no-concurrent-array-buffer-sweeping')
      collect({ type: 'minor' })
      setFlagsFromString('--concurrent-array-buffer-sweeping')
    })
  )
}

/**
 * Keeps V8's young generation at its first size, 2 MB, until collectGarbageOfStart(). It doubles with what survives, and a start keeps nearly all
 * that it makes: 8 MB of a gateway with one network, 22 MB with 50, which V8 returns only in a process without load. Held, a gateway at rest takes 78
 * in place of 84 MB, and a network 0.4 in place of 0.7. V8 reads the factor at each collection; on the command line it refuses a 1.
 */
export const holdYoungGeneration = (): void => setFlagsFromString('--semi-space-growth-factor=1')

/**
 * Collects what the start has left: V8 would do so in the first call, for 10 ms, and those behind it would wait. The p99 of the first two seconds
 * with 100 calls/s went from 26 and 22 ms to 19 and 16, in turns; the start takes no more CPU. From here on the young generation grows with calls, in
 * larger steps than V8's own: doubled, a paced call had 2 % of its CPU in collections for the first seconds, in place of 0.5 %.
 */
export const collectGarbageOfStart = (): void => {
  findCollector()?.()
  setFlagsFromString('--semi-space-growth-factor=4')
}

/** The object in which process.nextTick() has kept a callback: Node.js shows it as the resource of the callback. */
let heldTick: object | undefined

/** Returns the one that was held before: TypeScript refuses a variable that nothing reads. */
const holdTick = (): object | undefined => {
  process.nextTick(() => {
    heldTick = executionAsyncResource()
  })
  return heldTick
}

/** An object that is held at the start is not enough: those of a process that has run for a while have another shape. */
const tickHoldIntervalMs = 1_000

/**
 * Keeps process.nextTick() fast, which an HTTP call takes 7 times. It keeps each callback in an object with computed names. Once full collections
 * have found no such object in use, V8 drops their shape, and takes 200 ns for each where it took 25, for the rest of the process (Node 20, 22 and
 * 24). So one is held, from the start of the process on.
 */
export const holdTickShape = (every: (ms: number, run: () => void) => unknown): void => {
  holdTick()
  every(tickHoldIntervalMs, holdTick)
}
