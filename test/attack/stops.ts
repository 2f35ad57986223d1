import { Agent } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import { SeededRandom } from '../simulation/seeded-random.ts'
import { createDeployment, networkFile } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { mustBeZero } from './attack.ts'
import type { Attack } from './attack.ts'
import { sendCall } from './restarts.ts'

export interface StopsOptions {
  readonly stops: number
  /** Undefined for the default. */
  readonly grace: string | undefined
  readonly seed: number
  log(line: string): void
}

/** Callers that open a connection for each call, and callers that keep theirs for as long as the gateway lets them. */
const callerCounts = { fresh: 48, keepAlive: 16 } as const
const maxPauseMs = 40
const loadBeforeStopMs = 500

const expected = '{"jsonrpc":"2.0","id":1,"result":"0x7a69"}'

/**
 * Stops a gateway with two workers under load, without a load balancer. Callers end once their connections are refused: until then,
 * each call is to be answered.
 */
export const runStops = async ({ stops, grace, seed, log }: StopsOptions): Promise<{ readonly calls: number; readonly lost: number }> => {
  const node = await startFakeNode({ eth_chainId: { result: '0x7a69' } })
  const gatewayYaml = { workers: 2, log: 'warn', ...(grace !== undefined && { drain: { grace } }) }
  const deployment = createDeployment({ gateway: gatewayYaml, networks: { testnet: networkFile('testnet', [node.url]) } })
  const random = new SeededRandom(seed)
  let [calls, lost] = [0, 0]
  try {
    const { key } = await deployment.addCaller('alice', 'custom')
    for (let i = 0; i < stops; i++) {
      const gateway = await deployment.start()
      const callers = [
        ...Array.from({ length: callerCounts.fresh }, () => callUntilRefused(gateway.http(key), new Agent(), random)),
        ...Array.from({ length: callerCounts.keepAlive }, () =>
          callUntilRefused(gateway.http(key), new Agent({ keepAlive: true, maxSockets: 1 }), random),
        ),
      ]
      await setTimeout(loadBeforeStopMs)
      const code = await gateway.stop()
      if (code !== 0) throw new Error(`the gateway exited with ${code}`)
      for (const { answered, failures } of await Promise.all(callers)) {
        calls += answered + failures.length
        lost += failures.length
        for (const failure of failures) log(failure)
      }
    }
    return { calls, lost }
  } finally {
    await deployment.remove()
    await node.stop()
  }
}

interface CallerResult {
  readonly answered: number
  readonly failures: readonly string[]
}

const callUntilRefused = async (url: string, agent: Agent, random: SeededRandom): Promise<CallerResult> => {
  const failures: string[] = []
  for (let answered = 0; ; ) {
    await setTimeout(maxPauseMs * random.next())
    const answer = await sendCall(agent, url, 'eth_chainId').catch((error: NodeJS.ErrnoException) => error)
    if (answer === expected) answered += 1
    else if (answer instanceof Error && answer.code === 'ECONNREFUSED') return { answered, failures }
    else failures.push(String(answer))
  }
}

/** For each step of the scale. */
const stopsByGrace = [
  ['0s', 2],
  [undefined, 1],
] as const

export const stops: Attack = {
  name: 'stops',
  summary: 'stops a gateway with two workers under calls on new connections and on kept ones',
  async run({ seed, scale, log }) {
    let [count, calls, lost] = [0, 0, 0]
    for (const [grace, perScale] of stopsByGrace) {
      const stops = Math.max(1, Math.round(perScale * scale))
      const result = await runStops({ stops, grace, seed, log })
      count += stops
      calls += result.calls
      lost += result.lost
    }
    return [{ name: 'stops', value: count }, { name: 'calls', value: calls }, mustBeZero('calls lost', lost)]
  },
}
