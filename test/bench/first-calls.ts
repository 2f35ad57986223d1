import type { CaseResult } from './cases.ts'
import { createFigure, spreadOf } from './figures.ts'
import { openSession } from './measure.ts'
import { uncachedStorageAtRequest } from './request-templates.ts'
import type { BenchServers, ServerName } from './servers.ts'

/** The first calls of a process run code that V8 has not compiled; each rolling restart has them. */
const load = { durationMs: 2_000, callsPerSecond: 100 }
const connections = 16

/** Target. */
const maxP99Ms = 15

/** What callers wait for in the first two seconds after `listening`. */
export const firstCalls = async (servers: BenchServers): Promise<CaseResult> => {
  const gateway: number[] = []
  const proxy: number[] = []
  for (let i = 0; i < servers.settings.coldStarts; i++) {
    gateway.push(await measureFirstCalls(servers, 'gateway', `v3/${servers.keys.valid}`))
    proxy.push(await measureFirstCalls(servers, 'proxy', ''))
  }
  return {
    rows: [],
    figures: [
      createFigure('p99 of the first calls of tollgate', 'ms', spreadOf(gateway), maxP99Ms),
      createFigure('p99 of the first calls of the parsing proxy', 'ms', spreadOf(proxy)),
    ],
  }
}

const measureFirstCalls = async (servers: BenchServers, name: ServerName, path: string): Promise<number> => {
  const server = await servers.start(name, 'unmonitored')
  try {
    const scenario = { name, server: name, path, transport: 'http:', connections, requests: [uncachedStorageAtRequest] } as const
    const session = await openSession(servers, scenario, server)
    try {
      return (await session.run(load)).p99
    } finally {
      await session.close()
    }
  } finally {
    await server.stop()
  }
}
