import net from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { createDeployment, networkFile } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { post } from '../support/rpc-client.ts'
import type { RpcMessage } from '../support/rpc-client.ts'
import { SeededRandom } from '../simulation/seeded-random.ts'
import { mustBeZero } from './attack.ts'
import type { Attack, AttackOptions, Figure } from './attack.ts'
import { callWithId, httpBytes, webSocketBytes } from './malformed-bytes.ts'

const casesPerScale = 4_000

/** Connections that are open at the same time. */
const maxConcurrentCases = 16
/** After so many cases, a bystander's call must get its own response. */
const casesPerBystanderCall = 20

/** So long a caller waits for the next byte before it leaves. */
const quietMs = 40

export interface FuzzBytesOptions {
  /** `http://HOST:PORT`, and `ws://HOST:PORT`; a path is ignored. */
  readonly url: string
  readonly wsUrl: string
  readonly apiKey: string
  readonly seed: number
  /** How many byte sequences are sent, each on a connection of its own. */
  readonly count: number
  /** A connection that is still open so long after its caller has closed its side hangs: `maxResponseMs` unless given. */
  readonly hungAfterMs?: number
  log(line: string): void
}

export interface FuzzBytesResult {
  readonly sent: number
  /** Connections that did not close after their caller had left. */
  readonly hung: number
  /** Connections and bystanders that were refused, and bystanders that got no response: the gateway is gone, blocked, or full. */
  readonly refused: number
  /** Responses with the id or the result of another caller. */
  readonly crossed: number
}

type Fault = Exclude<keyof FuzzBytesResult, 'sent'>

/** Sends malformed HTTP requests and WebSocket frames, in pieces, cut off and reset, with well-formed calls of a bystander in between. */
export async function runFuzzBytes(options: FuzzBytesOptions): Promise<FuzzBytesResult> {
  const { url, wsUrl, apiKey, seed, count, hungAfterMs = maxResponseMs, log } = options
  const counts = { sent: 0, hung: 0, refused: 0, crossed: 0 }
  const record = (fault: Fault, detail: string): void => {
    counts[fault] += 1
    log(`${fault}: ${detail}`)
  }
  const runCase = async (number: number): Promise<void> => {
    const random = new SeededRandom(seed * 1_000_003 + number)
    const isHttp = number % 2 === 0
    const address = new URL(isHttp ? url : wsUrl)
    const id = `fuzz-${number}-`
    const bytes = (isHttp ? httpBytes : webSocketBytes)({ host: address.host, apiKey }, id, random)
    counts.sent += 1
    const { fault, received } = await exchange(address, bytes, random, hungAfterMs)
    if (fault !== undefined) record(fault, `case ${number}: ${JSON.stringify(bytes.slice(0, maxLoggedBytes))}`)
    const otherId = findOtherId(received, id, bytes)
    if (otherId !== undefined) record('crossed', `case ${number} got ${otherId}`)
  }
  const runBystander = async (number: number): Promise<void> => {
    const id = `bystander-${number}`
    const message = await callBystander(url, apiKey, id).catch((error: Error) => record('refused', `${id}: ${error.message}`))
    if (message?.error !== undefined) record('refused', `${id}: ${JSON.stringify(message)}`)
    else if (message !== undefined && (message.id !== id || message.result !== result))
      record('crossed', `${id} got ${JSON.stringify(message)}`)
  }
  const { result } = await callBystander(url, apiKey, 'bystander')
  let nextNumber = 0
  const runCases = async (): Promise<void> => {
    while (nextNumber < count) {
      const number = nextNumber++
      await runCase(number)
      if (number % casesPerBystanderCall === 0) await runBystander(number)
    }
  }
  await Promise.all(Array.from({ length: maxConcurrentCases }, runCases))
  return counts
}

const maxLoggedBytes = 2_000
/** A bystander without a response for so long has been refused. */
const maxResponseMs = 15_000

