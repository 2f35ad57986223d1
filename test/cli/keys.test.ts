import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import t from '../support/tap.ts'
import { isWellFormedKey } from '../../src/services/accounts/api-key.ts'
import { accountsCommand, createTestConfigs, keysCommand } from './run-command.ts'

const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/** What a key has whose settings restrict nothing. */
const unrestricted = {
  project: '',
  networks: [],
  methods: [],
  origins: [],
  ips: [],
  dailyCredits: null,
  rate: null,
  burst: null,
  expires: null,
}

t.test('a key is printed once, with its allowlists, and later only by its last characters', async t => {
  const { json, run } = await createTestConfigs(t)
  await run(accountsCommand, 'add', 'alice', '--plan', 'core')
  const lists = {
    networks: ['devnet', 'base-mainnet'],
    methods: ['eth_call'],
    origins: ['https://dapp.test'],
    ips: ['203.0.113.7', '10.0.0.0/8'],
  }
  const options = [
    '--networks',
    'devnet, base-mainnet',
    '--methods',
    'eth_call',
    '--origins',
    'https://dapp.test',
    '--ips',
    '203.0.113.7,10.0.0.0/8',
  ]
  const added = (await json(keysCommand, 'add', 'alice', ...options)) as { id: string; key: string }
  t.ok(isWellFormedKey(added.key))
  t.match(added, { id: /^key_/, account: { id: /^acc_/, name: 'alice' }, ...lists })
  const listed = await json(keysCommand, 'list', 'alice')
  t.match(listed, [{ id: added.id, account: { name: 'alice' }, hint: added.key.slice(-4), created: time, ...lists }])
  t.notMatch(JSON.stringify(listed), added.key)
})

t.test('a key for a method that no method table has is added with a warning', async t => {
  const { dir, run } = await createTestConfigs(t)
  await cp('configs/methods', join(dir, 'methods'), { recursive: true })
  await run(accountsCommand, 'add', 'alice', '--plan', 'core')
  const { code, out, err } = await run(keysCommand, 'add', 'alice', '--methods', 'eth_call,eth_getLog,own_method', '--json')
  t.equal(code, 0)
  t.match(JSON.parse(out.join('')), { methods: ['eth_call', 'eth_getLog', 'own_method'] })
  t.same(err, ['warning: no method table has "eth_getLog"; did you mean `eth_getLogs`?', 'warning: no method table has "own_method"'])
})

t.test('a key without allowlists may call everything', async t => {
  const { json, run } = await createTestConfigs(t)
  await run(accountsCommand, 'add', 'alice', '--plan', 'core')
  t.match(await json(keysCommand, 'add', 'alice'), { ...unrestricted, state: 'active', suspended: null, revoked: null })
})

t.test('a key has a project until it is empty', async t => {
  const { json, run } = await createTestConfigs(t)
  await run(accountsCommand, 'add', 'alice', '--plan', 'core')
  const { id } = (await json(keysCommand, 'add', 'alice', '--project', 'wallet')) as { id: string }
  t.match((await run(keysCommand, 'list', 'alice')).out.join('\n'), 'wallet')
  t.match(await json(keysCommand, 'list', 'alice'), [{ id, project: 'wallet' }])
  t.match(await json(keysCommand, 'set', id, '--project', ''), { project: '' })
  t.match((await run(keysCommand, 'set', id, '--project', ' wallet')).err.join(), /project must be 1 to \d+ printable characters/)
})

t.test('a key is revoked by its id', async t => {
  const { json, run } = await createTestConfigs(t)
  await run(accountsCommand, 'add', 'alice', '--plan', 'core')
  const { id } = (await json(keysCommand, 'add', 'alice')) as { id: string }
  const { revoked } = (await json(keysCommand, 'revoke', id)) as { revoked: string }
  t.match(revoked, time)
  t.match(await json(keysCommand, 'list', 'alice'), [{ id, revoked }])
  t.same((await run(keysCommand, 'revoke', id)).out, [`key ${id} of account alice: revoked at ${revoked}`])
})

