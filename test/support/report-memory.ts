import { writeSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'

// Loaded into a gateway before anything else (memory.ts), with --expose-gc. On SIGUSR2 garbage is collected, and a line on
// stdout, among those of the log, tells what is left.

let reportCount = 0

process.on('SIGUSR2', async () => {
  // What the first finds unused may hold on to more until it has been finalized; memory outside the heap is freed beside.
  for (let i = 0; i < 3; i++) {
    gc?.()
    await wait(50)
  }
  const { heapUsed, external } = process.memoryUsage()
  writeSync(1, `${JSON.stringify({ event: `memory ${(reportCount += 1)}`, live: heapUsed + external })}\n`)
})
