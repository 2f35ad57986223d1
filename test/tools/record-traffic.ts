import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { callsOf, recordingUrl } from '../bench/recorded-traffic.ts'
import type { RecordedCall, RecordedMessage } from '../bench/recorded-traffic.ts'
import { listen, readBody, sendJson } from '../bench/baselines/baseline-server.ts'
import { cannedResults } from '../bench/request-templates.ts'
import { startAnvilChain } from '../support/anvil-chain.ts'
import type { AnvilChain } from '../support/anvil-chain.ts'
import { dappWorks } from './dapp-work.ts'
import { deployToken } from './token-contracts.ts'

// node dist/test/tools/record-traffic.js: records what client libraries send to anvil, for `npm run bench -- --only recorded`.

/** The recorded blocks end at the latest block of the benchmark's node. */
const lastBlock = Number(cannedResults['eth_blockNumber'])
const firstBlock = lastBlock - 40

const blockSeconds = 12
const genesisSeconds = 0x67000000

/** A transaction is mined after so many further messages: its sender polls, as it does on a network with a block time. */
const messagesBeforeBlock = 6

type Message = RecordedMessage['message']

/** Counts messages by client and JSON text. */
class TrafficRecorder {
  readonly #messages = new Map<string, Omit<RecordedMessage, 'results'>>()

  /** Leaves transactions out: the benchmark repeats each message, and a node refuses a transaction that it has. */
  record(client: string, received: Message): void {
    if (callsOf({ message: received }).some(({ method }) => method === 'eth_sendRawTransaction')) return
    const message = 'method' in received ? withId(received, 1) : received.map((call, i) => withId(call, i + 1))
    const key = client + JSON.stringify(message)
    this.#messages.set(key, { client, count: (this.#messages.get(key)?.count ?? 0) + 1, message })
  }

  /** Asks the node for all results at its last block, so that they agree with one another. */
  async format(chain: AnvilChain): Promise<string> {
    const lines: string[] = []
    for (const recorded of this.#messages.values()) {
      const results: unknown[] = []
      for (const { method, params = [] } of callsOf(recorded)) results.push(await chain.request<unknown>(method, ...params))
      lines.push(`${JSON.stringify({ ...recorded, results } satisfies RecordedMessage)}\n`)
    }
    return lines.join('')
  }
}

const withId = (call: RecordedCall, id: number): RecordedCall => ({ ...call, id })

/** Records what `client` sends through a proxy on its way to the node. */
const recordClient = async (client: string, recorder: TrafficRecorder, chain: AnvilChain, token: `0x${string}`): Promise<void> => {
  let messagesUntilBlock = Infinity
  const proxy = createServer(async (req, res) => {
    const body = await readBody(req)
    const message = JSON.parse(body) as Message // only client libraries send messages here
    recorder.record(client, message)
    const response = await fetch(chain.url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
    sendJson(res, await response.text())
    if (callsOf({ message }).some(({ method }) => method === 'eth_sendRawTransaction')) messagesUntilBlock = messagesBeforeBlock
    else messagesUntilBlock -= 1
    if (messagesUntilBlock === 0) await chain.request('evm_mine')
  })
  const port = await listen(proxy)
  await dappWorks[client]?.(`http://127.0.0.1:${port}`, token)
  proxy.closeAllConnections()
  proxy.close()
}

const options = ['--chain-id', '1337', '--number', String(firstBlock), '--timestamp', String(genesisSeconds)]
const chain = await startAnvilChain(...options)
await chain.request('anvil_setBlockTimestampInterval', blockSeconds)
const token = await deployToken(chain)
await chain.request('evm_setAutomine', false)
const recorder = new TrafficRecorder()
for (const client of Object.keys(dappWorks)) await recordClient(client, recorder, chain, token)
const height = Number(await chain.request('eth_blockNumber'))
await chain.request('anvil_mine', `0x${(lastBlock - height).toString(16)}`)
writeFileSync(recordingUrl, await recorder.format(chain))
await chain.stop()
process.exit() // web3 goes on asking for blocks
