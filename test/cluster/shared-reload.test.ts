import t from '../support/tap.ts'
import { Channel } from '../../src/cluster/channel.ts'
import { SharedReload, WorkerReload } from '../../src/cluster/shared-reload.ts'
import type { PrimaryMessage, WorkerMessage } from '../../src/cluster/worker-messages.ts'
import type { WorkerProcess } from '../../src/cluster/worker-process.ts'
import { configId } from '../../src/core/config-changes.ts'
import type { PartialProblem } from '../../src/config/problem.ts'
import type { ValidConfig } from '../../src/core/reloader.ts'
import { ReloadError } from '../../src/core/running-networks.ts'
import { TestLog } from '../support/fakes.ts'

/** What a worker answers when it is to prepare a reload. */
type Answer = readonly PartialProblem[] | 'exited' | 'late'

const fakeWorker = (answer: Answer = []) => {
  const received: string[] = []
  const worker = {
    pid: 1,
    send: (message: PrimaryMessage) => void (message.kind === 'endReload' && received.push(message.isCommitted ? 'commit' : 'abandon')),
    async request(message: Extract<PrimaryMessage, { kind: 'prepareReload' }>) {
      received.push(`prepare ${message.configId}`)
      return typeof answer === 'string' ? answer : { kind: 'reloadPrepared', id: message.id, problems: answer }
    },
  } as unknown as WorkerProcess // a reload uses no more of it
  return { received, worker }
}

/** A worker that reads these files, with its own part of a reload. */
const realWorker = (config: ValidConfig) => {
  const ended: string[] = []
  let reply: WorkerMessage | undefined
  const prepareReload = async () => ({ commit: () => void ended.push('commit'), abandon: async () => void ended.push('abandon') })
  const part = new WorkerReload({ prepareReload }, async () => config, { send: message => void (reply = message), log: new TestLog() })
  const worker = {
    pid: 1,
    send: (message: PrimaryMessage) => message.kind === 'endReload' && part.end(message),
    async request(message: Extract<PrimaryMessage, { kind: 'prepareReload' }>) {
      await part.prepare(message)
      return reply
    },
  } as unknown as WorkerProcess // a reload uses no more of it
  return { received: ended, worker }
}

const configOf = (gateway: object) => ({ gateway, networks: [] }) as unknown as ValidConfig // no more is read of it here

/** Of a gateway with these workers, which have started with the configuration `old`. */
const openReload = (...workers: readonly ReturnType<typeof fakeWorker>[]) => {
  const log = new TestLog()
  const ready = workers.map(({ worker }) => worker)
  return { log, ready, reload: new SharedReload({ configId: 'old', workers: () => ready, log }) }
}

t.test('all workers commit when all have prepared; a worker that has exited meanwhile does not count', async t => {
  const [one, two, exited] = [fakeWorker(), fakeWorker(), fakeWorker('exited')]
  const { reload, ready } = openReload(one, two, exited)
  const prepared = await reload.prepare('new')
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
  const problem = { message: 'the files changed while the workers read them' }
  const cases: readonly { readonly answers: readonly Answer[]; readonly problems: readonly PartialProblem[] }[] = [
    { answers: [[], [problem], [problem]], problems: [problem] },
    { answers: [[], 'late'], problems: [{ message: 'a worker did not prepare the reload within 30 s' }] },
  ]
  for (const { answers, problems } of cases) {
    const workers = answers.map(answer => fakeWorker(answer))
    const { reload } = openReload(...workers)
    const error = await reload.prepare('new').catch((rejected: unknown) => rejected)
    t.same(error instanceof ReloadError && error.problems, problems)
    for (const { received } of workers) t.same(received, ['prepare new', 'abandon'])
  }
})

