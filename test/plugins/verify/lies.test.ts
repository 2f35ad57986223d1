import { readFileSync } from 'node:fs'
import t from '../../support/tap.ts'
import { provableMethods } from '../../../plugins/verify/provable-methods.ts'
import type { Json } from '../../../src/plugin/call.ts'
import { harness } from '../../../src/testing/index.ts'
import { deployEmitter, emittedTopic, startAnvilChain } from '../../support/anvil-chain.ts'
import type { AnvilChain } from '../../support/anvil-chain.ts'
import { liesIn, toWord } from './lies.ts'
import type { LieCase, LiesWorld, Tale } from './lies.ts'
import { readBlock } from './verify-fixture.ts'

const buildWorld = async (chain: AnvilChain): Promise<LiesWorld> => {
  const [emitter, other] = [await deployEmitter(chain), await deployEmitter(chain)]
  const accounts = await chain.request<string[]>('eth_accounts')
  const first = await emitter.emitLogs(2)
  await other.emitLogs(1)
  await chain.request('evm_setAutomine', false)
  const emit = (to: string, count: number) => ({ to, gas: '0x30d40', data: `0x4ce4ddea${toWord(count).slice(2)}` })
  const transactions = [
    emit(emitter.address, 2),
    { to: accounts[1]!, value: '0x5', type: '0x0', gasPrice: '0x77359400' },
    emit(other.address, 1),
    { gas: '0x30d40', data: '0x00' },
  ]
  for (const [i, transaction] of transactions.entries()) await chain.request('eth_sendTransaction', { ...transaction, from: accounts[i]! })
  await chain.request('anvil_mine', '0x1')
  const { block, fullBlock } = await readBlock(chain, 'latest')
  await chain.request('anvil_mine', '0x1')
  return {
    emitter: emitter.address,
    otherEmitter: other.address,
    account: accounts[0]!,
    nobody: `0x${'34'.repeat(20)}`,
    first: first.blockNumber,
    block,
    transactions: fullBlock.transactions,
    emittedTopic,
  }
}

/** The answers of a node, which are asked for once. */
class RecordedNode {
  readonly #chain: AnvilChain
  readonly #answers = new Map<string, { readonly result: Json } | { readonly error: { readonly code: number; readonly message: string } }>()
  readonly #unknown = new Set<string>()

  constructor(chain: AnvilChain) {
    this.#chain = chain
  }

  answer(method: string, params: readonly Json[]) {
    const key = JSON.stringify([method, ...params])
    const answer = this.#answers.get(key)
    if (answer === undefined) this.#unknown.add(key)
    return answer ?? { error: { code: -32000, message: 'not recorded yet' } }
  }

  ask = (method: string, ...params: readonly Json[]): Json => {
    const answer = this.answer(method, params)
    return 'result' in answer ? answer.result : []
  }

