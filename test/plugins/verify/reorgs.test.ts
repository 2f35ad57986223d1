import t from '../../support/tap.ts'
import { headerHashOf } from '../../../plugins/verify/block-header.ts'
import { toHex } from '../../../plugins/verify/hex.ts'
import { logsBloomOf } from '../../../plugins/verify/logs-bloom.ts'
import { provableMethods } from '../../../plugins/verify/provable-methods.ts'
import type { Json, Request } from '../../../src/plugin/call.ts'
import { toHexQuantity } from '../../../src/util/json.ts'
import { account, answerAt, branchOf, contracts, createBlock } from './model-blocks.ts'
import type { ModelBlock } from './model-blocks.ts'
import { openProofs } from './proof-fixture.ts'
import type { JsonMembers } from './verify-fixture.ts'

/** `node dist/test/plugins/verify/reorgs.test.js --reorgs 10000 --seed 7` is the long form. */
const argumentOf = (name: string, usual: number): number => {
  const at = process.argv.indexOf(`--${name}`)
  return at < 0 ? usual : Number(process.argv[at + 1])
}

const [reorgCount, seed] = [argumentOf('reorgs', 500), argumentOf('seed', 1)]

/** The generator of Tommy Ettinger (mulberry32). */
const createRandom = (state: number) => () => {
  state = (state + 0x6d2b79f5) | 0
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
}

/** A node that comes to the new branch in the middle of a call: after so many requests. */
interface ModelNode {
  tip: ModelBlock
  next: ModelBlock
  requestsLeft: number
}

type Pick = (count: number) => number

const maxDepth = 4
const callsPerReorg = 3
/** A new branch has up to 2 blocks more than the old one, and the newest block that nodes agree on is up to 2 blocks behind the head. */
const maxBlocksBack = 5
const firstBlocks = 12

/** About blocks that both branches have, or had. */
const questionAbout = (tip: ModelBlock, pick: Pick): { readonly method: string; readonly params: readonly Json[] } => {
  const blocks = branchOf(tip, maxDepth + 2)
  const lowest = tip.number - maxDepth - 4
  const number = toHexQuantity(lowest + pick(4))
  const transaction = blocks.flatMap(({ transactions }) => transactions)[0]?.['hash']
  const questions = [
    { method: 'eth_getBalance', params: [account, 'latest'] },
    { method: 'eth_getBalance', params: [account, number] },
    { method: 'eth_getBlockByNumber', params: [number, true] },
    { method: 'eth_getBlockReceipts', params: [number] },
    { method: 'eth_getLogs', params: [{ fromBlock: toHexQuantity(lowest), toBlock: toHexQuantity(lowest + 4), address: contracts[0] }] },
    ...(transaction === undefined
      ? []
      : ['eth_getTransactionByHash', 'eth_getTransactionReceipt'].map(method => ({ method, params: [transaction] }))),
  ]
  return questions[pick(questions.length)]!
}

/** What a node says in place of the value. */
const lieAbout = (value: Json, { method }: Request, tip: ModelBlock, pick: Pick): Json => {
  const members = value as JsonMembers // what the model answers
  const list = value as readonly JsonMembers[] // what the model answers
  const other = branchOf(tip, maxDepth)[pick(maxDepth)]!
  switch (method) {
    case 'eth_getBalance':
      return other.balance
    case 'eth_getProof':
      return { ...members, accountProof: [toHex(other.stateNode)] }
    case 'eth_getLogs':
      return list.slice(0, -1)
    case 'eth_getBlockReceipts':
      return list.map(receipt => {
        const logs = (receipt['logs'] as readonly JsonMembers[]).slice(0, -1)
        return { ...receipt, logs, logsBloom: logsBloomOf(logs) }
      })
    case 'eth_getBlockByNumber':
    case 'eth_getBlockByHash': {
      const forged = { ...members, stateRoot: other.header['stateRoot']! }
      const transactions = (members['transactions'] as readonly Json[]).slice(0, -1)
      return pick(2) === 0 ? { ...forged, hash: headerHashOf(forged) } : { ...members, transactions }
    }
    default:
      return null
  }
}

