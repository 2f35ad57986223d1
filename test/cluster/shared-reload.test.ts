import t from '../support/tap.ts'
import { SharedReload, WorkerReload } from '../../src/cluster/shared-reload.ts'
import type { ToWorker } from '../../src/cluster/worker-messages.ts'
import { configId, reloadGatewayConfig } from '../../src/core/config-changes.ts'
import type { PartialProblem } from '../../src/config/problem.ts'
import type { ValidConfig } from '../../src/core/reloader.ts'
import { ReloadError } from '../../src/core/running-networks.ts'
import type { Handlers } from '../../src/util/channel.ts'
import { TestClock, TestLog } from '../support/fakes.ts'
import { connectWorker } from '../support/worker-channel.ts'
import { deferred } from '../support/deferred.ts'

/** What a worker answers when it is to prepare a reload. */
type Answer = readonly PartialProblem[] | 'exited' | 'late'

/** Its primary's end of the channel. */
const connect = (handlers: Pick<Handlers<ToWorker>, 'prepareReload' | 'endReload'>) => {
  const clock = new TestClock()
  const { worker, primary } = connectWorker(clock)
  primary.handle(handlers)
  return { clock, worker: Object.assign(worker, { pid: 1 }) }
}

const fakeWorker = (answer: Answer = []) => {
  const received: string[] = []
  const { clock, worker } = connect({
    endReload: ({ isCommitted }) => void received.push(isCommitted ? 'commit' : 'abandon'),
    prepareReload({ configId }, reply) {
      received.push(`prepare ${configId}`)
      if (answer === 'exited') worker.close()
      else if (answer === 'late') setImmediate(() => clock.advance(30_000))
      else reply(answer)
    },
  })
  return { received, worker }
}

/** A worker that reads these files, with its own part of a reload. */
const realWorker = (config: ValidConfig, isRead = Promise.resolve()) => {
  const ended: string[] = []
  const prepareReload = async () => ({ commit: () => void ended.push('commit'), abandon: async () => void ended.push('abandon') })
  const part = new WorkerReload({ prepareReload }, () => isRead.then(() => config), new TestLog())
  const { worker } = connect({
    endReload: end => part.end(end),
    prepareReload: (request, reply) => void part.prepare(request).then(reply),
  })
  return { received: ended, worker }
}

const configOf = (gateway: object) => ({ gateway, networks: [] }) as unknown as ValidConfig // no more is read of it here

const shared = (configId: string) => ({ configId, texts: {} })

/** Of a gateway with these workers, which have started with the configuration `old`. */
const openReload = (...workers: readonly ReturnType<typeof fakeWorker>[]) => {
  const log = new TestLog()
  const ready = workers.map(({ worker }) => worker)
  return { log, ready, reload: new SharedReload({ configuration: shared('old'), workers: () => ready, log }) }
}

t.test('all workers commit when all have prepared; a worker that has exited meanwhile does not count', async t => {
  const [one, two, exited] = [fakeWorker(), fakeWorker(), fakeWorker('exited')]
  const { reload, ready } = openReload(one, two, exited)
  const prepared = await reload.prepare(shared('new'))
  t.same(one.received, ['prepare new'])
  ready.pop()
  prepared.commit()
  t.same(
    [one.received, two.received],
    [
      ['prepare new', 'commit'],
      ['prepare new', 'commit'],
    ],
  )
})

t.test('no worker commits when one has a problem, which is reported once, or does not answer in time', async t => {
  const problem = { message: 'a worker has other code of a plugin than the primary', hint: 'restart the gateway' }
  const cases: readonly { readonly answers: readonly Answer[]; readonly problems: readonly PartialProblem[] }[] = [
    { answers: [[], [problem], [problem]], problems: [problem] },
    { answers: [[], 'late'], problems: [{ message: 'a worker did not prepare the reload within 30 s' }] },
  ]
  for (const { answers, problems } of cases) {
    const workers = answers.map(answer => fakeWorker(answer))
    const { reload } = openReload(...workers)
    const error = await reload.prepare(shared('new')).catch((rejected: unknown) => rejected)
    t.same(error instanceof ReloadError && error.problems, problems)
    for (const { received } of workers) t.same(received, ['prepare new', 'abandon'])
  }
})

t.test('workers that have another configuration of the files than the primary, or than each other, do not commit', async t => {
  const [before, after] = [configOf({ watch: false }), configOf({ watch: true })]
  t.not(configId(before), configId(after))
  for (const [read, problems] of [
    [[after, after], undefined],
    [[after, before], [{ message: 'a worker has other code of a plugin than the primary', hint: 'restart the gateway' }]],
    [[before, before], [{ message: 'a worker has other code of a plugin than the primary', hint: 'restart the gateway' }]],
  ] as const) {
    const workers = read.map(config => realWorker(config))
    const { reload } = openReload(...workers)
    const result = await reload.prepare(shared(configId(after))).catch((rejected: unknown) => rejected)
    t.same(result instanceof ReloadError ? result.problems : undefined, problems)
    if (!(result instanceof ReloadError)) (result as { commit(): void }).commit()
    const expected = read.map(config => (problems === undefined ? ['commit'] : config === after ? ['abandon'] : []))
    t.same(
      workers.map(({ received }) => received),
      expected,
    )
  }
})

t.test('a configuration that reloads have made has the ID of one that was read', async t => {
  const reloadable = { plans: {}, memory: 1, log: 'info', accessLog: {}, requestLog: {}, drain: {} }
  const { gateway, networks } = configOf({ jwt: { issuer: 'a' }, watch: true, ...reloadable })
  t.equal(configId({ gateway: reloadGatewayConfig(gateway, gateway), networks }), configId({ gateway, networks }))
})

