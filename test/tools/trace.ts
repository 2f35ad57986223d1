import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Client } from 'undici'
import { createDeployment, networkFile } from '../support/deployment.ts'
import type { GatewayProcess } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { openCoverageRecorder } from './call-coverage.ts'
import type { CallCoverage, CoverageRecorder, FunctionCoverage } from './call-coverage.ts'

// npm run trace [-- --json]: the files and functions of a gateway, compiled file by file, that one HTTP call runs through.

/** Before the first measured call: caches, connections and lazily loaded modules are in place. */
const warmUpCalls = 50

/** Each call is measured so many times; only what ran every time belongs to the call, the rest to timers. */
const samplesPerCall = 5

/** What a call leaves behind (usage, cache, GC hints) has run by then. */
const settleMs = 50

const storageValue = `0x${'5'.padStart(64, '0')}`

const storageAt = (slot: number): string =>
  JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'eth_getStorageAt',
    params: ['0x295a70b2de5e3953354a6a8344e616ed314d7251', `0x${slot.toString(16)}`, 'latest'],
  })

/** Posts bodies over one connection; throws where the result is not the node's. */
type PostCall = (body: string) => Promise<void>

const createPostCall =
  (client: Client, path: string): PostCall =>
  async body => {
    const response = await client.request({ path, method: 'POST', headers: { 'content-type': 'application/json' }, body })
    const text = await response.body.text()
    if (!text.includes(storageValue)) throw new Error(`${response.statusCode} ${text}`)
  }

/** The functions that ran in each of several calls, with their least number of calls. */
const traceCall = async (recorder: CoverageRecorder, postCall: PostCall, nextBody: () => string): Promise<CallCoverage> => {
  const samples: CallCoverage[] = []
  while (samples.length < samplesPerCall) {
    // What is due every 500 ms, such as the check whether keys have changed, is done with this call.
    await postCall(nextBody())
    await pause(settleMs)
    await recorder.take()
    await postCall(nextBody())
    await pause(settleMs)
    samples.push(await recorder.take())
  }
  return samples.reduce(intersectCoverage)
}

const intersectCoverage = (one: CallCoverage, other: CallCoverage): CallCoverage =>
  new Map(
    [...one].flatMap(([file, functions]): [string, readonly FunctionCoverage[]][] => {
      const common = functions.flatMap(each => {
        const match = other.get(file)?.find(({ name, line }) => name === each.name && line === each.line)
        return match === undefined ? [] : [{ ...each, calls: Math.min(each.calls, match.calls) }]
      })
      return common.length === 0 ? [] : [[file, common]]
    }),
  )

const inspectorUrlOf = (gateway: GatewayProcess): string => {
  const url = /Debugger listening on (ws:\S+)/.exec(gateway.stderr())?.[1]
  if (url === undefined) throw new Error(`the gateway has no inspector: ${gateway.stderr()}`)
  return url
}

const traceGateway = async (gateway: GatewayProcess, key: string) => {
  const client = new Client(gateway.rpc)
  const recorder = await openCoverageRecorder(inspectorUrlOf(gateway))
  try {
    const postCall = createPostCall(client, new URL(gateway.http(key)).pathname)
    let lastSlot = 0
    const uncachedBody = () => storageAt((lastSlot += 1))
    for (let i = 0; i < warmUpCalls; i += 1) await postCall(i % 2 === 0 ? storageAt(0) : uncachedBody())
    return {
      cached: await traceCall(recorder, postCall, () => storageAt(0)),
      uncached: await traceCall(recorder, postCall, uncachedBody),
    }
  } finally {
    recorder.close()
    await client.destroy()
  }
}

const runTrace = async () => {
  const node = await startFakeNode({
    eth_getStorageAt: { result: storageValue },
    eth_blockNumber: { result: '0x14b1e5a' },
    eth_chainId: { result: '0x7a69' },
    eth_getBlockByNumber: {
      result: { number: '0x14b1e5a', hash: `0x${'b'.repeat(64)}`, parentHash: `0x${'a'.repeat(64)}`, timestamp: '0x67000000' },
    },
  })
  const deployment = createDeployment({
    // A long block time: nothing is polled during a call, and what is cached stays cached.
    networks: { devnet: { ...networkFile('devnet', [node.url]), blockTime: '60m' } },
    nodeOptions: ['--inspect=127.0.0.1:0'],
    // Its modules are the files of the trace; those of the bundle are not.
    program: fileURLToPath(new URL('../../src/main.js', import.meta.url)),
  })
  try {
    const { key } = await deployment.addCaller('trace')
    return await traceGateway(await deployment.start(), key)
  } finally {
    await deployment.remove()
    await node.stop()
  }
}

const formatFunction = ({ name, line, calls }: FunctionCoverage): string => `${name}:${line}${calls > 1 ? ` x${calls}` : ''}`

const formatTrace = (title: string, coverage: CallCoverage): string => {
  const functionCount = [...coverage.values()].flat().length
  const width = Math.max(...[...coverage.keys()].map(file => file.length))
  const lines = [...coverage]
    .sort(([one], [other]) => one.localeCompare(other))
    .map(
      ([file, functions]) => `  ${file.padEnd(width)}  ${String(functions.length).padStart(3)}  ${functions.map(formatFunction).join(' ')}`,
    )
  return [`${title}: ${functionCount} functions in ${coverage.size} files`, ...lines, ''].join('\n')
}

const explanation = `Functions of src and plugins, by file, as name:line, that run in every one of ${samplesPerCall} equal calls of eth_getStorageAt; x2: twice in a call.
Getters, closures and initializers of fields count as functions, and what a call leaves behind within ${settleMs} ms (usage, cache) counts
for the call. A file in which no function runs is not listed, whatever it declares.
`

const { values } = parseArgs({ options: { json: { type: 'boolean', default: false } } })
const { cached, uncached } = await runTrace()
if (values.json) console.log(JSON.stringify({ cached: Object.fromEntries(cached), uncached: Object.fromEntries(uncached) }))
else console.log([explanation, formatTrace('cached HTTP call', cached), formatTrace('uncached HTTP call', uncached)].join('\n'))
