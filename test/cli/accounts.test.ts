import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from '../support/tap.ts'
import { startWebhookReceiver } from '../support/webhook-receiver.ts'
import { accountsCommand, alertsCommand, changesCommand, createTestConfigs, keysCommand, runCommand, usageCommand } from './run-command.ts'

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
  t.match((await run(accountsCommand, 'list')).out, [/^NAME   PLAN    CREDITS /, /^alice  growth  7000     0            acc_/])
  t.match(await json(accountsCommand, 'set', 'alice', '--credits', '8000'), { plan: 'growth', credits: 8_000 })
  t.match(await json(accountsCommand, 'set', 'alice', '--credits', 'plan'), { credits: null })
  t.match(await json(usageCommand, 'alice'), { limit: 5_000 })
})

t.test('an account is suspended and resumed, and has a label', async t => {
  const { json, run } = await createTestConfigs(t)
  t.match(await json(accountsCommand, 'add', 'alice', '--plan', 'core', '--label', 'customer 7'), { label: 'customer 7' })
  t.match(await json(accountsCommand, 'suspend', 'alice'), { suspended: time, suspensionReason: null })
  t.match((await run(accountsCommand, 'list')).out[1], /^alice  core  plan     0     customer 7  acc_\w+  20\S+Z  suspended at 20/)
  t.match((await run(accountsCommand, 'suspend', 'alice', '--reason', 'Unpaid')).out, [/^account alice: suspended at 20\S+Z: Unpaid$/])
  t.match(await json(accountsCommand, 'suspend', 'alice'), { suspensionReason: 'Unpaid' }, 'a reason stays unless another is given')
  t.same((await run(accountsCommand, 'resume', 'alice')).out, ['account alice: active'])
  t.match((await run(accountsCommand, 'delete', 'alice')).out, [/^account alice: suspended, to be removed at 20\S+Z$/])
  t.match(await json(accountsCommand, 'list'), [{ suspended: time, deleteAt: time }])
  t.match(await json(accountsCommand, 'delete', 'alice'), { deleteAt: time })
  t.same((await run(accountsCommand, 'resume', 'alice')).out, ['account alice: active'])
  const setLabel = async (...args: string[]) => (await run(accountsCommand, 'set', 'alice', '--label', ...args)).out
  t.same(await setLabel('customer 8'), ['account alice has the label "customer 8" now'])
  t.same(await setLabel('customer 9', '--plan', 'growth'), ['account alice is on plan growth and has the label "customer 9" now'])
  t.same(await setLabel(''), ['account alice has no label now'])
  const resumed = await json(accountsCommand, 'set', 'alice', '--label', '')
  t.match(resumed, {
    name: 'alice',
    plan: 'growth',
    credits: null,
    label: null,
    suspended: null,
    suspensionReason: null,
    deleteAt: null,
    created: time,
  })
  for (const label of ['x'.repeat(201), 'two\u2028lines', '\u202egpj.a']) {
    t.match((await run(accountsCommand, 'set', 'alice', '--label', label)).err[0], /^--label must be a text of at most 200 printable/)
  }
})