t.test('a worker that becomes ready during a reload gets the configuration of the others', async t => {
  const [one, early, late, same] = [fakeWorker(), fakeWorker(), fakeWorker(), fakeWorker()]
  const { reload, ready, log } = openReload(one)
  const prepared = await reload.prepare(shared('new'))
  ready.push(early.worker)
  reload.addWorker(early.worker, 'old')
  t.same(early.received, [], 'it has what the others still have')
  prepared.commit()
  reload.addWorker(late.worker, 'old')
  reload.addWorker(same.worker, 'new')
  await new Promise(setImmediate)
  t.same([early.received, late.received, same.received], [['commit', 'prepare new', 'commit'], ['prepare new', 'commit'], []])
  t.same(log.lines, [])
})

t.test('a worker that follows the others while they commit a reload follows that one too, and is not reported', async t => {
  const [one, older] = [fakeWorker(), fakeWorker()]
  const { reload, ready, log } = openReload(one)
  const prepared = await reload.prepare(shared('new'))
  ready.push(older.worker)
  reload.addWorker(older.worker, 'older')
  prepared.commit()
  await new Promise(setImmediate)
  t.same(older.received, ['prepare old', 'commit', 'prepare new', 'abandon', 'commit'])
  t.same(log.lines, [])
})

t.test('a worker that follows the others has what they have, also where the next reload comes to nothing', async t => {
  const config = configOf({})
  const [late, refusing] = [realWorker(config), fakeWorker()]
  const { reload, ready } = openReload(refusing)
  const prepared = await reload.prepare(shared(configId(config)))
  ready.push(late.worker)
  prepared.commit()
  const next = reload.prepare(shared('other')).catch((error: unknown) => error)
  t.ok((await next) instanceof ReloadError)
  t.same(late.received, ['commit'])
})

t.test('a worker that cannot get the configuration of the others is reported with the reason', async t => {
  const otherCode = { message: 'a worker has other code of a plugin than the primary', hint: 'restart the gateway' }
  for (const [answer, reason] of [
    [[otherCode], 'a worker has other code of a plugin than the primary'],
    ['late', 'a worker did not prepare the reload within 30 s'],
  ] as const) {
    const { reload, log } = openReload()
    const worker = fakeWorker(answer)
    reload.addWorker(worker.worker, 'newer')
    for (let turn = 0; turn < 2; turn++) await new Promise(setImmediate)
    t.same(worker.received, ['prepare old', 'abandon'])
    const message = `worker has not the configuration of the others, restart the gateway: ${reason}`
    t.match(log.lines, [{ level: 'warn', message }])
  }
})

t.test(
  'a reload waits for workers that become ready while it waits for others: they have the configuration, also where it comes to nothing',
  async t => {
    const config = configOf({})
    const read = deferred()
    const [early, late, refusing] = [realWorker(config), realWorker(config, read.promise), fakeWorker()]
    const { reload, ready } = openReload(refusing)
    const prepared = await reload.prepare(shared(configId(config)))
    ready.push(early.worker)
    prepared.commit()
    const next = reload.prepare(shared('other')).catch((error: unknown) => error)
    ready.push(late.worker)
    reload.addWorker(late.worker, 'older')
    await new Promise(setImmediate)
    read.resolve()
    t.ok((await next) instanceof ReloadError)
    t.same([early.received, late.received], [['commit'], ['commit']])
  },
)

t.test('a worker that is to prepare two reloads at once runs nothing on that was neither committed nor abandoned', async t => {
  const config = { gateway: {}, networks: [] } as unknown as ValidConfig // no more is read of it here
  const ended: string[] = []
  let preparedCount = 0
  const prepareReload = async () => {
    const name = `reload ${(preparedCount += 1)}`
    await new Promise(setImmediate)
    return { commit: () => void ended.push(`${name} committed`), abandon: async () => void ended.push(`${name} abandoned`) }
  }
  const reload = new WorkerReload({ prepareReload }, async () => config, new TestLog())
  const prepare = (id: number) => reload.prepare({ id, ...shared(configId(config)) })
  t.same(await Promise.all([prepare(1), prepare(2)]), [[], []])
  reload.end({ id: 2, isCommitted: true })
  t.same(ended, ['reload 1 abandoned', 'reload 2 committed'])
})

t.test('a reload that cannot be abandoned is reported, and the next ones are prepared', async t => {
  const config = configOf({})
  const prepareReload = async () => ({ commit() {}, abandon: () => Promise.reject(new Error('EBADF')) })
  const log = new TestLog()
  const reload = new WorkerReload({ prepareReload }, async () => config, log)
  for (const id of [1, 2, 3]) t.same(await reload.prepare({ id, ...shared(configId(config)) }), [])
  reload.end({ id: 3, isCommitted: false })
  await new Promise(setImmediate)
  t.match(log.lines, Array(3).fill({ level: 'error', fields: { err: { message: 'EBADF' } }, message: 'reload could not be abandoned' }))
})

t.test('two reloads and their ends that wait in a full pipe all arrive', async t => {
  const received: unknown[] = []
  let flush = () => {}
  const { worker, primary } = connectWorker(new TestClock(), {
    down(deliver, onSent) {
      deliver()
      flush = onSent
    },
  })
  primary.handle({ prepareReload: ({ id }) => received.push(id), endReload: end => received.push(end) })
  worker.send('logLevel', { level: 'info' })
  void worker.call('prepareReload', { id: 2, ...shared('new') }, 30_000)
  worker.send('endReload', { id: 2, isCommitted: true })
  void worker.call('prepareReload', { id: 3, ...shared('newer') }, 30_000)
  worker.send('endReload', { id: 3, isCommitted: false })
  flush()
  t.same(received, [2, { id: 2, isCommitted: true }, 3, { id: 3, isCommitted: false }])
  worker.close()
})
