import { setImmediate } from 'node:timers/promises'

/** One piece of exactly `length` bytes. Others get their turn after each MiB: 21 MB copied at once take 15 to 22 ms. */
export const join = async (chunks: readonly Uint8Array[], length: number): Promise<Uint8Array> => {
  const whole = Buffer.allocUnsafe(length)
  let at = 0
  let turn = slice
  for (const chunk of chunks) {
    whole.set(chunk, at)
    at += chunk.length
    if (at < turn) continue
    turn = at + slice
    await setImmediate()
  }
  return whole
}

const slice = 1_048_576
