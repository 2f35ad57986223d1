import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { createAuditCommand } from '../../src/cli/audit.ts'
import { systemClock } from '../../src/services/clock.ts'
import { openLedger } from '../../src/services/ledger/index.ts'
import { openUsage } from '../../src/services/usage/index.ts'
import { openStore } from '../../src/store/open-store.ts'
import { mainPath } from '../support/deployment.ts'
import { TestLog } from '../support/fakes.ts'
import { accountsCommand, createTestConfigs } from './run-command.ts'
import { changeAccount } from '../store/change-account.ts'

/** An account with 1,000 credits a day, its ledger and its usage counters, and the command. */
const openAuditFixture = async (t: Test) => {
  const configs = await createTestConfigs(t)
  const { id } = (await configs.json(accountsCommand, 'add', 'alice', '--plan', 'core')) as { id: string }
  const store = await openStore({ kind: 'lmdb', path: join(configs.dir, '..', 'data') }, systemClock)
  t.teardown(() => store.close())
  const process = 'p1'
  const ledger = openLedger(store, systemClock, { log: new TestLog(), process })
  const usage = openUsage(store, systemClock, { log: new TestLog(), retentionMs: 90 * 86_400_000, process })
  await usage.start()
  await ledger.start()
  const account = { id, name: 'alice', plan: { name: 'core', dailyCredits: 1_000, forwarding: false } }
  const charge = async (credits: number, counted = credits) => {
    const verdict = await ledger.charge(account, credits)
    if (verdict.kind !== 'charged') throw new Error(`it is ${verdict.kind}`)
    usage.count({
      account: id,
      key: 'key_1',
      network: 'devnet',
      method: 'eth_call',
      outcome: 'ok',
      forwarded: false,
      day: verdict.day,
      calls: 1,
      credits: counted,
    })
  }
  let waits = 0
  const audit = createAuditCommand(async () => {
    waits += 1
  })
  return { ...configs, id, store, ledger, usage, charge, audit, pauses: () => waits }
}

t.test('agreeing leases and counted calls are exit code 0', async t => {
  const { ledger, usage, charge, audit, json, run, pauses } = await openAuditFixture(t)
  t.match(await run(audit), {
    code: 0,
    out: [/^ACCOUNT +PLAN +LIMIT/, /^alice +core +1000 +0 +0 +0 +0 +0$/, 'leased credits and counted calls agree'],
  })
  await charge(80)
  await charge(255)
  await usage.start()
  t.match(await run(audit), { code: 0 }, 'also while a process holds a lease')
  await usage.stop()
  await ledger.stop()
  t.same(await json(audit), [
    {
      account: 'alice',
      plan: 'core',
      limit: 1_000,
      leased: 335,
      used: 335,
      held: 0,
      forfeited: 0,
      counted: 335,
      tolerance: 0,
      faults: [],
    },
  ])
  t.equal(pauses(), 0)
})

t.test('calls that were not charged, or charged and not counted, are exit code 1, after three attempts', async t => {
  for (const counted of [0, 79, 160]) {
    const { ledger, usage, charge, audit, run, pauses } = await openAuditFixture(t)
    await charge(80, counted)
    await usage.stop()
    await ledger.stop()
    t.match(await run(audit), {
      code: 1,
      out: [String, String, `alice: used is 80, but the counted calls cost ${counted}; the tolerance is 0`],
    })
    t.equal(pauses(), 2)
  }
})

t.test('a process that is killed forfeits what it held, and nothing else differs: exit code 0 at once', async t => {
  const { charge, store, run, json, audit, usage, pauses } = await openAuditFixture(t)
  await charge(80)
  await usage.start()
  await charge(255)
  await store.deregister('p1')
  const rows = (await json(audit)) as { leased: number }[]
  const [{ leased } = { leased: 0 }] = rows
  t.match(rows, [{ used: 80, counted: 80, held: 0, forfeited: leased - 80, tolerance: 0, faults: [] }])
  t.match(await run(audit), { code: 0 })
  t.equal(pauses(), 0)
})

t.test('a late report is waited for', async t => {
  const { ledger, usage, charge, run } = await openAuditFixture(t)
  await charge(80)
  await ledger.stop()
  // Within one turn of the event loop the embedded store reads the same snapshot.
  const pause = () => usage.stop().then(() => setTimeout(1))
  t.match(await run(createAuditCommand(pause)), { code: 0 })
})

t.test('more leased than the limit is exit code 1', async t => {
  const { ledger, usage, charge, audit, run, dir } = await openAuditFixture(t)
  await charge(800)
  await usage.stop()
  await ledger.stop()
  await run(accountsCommand, 'set', 'alice', '--credits', '799')
  t.match(await run(audit), { code: 1, out: [String, String, /^alice: leased exceeds the limit by 1: the limit was lowered/] })
  await run(accountsCommand, 'set', 'alice', '--credits', 'plan')
  const file = join(dir, 'gateway.yaml')
  const text = await readFile(file, 'utf8')
  await writeFile(file, text.replace('dailyCredits: 1000', 'dailyCredits: 700'))
  t.match(await run(audit), { code: 1, out: [String, String, /^alice: leased exceeds the limit by 100: the limit was lowered/] })
  await writeFile(file, text.replace('core:', 'solid:'))
  t.match(await run(audit), {
    code: 0,
    out: [String, /^alice +core +plan no longer exists +800 +800/, 'leased credits and counted calls agree'],
  })
  t.match(await run(audit, '--json'), { code: 0, out: [/"plan":"core","limit":null,"leased":800/] })
})

t.test('a limit that is raised, or an account that is removed, while the audit waits is no disagreement', async t => {
  const { ledger, usage, charge, run, id, store } = await openAuditFixture(t)
  await charge(800)
  await usage.stop()
  await ledger.stop()
  const setCredits = (credits: string) => run(accountsCommand, 'set', 'alice', '--credits', credits)
  await setCredits('799')
  t.match(await run(createAuditCommand(() => setCredits('800'))), { code: 0 })
  await setCredits('799')
  await changeAccount(store, id, { deleteAt: 9 })
  t.match(await run(createAuditCommand(() => store.removeAccount(id, 9))), { code: 0 })
})

t.test('a pipe gets all rows of many accounts: the command ends once they are read', async t => {
  const { dir, store } = await openAuditFixture(t)
  const add = (_: unknown, i: number) => store.addAccount({ id: `acc_${i}`, name: `account${i}`, plan: 'core', created: 1 })
  await Promise.all(Array.from({ length: 3_000 }, add))
  // A pipe of the system: those of Node.js are sockets, which take more at once.
  const command = ['-c', 'env -u NODE_OPTIONS "$0" "$@" | (sleep 1; cat)', process.execPath, mainPath, 'audit', '--json', '--config', dir]
  const child = spawn('sh', command, { stdio: ['ignore', 'pipe', 'inherit'] })
  const [out] = await Promise.all([text(child.stdout), once(child, 'close')])
  t.ok(out.endsWith(']\n'), `${out.length} characters`)
  t.equal((JSON.parse(out) as readonly unknown[]).length, 3_001)
})
