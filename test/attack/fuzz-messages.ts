import { createHash } from 'node:crypto'
import { createDeployment, networkFile } from '../support/deployment.ts'
import type { GatewayProcess } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import type { ReceivedRequest, ScriptedResponse } from '../support/fake-node.ts'
import { connectWs, post } from '../support/rpc-client.ts'
import type { WsClient } from '../support/rpc-client.ts'
import { SeededRandom } from '../simulation/seeded-random.ts'
import { mustBeZero } from './attack.ts'
import type { Attack, AttackOptions, Figure } from './attack.ts'
import { mutate } from './mutate.ts'
import { findFault } from './rpc-invariants.ts'

const messagesPerScale = 6_000

/** After so many changed messages a bystander's call must get its own result. */
const messagesPerBystanderCall = 50

/** From this time on an answer counts as missing. */
const hungAfterMs = 15_000

const address = '0x295a70b2de5e3953354a6a8344e616ed314d7251'
const hash = `0x${'ab'.repeat(32)}`
const storageAt = (position: string, id: number): object => ({
  jsonrpc: '2.0',
  id,
  method: 'eth_getStorageAt',
  params: [address, position, 'latest'],
})

const originals: readonly [string, ...string[]] = [
  JSON.stringify(storageAt('0x1', 1)),
  JSON.stringify({ jsonrpc: '2.0', id: 'a-string', method: 'eth_blockNumber', params: [] }),
  JSON.stringify({ jsonrpc: '2.0', id: null, method: 'eth_getTransactionReceipt', params: [hash] }),
  JSON.stringify({ jsonrpc: '2.0', method: 'eth_chainId' }),
  // An id that a JavaScript number cannot hold.
  `{"jsonrpc":"2.0","id":9007199254740993,"method":"eth_getLogs","params":[{"address":["${address}"],"fromBlock":"0x1","topics":[null,["${hash}"]]}]}`,
  JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'eth_call', params: [{ to: address, data: '0x00', value: '0x0' }, 'latest', {}] }),
  JSON.stringify([storageAt('0x2', 2), storageAt('0x3', 3), { jsonrpc: '2.0', method: 'eth_blockNumber', params: [] }]),
  JSON.stringify([1, {}, null, storageAt('0x4', 4)], undefined, 1),
]

/** A storage word that belongs to one position: a result of another call is recognized. */
const wordAt = (position: unknown): string => `0x${createHash('sha256').update(String(position)).digest('hex')}`

const answerStorageAt = ({ params }: ReceivedRequest): ScriptedResponse => ({ result: wordAt(params[1]) })

const startNode = () =>
  startFakeNode({
    eth_chainId: { result: '0x7a69' },
    eth_blockNumber: { result: '0x10' },
    eth_getStorageAt: answerStorageAt,
    eth_getTransactionReceipt: { result: null },
    eth_getLogs: { result: [] },
    eth_call: { result: '0x' },
  })

/** What happened to the messages of a run. */
class FuzzRecord {
  readonly counts = { messages: 0, hung: 0, faulty: 0, crossed: 0 }
  readonly #log: (line: string) => void

  constructor(log: (line: string) => void) {
    this.#log = log
  }

  recordResponse(message: string, response: string, status?: number): void {
    const fault = findFault(message, response, status)
    if (fault !== undefined) this.#record('faulty', `${fault}\n  message: ${message}\n  response: ${response}`)
  }

  recordHung(message: string): void {
    this.#record('hung', `no response\n  message: ${message}`)
  }

  recordBystander(expected: string, result: unknown): void {
    if (result !== expected) this.#record('crossed', `a bystander got ${JSON.stringify(result)} for ${expected}`)
  }

  #record(kind: 'hung' | 'faulty' | 'crossed', detail: string): void {
    this.counts[kind] += 1
    this.#log(detail)
  }
}

const callBystander = async (url: string, number: number, record: FuzzRecord): Promise<void> => {
  const position = `0x${(1_000 + number).toString(16)}`
  const response = await post(url, JSON.stringify(storageAt(position, number)))
  record.recordBystander(wordAt(position), response.json().result)
}

const fuzzHttp = async (url: string, messages: readonly string[], record: FuzzRecord): Promise<void> => {
  for (const message of messages) {
    record.counts.messages += 1
    if (record.counts.messages % messagesPerBystanderCall === 0) await callBystander(url, record.counts.messages, record)
    try {
      const { text, status } = await post(url, message, { signal: AbortSignal.timeout(hungAfterMs) })
      record.recordResponse(message, text, status)
    } catch {
      record.recordHung(message)
    }
  }
}

/** The text responses up to the response to a call that is sent behind the message; undefined when that one is missing. */
const exchange = async (client: WsClient, message: string, marker: number): Promise<readonly unknown[] | undefined> => {
  const responses: unknown[] = []
  client.send(message)
  client.send(JSON.stringify({ jsonrpc: '2.0', id: `marker-${marker}`, method: 'eth_chainId', params: [] }))
  const timer = setTimeout(() => client.socket.terminate(), hungAfterMs)
  try {
    for (;;) {
      const response = await client.nextMessage()
      if (response.id === `marker-${marker}`) return responses
      responses.push(response)
    }
  } catch {
    return undefined
  } finally {
    clearTimeout(timer)
  }
}

const fuzzWebSocket = async (url: string, messages: readonly string[], record: FuzzRecord): Promise<void> => {
  let client = await connectWs(url)
  for (const [marker, message] of messages.entries()) {
    record.counts.messages += 1
    const responses = await exchange(client, message, marker)
    // Responses to earlier messages may come late: only their form is checked.
    if (responses === undefined) {
      record.recordHung(message)
      client = await connectWs(url)
    } else for (const response of responses) record.recordResponse('', JSON.stringify(response))
  }
  await client.close()
}

const secretsIn = (gateway: GatewayProcess, key: string): number =>
  [...gateway.log.map(line => JSON.stringify(line)), gateway.stderr()].filter(text => text.includes(key)).length

const fuzzMessages = async ({ seed, scale, log }: AttackOptions): Promise<readonly Figure[]> => {
  const random = new SeededRandom(seed)
  const record = new FuzzRecord(log)
  const node = await startNode()
  const deployment = createDeployment({ networks: { fuzz: networkFile('fuzz', [node.url]) } })
  try {
    const { key } = await deployment.addCaller('attacker', 'custom')
    const gateway = await deployment.start()
    const changed = (count: number) => Array.from({ length: count }, () => mutate(random.pick([...originals]), random))
    const half = Math.ceil((messagesPerScale * scale) / 2)
    await fuzzHttp(gateway.http(key), changed(half), record)
    await fuzzWebSocket(gateway.ws(key), changed(half), record)
    const code = await gateway.stop() // the last lines of the log count too
    return [
      { name: 'messages', value: record.counts.messages },
      mustBeZero('messages without a response', record.counts.hung),
      mustBeZero('responses that break a rule of JSON-RPC', record.counts.faulty),
      mustBeZero("bystanders with another call's result", record.counts.crossed),
      mustBeZero('log lines with an API key', secretsIn(gateway, key)),
      mustBeZero('errors in the log', gateway.log.filter(line => Number(line['level']) >= 50).length),
      mustBeZero('exit code of the gateway', code ?? 1),
    ]
  } finally {
    await deployment.remove()
    await node.stop()
  }
}

export const messageFuzz: Attack = {
  name: 'fuzz-messages',
  summary: 'changed JSON-RPC messages, over HTTP and WebSocket',
  run: fuzzMessages,
}
