import { createDeployment, networkFile } from '../support/deployment.ts'
import { defaultBlockTimeMs, expectedResultOf, startFaultyNode } from '../support/faulty-node.ts'
import type { FaultyNode } from '../support/faulty-node.ts'
import { malformedResponses } from '../support/malformed-responses.ts'
import { faults, respondFromOtherChain, swapResponses } from '../support/node-faults.ts'
import { envelope, exceptChainId, httpResponse, respondCorrectly } from '../support/node-responses.ts'
import type { NodeFault } from '../support/node-responses.ts'
import { post } from '../support/rpc-client.ts'
import { SeededRandom } from '../simulation/seeded-random.ts'
import { mustBeZero } from './attack.ts'
import type { Attack, AttackOptions } from './attack.ts'
import { encodedSecrets, quotingNodes, secretPath, secretUser } from './secret-quotes.ts'

/** A node that harms its callers, and the calls that it gets. */
interface MaliciousKind {
  readonly name: string
  readonly fault: NodeFault
  readonly method: Method
  /** The node may answer with an error of its own, which no other node corrects. */
  readonly mayAnswerErrors: boolean
}

type Method = keyof typeof paramsOf

const hashOf = (number: number): string => `0x${number.toString(16).padStart(64, '0')}`

/** Each number gives another request, except for blocks. */
const paramsOf = {
  eth_call: (number: number) => [{ to: `0x${'11'.repeat(20)}`, data: `0x${number.toString(16).padStart(16, '0')}` }, 'latest'],
  eth_getLogs: (number: number) => [{ address: `0x${'11'.repeat(20)}`, fromBlock: '0x5', toBlock: '0x5', topics: [hashOf(number)] }],
  eth_getBlockByNumber: (number: number) => [`0x${(1 + (number % 9)).toString(16)}`, false],
  eth_getBlockByHash: (number: number) => [hashOf(1 + (number % 9)), false],
  eth_getTransactionReceipt: (number: number) => [hashOf(number)],
} as const

/** Answers the method with another result, and everything else correctly. */
const changeResult =
  (method: Method, change: (result: string) => string): NodeFault =>
  (socket, request) =>
    request.method === method
      ? void socket.write(httpResponse(envelope(request.id, `"result":${change(request.expectedResult)}`)))
      : respondCorrectly(socket, request)