t.test('alerts are shown, set and tried, by the rules of the API', async t => {
  const { dir, json, run } = await createTestConfigs(t)
  const receiver = await startWebhookReceiver()
  t.teardown(() => receiver.stop())
  const url = `${receiver.url}/of-alice`
  await json(accountsCommand, 'add', 'alice', '--plan', 'core')
  t.match(await json(alertsCommand, 'show', 'alice'), { webhook: null, email: false, daily: [75, 85, 100], deliveries: [] })
  t.match(await json(alertsCommand, 'set', 'alice', '--daily', '90,50,90', '--monthly', 'none'), { daily: [50, 90], monthly: [] })
  t.match(await run(alertsCommand, 'test', 'alice'), { code: 1, err: [/the account has no webhook/] })
  const rates = ['--error-rate', '5', '--latency', 'none', '--window', '30', '--min-calls', '200']
  t.match(await json(alertsCommand, 'set', 'alice', ...rates), { errorRate: 5, latency: 0, window: 30, minCalls: 200 })
  const { code, out } = await run(alertsCommand, 'set', 'alice', '--webhook', url)
  const fields = [
    /^daily +50 %, 90 %$/,
    /^monthly +none$/,
    /^keys, daily +none$/,
    /^error rate +5 % of 30 min with at least 200 calls$/,
    /^latency +none$/,
    /^networks +none$/,
    /^email +off$/,
    `webhook      ${url}`,
  ]
  t.match({ code, out }, { code: 0, out: [...fields, /^No alerts are sent: .* set `listen.portal`/, /shown again/, /^whsec_/] })
  t.match(await run(alertsCommand, 'test', 'alice'), { code: 1, err: [/address of the webhook is private/] })
  await writeFile(
    join(dir, 'gateway.yaml'),
    'store: lmdb:../data\nlisten: { rpc: 127.0.0.1:0, portal: 127.0.0.1:0 }\nportal: { webhooks: { allow: [127.0.0.1] } }\nplans: { core: { dailyCredits: 1000 } }\n',
  )
  t.match(await json(alertsCommand, 'test', 'alice'), { isDelivered: true, status: 'HTTP 204' })
  t.match(receiver.received, [{ json: { type: 'test', data: { account: { name: 'alice' } } } }])
  t.match(await json(alertsCommand, 'set', 'alice', '--webhook', 'none'), { webhook: null })
  const changes = JSON.stringify(await json(changesCommand, '--from', '2020-01-01', '--account', 'alice'))
  t.match(changes, /alerts-changed/)
  t.notMatch(changes, /of-alice|whsec_/)
  const cases: readonly (readonly [args: readonly string[], code: number, message: RegExp])[] = [
    [
      [],
      64,
      /^nothing to change: expected --daily, --monthly, --key-daily, --error-rate, --latency, --window, --min-calls, --networks, --email or --webhook$/,
    ],
    [['--daily', '50,0'], 64, /^--daily: each item must be an integer from 1 to 100$/],
    [['--monthly', '101'], 64, /^--monthly: each item must be/],
    [['--daily', '1,2,3,4,5,6,7,8,9,10,11'], 64, /^--daily must be a list of at most 10 items$/],
    [['--daily', '1,,2'], 64, /^--daily: each item must be/],
    [['--error-rate', '101'], 64, /^--error-rate must be a number from 1 to 100, or `none`/],
    [['--min-calls', '9'], 64, /^--min-calls must be a number from 10 to/],
    [['--email', 'yes'], 64, /^--email must be on or off, not "yes"$/],
    [['--webhook', 'ftp://example.org'], 64, /^--webhook must be a URL such as .*, or `none`$/],
    [['--webhook', 'https://u:password@example.org'], 64, /^--webhook must be a URL [^@]*$/],
    [['--email', 'on'], 1, /email cannot be set: this gateway has no mail server/],
  ]
  for (const [args, exitCode, message] of cases) {
    t.match(await run(alertsCommand, 'set', 'alice', ...args), { code: exitCode, err: [message] }, args.join(' '))
  }
})

t.test('the log of changes says who changed what, in order, and never a key', async t => {
  const { json, run } = await createTestConfigs(t)
  t.match((await run(changesCommand)).out, [/^no changes in \d{4}-\d\d$/])
  await json(accountsCommand, 'add', 'alice', '--plan', 'core', '--credits', '7000')
  await json(accountsCommand, 'add', 'bo', '--plan', 'core')
  await json(accountsCommand, 'set', 'alice', '--plan', 'growth', '--credits', 'plan')
  await json(accountsCommand, 'suspend', 'alice')
  const { id, key } = (await json(keysCommand, 'add', 'alice', '--networks', 'devnet')) as { id: string; key: string }
  await json(keysCommand, 'set', id, '--networks', 'all', '--credits', '5')
  const { id: rotated } = (await json(keysCommand, 'rotate', id)) as { id: string }
  await json(keysCommand, 'revoke', id)
  const changes = (await json(changesCommand, '--from', '2020-01-01', '--account', 'alice')) as object[]
  const by = { kind: 'command', name: /^.+@.+$/ }
  t.match(changes, [
    { time, by, action: 'account-added', account: { id: /^acc_/, name: 'alice' }, after: { plan: 'core', credits: 7_000 } },
    { action: 'account-changed', before: { plan: 'core', credits: 7_000 }, after: { plan: 'growth', credits: null } },
    { action: 'account-changed', before: { suspended: null }, after: { suspended: /^20\S+Z$/ } },
    { action: 'key-created', target: id, account: { name: 'alice' }, after: { networks: ['devnet'] } },
    { action: 'key-changed', target: id, after: { networks: null, dailyCredits: 5 } },
    { action: 'key-created', target: rotated, after: { rotated: id } },
    { action: 'key-revoked', target: id, by },
  ])
  t.equal(changes.length, 7)
  t.equal(((await json(changesCommand, '--from', '2020-01-01')) as object[]).length, 8)
  t.notMatch(JSON.stringify(changes), key)
  const { out } = await run(changesCommand, '--from', '2020-01-01', '--csv', '--account', 'bo')
  t.match(out, ['time,by,action,account,target,before,after', /^20\S+Z,command .+@.+,account-added,bo,,,"\{""plan"":""core""\}"$/])
  t.match((await run(changesCommand, '--from', '2020-01-01')).out[0], /^TIME +BY +ACTION/)
  t.same((await run(changesCommand, '--month', '2020-01')).out, ['no changes in 2020-01'])
  t.match((await run(changesCommand, '--month', 'May')).err[0], /^--month must be a month such as 2026-01, not "May"/)
})