interface Run {
  readonly policy: 'proof' | 'check'
  readonly reorgs: number
  /** The first node lies in every second of its answers. */
  readonly hasLiar: boolean
}

/** Asks three nodes while they come to one new branch after another. */
const runReorgs = async ({ policy, reorgs, hasLiar }: Run) => {
  const random = createRandom(seed)
  const pick: Pick = count => Math.floor(random() * count)
  const extend = (tip: ModelBlock | undefined, count: number): ModelBlock | undefined =>
    count === 0 ? tip : extend(createBlock(tip, random), count - 1)
  const start = extend(undefined, firstBlocks)!
  const nodes: readonly ModelNode[] = [0, 1, 2].map(() => ({ tip: start, next: start, requestsLeft: 0 }))
  let head = start.number
  const nodeOf = (node: ModelNode, i: number) => async (request: Request) => {
    if (node.requestsLeft === 0) node.tip = node.next
    node.requestsLeft = Math.max(0, node.requestsLeft - 1)
    const value = answerAt(node.tip, request)
    return hasLiar && i === 0 && value !== undefined && value !== null && random() < 0.5 ? lieAbout(value, request, node.tip, pick) : value
  }
  const [one, two, three] = nodes.map(nodeOf)
  const policies = policy === 'proof' ? {} : Object.fromEntries(provableMethods.map(method => [method, policy]))
  // With rules that are known for Ethereum, made-up signatures would be wrong.
  const options = { chainId: 31_337, head: () => head, hasFailover: true, policies }
  const gateway = openProofs({ one: one!, two: two!, three: three! }, options)
  const counts = { answered: 0, refused: 0, wrong: 0 }

  for (let reorg = 0; reorg < reorgs; reorg++) {
    const old = nodes[0]!.next
    const depth = 1 + pick(maxDepth)
    const base = branchOf(old, depth + 1).at(-1)!
    const next = extend(base, depth + pick(3))!
    for (const node of nodes) Object.assign(node, { tip: node.next, next, requestsLeft: pick(6) })
    // The gateway knows the branch before, and may have seen the new one.
    gateway.newHead()
    head = random() < 0.5 ? next.number : old.number
    for (let i = 0; i < callsPerReorg; i++) {
      const { method, params } = questionAbout(random() < 0.5 ? old : next, pick)
      const right = new Set([old, next].map(tip => JSON.stringify(answerAt(tip, { method, params }))))
      // Of the newest block, it may be that of any block that was the newest meanwhile.
      if (params.includes('latest'))
        for (const tip of [old, next]) for (const { balance } of branchOf(tip, maxBlocksBack)) right.add(JSON.stringify(balance))
      const answer = await gateway.call(method, ...params)
      if (answer === undefined) counts.refused += 1
      else if (right.has(JSON.stringify(answer))) counts.answered += 1
      else counts.wrong += 1
    }
  }
  const blamed = new Set(gateway.log.lines.flatMap(({ fields }) => ('upstream' in fields ? String(fields['upstream']) : [])))
  return { counts, blamed: [...blamed] }
}

t.test(`in ${reorgCount} random reorgs of three nodes, no right answer is refused, and no node is blamed`, async t => {
  const { counts, blamed } = await runReorgs({ policy: 'proof', reorgs: reorgCount, hasLiar: false })
  t.same(counts, { answered: callsPerReorg * reorgCount, refused: 0, wrong: 0 }, `seed ${seed}`)
  t.same(blamed, [])
})

t.test(
  `in ${reorgCount} random reorgs of three nodes of which one lies, no wrong answer is accepted, and none but the liar is blamed`,
  async t => {
    const { counts, blamed } = await runReorgs({ policy: 'proof', reorgs: reorgCount, hasLiar: true })
    t.comment(JSON.stringify(counts))
    t.equal(counts.wrong, 0, `seed ${seed}`)
    t.ok(counts.answered > 0.9 * callsPerReorg * reorgCount, `${counts.answered} of ${callsPerReorg * reorgCount}`)
    t.same(blamed, ['one'])
  },
)

t.test('these lies reach callers where nothing is proven', async t => {
  const { counts } = await runReorgs({ policy: 'check', reorgs: 50, hasLiar: true })
  t.ok(counts.wrong > 10, `${counts.wrong}`)
})