const callBystander = async (url: string, apiKey: string, id: string): Promise<RpcMessage> => {
  const target = new URL(`/v3/${apiKey}`, url).href
  return (await post(target, callWithId(id), { signal: AbortSignal.timeout(maxResponseMs) })).json()
}

/** An id in the response that was not in the request; the own one may be split there, by a chunk. */
const findOtherId = (received: string, ownId: string, sent: string): string | undefined =>
  received.match(/fuzz-\d+-|bystander-\d+/g)?.find(id => id !== ownId && !sent.includes(id))

/** What a caller receives who sends these bytes, waits for a while, and leaves. */
const exchange = async (
  { hostname, port }: URL,
  bytes: string,
  random: SeededRandom,
  hungAfterMs: number,
): Promise<{ readonly fault: Fault | undefined; readonly received: string }> => {
  const socket = net.connect({ host: hostname.replace(/[[\]]/g, ''), port: Number(port) }).setEncoding('latin1')
  let received = ''
  let fault: Fault | undefined
  socket.on('data', chunk => {
    received += chunk
  })
  socket.on('error', ({ code }: NodeJS.ErrnoException) => {
    if (code === 'ECONNREFUSED') fault = 'refused' // any other error is a reset
  })
  const closed = new Promise<void>(resolve => socket.on('close', () => resolve()))
  const sent = random.chance(0.15) ? bytes.slice(0, random.integer(0, bytes.length)) : bytes
  for (const piece of splitAtRandom(sent, random)) {
    socket.write(piece, 'latin1')
    if (random.chance(0.5)) await wait(random.integer(0, 3))
  }
  await Promise.race([closed, waitForQuiet(() => received.length)])
  if (random.chance(0.3)) socket.resetAndDestroy()
  else socket.end()
  const timer = setTimeout(() => {
    fault = 'hung'
    socket.destroy()
  }, hungAfterMs)
  await closed
  clearTimeout(timer)
  return { fault, received }
}

const waitForQuiet = async (receivedChars: () => number): Promise<void> => {
  for (let last = -1; receivedChars() !== last; await wait(quietMs)) last = receivedChars()
}

/** One to four pieces, now and then each byte by itself. */
const splitAtRandom = (text: string, random: SeededRandom): readonly string[] => {
  if (text.length < 1_000 && random.chance(0.05)) return [...text]
  const cuts = Array.from({ length: random.integer(0, 3) }, () => random.integer(0, text.length)).sort((one, other) => one - other)
  return [0, ...cuts].map((from, i) => text.slice(from, cuts[i]))
}

const fuzzBytes = async ({ seed, scale, log }: AttackOptions): Promise<readonly Figure[]> => {
  const node = await startFakeNode({ eth_chainId: { result: '0x7a69' }, eth_blockNumber: { result: '0x10' } })
  const deployment = createDeployment({ networks: { fuzz: networkFile('fuzz', [node.url]) } })
  try {
    const { key } = await deployment.addCaller('attacker', 'custom')
    const gateway = await deployment.start()
    const result = await runFuzzBytes({ url: gateway.rpc, wsUrl: gateway.rpc, apiKey: key, seed, count: casesPerScale * scale, log })
    const code = await gateway.stop() // the last lines of the log count too
    return [
      { name: 'byte sequences', value: result.sent },
      mustBeZero('connections that did not close', result.hung),
      mustBeZero('refused connections and bystanders', result.refused),
      mustBeZero("responses of another caller's", result.crossed),
      mustBeZero('errors in the log', gateway.log.filter(({ level }) => Number(level) >= 50).length),
      mustBeZero('bytes on stderr', gateway.stderr().length),
      mustBeZero('exit code of the gateway', code ?? 1),
    ]
  } finally {
    await deployment.remove()
    await node.stop()
  }
}

export const byteFuzz: Attack = {
  name: 'fuzz-bytes',
  summary: 'malformed HTTP requests and WebSocket frames, cut off and reset',
  run: fuzzBytes,
}
