import { setTimeout as pause } from 'node:timers/promises'
import { createDeployment, networkFile } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import type { FakeNode } from '../support/fake-node.ts'
import { call } from '../support/rpc-client.ts'
import type { CaseResult } from './cases.ts'
import { createFigure, spreadOf } from './figures.ts'

const blockTimeMs = 1_000
const blocksPerRound = 10
const rounds = 3
/** A caller asks for the height so often. */
const callIntervalMs = 50

/** Target, while a caller asks for the height 20 times a block. */
const maxPollsPerBlock = 3

/** The requests with which the gateway follows the head of a node without a subscription. */
export const blockPolls = async (): Promise<CaseResult> => {
  const node = await startMiningNode()
  const network = { ...networkFile('polled', [node.url]), blockTime: `${blockTimeMs}ms` }
  const deployment = createDeployment({ gateway: { log: 'error' }, networks: { polled: network } })
  try {
    const { key } = await deployment.addCaller('caller', 'custom')
    const url = (await deployment.start()).http(key)
    const pollsPerBlock: number[] = []
    for (let round = 0; round < rounds; round += 1) pollsPerBlock.push(await countPolls(node, url))
    return {
      rows: [],
      figures: [createFigure('polls of a node for its head, per block of 1 s', '×', spreadOf(pollsPerBlock), maxPollsPerBlock)],
    }
  } finally {
    await deployment.remove()
    await node.stop()
  }
}

/** A node with a new block each second of the clock. */
const startMiningNode = (): Promise<FakeNode> => {
  const height = () => Math.floor(Date.now() / blockTimeMs)
  const hashOf = (number: number) => `0x${number.toString(16).padStart(64, '0')}`
  const block = () => ({ number: `0x${height().toString(16)}`, hash: hashOf(height()), parentHash: hashOf(height() - 1) })
  return startFakeNode({
    eth_chainId: { result: '0x7a69' },
    eth_blockNumber: () => ({ result: `0x${height().toString(16)}` }),
    eth_getBlockByNumber: ({ params }) => ({ result: params[0] === 'latest' ? block() : null }),
  })
}

const countPolls = async (node: FakeNode, url: string): Promise<number> => {
  const before = node.received.length
  const endMs = performance.now() + blocksPerRound * blockTimeMs
  while (performance.now() < endMs) {
    await call(url, 'eth_blockNumber')
    await pause(callIntervalMs)
  }
  // Calls of eth_blockNumber that no answer in memory serves reach the node too: they are the caller's, not polls.
  const polls = node.received.slice(before).filter(({ method, params }) => method === 'eth_getBlockByNumber' && params[0] === 'latest')
  return polls.length / blocksPerRound
}
