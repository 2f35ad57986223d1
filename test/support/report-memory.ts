import { writeSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'

// Loaded into a gateway with --import and --expose-gc (process-memory.ts). On SIGUSR2 it collects garbage, and prints the
// remaining memory as a line on stdout, like a log line.

const collectionCount = 3
const finalizationMs = 50

let reportCount = 0

process.on('SIGUSR2', async () => {
  // Objects may refer to others until they have been finalized, and external memory is freed asynchronously.
  for (let i = 0; i < collectionCount; i++) {
    gc?.()
    await wait(finalizationMs)
  }
  const { heapUsed: heap, external } = process.memoryUsage()
  writeSync(1, `${JSON.stringify({ event: `memory ${process.pid} ${(reportCount += 1)}`, heap, external })}\n`)
})
