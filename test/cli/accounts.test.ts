import { cp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { accountsCommand } from '../../src/cli/accounts.ts'
import { keysCommand } from '../../src/cli/keys.ts'
import { usageCommand } from '../../src/cli/usage.ts'
import { isWellFormedKey } from '../../src/services/accounts/api-key.ts'
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

t.test('an account gets credits of its own, keeps them on another plan, and gives them up', async t => {
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

t.test('an account is named by its id too', async t => {
  const { json } = await createTestConfigs(t)
  const { id } = (await json(accountsCommand, 'add', 'alice', '--plan', 'core')) as { id: string }
  t.match(await json(accountsCommand, 'set', id, '--plan', 'growth'), { name: 'alice', plan: 'growth' })
  t.match(await json(keysCommand, 'add', id), { account: 'alice' })
})

t.test('people read sentences and tables', async t => {
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

t.test('what cannot be done is one line and exit code 1', async t => {
  const { run } = await createTestConfigs(t)
  await run(accountsCommand, 'add', 'alice', '--plan', 'core')
  const refused = async (...words: string[]) => {
    const { code, out, err } = await run(accountsCommand, ...words)
    t.same([code, out.length, err.length], [1, 0, 1])
    return err[0]?.replace('tollgate: ', '')
  }
  t.equal(await refused('add', 'alice', '--plan', 'core'), 'account "alice" already exists')
  t.equal(await refused('add', 'bo', '--plan', 'gold'), 'unknown plan "gold": expected core or growth')
  t.match(await refused('add', 'bo bo', '--plan', 'core'), /^invalid account name "bo bo": expected 1 to 64 /)
  t.match(await refused('add', 'acc_1', '--plan', 'core'), /^invalid account name "acc_1"/)
  t.equal(await refused('set', 'alcie', '--plan', 'core'), 'unknown account "alcie"; did you mean `alice`?')
  t.equal(await refused('set', 'alice', '--plan', 'gold'), 'unknown plan "gold": expected core or growth')
})

t.test('wrong arguments are a usage error', async t => {
  const misused = async (...words: string[]) => {
    const { code, err } = await runCommand(words.some(word => ['revoke', 'key_1'].includes(word)) ? keysCommand : accountsCommand, words)
    t.equal(code, 64)
    return err[0]
  }
  t.equal(await misused(), 'missing subcommand: expected add, list or set')
  t.equal(await misused('lsit'), 'unknown subcommand "lsit": expected add, list or set; did you mean `list`?')
  t.equal(await misused('constructor'), 'unknown subcommand "constructor": expected add, list or set')
  t.equal(await misused('add', '--plan', 'core'), 'missing argument NAME')
  t.equal(await misused('add', 'alice'), 'missing option --plan PLAN')
  t.equal(await misused('add', 'alice', 'bo', '--plan', 'core'), 'unexpected argument "bo"')
  t.equal(await misused('list', '--plan', 'core'), 'unknown option --plan')
  t.equal(await misused('add', 'alice', '--pln', 'core'), 'unknown option --pln; did you mean `--plan`?')
  t.equal(await misused('add', 'alice', '-p'), 'unknown option -p')
  t.equal(await misused('add', 'alice', '--plan'), '--plan requires a value')
  t.equal(await misused('add', 'alice', '--plan', '--json'), '--plan requires a value')
  t.equal(await misused('list', '--json=yes'), '--json takes no value')
  t.equal(await misused('set', 'alice'), 'nothing to change: expected --plan or --credits')
  for (const credits of ['0', '-1', '1.5', '1e3', '9007199254740992', 'lots', '']) {
    t.equal(
      await misused('set', 'alice', `--credits=${credits}`),
      `--credits must be a number from 1 to 9007199254740991, or \`plan\` for those of the plan, not "${credits}"`,
    )
  }
  t.equal(await misused('revoke'), 'missing argument ID')
  t.equal(await misused('set', 'key_1'), 'nothing to change: expected --networks, --methods or --origins')
})

t.test('a bad configuration is shown with its place, exit code 78', async t => {
  const { dir, run } = await createTestConfigs(t)
  await writeFile(join(dir, 'gateway.yaml'), 'store: lmdb:../data\nplanz: {}\n')
  const { code, out, err } = await run(accountsCommand, 'list')
  t.same([code, out], [78, []])
  t.match(err.join('\n'), /gateway\.yaml:2:1: .*planz/)
})

t.test('a store that cannot be opened is one line and exit code 1', async t => {
  const { dir, run } = await createTestConfigs(t)
  await writeFile(join(dir, '..', 'data'), 'no folder')
  const { code, err } = await run(accountsCommand, 'list')
  t.equal(code, 1)
  t.match(err, [/^tollgate: cannot use .*data as the store's folder: /])
})

t.test('a key is shown once, with what it is good for, and then only by its last characters', async t => {
  const { json, run } = await createTestConfigs(t)
  await run(accountsCommand, 'add', 'alice', '--plan', 'core')
  const lists = { networks: ['devnet', 'base-mainnet'], methods: ['eth_call'], origins: ['https://dapp.test'] }
  const words = ['--networks', 'devnet, base-mainnet', '--methods', 'eth_call', '--origins', 'https://dapp.test']
  const made = (await json(keysCommand, 'add', 'alice', ...words)) as { id: string; key: string; account: string }
  t.ok(isWellFormedKey(made.key))
  t.match(made, { id: /^key_/, account: 'alice', ...lists })
  const listed = await json(keysCommand, 'list', 'alice')
  t.match(listed, [{ id: made.id, account: 'alice', hint: made.key.slice(-4), created: time, ...lists }])
  t.notMatch(JSON.stringify(listed), made.key)
})

t.test('a key for a method that no table has is made all the same, with a warning', async t => {
  const { dir, run } = await createTestConfigs(t)
  await cp('configs/methods', join(dir, 'methods'), { recursive: true })
  await run(accountsCommand, 'add', 'alice', '--plan', 'core')
  const { code, out, err } = await run(keysCommand, 'add', 'alice', '--methods', 'eth_call,eth_getLog,own_method', '--json')
  t.equal(code, 0)
  t.match(JSON.parse(out.join('')), { methods: ['eth_call', 'eth_getLog', 'own_method'] })
  t.same(err, ['warning: no method table has "eth_getLog"; did you mean `eth_getLogs`?', 'warning: no method table has "own_method"'])
})

t.test('a key without lists opens everything', async t => {
  const { json, run } = await createTestConfigs(t)
  await run(accountsCommand, 'add', 'alice', '--plan', 'core')
  const made = (await json(keysCommand, 'add', 'alice')) as object
  t.same(Object.keys(made).sort(), ['account', 'created', 'hint', 'id', 'key'])
})

t.test('a key is revoked by its id', async t => {
  const { json, run } = await createTestConfigs(t)
  await run(accountsCommand, 'add', 'alice', '--plan', 'core')
  const { id } = (await json(keysCommand, 'add', 'alice')) as { id: string }
  const { revoked } = (await json(keysCommand, 'revoke', id)) as { revoked: string }
  t.match(revoked, time)
  t.match(await json(keysCommand, 'list', 'alice'), [{ id, revoked }])
  t.same((await run(keysCommand, 'revoke', id)).out, [`key ${id} of account alice was revoked at ${revoked}`])
})

t.test('the lists of a key are changed by its id, those that are named', async t => {
  const { json, run } = await createTestConfigs(t)
  await run(accountsCommand, 'add', 'alice', '--plan', 'core')
  const made = (await json(keysCommand, 'add', 'alice', '--networks', 'devnet', '--methods', 'eth_call', '--origins', 'all')) as {
    id: string
  }
  t.notOk('origins' in made, '`all` is no list')
  t.same((await run(keysCommand, 'set', made.id, '--networks', 'base-mainnet,devnet')).out, [
    `id        ${made.id}`,
    'account   alice',
    'networks  base-mainnet,devnet',
    'methods   eth_call',
    'origins   all',
  ])
  const opened = (await json(keysCommand, 'set', made.id, '--networks', 'all', '--methods', 'all')) as object
  t.same(Object.keys(opened).sort(), ['account', 'created', 'hint', 'id'])
  t.same(await json(keysCommand, 'list', 'alice'), [opened])
  const refused = async (...words: string[]) => (await run(keysCommand, 'set', ...words)).err[0]
  t.match(await refused('key_9', '--networks', 'all'), /^tollgate: unknown key id "key_9"/)
  t.match(await refused(made.id, '--networks', 'devent'), /unknown network "devent"; did you mean `devnet`\?$/)
  t.match(await refused(made.id, '--origins', 'dapp'), /invalid origin "dapp"/)
  await run(keysCommand, 'revoke', made.id)
  t.match(
    (await run(keysCommand, 'set', made.id, '--networks', 'devnet')).out.at(-1),
    /^This key was revoked at 20\S+: its calls are rejected\.$/,
  )
})

t.test('people see a key with a warning, and lists of keys as tables', async t => {
  const { run } = await createTestConfigs(t)
  await run(accountsCommand, 'add', 'alice', '--plan', 'core')
  t.same((await run(keysCommand, 'list', 'alice')).out, ['no keys yet: tollgate keys add alice'])
  t.match((await run(keysCommand, 'add', 'alice', '--networks', 'devnet')).out, [
    /^key       tg_\w{38}$/,
    /^id        key_\w{12}$/,
    /^account   alice$/,
    /^networks  devnet$/,
    /^methods   all$/,
    /^origins   all$/,
    /^Save the key now/,
  ])
  t.match((await run(keysCommand, 'list', 'alice')).out, [
    /^ID                KEY    NETWORKS  METHODS  ORIGINS  CREATED                   REVOKED$/,
    /^key_\w{12}  …\w{4}  devnet    all      all      20\S+Z$/,
  ])
})

t.test('a key for what does not exist is refused', async t => {
  const { run } = await createTestConfigs(t)
  await run(accountsCommand, 'add', 'alice', '--plan', 'core')
  const refused = async (...words: string[]) => (await run(keysCommand, ...words)).err[0]
  t.equal(await refused('add', 'alice', '--networks', 'devent'), 'tollgate: unknown network "devent"; did you mean `devnet`?')
  t.equal(
    await refused('add', 'alice', '--networks', 'devnet.test'),
    'tollgate: unknown network "devnet.test"; expected base-mainnet or devnet',
  )
  t.equal(await refused('add', 'alice', '--networks', ','), '--networks requires at least one name')
  t.equal(
    await refused('add', 'alice', '--origins', 'https://dapp.test/'),
    'tollgate: invalid origin "https://dapp.test/"; did you mean `https://dapp.test`?',
  )
  t.equal(
    await refused('add', 'alice', '--origins', 'dapp'),
    'tollgate: invalid origin "dapp"; expected an origin such as https://dapp.example',
  )
  t.equal(await refused('list', 'bob'), 'tollgate: unknown account "bob"')
  t.match(await refused('revoke', 'key_1'), /^tollgate: unknown key id "key_1"/)
})