t.test('the given allowlists of a key are changed, by its id', async t => {
  const { json, run } = await createTestConfigs(t)
  await run(accountsCommand, 'add', 'alice', '--plan', 'core')
  const added = (await json(keysCommand, 'add', 'alice', '--networks', 'devnet', '--methods', 'eth_call', '--origins', 'all')) as {
    id: string
  }
  t.match(added, { origins: [] }, '`all` removes the list')
  t.same((await run(keysCommand, 'set', added.id, '--networks', 'base-mainnet,devnet')).out, [
    `id        ${added.id}`,
    'account   alice',
    'networks  base-mainnet,devnet',
    'methods   eth_call',
    'origins   all',
    'ips       all',
    'credits   no limit',
    'rate      no limit',
    'expires   never',
  ])
  const changed = await json(keysCommand, 'set', added.id, '--networks', 'all', '--methods', 'all')
  t.match(changed, unrestricted)
  t.same(await json(keysCommand, 'list', 'alice'), [{ ...(changed as object), usedToday: null, lastUsed: null }])
  const errorOf = async (...args: string[]) => (await run(keysCommand, 'set', ...args)).err[0]
  t.match(await errorOf('key_9', '--networks', 'all'), /^tollgate: unknown key id "key_9"/)
  t.match(await errorOf(added.id, '--networks', 'devent'), /unknown network "devent"; did you mean `devnet`\?$/)
  t.match(await errorOf(added.id, '--origins', 'dapp'), /invalid origin "dapp"/)
  await run(keysCommand, 'revoke', added.id)
  t.match(
    (await run(keysCommand, 'set', added.id, '--networks', 'devnet')).out.at(-1),
    /^Calls with this key are refused: revoked at 20\S+\.$/,
  )
})

t.test('a key has a rate of its own, with a burst; another rate replaces both', async t => {
  const { json, run } = await createTestConfigs(t)
  await run(accountsCommand, 'add', 'alice', '--plan', 'core')
  const { id, ...added } = (await json(keysCommand, 'add', 'alice', '--rate', '10/s', '--burst', '20')) as { id: string }
  t.match(added, { rate: '10/s', burst: 20 })
  t.match((await run(keysCommand, 'list', 'alice')).out[1], /  10\/s, burst 20  /)
  const set = (...args: string[]) => json(keysCommand, 'set', id, ...args) as Promise<object>
  for (const [rate, shown] of [
    ['10/m', '10/m'],
    ['600/m', '10/s'],
    ['7/h', '7/h'],
    ['7201/h', '7201/h'],
  ] as const) {
    const changed = await set('--rate', rate)
    t.match(changed, { rate: shown, burst: null })
  }
  t.match(await json(keysCommand, 'rotate', id), { rate: '7201/h' })
  t.match(await set('--rate', 'none'), { rate: null })
  const errorOf = async (...args: string[]) => (await run(keysCommand, 'set', id, ...args)).err[0]
  t.match(await errorOf('--rate', '10'), /--rate must be a rate such as 100\/s, .*, or `none`, not "10"; 10\/s$/)
  t.match(await errorOf('--rate', '0/s'), /--rate must be a rate/)
  t.match(await errorOf('--burst', '5'), /--burst requires a rate/)
  t.match(await errorOf('--rate', 'none', '--burst', '5'), /--burst requires a rate/)
  t.match(await errorOf('--rate', '10/s', '--burst', '0'), /--burst must be an integer greater than 0, not "0"/)
})

t.test('a key is suspended and resumed by its id', async t => {
  const { json, run } = await createTestConfigs(t)
  await run(accountsCommand, 'add', 'alice', '--plan', 'core')
  const { id } = (await json(keysCommand, 'add', 'alice')) as { id: string }
  t.match(await json(keysCommand, 'suspend', id), { id, suspended: time })
  t.match((await run(keysCommand, 'list', 'alice')).out[1], /  suspended at 20\S+Z$/)
  t.same((await run(keysCommand, 'resume', id)).out, [`key ${id} of account alice: active`])
  t.match(await json(keysCommand, 'list', 'alice'), [{ suspended: null }])
})

t.test('a key expires after a duration, which can be changed', async t => {
  const { json, run } = await createTestConfigs(t)
  await run(accountsCommand, 'add', 'alice', '--plan', 'core')
  const before = Date.now()
  const { id, expires } = (await json(keysCommand, 'add', 'alice', '--expires', '12h')) as { id: string; expires: string }
  const lifetimeMs = Date.parse(expires) - before
  t.ok(lifetimeMs >= 12 * 3_600_000 && lifetimeMs < 12 * 3_600_000 + 10_000)
  t.match(await json(keysCommand, 'set', id, '--expires', 'never'), { expires: null })
  const { err } = await run(keysCommand, 'set', id, '--expires', 'soon')
  t.equal(err[0], '--expires must be a duration such as 30d or 12h, or `never`, not "soon"')
  t.equal((await run(keysCommand, 'add', 'alice', '--expires', '99999999d')).err[0], '--expires must be at most 36500d, not "99999999d"')
  t.equal(((await json(keysCommand, 'list', 'alice')) as object[]).length, 1)
})