  /** Runs it until all has been recorded that it asks for. */
  async run<T>(work: () => Promise<T>): Promise<T> {
    for (;;) {
      const result = await work().catch((error: unknown) => {
        if (this.#unknown.size === 0) throw error
        return undefined
      })
      if (this.#unknown.size === 0) return result as T // it has not thrown
      for (const key of this.#unknown) {
        const [method, ...params] = JSON.parse(key) as [string, ...Json[]]
        const answer = await this.#chain.request<Json>(method, ...params).then(
          value => ({ result: value }),
          (error: Error) => ({ error: { code: -32000, message: error.message } }),
        )
        this.#answers.set(key, answer)
      }
      this.#unknown.clear()
    }
  }
}

/** What the caller gets. */
type Outcome = 'right' | 'refused' | 'wrong' | '-'

const policies: Readonly<Record<string, { readonly verify: string; readonly honestNodes: readonly string[] }>> = {
  off: { verify: "{ methods: { '*': 'off' } }", honestNodes: ['honest'] },
  check: { verify: '{}', honestNodes: ['honest'] },
  proof: { verify: "{ methods: { '*': proof } }", honestNodes: ['honest'] },
  '2 of 3': { verify: "{ methods: { '*': 2 of 3 } }", honestNodes: ['honest', 'third'] },
}

const methods = [
  ...['eth_blockNumber', 'eth_getBlockByNumber', 'eth_getBlockByHash', 'eth_getBlockReceipts', 'eth_getTransactionByHash'],
  ...['eth_getTransactionByBlockHashAndIndex', 'eth_getTransactionReceipt', 'eth_getLogs', 'eth_getBalance', 'eth_getCode'],
  ...['eth_getStorageAt', 'eth_getTransactionCount', 'eth_getProof', 'eth_call', 'eth_estimateGas', 'eth_feeHistory'],
  'eth_getBlockTransactionCountByNumber',
]

/** The node as a fake upstream; it tells the tale, if one is given. */
const upstreamOf = (node: RecordedNode, tale: Tale = {}) =>
  Object.fromEntries(
    methods.map(method => [
      method,
      ({ params }: { readonly params: Json }) => {
        const list = params as readonly Json[]
        const answer = node.answer(method, list)
        const tell = tale[method]
        if (tell === undefined || ('result' in answer && answer.result === null)) return answer
        return { result: tell('result' in answer ? answer.result : null, list, node.ask) }
      },
    ]),
  )

t.test('lies that one node tells', async t => {
  const chain = await startAnvilChain()
  t.teardown(() => chain.stop())
  const node = new RecordedNode(chain)
  const lies = liesIn(await buildWorld(chain))

  const outcomeOf = ({ question: [method, ...params], tale }: LieCase, policy: string): Promise<Outcome> =>
    node.run(async () => {
      const { verify, honestNodes } = policies[policy]!
      const names = ['liar', ...honestNodes]
      const gateway = await harness({
        network: { chainId: 1 },
        pipeline: `
- failover: { upstreams: [${names.map(name => `{ name: ${name}, url: http://${name}.test }`).join(', ')}] }
- verify: ${verify}
- upstream: {}`,
        upstreams: { liar: upstreamOf(node, tale), ...Object.fromEntries(honestNodes.map(name => [name, upstreamOf(node)])) },
      })
      const { result, error } = await gateway.call(method, params)
      await gateway.stop()
      if (error?.code === -32002) return 'refused'
      const truth = node.answer(method, params)
      if ('error' in truth) return error === undefined ? 'wrong' : 'right'
      return error === undefined && JSON.stringify(result) === JSON.stringify(truth.result) ? 'right' : 'wrong'
    })

  const rows: string[] = []
  const counts = Object.fromEntries(Object.keys(policies).map(policy => [policy, { right: 0, refused: 0, wrong: 0, '-': 0 }]))
  t.test('are each of them told', async t => {
    t.ok(lies.length >= 40)
    for (const { what, question, tale } of lies) {
      const [method, ...params] = question
      const [told, answer] = await node.run(async () => {
        const answer = node.ask(method, ...params)
        return [tale[method]?.(answer, params, node.ask), answer] as const
      })
      t.notSame(told, answer, what)
    }
  })

  for (const lie of lies) {
    const outcomes: Outcome[] = []
    for (const policy of Object.keys(policies)) {
      const isProvable = provableMethods.includes(lie.question[0])
      const outcome = policy === 'proof' && !isProvable ? '-' : await outcomeOf(lie, policy)
      counts[policy]![outcome] += 1
      outcomes.push(outcome)
    }
    rows.push(`| ${lie.what} | ${outcomes.join(' | ')} |`)
  }

  t.test('never reach a caller under the policy proof, or a quorum with two honest nodes', async t => {
    t.match(counts, { proof: { wrong: 0 }, '2 of 3': { wrong: 0 } }, rows.join('\n'))
  })

  t.test('are what the documentation says', async t => {
    const columns = Object.keys(policies)
    const wrong = columns.map(policy => `**${counts[policy]!.wrong}**`)
    const table = [
      `| one node says that | ${columns.join(' | ')} |`,
      `|---|${'---|'.repeat(columns.length)}`,
      ...rows,
      `| **wrong answers, of ${lies.length}** | ${wrong.join(' | ')} |`,
      '',
    ].join('\n')
    const text = readFileSync('docs/verification.md', 'utf8')
    const [documented] = /\| one node says that [^]*?\n(?=\n)/.exec(text) ?? []
    t.equal(documented, table)
    const { off, check } = counts
    t.match(text, `alone finds ${off!.wrong - check!.wrong} of the ${off!.wrong} lies that reach a caller with \`off\``)
  })
})