t.test('workers that read other files than the primary, or than each other, do not commit', async t => {
  const [before, after] = [configOf({ watch: false }), configOf({ watch: true })]
  t.not(configId(before), configId(after))
  for (const [read, problems] of [
    [[after, after], undefined],
    [[after, before], [{ message: 'the files changed while the workers read them' }]],
    [[before, before], [{ message: 'the files changed while the workers read them' }]],
  ] as const) {
    const workers = read.map(realWorker)
    const { reload } = openReload(...workers)
    const result = await reload.prepare(configId(after)).catch((rejected: unknown) => rejected)
    t.same(result instanceof ReloadError ? result.problems : undefined, problems)
    if (!(result instanceof ReloadError)) (result as { commit(): void }).commit()
    const expected = read.map(config => (problems === undefined ? ['commit'] : config === after ? ['abandon'] : []))
    t.same(
      workers.map(({ received }) => received),
      expected,
    )
  }
})

t.test('a worker that becomes ready during a reload gets the configuration of the others', async t => {
  const [one, early, late, same] = [fakeWorker(), fakeWorker(), fakeWorker(), fakeWorker()]
  const { reload, ready, log } = openReload(one)
  const prepared = await reload.prepare('new')
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

t.test('a worker that cannot get the configuration of the others is reported', async t => {
  const { reload, log } = openReload()
  const worker = fakeWorker([{ message: 'the files changed while the workers read them' }])
  reload.addWorker(worker.worker, 'newer')
  await new Promise(setImmediate)
  t.same(worker.received, ['prepare old', 'abandon'])
  t.match(log.lines, [{ level: 'warn', message: 'worker has read files that were not reloaded yet: reload them' }])
})

t.test('a worker that is to prepare two reloads at once runs nothing on that was neither committed nor abandoned', async t => {
  const config = { gateway: {}, networks: [] } as unknown as ValidConfig // no more is read of it here
  const ended: string[] = []
  const replies: WorkerMessage[] = []
  let preparedCount = 0
  const prepareReload = async () => {
    const name = `reload ${(preparedCount += 1)}`
    await new Promise(setImmediate)
    return { commit: () => void ended.push(`${name} committed`), abandon: async () => void ended.push(`${name} abandoned`) }
  }
  const reload = new WorkerReload({ prepareReload }, async () => config, { send: message => replies.push(message), log: new TestLog() })
  const prepare = (id: number) => reload.prepare({ kind: 'prepareReload', id, configId: configId(config) })
  await Promise.all([prepare(1), prepare(2)])
  t.match(replies, [
    { id: 1, problems: [] },
    { id: 2, problems: [] },
  ])
  reload.end({ kind: 'endReload', id: 2, isCommitted: true })
  t.same(ended, ['reload 1 abandoned', 'reload 2 committed'])
})

t.test('a reload that cannot be abandoned is reported, and the next ones are prepared', async t => {
  const config = configOf({})
  const replies: WorkerMessage[] = []
  const prepareReload = async () => ({ commit() {}, abandon: () => Promise.reject(new Error('EBADF')) })
  const log = new TestLog()
  const reload = new WorkerReload({ prepareReload }, async () => config, { send: message => replies.push(message), log })
  const prepare = (id: number) => reload.prepare({ kind: 'prepareReload', id, configId: configId(config) })
  for (const id of [1, 2, 3]) await prepare(id).catch(() => undefined)
  t.match(replies, [
    { id: 1, problems: [] },
    { id: 2, problems: [] },
    { id: 3, problems: [] },
  ])
  reload.end({ kind: 'endReload', id: 3, isCommitted: false })
  await new Promise(setImmediate)
  t.match(log.lines, Array(3).fill({ level: 'error', fields: { err: { message: 'EBADF' } }, message: 'reload could not be abandoned' }))
})

t.test('the ends of two reloads that wait in a full pipe both arrive', async t => {
  const sent: PrimaryMessage[] = []
  let flush = () => {}
  const channel = new Channel<PrimaryMessage>((message, onSent) => {
    sent.push(message)
    flush = onSent
  })
  channel.send({ kind: 'metrics', id: 1 })
  channel.send({ kind: 'endReload', id: 2, isCommitted: true })
  channel.send({ kind: 'endReload', id: 3, isCommitted: false })
  flush()
  t.match(sent.slice(1), [
    { id: 2, isCommitted: true },
    { id: 3, isCommitted: false },
  ])
})
