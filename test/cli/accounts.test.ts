import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { accountsCommand } from '../../src/cli/accounts.ts'
import { keysCommand } from '../../src/cli/keys.ts'
import { usageCommand } from '../../src/cli/usage.ts'
import { runCommand, createTestConfigs } from './run-command.ts'

const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

t.test('an account is added, listed, and moved to another plan', async t => {
  const { json } = await createTestConfigs(t)
  const alice = { id: /^acc_/, name: 'alice', plan: 'core', created: time }
  t.match(await json(accountsCommand, 'add', 'alice', '--plan', 'core'), alice)
  t.match(await json(accountsCommand, 'list'), [alice])
  t.match(await json(accountsCommand, 'set', 'alice', '--plan', 'growth'), { ...alice, plan: 'growth' })
  t.match(await json(accountsCommand, 'list'), [{ ...alice, plan: 'growth' }])
})

t.test('an account can have its own credits, which stay when its plan changes, until they are removed', async t => {
  const { json, run } = await createTestConfigs(t)
  t.match(await json(accountsCommand, 'add', 'alice', '--plan', 'core', '--credits', '7000'), { plan: 'core', credits: 7_000 })
  t.match(await json(usageCommand, 'alice'), { plan: 'core', limit: 7_000, left: 7_000 })
  t.same((await run(accountsCommand, 'set', 'alice', '--plan', 'growth')).out, [
    'account alice is on plan growth, with 7000 credits a day of its own now',
  ])
  t.match((await run(accountsCommand, 'list')).out, [/^NAME   PLAN    CREDITS/, /^alice  growth  7000     acc_/])
  t.match(await json(accountsCommand, 'set', 'alice', '--credits', '8000'), { plan: 'growth', credits: 8_000 })
  t.notOk('credits' in ((await json(accountsCommand, 'set', 'alice', '--credits', 'plan')) as object))
  t.match(await json(usageCommand, 'alice'), { limit: 5_000 })
})

t.test('an account can be named by its id', async t => {
  const { json } = await createTestConfigs(t)
  const { id } = (await json(accountsCommand, 'add', 'alice', '--plan', 'core')) as { id: string }
  t.match(await json(accountsCommand, 'set', id, '--plan', 'growth'), { name: 'alice', plan: 'growth' })
  t.match(await json(keysCommand, 'add', id), { account: 'alice' })
})

t.test('without --json, sentences and tables are printed', async t => {
  const { run } = await createTestConfigs(t)
  t.same((await run(accountsCommand, 'list')).out, ['no accounts yet: tollgate accounts add NAME --plan PLAN'])
  const added = await run(accountsCommand, 'add', 'bo', '--plan', 'growth')
  t.match(added, { code: 0, out: [/^added account bo \(acc_\w{12}\) on plan growth$/], err: [] })
  await run(accountsCommand, 'add', 'alice', '--plan', 'core')
  t.match((await run(accountsCommand, 'list')).out, [
    /^NAME   PLAN    CREDITS  ID                CREATED$/,
    /^alice  core    plan     acc_\w{12}  20/,
    /^bo     growth  plan     acc_\w{12}  20/,
  ])
  t.same((await run(accountsCommand, 'set', 'bo', '--plan', 'core')).out, ['account bo is on plan core now'])
})

t.test('a command that cannot be carried out prints one line and exits with 1', async t => {
  const { run } = await createTestConfigs(t)
  await run(accountsCommand, 'add', 'alice', '--plan', 'core')
  const errorOf = async (...args: string[]) => {
    const { code, out, err } = await run(accountsCommand, ...args)
    t.same([code, out.length, err.length], [1, 0, 1])
    return err[0]?.replace('tollgate: ', '')
  }
  t.equal(await errorOf('add', 'alice', '--plan', 'core'), 'account "alice" already exists')
  t.equal(await errorOf('add', 'bo', '--plan', 'gold'), 'unknown plan "gold": expected core or growth')
  t.match(await errorOf('add', 'bo bo', '--plan', 'core'), /^invalid account name "bo bo": expected 1 to 64 /)
  t.match(await errorOf('add', 'acc_1', '--plan', 'core'), /^invalid account name "acc_1"/)
  t.equal(await errorOf('set', 'alcie', '--plan', 'core'), 'unknown account "alcie"; did you mean `alice`?')
  t.equal(await errorOf('set', 'alice', '--plan', 'gold'), 'unknown plan "gold": expected core or growth')
})

t.test('wrong arguments are a usage error', async t => {
  const usageErrorOf = async (...args: string[]) => {
    const { code, err } = await runCommand(args.some(arg => ['revoke', 'key_1'].includes(arg)) ? keysCommand : accountsCommand, args)
    t.equal(code, 64)
    return err[0]
  }
  t.equal(await usageErrorOf(), 'missing subcommand: expected add, list, set or link')
  t.equal(await usageErrorOf('lsit'), 'unknown subcommand "lsit": expected add, list, set or link; did you mean `list`?')
  t.equal(await usageErrorOf('constructor'), 'unknown subcommand "constructor": expected add, list, set or link')
  t.equal(await usageErrorOf('add', '--plan', 'core'), 'missing argument NAME')
  t.equal(await usageErrorOf('add', 'alice'), 'missing option --plan PLAN')
  t.equal(await usageErrorOf('add', 'alice', 'bo', '--plan', 'core'), 'unexpected argument "bo"')
  t.equal(await usageErrorOf('list', '--plan', 'core'), 'unknown option --plan')
  t.equal(await usageErrorOf('add', 'alice', '--pln', 'core'), 'unknown option --pln; did you mean `--plan`?')
  t.equal(await usageErrorOf('add', 'alice', '-p'), 'unknown option -p')
  t.equal(await usageErrorOf('add', 'alice', '--plan'), '--plan requires a value')
  t.equal(await usageErrorOf('add', 'alice', '--plan', '--json'), '--plan requires a value')
  t.equal(await usageErrorOf('list', '--json=yes'), '--json takes no value')
  t.equal(await usageErrorOf('set', 'alice'), 'nothing to change: expected --plan or --credits')
  for (const credits of ['0', '-1', '1.5', '1e3', '9007199254740992', 'lots', '']) {
    t.equal(
      await usageErrorOf('set', 'alice', `--credits=${credits}`),
      `--credits must be a number from 1 to 9007199254740991, or \`plan\`, not "${credits}"`,
    )
  }
  t.equal(await usageErrorOf('revoke'), 'missing argument ID')
  t.equal(await usageErrorOf('set', 'key_1'), 'nothing to change: expected --networks, --methods, --origins, --ips, --credits or --expires')
})

t.test('a problem of the configuration is reported with its location, exit code 78', async t => {
  const { dir, run } = await createTestConfigs(t)
  await writeFile(join(dir, 'gateway.yaml'), 'store: lmdb:../data\nplanz: {}\n')
  const { code, out, err } = await run(accountsCommand, 'list')
  t.same([code, out], [78, []])
  t.match(err.join('\n'), /gateway\.yaml:2:1: .*planz/)
})

t.test('a store that cannot be opened is reported in one line, exit code 1', async t => {
  const { dir, run } = await createTestConfigs(t)
  await writeFile(join(dir, '..', 'data'), 'no folder')
  const { code, err } = await run(accountsCommand, 'list')
  t.equal(code, 1)
  t.match(err, [/^tollgate: cannot use .*data as the store's folder: /])
})
