import type { ChildProcess } from 'node:child_process'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import t from '../support/tap.ts'
import { openQueryProcess } from '../../src/portal/queries/query-process.ts'
import { systemClock } from '../../src/services/clock.ts'
import { openStore } from '../../src/store/open-store.ts'
import { StoreError } from '../../src/store/store.ts'
import { tempFolder } from '../store/temp-store.ts'

/** Every process that this one starts from now on. */
const watchChildren = (onEnd: (end: () => void) => void): readonly ChildProcess[] => {
  const children: ChildProcess[] = []
  const add = (message: unknown) => children.push((message as { readonly process: ChildProcess }).process)
  subscribe('child_process', add)
  onEnd(() => unsubscribe('child_process', add))
  return children
}

t.test('the process of queries', async t => {
  const address = { kind: 'lmdb', path: await tempFolder(t) } as const
  const store = await openStore(address, systemClock)
  const names = Array.from({ length: 20 }, (_, i) => `name ${i}.`)
  for (const [i, name] of names.entries()) await store.addAccount({ id: `acc_${i}`, name, plan: 'core', created: 1 })
  await store.close()
  const children = watchChildren(end => t.teardown(end))
  // Nothing of the queries keeps a process from ending.
  const keepAlive = setInterval(() => undefined, 1_000)
  t.teardown(() => clearInterval(keepAlive))
  const queryProcess = openQueryProcess(address, systemClock)
  t.teardown(() => queryProcess.close())
  const find = async (search: string) => {
    const { accounts } = await queryProcess.queries.accountPage({ search, also: [], sort: 'name', after: '', limit: 10 })
    return accounts.map(({ row }) => row.name)
  }

  await t.test('replies to each of the queries that are made at once', async t => {
    t.same(
      await Promise.all(names.map(find)),
      names.map(name => [name]),
    )
    t.equal(children.length, 1)
  })

  await t.test('that dies fails the query that it has, and the next query starts another one', async t => {
    const pending = find('name 1.')
    children[0]?.kill('SIGKILL')
    await t.rejects(pending, new StoreError('the process of queries failed: it ended with SIGKILL'))
    t.same(await find('name 1.'), ['name 1.'])
    t.equal(children.length, 2)
  })

  await t.test('ends when it is closed', async t => {
    const exit = once(children[1]!, 'exit')
    await queryProcess.close()
    t.same(await exit, [0, null])
  })
})