t.test('an account can be named by its id', async t => {
  const { json } = await createTestConfigs(t)
  const { id } = (await json(accountsCommand, 'add', 'alice', '--plan', 'core')) as { id: string }
  t.match(await json(accountsCommand, 'set', id, '--plan', 'growth'), { name: 'alice', plan: 'growth' })
  t.match(await json(keysCommand, 'add', id), { account: { id, name: 'alice' } })
})

t.test('without --json, sentences and tables are printed', async t => {
  const { run, dir } = await createTestConfigs(t)
  t.same((await run(accountsCommand, 'list')).out, [`no accounts yet: tollgate accounts add NAME --plan PLAN --config ${dir}`])
  const added = await run(accountsCommand, 'add', 'bo', '--plan', 'growth')
  t.match(added, { code: 0, out: [/^added account bo \(acc_\w{12}\) on plan growth$/], err: [] })
  await run(accountsCommand, 'add', 'alice', '--plan', 'core')
  t.match((await run(accountsCommand, 'list')).out, [
    /^NAME   PLAN    CREDITS  USED  LABEL  ID                CREATED                   STATE$/,
    /^alice  core    plan     0            acc_\w{12}  20\S+Z  active$/,
    /^bo     growth  plan     0            acc_\w{12}  20\S+Z  active$/,
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
  t.equal(await usageErrorOf(), 'missing subcommand: expected add, list, show, set, suspend, resume, delete, link, apply or export')
  t.equal(
    await usageErrorOf('lsit'),
    'unknown subcommand "lsit": expected add, list, show, set, suspend, resume, delete, link, apply or export; did you mean `list`?',
  )
  t.equal(
    await usageErrorOf('constructor'),
    'unknown subcommand "constructor": expected add, list, show, set, suspend, resume, delete, link, apply or export',
  )
  t.equal(await usageErrorOf('add', '--plan', 'core'), 'missing argument NAME')
  t.equal(await usageErrorOf('add', 'alice'), 'missing option --plan PLAN')
  t.equal(await usageErrorOf('add', 'alice', 'bo', '--plan', 'core'), 'unexpected argument "bo"')
  t.equal(await usageErrorOf('list', '--plan', 'core'), 'unknown option --plan')
  t.equal(await usageErrorOf('add', 'alice', '--pln', 'core'), 'unknown option --pln; did you mean `--plan`?')
  t.equal(await usageErrorOf('add', 'alice', '-p'), 'unknown option -p')
  t.equal(await usageErrorOf('add', 'alice', '--plan'), '--plan requires a value')
  t.equal(await usageErrorOf('add', 'alice', '--plan', '--json'), '--plan requires a value')
  t.equal(await usageErrorOf('list', '--json=yes'), '--json takes no value')
  t.equal(await usageErrorOf('set', 'alice'), 'nothing to change: expected --plan, --credits or --label')
  for (const credits of ['0', '-1', '1.5', '1e3', '9007199254740992', 'lots', '']) {
    t.equal(
      await usageErrorOf('set', 'alice', `--credits=${credits}`),
      `--credits must be a number from 1 to 9007199254740991, or \`plan\`, not "${credits}"`,
    )
  }
  t.equal(await usageErrorOf('revoke'), 'missing argument ID')
  t.equal(
    await usageErrorOf('set', 'key_1'),
    'nothing to change: expected --name, --project, --networks, --methods, --origins, --ips, --credits, --rate, --expires or --verify',
  )
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
  await mkdir(join(dir, '..', 'data', 'data.mdb'), { recursive: true })
  const { code, err } = await run(accountsCommand, 'list')
  t.equal(code, 1)
  t.match(err, [/^tollgate: cannot open the store in .*data: Is a directory/])
})
