import { setImmediate } from 'node:timers/promises'

/** One piece of exactly `length` bytes. Others get their turn after each MiB: 21 MB copied at once take 15 to 22 ms. */
export const concatChunks = async (chunks: readonly Uint8Array[], byteLength: number): Promise<Uint8Array> => {
  const whole = Buffer.allocUnsafe(byteLength)
  let at = 0
  let nextYieldAt = bytesPerTurn
  for (const chunk of chunks) {
    whole.set(chunk, at)
    at += chunk.length
    if (at < nextYieldAt) continue
    nextYieldAt = at + bytesPerTurn
    await setImmediate()
  }
  return whole
}

const bytesPerTurn = 1_048_576