t.test('a rotated key has the lists of the old one, which is accepted for the overlap', async t => {
  const { json, run } = await createTestConfigs(t)
  await run(accountsCommand, 'add', 'alice', '--plan', 'core')
  const old = (await json(keysCommand, 'add', 'alice', '--networks', 'devnet')) as { id: string; key: string }
  const created = (await json(keysCommand, 'rotate', old.id, '--overlap', '1h')) as { id: string; key: string }
  t.match(created, { networks: ['devnet'], key: /^tg_/ })
  t.not(created.key, old.key)
  t.match(await json(keysCommand, 'list', 'alice'), [{ id: old.id, expires: time }, { id: created.id }])
  t.match((await run(keysCommand, 'rotate', created.id)).out.at(-1), `The old key ${created.id} is accepted for 1d more.`)
  const late = (await json(keysCommand, 'add', 'alice', '--expires', '30d')) as { id: string }
  await run(keysCommand, 'rotate', late.id, '--overlap', '1h')
  const listed = (await json(keysCommand, 'list', 'alice')) as { id: string; expires?: string }[]
  const expires = Date.parse(listed.find(({ id }) => id === late.id)?.expires ?? '')
  t.ok(expires < Date.now() + 2 * 3_600_000, 'a later end becomes that of the overlap')
  await run(keysCommand, 'revoke', old.id)
  t.match((await run(keysCommand, 'rotate', old.id)).err[0], /^tollgate: key key_\w+ is not active: revoked at 20/)
})

t.test('without --json, a key is printed with a warning, and keys as a table', async t => {
  const { run, dir } = await createTestConfigs(t)
  await run(accountsCommand, 'add', 'alice', '--plan', 'core')
  t.same((await run(keysCommand, 'list', 'alice')).out, [`no keys yet: tollgate keys add alice --config ${dir}`])
  t.match((await run(keysCommand, 'add', 'alice', '--networks', 'devnet', '--name', 'server')).out, [
    /^key       tg_\w{38}$/,
    /^id        key_\w{12}$/,
    /^account   alice$/,
    /^networks  devnet$/,
    /^methods   all$/,
    /^origins   all$/,
    /^ips       all$/,
    /^credits   no limit$/,
    /^rate      no limit$/,
    /^expires   never$/,
    /^Save the key now/,
  ])
  t.match((await run(keysCommand, 'list', 'alice')).out, [
    /^ID                NAME    PROJECT  KEY    NETWORKS  METHODS  ORIGINS  IPS  CREDITS   RATE      EXPIRES  USED TODAY  LAST USED  CREATED     STATE$/,
    /^key_\w{12}  server           …\w{4}  devnet    all      all      all  no limit  no limit  never    -           -          20\d\d-\d\d-\d\d  active$/,
  ])
})

t.test('a key for an unknown account, network or origin is an error', async t => {
  const { run } = await createTestConfigs(t)
  await run(accountsCommand, 'add', 'alice', '--plan', 'core')
  const errorOf = async (...args: string[]) => (await run(keysCommand, ...args)).err[0]
  t.equal(await errorOf('add', 'alice', '--networks', 'devent'), 'tollgate: unknown network "devent"; did you mean `devnet`?')
  t.equal(
    await errorOf('add', 'alice', '--networks', 'devnet.test'),
    'tollgate: unknown network "devnet.test"; expected base-mainnet or devnet',
  )
  t.equal(await errorOf('add', 'alice', '--networks', ','), '--networks requires at least one name')
  t.equal(
    await errorOf('add', 'alice', '--origins', 'https://dapp.test/'),
    'tollgate: invalid origin "https://dapp.test/"; did you mean `https://dapp.test`?',
  )
  t.equal(
    await errorOf('add', 'alice', '--origins', 'dapp'),
    'tollgate: invalid origin "dapp"; expected an origin such as https://dapp.example',
  )
  t.equal(
    await errorOf('add', 'alice', '--ips', '10.0.0.0/33'),
    'tollgate: invalid IP address "10.0.0.0/33"; expected an address or a subnet, such as 203.0.113.7 or 10.0.0.0/8',
  )
  t.match(await errorOf('add', 'alice', '--credits', '0'), /^--credits must be a number from 1 to 9007199254740991, or `none`, not "0"/)
  t.equal(await errorOf('list', 'bob'), 'tollgate: unknown account "bob"; `tollgate accounts list` shows the names')
  t.match(await errorOf('revoke', 'key_1'), /^tollgate: unknown key id "key_1"/)
})
