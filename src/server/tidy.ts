import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Bytes of answers after which the memory they took is asked back. */
const step = 4 << 20

/**
 * Takes back the memory of long answers as soon as they have been sent. Left to itself V8 waits until 32 MB of them lie
 * about, so that answers of 6 MB, one after the other, take 36 MB. A collection of what is young takes 1 ms.
 */
export const openTidy = (): (length: number) => void => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as (options: { type: 'minor' }) => void // what the flag puts into new contexts
  setFlagsFromString('--no-expose-gc')
  let sent = 0
  return length => {
    sent += length
    if (sent < step) return
    sent = 0
    collect({ type: 'minor' })
  }
}