const wrongResults: readonly (readonly [name: string, method: Method, change: (result: string) => string])[] = [
  ...['null', '{}', '"0x"', '0', 'true'].map(text => [`logs that are ${text}`, 'eth_getLogs', () => text] as const),
  ['logs of a block above the range', 'eth_getLogs', logs => logs.replace('"blockNumber":"0x5"', '"blockNumber":"0x6"')],
  ['logs of a block below the range', 'eth_getLogs', logs => logs.replace('"blockNumber":"0x5"', '"blockNumber":"0x4"')],
  ['logs of no block', 'eth_getLogs', logs => logs.replace('"blockNumber":"0x5"', '"blockNumber":null')],
  ['logs of another address', 'eth_getLogs', logs => logs.replaceAll(`0x${'11'.repeat(20)}`, `0x${'22'.repeat(20)}`)],
  ['logs of which the last is wrong', 'eth_getLogs', logs => `${logs.slice(0, -1)},${logs.slice(1).replace('"0x5"', '"0x7"')}`],
  ['a block of another number', 'eth_getBlockByNumber', block => block.replace(/"number":"0x./, '"number":"0xf')],
  ['a block without a number', 'eth_getBlockByNumber', block => block.replace(/"number":"0x.",/, '')],
  ['a text for a block', 'eth_getBlockByNumber', () => '"0x1"'],
  ['a block of another hash', 'eth_getBlockByHash', block => block.replace(/"hash":"0x00/, '"hash":"0xff')],
  ['a receipt of another transaction', 'eth_getTransactionReceipt', receipt => receipt.replace('Hash":"0x00', 'Hash":"0xff')],
  ['a list for a receipt', 'eth_getTransactionReceipt', receipt => `[${receipt}]`],
]

const kindsOf = (): readonly MaliciousKind[] => [
  ...Object.entries({ ...faults, 'is on another chain': respondFromOtherChain, 'swaps responses': swapResponses() }).map(
    ([name, fault]): MaliciousKind => ({
      name,
      fault: fault === respondFromOtherChain ? fault : exceptChainId(fault),
      method: 'eth_call',
      mayAnswerErrors: false,
    }),
  ),
  ...Object.entries(malformedResponses)
    .filter(([name]) => !/^status (?!0 |99 |100 |101 |199 |999 )/.test(name))
    .map(
      ([name, text]): MaliciousKind => ({
        name: JSON.stringify(name),
        fault: exceptChainId(socket => void socket.end(text, 'latin1')),
        method: 'eth_call',
        mayAnswerErrors: false,
      }),
    ),
  ...wrongResults.map(
    ([name, method, change]): MaliciousKind => ({ name, fault: changeResult(method, change), method, mayAnswerErrors: false }),
  ),
  ...quotingNodes.map(({ name, fault, isRetried }): MaliciousKind => ({ name, fault, method: 'eth_call', mayAnswerErrors: !isRetried })),
]

export interface MaliciousNodesOptions {
  readonly seed: number
  /** Calls in all: at least 3 for each kind that is tried. */
  readonly count: number
  log(line: string): void
}

export interface MaliciousNodesResult {
  readonly kinds: number
  readonly calls: number
  /** Calls whose response was not the right one. */
  readonly wrong: number
  /** Calls without a response. */
  readonly hung: number
  /** Secrets of upstream URLs in responses, the log and the metrics. */
  readonly secrets: number
}

const callsPerKind = 3
const maxConcurrentKinds = 6
const hungAfterMs = 15_000

/** Networks of one malicious and one healthy node each: every call gets the right response, whatever the first node does. */
export async function runMaliciousNodes({ seed, count, log }: MaliciousNodesOptions): Promise<MaliciousNodesResult> {
  const random = new SeededRandom(seed)
  const shuffled = kindsOf()
    .map(kind => ({ kind, order: random.between(0, 1e9) }))
    .sort((a, b) => a.order - b.order)
  const kinds = shuffled.map(({ kind }) => kind).slice(0, Math.max(1, Math.floor(count / callsPerKind)))
  const healthy = await startFaultyNode()
  const nodes = await Promise.all(kinds.map(({ fault }) => startFaultyNode(fault)))
  const deployment = createDeployment({
    gateway: { log: 'debug' },
    networks: Object.fromEntries(nodes.map((node, i) => [`net-${i}`, networkOf(`net-${i}`, node, healthy)])),
  })
  try {
    const { key } = await deployment.addCaller('alice', 'growth')
    const gateway = await deployment.start()
    const run = new MaliciousRun(gateway.http(key), { calls: Math.max(callsPerKind, Math.round(count / kinds.length)), seed, log })
    const queue = [...kinds.entries()]
    const work = async (): Promise<void> => {
      for (let next = queue.shift(); next !== undefined; next = queue.shift()) await run.tryKind(next[1], `net-${next[0]}.test`)
    }
    await Promise.all(Array.from({ length: maxConcurrentKinds }, work))
    const metrics = await (await fetch(`${gateway.admin}/metrics`)).text()
    run.findSecrets('the metrics', metrics)
    await gateway.stop()
    run.findSecrets('the log', `${JSON.stringify(gateway.log)}${gateway.stderr()}`)
    return { kinds: kinds.length, ...run.counts }
  } finally {
    await deployment.remove()
    await Promise.all([healthy, ...nodes].map(node => node.stop()))
  }
}

/** Short times: a node that does not respond takes one of them. */
const networkOf = (name: string, node: FaultyNode, healthy: FaultyNode): object => ({
  ...networkFile(name, [`${node.url.replace('//', `//${secretUser}@`)}${secretPath}`, healthy.url], {
    upstream: { timeout: '1500ms', maxBytes: '64KiB', probeAfter: '300ms' },
  }),
  blockTime: `${defaultBlockTimeMs}ms`,
  hosts: [`${name}.test`],
})

class MaliciousRun {
  readonly counts = { calls: 0, wrong: 0, hung: 0, secrets: 0 }
  readonly #url: string
  readonly #options: { readonly calls: number; readonly seed: number; log(line: string): void }

  constructor(url: string, options: { readonly calls: number; readonly seed: number; log(line: string): void }) {
    this.#url = url
    this.#options = options
  }

  async tryKind(kind: MaliciousKind, host: string): Promise<void> {
    for (let i = 0; i < this.#options.calls; i++) await this.#call(kind, host)
  }

  findSecrets(where: string, text: string): void {
    const lowerCase = text.toLowerCase()
    for (const { encoding, text: secret } of encodedSecrets) {
      if (!lowerCase.includes(secret.toLowerCase())) continue
      this.counts.secrets += 1
      this.#options.log(`${where}: a secret in ${encoding}: ${secret}`)
    }
  }

  async #call({ name, method, mayAnswerErrors }: MaliciousKind, host: string): Promise<void> {
    const id = (this.counts.calls += 1)
    const params = paramsOf[method](this.#options.seed * 100_003 + id)
    const body = JSON.stringify({ jsonrpc: '2.0', id, method, params })
    const response = await post(this.#url, body, { host, signal: AbortSignal.timeout(hungAfterMs) }).catch(() => undefined)
    if (response === undefined) {
      this.counts.hung += 1
      return this.#options.log(`${name}: no response`)
    }
    this.findSecrets(name, `${response.text}${JSON.stringify(response.headers)}`)
    const { id: responseId, result, error } = response.json()
    const isRight =
      error === undefined ? JSON.stringify(result) === expectedResultOf(method, params) : mayAnswerErrors && error.code === quotedErrorCode
    if (isRight && responseId === id) return
    this.counts.wrong += 1
    this.#options.log(`${name}: ${response.status} ${response.text.slice(0, 300)}`)
  }
}

/** What the nodes that quote secrets answer. */
const quotedErrorCode = 3

const callsPerScale = 360

export const maliciousNodes: Attack = {
  name: 'malicious-nodes',
  summary: 'nodes that break HTTP, JSON-RPC and their word, each beside a healthy node',
  async run({ seed, scale, log }: AttackOptions) {
    const { kinds, calls, wrong, hung, secrets } = await runMaliciousNodes({ seed, count: callsPerScale * scale, log })
    return [
      { name: 'kinds of nodes', value: kinds },
      { name: 'calls', value: calls },
      mustBeZero('wrong responses', wrong),
      mustBeZero('calls without a response', hung),
      mustBeZero('secrets of upstreams', secrets),
    ]
  },
}
