import { readdirSync } from 'node:fs'
import t from '../support/tap.ts'
import { plugins } from '../../plugins/index.ts'
import { toLoaded } from '../../src/plugin/deferred-plugin.ts'
import type { AnyPlugin, Result } from '../../src/plugin/plugin.ts'
import type { Plugin } from '../../src/plugin/define-plugin.ts'
import { contractTests } from '../../src/testing/index.ts'
import type { ContractOptions } from '../../src/testing/index.ts'

const failingRules = async (plugin: AnyPlugin, options: ContractOptions = {}): Promise<Readonly<Record<string, string>>> => {
  const failed: Record<string, string> = {}
  for (const { name, run } of contractTests(plugin, options)) {
    await run().catch((error: Error) => {
      failed[name.replace(`${plugin.name}: `, '')] = error.message
    })
  }
  return failed
}

const optionsOf: Readonly<Record<string, ContractOptions>> = {
  failover: { options: { upstreams: [{ name: 'own', url: 'http://own.test' }] } },
  'allow-contracts': { options: { accounts: {} } },
  'block-range': { options: { maxBlocks: 1 } },
  mirror: { options: { url: 'http://mirror.test' } },
  'block-methods': { options: { methods: [] } },
  'call-limit': { options: { calls: 1 } },
  'external-policy': { options: { url: 'http://policy.test', methods: [] } },
  'plan-methods': { options: { excluded: {} } },
  'time-budget': { options: { limit: '2s' } },
  'region-access': { options: { allowed: ['DE'] }, context: { region: 'DE' } },
}

t.test('every built-in plugin and every example fulfills the contract', async t => {
  const examples = readdirSync('docs/examples').filter(file => /(?<!\.test)\.js$/.test(file))
  const loaded = examples.map(async file => (await import(`../../../docs/examples/${file}`)) as { readonly default: AnyPlugin })
  const all = [...(await Promise.all(plugins.map(toLoaded))), ...(await Promise.all(loaded)).map(module => module.default)]
  t.ok(all.length >= 11)
  for (const plugin of all) t.same(await failingRules(plugin, optionsOf[plugin.name]), {}, plugin.name)
})

const sound: AnyPlugin = {
  name: 'sound',
  summary: 'Passes calls on.',
  options: { type: 'object', properties: {} },
  create: () => (call, next) => next(call),
}

/** Answers each call from the same buffer. */
const reusingBytes: Plugin['create'] = () => {
  const buffer = Buffer.from('"0x0"')
  let count = 0
  return async (call, next) => {
    await next(call)
    buffer.write(`"0x${(count += 1)}"`)
    return { source: 'local', result: buffer }
  }
}

/** What authors get wrong, and the rules that find it. */
const broken: readonly (readonly [rules: readonly string[], plugin: Partial<Plugin>, message?: RegExp])[] = [
  [['the summary is one sentence'], { summary: 'no sentence' }],
  [
    ['every option is described by a sentence'],
    {
      options: {
        type: 'object',
        properties: { a: { type: 'object', description: 'A.', properties: { b: { type: 'string', description: 'b' } } } },
      },
    },
    /\/a\/b/,
  ],
  [
    ['the options, with their defaults, pass the schema'],
    { options: { type: 'object', properties: { level: { type: 'string', enum: ['a'], default: 'b', description: 'One of them.' } } } },
    /level must be `a`/,
  ],
  [
    ['offers() and explain() say that the call is passed on'],
    { create: () => ({ handle: (call, next) => next(call), offers: () => false }) },
    /offers\(\) says that the plugin refuses eth_blockNumber/,
  ],
  [
    ['offers() and explain() say that the call is passed on'],
    { create: () => ({ handle: (call, next) => next(call), explain: () => ({ text: ['refuses'], ends: 'refused' }) }) },
    /explain\(\) says that the call is refused/,
  ],
  [
    ['create() returns a handler or a stage at once, and asks no store and no node'],
    { create: (_options, { usage }) => (usage.count({} as never), (call, next) => next(call)) },
    /create\(\) used a service that asks a store or a node/,
  ],
  [
    ['stop() is safe without start()'],
    { create: () => stageWithTimer({ stopsOnlyAfterStart: true, leavesTimer: false }) },
    /was never started/,
  ],
  [
    ['stop() is safe twice, and leaves no timer'],
    { create: (_options, services) => stageWithTimer({ stopsOnlyAfterStart: false, leavesTimer: true }, services) },
    /cancel/,
  ],
  [
    ['a call is answered, and is left unchanged', 'a failure from below is passed on, or answered in another way'],
    {
      create: () => (call, next) => {
        ;(call.context as { added?: true }).added = true
        return next(call)
      },
    },
    /not extensible/,
  ],
  [
    ['next() is called once for a call, or the plugin has `repeats`'],
    {
      create: () => async (call, next) => {
        await next(call)
        return next(call)
      },
    },
  ],
  [
    ['a call is answered, and is left unchanged'],
    { create: () => async (call, next) => ({ source: (await next(call)).source, result: Buffer.from('{') }) },
    /the response is not JSON/,
  ],
  [
    ['a call is answered, and is left unchanged'],
    {
      reads: ['request' as never],
      create: () => (call, next) => {
        ;(call as unknown as { context: { request: { params: unknown[] } } }).context.request.params.push('0x1')
        return next(call)
      },
    },
    /not extensible/,
  ],
  [
    ['a call is answered, and is left unchanged'],
    {
      create: () => async (call, next) => {
        const reply = await next(call)
        Object.assign(reply, { source: 'gateway' })
        return reply
      },
    },
    /read only/,
  ],
  [
    ['a reply from below is left unchanged'],
    {
      create: () => async (call, next) => {
        const reply = await next(call)
        if ('result' in reply) (reply.result as Buffer).write('"0x2"')
        return reply
      },
    },
    /change a copy/,
  ],
  [['the bytes of a result are not used again'], { create: reusingBytes }, /bytes of its own/],
  [['the context that is declared in `writes` is written'], { writes: ['target' as never] }, /target/],
  [
    ['a failure from below is passed on, or answered in another way', 'a bug below costs its call only'],
    {
      create: () => async (call, next) => {
        const reply = await next(call)
        return { source: reply.source, result: Buffer.from(String((reply as Result).result.byteLength)) }
      },
    },
    /byteLength/,
  ],
]

const stageWithTimer = (
  { stopsOnlyAfterStart, leavesTimer }: { readonly stopsOnlyAfterStart: boolean; readonly leavesTimer: boolean },
  services?: Parameters<Plugin['create']>[1],
): ReturnType<Plugin['create']> => {
  let isStarted = false
  return {
    handle: (call, next) => next(call),
    async start() {
      isStarted = true
      if (leavesTimer) services?.clock.every(1_000, () => undefined)
    },
    async stop() {
      if (stopsOnlyAfterStart && !isStarted) throw new Error('was never started')
    },
  }
}

t.test('each mistake breaks its rule', async t => {
  t.same(await failingRules(sound), {})
  for (const [rules, changes, message] of broken) {
    const failed = await failingRules({ ...sound, ...changes } as AnyPlugin)
    for (const rule of rules) t.ok(Object.hasOwn(failed, rule), `${rule}: ${Object.keys(failed).join(', ')}`)
    if (message !== undefined) t.match(Object.values(failed).join('\n'), message)
  }
})
